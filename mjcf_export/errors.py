"""Errors a user can act on; each carries the exit code of the command that raises it."""


class Real2GymError(Exception):
    """Base of every error meant for the user: names the thing, what was expected, what to do."""

    exit_code = 4


class InputError(Real2GymError):
    """The user's input cannot be used as it is."""

    exit_code = 2


class MissingError(Real2GymError):
    """This machine lacks something: a package, a library, weights, Blender, disk space."""

    exit_code = 3
