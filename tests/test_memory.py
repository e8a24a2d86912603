"""What is free is found where it is limited; what is beyond it is refused before it is allocated."""

import ctypes
import itertools
import re
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.base import CostWarning, free_bytes, memory, refuse_beyond_memory
from attributionlab.methods import METHODS, batching, collect_notices, derived
from attributionlab.papers import reproduce
from attributionlab.verdicts import rank_methods
from attributionlab.verdicts.faithfulness import run as run_module

GIB = 2**30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 8 GiB free and no control group, which has its files below the folder returned."""

    class Available:
        available = 8 * GIB

    monkeypatch.setattr(psutil, "virtual_memory", Available)
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "self")
    return tmp_path


def group(machine, path, limit, usage, stat, version=2):
    folder = machine / "cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        2: ("memory.max", "memory.current"),
    }
    for name, value in zip(names[version], (limit, usage), strict=True):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(stat)


def test_without_a_limit_what_the_system_has_is_free(machine):
    assert free_bytes() == free_bytes("cpu") == free_bytes(torch.device("cpu")) == 8 * GIB


@pytest.mark.parametrize("inner", ["max", str(7 * GIB)])
def test_the_narrowest_of_nested_groups_counts_less_what_is_given_back(machine, inner):
    (machine / "self").write_text("0::/jobs/mine\n")
    group(machine, "jobs/mine", inner, 0, "inactive_file 0\n")
    group(machine, "jobs", 3 * GIB, 2 * GIB, f"anon 5\ninactive_file {GIB // 2}\n")
    assert free_bytes() == GIB + GIB // 2


def test_the_first_version_of_groups_has_a_folder_for_memory(machine):
    (machine / "self").write_text("5:cpu,cpuacct:/other\n4:memory:/mine\n0::/\n")
    group(
        machine, "memory/mine", 2 * GIB, GIB, "inactive_file 7\ntotal_inactive_file 9\n", version=1
    )
    group(machine, "memory", 2**63 - 4096, 5 * GIB, "", version=1)
    assert free_bytes() == GIB + 9


def test_a_container_sees_its_own_group_as_the_outermost(machine):
    (machine / "self").write_text("0::/docker/not-seen-from-inside\n")
    group(machine, "", 5 * GIB, GIB, "")
    assert free_bytes() == 4 * GIB


def test_a_group_beyond_its_limit_leaves_nothing(machine):
    (machine / "self").write_text("0::/\n")
    group(machine, "", GIB, 2 * GIB, "")
    assert free_bytes() == 0


def test_on_cuda_what_the_driver_has_and_torch_holds_unused_is_free(monkeypatch):
    asked = []
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda place: asked.append(place) or (100, 1000)
    )
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda place: 50)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda place: 20)
    assert free_bytes("cuda:1") == 130
    assert asked == [torch.device("cuda:1")]


def test_a_refusal_has_both_numbers_and_the_remedy(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 3 * GIB // 2)
    refuse_beyond_memory(3 * GIB // 2, "mine", "take less")
    with pytest.raises(
        al.AttributionLabError, match=r"^mine .* 2\.5 GiB, .* 1\.5 GiB .* take less$"
    ):
        refuse_beyond_memory(5 * GIB // 2, "mine", "take less")
    for needed, said in [(10**15, "909.5 TiB"), (10**400, "more than a million EiB")]:
        with pytest.raises(al.AttributionLabError, match=said):
            refuse_beyond_memory(needed, "mine", "take less")


SMALL = al.load("multi-color-sum", image_size=24)
NUMBERS = [
    *(("lime", "n_samples"), ("kernel-shap", "n_samples"), ("rise", "n_samples")),
    *(("smooth-gradcam-plus-plus", "n_samples"), ("saliency-vargrad", "n_samples")),
    *(
        ("integrated-gradients-uniform", "n_baselines"),
        ("integrated-gradients-random", "n_baselines"),
    ),
    *(("integrated-gradients", "n_steps"), ("iba", "copies")),
]


@pytest.mark.parametrize(("name", "setting"), NUMBERS)
def test_a_number_beyond_memory_is_refused_though_the_allocator_would_not(
    name, setting, monkeypatch
):
    """Where 64 MiB are said to be free, and no allocator would refuse the some GiB of 2,000,000."""
    seen = []
    monkeypatch.setattr(memory, "free_bytes", lambda device: seen.append(device) or 2**26)
    settings = {setting: 2_000_000}
    if name == "kernel-shap":  # superpixels enough for as many coalitions
        settings |= {"segmentation": "grid", "cells": 6, "baselines": 1.0}
    message = rf"{setting} is 2000000: .* \wiB.* about 64 MiB are free; take fewer"
    with pytest.raises(al.AttributionLabError, match=message):
        al.faithfulness_test(name, SMALL, n=1, settings=settings, also=None)
    assert seen


def test_a_refusal_names_the_number_that_was_given_where_there_are_fewer_coalitions(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 2**24)
    settings = {"n_samples": 10**7, "segmentation": "grid", "baselines": 1.0}
    # There are 2^9 coalitions of 9 superpixels; the 2^16 of 16 take 2^16 (48 * 16 + 128) bytes.
    al.faithfulness_test("kernel-shap", SMALL, n=1, settings=settings | {"cells": 3}, also=None)
    with pytest.raises(al.AttributionLabError, match=rf"n_samples is {10**7}: .* 56 MiB"):
        al.faithfulness_test("kernel-shap", SMALL, n=1, settings=settings | {"cells": 4})


def test_a_mask_of_cells_beyond_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 2**30)
    settings = {"step": 8192, "sigma": 4000.0}  # reaches 2 cells: 32 * 5^2 * 2^26 bytes
    with pytest.raises(al.AttributionLabError, match=r"step 8192: .* 50 GiB, .* 1 GiB .*smaller"):
        al.faithfulness_test("extremal-perturbation", SMALL, n=1, settings=settings)


def test_a_batch_of_more_images_than_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 2**20)
    with pytest.raises(al.AttributionLabError, match=r"n is 99: .* MiB, .* about 1 MiB .* fewer"):
        SMALL.batch(99)
    assert len(SMALL.batch(9)[0]) == 9


@pytest.mark.parametrize(
    "ask",
    [
        lambda n: al.faithfulness_test("saliency", SMALL, n=n),
        lambda n: al.compare(["saliency"], SMALL, n=n),
        lambda n: al.metric_test("insertion", SMALL, n=n),
        lambda n: rank_methods(["saliency", "lrp"], n=n),
        lambda n: reproduce("table-3", n=n),
        lambda n: SMALL.dataset(n),
    ],
    ids=["test", "compare", "metric", "leaderboard", "reproduce", "dataset"],
)
def test_images_without_number_are_refused(ask):
    with pytest.raises(al.AttributionLabError, match=f"n is {10**20}: take .* to 1000000"):
        ask(10**20)


@pytest.mark.long
def test_of_more_images_than_are_kept_only_the_first_are_shown(monkeypatch):
    whole = al.faithfulness_test("sobel", SMALL, n=11)
    monkeypatch.setattr(run_module, "KEPT_BYTES", 9 * 4 * 24**2)
    found = al.faithfulness_test("sobel", SMALL, n=11)
    [all_of_them], [result] = whole.environments, found.environments
    assert result.attributions.tolist() == all_of_them.attributions[:9].tolist()
    assert max(example.sample for example in result.examples) < 9
    told = ("verdict", "claim_f1", "overall", "positive", "negative", "diagnosis", "resolution_f1")
    documents = [each.to_dict() for each in (all_of_them, result)]
    assert all(documents[0][key] == documents[1][key] for key in told)


@pytest.mark.long
@pytest.mark.parametrize(
    "ask",
    [
        lambda env: al.faithfulness_test("sobel", env, n=4, also=None),
        lambda env: al.compare("sobel", env, n=4),
    ],
    ids=["test", "compare"],
)
def test_hours_to_come_are_told_after_the_first_images(ask, monkeypatch):
    clock = itertools.count(0, 2000)  # each look at the clock is 2,000 s after the one before
    stand_in = SimpleNamespace(**vars(time) | {"monotonic": lambda: next(clock)})
    monkeypatch.setattr(run_module, "time", stand_in)
    env = al.load("multi-color-sum", image_size=72)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask(env)
    [told] = [str(each.message) for each in caught if issubclass(each.category, CostWarning)]
    # One question is done after two looks at the clock, and three are left.
    assert re.search(r"sobel on multi-color-sum: 1 of 4 .* 4000 s, .* 3\.3 h; a smaller n", told)


def peak_of(run):
    """Bytes by which the resident memory rises while something runs."""
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before is not used again unseen
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what there is
    before = status("VmHWM")
    run()
    return status("VmHWM") - before


def status(name):
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{name}:\s+(\d+)", text)[1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lime", {"n_samples": 6_000, "highest": 255.0, "segmentation": "pixels"}),
        (
            "kernel-shap",
            {"n_samples": 12_000, "highest": 255.0, "segmentation": "grid", "cells": 16},
        ),
        ("integrated-gradients-uniform", {"n_baselines": 3_000, "highest": 255.0, "n_steps": 2}),
    ],
)
def test_estimates_are_within_a_factor_of_two_of_the_peak(name, settings, monkeypatch):
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs a Linux that resets the peak of the resident memory")
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 2)).eval()
    image = 255 * torch.rand((1, 3, 24, 24), generator=torch.Generator().manual_seed(0))
    estimates, method = [], derived(name, METHODS)
    monkeypatch.setattr(
        batching, "refuse_beyond_memory", lambda needed, *_: estimates.append(needed)
    )

    def run(**fewer):
        given = {**settings, **fewer, "generator": torch.Generator().manual_seed(0)}
        with collect_notices():
            method(model, image, torch.tensor([1]), **given)

    run(**{next(iter(settings)): 300})  # what is loaded once is loaded
    estimates.clear()
    peak = peak_of(run)
    [estimate] = estimates
    assert estimate / 2 <= peak <= 2 * estimate
