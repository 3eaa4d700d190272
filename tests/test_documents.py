"""Documents: validation messages, versions, atomic writes, hashes, paths that leave their folder."""

import os
from pathlib import Path

import numpy as np
import pytest

from backend.documents.demonstration import Demonstration
from backend.documents.observations import Masks
from backend.documents.schemas import DOCUMENTS
from mjcf_export.document import atomic_path, hash_files, load_arrays, resolve_inside, save_arrays
from mjcf_export.errors import InputError, MissingError
from mjcf_export.frames import look_at, matrix_quaternion, project, quaternion_matrix, rays, rotation_angle
from mjcf_export.scene import Body, Box, Lathe, Pose, Predicate, Scene


def cup() -> Body:
    return Body(
        name="cup",
        roles=("container",),
        shape=Lathe(outer=((0.03, 0.0), (0.04, 0.1)), inner=((0.027, 0.004), (0.037, 0.1))),
        pose=Pose(position=(0.5, -0.1, 0.02), quaternion=(0.6, 0.0, 0.0, 0.8)),
    )


def test_scene_survives_the_disk_and_refuses_another_version(tmp_path: Path) -> None:
    scene = Scene(name="s", bodies=(cup(), Body(name="table", roles=("support",), shape=Box(size=(1, 1, 0.05)))))
    path = tmp_path / "scene.json"
    scene.save(path)
    assert Scene.load(path) == scene
    assert scene.body("table").static
    assert not scene.body("cup").static
    path.write_text(path.read_text().replace('"version": 1', '"version": 7', 1))
    with pytest.raises(InputError, match="version 7, this release reads version 1"):
        Scene.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pose": {"quaternion": [1, 1, 0, 0]}}, "unit length"),
        ({"shape": {"kind": "box", "size": [0.1, -1, 0.1]}}, "greater than 0"),
        ({"shape": {"kind": "box", "size": [0.1, float("inf"), 0.1]}}, "finite"),
        (
            {"shape": {"kind": "lathe", "outer": [[0.03, 0], [0.03, 0.1]], "inner": [[0.03, 0.01], [0.03, 0.1]]}},
            "inside",
        ),
        ({"shape": {"kind": "tray", "size": [0.1, 0.1, 0.05], "wall": 0.05, "floor": 0.01}}, "cavity"),
        ({"material": "gold"}, "unknown material gold"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_bad_bodies_are_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    raw = Scene(bodies=(cup(),)).model_dump(mode="json")
    raw["bodies"][0].update(change)
    with pytest.raises(InputError, match=message):
        Scene.parse(raw, tmp_path / "scene.json")


def test_predicates_are_read_as_users_write_them() -> None:
    demo = Demonstration.model_validate(
        {
            "views": [{"name": "a", "video": "a.mp4"}],
            "predicates": [["inside", "block", "cup"], ["lifted", "block", 0.05]],
        }
    )
    assert demo.predicates[0] == Predicate(name="inside", args=("block", "cup"))
    assert str(demo.predicates[1]) == "lifted(block, 0.05)"
    with pytest.raises(ValueError, match="unknown view b"):
        Demonstration.model_validate(
            {
                "views": [{"name": "a", "video": "a.mp4"}],
                "objects": [{"name": "x", "prompts": [{"view": "b", "box": [0, 0, 1, 1]}]}],
            }
        )


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(path) as temporary:
        temporary.write_text("half")
        _ = 1 / 0
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_full_disk_is_named() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with (
        pytest.raises(MissingError, match="disk is full"),
        atomic_path(Path("/tmp/r2g_full.json")),
        full.open("wb") as sink,
    ):
        sink.write(b"x" * 100)
        sink.flush()


def test_masks_and_arrays_round_trip_and_corruption_is_named(tmp_path: Path) -> None:
    mask = np.random.default_rng(1).random((3, 5, 13)) > 0.5
    path = tmp_path / "masks.npz"
    Masks.of({"mask/a/cup": mask}).save(path)
    loaded = Masks.load(path)
    assert loaded.keys() == ["mask/a/cup"]
    assert (loaded["mask/a/cup"] == mask).all()
    assert (loaded.frame("mask/a/cup", 2) == mask[2]).all()
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match=r"masks\.npz"):
        load_arrays(path)


def test_hash_follows_content_not_place(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        save_arrays(tmp_path / folder / "x.npz", {"v": np.arange(3)})
        (tmp_path / folder / "n.txt").write_text("n")
    assert hash_files([tmp_path / "a" / "n.txt"]) == hash_files([tmp_path / "b" / "n.txt"])
    (tmp_path / "b" / "n.txt").write_text("m")
    assert hash_files([tmp_path / "a" / "n.txt"]) != hash_files([tmp_path / "b" / "n.txt"])


def test_paths_may_not_leave_their_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    for path in ("../secret", "link", str(tmp_path / "secret")):
        with pytest.raises(InputError, match="leaves its folder"):
            resolve_inside(tmp_path / "in", path)


def test_frames_agree_with_each_other() -> None:
    rng = np.random.default_rng(2)
    for raw in rng.normal(size=(20, 4)):
        q = raw / np.linalg.norm(raw)
        back = matrix_quaternion(quaternion_matrix(q))
        assert abs(abs(back @ q) - 1) < 1e-12
    camera = look_at((0.2, -1.0, 0.8), (0.4, 0.1, 0.0))
    k = [[500.0, 0, 320], [0, 500.0, 240], [0, 0, 1]]
    pixels, depth = project([[0.4, 0.1, 0.0], [0.4, 0.1, 0.1]], k, camera)
    assert np.allclose(pixels[0], (320, 240), atol=1e-9)
    assert pixels[1, 1] < 240  # up in the world is up in the picture
    origin, directions = rays(pixels, k, camera)
    assert np.allclose(origin + directions[0] * np.linalg.norm(np.array([0.4, 0.1, 0.0]) - origin), (0.4, 0.1, 0.0))
    assert (depth > 0).all()
    assert rotation_angle(camera[:3, :3].T @ camera[:3, :3]) == 0.0


def test_every_document_has_a_schema() -> None:
    for name, document in DOCUMENTS.items():
        schema = document.model_json_schema()
        assert schema["title"] == name
        assert "version" in schema["properties"]
