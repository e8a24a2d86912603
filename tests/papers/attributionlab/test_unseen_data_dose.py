"""The item on doses: its tables, its figure, and claims that its numbers decide."""

import pandas as pd
import pytest

from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab import unseen_data_dose as study
from attributionlab.verdicts import AXES
from claims_held import all_hold

pytestmark = pytest.mark.long

NAMES = [metric.name for metric in study.METRICS]


@pytest.fixture(scope="module")
def outcome():
    """The real item on images of 12 pixels, with two methods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attributionlab.papers.attributionlab.comparison_plan.STATED_SIZE", 12)
        patch.setattr(study, "METHODS", ("saliency", "lrp"))
        return reproduce("unseen-data-dose", n=2, quick=True)


def test_the_tables_have_every_metric_at_every_dose(outcome):
    doses = outcome.tables["doses"]
    number = sum(len(axis.doses) for axis in AXES.values())
    assert len(doses) == len(NAMES) * number * 3
    assert outcome.tables["breaks"].metric.tolist() == NAMES


def test_the_figure_has_a_panel_for_each_kind_of_dose(outcome):
    figure = outcome.figures["doses"]
    assert [axis.get_title() for axis in figure.axes] == [axis.meaning for axis in AXES.values()]
    for axis, about in zip(figure.axes, AXES.values(), strict=True):
        assert [tick.get_text() for tick in axis.get_xticklabels()] == [
            f"{dose:g}" for dose in about.doses
        ]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == [name for name in NAMES if name != "pixel-flipping"]


def test_localization_does_not_change_with_the_dose_and_deletion_does(outcome):
    doses = outcome.tables["doses"]
    spread = doses.groupby(["metric", "ranked_by"]).correlation.nunique()
    assert (spread.loc["pointing-game"] == 1).all()
    assert (spread.loc["deletion"] > 3).all()
    here = {each["paper says"].split(",")[0]: each["here"] for each in outcome.claims}
    assert here["Localization metrics do not change with the dose"] == "agrees"


def test_the_table_of_breaks_repeats_what_the_doses_say(outcome):
    doses = outcome.tables["doses"]
    signed = doses[(doses.metric == "insertion") & (doses.ranked_by == "signed")]
    row = outcome.tables["breaks"].set_index("metric").loc["insertion"]
    along = signed[signed["axis"] == "share"]
    broken = "not shown"
    for each in reversed(list(along.itertuples())):
        if each.high >= study.THRESHOLD:
            break
        broken = f"{each.dose:g}"
    assert row["breaks_at_share"] == broken
    assert row["correlation_without_unseen"] == along.iloc[0].correlation
    assert row["worst"] == signed[signed.unseen > 0].correlation.min()
    assert outcome.tables["breaks"].set_index("metric").from_deletion["deletion"] == 0


def holds(ends, *, distance=(0.4, 0.4), still=(0.7, 0.7), beaten=1):
    """Whether each claim holds where metrics of the paper end at intervals of width 0.1."""
    rows = []
    for metric, value in zip(study.PAPER_METRICS, ends, strict=True):
        rows.append({"metric": metric, "axis": "strength", "dose": 4.0, "correlation": value})
    for dose, value in zip((1.0, 20.0), distance, strict=True):
        rows.append({"metric": "deletion", "axis": "distance", "dose": dose, "correlation": value})
    for dose, value in zip((0.0, 4.0), still, strict=True):
        row = {"metric": "pointing-game", "axis": "strength", "dose": dose}
        rows.append({**row, "correlation": value})
    doses = pd.DataFrame(rows).assign(ranked_by="signed", oracle=1.0)
    doses = doses.assign(low=doses.correlation - 0.05, high=doses.correlation + 0.05)
    breaks = pd.DataFrame({"metric": study.PAPER_METRICS, "worst": ends, "beaten_doses": beaten})
    breaks = breaks.assign(worst_high=breaks.worst + 0.05, correlation_without_unseen=0.6, low=0.55)
    tables = {"doses": doses, "breaks": breaks}
    return all_hold(tables, "unseen-data-dose")


def test_claims_follow_the_tables():
    assert set(holds((0.1, 0.25, 0.4)).values()) == {"agrees"}
    found = holds((0.4, 0.25, 0.7), distance=(0.4, 0.3), still=(0.7, 0.6), beaten=0)
    assert set(found.values()) == {"differs"}
    found = holds((0.5, 0.52, 0.54))
    assert found["insertion_loses_most"] == "undecided"
    assert found["unseen_data_makes_metrics_worse"] == "undecided"
    as_without = holds((0.5, 0.52, 0.6))
    assert as_without["unseen_data_makes_metrics_worse"] == "undecided"
