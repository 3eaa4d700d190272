"""A URDF file read and checked: one tree of links and joints, every mistake one named error."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

from mjcf_export.errors import InputError
from mjcf_export.urdf_elements import ElementReader, Joint, Link, read_materials
from mjcf_export.urdf_paths import allowed_folder


@dataclass
class Urdf:
    """A checked kinematic tree; `joints` are in order from the root outwards."""

    name: str
    path: Path
    root: str
    links: dict[str, Link]
    joints: list[Joint]
    notes: list[str] = field(default_factory=list)

    def children(self, link: str) -> list[Joint]:
        """Joints whose parent is `link`."""
        return [joint for joint in self.joints if joint.parent == link]

    def rigid_group(self, link: str) -> list[str]:
        """`link` and every link that fixed joints carry with it, outwards."""
        group = [link]
        for member in group:
            group += [joint.child for joint in self.children(member) if not joint.moving]
        return group


def read_urdf(path: Path, root: Path | None = None) -> Urdf:
    """Read and check a URDF.

    Args:
        path: the file.
        root: the folder no mesh may lie outside of; by default the ROS workspace or folder of the file.

    Raises:
        InputError: anything wrong with it; the message names the element, what was expected and what to do.
    """
    tree = _parse_xml(path)
    folder = allowed_folder(path, root)
    reader = ElementReader(path, folder, read_materials(tree, path))
    links = [reader.link(item) for item in tree.findall("link")]
    joints = [reader.joint(item) for item in tree.findall("joint")]
    if not links:
        raise InputError(f"{path}: has no links; expected a URDF robot")
    _unique(path, "link", [link.name for link in links])
    _unique(path, "joint", [joint.name for joint in joints])
    by_name = {link.name: link for link in links}
    base, ordered = _order(path, by_name, joints)
    robot = Urdf(tree.get("name") or path.stem, path, base, by_name, ordered)
    _check_mimics(robot)
    _check_masses(robot)
    return robot


def _parse_xml(path: Path) -> ET.Element:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise InputError(f"{path}: declares a document type or entities, which a URDF does not need; remove them")
    try:
        tree = ET.fromstring(text)
    except ET.ParseError as error:
        raise InputError(f"{path}: not well-formed XML ({error})") from error
    if tree.tag != "robot":
        raise InputError(f"{path}: the root element is <{tree.tag}>, a URDF has <robot>")
    if any("xacro" in item.tag for item in tree.iter() if isinstance(item.tag, str)):
        raise InputError(f"{path}: is a xacro file; expand it first: `xacro {path.name} > {path.stem}.urdf`")
    return tree


def _unique(path: Path, kind: str, names: list[str]) -> None:
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"{path}: {kind} names used twice: {', '.join(doubled)}; make them unique")


def _order(path: Path, links: dict[str, Link], joints: list[Joint]) -> tuple[str, list[Joint]]:
    """Root link and the joints from it outwards; refuses anything that is not one tree."""
    parents: dict[str, Joint] = {}
    for joint in joints:
        for end in (joint.parent, joint.child):
            if end not in links:
                raise InputError(f"{path}: joint {joint.name}: link {end} does not exist; there are {_some(links)}")
        if joint.child in parents:
            raise InputError(
                f"{path}: link {joint.child} is the child of two joints, {parents[joint.child].name} and "
                f"{joint.name}; a URDF is a tree (close loops with a mimic joint)"
            )
        parents[joint.child] = joint
    roots = [name for name in links if name not in parents]
    if not roots:
        raise InputError(f"{path}: joints form a cycle: {' -> '.join(_cycle(next(iter(links)), parents))}")
    ordered: list[Joint] = []
    reached = [roots[0]]
    for link in reached:
        outward = [joint for joint in joints if joint.parent == link]
        ordered += outward
        reached += [joint.child for joint in outward]
    lost = [name for name in links if name not in reached]
    if lost and len(roots) == 1:
        raise InputError(f"{path}: joints form a cycle: {' -> '.join(_cycle(lost[0], parents))}")
    if lost:
        raise InputError(f"{path}: has {len(roots)} root links ({', '.join(roots)}); connect them with fixed joints")
    return roots[0], ordered


def _cycle(link: str, parents: dict[str, Joint]) -> list[str]:
    seen = [link]
    while (link := parents[link].parent) not in seen:
        seen.append(link)
    return [*seen[seen.index(link) :], link][::-1]


def _some(names: dict[str, Link]) -> str:
    return ", ".join(list(names)[:12]) + (" …" if len(names) > 12 else "")


def _check_mimics(robot: Urdf) -> None:
    moving = {joint.name: joint for joint in robot.joints if joint.moving}
    for joint in moving.values():
        if joint.mimic is None:
            continue
        leader = joint.mimic[0]
        if leader not in moving:
            raise InputError(f"{robot.path}: joint {joint.name}: mimics {leader!r}, which is no moving joint")
        if moving[leader].mimic is not None:
            raise InputError(
                f"{robot.path}: joint {joint.name}: mimics {leader}, which itself mimics another; name the driven joint"
            )


def _check_masses(robot: Urdf) -> None:
    """Every group of links that moves as one must have mass, or a shape to assume it from."""
    for joint in robot.joints:
        group = [robot.links[name] for name in robot.rigid_group(joint.child)]
        if joint.moving and not any(link.inertia or link.collisions for link in group):
            raise InputError(
                f"{robot.path}: link {joint.child}: moves on joint {joint.name} but has no mass and no "
                "collision shape to assume it from; give it an <inertial> with mass and inertia"
            )
