"""Reconstruction against hidden truth, on two whole worlds."""

from pathlib import Path

import numpy as np
import pytest

from backend.documents.run import unseen
from backend.evaluate import bench_reconstruction
from backend.evaluate.bench_diagnosis import KINDS, WORLDS, row_of, spoiled_case
from backend.evaluate.worlds.make import make_worlds
from backend.reconstruct.correction import blamed, corrected
from backend.reconstruct.diagnosis import examine

PAIR = ("cup_onto_plate", "can_onto_box")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two whole worlds."""
    folder = tmp_path_factory.mktemp("worlds")
    make_worlds(folder, names=PAIR)
    return folder


def row(worlds: Path, world: str, kind: str, folder: Path) -> dict:
    """The line of the diagnosis bench for one spoiled case."""
    number = [(name, spoil) for name in WORLDS for spoil in KINDS].index((world, kind))
    case, subject = spoiled_case(worlds, world, kind, folder / "case", {}, np.random.default_rng(number))
    return row_of(case, subject, worlds, world, kind)


@pytest.mark.slow
def test_both_worlds_are_accepted_and_near_the_truth(worlds: Path) -> None:
    result = bench_reconstruction.bench(worlds, names=PAIR)
    rows = {item["world"]: item for item in result["details"]}
    assert [rows[name]["failed"] for name in PAIR] == ["", ""]
    assert result["figures"]["camera_error_mm_max"] == 0
    cup, can = rows["cup_onto_plate"]["objects"], rows["can_onto_box"]["objects"]
    assert cup["cup"]["position_mm"] < 2 and cup["cup"]["size_pct"] < 3 and cup["plate"]["position_mm"] < 2
    assert can["can"]["position_mm"] < 2 and can["can"]["size_pct"] < 3
    assert can["can"]["final_position_mm"] < 2, "the can stands where it was seen, not on the box's poorly seen top"


@pytest.mark.slow
def test_a_wrong_camera_is_named_and_all_that_came_through_it_is_placed_again(worlds: Path, tmp_path: Path) -> None:
    found = row(worlds, "cup_onto_plate", "camera off", tmp_path)
    assert found["said"] == f"camera {found['spoiled']}" and found["recovered"]
    assert found["camera_mm"][1] < 3 and found["camera_deg"][1] < 0.3
    assert found["position_mm"][1] < 3 and found["size_pct"][1] < 6, "the thin plate must not set the table's height"


@pytest.mark.slow
def test_one_view_is_enough_where_the_robot_moves_the_object(worlds: Path, tmp_path: Path) -> None:
    found = row(worlds, "can_onto_box", "one view fewer", tmp_path)
    assert found["said"] == "nothing"
    assert found["position_mm"][0] < 8 and found["size_pct"][0] < 4


@pytest.mark.slow
def test_without_prompts_the_moved_cup_and_the_plate_are_found(worlds: Path, tmp_path: Path) -> None:
    found = row(worlds, "cup_onto_plate", "no prompts", tmp_path)
    assert found["said"] == "nothing"
    assert found["position_mm"][0] < 10 and found["size_pct"][0] < 6


@pytest.mark.slow
def test_a_named_object_that_is_not_in_the_scene_fails_the_diagnosis(worlds: Path, tmp_path: Path) -> None:
    case, _ = spoiled_case(worlds, "can_onto_box", "size off", tmp_path / "case", {}, np.random.default_rng(0))
    bodies = tuple(body for body in case.scene.bodies if body.name != "box")
    without = case.with_scene(case.scene.model_copy(update={"bodies": bodies}))
    diagnosis = examine(without, unseen)
    assert blamed(diagnosis) == ("placement", "box") and diagnosis.blocks_physics
    _, after, _ = corrected(without, diagnosis, unseen)
    assert blamed(after) == ("placement", "box"), "nothing can be corrected that is not there"
