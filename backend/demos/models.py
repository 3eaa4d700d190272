"""The robot model of a recording that does not say, or says a robot that nobody knows."""

from backend.demos.states import arm_limits
from backend.documents.demonstration import Demonstration, DemoRobot
from mjcf_export.errors import InputError


def with_known_robots(demo: Demonstration, robot: str | None) -> Demonstration:
    """The demonstration with every recorded robot's model known.

    A data set names its robot in words of its own. Where these mean no model, `robot` is the one that recorded it.

    Args:
        demo: as loaded.
        robot: what the user gave as `--robot`.

    Raises:
        InputError: a model is not known and `robot` is not given.
    """
    unknown = [item for item in demo.robots if item.states is not None and not _known(demo, item)]
    if not unknown:
        return demo
    names = ", ".join(f"{item.name} ({item.model})" for item in unknown)
    if robot is None:
        raise InputError(
            f"no model is known of the robot that recorded this: {names}; give it with --robot: a known name "
            "(`real2gym doctor` lists them) or the path of its URDF or MJCF"
        )
    robots = tuple(item.model_copy(update={"model": robot}) if item in unknown else item for item in demo.robots)
    note = f"robot: model {robot} is assumed for {names}, as --robot says"
    return demo.model_copy(update={"robots": robots, "notes": (*demo.notes, note)})


def _known(demo: Demonstration, robot: DemoRobot) -> bool:
    try:
        arm_limits(robot.model, demo.root)
    except InputError:
        return False
    return True
