"""A leaderboard on the store: stopped and continued, in other orders, with what a cell depends on."""

import json

import pytest

from attributionlab.base import AttributionLabError, Stopped
from attributionlab.runs.running import outcome_of
from attributionlab.verdicts import PAIRS, rank_methods

FOUR = (PAIRS[0], PAIRS[2], PAIRS[1], PAIRS[4])
"""The second and the last have the same network and images."""
calls = []
at_call = {}
"""What `watched` raises at its k-th call."""


def watched(model, inputs, targets):
    calls.append(len(inputs))
    if len(calls) - 1 in at_call:
        raise at_call[len(calls) - 1]
    return inputs * (model(inputs).argmax(1) == targets)[:, None, None, None]


def ranked(**options):
    calls.clear()
    given = {"n": 2, "pairs": FOUR, "size": 16} | options
    return rank_methods([watched, "saliency", "lrp"], **given)


@pytest.fixture(autouse=True)
def fresh():
    at_call.clear()


@pytest.fixture(scope="module")
def undisturbed():
    at_call.clear()
    return ranked()


def test_pairs_that_share_their_maps_are_computed_together(undisturbed):
    ranked()
    assert len(calls) == 3
    assert [case.pair for case in undisturbed.cases] == [0, 0, 1, 1, 2, 2, 3, 3]
    names = [f"{pair.name}, {protocol}" for pair in FOUR for protocol in ("MoRF", "LeRF")]
    assert [case.name for case in undisturbed.cases] == names


@pytest.mark.long
def test_a_stopped_ranking_is_of_what_is_done_and_goes_on(undisturbed, tmp_path):
    at_call[1] = KeyboardInterrupt()
    with pytest.raises(Stopped, match="1 of 4 pairs were done") as stopped:
        ranked(out=tmp_path / "kept")
    part = stopped.value.result
    assert part.cases == undisturbed.cases[:2]
    assert part.title.endswith("; stopped after 1 of 4 pairs")
    assert json.loads(json.dumps(part.to_dict()))["notes"][0].startswith("Stopped after 1 of 4")
    at_call.clear()
    whole = ranked(out=tmp_path / "kept")
    assert len(calls) == 2
    assert whole.to_dict() == undisturbed.to_dict()
    assert whole.title == undisturbed.title
    assert ranked(out=tmp_path / "kept").to_dict() == undisturbed.to_dict()
    assert not calls


def test_stopped_before_every_method_ran_there_is_no_ranking(tmp_path):
    at_call[0] = ValueError("not this one")
    at_call[1] = KeyboardInterrupt()
    with pytest.raises(Stopped, match="1 of 4 pairs were done") as stopped:
        ranked(out=tmp_path / "kept")
    assert stopped.value.result is None


@pytest.mark.long
def test_the_order_in_which_pairs_are_done_changes_nothing(undisturbed, monkeypatch):
    def backward(cells, *_, **__):
        yield from ((cell, outcome_of(cell.compute)) for cell in reversed(cells))

    monkeypatch.setattr("attributionlab.runs.running.run_cells", backward)
    assert ranked().to_dict() == undisturbed.to_dict()


@pytest.mark.long
def test_pairs_keep_their_numbers_wherever_they_were_computed(undisturbed, tmp_path):
    ranked(out=tmp_path / "kept")
    other = ranked(pairs=FOUR[1:], out=tmp_path / "kept")
    assert not calls
    assert other.to_dict() == ranked(pairs=FOUR[1:]).to_dict()
    assert [case.pair for case in other.cases] == [0, 0, 1, 1, 2, 2]


def keys(monkeypatch, methods=("saliency", "lrp"), **options):
    """Keys of the cells of a ranking."""
    seen = []

    def nothing(cells, *_, **__):
        seen.extend(cells)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("attributionlab.runs.running.run_cells", nothing)
    with pytest.raises(Stopped):
        rank_methods(list(methods), **{"n": 2, "pairs": PAIRS[:1], "size": 16} | options)
    return [cell.key for cell in seen]


@pytest.mark.long
def test_a_cell_depends_on_all_that_its_scores_do_and_on_nothing_else(monkeypatch):
    def same_name(by):
        def watched(model, inputs, targets):
            return inputs * by

        return watched

    drawn = [PAIRS[0]._replace(changes={"weight_seed": 5})]
    different = [
        {},
        {"pairs": drawn},
        {"pairs": drawn, "seed": 1},
        {"methods": ["lrp", same_name(1)]},
        {"methods": ["lrp", same_name(2)]},
        {"n": 3},
        {"seed": 1},
        {"size": 24},
        {"indicator": "label-probability"},
        {"pairs": PAIRS[1:2]},
        {"pairs": [PAIRS[0]._replace(removed_to="true baseline")]},
        {"pairs": [PAIRS[0]._replace(label="other")]},
        {"methods": ["saliency", "lrp", "gradcam"]},
        {"methods": ["lrp", watched]},
        {"methods": ["saliency", watched]},
    ]
    found = [keys(monkeypatch, **each) for each in different]
    assert len({key for each in found for key in each}) == len(different)
    assert keys(monkeypatch, confidence=0.9, jobs=2) == found[0]


def test_a_cell_that_no_method_survived_is_refused_at_once_and_again(tmp_path):
    def never(model, inputs, targets):
        calls.append(0)
        raise ValueError("never")

    def nor_this(model, inputs, targets):
        raise ValueError("never")

    calls.clear()
    for _ in range(2):
        with pytest.raises(
            AttributionLabError, match=r"no method ran on four colors, dose 0; .*never"
        ):
            rank_methods([never, nor_this], 1, pairs=FOUR, size=16, out=tmp_path / "kept")
    assert len(calls) == 1
