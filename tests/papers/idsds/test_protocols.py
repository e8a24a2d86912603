"""The run behind Figure 2 and its tables: what each item shows, what own networks get, the claims."""

import json

import numpy as np
import pandas as pd
import pytest

import attributionlab as al
from attributionlab.papers import items, reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.idsds import protocols as module
from attributionlab.papers.idsds import training
from attributionlab.papers.idsds.maps import ATTENDED
from attributionlab.papers.idsds.protocol_scores import IDS, IDSDS, PARTS, SDS, Scale, pair_scores
from attributionlab.papers.idsds.protocol_tables import ALIGNED, COMPARABLE, ROAR, TIGHT, Leak
from attributionlab.papers.idsds.protocols import TABLE_1, TABLE_7, idsds_protocols
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.subjects import of_images
from claims_held import all_hold, cases, follows, holds
from idsds_cases import made_up_network, made_up_task, sum_scores

TABLE_6 = "idsds-table-6"
FIGURE_2 = "idsds-figure-2"

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
        patch.setattr(module.protocol_tables, "leaks", lambda *_: {IDSDS: leak, ROAR: leak})
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
    answers = all_hold(found.tables, FIGURE_2) | all_hold(found.tables, TABLE_1)
    for name in ("drops_are_exact", "equal_cells_leave_ranks_alone", "exact_values_gain_nothing"):
        assert answers[name] == "agrees"
    for name in ("nothing_is_above_exact_values", "domains_are_as_published"):
        assert answers[name] == "agrees"
    for name in ("networks_that_explain_themselves_are_ahead", "remainders_fail"):
        assert answers[name] == "undecided"


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


def frame(columns, *rows):
    return pd.DataFrame(rows, columns=columns.split())


@pytest.fixture(scope="module")
def made():
    """Tables by which every claim agrees."""
    best = {IDSDS: ["IG-U"], PARTS: ["IG"], IDS: ["Grad-CAM", "XGrad-CAM"]}
    best[SDS] = best[IDS]
    others = [("IxG", 0.5, 0.4, 0.6), ("Saliency", 0.3, 0.3, 0.3), ("BagNet", 0.9, 0.9, 0.9)]
    ahead = {each: [*others, *((name, 0.7, 0.7, 0.8) for name in best[each])] for each in best}
    f1 = {"logit": {SDS: 0.8}, "probability": {IDS: 0.4, "SDS speckled 4": 0.4}}
    interval = ("interval", 0.9, 1.0)
    return {
        "scores": frame(
            "place protocol method mean low high units",
            *(("sum", each, *row, 12) for each, rows in ahead.items() for row in rows),
        ),
        "noise": frame("method better", ("IG-U", "noise"), ("RISE-U", "baseline")),
        "gains": frame(
            "method better difference",
            *((name, "updated", 0.1) for name in ("IxG", "IG", "IG-U")),
            *(("Saliency", "fixed", -0.1), (module.protocol_tables.EXACT, "", 1e-9)),
        ),
        "intrinsic": frame("method better", ("BagNet", "first"), ("B-cos", "first")),
        "absolute": frame(
            "method protocol better raw_minus_absolute",
            *(("IG", IDSDS, "raw", 0.5), ("IG-U", IDSDS, "raw", 0.5), ("IG", IDS, "absolute", -1.0)),
            ("IG-U", SDS, "raw", 0.5),
        ),
        "correlations": frame(
            "place first second low high",
            *(("sum", IDSDS, SDS, *interval[1:]), ("colors", IDSDS, SDS, *interval[1:])),
            *(("sum", IDSDS, IDS, 0.0, 0.1), ("paper", IDSDS, SDS, 0.0, 0.1)),
        ),
        "properties": frame(
            "property paper ours",
            *((name, *both) for name in (ALIGNED, COMPARABLE, TIGHT) for both in (
                *(("yes", "yes"), ("no", "no"), ("n/a", "no"), ("yes", "")),
            )),
            ("another", "yes", "no"),
        ),
        "domain": frame("protocol unseen exact_drops", (IDSDS, 0.0, 1.0), (SDS, 1.0, np.nan)),
        "agreement": frame(
            "place output maps protocol f1 f1_low f1_high images",
            *(
                (place, output, "all", protocol, value, value - 0.1, value + 0.1, 12)
                for place in ("sum", "distractors")
                for output, others in f1.items()
                for protocol, value in {IDSDS: 0.8, **others}.items()
            ),
        ),
        "above": frame(
            "place protocol above",
            *(("sum", PARTS, 0), ("sum, probability", PARTS, 3), ("sum", IDS, 3)),
        ),
        "modulo": frame("high images", (0.9, 6)),
    }  # fmt: skip


@cases(
    """
    ig_from_noise_is_best | scores | method == 'IG-U' | low=0.7 | agrees
    | scores | method == 'IG-U' | low=0.4 | undecided
    | scores | method == 'IG-U' | low=0.1, high=0.2 | differs
    | scores | | units=3 | undecided
    ig_is_best_under_parts | scores | method == 'IG' | low=0.7 | agrees
    | scores | method == 'IG' | low=0.4 | undecided
    | scores | method == 'IG' | low=0.1, high=0.2 | differs
    cams_are_best_under_ids_and_sds | scores | method == 'XGrad-CAM' | low=0.7 | agrees
    | scores | method == 'XGrad-CAM' | low=0.4 | undecided
    | scores | method == 'XGrad-CAM' or method == 'Grad-CAM' | low=0.1, high=0.2 | differs
    noise_is_better_for_ig | noise | method == 'IG-U' | better='noise' | agrees
    | noise | method == 'IG-U' | better='' | undecided
    | noise | method == 'IG-U' | better='baseline' | differs
    | noise | | method='another' | undecided
    noise_is_worse_for_rise | noise | method == 'RISE-U' | better='baseline' | agrees
    | noise | method == 'RISE-U' | better='noise' | differs
    updating_raises_ids_of_raw_maps | gains | method == 'IG' | better='updated' | agrees
    | gains | method == 'IG' | better='' | undecided
    | gains | method == 'IG' | better='fixed' | differs
    networks_that_explain_themselves_are_ahead | intrinsic | | better='first' | agrees
    | intrinsic | method == 'BagNet' | better='' | undecided
    | intrinsic | method == 'BagNet' | better='second' | differs
    raw_is_better_under_idsds | absolute | method == 'IG' | better='raw' | agrees
    | absolute | method == 'IG' | better='' | undecided
    | absolute | method == 'IG' | better='absolute' | differs
    | absolute | method == 'IG' | better='', raw_minus_absolute=0.0 | agrees
    absolute_is_better_under_ids | absolute | protocol == 'IDS' | better='absolute' | agrees
    | absolute | protocol == 'IDS' | better='' | undecided
    | absolute | protocol == 'IDS' | better='raw' | differs
    | absolute | protocol == 'IDSDS' | better='absolute' | differs
    | absolute | protocol == 'IDSDS' | better='' | agrees
    sds_ranks_as_idsds | correlations | place == 'colors' | low=0.8 | agrees
    | correlations | place == 'colors' | low=0.5 | undecided
    | correlations | place == 'colors' | low=0.1, high=0.6 | differs
    domains_are_as_published | properties | property == 'another' | ours='no' | agrees
    | properties | property == @ALIGNED and paper == 'yes' | ours='no' | differs
    calibration_is_as_published | properties | property == 'another' | ours='no' | agrees
    | properties | property == @COMPARABLE and paper == 'no' | ours='yes' | differs
    leaks_are_as_published | properties | property == @TIGHT and paper == 'yes' | ours='yes' | agrees
    | properties | property == @TIGHT and paper == 'yes' | ours='no' | differs
    | properties | property == @TIGHT and paper == 'no' | ours='yes' | undecided
    drops_are_exact | domain | protocol == 'IDSDS' | unseen=0.0 | agrees
    | domain | protocol == 'IDSDS' | unseen=0.1 | differs
    | domain | protocol == 'IDSDS' | exact_drops=0.9 | differs
    equal_cells_leave_ranks_alone | agreement | protocol == 'SDS' | f1=0.8 | agrees
    | agreement | protocol == 'SDS' | f1=0.7 | differs
    leaving_the_domain_harms | agreement | protocol == 'IDS' | f1_high=0.5 | agrees
    | agreement | protocol == 'IDS' | f1_high=0.8 | undecided
    | agreement | protocol == 'IDS' | f1_low=1.0, f1_high=1.2 | differs
    | agreement | protocol == 'SDS speckled 4' | f1_low=1.0, f1_high=1.2 | differs
    | agreement | | images=5 | undecided
    exact_values_gain_nothing | gains | method == @EXACT | difference=1e-9 | agrees
    | gains | method == @EXACT | difference=0.01 | differs
    | gains | method == @EXACT | method='another' | undecided
    nothing_is_above_exact_values | above | place == 'sum' and protocol == 'parts' | above=0 | agrees
    | above | place == 'sum' and protocol == 'parts' | above=1 | differs
    remainders_fail | modulo | | high=0.9 | agrees
    | modulo | | high=1.0 | differs
    | modulo | | images=5 | undecided
    """,
    module.protocol_tables,
)
def test_each_claim_follows_its_table(made, name, table, where, values, answer):
    follows(made, name, table, where, values, answer)


@pytest.mark.parametrize("table", ["noise", "agreement", "above"])
def test_tables_that_a_users_network_lacks_decide_nothing(made, table):
    names = {"noise": ["noise_is_better_for_ig"], "above": ["nothing_is_above_exact_values"]}
    names["agreement"] = ["equal_cells_leave_ranks_alone", "leaving_the_domain_harms"]
    left = {key: each for key, each in made.items() if key != table}
    assert {holds(left, name) for name in names[table]} == {"undecided"}
