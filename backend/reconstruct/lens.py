"""A view as reconstruction needs it: intrinsics, distortion and pose, with the name of its source."""

from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.demonstration import Trust
from mjcf_export.frames import Array, apply, inverse, rays
from mjcf_export.scene import Camera, Pose

FROZEN: tuple[Trust, ...] = ("measured", "calibrated")


@dataclass(frozen=True)
class Lens:
    """One static camera: pixels `(u, v)` have integer coordinates at pixel centres."""

    name: str
    size: tuple[int, int]
    intrinsics: Array
    pose: Array
    distortion: tuple[float, ...] = ()
    trust: Trust = "measured"
    intrinsics_trust: Trust = "measured"
    scale: Trust = "measured"

    @property
    def frozen(self) -> bool:
        """Whether the pose was measured and must not be touched."""
        return self.trust in FROZEN

    def at(self, pose: Array, trust: Trust | None = None) -> "Lens":
        """The same camera elsewhere."""
        return replace(self, pose=pose, trust=trust or self.trust)

    def project(self, points: Array) -> tuple[Array, Array]:
        """Pixels `(N, 2)` and optical depths `(N,)` of world points `(N, 3)`."""
        local = apply(inverse(self.pose), points)
        depth = np.where(np.abs(local[:, 2]) < 1e-6, 1e-6, local[:, 2])
        flat = local[:, :2] / depth[:, None]
        if self.distortion:
            flat = distort(flat, self.distortion)
        return flat @ self.intrinsics[:2, :2].T + self.intrinsics[:2, 2], local[:, 2]

    def rays(self, pixels: Array) -> tuple[Array, Array]:
        """Origin `(3,)` and unit directions `(N, 3)` in the world through pixels `(N, 2)`."""
        points = np.atleast_2d(np.asarray(pixels, dtype=np.float64))
        if self.distortion:
            points = cv2.undistortPoints(
                points[:, None], self.intrinsics, np.array(self.distortion), P=self.intrinsics
            )[:, 0]
        return rays(points, self.intrinsics, self.pose)

    def on_plane(self, pixels: Array, height: float) -> Array:
        """World points `(N, 3)` where the rays of pixels meet the plane `z = height`; NaN where they do not."""
        origin, directions = self.rays(pixels)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = (height - origin[2]) / directions[:, 2]
        distance = np.where(distance > 0, distance, np.nan)
        points: Array = origin + directions * distance[:, None]
        return points

    def pixel_size(self, point: npt.ArrayLike) -> float:
        """Metres that one pixel spans at a world point."""
        depth = float(self.project(np.atleast_2d(np.asarray(point, dtype=np.float64)))[1][0])
        return max(depth, 1e-3) / float(np.sqrt(self.intrinsics[0, 0] * self.intrinsics[1, 1]))

    def camera(self) -> Camera:
        """The camera of the scene document."""
        rows = [tuple(float(v) for v in row) for row in self.intrinsics]
        return Camera(
            name=self.name,
            width=self.size[0],
            height=self.size[1],
            intrinsics=(rows[0], rows[1], rows[2]),
            distortion=self.distortion,
            pose=Pose.from_matrix(self.pose),
            provenance={"pose": self.trust, "intrinsics": self.intrinsics_trust, **self._scale()},
        )

    def _scale(self) -> dict[str, Trust]:
        """Where the world's scale came from, when not from measured cameras."""
        return {} if self.scale == "measured" else {"scale": self.scale}

    @classmethod
    def of(cls, camera: Camera) -> "Lens":
        """The lens of a scene's camera."""
        return cls(
            name=camera.name,
            size=(camera.width, camera.height),
            intrinsics=camera.matrix,
            pose=camera.pose.matrix,
            distortion=camera.distortion,
            trust=_trust(camera.provenance.get("pose", "measured")),
            intrinsics_trust=_trust(camera.provenance.get("intrinsics", "measured")),
            scale=_trust(camera.provenance.get("scale", "measured")),
        )


def _trust(provenance: str) -> Trust:
    return provenance if provenance in ("measured", "calibrated", "estimated", "assumed") else "measured"  # type: ignore[return-value]


def distort(flat: Array, coefficients: tuple[float, ...]) -> Array:
    """OpenCV's lens distortion of normalised image points `(N, 2)`."""
    points = np.column_stack([flat, np.ones(len(flat))])
    moved = cv2.projectPoints(points[:, None], np.zeros(3), np.zeros(3), np.eye(3), np.array(coefficients))[0]
    return np.asarray(moved[:, 0], dtype=np.float64)
