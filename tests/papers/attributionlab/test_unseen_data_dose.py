"""The study of doses: its tables, its figure, and sentences that its numbers bear out."""

import pytest

from attributionlab.metric_trials.conditions import AXES
from attributionlab.metric_trials.evaluations import METRICS
from attributionlab.papers.attributionlab import unseen_data_dose as study
from attributionlab.papers.attributionlab.unseen_data_dose import unseen_data_dose


@pytest.fixture(scope="module")
def outcome():
    """The real study on images of 12 pixels, with two methods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attributionlab.papers.attributionlab.comparison_plan.QUICK_SIZE", 12)
        patch.setattr(study, "METHODS", ("saliency", "lrp"))
        return unseen_data_dose(n=2, quick=True)


def test_the_tables_have_every_metric_at_every_dose(outcome):
    assert outcome.item == "unseen-data-dose"
    doses = outcome.tables["doses"]
    number = sum(len(axis.doses) for axis in AXES.values())
    assert len(doses) == len(METRICS) * number * 3
    assert outcome.tables["breaks"].metric.tolist() == list(METRICS)


def test_the_figure_has_a_panel_for_each_kind_of_dose(outcome):
    figure = outcome.figures["doses"]
    assert [axis.get_xlabel() for axis in figure.axes] == [axis.meaning for axis in AXES.values()]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == [*(name for name in METRICS if name != "pixel-flipping"), "threshold"]


def test_localization_does_not_change_with_the_dose_and_deletion_does(outcome):
    doses = outcome.tables["doses"]
    spread = doses.groupby(["metric", "ranked_by"]).correlation.nunique()
    assert (spread.loc["pointing-game"] == 1).all()
    assert (spread.loc["deletion"] > 3).all()


def test_findings_name_the_step_the_contrast_and_the_interval_of_eight_methods(outcome):
    text = "\n".join(outcome.findings)
    assert "acts as a step: one gray level is as bad as black" in text
    assert "-0.10 to 0.93" in text
    assert "Localization metrics perturb nothing" in text
    assert "Their correlations differ by at most" in text


def test_the_table_of_breaks_repeats_what_the_doses_say(outcome):
    doses = outcome.tables["doses"]
    row = outcome.tables["breaks"].set_index("metric").loc["insertion"]
    along = doses[
        (doses.metric == "insertion") & (doses.ranked_by == "signed") & (doses.axis == "share")
    ]
    broken = "not shown"
    for each in reversed(list(along.itertuples())):
        if each.high >= study.THRESHOLD:
            break
        broken = f"{each.dose:g}"
    assert row["breaks_at_share"] == broken
    assert row["correlation_without_unseen"] == along.iloc[0].correlation
