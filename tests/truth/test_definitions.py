"""Several truths side by side, and what all of them support."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attributionlab.worlds.truth import Definition, Truths


def definition(name, values, error=0.0):
    values = torch.tensor(values, dtype=torch.float64).reshape(1, 1, 1, -1)
    return Definition(name, "", values, torch.full_like(values, error), "closed form")


def truths(*definitions, change=1.0):
    return Truths(
        {each.name: each for each in definitions},
        torch.tensor([0]),
        "logit",
        torch.tensor([change], dtype=torch.float64),
    )


def test_a_value_no_larger_than_its_error_has_no_sign():
    signs = definition("ablation", [0.5, -0.5, 0.25, -0.25, 0.0], error=0.25).signs
    assert signs.flatten().tolist() == [1, -1, 0, 0, 0]
    assert signs.dtype == torch.int8


numbers = st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=4, max_size=4)


@given(first=numbers, second=numbers, third=numbers)
def test_definitions_agree_on_the_pixels_to_which_all_give_the_same_sign(first, second, third):
    found = truths(
        definition("mask", first), definition("ablation", second), definition("shapley", third)
    ).agreement()
    for place, signs in enumerate(zip(first, second, third, strict=True)):
        kinds = {(value > 0) - (value < 0) for value in signs}
        assert bool(found.agreed.flatten()[place]) == (len(kinds) == 1)
        assert int(found.signed.flatten()[place]) == (kinds.pop() if len(kinds) == 1 else 0)
    assert found.signed.dtype == torch.int8


def test_an_agreement_can_be_of_some_definitions_only():
    several = truths(definition("mask", [1, 0]), definition("ablation", [1, 1]))
    assert several.agreement(["mask"]).agreed.all()
    assert several.agreement().agreed.flatten().tolist() == [True, False]


def test_truths_are_a_mapping_in_the_order_in_which_they_came():
    several = truths(definition("mask", [1]), definition("shapley", [2]))
    assert list(several) == ["mask", "shapley"]
    assert len(several) == 2
    assert "insertion" not in several


def test_the_efficiency_gap_is_the_share_of_the_change_that_the_sum_misses():
    several = truths(definition("ablation", [1.0, 2.0]), change=-4.0)
    assert several.efficiency_gaps("ablation").tolist() == [7 / 4]
    assert (
        truths(definition("ablation", [1.0]), change=0.0).efficiency_gaps("ablation").isnan().all()
    )
