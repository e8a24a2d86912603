"""Table 2, small: checkpoints lie on one trajectory, and correlations are of the right pairs."""

import math

import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.metrics.ranking import spearman
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.metarank import checkpoints, removal
from attributionlab.papers.metarank.checkpoints import BETWEEN, PROTOCOL, WITHIN
from attributionlab.papers.subjects.drawn_pictures import CLASSES, pictures
from attributionlab.papers.subjects.networks import trained_small_network
from attributionlab.papers.subjects.subjects import subject_trained_on
from claims_held import cases, follows

METHODS = ("input-x-gradient", "saliency", "gradcam", "deconvolution")


def test_a_checkpoint_lies_on_the_trajectory_of_its_training():
    learned = pictures(64, 0)
    early = subject_trained_on(learned, pictures(4, 1), 0, 1).model
    labels = {"classes": CLASSES, "seed": 0}
    late = trained_small_network(learned.images, learned.labels, epochs=2, **labels)
    again = trained_small_network(learned.images, learned.labels, epochs=1, **labels)
    for one, same, other in zip(
        early.parameters(), again.parameters(), late.parameters(), strict=True
    ):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


@pytest.fixture(scope="module")
def trained():
    """Two short trainings, four methods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "PAPER_METHODS", METHODS)
        patch.setattr(removal, "FRACTIONS", (0.0, 0.5))
        return checkpoints.checkpoint_rankings(
            Run("metarank-table-2", n=6), runs=2, epochs=4, training=64
        )


def test_checkpoints_trainings_and_protocols_are_compared(trained):
    table = trained["correlations"]
    assert table.kind.value_counts().to_dict() == {WITHIN: 2 * 2 * 6, BETWEEN: 2, PROTOCOL: 2}
    wide = trained["areas"].pivot(
        index="method", columns=["run", "epoch", "protocol"], values="rank"
    )
    row = table[table.kind == BETWEEN].iloc[0]
    one, other = wide[0, 4, row.protocol], wide[1, 4, row.protocol]
    assert row.correlation == pytest.approx(spearman(one, other), nan_ok=True)
    assert row.moved == (one != other).sum()
    assert trained["ranks"].shape == (8, 3 + len(METHODS))
    assert trained["consistency"].low.isna().all()


def test_ranks_that_moved_are_counted_from_the_last_epoch(trained):
    table = trained["checkpoints"].set_index("epoch")
    assert table.index.tolist() == [1, 2, 3, 4]
    assert math.isnan(table.moved[4])
    ends = trained["correlations"].query("kind == @WITHIN and other_epoch == 4 and epoch == 2")
    assert table.moved[2] == ends.moved.mean()
    accuracy = trained["areas"].groupby("epoch").accuracy.mean()
    assert table.accuracy.tolist() == pytest.approx(accuracy.tolist())


def test_a_correlation_of_two_trainings_counts_for_both():
    table = pd.DataFrame(
        {
            "kind": BETWEEN,
            "run": [0, 0, 1],
            "other_run": [1, 2, 2],
            "correlation": [0.0, 0.6, 1.0],
        }
    )
    assert checkpoints._by_run(table, BETWEEN).tolist() == [0.3, 0.5, 0.8]
    within = pd.DataFrame(
        {"kind": WITHIN, "run": range(3), "other_run": range(3), "correlation": 0.9}
    )
    protocol = within.assign(kind=PROTOCOL, correlation=1.0)
    found = checkpoints._differences(pd.concat([table, within, protocol]), 0).set_index("other")
    assert found.difference[BETWEEN] == pytest.approx(0.9 - (0.3 + 0.5 + 0.8) / 3)
    assert found.difference[PROTOCOL] == pytest.approx(-0.1)


MADE = {
    "consistency": pd.DataFrame({"rankings": [WITHIN, BETWEEN], "low": [0.8, 0], "high": 0.9}),
    "differences": pd.DataFrame({"other": [BETWEEN, PROTOCOL], "low": [-1, 0.1], "high": 0.9}),
    "checkpoints": pd.DataFrame({"low": [4, 1, 1, math.nan], "high": [5, 2, 3, math.nan]}),
}
"""Tables by which every claim agrees."""


@cases(
    """
    checkpoints_are_alike | consistency | rankings == @BETWEEN | high=0.1 | agrees
    | consistency | rankings == @WITHIN | low=0.5, high=0.6 | differs
    | consistency | rankings == @WITHIN | low=0.6 | undecided
    | consistency | rankings == @WITHIN | low=nan, high=nan | undecided
    checkpoints_exceed_protocols | differences | other == @BETWEEN | high=-0.5 | agrees
    | differences | other == @PROTOCOL | low=-0.2, high=-0.1 | differs
    | differences | other == @PROTOCOL | low=-0.1 | undecided
    | differences | other == @PROTOCOL | low=nan, high=nan | undecided
    first_quarter_differs_most | checkpoints | index == 0 | high=6 | agrees
    | checkpoints | index == 0 | low=0, high=0.5 | differs
    | checkpoints | index == 0 | low=1.5 | undecided
    """,
    checkpoints,
)
def test_each_claim_follows_its_table(name, table, where, values, answer):
    follows(MADE, name, table, where, values, answer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 6}, "epochs are 6: take a multiple of 4"),
    ],
)
def test_impossible_trainings_are_refused(settings, message):
    sizes = {"runs": 2, "epochs": 4, "training": 8} | settings
    with pytest.raises(al.AttributionLabError, match=message):
        reproduce("metarank-table-2", n=2, settings=sizes)
