"""Table 3 of Li et al. (2024), counted out pixel by pixel."""

import pytest
import torch

import attributionlab as al
from attributionlab.papers.soco.modified_maps import SCHEMES, modified

DIRECTIONS = ("remove", "introduce")


def drawn(*, ties=False):
    maps = torch.rand(3, 1, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (maps * 4).round() / 4 if ties else maps


def ascending(values):
    """Places from the least value on, the first of equal ones first."""
    return sorted(range(len(values)), key=lambda place: (values[place], place))


def test_constant_moves_every_pixel_and_clamps():
    maps = drawn()
    for direction, shift in (("remove", -0.6), ("introduce", 0.6)):
        free = modified(maps, "constant", direction, clip=False)
        assert torch.equal(free, maps + shift)
        assert torch.equal(modified(maps, "constant", direction), free.clamp(0, 1))


def test_random_moves_each_pixel_by_its_own_share_of_the_shift():
    maps = torch.full((1, 1, 100, 100), 0.5, dtype=torch.float64)
    for direction, sign in (("remove", -1), ("introduce", 1)):
        shifts = sign * (
            modified(maps, "random", direction, torch.Generator().manual_seed(0), clip=False) - maps
        )
        assert shifts.min() >= 0
        assert shifts.max() <= 0.6
        # Of 10,000 numbers from U(0, 0.6): a standard error of 0.0017, five of which are allowed
        assert float(shifts.mean()) == pytest.approx(0.3, abs=0.0087)
        assert len(shifts.unique()) > 9000


@pytest.mark.parametrize("ties", [False, True])
def test_partial_empties_ranks_or_lifts_the_lowest_to_a_quantile(ties):
    maps = drawn(ties=ties)
    removed, introduced = (modified(maps, "partial", each) for each in DIRECTIONS)
    for of_one, without, more in zip(maps, removed, introduced, strict=True):
        values = of_one.flatten().tolist()
        order = ascending(values)
        expected = [0.0 if place in order[12:16] else v for place, v in enumerate(values)]
        assert without.flatten().tolist() == expected
        ranked = sorted(values)
        quantile = ranked[15] + 0.2 * (ranked[16] - ranked[15])  # 0.8 * 19 = 15.2
        lifted = [quantile if place in order[:8] else v for place, v in enumerate(values)]
        assert more.flatten().tolist() == pytest.approx(lifted, abs=1e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_map_of_a_batch_is_modified_by_itself_and_in_its_own_type(scheme):
    maps = drawn().float()
    for direction in DIRECTIONS:
        whole = modified(maps, scheme, direction, torch.Generator().manual_seed(0))
        assert whole.dtype == torch.float32
        alone = modified(maps[:1], scheme, direction, torch.Generator().manual_seed(0))
        assert torch.equal(whole[:1], alone)


def test_without_clamping_a_constant_leaves_the_order():
    maps = drawn()
    order = al.metrics.removal_order(maps)
    for direction in DIRECTIONS:
        free = modified(maps, "constant", direction, clip=False)
        assert torch.equal(al.metrics.removal_order(free), order)
        clamped = modified(maps, "constant", direction)
        assert not torch.equal(al.metrics.removal_order(clamped), order)


def test_what_cannot_be_modified_is_refused():
    with pytest.raises(al.AttributionLabError, match=r"maps reach from -1 to 1: pass maps in \[0"):
        modified(torch.tensor([[[[-1.0, 1.0]]]]), "constant", "remove")
    with pytest.raises(al.AttributionLabError, match="random shifts need a generator"):
        modified(drawn(), "random", "remove")
