"""Sweeps: numbers of the tests they stand for, nothing computed twice, and results whoever computes."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab import metrics
from attributionlab.cli import app as cli
from attributionlab.runs import Store
from attributionlab.verdicts import merge_sweeps, run_sweep
from attributionlab.verdicts.metric_trials.conditions import conditions_of
from attributionlab.verdicts.sweep.cells import MAPS, METRIC, MapsResult
from attributionlab.verdicts.sweep.run import Plan, _in_shard
from attributionlab.verdicts.sweep.spec import read_sweep
from schemas import problems
from trials import metric_trial

TINY = {"name": "multi-color-sum", "image_size": 12}
METHODS = """
import os
import time
from pathlib import Path

import torch

def good(model, inputs, targets):
    return inputs.sum(1, keepdim=True)

def moody(model, inputs, targets):
    if not Path("mended").exists():
        raise ValueError("out of order")
    return inputs.sum(1, keepdim=True)

def endless(model, inputs, targets):
    time.sleep(1000)

def large(model, inputs, targets):
    return torch.ones(6 * 2**28)

def process(model, inputs, targets):
    time.sleep(0.5)
    return inputs[:, :1] * 0 + os.getpid()

def stopped(model, inputs, targets):
    if not Path("mended").exists():
        raise KeyboardInterrupt
    return inputs.sum(1, keepdim=True)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with methods of a user's, where sweeps are run."""
    (tmp_path / "mine.py").write_text(METHODS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep_of(**change):
    return {"environments": [TINY], "methods": ["gradcam"], "n": 2} | change


def timeless(table):
    return table.drop(columns="cpu_seconds")


def maps_in(folder, spec):
    """Maps of each maps cell, by method."""
    with Store(folder, writable=False) as store:
        return {
            cell.place["method"]: store.outcome(cell.key).value.maps
            for cell in Plan(read_sweep(spec)).maps
        }


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
@pytest.mark.parametrize("one_network", [False, True])
def test_maps_cells_have_the_numbers_of_the_faithfulness_test(tmp_path, one_network):
    methods = ["saliency", "random", {"name": "integrated-gradients", "n_steps": 4}]
    spec = sweep_of(methods=methods, n=6, seeds=[3], one_network=one_network)
    table = run_sweep(spec, tmp_path).to_frame()
    env = al.load("multi-color-sum", image_size=12)
    assert len(table) == 3 * 6 * 3
    for label, own in table.groupby("method"):
        name, _, steps = str(label).partition(" (n_steps=")
        report = al.faithfulness_test(
            *(name, env, 6, 3),
            settings={"n_steps": 4} if steps else {},
            one_network=one_network,
            also=None,
        )
        [result] = report.environments
        assert set(own.verdict) == {result.verdict}
        assert set(own.claim_f1) == {result.claim_f1}
        assert set(own.claim) == {report.claim}
        for part, scores in result.scores.items():
            rows = own[own.part == part]
            assert rows.image.tolist() == list(range(6))
            for score, values in scores.items():
                assert np.array_equal(rows[score], values, equal_nan=True)


def test_maps_are_those_of_attribute_on_the_images(tmp_path):
    spec = sweep_of(methods=["gradcam", "random"], n=3, seeds=[1], one_network=True)
    run_sweep(spec, tmp_path)
    env = al.load("multi-color-sum", image_size=12)
    images, labels = env.batch(3, 1)
    for method, maps in maps_in(tmp_path, spec).items():
        assert torch.equal(maps, al.attribute(method, env, images, labels, seed=1).float())


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_maps_are_those_of_attribute_on_the_questions(tmp_path):
    spec = sweep_of(methods=["guided-backprop"], n=3, seeds=[1])
    run_sweep(spec, tmp_path)
    questions = al.Questions(al.load("multi-color-sum", image_size=12), 1)
    for question, maps in zip(
        (questions[i] for i in range(3)), maps_in(tmp_path, spec)["guided-backprop"], strict=True
    ):
        target = torch.tensor([question.target])
        [own] = al.attribute("guided-backprop", question.env, question.image[None], target)
        assert torch.equal(maps, own.float())


def scores_of(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    return table.sort_values("image").score.to_numpy()


@pytest.mark.long
def test_metric_cells_have_the_numbers_of_the_metric_test(tmp_path):
    """At strength 0, which has no unseen data, the trial lists the scores of each method's maps."""
    names = ["insertion", "sensitivity-n", "true-soundness", "f1"]
    spec = sweep_of(n=3, seeds=[2], metrics=names, doses={"strength": [0]}, preset="paper")
    table = run_sweep(spec, tmp_path).to_frame()
    env = al.load("multi-color-sum", image_size=12)
    for name in names:
        report = metric_trial(name, env, 3, 2, methods=["gradcam"], doses={"strength": [0]})
        frame = report.trial.attributions
        own = frame[(frame.name == "gradcam") & (frame.network == "own")]
        own = own[own.made_for == "own"].sort_values("question")
        assert np.array_equal(scores_of(table, metric=name), own.score, equal_nan=True), name


@pytest.mark.parametrize("dose", [None, ("share", 0.5), ("channels", 4.0)])
def test_a_metric_scores_the_stored_maps_before_the_network_of_a_dose(tmp_path, dose):
    """By the public functions, question by question."""
    spec = sweep_of(n=2, metrics=["insertion", "f1"], methods=["input-x-gradient"])
    if dose is not None:
        spec["doses"] = {dose[0]: [0, dose[1]]}
    table = run_sweep(spec, tmp_path).to_frame()
    [maps] = maps_in(tmp_path, spec).values()
    env = al.load("multi-color-sum", image_size=12)
    questions = al.Questions(env, 0)
    for number in range(2):
        question, own = questions[number], maps[number][None]
        network, canvas = question.env, question.env.baseline
        if dose is not None:
            [condition] = conditions_of(env, {dose[0]: [dose[1]]})
            network = condition.network(question.env, 0)
            canvas = condition.canvas(question.env, number, 0)
        target = torch.tensor([question.target])
        image = question.image[None]
        expected = metrics.insertion(network.softmax_model, image, target, own, replacement=canvas)
        where = {"image": number} | ({} if dose is None else {"dose": dose[1]})
        [found] = scores_of(table, metric="insertion", **where)
        # Both average 145 float32 outputs of the same network in other orders.
        assert found == pytest.approx(float(expected), rel=1e-6)
        positive = table[(table.part == "positive") & (table.image == number)].f1
        [f1] = scores_of(table, metric="f1", **where)
        # The maps' own F1 is of maps scaled in float32.
        assert f1 == pytest.approx(float(positive.iloc[0]), abs=1e-6)


@pytest.mark.long
def test_what_is_there_is_not_computed_again_and_what_is_added_is_said(tmp_path):
    said = []
    spec = sweep_of(metrics=["sparsity"])
    first = run_sweep(spec, tmp_path, say=said.append)
    assert said == ["maps: 1 cells: 0 known, 1 new", "metric: 1 cells: 0 known, 1 new", "jobs: 1"]
    with Store(tmp_path, writable=False) as store:
        before = {row.key: row.finished for row in store.rows()}
    said.clear()
    more = run_sweep(sweep_of(metrics=["sparsity"], methods=["gradcam", "saliency"]), tmp_path,
                     say=said.append)  # fmt: skip
    assert said[:2] == ["maps: 2 cells: 1 known, 1 new", "metric: 2 cells: 1 known, 1 new"]
    with Store(tmp_path, writable=False) as store:
        after = {row.key: row.finished for row in store.rows()}
    assert len(after) == 4
    assert before.items() <= after.items()
    own = more.to_frame()[more.to_frame().method == "gradcam"].reset_index(drop=True)
    pd.testing.assert_frame_equal(own, first.to_frame())
    said.clear()
    run_sweep(spec | {"n": 3}, tmp_path, say=said.append)
    assert said[:2] == [
        "maps: 1 cells: 0 known, 1 changed: n",
        "metric: 1 cells: 0 known, 1 changed: n",
    ]


@pytest.mark.long
def test_a_failing_method_is_a_row_and_is_run_again_when_asked(folder):
    spec = sweep_of(methods=["mine.py:moody", "gradcam"], metrics=["sparsity"])
    said = []
    sweep = run_sweep(spec, folder / "out")
    table = sweep.to_frame()
    assert sweep.counts == {
        "maps": {"cells": 2, "done": 1, "failed": 1},
        "metric": {"cells": 2, "done": 1, "failed": 1},
    }
    failed = table[table.status == "failed"]
    assert failed.kind.tolist() == ["maps", "metric"]
    assert "out of order" in failed.error.iloc[0]
    assert failed.error.iloc[1].startswith("no maps: ")
    assert set(table[table.status == "done"].method) == {"gradcam"}
    (folder / "mended").touch()
    again = run_sweep(spec, folder / "out", say=said.append)
    assert said[:2] == [
        "maps: 2 cells: 1 known, 1 failed (--retry-failed)",
        "metric: 2 cells: 1 known, 1 without maps",
    ]
    pd.testing.assert_frame_equal(again.to_frame(), table)
    mended = run_sweep(spec, folder / "out", retry_failed=True)
    assert mended.failed == 0
    assert set(mended.to_frame().status) == {"done"}


def test_a_failing_metric_leaves_the_others(tmp_path):
    @metrics.metric(higher_is_better=True, per_sample=True)
    def broken(attributions):
        raise ValueError("no score")

    sweep = run_sweep(sweep_of(metrics=[broken, "sparsity"]), tmp_path)
    assert sweep.counts["metric"] == {"cells": 2, "done": 1, "failed": 1}
    failed = sweep.to_frame().query("status == 'failed'")
    assert failed.metric.tolist() == ["broken"]
    assert "no score" in failed.error.iloc[0]
    assert sweep.document is None


def contents(folder):
    """The results without their timing columns: CSV, Parquet's bytes again, JSON."""
    csv = pd.read_csv(folder / "results.csv").drop(columns="cpu_seconds").to_csv(index=False)
    parquet = timeless(pd.read_parquet(folder / "results.parquet")).to_parquet(index=False)
    document = json.loads((folder / "results.json").read_text())
    assert problems(document, "sweep") == []
    for row in document["rows"]:
        assert [*row][-1] == "cpu_seconds"
        del row["cpu_seconds"]
    return csv, parquet, json.dumps(document)


LARGER = {
    "methods": ["random", "mine.py:moody"],
    "seeds": [0, 1],
    "metrics": ["sparsity", "insertion"],
    "doses": {"share": [0, 1]},
}


@pytest.mark.long
def test_results_are_the_same_for_two_processes_and_for_shards_that_are_merged(folder):
    spec = sweep_of(**LARGER)
    run_sweep(spec, folder / "one")
    run_sweep(spec, folder / "two", jobs=2)
    assert contents(folder / "two") == contents(folder / "one")
    sizes = []
    for shard in (1, 2):
        part = run_sweep(spec, folder / f"shard{shard}", shard=(shard, 2))
        sizes.append(part.counts["maps"]["cells"])
        assert part.counts.get("metric", {"cells": 0})["cells"] == 4 * sizes[-1]
    # All four may be in one shard: keys hold the code's digest, and are random in this respect.
    assert sum(sizes) == 4
    taken, merged = merge_sweeps(folder / "all", [folder / f"shard{i}" for i in (2, 1)])
    assert taken == 4 + 2 * 4  # the metrics of maps that failed are not kept
    assert merged.counts == run_sweep(spec, folder / "one").counts
    assert contents(folder / "all") == contents(folder / "one")


def test_keys_are_spread_over_shards():
    keys = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(3000)]
    shards = [[key for key in keys if _in_shard(key, (shard, 3))] for shard in (1, 2, 3)]
    assert sorted(key for shard in shards for key in shard) == sorted(keys)
    # Each is Binomial(3000, 1/3): five standard deviations are 129.
    assert all(abs(len(each) - 1000) <= 129 for each in shards)
    assert all(_in_shard(key, None) for key in keys)


def test_shards_that_are_no_part_and_folders_that_are_no_store_are_refused(tmp_path):
    for shard in ((0, 3), (4, 3), "1/4", 3, (1, "4"), (True, 2), (1, 2, 3)):
        with pytest.raises(al.AttributionLabError, match=r"\(I, N\) of integers .*--shard 1/4"):
            run_sweep(sweep_of(), tmp_path / "out", shard=shard)
    for size in ("1", float("nan"), 0):
        with pytest.raises(al.AttributionLabError, match=r"disk_gib is .*: take a number above 0"):
            run_sweep(sweep_of(), tmp_path / "out", disk_gib=size)
    assert not (tmp_path / "out").exists()
    with pytest.raises(al.AttributionLabError, match="does not hold a store"):
        merge_sweeps(tmp_path / "new", [tmp_path])
    run_sweep(sweep_of(), tmp_path / "out")
    with pytest.raises(al.AttributionLabError, match="merged into itself"):
        merge_sweeps(tmp_path / "out", [tmp_path / "out"])


@pytest.mark.long
def test_merged_stores_of_several_sweeps_have_cells_and_no_results(tmp_path):
    for place, n in (("a", 2), ("b", 3)):
        run_sweep(sweep_of(n=n), tmp_path / place)
    taken, sweep = merge_sweeps(tmp_path / "all", [tmp_path / "a", tmp_path / "b"])
    assert (taken, sweep) == (2, None)
    assert not (tmp_path / "all" / "results.csv").exists()
    said = []
    run_sweep(sweep_of(n=3), tmp_path / "all", say=said.append)
    assert said[0] == "maps: 1 cells: 1 known"


@pytest.mark.long
def test_ctrl_c_leaves_the_results_so_far_and_the_same_call_goes_on(folder):
    spec = sweep_of(methods=["gradcam", "mine.py:stopped", "saliency"], metrics=["sparsity"])
    with pytest.raises(
        KeyboardInterrupt, match=r"1 of 3 maps cells are done; .* repeat the command"
    ):
        run_sweep(spec, folder / "out")
    table = pd.read_csv(folder / "out" / "results.csv")
    assert set(table.method) == {"gradcam"}
    (folder / "mended").touch()
    said = []
    sweep = run_sweep(spec, folder / "out", say=said.append)
    assert said[0] == "maps: 3 cells: 1 known, 2 new"
    whole = run_sweep(spec, folder / "undisturbed")
    pd.testing.assert_frame_equal(timeless(sweep.to_frame()), timeless(whole.to_frame()))


@pytest.mark.long
def test_a_disk_budget_ends_the_sweep_and_says_what_is_kept(tmp_path):
    spec = sweep_of(methods=["gradcam", "saliency", "random"], n=40, one_network=True)
    whole = run_sweep(spec, tmp_path / "whole")
    with pytest.raises(al.AttributionLabError) as caught:
        # Two of three cells: 40 maps of 144 float32 numbers each are 22.5 KiB, beside the database.
        run_sweep(spec, tmp_path / "out", disk_gib=100 * 1024 / 2**30)
    message = str(caught.value)
    assert "over the disk budget" in message
    table = pd.read_csv(tmp_path / "out" / "results.csv")
    kept = table.method.nunique()
    assert 0 < kept < 3
    assert f"{kept} cells are kept; raise it (--disk)" in message
    sweep = run_sweep(spec, tmp_path / "out", disk_gib=1)
    pd.testing.assert_frame_equal(timeless(sweep.to_frame()), timeless(whole.to_frame()))


@pytest.fixture
def files(monkeypatch):
    """All arrays have a file, however small."""
    monkeypatch.setattr("attributionlab.runs.store.INLINE_BYTES", 0)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_maps_whose_file_is_lost_are_made_again(tmp_path, damage):
    spec = sweep_of()
    whole = run_sweep(spec, tmp_path)
    [file] = (tmp_path / "arrays").iterdir()
    damage(file)
    with pytest.warns(al.AttributionLabWarning, match="is damaged: it is computed again"):
        again = run_sweep(spec, tmp_path)
    assert file.stat().st_size > 2 * 144 * 4
    pd.testing.assert_frame_equal(timeless(again.to_frame()), timeless(whole.to_frame()))


@pytest.mark.usefixtures("files")
def test_maps_that_changed_in_their_file_are_no_maps(tmp_path):
    spec = sweep_of()
    run_sweep(spec, tmp_path)
    [file] = (tmp_path / "arrays").iterdir()
    file.write_bytes(bytes(file.stat().st_size))
    sweep = run_sweep(spec | {"metrics": ["sparsity"]}, tmp_path)
    [error] = sweep.to_frame().query("kind == 'metric'").error
    assert "or damaged: remove it and run again" in error


def test_devices_stand_for_processes_and_must_be_what_the_sweep_says(tmp_path):
    spec = sweep_of(methods=["gradcam", "saliency"])
    with pytest.raises(al.AttributionLabError, match=r"device = 'cpu'|no such CUDA device"):
        run_sweep(spec, tmp_path, devices=["cuda:0"])
    said = []
    run_sweep(spec, tmp_path, devices=["cpu"], say=said.append)
    assert said[-1] == "jobs: 1, on cpu"


@pytest.mark.slow
def test_two_devices_have_a_process_each(folder):
    sweep = run_sweep(
        sweep_of(methods=["mine.py:process"], seeds=list(range(6)), n=1),
        "out",
        devices=["cpu:0", "cpu:1"],
        say=(said := []).append,
    )
    assert said[-1] == "jobs: 2, on cpu:0, cpu:1"
    assert sweep.counts["maps"] == {"cells": 6, "done": 6, "failed": 0}
    with Store("out", writable=False) as store:
        maps = [store.outcome(row.key).value.maps for row in store.rows()]
    processes = {int(number) for each in maps for number in each.unique()}
    assert len(processes) == 2
    assert os.getpid() not in processes


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_cells_over_their_limits_are_rows_and_the_others_are_done(folder, capsys):
    methods = ["mine.py:good", "mine.py:endless", "mine.py:large", "gradcam"]
    lines = [
        *("n = 1", 'metrics = ["sparsity"]', f"methods = {methods}"),
        *("[[environments]]", 'name = "multi-color-sum"', "image_size = 12"),
    ]
    (folder / "sweep.toml").write_text("\n".join(lines))
    # The others may wait for busy cores, and load captum; what numba compiles is there from here on.
    run_sweep(sweep_of(methods=["mine.py:good"], metrics=["sparsity"], n=1), "before")
    limits = ["--cell-seconds", "60", "--cell-memory", "4"]
    arguments = ["sweep", "sweep.toml", "--out", "out", "--jobs", "2", *limits]
    assert cli.main(arguments) == 1
    assert "maps: 2 of 4 cells done, 2 failed" in capsys.readouterr().out
    table = pd.read_csv("out/results.csv").drop_duplicates(["kind", "method"])
    error = table.set_index(["kind", "method"]).error
    assert error[MAPS].dropna().to_dict() == {
        "mine.py:endless": "it took longer than 60 s",
        "mine.py:large": "out of memory",
    }
    assert error[METRIC].dropna().to_dict() == {
        "mine.py:endless": "no maps: it took longer than 60 s",
        "mine.py:large": "no maps: out of memory",
    }


@pytest.mark.slow
def test_many_cells_are_inserted_as_fast_as_few(tmp_path, monkeypatch):
    """Ten thousand; benchmarks/store.py has a hundred thousand."""
    found = MapsResult(
        maps=torch.zeros(1, 1, 12, 12),
        scores={"overall": {name: [1.0] for name in ("precision", "recall", "f1")}},
        **dict.fromkeys(("verdict", "claim", "output"), ""),
        claim_f1=1.0,
        solved=1,
        asked=1,
        warnings=[],
    )
    monkeypatch.setattr(
        "attributionlab.verdicts.sweep.cells.compute_maps", lambda work, device: found
    )
    seconds = []
    put = Store.put

    def timed(*given):
        start = time.process_time()
        put(*given)
        seconds.append(time.process_time() - start)

    monkeypatch.setattr(Store, "put", timed)
    sweep = run_sweep(sweep_of(seeds=list(range(10_000)), n=1), tmp_path)
    assert sweep.counts["maps"]["done"] == len(sweep.to_frame()) == 10_000
    # Medians, which neither a commit to the disk nor another process moves.
    assert np.median(seconds[-1000:]) < 2 * np.median(seconds[:1000])


@pytest.mark.long
def test_options_that_are_listed_are_axes_and_others_are_not(tmp_path):
    listed = run_sweep(sweep_of(n=[1, 2], output=["probability", "logit"]), tmp_path)
    assert listed.counts["maps"]["cells"] == 4
    rows = listed.to_frame().groupby(["n", "output"]).size()
    assert rows.to_dict() == {
        (1, "probability"): 3, (1, "logit"): 3, (2, "probability"): 6, (2, "logit"): 6,
    }  # fmt: skip
    assert {MAPS} == {cell.kind for cell in Plan(read_sweep(sweep_of())).cells[MAPS]}
    assert METRIC not in Plan(read_sweep(sweep_of())).cells
