"""What a card says follows from what was declared, checked and measured."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from attributionlab import AttributionLabError
from attributionlab.metrics import metric
from attributionlab.metrics.ranking import CorrelationInterval as Found
from attributionlab.verdicts import FUNCTIONS, CheckReport, MetricReport, any_metric
from attributionlab.verdicts.cards.card import (
    MEANINGS,
    MetricCard,
    MetricCards,
    card_of,
    metric_card,
)
from attributionlab.verdicts.cards.cost import Cost
from attributionlab.verdicts.metric_trials import test
from attributionlab.verdicts.metric_trials.check import ALL_CHECKS, CheckRow
from attributionlab.verdicts.metric_trials.registry import NAMED
from attributionlab.verdicts.metric_trials.report import DoseScore, Trial
from attributionlab.verdicts.metric_trials.swap import Contrast, Drop, Lead


@pytest.fixture(scope="module")
def card():
    """A card of the metric "mine", whose trial fell for a lure and dropped on one axis."""
    share = [(0.0, Found(0.0, -0.1, 0.1)), (0.1, Found(0.2, 0.1, 0.3)), (1.0, Found(0.3, 0.2, 0.4))]
    drops = [Drop("share", *each) for each in share[1:]]
    drops += [Drop("strength", 1.0, Found(0.1, -0.1, 0.3))]
    doses = [
        DoseScore(axis, dose, 0.5, {"signed": Found(0.6, 0.5, 0.7)}, 1.0, 1.0, 1.0, "exact")
        for axis, dose in [("share", 0.1), ("share", 1.0), ("strength", 1.0)]
    ]
    lures = pd.DataFrame({"lure": ["foreground", "other target"], "beats_exact": [0.5, 0.49]})
    contrast = Contrast(Found(1.5, 1.25, 1.75), pd.Series([1.5] * 8).to_numpy(), 1.6)
    lead = Lead("sparsity (blind)", 0.7, 0.5, Found(0.2, 0.1, 0.3))
    tables = pd.DataFrame(), pd.DataFrame(), lures
    trial = Trial(Found(0.7, 0.6, 0.8), contrast, lead, drops, *tables, 8)
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
    assert list(declaring(card, **declared).cannot_see()) == unseen
    assert set(unseen) <= set(MEANINGS)


def test_declared_numbers_are_shown_as_numbers_and_truths_in_words(card):
    declared = declaring(card, unchanged=1, sampled=True, invariances=("scale", "exchange"))
    shown = dict(declared.tables()["What it declares"].to_numpy())
    words = [shown[name] for name in ("unchanged", "sampled", "rising", "unit", "invariances")]
    assert words == ["1", "yes", "no", "not declared", "scale, exchange"]


def test_a_metric_that_imputes_is_said_to_be_known_in_part(card):
    assert not any("imputes" in each for each in card.sentences)
    imputing = declaring(card, neighbors="imputation").sentences
    assert imputing[0].startswith("It imputes removed pixels, and with that no exact map is known")


def test_an_axis_on_which_nothing_unseen_was_tried_has_no_row(card):
    assert trying(card, drops=card.trial.drops[2:]).drops()["axis"].tolist() == ["strength"]


def test_what_is_given_nothing_that_a_network_changes_cannot_see_the_network(card):
    blind = any_metric(lambda attributions, *, replacement, seed: 0, True)
    assert list(MetricCard(blind).cannot_see()) == ["network"]


def test_faults_and_lures_are_what_it_cannot_see_with_the_evidence(card):
    assert card.cannot_see() == {
        "sign": ["check sign: 1 | 2"],
        "lure foreground": [
            "trial: it scored as well as the exact map in 50% of the questions",
        ],
    }


def test_a_contrast_of_zero_is_blindness_to_the_network(card):
    blind = trying(card, contrast=Contrast(Found(0, 0, 0), pd.Series([0.0] * 8), 1.6))
    assert blind.cannot_see()["network"] == ["trial: the swap contrast is 0"]


def test_checks_that_say_what_is_seen_are_checks_of_the_kit():
    invariances = {"scale", "shift", "sign", "added", "missing", "exchange"}
    ours = {"sizes", "below 0", "in patches"}
    assert set(MEANINGS) - ours - invariances <= set(ALL_CHECKS)


def test_the_drop_is_the_smallest_dose_whose_interval_lies_above_zero(card):
    table = card.drops().set_index("axis")
    assert table.loc["share", ["drops_at", "drop_there", "largest_dose"]].tolist() == [
        *("0.1", "0.20 [0.10, 0.30]", 1.0)
    ]
    assert table.loc["strength", "drops_at"] == ""
    assert table.loc["strength", "drop_there"] == "none is shown"
    assert card.row()["drops_at"] == "share 0.1"


def test_the_card_shows_faults_and_declared_answers_and_counts_the_rest(card):
    [checks] = [table for name, table in card.tables().items() if name.startswith("Checks")]
    assert checks["check"].tolist() == ["sign", "order", "added"]
    assert "no fault (2 note, 1 by declaration, 1 pass)" in card.sentences[0]
    assert "n = 8 questions, seed 3" in card.sentences[1]
    assert "place (logit, 72 x 72 pixels)" in card.sentences[1]


def test_a_trial_without_a_ranking_is_said_to_be_undefined(card):
    unranked = trying(card, agreement=Found(math.nan, math.nan, math.nan))
    assert unranked.tables()["Trial"].loc[0].tolist() == ["agreement", *["undefined"] * 3]
    assert math.isnan(unranked.row()["agreement"])
    assert MetricCards([unranked]).shown()["agreement"].tolist() == [""]


def test_where_few_questions_have_a_ranking_there_is_no_interval_and_no_drop(card):
    few, enough = (trying(card, ranked=ranked) for ranked in (5, 6))
    assert few.tables()["Trial"].loc[0].tolist() == ["agreement", 0.7, "undefined", "undefined"]
    assert few.row()["drops_at"] == ""
    assert few.row()["contrast_low"] == 1.25
    assert "n = 8, of which 5 have a ranking: intervals" in few.report.notes[-1]
    assert enough.row()["drops_at"] == card.row()["drops_at"] == "share 0.1"
    assert enough.row()["agreement_low"] == 0.6
    each = pd.Series([1.5] * 5 + [math.nan] * 3).to_numpy()
    contrast = card.trial.contrast._replace(each=each)
    assert MetricCards([trying(card, contrast=contrast)]).shown()["contrast"].tolist() == ["1.50"]


def test_costs_are_told_in_full_on_the_card(card):
    said = dict(card.tables()["What it is"].to_numpy())
    assert said["cost of one map"] == (
        "1,065 forward passes in 2 calls (8 x 8), 4,257 forward passes in 9 calls (16 x 16)"
    )
    assert said["direction"] == "higher is better"


def test_a_row_has_numbers_and_the_page_their_texts(card):
    cards = MetricCards([card, card_of(NAMED["random-logit"])])
    row, untried = cards.to_frame().to_dict("records")
    assert (row["agreement"], row["agreement_low"], row["contrast_high"]) == (0.7, 0.6, 1.75)
    assert (row["faults"], row["notes"], row["cost"]) == (0, 2, "1,065 (8 x 8), 4,257 (16 x 16)")
    assert untried["not_examined"] == "it was neither checked nor tried"
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
    foreign = replace(card, metric=replace(card.metric, name="<b>|mine\n"))
    foreign.save(tmp_path / "a.md")
    foreign.save(tmp_path / "a.HTML")
    text = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert text.startswith("# <b>|mine\\n (higher is better)\n")
    assert "| sign | note | below exact | 1 \\| 2 |" in text
    end = "```\nattributionlab metric mine\n```\n\n<!-- written by AttributionLab -->\n"
    assert text.endswith(end)
    page = (tmp_path / "a.HTML").read_text(encoding="utf-8")
    assert "<h1>&lt;b&gt;|mine" in page
    assert "<b>" not in page
    with pytest.raises(AttributionLabError, match=r"the card is '.*a.txt': cards are .md or .html"):
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


def untried(**given):
    return MetricReport("largest", False, "", "", 0, 0, [], [], **given)


def test_a_metric_with_a_note_is_tried_and_one_with_a_fault_is_not(monkeypatch, card):
    report = replace(card.report, metric="largest", checks=None)
    monkeypatch.setattr(test, "reports_of", lambda *given, **options: [report])
    found = [with_finding("order", "note"), with_finding("one-number", "fault")]
    monkeypatch.setattr(test, "checked", lambda *given, **options: found.pop(0))
    tried, faulty = metric_card(largest), metric_card(largest)
    assert (tried.trial, tried.not_examined) == (report.trial, "")
    assert (tried.name, tried.title, tried.facts) == ("largest", "largest (lower is better)", None)
    assert tried.costs == [Cost(8, 0, 0, 0), Cost(16, 0, 0, 0)]
    assert (faulty.trial, faulty.costs) == (None, [])  # what gives no scores
    assert faulty.not_examined == "its code has a fault, and it was not tried"


def test_a_card_says_what_was_left_out():
    passed = untried(checks=CheckReport("largest", False, [], 0, None))
    for report, said in (
        (None, "it was neither checked nor tried"),
        (passed, "it was checked and not tried"),
    ):
        assert card_of(any_metric(largest), report).not_examined == said


def test_a_name_like_nan_is_shown(card, tmp_path):
    named = replace(card, metric=stating(card, unit="nan"))
    for name, cell in (("a.md", "| unit | nan |"), ("a.html", "<td>unit</td><td>nan</td>")):
        named.save(tmp_path / name)
        assert cell in (tmp_path / name).read_text(encoding="utf-8")


def test_a_card_of_a_stopped_trial_says_so(card, tmp_path):
    stopped = replace(card, report=replace(card.report, wanted=12))
    assert any("stopped before its end" in each for each in stopped.sentences)
    assert not any("stopped" in each for each in card.sentences)
    MetricCards([card, stopped]).save(tmp_path / "a")
    MetricCards([card]).save(tmp_path / "b")
    shown = ["stopped" in (tmp_path / name / "index.html").read_text() for name in ("a", "b")]
    assert shown == [True, False]
