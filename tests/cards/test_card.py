"""What a card says follows from what was declared, checked and measured.

What one score of one map takes is counted, and equals what the definitions say.

What is said of metrics by hand is there for each, and the range that is stated holds.
"""

import math
import random
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attributionlab import AttributionLabError
from attributionlab.metrics import known_facts, metric
from attributionlab.metrics.ranking import CorrelationInterval as Found
from attributionlab.verdicts import FUNCTIONS, CheckReport, MetricReport, any_metric, metric_cards
from attributionlab.verdicts.cards import (
    MEANINGS,
    SIDES,
    Cost,
    MetricCard,
    MetricCards,
    card_of,
    cost_of,
)
from attributionlab.verdicts.metric_trials import check as check_module
from attributionlab.verdicts.metric_trials import test
from attributionlab.verdicts.metric_trials.agreement import Contrast, Lead
from attributionlab.verdicts.metric_trials.asking import OFFSET, PIXELS, Examined
from attributionlab.verdicts.metric_trials.check import ALL_CHECKS, CheckRow
from attributionlab.verdicts.metric_trials.registry import METRICS, NAMED
from attributionlab.verdicts.metric_trials.report import DoseScore, Trial
from attributionlab.verdicts.metric_trials.words import NUMBERS


@pytest.fixture(scope="module")
def card():
    """A card of the metric "mine", whose trial fell for a lure and dropped on one axis."""
    drops = [("share", 0.1, Found(0.2, 0.1, 0.3)), ("share", 1.0, Found(0.3, 0.2, 0.4))]
    drops += [("strength", 1.0, Found(0.1, -0.1, 0.3))]
    doses = [
        DoseScore(axis, dose, 0.5, {"signed": Found(0.6, 0.5, 0.7)}, 1.0, 1.0, 1.0, "exact", drop)
        for axis, dose, drop in [("share", 0.0, None), *drops]
    ]
    lures = pd.DataFrame({"lure": ["foreground", "other target"], "beats_exact": [0.5, 0.49]})
    contrast = Contrast(Found(1.5, 1.25, 1.75), pd.Series([1.5] * 8).to_numpy(), 1.6)
    lead = Lead("sparsity (blind)", 0.7, 0.5, Found(0.2, 0.1, 0.3))
    tables = pd.DataFrame(), pd.DataFrame(), lures
    trial = Trial(Found(0.7, 0.6, 0.8), contrast, lead, *tables, 8)
    rows = [
        CheckRow("sign", "note", "below exact", "1 | 2", "asks", "code"),
        CheckRow("order", "note", "in order", "none", "asks", "code"),
        CheckRow("added", "by declaration", "below exact", "declared", "asks", "code"),
        CheckRow("best", "pass", "none above", "0 above it", "asks", "code"),
    ]
    checks = CheckReport("mine", True, rows, 3, None)
    about = "mine", True, "place", "logit", 8, 3
    report = MetricReport(*about, ["exact"], doses, trial, checks=checks, image_size=72)
    costs = [Cost(8, 1065, 2, 0), Cost(16, 4257, 9, 0)]
    return MetricCard(any_metric(mine, True), report, costs, "attributionlab metric mine")


def mine(model, images, targets, attributions):
    raise AssertionError


def stating(card, **stated):
    return replace(card.metric, stated={**card.metric.stated, **stated})


def declaring(card, **stated):
    return replace(card, metric=stating(card, **stated), report=None)


def trying(card, **changed):
    """The card with another trial."""
    return replace(card, report=replace(card.report, trial=card.trial._replace(**changed)))


@pytest.mark.parametrize(
    ("declared", "unseen"),
    [
        ({}, []),
        ({"invariances": ("scale", "added")}, ["scale", "added"]),
        ({"unit": "order"}, ["sizes"]),
        ({"unit": "local gradient"}, ["replacement"]),
        ({"unit": "place"}, []),
        ({"maps": "unit"}, ["below 0"]),
        ({"neighbors": "patches"}, ["in patches"]),
        ({"neighbors": "imputation"}, []),
        ({"ties": "reading order", "sampled": True, "rising": True}, []),
    ],
    ids=str,
)
def test_what_declarations_say_it_cannot_see(card, declared, unseen):
    found = declaring(card, **declared)
    assert list(found.cannot_see()) == unseen
    known = "It imputes removed pixels, for which no exact map is known"
    imputes = any(each.startswith(known) for each in found.sentences)
    assert imputes == (declared.get("neighbors") == "imputation")


def test_declared_numbers_are_shown_as_numbers_and_truths_in_words(card):
    declared = declaring(card, unchanged=1, sampled=True, invariances=("scale", "exchange"))
    shown = dict(declared.tables()["What it declares"].to_numpy())
    words = [shown[name] for name in ("unchanged", "sampled", "rising", "unit", "invariances")]
    assert words == ["1", "yes", "no", "not declared", "scale, exchange"]


def test_what_it_cannot_see_has_its_evidence_in_checks_lures_and_the_contrast(card):
    seen = {
        "sign": ["check sign: 1 | 2"],
        "lure foreground": ["trial: it scored as high as the exact map in 50% of the questions"],
    }
    assert card.cannot_see() == seen
    blind = trying(card, contrast=Contrast(Found(0, 0, 0), pd.Series([0.0] * 8), 1.6))
    assert blind.cannot_see() == seen | {"network": ["trial: the swap contrast is 0"]}
    takes_none = any_metric(lambda attributions, *, replacement, seed: 0, True)
    assert list(MetricCard(takes_none).cannot_see()) == ["network"]
    invariances = {"scale", "shift", "sign", "added", "missing", "exchange"}
    assert set(MEANINGS) - {"sizes", "below 0", "in patches"} - invariances <= set(ALL_CHECKS)


def test_the_drop_is_the_smallest_dose_whose_interval_lies_above_zero(card):
    assert card.drops_at() == {"share": 0.1}
    assert card.row()["drops_at"] == "share 0.1"
    found = card.tables()[NUMBERS]["what"].tolist()
    assert found == ["agreement", "swap contrast", "lead over control", "drop", "drop", "drop"]


def test_the_card_shows_faults_and_declared_answers_and_counts_the_rest(card):
    [checks] = [table for name, table in card.tables().items() if name.startswith("Checks")]
    assert checks["check"].tolist() == ["sign", "order", "added"]
    assert "no fault (2 note, 1 by declaration, 1 pass)" in card.sentences[0]
    assert "n = 8 questions, seed 3" in card.sentences[1]
    assert "place (logit, 72 x 72 pixels)" in card.sentences[1]
    said = dict(card.tables()["What it is"].to_numpy())
    assert said["cost of one map"] == (
        "1,065 forward passes in 2 calls (8 x 8), 4,257 forward passes in 9 calls (16 x 16)"
    )
    assert said["direction"] == "higher is better"


def test_where_few_questions_have_a_ranking_there_is_no_interval_and_no_drop(card):
    few, enough = (trying(card, ranked=ranked) for ranked in (5, 6))
    assert math.isnan(few.row()["agreement_low"])
    assert (few.row()["drops_at"], few.row()["contrast_low"]) == ("", 1.25)
    assert "n = 8, of which 5 have a ranking: intervals" in few.report.notes[0]
    assert (enough.row()["drops_at"], enough.row()["agreement_low"]) == ("share 0.1", 0.6)
    each = pd.Series([1.5] * 5 + [math.nan] * 3).to_numpy()
    contrast = card.trial.contrast._replace(each=each)
    unranked = trying(card, agreement=Found(*[math.nan] * 3), contrast=contrast)
    shown = MetricCards([unranked]).shown()
    assert (shown["agreement"].tolist(), shown["contrast"].tolist()) == ([""], ["1.50"])


def test_a_row_has_numbers_and_the_page_their_texts(card):
    cards = MetricCards([card, card_of(NAMED["random-logit"])])
    row, untried = cards.to_frame().to_dict("records")
    assert (row["agreement"], row["agreement_low"], row["contrast_high"]) == (0.7, 0.6, 1.75)
    assert (row["faults"], row["notes"], row["cost"]) == (0, 2, "1,065 (8 x 8), 4,257 (16 x 16)")
    assert untried["not_examined"] == "there was neither a check nor a trial"
    shown, empty = cards.shown().to_dict("records")
    assert (shown["agreement"], shown["contrast"]) == ("0.70 [0.60, 0.80]", "1.50 [1.25, 1.75]")
    assert (empty["agreement"], empty["faults"], empty["verdict"]) == ("", "", "not tried")
    assert (empty["cost"], empty["better"]) == ("1, 2 maps of the method", "lower")


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_metric_has_a_card_and_those_that_cannot_be_tried_say_why(name):
    card = card_of(NAMED[name])
    assert card.not_examined
    assert "formula" in dict(card.tables()["What it is"].to_numpy())
    assert card.row()["metric"] == name


def test_files_are_markdown_or_pages_and_nothing_else(card, tmp_path):
    named = replace(stating(card, unit="nan"), name="<b>|mine\n")
    foreign = replace(card, metric=named)
    foreign.save(tmp_path / "a.md")
    foreign.save(tmp_path / "a.HTML")
    text = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert text.startswith("# <b>|mine\\n (higher is better)\n")
    assert "| sign | note | below exact | 1 \\| 2 |" in text
    assert "| unit | nan |" in text
    end = "```\nattributionlab metric mine\n```\n\n<!-- written by AttributionLab -->\n"
    assert text.endswith(end)
    page = (tmp_path / "a.HTML").read_text(encoding="utf-8")
    assert "<h1>&lt;b&gt;|mine" in page
    assert "<td>unit</td><td>nan</td>" in page
    assert "<b>" not in page
    with pytest.raises(AttributionLabError, match=r"the card is '.*a.txt': name it .md or .html"):
        card.save(tmp_path / "a.txt")


def test_the_folder_has_a_page_a_table_and_a_card_each(card, tmp_path):
    written = MetricCards([card, card_of(NAMED["random-logit"])], "again").save(tmp_path / "new")
    names = [path.name for path in written]
    assert names == ["index.html", "table.csv", "mine.html", "random-logit.html"]
    page = (tmp_path / "new" / "index.html").read_text(encoding="utf-8")
    assert '<td><a href="mine.html">mine</a></td>' in page
    assert "<td>0.70 [0.60,\N{NO-BREAK SPACE}0.80]</td>" in page
    assert ("<td>1,065 (8 x 8), 4,257 (16 x 16)</td>").replace(
        " x ", "\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}"
    ) in page
    assert "<td>share\N{NO-BREAK SPACE}0.1</td>" in page
    assert "http" not in page.replace("http-equiv", "")
    table = pd.read_csv(tmp_path / "new" / "table.csv")
    assert table["metric"].tolist() == ["mine", "random-logit"]
    assert table["contrast_low"][0] == 1.25


@metric(higher_is_better=False, per_sample=True, unit="order")
def largest(model, images, targets, attributions):
    return -attributions.amax((1, 2, 3))


def with_finding(check, status):
    return CheckReport("largest", False, [CheckRow(check, status, "", "", "", "")], 0, None)


def test_a_metric_with_a_note_is_tried_and_one_with_a_fault_is_not(monkeypatch, card):
    report = replace(card.report, metric="largest", checks=None)
    monkeypatch.setattr(test, "reports_of", lambda *given, **options: [report])
    found = [with_finding("order", "note"), with_finding("one-number", "fault")]
    monkeypatch.setattr(check_module, "checked", lambda *given, **options: found.pop(0))
    [tried], [faulty] = (metric_cards([largest]).cards for _ in range(2))
    assert (tried.trial, tried.not_examined) == (report.trial, "")
    assert (tried.name, tried.title, tried.facts) == ("largest", "largest (lower is better)", None)
    assert tried.costs == [Cost(8, 0, 0, 0), Cost(16, 0, 0, 0)]
    assert (faulty.trial, faulty.costs) == (None, [])  # what gives no scores
    assert faulty.not_examined == "its code has a fault, so there was no trial"


def test_a_card_says_what_was_left_out():
    check = CheckReport("largest", False, [], 0, None)
    passed = MetricReport("largest", False, "", "", 0, 0, [], [], checks=check)
    for report, said in (
        (None, "there was neither a check nor a trial"),
        (passed, "its code was checked, but there was no trial"),
    ):
        assert card_of(any_metric(largest), report).not_examined == said


def test_a_card_of_a_stopped_trial_says_so(card, tmp_path):
    stopped = replace(card, report=replace(card.report, wanted=12))
    assert any("stopped early" in each for each in stopped.sentences)
    assert not any("stopped" in each for each in card.sentences)
    MetricCards([card, stopped]).save(tmp_path / "a")
    MetricCards([card]).save(tmp_path / "b")
    shown = ["stopped" in (tmp_path / name / "index.html").read_text() for name in ("a", "b")]
    assert shown == [True, False]


# Of P pixels, in batches as each metric likes: 16 patches and the whole image; all subsets of a curve;
# 100 subsets and the image; draws of a method's map and the map itself.
KNOWN = {
    "f1": (lambda pixels: 0, 0),
    "deletion": (lambda pixels: pixels + 1, 0),
    "insertion": (lambda pixels: pixels + 1, 0),
    "monotonicity": (lambda pixels: pixels + 1, 0),
    "sds": (lambda pixels: 17, 0),
    "selectivity": (lambda pixels: 17, 0),
    "ids": (lambda pixels: 32, 0),
    "infidelity": (lambda pixels: 101, 0),
    "road": (lambda pixels: 7, 0),
    "max-sensitivity": (lambda pixels: 0, 11),
    "relative-output-stability": (lambda pixels: 11, 11),
    "top-rank-agreement": (lambda pixels: 0, 0),
    "efficiency-gap": (lambda pixels: 0, 0),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", KNOWN)
def test_the_count_is_what_the_definition_says(name, side):
    found = cost_of(NAMED[name], side)
    passes, maps = KNOWN[name]
    assert (found.side, found.passes, found.maps) == (side, passes(side * side), maps)
    assert bool(found.calls) == bool(found.passes)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_metric_is_counted_and_leaves_global_random_states(name):
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert cost_of(NAMED[name], 8).calls <= 64
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert before == after


@given(st.lists(st.integers(1, 9), max_size=5))
def test_a_user_s_metric_with_names_of_its_own_is_counted(batches):
    def mine(model, x, y, a):
        for size in batches:
            model(x.repeat(size, 1, 1, 1))
        return a.sum((1, 2, 3))

    assert cost_of(any_metric(mine, True), 4) == Cost(4, sum(batches), len(batches), 0)


def test_what_a_user_s_metric_raises_is_refused_and_its_card_has_no_cost():
    def of_one_size(model, images, targets, attributions):
        return attributions.view(-1, 12, 12).sum((1, 2))

    with pytest.raises(
        AttributionLabError, match=r"of_one_size raised Runtime.*test_card.py, line"
    ):
        cost_of(any_metric(of_one_size, True), 8)
    card = card_of(any_metric(of_one_size, True))
    assert card.costs == []
    assert dict(card.tables()["What it is"].to_numpy())["cost of one map"] == "not counted"


BY_IMAGE = [name for name in METRICS if name in FUNCTIONS and METRICS[name].function.per_sample]
ROUNDING = 4e-6
"""Of a score: 64 * 2^-24, what float32 leaves of a sum of 64 terms; most scores are float64."""


def test_every_metric_has_facts_and_nothing_else_has():
    names = {function.__name__ for function in FUNCTIONS.values()}
    assert {*known_facts()} == names, "by hand: attributionlab/metrics/facts.toml"


@pytest.mark.parametrize("name", known_facts())
def test_all_facts_are_said_and_the_use_is_one_sentence(name):
    said = known_facts()[name]
    assert all(said)
    assert re.search(r"\d{4}|AttributionLab|as `", said.source)
    assert re.fullmatch(r"(To|Together with|As) [^.]+\.", said.use)


@pytest.mark.parametrize("name", known_facts())
def test_what_facts_refer_to_exists(name):
    references = re.findall(r"\bas `(\w+)`", " ".join(known_facts()[name]))
    assert set(references) <= set(known_facts()) - {name}


def bounds(text, values):
    """Least and largest score that a stated range allows; a linear f changes by each pixel's value."""
    low = OFFSET + float(values.clamp(max=0).sum())
    high = OFFSET + float(values.clamp(min=0).sum())
    known = {
        "0 to 1": (0, 1),
        "0 or 1": (0, 1),
        "-1 to 1": (-1, 1),
        "at least 0": (0, math.inf),
        "0 to ln P": (0, math.log(PIXELS)),
        "at most 1 where f >= 0": (-math.inf, 1 if low >= 0 else math.inf),
        "range of f": (low, high),
        "range of drops of f": (low - high, high - low),
    }
    return known[text]


@pytest.mark.parametrize("name", BY_IMAGE)
def test_scores_lie_in_the_stated_range(name):
    subject, stated = (
        Examined(METRICS[name], 0),
        known_facts()[METRICS[name].function.__name__].range,
    )
    for maps in (
        subject.exact,
        lambda lab: -subject.exact(lab),
        lambda lab: subject.noise(lab, 5),
        lambda lab: torch.ones_like(lab.values),
    ):
        scores = subject.on_all(maps) * subject.sign
        each = [values for lab in subject.labs for values in lab.values]
        for score, values in zip(scores, each, strict=True):
            low, high = bounds(stated, values)
            reach = ROUNDING * max(1, abs(score))
            assert np.isnan(score) or low - reach <= score <= high + reach
