"""Reading a predicate in any of the forms a user writes it."""

from typing import Any

from mjcf_export.scene import Predicate


def parse_predicate(raw: Any) -> Predicate:
    """A `Predicate` from `["inside", "block", "cup"]`, from its own JSON form, or unchanged.

    Raises:
        ValueError: the form or the name is not known.
    """
    if isinstance(raw, Predicate):
        return raw
    if isinstance(raw, dict):
        return Predicate.model_validate(raw)
    if isinstance(raw, list | tuple) and raw and isinstance(raw[0], str):
        return Predicate.model_validate({"name": raw[0], "args": tuple(raw[1:])})
    raise ValueError(f'a predicate is written ["inside", "block", "cup"], not {raw!r}')
