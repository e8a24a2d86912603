"""The run behind Figure 2 and its tables: what each item shows, what own networks get, the claims."""

import json

import numpy as np
import pandas as pd
import pytest

import attributionlab as al
from attributionlab.papers import items, reproduce
from attributionlab.papers.catalog import CLAIMS, Run
from attributionlab.papers.idsds import protocols as module
from attributionlab.papers.idsds import training
from attributionlab.papers.idsds.maps import ATTENDED
from attributionlab.papers.idsds.protocol_scores import IDS, IDSDS, PARTS, SDS, Scale, pair_scores
from attributionlab.papers.idsds.protocol_tables import ALIGNED, COMPARABLE, ROAR, TIGHT, Leak
from attributionlab.papers.idsds.protocols import (
    FIGURE_2,
    TABLE_1,
    TABLE_6,
    TABLE_7,
    idsds_protocols,
)
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.subjects import of_images
from idsds_cases import made_up_network, made_up_task, sum_scores

ITEMS = [name for name, item in items().items() if item.function.startswith("idsds.protocols:")]
SCALE = Scale(networks=2, training=8, images=2, epochs=1, fine_tuning=1, updated=2, steps=2)


@pytest.fixture(scope="module")
def found():
    """All of it, with one environment and networks that were never trained."""
    task, pair = made_up_task(), Pair(made_up_network(0), made_up_network(1))
    subject = of_images("made up", pair.original, task.images, task.labels, task.baseline)
    own = pair_scores(subject, pair.fine_tuned, ["1", "1"], SCALE, 0, truth=task.truth, quick=True)
    bag = own[(own.protocol == IDSDS) & (own.method == "saliency")].assign(method="BagNet", score=1)
    accuracies = pd.DataFrame({"place": "pictures", "family": "plain", "original": [0.5, 1.0]})
    learned = pd.concat([own, bag]).assign(place="pictures", network=0)
    logits = sum_scores()
    probabilities = logits[0].assign(output="probability", place="sum, probability")
    known = {"logit": logits, "probability": (probabilities, logits[1][:0])}
    leak = Leak("x", 0.5, 0.4, 0.6, 0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "environment_scores", lambda _, output, *__, **___: known[output])
        patch.setattr(module, "ENVIRONMENTS", {"multi-color-sum": "sum"})
        networks = accuracies.assign(network=[0, 1])
        patch.setattr(module, "trained_scores", lambda *_, **__: (learned, networks, (task, pair)))
        patch.setattr(module, "leaks", lambda *_: {IDSDS: leak, ROAR: leak})
        patch.setattr(module, "MODULO_IMAGES", 4)
        return idsds_protocols(Run(TABLE_1, 2, quick=True))


def test_every_item_shows_tables_that_the_run_has(found):
    assert len(ITEMS) == 6
    for name in ITEMS:
        assert set(items()[name].tables) <= set(found.tables)
    assert list(found.figures) == ["idsds", "updates", "protocols", "truth"]
    own = [items()[name].figure for name in ITEMS]
    assert own == ["", "truth", "", "updates", "protocols", "protocols"]
    assert all(len(table) for table in found.tables.values())
    assert found.tables["accuracy"].original.tolist() == [0.75]


def test_figures_have_a_panel_for_each_place_and_say_which_direction_is_better(found):
    panels = found.figures["updates"].axes
    assert [each.get_title() for each in panels] == ["sum", "sum, probability", "pictures"]
    assert "higher is better" in panels[0].get_xlabel()
    names = [each.get_text() for each in panels[0].get_yticklabels()]
    assert names[:2] + names[-1:] == ["IxG", "IxG-SG", "random"]
    assert "1 is best" in found.figures["truth"].axes[0].get_xlabel()


def test_in_a_run_claims_by_construction_agree_and_few_networks_give_no_verdict(found):
    for words in ("no output is another", "Equally black cells", "exact Shapley values of a sum"):
        assert claimed(words)(found.tables) is True
    for words in ("no method is above exact", "stay in the domain"):
        assert claimed(words)(found.tables) is True
    for words in ("B-cos networks", "values of a remainder"):
        assert claimed(words)(found.tables) is None


# Own networks


@pytest.fixture
def given(monkeypatch):
    """A user's network and images, and the same network fine-tuned."""
    task, received = made_up_task(), []

    def chosen(n, seed, *, images, model, weights=None, **settings):
        received.append((images, model, n, weights))
        network = made_up_network(1 if weights == "tuned.pt" else 0)
        known = (task.images, task.labels, task.baseline)
        return of_images("mine", network, *known, notes=(f"read {weights}",))

    monkeypatch.setattr(training, "chosen_subject", chosen)
    return received


FILES = {"images": "folder", "model": "net.py:net"}


@pytest.mark.long
def test_own_networks_get_all_that_needs_no_truth(given):
    settings = {**FILES, "weights": "a.pt", "fine_tuned": "tuned.pt", "layer": "1", "size": 8}
    found = reproduce(FIGURE_2, quick=True, settings=settings)
    assert given == [("folder", "net.py:net", 1, name) for name in ("a.pt", "tuned.pt")]
    assert set(found.tables) == {
        *("idsds", "sds", "ids", "updated", "rankings", "pairs", "correlations", "absolute"),
        *("preferences", "noise", "gains", "scores"),
    }
    assert list(found.figures) == ["idsds", "updates", "protocols"]
    images = found.tables["scores"].groupby("protocol").images.first()
    assert (images[IDSDS], images[IDS]) == (4, 2)  # a quick run updates maps of two images
    notes = found.notes[-4:]
    assert notes[:2] == ["read a.pt", "read tuned.pt"]
    for name, note in zip(ATTENDED, notes[2:], strict=True):
        assert note.startswith(f"{name} is left out: needs a network with attention")
    assert {each["here"] for each in found.claims} <= {"agrees", "differs", "undecided"}
    json.dumps(found.claims)


@pytest.mark.long
def test_own_networks_that_are_not_fine_tuned_have_no_idsds(given):
    found = reproduce(TABLE_6, n=2, quick=True, settings={**FILES, "size": 8})
    assert given == [("folder", "net.py:net", 2, None)]
    assert "idsds" not in found.tables
    assert "fine_tuned is not given: there is no IDSDS." in found.notes


@pytest.mark.parametrize("item", [TABLE_1, TABLE_7])
def test_items_that_need_the_truth_refuse_own_networks(item, given):
    with pytest.raises(al.AttributionLabError, match="needs networks whose truth is known"):
        idsds_protocols(Run(item, 1, quick=True), **FILES)


def test_weights_of_a_fine_tuned_network_need_images_and_a_model():
    with pytest.raises(al.AttributionLabError, match=r"fine_tuned is 'file\.pt' without images"):
        idsds_protocols(Run(FIGURE_2, 1, quick=True), fine_tuned="file.pt")


# Claims


def claimed(words):
    """The check of the one claim that says so."""
    [found] = [each for each in CLAIMS if set(each.items) & set(ITEMS) and words in each.statement]
    return found.check


def frame(columns, *rows):
    return pd.DataFrame(rows, columns=columns.split())


@pytest.mark.parametrize(
    ("check", "table", "column", "keys", "wanted", "opposite"),
    [
        (
            claimed("is better for IG"),
            "noise",
            "method",
            ("IG-U",),
            "noise",
            "baseline",
        ),
        (claimed("For RISE a uniform"), "noise", "method", ("RISE-U",), "baseline", "noise"),
        (claimed("raise IDS of raw"), "gains", "method", ("IxG", "IG"), "updated", "fixed"),
        (claimed("B-cos networks"), "intrinsic", "method", ("BagNet",), "first", "second"),
        (module.raw_is_better_under_idsds, "absolute", "method", ("IG", "IG-U"), "raw", "absolute"),
    ],
)
def test_claims_of_pairs_need_all_to_be_told_apart(check, table, column, keys, wanted, opposite):
    def holds(*better, method=None):
        rows = [(method or key, IDSDS, each, 0.5) for key in keys for each in better]
        columns = f"{column} protocol better raw_minus_absolute"
        return check({table: frame(columns, *rows)})

    assert holds(wanted, wanted) is True
    assert holds(wanted, "") is None
    assert holds(wanted, opposite) is False
    assert holds(opposite, method="another") is None
    assert holds() is None


def test_maps_that_are_the_same_do_not_count_against_raw_ones():
    table = frame(
        "method protocol better raw_minus_absolute",
        *(("IG", IDSDS, "", 0.0), ("IG", IDSDS, "raw", 0.5), ("IG-U", SDS, "absolute", 0.5)),
    )
    assert module.raw_is_better_under_idsds({"absolute": table}) is True


@pytest.mark.parametrize(
    ("ids", "idsds", "expected"),
    [
        ("absolute", "raw", True),
        ("absolute", "", True),
        ("absolute", "absolute", False),
        ("raw", "raw", False),
        ("", "raw", None),
    ],
)
def test_absolute_maps_are_to_be_better_under_ids_alone(ids, idsds, expected):
    table = frame("protocol better", (IDS, ids), (IDSDS, idsds))
    assert module.absolute_is_better_under_ids({"absolute": table}) is expected


@pytest.mark.parametrize(
    ("low", "high", "units", "expected"),
    [
        (0.7, 0.8, 12, True),
        (0.7, 0.8, 3, None),
        (0.4, 0.8, 12, None),
        (0.1, 0.2, 12, False),
    ],
)
def test_the_best_method_is_told_by_intervals(low, high, units, expected):
    columns = "place protocol method mean low high units"
    others = [("IxG", 0.5, 0.4, 0.6), ("Saliency", 0.3, 0.3, 0.3), ("BagNet", 0.9, 0.9, 0.9)]
    for check, protocol, best in (
        (claimed("highest IDSDS of all methods"), IDSDS, ("IG-U",)),
        (claimed("deletion of parts IG is the best"), PARTS, ("IG",)),
        (claimed("XGrad-CAM are the best"), IDS, ("Grad-CAM", "XGrad-CAM")),
    ):
        protocols = (IDS, SDS) if protocol == IDS else (protocol,)
        rows = [
            ("sum", each, *row, units)
            for each in protocols
            for row in [*others, *((name, 0.7, low, high) for name in best)]
        ]
        assert check({"scores": frame(columns, *rows)}) is expected


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0.8, 0.9, True), (0.5, 0.9, None), (0.1, 0.6, False)]
)
def test_rankings_are_alike_from_a_correlation_on(low, high, expected):
    columns = "place first second low high"
    table = frame(columns, ("sum", IDSDS, SDS, 0.9, 1.0), ("sum", IDSDS, IDS, 0.0, 0.1))
    one = frame(columns, ("colors", IDSDS, SDS, low, high), ("paper", IDSDS, SDS, 0.0, 0.1))
    assert module.sds_ranks_as_idsds({"correlations": pd.concat([table, one])}) is expected


@pytest.mark.parametrize(
    ("check", "name", "unlike"),
    [
        (claimed("stay in the domain"), ALIGNED, False),
        (claimed("Another calibration"), COMPARABLE, False),
        (module.leaks_are_as_published, TIGHT, False),
    ],
)
def test_ticks_and_crosses_that_were_measured_decide(check, name, unlike):
    def holds(*rows):
        rows = [*rows, (name, "n/a", "no"), (name, "yes", ""), ("another", "yes", "no")]
        return check({"properties": frame("property paper ours", *rows)})

    assert holds((name, "yes", "yes"), (name, "no", "no")) is True
    assert holds((name, "yes", "no"), (name, "no", "no")) is unlike
    # A leak that is not found may be there: few masks decide nothing.
    assert holds((name, "yes", "yes"), (name, "no", "yes")) is (None if name == TIGHT else False)


@pytest.mark.parametrize(
    ("exact", "unseen", "expected"), [(1.0, 0.0, True), (0.9, 0.0, False), (1.0, 0.1, False)]
)
def test_drops_are_exact_in_the_domain(exact, unseen, expected):
    table = frame("protocol unseen exact_drops", (IDSDS, unseen, exact), (SDS, 1.0, np.nan))
    assert module.drops_are_exact({"domain": table}) is expected


def agreement(output, images=12, **f1):
    """Agreement of IDSDS at 0.8, and of others, with intervals of +- 0.1."""
    rows = [
        (place, output, "all", protocol, value, value - 0.1, value + 0.1, images)
        for place in ("sum", "distractors")
        for protocol, value in {IDSDS: 0.8, **f1}.items()
    ]
    return {"agreement": frame("place output maps protocol f1 f1_low f1_high images", *rows)}


def test_equal_cells_leave_ranks_alone_only_where_agreement_is_equal():
    check = module.equal_cells_leave_ranks_alone
    assert check(agreement("logit", SDS=0.8)) is True
    assert check(agreement("logit", SDS=0.7)) is False
    assert check({}) is None


@pytest.mark.parametrize(
    ("ids", "speckled", "images", "expected"),
    [
        (0.4, 0.4, 12, True),
        (0.4, 0.7, 12, None),
        (0.4, 1.1, 12, False),
        (1.1, 0.4, 12, False),
        (0.4, 0.4, 5, None),
    ],
)
def test_leaving_the_domain_harms_by_intervals(ids, speckled, images, expected):
    tables = agreement("probability", images, **{IDS: ids, "SDS speckled 4": speckled})
    assert module.leaving_the_domain_harms(tables) is expected
    assert module.leaving_the_domain_harms({}) is None


def test_exact_values_gain_nothing_and_nothing_is_above_them():
    def gain(value):
        return {"gains": frame("method difference", (module.EXACT, value), ("IxG", 0.5))}

    assert module.exact_values_gain_nothing(gain(1e-9)) is True
    assert module.exact_values_gain_nothing(gain(0.01)) is False
    assert module.exact_values_gain_nothing({"gains": gain(0)["gains"][1:]}) is None

    def above(count):
        rows = (("sum", PARTS, count), ("sum, probability", PARTS, 3), ("sum", IDS, 3))
        return {"above": frame("place protocol above", *rows)}

    assert module.nothing_is_above_exact_values(above(0)) is True
    assert module.nothing_is_above_exact_values(above(1)) is False
    assert module.nothing_is_above_exact_values({}) is None


@pytest.mark.parametrize(
    ("high", "images", "expected"), [(0.9, 6, True), (1.0, 6, False), (0.9, 5, None)]
)
def test_remainders_fail_where_an_interval_stays_below_1(high, images, expected):
    assert module.remainders_fail({"modulo": frame("high images", (high, images))}) is expected
