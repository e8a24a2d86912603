"""Table 1: layers and parameters, as the paper has them and counted a second time by formulas."""

import pytest
import torch
from torch import nn

from attributionlab.papers import items
from attributionlab.papers.attributionlab.model_summary import layer_table, resnet_8, table_1
from attributionlab.papers.catalog import Run
from claims_held import all_hold

ITEM = "table-1"


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


def parameters_by_formula(width, channels, classes, projections):
    """Kernels, two numbers a channel for each normalization, and the linear layer with its bias."""
    total, inputs = 9 * channels * width + 2 * width, width
    for outputs in (width, 2 * width, 4 * width):
        total += 9 * inputs * outputs + 2 * outputs + 9 * outputs * outputs + 2 * outputs
        if projections and inputs != outputs:
            total += inputs * outputs + 2 * outputs
        inputs = outputs
    return total + inputs * classes + classes


def test_one_standard_choice_has_the_published_number_and_all_that_of_the_formula(reproduction):
    variants = reproduction["residual-networks"]
    exact = variants[variants.from_published == 0]
    assert exact[["widths", "channels", "projections", "layers"]].values.tolist() == [
        ["64-128-256", 3, True, 10]
    ]
    assert len(variants) == 12
    assert set(variants[~variants.projections].layers) == {8}  # as appendix E describes them
    for row in variants.itertuples():
        width = int(row.widths.split("-")[0])
        expected = parameters_by_formula(width, row.channels, 10, row.projections)
        assert row.parameters == expected


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
    kinds = [(type(m), m) for m in resnet_8().modules()]
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
    assert "10 layers include the two projections" in text


def test_claims_agree_and_follow_the_tables(reproduction):
    assert set(all_hold(reproduction, ITEM).values()) == {"agrees"}
    changed = {
        "summary": reproduction["summary"].assign(layers=1, linear_parameters=0),
        "residual-networks": reproduction["residual-networks"].assign(from_published=0),
    }
    assert set(all_hold(changed, ITEM).values()) == {"differs"}
