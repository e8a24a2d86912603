"""Write what checks find in the metrics of Quantus and Captum into docs/quantus-and-captum.md.

    python benchmarks/other_libraries.py [--page PAGE] [NAME ...]

Needs the extra `quantus`. The tables of the page, and the outputs below its snippets, are what this
command found; everything else there is written by hand. With names of metrics it examines those alone,
prints their reports and writes nothing. Exit status 1: a check found a fault that no section explains.
"""

import argparse
import contextlib
import io
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import quantus
import torch
from captum.metrics import infidelity, infidelity_perturb_func_decorator

import attributionlab as al
from attributionlab.metrics import metric
from attributionlab.show import markdown
from attributionlab.verdicts.metric_trials.preferences import PREFERENCES

PAGE = Path(__file__).parents[1] / "docs" / "quantus-and-captum.md"
PACKAGES = ("quantus", "captum", "torch", "numpy", "scipy", "scikit-image", "scikit-learn")
REFUSAL = "The elements in the attribution vector are all equal"
EVERYWHERE = {
    "float64": "networks-in-float64",
    "memory-kept": "networks-stay-in-memory",
    "nan-map": "nan-in-a-map",
}
"""Which section of the page explains a fault in any metric of Quantus; a refusal of maps without
content is one, whatever was asked."""


class Examined(NamedTuple):
    """A metric, and what the page says about the faults that checks find."""

    name: str
    settings: str
    declared: str
    function: Callable[..., Any]
    sections: Mapping[str, str]
    """check -> the section of the page that explains its fault"""

    def section(self, check: Any) -> str:
        everywhere = EVERYWHERE if self.name.startswith("Quantus") else {}
        if REFUSAL in check.found:
            return "refused-maps"
        return {**everywhere, **self.sections}.get(check.id, "unexplained")


def from_quantus(made, model, images, targets, attributions, truth=None):
    """What a metric of Quantus returns, for the outputs as they are (no softmax)."""
    tensors = (images, targets, attributions, truth)
    arrays = [None if each is None else each.cpu().numpy() for each in tensors]
    return made(model, *arrays, softmax=False, device=str(images.device))


def with_replacement(make, model, images, targets, attributions, *, replacement):
    made = make(perturb_baseline=float(replacement.mean()))
    return from_quantus(made, model, images, targets, attributions)


def with_masks(make, model, images, targets, attributions, *, truth):
    return from_quantus(make(), model, images, targets, attributions, truth)


def of_maps(make, model, images, targets, attributions):
    return from_quantus(make(), model, images, targets, attributions)


def one_by_one(make, model, images, targets, attributions):
    """ROAD returns the share of images that keep their class, by percentage; of one image: 0 or 1."""
    tensors = (images, targets, attributions)
    rows = zip(*(torch.split(each, 1) for each in tensors), strict=True)
    return [np.mean(list(from_quantus(make(), model, *row).values())) for row in rows]


def curve_mean(made, *arguments, **given):
    return np.mean(made(*arguments, **given), axis=1)


def trapz_put_back(made, *arguments, **given):
    """With the function that NumPy 2.4 no longer has."""
    with mock.patch.object(np, "trapz", np.trapezoid, create=True):
        return made(*arguments, **given)


def of_quantus(
    kind: str,
    call: Callable[..., Any] = with_replacement,
    wrapped: Callable[..., Any] | None = None,
    sections: Mapping[str, str] | None = None,
    higher_is_better: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    **declared: Any,
) -> Examined:
    """A metric of Quantus, in the direction that it states unless told otherwise."""
    cls, given = getattr(quantus, kind), dict(settings or {})
    stated = cls.score_direction.value == "higher"
    better = stated if higher_is_better is None else higher_is_better

    def make(**more):
        made = cls(**given, **more)
        return partial(wrapped, made) if wrapped else made

    function = partial(call, make)
    words = [f"{key}={value!r}" for key, value in given.items() if key != "return_aggregate"]
    words += {None: [], curve_mean: ["mean of the curve"]}.get(wrapped, ["`np.trapz` put back"])
    words += ["read as: higher is better"] if better is not stated else []
    return examined(f"Quantus {kind}", words, function, better, sections, declared)


def examined(name, words, function, better, sections, declared) -> Examined:
    function.__name__ = name
    metric(higher_is_better=better, per_sample=True, **declared)(function)
    said = [f"{key}={value!r}" for key, value in declared.items() if value]
    return Examined(name, ", ".join(words), ", ".join(said), function, sections or {})


def captum_infidelity(
    model, images, targets, attributions, *, replacement, seed, times_inputs, normalize=False
):
    """Half of the pixels replaced, 64 times."""
    generator = torch.Generator().manual_seed(seed)

    @infidelity_perturb_func_decorator(multiply_by_inputs=times_inputs)
    def perturb(inputs, baselines=None):
        kept = torch.rand(inputs.shape, generator=generator) < 0.5
        return torch.where(kept.to(inputs.device), inputs, replacement)

    settings = {"target": targets, "n_perturb_samples": 64, "normalize": normalize}
    if times_inputs:
        settings["baselines"] = replacement[None]
    return infidelity(model, perturb, images, attributions, **settings)


def of_captum(words, unit, sections=None, invariances=(), **settings) -> Examined:
    declared = {"unit": unit, "sampled": True, "invariances": invariances}
    function = partial(captum_infidelity, **settings)
    return examined("Captum infidelity", words, function, False, sections, declared)


def because(section: str, checks: str) -> dict[str, str]:
    """These checks are explained by this section."""
    return dict.fromkeys(checks.split(), section)


EACH = {"return_aggregate": False}
PREFERRED = " ".join(PREFERENCES)
NO_NETWORK = because("scores-of-the-map-alone", PREFERRED)
POSITIVE = {"maps": "nonnegative", "unit": "place", "invariances": ("missing", "scale")}
ORDER = {"unit": "order", "ties": "reading order"}
PATCHES = {"unit": "order", "neighbors": "patches"}
TRAPZ = because("numpy-without-trapz", "one-number")
DECORATED = "half of the pixels replaced, 64 times; multiply_by_inputs="
LINES = [
    of_quantus(
        "FaithfulnessCorrelation",
        settings=EACH | {"subset_size": 16},
        sections=because("random-numbers", "global-seed random-states-kept"),
        unit="output change",
        invariances=("scale",),
        sampled=True,
    ),
    of_quantus("FaithfulnessEstimate", unit="output change", invariances=("scale", "shift")),
    of_quantus("PixelFlipping", settings={"return_auc_per_sample": True}, sections=TRAPZ, **ORDER),
    of_quantus(
        "PixelFlipping",
        wrapped=trapz_put_back,
        settings={"return_auc_per_sample": True},
        **ORDER,
    ),
    of_quantus("PixelFlipping", wrapped=curve_mean, **ORDER),
    of_quantus(
        "RegionPerturbation",
        wrapped=curve_mean,
        settings={"patch_size": 2},
        sections=because("direction-of-regionperturbation", PREFERRED),
        **PATCHES,
    ),
    of_quantus(
        "RegionPerturbation",
        wrapped=curve_mean,
        settings={"patch_size": 2},
        higher_is_better=True,
        **PATCHES,
    ),
    of_quantus("Selectivity", wrapped=curve_mean, settings={"patch_size": 2}, **PATCHES),
    of_quantus("IROF", settings=EACH, sections=TRAPZ, rising=True, **PATCHES),
    of_quantus("IROF", wrapped=trapz_put_back, settings=EACH, rising=True, **PATCHES),
    of_quantus(
        "Monotonicity",
        settings={"abs": False},
        sections=because("monotonicity", PREFERRED),
        unit="order",
    ),
    of_quantus(
        "MonotonicityCorrelation",
        settings={"nr_samples": 1},
        sections=because("sizes-without-signs", "order counting conjunction chance"),
        unit="output change",
        invariances=("scale", "sign"),
    ),
    of_quantus("Infidelity", unit="local gradient", neighbors="patches"),
    of_quantus(
        "ROAD",
        call=one_by_one,
        settings={"percentages": [10, 30, 50, 70, 90]},
        sections=because("random-numbers", "global-seed random-states-kept"),
        unit="order",
        neighbors="imputation",
        sampled=True,
    ),
    of_quantus(
        "Completeness",
        sections=because("completeness-of-scaled-maps", PREFERRED),
        unit="output change",
    ),
    of_quantus(
        "Completeness",
        settings={"normalise": False},
        sections=because("equality-of-floats", "rounding relabelled output-scale")
        | because("yes-or-no", "order counting conjunction corruption extremes"),
        unit="output change",
    ),
    of_quantus(
        "NonSensitivity",
        sections=because("sizes-without-signs", "order counting conjunction extremes"),
        unit="output change",
        invariances=("sign",),
    ),
    *(
        of_quantus(kind, call=of_maps, sections=NO_NETWORK, invariances=("scale", "sign"))
        for kind in ("Sparseness", "Complexity", "EffectiveComplexity")
    ),
    of_quantus(
        "PointingGame",
        call=with_masks,
        sections=because("yes-or-no", "chance added"),
        unit="output change",
        invariances=("scale", "shift", "missing"),
    ),
    of_quantus("AUC", call=with_masks, unit="place"),
    of_quantus(
        "TopKIntersection",
        call=with_masks,
        settings={"k": 20},
        unit="place",
        ties="reading order",
    ),
    of_quantus("RelevanceRankAccuracy", call=with_masks, unit="place", ties="reading order"),
    of_quantus("RelevanceMassAccuracy", call=with_masks, **POSITIVE),
    of_quantus("AttributionLocalisation", call=with_masks, **POSITIVE),
    of_quantus(
        "AttributionLocalisation",
        call=with_masks,
        settings={"weighted": True},
        sections=because("attributionlocalisation-weighted", "batch-size"),
        **POSITIVE,
    ),
    of_captum([f"{DECORATED}False"], "local gradient", times_inputs=False),
    of_captum([f"{DECORATED}True"], "output change", times_inputs=True),
    of_captum(
        [f"{DECORATED}True", "normalize=True"],
        "output change",
        because("sizes-without-signs", "rounding order counting conjunction chance"),
        ("scale", "sign"),
        times_inputs=True,
        normalize=True,
    ),
]
EXAMINED_COLUMNS = [
    *("metric", "settings", "declares", "pass", "by declaration", "not applicable"),
    *("faults", "limits", "differences of definition"),
]
FOUND_COLUMNS = ["section", "check", "expected", "found", "metrics"]
VERSION_COLUMNS = ["package", "version"]


def with_table(page: str, names: list[str], rows: list[list[str]]) -> str:
    head = re.escape(markdown(names, []).partition("\n")[0])
    page, count = re.subn(head + r"\n(?:\|.*\n)*", lambda _: markdown(names, rows) + "\n", page)
    assert count == 1, f"the page has {count} tables of the columns {names}"
    return page


def kinds_of_sections(page: str) -> dict[str, str]:
    """Each third-level heading as a link's target -> the column of its second-level heading."""
    kinds, column = {}, ""
    for level, title in re.findall(r"^(##+) (.*)$", page, re.M):
        if level == "##":
            column = title.lower()
        else:
            kinds[re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))] = column
    return kinds


def ran(code: str) -> str:
    """What a snippet prints, as a whole program."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})
    return printed.getvalue()


def with_outputs(page: str) -> str:
    """The page with what its snippets print now."""
    return re.sub(
        r"```python\n(.*?)```\n\n```text\n.*?```",
        lambda found: f"```python\n{found[1]}```\n\n```text\n{ran(found[1])}```",
        page,
        flags=re.DOTALL,
    )


def shown(found: str) -> str:
    """What a check found, without the place in this file, on one short line."""
    found = re.sub(r" \(\w+\.py, line \d+\)| \(if that is meant: .*\)", "", found)
    return found if len(found) <= 110 else found[:109] + "…"


def examined_row(line: Examined, report: Any, kinds: Mapping[str, str]) -> list[str]:
    counts = dict.fromkeys(("pass", "by declaration", "not applicable"), 0)
    linked: dict[str, dict[str, int]] = {column: {} for column in EXAMINED_COLUMNS[-3:]}
    for check in report.checks:
        if check.status not in ("fault", "note"):
            counts[check.status] += 1
            continue
        section = line.section(check)
        sections = linked[kinds.get(section, "faults")]
        sections[section] = sections.get(section, 0) + 1
    links = [
        ", ".join(f"[{name}](#{name}) {count}" for name, count in sections.items())
        for sections in linked.values()
    ]
    cells = [line.name, line.settings, line.declared, *map(str, counts.values()), *links]
    return [each or "—" for each in cells]


def found_rows(reports: list[tuple[Examined, Any]], kinds: Mapping[str, str]) -> list[list[str]]:
    """A row for each section, check and finding: which metrics have it."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for line, report in reports:
        for check in report.findings:
            section = line.section(check)
            key = (f"[{section}](#{section})", check.id, check.expected, shown(check.found))
            name = line.name.partition(" ")[2]
            rows[key] = [*dict.fromkeys([*rows.get(key, []), name])]
    place = {f"[{name}](#{name})": index for index, name in enumerate(kinds)}
    ordered = sorted(rows, key=lambda key: place.get(key[0], -1))
    return [[*key, ", ".join(rows[key])] for key in ordered]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="metrics to print, e.g. AUC")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    known = {line.name.partition(" ")[2] for line in LINES}
    if unknown := set(arguments.names) - known:
        parser.error(f"no metric {', '.join(sorted(unknown))}: take {', '.join(sorted(known))}")
    page = arguments.page.read_text(encoding="utf-8")
    kinds = kinds_of_sections(page)
    reports = []
    for line in LINES:
        if arguments.names and line.name.partition(" ")[2] not in arguments.names:
            continue
        report = al.check_metric(line.function)
        print(report if arguments.names else report.title, line.settings, flush=True)
        reports.append((line, report))
    if not arguments.names:
        page = with_table(
            page, VERSION_COLUMNS, [[each, version(each).partition("+")[0]] for each in PACKAGES]
        )
        rows = [examined_row(line, report, kinds) for line, report in reports]
        page = with_table(page, EXAMINED_COLUMNS, rows)
        page = with_table(page, FOUND_COLUMNS, found_rows(reports, kinds))
        arguments.page.write_text(with_outputs(page), encoding="utf-8")
    return int(any(line.section(c) not in kinds for line, r in reports for c in r.findings))


if __name__ == "__main__":
    raise SystemExit(main())
