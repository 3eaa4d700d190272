"""The documents a run is made of; pure pydantic and numpy."""
