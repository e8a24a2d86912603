"""Figures that compare methods in environments: 2, 5 to 8, 16, 17, 19, and 22 to 24."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from skimage.segmentation import mark_boundaries

from attributionlab.base import AttributionLabError
from attributionlab.base.segmentation import segment
from attributionlab.papers.answers import above
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import map_grid
from attributionlab.verdicts import Claim, Comparison, compare
from attributionlab.worlds import Environment, load

MODULO, COLORS = "single-color-modulo", "multi-color-sum"
WITHOUT, UNIFORM = "multi-color-sum-in-distribution", "multi-color-sum-uniform"
ON_MODULO = (
    *("gradcam", "guided-backprop", "lrp", "extremal-perturbation", "occlusion", "deep-shap"),
    *("integrated-gradients", "integrated-gradients-exact", "iba", "random", "constant"),
)
ON_COLORS = (
    *("gradcam", "guided-backprop", "lime", "lime-true-baseline", "extremal-perturbation"),
    *("occlusion", "occlusion-true-baseline", "deep-shap", "integrated-gradients"),
    *("integrated-gradients-true-baseline", "iba"),
)
SEGMENTATIONS: tuple[dict[str, Any], ...] = (
    *({"segmentation": each} for each in ("quickshift", "felzenszwalb", "slic", "grid", "patches")),
    {"segmentation": "quickshift", "kernel_size": 5, "max_dist": 10, "ratio": 1.0},
    {"segmentation": "felzenszwalb", "scale": 100, "sigma": 0.5, "min_size": 50},
)

QUICK_SIZE = 56
"""Pixels on a side in a quick run: the fewest with which IBA's layer has 3 x 3 maps, which it needs."""
STATED_SIZE = 72
"""Of quick runs whose numbers stand in the documentation."""
MARKED_SIDE = 288
"""To which images are enlarged at least half, so that boundaries hide little."""


class Plan(NamedTuple):
    """What to compare, and in which figure the paper gives verdicts about it."""

    figure: int
    methods: Sequence[Any]
    environments: Sequence[str]
    claim: Claim | None = None


MODULO_PLAN = Plan(17, ON_MODULO, [MODULO], "overall")
COLORS_PLAN = Plan(23, ON_COLORS, [COLORS])
PLANS = {
    **dict.fromkeys(("figure-16", "figure-17"), MODULO_PLAN),
    **dict.fromkeys(("figure-2", "figure-19", "figure-23"), COLORS_PLAN),
    "figure-22": Plan(22, ON_COLORS, [WITHOUT, UNIFORM]),
    "figure-5": Plan(5, ["deep-shap", "deep-shap-true-baseline"], [COLORS]),
    "figure-7": Plan(
        7,
        [
            *("integrated-gradients", "integrated-gradients-true-baseline"),
            *("integrated-gradients-exact", "integrated-gradients-exact-true-baseline"),
            *("occlusion", "occlusion-true-baseline"),
        ],
        [COLORS, WITHOUT],
    ),
    "figure-8": Plan(8, ["gradcam", "extremal-perturbation", "iba"], [COLORS], "positive-smoothed"),
}
"""By item; items that one run serves share a plan."""


def environment_of(
    name: str, quick: bool, *, stated: bool = False, **overrides: Any
) -> Environment:
    """An environment of the catalog, a small one for a quick run."""
    size = STATED_SIZE if stated else QUICK_SIZE
    return load(name, **({"image_size": size} if quick else {}), **overrides)


def comparison(run: Run) -> Found:
    """Run the plan of an item: scores, and F1 beside the paper's verdicts."""
    plan = PLANS[run.item]
    return compared(plan, _compared(run, plan))


def _compared(run: Run, plan: Plan) -> Comparison:
    return run.once(
        plan.figure,
        lambda: compare(
            plan.methods,
            [environment_of(name, run.quick) for name in plan.environments],
            run.n,
            run.seed,
            claim=plan.claim,
            preset="paper",
            one_network=True,
            device=run.device,
            show_progress=run.show_progress,
        ),
    )


def compared(plan: Plan, found: Comparison, labels: dict[str, str] | None = None) -> Found:
    """What a plan gave; `labels` are of methods whose own differ from published_verdicts.csv."""
    verdicts = verdict_table(found, published_verdicts(plan.figure).replace(labels or {}))
    summary = found.summary().round({"gap": 6})  # below it is rounding of float32
    tables = {"summary": summary, "scores": found.to_frame()}
    tables |= {"verdicts": verdicts} if len(verdicts) else {}
    if plan.claim == "positive-smoothed":
        best = {result.name: result.ceiling for _, result in found.results}
        tables["ceilings"] = pd.DataFrame(best.items(), columns=["environment", "best_f1"])
    figures = {"scores": found.figure(all_parts=True), "maps": found.maps()}
    return Found(
        tables,
        figures,
        [f"not run: {x.method} on {x.environment}: {x.reason}" for x in found.refusals],
    )


def lime_plan(sam_weights: str | None) -> Plan:
    """LIME with each segmentation, SAM where there is a file of weights for it."""
    sam = [] if sam_weights is None else [{"segmentation": "sam", "weights": sam_weights}]
    methods = [("lime-true-baseline", each) for each in (*SEGMENTATIONS, *sam)]
    return Plan(6, methods, [COLORS], "overall")


def lime_by_segmentation(run: Run, *, sam_weights: str | None = None) -> Found:
    """LIME by segmentation: scores, and superpixels and maps side by side, a figure for each image.

    SAM is left out without `sam_weights`, a file with the weights of a Segment Anything model.
    """
    if sam_weights is not None and not Path(sam_weights).is_file():
        raise AttributionLabError(f"sam_weights is {sam_weights!r}: give the path of a file")
    env, plan = environment_of(COLORS, run.quick), lime_plan(sam_weights)
    comparison = _compared(run, plan)
    sam = "lime-true-baseline (segmentation=sam"
    found = compared(plan, comparison, {f"{sam})": f"{sam}, weights={sam_weights})"})
    samples = [env.dataset(run.n, run.seed)[index] for index in range(run.n)]
    labels = [[_superpixels(report.settings, sample, env) for report, _ in comparison.results]
              for sample in samples]  # fmt: skip
    counts = [
        {"image": index, "method": report.label, "superpixels": int(each.max()) + 1}
        for index, of_image in enumerate(labels)
        for (report, _), each in zip(comparison.results, of_image, strict=True)
    ]
    figures = {
        f"image-{index}": _segmented_figure(env, comparison, sample, of_image, index)
        for index, (sample, of_image) in enumerate(zip(samples, labels, strict=True))
    }
    tables = {**found.tables, "superpixels": pd.DataFrame(counts)}
    return Found(tables, {**found.figures, **figures}, found.notes)


def published_verdicts(figure: int) -> pd.DataFrame:
    """What the paper says about methods: does their F1 on a part of the truth reach gamma?"""
    table = pd.read_csv(Path(__file__).parent / "published_verdicts.csv")
    return table[table["figure"] == figure].drop(columns="figure")


def verdict_table(found: Comparison, published: pd.DataFrame) -> pd.DataFrame:
    """The paper's verdicts beside ours: method, environment, part, gamma, paper, ours, f1, agree."""
    results = {(report.label, result.name): result for report, result in found.results}
    rows, given = [], ("environment", "part", "gamma", "verdict")
    for row in published.to_dict("records"):
        result, part = results.get((row["method"], row["environment"])), row["part"]
        f1 = None if result is None else result.mean(part, "f1")
        if result is None or f1 is None:
            continue
        ends = [end for end in result.spread() if end[part] is not None]
        by_run = {"": f1} | {f", {end['of']}": end[part]["f1"] for end in ends}
        for suffix, each in by_run.items():
            ours = "pass" if each >= row["gamma"] else "fail"
            case = [row[key] for key in given]
            rows.append((row["method"] + suffix, *case, ours, each, ours == row["verdict"]))
    columns = ["method", "environment", "part", "gamma", "paper", "ours", "f1", "agree"]
    return pd.DataFrame(rows, columns=columns)


def _superpixels(settings: Any, sample: Any, env: Environment) -> Any:
    """The superpixels that LIME used, (H, W)."""
    labels = segment(
        sample.image[None],
        settings["segmentation"],
        highest=env.max_value,
        patches=sample.patches[None],
        settings={key: value for key, value in settings.items() if key != "segmentation"},
    )
    return labels[0].numpy()


def _segmented_figure(
    env: Environment, found: Comparison, sample: Any, labels: Sequence[Any], index: int
) -> Figure:
    image = (sample.image / env.max_value).numpy()
    truth = env.truth(sample.image[None], env.targets(sample.label[None])).signed[0, 0].numpy()
    segmented = [marked(image, each) for each in labels]
    maps = [result.attributions[index] for _, result in found.results]
    f1 = [f"F1 {result.scores['overall']['f1'][index]:.2f}" for _, result in found.results]
    counts = [f"{int(each.max()) + 1} superpixels" for each in labels]
    settings = [", ".join(map(str, report.settings.values())) for report, _ in found.results]
    side = image.shape[-1]
    return map_grid(
        {"superpixels": [image, *segmented], "attribution": [truth.astype(float), *maps]},
        headings=["image, and its truth", *settings],
        notes={"superpixels": ["", *counts], "attribution": ["truth", *f1]},
        title=f"LIME by superpixels, image {index}, {side} x {side} pixels; F1 with the overall truth",
    )


def marked(image: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """An image (C, H, W) in [0, 1], enlarged, with the boundaries of its segments (H, W)."""
    times = max(1, MARKED_SIDE // image.shape[-1])
    large, segments = (each.repeat(times, -2).repeat(times, -1) for each in (image, labels))
    picture = np.moveaxis(np.broadcast_to(large, (3, *segments.shape)), 0, -1)
    lines = mark_boundaries(picture, segments, mode="inner")  # type: ignore[no-untyped-call]
    return np.moveaxis(lines, -1, 0)


def _agree(keys: Sequence[str], tables: Tables) -> bool | None:
    """Whether verdicts agree whose method, part and gamma contain the keys; None where runs differ."""
    table = tables.get("verdicts", pd.DataFrame(columns=["method", "part", "gamma"]))
    text = table.method + " " + table.part.astype(str) + " " + table.gamma.astype(str)
    chosen = table[[all(key in each for key in keys) for each in text]]
    if not len(chosen):
        return None
    first = chosen.method.str.split(", (?:lowest|highest)", regex=True).str[0]
    of_method = chosen.groupby([first, chosen.part, chosen.gamma]).agree
    if of_method.nunique().max() > 1:
        return None
    return bool(chosen.agree.all())


three_methods_are_near_optimal = partial(_agree, ())
ig_needs_the_true_baseline = partial(_agree, ("integrated-gradients",))
occlusion_needs_the_true_baseline = partial(_agree, ("occlusion",))
deep_shap_finds_pixels_without_signs = partial(_agree, ("deep-shap",))
quickshift_passes_at_half = partial(_agree, ("quickshift",))
felzenszwalb_fails = partial(_agree, ("felzenszwalb",))
sam_passes = partial(_agree, ("sam",))


def _one_image(tables: Tables) -> bool:
    """Whether all rests on a single image, as in a quick run: that decides nothing."""
    table = tables.get("scores", pd.DataFrame())
    return "n" in table and bool((table["n"] == 1).all())


def _mean_of(tables: Tables, method: str, score: str, environment: str = COLORS) -> float:
    table = tables["summary"]
    own = table[(table.method == method) & (table.environment == environment)]
    return float(own[score].iloc[0]) if len(own) else np.nan


def ig_is_more_precise_from_the_true_baseline(tables: Tables) -> bool:
    names = ("integrated-gradients-true-baseline", "integrated-gradients")
    true, black = (_mean_of(tables, name, "precision") for name in names)
    return bool(true > 1.5 * black)


def the_path_costs_more_than_the_nodes(tables: Tables) -> bool:
    name = "integrated-gradients{}-true-baseline"
    nodes, exact = (_mean_of(tables, name.format(each), "f1") for each in ("", "-exact"))
    without = _mean_of(tables, name.format("-exact"), "f1", WITHOUT)
    return bool(without - exact > abs(exact - nodes))


def a_uniform_accumulator_takes_the_effect_away(tables: Tables) -> bool | None:
    return None if _one_image(tables) else _mean_of(tables, "deep-shap", "f1", UNIFORM) >= 0.5


def without_redundant_channels_deep_shap_is_right(tables: Tables) -> bool | None:
    return None if _one_image(tables) else _mean_of(tables, "deep-shap", "f1", WITHOUT) > 0.95


def coarse_methods_pass(tables: Tables) -> bool | None:
    return None if _one_image(tables) else _agree((), tables)


def iba_is_best(tables: Tables) -> bool | None:
    if _one_image(tables):
        return None
    table = tables["scores"][tables["scores"].part == "positive-smoothed"].set_index("method").f1
    others = table[["gradcam", "extremal-perturbation"]].max()
    runs = table[table.index.str.startswith("iba")]
    return above(runs.min(), runs.max(), others)


def settings_decide_as_much_as_names(tables: Tables) -> bool:
    table = tables["summary"].set_index("method").f1
    groups = [table[table.index.str.contains(name)] for name in ("quickshift", "felzenszwalb")]
    within = min(each.max() - each.min() for each in groups)
    return bool(within > abs(groups[0].mean() - groups[1].mean()))
