"""Masks become a partition, and everything that SAM may lack has its own remedy."""

import importlib.util
import sys
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import nn

import oracles_methods as oracles
import torchvision_stand_in as stand_in
from attributionlab import AttributionLabError
from attributionlab.base.segmentation import partition, sam
from attributionlab.base.segmentation import segment_anything as ours

IMAGE = torch.arange(3 * 24 * 24).reshape(3, 24, 24).float() % 256


class Fixed:
    """A generator of masks that were made beforehand."""

    def __init__(self, masks):
        self.masks, self.seen = masks, None

    def generate(self, image):
        self.seen = image
        return [{"segmentation": mask, "area": int(mask.sum())} for mask in self.masks]


# From masks to a partition


@given(arrays(bool, st.tuples(st.integers(0, 5), st.just(4), st.just(5))))
def test_each_pixel_goes_to_the_smallest_mask_that_holds_it(masks):
    labels = partition(Fixed(list(masks)), torch.zeros(3, 4, 5), 255)
    winners = [[oracles.smallest_mask(masks, y, x) for x in range(5)] for y in range(4)]
    pairs = set(zip(labels.flatten().tolist(), np.ravel(winners).tolist(), strict=True))
    labels_used, winners_used = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    assert len(pairs) == len(labels_used) == len(winners_used)  # the same superpixels
    assert labels_used == set(range(len(pairs)))


def test_without_masks_everything_is_background():
    assert not partition(Fixed([]), IMAGE, 255).any()


def test_a_generator_sees_the_image_as_bytes():
    masks = Fixed([])
    partition(masks, IMAGE, 255)
    assert masks.seen.dtype == np.uint8
    assert (masks.seen == IMAGE.permute(1, 2, 0).numpy()).all()
    partition(masks, torch.tensor([[[0.0, 1.0]]]), 1)
    assert masks.seen.tolist() == [[[0, 0, 0], [255, 255, 255]]]


def test_masks_of_another_size_are_refused():
    masks = Fixed([np.zeros((3, 3), dtype=bool)])
    with pytest.raises(AttributionLabError, match=r"Fixed.generate .*shape \(3, 3\) .* \(24, 24\)"):
        partition(masks, IMAGE, 255)


# Segment Anything itself, tiny and with random weights


@pytest.fixture
def library():
    """segment-anything, over the stand-in where torchvision cannot be imported."""
    before = dict(sys.modules)
    try:
        import torchvision  # noqa: F401
    except Exception:
        stand_in.forget({"torchvision", "segment_anything"})
        sys.modules.update(stand_in.modules())
    import segment_anything

    yield segment_anything
    ours._load.cache_clear()
    stand_in.forget({"torchvision", "segment_anything"})
    sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})


def tiny(library, width=768):
    """A SAM of one block, for images of 64 pixels; vit_b is as wide."""
    from segment_anything.modeling import (
        ImageEncoderViT,
        MaskDecoder,
        PromptEncoder,
        Sam,
        TwoWayTransformer,
    )

    norm = partial(nn.LayerNorm, eps=1e-6)
    return Sam(
        ImageEncoderViT(64, 16, 3, width, 1, 4, 0.1, 16, norm_layer=norm, use_rel_pos=True),
        PromptEncoder(16, (4, 4), (64, 64), 4),
        MaskDecoder(
            transformer_dim=16, transformer=TwoWayTransformer(1, 16, 2, 32), iou_head_hidden_dim=8
        ),
        pixel_mean=[123.675, 116.28, 103.53],
        pixel_std=[58.395, 57.12, 57.375],
    ).eval()


EVERY_MASK = {
    "points_per_side": 4,
    "pred_iou_thresh": -10.0,
    "stability_score_thresh": -1.0,
    "box_nms_thresh": 1.0,
}


@pytest.fixture
def weights(library, monkeypatch, tmp_path):
    """A file of weights, for a registry that builds the tiny model."""
    torch.manual_seed(0)
    model = tiny(library)
    torch.save(model.state_dict(), tmp_path / "sam.pth")
    monkeypatch.setitem(library.sam_model_registry, "vit_b", lambda: tiny(library))
    return tmp_path / "sam.pth"


@pytest.mark.long
def test_sam_gives_the_partition_of_its_own_masks(library, weights):
    model = tiny(library)
    model.load_state_dict(torch.load(weights, weights_only=True))
    expected = partition(library.SamAutomaticMaskGenerator(model, **EVERY_MASK), IMAGE, 255)
    state = torch.random.get_rng_state()
    got = sam(IMAGE, 255, weights=weights, **EVERY_MASK)
    assert torch.equal(got, expected)
    assert len(got.unique()) > 2
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(sam(IMAGE, 255, weights=weights, model_type="vit_b", **EVERY_MASK), expected)


@pytest.mark.parametrize("setting", EVERY_MASK)
def test_each_setting_reaches_the_generator_of_masks(library, weights, setting, monkeypatch):
    seen = {}

    class Spy(library.SamAutomaticMaskGenerator):
        def __init__(self, model, **settings):
            seen.update(settings)
            super().__init__(model, **settings)

        def generate(self, image):
            return []

    monkeypatch.setattr(library, "SamAutomaticMaskGenerator", Spy)
    sam(IMAGE, 255, weights=weights, **{setting: EVERY_MASK[setting]})
    assert seen[setting] == EVERY_MASK[setting]


@pytest.mark.long
def test_the_model_is_kept_until_the_file_changes(library, weights, monkeypatch):
    built = []
    monkeypatch.setitem(
        library.sam_model_registry, "vit_b", lambda: built.append(1) or tiny(library)
    )
    for _ in range(2):
        sam(IMAGE, 255, weights=weights, **EVERY_MASK)
    assert len(built) == 1
    torch.save(tiny(library).state_dict(), weights)
    sam(IMAGE, 255, weights=str(weights), **EVERY_MASK)
    assert len(built) == 2


@pytest.mark.parametrize(("width", "kind"), [(768, "vit_b"), (1024, "vit_l"), (1280, "vit_h")])
def test_the_architecture_is_read_off_the_weights(library, tmp_path, monkeypatch, width, kind):
    built = []
    for name in ("vit_b", "vit_l", "vit_h"):
        monkeypatch.setitem(
            library.sam_model_registry,
            name,
            lambda name=name: built.append(name) or tiny(library, width),
        )
    torch.save(tiny(library, width).state_dict(), tmp_path / "sam.pth")
    sam(IMAGE, 255, weights=tmp_path / "sam.pth", **EVERY_MASK)
    assert built == [kind]


# What may be missing


def refusal(**settings):
    with pytest.raises(AttributionLabError) as caught:
        sam(IMAGE, 255, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_weights_or_their_file(tmp_path):
    assert "has no weights: download a checkpoint" in refusal()
    assert "pass weights=PATH" in refusal()
    for path in (tmp_path / "no.pth", tmp_path, "\0"):
        assert "no file of SAM weights at" in refusal(weights=path)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is not a state dict that torch can load safely"),
        (b"<html>not found</html>", "is not a state dict that torch can load safely"),
        ({"image_encoder.pos_embed": print}, "is not a state dict that torch can load safely"),
        ([1, 2], "holds list, not tensors by name: pass a state dict"),
        ({"model": {}}, "holds dict, not tensors by name"),
        ({"other.weight": torch.zeros(3)}, "does not hold weights of SAM's vit_b, vit_l or vit_h"),
        ({"image_encoder.pos_embed": torch.zeros(5)}, "does not hold weights of SAM's"),
        (
            {"image_encoder.pos_embed": torch.zeros(1, 4, 4, 768)},
            "does not fit the architecture vit_b",
        ),
    ],
)
def test_files_that_are_no_weights_of_sam(library, weights, contents, message):
    if isinstance(contents, bytes):
        weights.write_bytes(contents)
    else:
        torch.save(contents, weights)
    assert message in refusal(weights=weights)


def test_an_architecture_by_a_wrong_name(library, weights):
    assert "model_type is 'vit_bb': take one of 'vit_b', 'vit_l', 'vit_h'" in refusal(
        weights=weights, model_type="vit_bb"
    )


def test_without_the_library(weights, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ours._load.cache_clear()
    assert refusal(weights=weights).endswith("pip install 'attributionlab[sam]'")


def test_without_torchvision(weights, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)  # as if it were not installed
    assert "needs torchvision, which is not installed" in refusal(weights=weights)


@pytest.mark.parametrize("error", ["RuntimeError", "ImportError", "OSError"])
def test_with_a_torchvision_that_cannot_load(weights, monkeypatch, tmp_path, error):
    (tmp_path / "torchvision.py").write_text(
        f"raise {error}('operator torchvision::nms does not exist')", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    stand_in.forget({"torchvision", "segment_anything"})
    message = refusal(weights=weights)
    assert message.startswith(
        f"torchvision is installed but does not match torch {torch.__version__}"
    )
