"""A user's network gets its weights from a file, and its images with labels or without."""

import re

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.papers import reproduce
from attributionlab.papers.subjects import subjects
from attributionlab.papers.subjects.subjects import chosen_subject, maps_of

SIZE = 8
MODEL = """
from torch import nn

def make():
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))

class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = make()

    def forward(self, x):
        return self.layer((x - 0.5) / 0.25)

class InPlace(Normalized):
    def forward(self, x):
        return self.layer(x.sub_(0.5).div_(0.25))

class Odd(nn.Module):
    change = staticmethod(lambda outputs: outputs)

    def forward(self, x):
        return self.change(x.mean((2, 3)))

class NoOutputs(Odd):
    change = staticmethod(lambda outputs: outputs[:, :0])

class One(Odd):
    change = staticmethod(lambda outputs: outputs[:, :1])

class Fails(nn.Linear):
    def __init__(self):
        super().__init__(7, 2)

class Complex(Odd):
    change = staticmethod(lambda outputs: outputs + 0j)

class Whole(Odd):
    change = staticmethod(lambda outputs: outputs.long())

class Undefined(Odd):
    change = staticmethod(lambda outputs: outputs / 0)

class Infinite(Odd):
    change = staticmethod(lambda outputs: outputs + float("inf"))
"""


@pytest.fixture
def trained():
    """Right on both images: the first output is how red an image is, the second how green."""
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    with torch.no_grad():
        network[2].weight.copy_(torch.eye(3)[:2])
        network[2].bias.zero_()
    return network


@pytest.fixture
def own(tmp_path, trained):
    """Class folders of a red and a green image, a network in a file, and a file with its weights."""
    for index, name in enumerate(("red", "green")):
        (tmp_path / "images" / name).mkdir(parents=True)
        pixels = np.zeros((SIZE, SIZE, 3), dtype=np.uint8)
        pixels[..., index] = 200
        Image.fromarray(pixels).save(tmp_path / "images" / name / f"{name}.png")
    (tmp_path / "names.txt").write_text("red\ngreen\n")
    (tmp_path / "mine.py").write_text(MODEL)
    torch.save(trained.state_dict(), tmp_path / "weights.pt")
    return {
        "images": str(tmp_path / "images"),
        "model": f"{tmp_path / 'mine.py'}:make",
        "weights": str(tmp_path / "weights.pt"),
        "classes": str(tmp_path / "names.txt"),
    }


def given(own, **settings):
    return chosen_subject(1, 0, images=own["images"], model=own["model"], size=SIZE, **settings)


def test_a_subject_has_the_weights_of_the_file(own, trained):
    subject = chosen_subject(1, 0, layer="0", size=SIZE, **own)
    assert subject.offered["layer"] == "0"
    assert torch.equal(subject.model[2].weight, trained[2].weight)
    assert subject.targets.tolist() == [0, 1]  # as the file names them
    assert "is right on 100% of the 2 images" in subject.notes[0]


def test_images_without_labels_are_explained_by_what_is_predicted_where_that_is_asked_for(
    own, tmp_path
):
    own["images"] = str(tmp_path / "images" / "green")
    with pytest.raises(AttributionLabError, match="has no class folders"):
        given(own, weights=own["weights"])
    subject = given(own, weights=own["weights"], predicted=True)
    assert subject.targets.tolist() == [1]
    assert subject.notes[0].startswith("The 1 images have no labels: what ")


def test_a_network_gets_a_few_images_at_a_time_and_labels_go_before_predictions(own, monkeypatch):
    monkeypatch.setattr(subjects, "AT_ONCE", 1)
    alone = given(own, classes=own["classes"], weights=own["weights"], predicted=True)
    assert alone.targets.tolist() == [0, 1]
    assert "100% of the 2 images" in alone.notes[0]


@pytest.mark.parametrize("method", ["saliency", "integrated-gradients", "occlusion", "lime"])
def test_a_network_that_works_in_place_has_the_maps_of_one_that_does_not(method, own, tmp_path):
    subjects_of = {}
    for name in ("InPlace", "Normalized"):
        own["model"] = f"{tmp_path / 'mine.py'}:{name}"
        subjects_of[name] = given(own)
        subjects_of[name].model.layer.load_state_dict(torch.load(own["weights"], weights_only=True))
    one, other = subjects_of.values()
    settings = {"window": 4, "stride": 4} if method == "occlusion" else {}
    maps, expected = (maps_of(each, method, 0, settings) for each in (one, other))
    assert torch.equal(maps, expected)
    assert torch.equal(one.images, other.images)
    assert torch.equal(one.empty, other.empty)
    assert one.images.max() > 0.7  # a pixel of 200 of 255


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NoOutputs", "returned (1, 0)"),
        ("One", "returned (1, 1), one output: return those of at least two classes"),
        ("Complex", "output is torch.complex64"),
        ("Whole", "returned torch.int64"),
        ("Undefined", "returned nan"),
        ("Infinite", "returned inf"),
    ],
)
def test_outputs_that_are_no_logits_are_refused(name, said, own, tmp_path, without_shape_checks):
    own |= {
        "images": str(tmp_path / "images" / "green"),
        "model": f"{tmp_path / 'mine.py'}:{name}",
    }
    with pytest.raises(AttributionLabError) as caught:
        given(own, predicted=True)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_images_and_model_there_is_no_subject_and_nothing_else_may_be_given():
    assert chosen_subject(1, 0) is None
    assert chosen_subject(1, 0, images=None, classes=None) is None
    for setting, value in (("layer", "0"), ("size", SIZE)):
        with pytest.raises(
            AttributionLabError, match=f"{setting} is {value!r} without images: pass"
        ):
            chosen_subject(1, 0, **{setting: value})
    with pytest.raises(AttributionLabError) as caught:
        chosen_subject(1, 0, classes="names.txt", weights="weights.pt")
    said = (
        "is 'names.txt' without images: pass images and model, too; weights is 'weights.pt' without"
    )
    assert said in str(caught.value)


@pytest.mark.parametrize("classes", [5, True, ["a", "b"]])
def test_classes_are_the_path_of_a_file(own, classes):
    with pytest.raises(
        AttributionLabError, match=re.escape(f"classes is {classes}: pass the path")
    ):
        given(own, classes=classes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("red\ngreen\nblue\n", "2 outputs for 3 names in"),
        ("red\n\ngreen\n", "no name in line 2"),
        ("", "no name in line 1"),
        (None, "cannot read classes from .*FileNotFoundError"),
    ],
)
def test_a_file_of_other_names_than_the_outputs_is_refused(own, tmp_path, text, message):
    names = tmp_path / "other.txt"
    if text is not None:
        names.write_text(text)
    with pytest.raises(AttributionLabError, match=message):
        given(own, classes=str(names))


def test_class_folders_are_counted_and_some_are_enough_where_a_file_names_all(own, tmp_path):
    folders = tmp_path / "images"
    (folders / "owls").mkdir()
    Image.new("RGB", (SIZE, SIZE)).save(folders / "owls" / "a.png")
    with pytest.raises(AttributionLabError, match="2 outputs for 3 class folders"):
        given(own)
    for name in ("owls", "red"):
        for file in (folders / name).iterdir():
            file.unlink()
        (folders / name).rmdir()
    with pytest.raises(AttributionLabError, match=r"for 1 class folders.*pass as classes"):
        given(own)
    for text, target in (("red\ngreen\n", 1), ("green\nred", 0)):
        (tmp_path / "names.txt").write_text(text)
        assert given(own, classes=own["classes"]).targets.tolist() == [target]


def test_a_model_that_fails_on_the_images_is_named_with_what_it_got(own):
    own["model"] = own["model"].replace(":make", ":Fails")
    with pytest.raises(AttributionLabError, match="Fails raised RuntimeError") as caught:
        given(own)
    assert f"on images 2 x 3 x {SIZE} x {SIZE} in [0, 1]: pass a size" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_given_images_nothing_is_known_and_a_note_says_how_often_the_network_is_right(own):
    subject = given(own)
    assert subject.information is None
    assert subject.empty.flatten().tolist() == pytest.approx(
        subject.images.mean((0, 2, 3)).tolist()
    )
    right, left_out = subject.notes
    assert f"of the 2 images, at {SIZE} x {SIZE}" in right
    assert left_out == "Methods that need a layer are left out: pass layer, the name of a module."
    assert len(given(own, layer="0").notes) == 1
    with pytest.raises(AttributionLabError, match="layer is None, but GradCAM needs one"):
        given(own, layer_for="GradCAM")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"images": "somewhere"}, "images is 'somewhere' and model is None: pass both"),
        ({"classes": "names.txt"}, "classes is 'names.txt' without images"),
        ({"images": "", "model": "", "weights": "none.pt"}, r"no file of weights at 'none\.pt'"),
    ],
)
@pytest.mark.parametrize("item", ["soco-figure-8", "soco-table-1"])
def test_items_on_own_networks_refuse_what_does_not_fit(item, settings, message, own):
    settings = {key: value or own[key] for key, value in settings.items()}
    settings |= {"layer": "0"} if "model" in settings else {}
    with pytest.raises(AttributionLabError, match=message):
        reproduce(item, n=1, quick=True, settings=settings)
