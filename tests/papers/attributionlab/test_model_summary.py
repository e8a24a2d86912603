"""Table 1: layers and parameters, as the paper has them and counted a second time by formulas."""

import pytest
import torch
from torch import nn

from attributionlab.papers import items
from attributionlab.papers.attributionlab.model_summary import (
    ITEM,
    layer_table,
    residual_network,
    table_1,
)
from attributionlab.papers.catalog import Run
from claims_held import all_hold


@pytest.fixture(scope="module")
def reproduction():
    return table_1(Run(ITEM, n=1))


@pytest.mark.long
def test_layers_and_parameters_are_those_of_the_paper(reproduction):
    rows = reproduction["summary"].set_index("model")
    assert rows.loc["Ours", ["layers", "parameters"]].tolist() == [17, 675_033]
    assert rows.loc["ResNet-8", ["layers", "parameters"]].tolist() == [10, 1_227_594]
    for quantity in ("layers", "parameters"):
        assert (rows[quantity] == rows[f"published_{quantity}"]).all()
    assert rows.loc["Ours", ["convolutions", "linear"]].tolist() == [10, 7]
    assert rows.loc["ResNet-8", ["convolutions", "linear"]].tolist() == [9, 1]


def parameters_by_formula(widths, channels, classes, projections):
    """Kernels, two numbers a channel for each normalization, and the linear layer with its bias."""
    first = widths[0]
    total = 9 * channels * first + 2 * first
    inputs = first
    for width in widths:
        total += 9 * inputs * width + 2 * width + 9 * width * width + 2 * width
        if projections and inputs != width:
            total += inputs * width + 2 * width
        inputs = width
    return total + inputs * classes + classes


@pytest.mark.parametrize("widths", [(16, 32, 64), (64, 128, 256), (4, 4, 8)])
@pytest.mark.parametrize("projections", [True, False])
def test_a_residual_network_has_the_parameters_of_the_formula(widths, projections):
    model = residual_network(widths, channels=1, projections=projections)
    counted = sum(p.numel() for p in model.parameters())
    assert counted == parameters_by_formula(widths, 1, 10, projections)
    assert model(torch.zeros(2, 1, 16, 16)).shape == (2, 10)


def test_only_one_standard_choice_has_the_published_number(reproduction):
    variants = reproduction["residual-networks"]
    exact = variants[variants.from_published == 0]
    assert exact[["widths", "channels", "projections", "layers"]].values.tolist() == [
        ["64-128-256", 3, True, 10]
    ]
    assert len(variants) == 12
    assert set(variants[~variants.projections].layers) == {8}  # as appendix E describes them


@pytest.mark.parametrize("projections", [True, False])
def test_a_shortcut_carries_its_input_past_the_body(projections):
    model = residual_network((2, 2, 4), channels=1, projections=projections).eval()
    block = model[5]
    for parameter in block.body.parameters():
        nn.init.zeros_(parameter)
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    with torch.no_grad():
        result = block(x)
    if projections:
        assert torch.equal(result, block.shortcut(x).relu().detach())
    else:
        assert torch.equal(result[:, :2], x[..., ::2, ::2])
        assert not result[:, 2:].any()


def test_multiply_adds_are_output_size_times_inputs_read():
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1),  # 3 x 4 x 4 outputs of 2 x 3 x 3 inputs
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48, 5),
    ).train()
    table = layer_table(model, (2, 8, 8))
    assert table.kind.tolist() == ["Conv2d", "BatchNorm2d", "Linear"]
    assert table.output.tolist() == ["3 x 4 x 4", "3 x 4 x 4", "5"]
    assert table.parameters.tolist() == [57, 6, 245]
    assert table.multiply_adds.tolist() == [48 * 18, 48, 48 * 5]
    assert model.training
    assert int(model[1].num_batches_tracked) == 0  # nothing is learned on the way
    assert not model[0]._forward_hooks


def test_the_table_of_layers_sums_to_the_summary(reproduction):
    layers, summary = reproduction["layers"], reproduction["summary"]
    summed = layers.groupby("model")[["parameters", "multiply_adds"]].sum()
    expected = summary.set_index("model")[["parameters", "multiply_adds"]]
    assert (summed == expected.loc[summed.index]).all(axis=None)


@pytest.mark.long
def test_the_global_random_state_is_left_alone(reproduction):
    before = torch.get_rng_state()
    again = table_1(Run(ITEM, n=3, seed=9))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(again[name].equals(table) for name, table in reproduction.items())


def test_ten_layers_and_the_published_parameters_need_the_counts_that_are_named():
    kinds = [(type(m), m) for m in residual_network().modules()]
    weighted = [m for kind, m in kinds if kind in (nn.Conv2d, nn.Linear)]
    projections = [m for m in weighted if isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1)]
    assert (len(weighted), len(projections)) == (10, 2)
    without = sum(p.numel() for m in weighted for p in m.parameters())
    normalization = sum(p.numel() for k, m in kinds if k is nn.BatchNorm2d for p in m.parameters())
    assert without < without + normalization == 1_227_594


def test_notes_say_what_the_two_counts_of_layers_are():
    text = " ".join(items()[ITEM].notes)
    for part in ("1,227,594", "8 weighted layers", "64-128-256"):
        assert part in text
    assert "10 is reached if the two projections are counted too" in text


def test_claims_agree_and_follow_the_tables(reproduction):
    assert set(all_hold(reproduction, ITEM).values()) == {"agrees"}
    changed = {
        "summary": reproduction["summary"].assign(layers=1, linear_parameters=0),
        "residual-networks": reproduction["residual-networks"].assign(from_published=0),
    }
    assert set(all_hold(changed, ITEM).values()) == {"differs"}
