"""Definitions held against each other: counted again by hand, and what follows from formulas."""

import math
from itertools import combinations

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

import attributionlab as al
from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab import which_truth
from attributionlab.papers.attributionlab.which_truth import (
    BLACK,
    COLORS,
    PLACES,
    PLAIN,
    UNSEEN,
    agreement_picture,
    agreement_row,
    deep_lift,
    deep_lift_rows,
    definition_rows,
    importance_rows,
    pair_rows,
    signs_shared,
    temperature_rows,
)
from attributionlab.worlds import counting_environments
from attributionlab.worlds.truth import Definition, Truth, Truths
from claims_held import all_hold

ITEM = "which-truth"


def made_up(values, output="probability", change=1.0):
    """Truths of one image of one row of pixels, all errors 0.1."""
    definitions = {
        name: Definition(
            name,
            "",
            torch.tensor(of_name, dtype=torch.float64)[None, None, None],
            torch.full((1, 1, 1, len(of_name)), 0.1, dtype=torch.float64),
            "estimate",
        )
        for name, of_name in values.items()
    }
    return Truths(definitions, torch.tensor([0]), output, torch.tensor([change]).double())


VALUES = {
    "mask": [1.0, -1.0, 0.0, 0.0, 1.0],
    "ablation": [2.0, -1.0, 0.05, 0.0, -2.0],
    "shapley": [0.5, 4.0, 0.0, 0.0, -1.0],
}


@pytest.fixture(scope="module")
def explained():
    """One image of the plain classifier, its truths, its mask and DeepLift's map."""
    env = al.load("multi-color-sum-in-distribution", image_size=32)
    images, labels = env.batch(1)
    truths = env.truths(images, labels)
    return env, images, truths, env.truth(images, labels), deep_lift(env, images, labels)


def test_signs_are_compared_where_either_map_has_one():
    first = torch.tensor([[[[1, -1, 0, 0, 1]]]], dtype=torch.int8)
    second = torch.tensor([[[[1, 1, 0, -1, 1]]]], dtype=torch.int8)
    assert signs_shared(first, second) == 2 / 4
    assert math.isnan(signs_shared(first * 0, first * 0))


def test_each_pair_has_a_row_and_values_within_their_error_count_as_none():
    rows = list(pair_rows(made_up(VALUES)))
    assert [(row["first"], row["second"]) for row in rows] == list(combinations(VALUES, 2))
    mask_ablation = rows[0]
    assert (
        mask_ablation["signs_shared"] == 2 / 3
    )  # the third pixel's 0.05 is no larger than its error
    # (1 * 2 + 1 * 1 - 1 * 2) / (sqrt(3) sqrt(4 + 1 + 4)) without the 0.05
    assert mask_ablation["cosine"] == pytest.approx(1 / (math.sqrt(3) * 3))
    assert rows[1]["cosine"] == pytest.approx((0.5 - 4 - 1) / math.sqrt(3 * (0.25 + 16 + 1)))


def test_a_map_without_order_has_no_correlation():
    [row] = pair_rows(made_up({"mask": [1.0, 1.0], "ablation": [1.0, 2.0]}))
    assert math.isnan(row["rank_correlation"])
    assert math.isnan(row["cosine"])


def test_agreement_is_a_share_of_all_pixels_and_of_those_that_matter():
    row = agreement_row(made_up(VALUES))
    # Of the pixels 1, 2 and 5 the second and the last have opposite signs.
    assert row == {"pixels_agreed": 3 / 5, "relevant_agreed": 1 / 3, "opposed": 2 / 3}
    nothing = agreement_row(made_up({"mask": [0.0], "ablation": [0.0]}))
    assert nothing["pixels_agreed"] == 1
    assert math.isnan(nothing["relevant_agreed"])
    assert math.isnan(nothing["opposed"])


def test_a_value_within_its_error_disagrees_with_a_sign_without_opposing_it():
    row = agreement_row(made_up({"mask": [1.0, -1.0, 1.0], "ablation": [0.05, 2.0, 1.0]}))
    assert row == {"pixels_agreed": 1 / 3, "relevant_agreed": 1 / 3, "opposed": 1 / 3}


def test_a_definition_is_held_against_the_others_its_sum_and_the_mask():
    truth = Truth(torch.tensor([1, -1, 0, 0, 1], dtype=torch.int8)[None, None, None])
    rows = {row["definition"]: row for row in definition_rows(made_up(VALUES, change=4.0), truth)}
    assert all(math.isnan(row["f1_overall"]) for row in definition_rows(made_up(VALUES), None))
    assert math.isnan(rows["mask"]["efficiency_gap"])
    assert rows["shapley"]["efficiency_gap"] == pytest.approx(0.5 / 4)
    assert rows["ablation"]["agrees"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert rows["ablation"]["agreed_without"] == 1 / 3  # mask and shapley
    assert rows["shapley"]["agreed_without"] == 2 / 3  # mask and ablation
    assert (rows["ablation"]["largest"], rows["ablation"]["error"]) == (2.0, 0.1)
    assert rows["mask"]["f1_negative"] == 1
    # Negative values 1 and 2 of a minimum of -2: 1/2 on the mask of one pixel, 3/2 in all.
    assert rows["ablation"]["f1_negative"] == pytest.approx(2 * (1 / 2) / (3 / 2 + 1))


def importance(explained):
    env, images, truths, truth, lifted = explained
    return {row["definition"]: row for row in importance_rows(env, images, truths, truth, lifted)}


def test_insertion_gives_the_losing_colors_equal_shares_at_any_temperature(explained):
    assert [importance(explained)["insertion"][place] for place in PLACES] == pytest.approx(
        [3, -1, -1, -1]
    )
    for temperature in (1.0, 4096.0):
        env = al.load("multi-color-sum-in-distribution", image_size=24, temperature=temperature)
        images, labels = env.batch(1)
        values = env.truths(images, labels)["insertion"].values
        assert float(values.max() / values.min()) == pytest.approx(-3, rel=1e-9)


def test_the_count_path_gives_the_losers_together_what_it_gives_the_target(explained):
    row = importance(explained)["count-path"]
    assert sum(row[place] for place in PLACES) == pytest.approx(0, abs=1e-9)
    assert row["sum"] == pytest.approx(1)


def test_ablation_shares_by_the_probabilities_at_the_image():
    """To first order, at a temperature at which one pixel changes little: (p_c / (1 - p_t)) * 3."""
    env = al.load("multi-color-sum-in-distribution", image_size=32, temperature=256)
    images, labels = env.batch(1)
    explained = env, images, env.truths(images, labels), env.truth(images, labels)
    row = importance((*explained, deep_lift(env, images, labels)))["ablation"]
    counts = env.counting.counts(images)[0]
    p = (counts.double() / 256).softmax(0)
    order = counts.argsort(descending=True)
    expected = (-3 * p / (1 - p[order[0]]))[order[1:]].tolist()
    # One pixel is 1/256 in the exponent; the next order is that much smaller.
    assert [row[place] for place in PLACES[1:]] == pytest.approx(expected, rel=0.01)


def test_deep_lift_has_the_ratios_of_insertion_and_the_sum_that_counts_foretell(explained):
    env, images, truths, _, lifted = explained
    row = importance(explained)["deep-shap"]
    # Captum computes in float32.
    assert [row[place] for place in PLACES] == pytest.approx([3, -1, -1, -1], abs=1e-4)
    assert (row["f1_overall"], row["f1_negative"]) == pytest.approx((1, 1), abs=1e-4)
    counts = env.counting.counts(images)[0].double()
    assert row["expected_sum"] == pytest.approx(float(1 - counts.mean() / counts.max()))
    assert row["sum"] == pytest.approx(row["expected_sum"], abs=1e-4)
    held = {row["definition"]: row for row in deep_lift_rows(truths, lifted)}
    assert held["insertion"]["cosine"] == pytest.approx(1, abs=1e-9)
    assert held["insertion"]["cosine"] > held["shapley"]["cosine"] > held["ablation"]["cosine"]
    assert all(row["signs_shared"] == 1 for row in held.values())


def test_places_are_the_target_and_then_the_others_by_their_pixels(explained):
    env, images, truths, truth, lifted = explained
    counts = env.counting.counts(images)[0]
    runner_up = int(counts.argsort(descending=True)[1])
    rows = {row["definition"]: row for row in importance_rows(env, images, truths, truth, lifted)}
    chosen = env.counting.classes_of(images) == runner_up
    unit = float(truths["shapley"].values.max()) / 3
    expected = float(truths["shapley"].values[chosen].mean()) / unit
    assert rows["shapley"]["runner_up"] == pytest.approx(expected)
    assert rows["shapley"]["spread"] == pytest.approx(0, abs=1e-9)


def test_the_target_comes_first_also_where_it_is_not_the_winner():
    """And DeepLift starts from the true baseline, which no channel for unseen colors notices."""
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(1)
    loser = env.counting.counts(images).argmin(1)
    assert loser != labels
    truths, truth = env.truths(images, loser), env.truth(images, loser)
    rows = importance((env, images, truths, truth, deep_lift(env, images, loser)))
    for name in ("insertion", "deep-shap"):
        assert [rows[name][place] for place in PLACES] == pytest.approx([3, -1, -1, -1], abs=1e-4)


def test_the_targets_pixel_is_taken_from_the_target(explained):
    env, images, truths, _, _ = explained
    rows = {row["definition"]: row for row in temperature_rows(env, images, truths)}
    assert "mask" not in rows
    assert rows["ablation"]["target_pixel"] == pytest.approx(float(truths["ablation"].values.max()))
    with torch.no_grad():
        probability = env.softmax_model(images)[0, int(truths.targets[0])]
    assert rows["ablation"]["probability"] == pytest.approx(float(probability), abs=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_the_losers_have_the_targets_weight_to_first_order_only(temperature):
    """Ablation leaves exp(-1 / T) of a clear winner; insertion and count path leave all of it."""
    env = al.load("multi-color-sum-in-distribution", image_size=72, temperature=temperature)
    images, labels = env.batch(4)
    counts = env.counting.counts(images)
    lead = counts.sort(1, descending=True).values.diff(dim=1)[:, 0].abs()
    chosen = int(lead.argmax())
    image, label = images[chosen : chosen + 1], labels[chosen : chosen + 1]
    truths = env.truths(image, label)
    classes = env.counting.classes_of(image)

    def of_losers(name):
        worths = [float(truths[name].values[classes == each].mean()) for each in range(4)]
        return (sum(worths) - worths[label]) / worths[label]

    assert of_losers("insertion") == pytest.approx(-1, rel=1e-9)
    assert of_losers("count-path") == pytest.approx(-1, rel=1e-9)
    # The next order is the losers' share in the softmax.
    doubt = 3 * math.exp(-int(lead[chosen]) / temperature)
    assert of_losers("ablation") == pytest.approx(-math.exp(-1 / temperature), rel=2 * doubt + 1e-9)


def test_the_picture_of_agreement_tells_opposite_signs_from_missing_ones():
    values = {"mask": [1.0, -1.0, 0.0, 1.0, 1.0], "ablation": [2.0, -1.0, 0.05, 0.05, -2.0]}
    picture = agreement_picture(made_up(values))
    assert picture.shape == (3, 1, 5)
    assert [tuple(color) for color in picture[:, 0].T] == [*COLORS.values()]
    assert len({*COLORS.values()}) == 5


def frame(columns, *rows):
    return pd.DataFrame(rows, columns=columns.split())


def made_tables():
    """Tables by which every claim agrees."""
    path = "integrated-gradients"
    gaps = {"ablation": 5, "insertion": 5, "shapley": 0, path: 0, "count-path": 0}
    sizes = {"ablation": (1e-9, 1e-3), "insertion": (0.2, 1.1e-3)}
    losers = dict.fromkeys(("ablation", "insertion", "shapley", "count-path"), -1.0) | {
        "mask": -3.0
    }
    cosines = {"insertion": 1.0, "shapley": 0.9, "ablation": 0.8}
    return {
        "environments": frame(
            "environment output relevant_agreed opposed cosine",
            *((PLAIN, "probability", 1.0, 0.0, 0.9), (UNSEEN, "probability", 0.9, 0.0, 0.9)),
            *((BLACK, "probability", 0.4, 0.2, 0.1), ("number-checker", "logit", 1.0, 0.0, 1.0)),
        ),
        "definitions": frame(
            "environment output definition agreed_without efficiency_gap",
            (UNSEEN, "probability", path, 1.0, 0.0),
            *(("single-color-modulo", "logit", name, 1.0, gap) for name, gap in gaps.items()),
        ),
        "pairs": frame("first second cosine", ("shapley", "count-path", 0.9999)),
        "temperatures": frame(
            "temperature definition target_pixel",
            *((t, name, of[i]) for i, t in enumerate((1, 1024)) for name, of in sizes.items()),
        ),
        "importance": frame(
            f"environment definition {' '.join(PLACES[1:])}",
            *((PLAIN, name, each, each, each) for name, each in losers.items()),
        ),
        "ranges": frame("definition f1_negative_max", ("shapley", 0.98)),
        "importance-images": frame(
            "definition f1_overall f1_positive f1_negative sum expected_sum",
            ("deep-shap", 1.0, 1.0, 1.0, 0.3, 0.3),
        ),
        "deep-shap": frame(
            "environment definition cosine", *((PLAIN, *each) for each in cosines.items())
        ),
    }


@pytest.mark.parametrize(
    ("name", "table", "column", "value"),
    [
        ("all_definitions_give_the_masks_signs", "environments", "relevant_agreed", 0.9),
        ("counts_have_one_truth", "environments", "cosine", 0.9),
        ("unseen_colors_on_the_path_change_one_definition", "definitions", "agreed_without", 0.9),
        ("an_unseen_baseline_opposes_definitions", "environments", "opposed", 0.0),
        ("shapley_values_are_near_the_count_path", "pairs", "cosine", 0.9),
        ("ablation_misses_the_remainder", "definitions", "efficiency_gap", 0.0),
        ("saturation_separates_definitions", "temperatures", "target_pixel", 0.1),
        ("losers_together_weigh_what_the_target_weighs", "importance", "third", -3.0),
        ("shapley_values_score_below_the_mask", "ranges", "f1_negative_max", 1.0),
        ("deep_lift_is_right_in_signs_only", "importance-images", "expected_sum", 0.2),
        ("deep_lift_has_the_ratios_of_insertion", "deep-shap", "cosine", 0.9),
    ],
)
def test_every_claim_agrees_and_differs_with_its_tables(name, table, column, value):
    tables = made_tables()
    found = all_hold(tables, ITEM)
    assert set(found.values()) == {"agrees"}
    changed = tables | {table: tables[table].assign(**{column: value})}
    assert all_hold(changed, ITEM)[name] == "differs"


def test_the_figure_of_importance_is_of_the_environment_in_its_title():
    table = pd.DataFrame(
        [(PLAIN, "ablation", 3, -3, -3, -3), (UNSEEN, "ablation", 3, -2, -1, 0)],
        columns=["environment", "definition", *PLACES],
    )
    figure = which_truth._importance_figure(table, "small")
    assert UNSEEN in figure.get_suptitle()
    [axes] = figure.axes
    assert [dot[0] for each in axes.collections for dot in each.get_offsets()] == [3, -2, -1, 0]


@pytest.mark.slow
def test_a_quick_run_has_every_table():
    outcome = reproduce("which-truth", n=1, quick=True)
    tables = outcome.tables
    assert all(isinstance(figure, Figure) for figure in outcome.figures.values())
    cases = [(n, o) for n in counting_environments() for o in al.load(n, image_size=16).outputs]
    cases.append((BLACK, "probability"))
    listed = tables["environments"][["environment", "output"]]
    assert [tuple(row) for row in listed.to_numpy()] == cases
    assert len(tables["pairs"]) == 15 * (len(cases) - 1) + 6  # from black there are four
    black = tables["definitions"].query(f"environment == '{BLACK}'")
    assert dict(zip(black.definition, black.source, strict=True))["shapley"] == "estimate"
    definitions = tables["definitions"]
    complete = definitions[
        definitions.definition.isin(["shapley", "integrated-gradients", "count-path"])
    ]
    assert complete.efficiency_gap.max() < 1e-9
    plain, unseen = (
        tables["environments"].query(f"environment == '{name}' and output == 'probability'")
        for name in (PLAIN, UNSEEN)
    )
    assert plain.relevant_agreed.item() == 1 > unseen.relevant_agreed.item()
    assert unseen.least_alike.item().endswith("integrated-gradients")
    colors = tables["colors"]
    assert colors.environment.unique().tolist() == [UNSEEN]
    assert len(colors) == 7
    assert not colors.drop(columns="sum").isna().any(axis=None)  # a mask has no sum
    assert outcome.item.tables.keys() <= tables.keys()
    images, ranges = tables["importance-images"], tables["ranges"].set_index("definition")
    share = images[images.definition == "deep-shap"]["sum"]
    assert ranges.loc["deep-shap", ["sum_min", "sum_max"]].tolist() == [share.min(), share.max()]
