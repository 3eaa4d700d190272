"""One loader per input format, and the frames of their videos."""
