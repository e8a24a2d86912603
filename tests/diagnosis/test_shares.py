"""Every pixel's loss goes to one share, and the shares sum to 1 - F1."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attributionlab as al
import oracles_assess
from attributionlab.metrics import alignment, best_map, magnitudes, normalize
from attributionlab.verdicts import pixel_kinds
from attributionlab.verdicts.diagnosis.shares import (
    PIXEL_KINDS,
    SHARES,
    missing_shares,
    robust_scale,
)
from attributionlab.worlds.truth import smoothed
from diagnosis.failures import blurred, case_of, flipped, foreground, noise, right, shifted

PARTS = ("overall", "positive", "negative")
ROUNDING = 1e-12
"""Each of some 10 sums of P <= 576 terms in [0, 1] is wrong by at most P^2 2^-53 = 4e-11 of one pixel,
and is divided by at least the relevant pixels; pairwise sums of torch are far below that bound."""


def one(maps, truth, kinds, part="positive", claimed=None):
    """The shares above zero of one image given as lists."""
    shares = missing_shares(
        torch.tensor([[[maps]]]),
        torch.tensor([[[truth]]], dtype=torch.int8),
        torch.tensor([[[kinds]]], dtype=torch.int8),
        part,
        None if claimed is None else torch.tensor([[[claimed]]]),
    )
    return {name: float(share) for name, share in shares.items() if share > 0}


@pytest.fixture(scope="module")
def cases():
    names = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
    return [case_of(al.load(name, image_size=24), 4) for name in names]


@pytest.mark.parametrize(
    ("maps", "truth", "kinds", "part", "expected"),
    [
        ([1.0, 1.0], [1, 0], [3, 0], "positive", {"background": 1 / 3}),
        ([1.0, 1.0], [1, 0], [3, 1], "positive", {"irrelevant inside patches": 1 / 3}),
        ([1.0, 1.0], [1, 0], [3, 2], "positive", {"distractors": 1 / 3}),
        ([1.0, 1.0], [1, 0], [3, 3], "positive", {"other classes": 1 / 3}),
        ([1.0, 1.0], [1, -1], [3, 3], "positive", {"wrong sign": 1 / 3}),
        ([1.0, -1.0], [1, 1], [3, 3], "positive", {"wrong sign": 1 / 3}),
        ([-1.0, 1.0], [-1, -1], [3, 3], "negative", {"wrong sign": 1 / 3}),
        ([-1.0, 1.0], [1, -1], [3, 3], "positive", {"whole-image sign flips": 1.0}),
        ([1.0, 0.0], [1, 1], [3, 3], "positive", {"relevant missed": 1 / 3}),
        ([1.0, -0.5, 0.0], [0, -1, 1], [0, 3, 3], "overall", None),
        ([1.0, 0.5], [1, 1], [3, 3], "positive", {"uneven values": 0.5 / 3.5}),
        ([1.0, 0.25, 0.25], [0, 1, 1], [0, 3, 3], "positive",
         {"background": 1 / 3.5, "outliers": 1.5 / 3.5}),
        ([0.0, 0.0], [1, -1], [3, 3], "overall", {"relevant missed": 1.0}),
        ([1.0, -1.0], [1, -1], [3, 3], "overall", {}),
        ([-1.0, 1.0], [1, -1], [3, 3], "overall", {}),
    ],
)  # fmt: skip
def test_each_share_is_reached(maps, truth, kinds, part, expected):
    found = one(maps, truth, kinds, part)
    if expected is not None:
        assert found == pytest.approx(expected, abs=ROUNDING)
    f1 = alignment(
        magnitudes(torch.tensor([[[maps]]]), part),
        torch.tensor([[[[t != 0 if part == "overall" else t == {"positive": 1, "negative": -1}[part]
                         for t in truth]]]]),
    ).f1  # fmt: skip
    assert sum(found.values()) == pytest.approx(1 - float(f1), abs=ROUNDING)


@st.composite
def images(draw):
    size = draw(st.integers(1, 40))
    value = st.sampled_from([0.0, 0.04, 0.05, 0.06, 0.3, 0.5, 1.0]) | st.floats(0, 1, width=32)
    sign = st.sampled_from([-1.0, 1.0])
    maps = [draw(value) * draw(sign) for _ in range(size)]
    truth = [draw(st.sampled_from([-1, 0, 1])) for _ in range(size)]
    kinds = [3 if t else draw(st.integers(0, 3)) for t in truth]
    return maps, truth, kinds


@given(images(), st.sampled_from(PARTS))
def test_the_shares_are_those_of_the_pixel_loop(image, part):
    maps, truth, kinds = image
    maps = normalize(torch.tensor([[[maps]]])).flatten().tolist()
    expected = oracles_assess.missing_shares(maps, truth, [PIXEL_KINDS[k] for k in kinds], part)
    shares = missing_shares(
        torch.tensor([[[maps]]], dtype=torch.float64),
        torch.tensor([[[truth]]], dtype=torch.int8),
        torch.tensor([[[kinds]]], dtype=torch.int8),
        part,
    )
    assert tuple(shares) == SHARES
    if expected is None:
        assert all(share.isnan().all() for share in shares.values())
        return
    for name, share in shares.items():
        assert float(share) == pytest.approx(expected.get(name, 0.0), abs=ROUNDING)


@pytest.mark.parametrize("part", PARTS)
def test_the_shares_sum_to_what_is_missing_in_every_image(cases, part):
    for case in cases:
        for broken in (flipped, shifted, blurred, foreground, noise, right):
            maps = normalize(broken(case))
            shares = missing_shares(maps, case.truth.signed, case.kinds, part)
            f1 = alignment(magnitudes(maps, part), getattr(case.truth, part)).f1
            total = torch.stack(list(shares.values())).sum(0)
            assert torch.equal(total.isnan(), f1.isnan())
            torch.testing.assert_close(total, 1 - f1, rtol=0, atol=ROUNDING, equal_nan=True)
            assert all((share[~f1.isnan()] >= -ROUNDING).all() for share in shares.values())


def test_the_truth_misses_nothing(cases):
    for case in cases:
        for part in PARTS:
            shares = missing_shares(right(case), case.truth.signed, case.kinds, part)
            assert all((share.nan_to_num() == 0).all() for share in shares.values())


def test_flips_of_whole_images_are_told_from_wrong_pixels(cases):
    for case in cases:
        shares = missing_shares(flipped(case), case.truth.signed, case.kinds, "positive")
        assert shares["whole-image sign flips"].tolist() == [0, 1, 1, 1]
        assert not shares["wrong sign"].any()
        half = right(case)
        half[..., : half.shape[-1] // 2] *= -1
        shares = missing_shares(half, case.truth.signed, case.kinds, "positive")
        assert not shares["whole-image sign flips"].any()
        assert shares["wrong sign"].any()


def test_with_a_smoothed_truth_all_that_the_best_map_misses_is_smoothing(cases):
    for case in cases:
        claimed = smoothed(case.truth.positive, 2.0)
        f1 = alignment(best_map(claimed), claimed).f1
        shares = missing_shares(
            best_map(claimed), case.truth.signed, case.kinds, "positive-smoothed", claimed
        )
        torch.testing.assert_close(shares["smoothing"], 1 - f1, rtol=0, atol=ROUNDING)
        assert all((share == 0).all() for name, share in shares.items() if name != "smoothing")


def test_a_sharp_map_loses_by_smoothing_alone_and_an_empty_one_by_missing(cases):
    for case in cases:
        claimed = smoothed(case.truth.positive, 2.0)
        sharp = case.truth.positive.float()
        for maps, name in ((sharp, "smoothing"), (torch.zeros_like(sharp), "relevant missed")):
            shares = missing_shares(
                maps, case.truth.signed, case.kinds, "positive-smoothed", claimed
            )
            f1 = alignment(maps, claimed).f1
            torch.testing.assert_close(shares[name], 1 - f1, rtol=0, atol=ROUNDING)


def test_the_shares_of_a_smoothed_truth_sum_to_what_is_missing(cases):
    for case in cases:
        claimed = smoothed(case.truth.positive, 2.0)
        for broken in (flipped, shifted, blurred, foreground, noise):
            maps = normalize(broken(case))
            shares = missing_shares(
                maps, case.truth.signed, case.kinds, "positive-smoothed", claimed
            )
            f1 = alignment(magnitudes(maps, "positive"), claimed).f1
            total = torch.stack(list(shares.values())).sum(0)
            torch.testing.assert_close(total, 1 - f1, rtol=0, atol=ROUNDING)
        assert missing_shares(
            shifted(case), case.truth.signed, case.kinds, "positive-smoothed", claimed
        )["relevant missed"].any()


def test_what_a_smoothed_truth_misses_elsewhere_has_the_usual_names():
    # The best map is 1, 1, 0, 0: 2 (1 + 0.8) / (2 + 1.9) = 0.92 is the most. A sum of 4 + 1.9.
    found = one(
        [1.0] * 4, [1, 1, 0, -1], [3, 3, 0, 3], "positive-smoothed", [1.0, 0.75, 0.125, 0.0]
    )
    smoothing = 0.25 + 0.125
    assert found == pytest.approx(
        {"background": 0.75 / 5.875, "wrong sign": 1 / 5.875, "smoothing": smoothing / 5.875},
        abs=ROUNDING,
    )
    # The last pixel is a gap between relevant ones, of which half are found.
    found = one([1.0, 0.0, 0.0], [1, 1, 0], [3, 3, 1], "positive-smoothed", [1.0, 1.0, 1.0])
    assert found == pytest.approx({"relevant missed": 1.5 / 4, "smoothing": 0.5 / 4}, abs=ROUNDING)


def test_outliers_are_what_a_robust_maximum_would_give_back(cases):
    for case in cases:
        maps = right(case)
        maps[:, 0, 0, 0] = 100
        shares = missing_shares(normalize(maps), case.truth.signed, case.kinds, "positive")
        f1 = alignment(magnitudes(normalize(maps), "positive"), case.truth.positive).f1
        # All but the outlier's own pixel, which lies on the background.
        assert (shares["outliers"] > 0.9 * (1 - f1)).all()
        back = robust_scale(normalize(maps), case.truth.signed)
        assert torch.equal(back[:, 0, 1:], right(case)[:, 0, 1:])


def test_a_maximum_of_twice_the_rest_is_no_outlier():
    truth = torch.ones(1, 1, 1, 4, dtype=torch.int8)
    twice = torch.tensor([[[[1.0, 0.5, 0.5, 0.5]]]])
    assert torch.equal(robust_scale(twice, truth), twice)
    more = torch.tensor([[[[1.0, 0.25, 0.25, -0.5]]]])
    assert robust_scale(more, truth).flatten().tolist() == [1, 1, 1, -0.5]


@pytest.mark.parametrize(("relevant", "forgiven"), [(1, 1), (100, 1), (101, 2), (600, 6)])
def test_as_many_outliers_are_forgiven_as_a_hundredth_of_the_relevant_pixels(relevant, forgiven):
    truth = torch.zeros(1, 1, 1, 700, dtype=torch.int8)
    truth[..., :relevant] = 1
    maps = 0.25 * truth.float()
    maps[..., 600 : 600 + forgiven] = 1
    assert (robust_scale(maps, truth)[..., :relevant] == 1).all() == (forgiven < 600)
    maps[..., 600 + forgiven] = 1
    assert torch.equal(robust_scale(maps, truth), maps)


def test_pixels_are_of_the_kind_that_the_environment_says(cases):
    for case in cases:
        background = (case.images == case.env.baseline).all(1, keepdim=True)
        inside = (case.patches > 0)[:, None]
        counted = case.env.counting.classes_of(case.images) >= 0
        names = {name: case.kinds == index for index, name in enumerate(PIXEL_KINDS)}
        assert torch.equal(names["background"], background & ~inside)
        assert torch.equal(names["irrelevant inside patches"], background & inside)
        assert torch.equal(names["counted"], counted)
        assert torch.equal(names["distractors"], ~background & ~counted)
        assert names["distractors"].any() == (case.env.name == "multi-color-sum-distractors")


def test_kinds_are_small_integers():
    kinds = pixel_kinds(
        torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1).long(), -torch.ones(1, 1, 1, 1).long(),
        torch.zeros(1, 1, 1),
    )  # fmt: skip
    assert kinds.dtype == torch.int8
    assert PIXEL_KINDS[int(kinds)] == "irrelevant inside patches"
