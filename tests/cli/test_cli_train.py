"""The command `train`: what it writes and says, and that it writes nothing that is not certified."""

from functools import partial

import pytest
import torch

import attributionlab as al
from attributionlab.cli import app as cli
from attributionlab.worlds.learned import trained as module
from attributionlab.worlds.learned.architectures import made
from attributionlab.worlds.learned.examination import LearnedCertificate
from attributionlab.worlds.learned.pictures import INTERVENTIONS
from attributionlab.worlds.learned.trained import TrainedNetwork
from attributionlab.worlds.learned.training import rounded

KINDS = dict.fromkeys(("held_out", *INTERVENTIONS, "beside_colors"), 1.0)
PASSED = LearnedCertificate(KINDS, KINDS, 1.0, 0.995, 0.02)
FAILED = LearnedCertificate(KINDS | {"places_moved": 0.9}, KINDS, 1.0, 1.0, 0.0)


@pytest.fixture
def in_no_time(monkeypatch, tmp_path):
    """Training that takes no time; the network is certified for what the caller says."""
    monkeypatch.chdir(tmp_path)
    asked = []

    def use(certificate):
        def network(env, architecture, pictures, **settings):
            asked.append((env.spec.constants.get("area"), architecture, settings))
            torch.manual_seed(settings["seed"])
            return rounded(made(architecture, 1, 24))

        monkeypatch.setattr(module.training, "train_network", network)
        monkeypatch.setattr(module.training, "BASE_IMAGES", 6)
        monkeypatch.setattr(module, "held_out", partial(module.held_out, n=4))
        monkeypatch.setattr(module, "examine", lambda network, questions: certificate)
        return asked

    return use


def test_a_certified_network_is_written_and_loads(in_no_time, capsys, tmp_path):
    asked = in_no_time(PASSED)
    line = ["train", "quadrants", "--architecture", "vit", "--seed", "3", "--samples", "640"]
    assert cli.main([*line, "--out", "a.safetensors"]) == 0
    [(area, architecture, settings)] = asked
    assert area == (0.004, 0.02)  # each patch draws its own area
    assert architecture == "vit"
    assert settings == {"seed": 3, "samples": 640, "show_progress": True}
    said, progress = capsys.readouterr()
    for what in ("training images of quadrants: 6 of 6", "held-out images of quadrants: 4 of 4"):
        assert f"drawing {what} images, " in progress
    assert "R^2 0.9950, largest null patch 0.020" in said
    call = "al.load('quadrants', image_size=24, trained='a.safetensors')"
    assert f"\na.safetensors: certified; next: {call}\n" in said
    found = TrainedNetwork.read(tmp_path / "a.safetensors")
    assert tuple(found.recipe) == ("vit", 3, 640)
    assert al.load("quadrants", image_size=24, trained="a.safetensors").spec.is_trained
    before = (tmp_path / "a.safetensors").read_bytes()
    assert cli.main([*line, "--out", "a.safetensors"]) == 0  # over a file that it wrote
    assert (tmp_path / "a.safetensors").read_bytes() == before


def test_one_that_is_not_certified_is_not_written(in_no_time, capsys, tmp_path):
    in_no_time(FAILED)
    assert cli.main(["train", "quadrants", "--out", "a.safetensors"]) == 1
    assert not (tmp_path / "a.safetensors").exists()
    said = capsys.readouterr().out
    assert "not certified, so not written" in said
    assert "'places_moved' is 0.900, less than 0.99" in said


def test_worlds_that_are_hard_to_learn_get_more_images_by_default(in_no_time):
    asked = in_no_time(PASSED)
    for world in ("quadrants", "all-four"):
        assert cli.main(["train", world, "--out", "a.safetensors"]) == 0
    assert [settings["samples"] for _, _, settings in asked] == [400_000, 700_000]
    assert {settings["seed"] for _, _, settings in asked} == {0}
