r"""Algorithms 1 and 2 and Assumption 4.10 beside Definitions 4.8 and 4.9, where information is known.

The assumption: for all sets of features, :math:`\rho(f(F_1)) < \rho(f(F_2))` is to imply
:math:`|I \cap F_1|_\phi < |I \cap F_2|_\phi` (Li et al., 2024). The proof of Theorem 4.11 needs more:
that equal performance implies equal information. Sets are of the pixels of a data set, whose
performance is the mean over images; each image is looked at as a data set of one, too.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, compress, product
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from attributionlab.metrics import Performance, removal_order
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.soco import ratios
from attributionlab.show import dots, scatter
from attributionlab.worlds import load

SAME = 1e-9
"""Performances, and informations as shares, that differ by less are equal: rounding."""
OF_EACH_KIND = 16
"""Sets, or a few more, of each kind: how often the assumption fails depends on the mix of them."""
PREFIXES_OF = ("exact", "blur 0.03", "noise 0.75", "gradcam", "integrated-gradients-true-baseline")
LABEL, RIVAL, BACKGROUND = 3, 3, 1
"""Pixels of the images of which every subset is looked at."""
STEPS, EPSILONS = (4.0, 1.0, 0.25), (0.0, 0.01, 0.05)
"""Percent of the area, and rises of the performance, of Algorithm 1."""
LOW = 0.1
"""The lowest of Algorithm 4's thresholds: nearest to Definition 4.9's 0."""
CLEAN, DISTURBED = (
    ratios.Condition(ratios.REFERENCE.environment, strength, ratios.LINEAR)
    for strength in (0.0, 1.0)
)
"""Noisy linear imputation, without and with channels that fire on unseen colors."""
QUALITIES = {
    "soundness": "true soundness",
    "completeness": "true completeness (Definition 4.9)",
    "completeness of thresholds": "true completeness, mean over thresholds",
    "f1": "F1",
}


def estimates_beside_truth(run: Run, *, image_size: int) -> Found:
    """Compare Algorithms 1 and 2 and Assumption 4.10 with Definitions 4.8 and 4.9.

    Tables "soundness" and "completeness" (`error_table`) are of one level and threshold, "levels" and
    "thresholds" of all; "metrics" is `agreement_table`; "schedule" is by step and epsilon;
    "assumption" is of all sets, "assumption-by-sets" of each kind. A quick run has fewer attributions
    and conditions.
    """
    conditions = ratios.conditions_of(run.quick)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    cases: dict[ratios.Place, list[ratios.Case]] = {}
    for name in dict.fromkeys(each.environment for each in conditions):
        env = load(name, image_size=image_size)
        place = ratios.Place(env, run.n, run.seed, ratios.THRESHOLDS[:-1], run.quick)
        own = [each for each in conditions if each.environment == name]
        cases[place] = [
            ratios.Case(place, *pair) for pair in product(own, ratios.INDICATORS[env.task])
        ]
    for place, entry in run.track([(at, each) for at in cases for each in at.entries]):
        for case in cases[place]:
            for table, of_table in ratios.ratio_rows(case, entry).items():
                rows[table] += of_table
            for step, epsilon in (
                product(STEPS, EPSILONS) if case.condition == ratios.REFERENCE else ()
            ):
                keys = {"step": step, "epsilon": epsilon, "indicator": case.indicator}
                found = ratios.soundness_rows(case, entry, case.ends, step=step, epsilon=epsilon)
                rows["schedule"] += [keys | {"attribution": entry.name, **row} for row in found]
        place.forget()
    for place, of_place in cases.items():
        sets = kept_sets(place, run.seed)
        for case in of_place:
            rows["assumption"] += assumption_rows(case, sets)
            rows["counterexamples"] += counterexample_rows(case)
            rows["theorem"].append(theorem_row(case))
        place.forget()
    tables = _tables({name: pd.DataFrame(of_name) for name, of_name in rows.items()}, run.n)
    return Found(tables, _figures(tables, f"{run.n} images of {image_size} x {image_size} pixels"))


def _tables(every: dict[str, pd.DataFrame], n: int) -> dict[str, pd.DataFrame]:
    levels = ratios.error_table(every["soundness"], [*ratios.CONDITION, "share"])
    thresholds = ratios.error_table(every["completeness"], [*ratios.CONDITION, "threshold"])
    of_all = every["assumption"].sets == "all"
    middle = every["schedule"][every["schedule"].share == ratios.MIDDLE]
    distinct = every["scores"].drop_duplicates(["environment", "attribution"])
    panel = distinct.groupby(["environment", "kind"], sort=False).size().unstack("kind")
    return {
        "panel": panel.reset_index().assign(images=n),
        "soundness": levels[levels.share == ratios.MIDDLE].drop(columns="share"),
        "completeness": thresholds[thresholds.threshold == LOW].drop(columns="threshold"),
        "metrics": ratios.agreement_table(every["scores"]),
        "assumption": every["assumption"][of_all].drop(columns="sets"),
        "assumption-by-sets": every["assumption"][~of_all],
        "counterexamples": every["counterexamples"],
        "theorem": every["theorem"],
        "schedule": ratios.error_table(middle, ["step", "epsilon", "indicator"]),
        "schedule-held-out": ratios.held_out_table(middle, ratios.PAPER_SCHEDULE),
        "levels": levels,
        "thresholds": thresholds,
        "soundness-attributions": every["soundness"],
        "completeness-attributions": every["completeness"],
        "scores": every["scores"],
    }


def _figures(tables: Tables, counted: str) -> dict[str, Any]:
    """Estimates beside true ratios, and how far metrics rank attributions as the truth does."""
    main = ratios.REFERENCE.environment
    figures = {}
    for name, place, at, xlabel, ylabel in (
        (
            *("soundness", "share", ratios.MIDDLE, "true soundness of the same pixels"),
            f"soundness at the level {ratios.MIDDLE:g} (Algorithm 1)",
        ),
        (
            *("completeness", "threshold", LOW, f"true completeness at the threshold {LOW:g}"),
            f"share of the performance lost at\nthe threshold {LOW:g} (Algorithm 2)",
        ),
    ):
        table = tables[f"{name}-attributions"]
        table = table[table[place] == at]
        shown = []
        for each in (ratios.REFERENCE, CLEAN, DISTURBED):
            here = ratios.of_condition(table, each)
            missing = f"{here.estimate.isna().sum()} of {len(here)} without an estimate"
            shown.append(
                here.dropna(subset="estimate").assign(condition=f"{_condition(each)}; {missing}")
            )
        figures[name] = scatter(
            *(pd.concat(shown), "truth", "estimate"),
            color="indicator",
            panel="condition",
            title=f"One point for each attribution ({main}, {counted})",
            xlabel=xlabel,
            ylabel=ylabel,
            # Algorithm 2 promises an order only
            diagonal="estimate = truth" if name == "soundness" else "",
        )
    metrics = tables["metrics"]
    cases = (ratios.Condition(*case) for case in metrics[ratios.CONDITION[:3]].to_numpy())
    conditions = [f"{case.environment}, {_condition(case)}" for case in cases]
    metrics = metrics.assign(condition=conditions, quality=metrics.truth.map(QUALITIES))
    for indicator in ratios.INDICATORS["classification"][:2]:
        figures[f"ranks-{indicator.replace(' ', '-')}"] = dots(
            *(metrics[metrics.indicator == indicator], "rank", "condition"),
            color="metric",
            panel="quality",
            columns=4,
            title=f"Do metrics rank attributions as the truth does? Indicator: {indicator}, "
            f"{counted}; lines: 95 % intervals; without a dot there is no ranking",
            xlabel="Spearman correlation (1 is best)",
            reference=0,
        )
    return figures


def _condition(condition: ratios.Condition) -> str:
    """In words, without the environment."""
    if condition.imputation in ratios.SEEN:
        return f"{condition.imputation} (nothing unseen)"
    unseen = f"unseen data x {condition.strength:g}" if condition.strength else "no unseen data"
    return f"{condition.imputation}, {unseen}"


def compared_pairs(
    performance: Float64[Tensor, "sets images"], information: Float64[Tensor, "sets images"]
) -> dict[str, int]:
    """Count, over all pairs of the sets of each image, how often the assumption holds.

    Of pairs that "differ" in performance the better set has less information ("reversed") or "no_more";
    of "ties" in performance the information differs all the same where it is "hidden".
    """
    first, second = torch.triu_indices(len(performance), len(performance), 1)
    better, richer = (
        torch.where(gaps.abs() > SAME, gaps, 0).sign()
        for gaps in (each[first] - each[second] for each in (performance, information))
    )
    found = {
        "pairs": torch.ones_like(better).bool(),
        "differ": better != 0,
        "reversed": better * richer < 0,
        "no_more": (better != 0) & (richer == 0),
        "ties": better == 0,
        "hidden": (better == 0) & (richer != 0),
    }
    return {name: int(where.sum()) for name, where in found.items()}


def kept_sets(
    place: ratios.Place, seed: int
) -> dict[str, list[Bool[Tensor, "batch 1 height width"]]]:
    """Sets of pixels of each image by their kind; the last one is everything."""
    images = place.images
    batch, _, height, width = images.shape
    pixels, shape = height * width, (batch, 1, height, width)
    generator = np.random.default_rng([seed, 11])
    content = (images != place.env.baseline).any(1, keepdim=True)
    sets: dict[str, list[Tensor]] = defaultdict(list)
    for share in np.geomspace(1 / pixels, 0.9, OF_EACH_KIND):
        sets["random pixels"].append(_random(generator, shape) < share)
        sets["random content"].append(content & (_random(generator, shape) < share))
        sets["rectangles"].append(_rectangle(generator, share, height, width).expand(shape))
    chosen = [each.maps for each in place.entries if each.name in PREFIXES_OF]
    for count in np.unique(np.geomspace(1, pixels / 2, OF_EACH_KIND // 3 + 1).astype(int)):
        for maps in chosen:
            rank = removal_order(maps).argsort(1).view(shape)
            sets["most attributed"].append((rank < int(count)) & (maps > 0))
    return {**sets, "everything": [torch.ones(shape, dtype=torch.bool)]}


def _random(generator: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(generator.random(shape))


def _rectangle(generator: np.random.Generator, share: float, height: int, width: int) -> Tensor:
    rows, columns = (max(1, round(share**0.5 * side)) for side in (height, width))
    top, left = generator.integers(height - rows + 1), generator.integers(width - columns + 1)
    kept = torch.zeros(1, 1, height, width, dtype=torch.bool)
    kept[..., top : top + rows, left : left + columns] = True
    return kept


def assumption_rows(
    case: ratios.Case, sets: Mapping[str, Sequence[Tensor]]
) -> Iterator[dict[str, Any]]:
    """How often the assumption holds: of the data set and of each image, of all sets and of each kind.

    Pairs are of the same sets in both: those of the data set are one set in each of its images. For one
    kind of sets both are of that kind.
    """
    measured, phi = Performance(*case.given, **case.setup), case.information
    kinds = [kind for kind, of_kind in sets.items() for _ in of_kind]
    every = [keep for of_kind in sets.values() for keep in of_kind]
    performance = torch.stack([measured.keeping(keep) for keep in every])
    information = torch.stack([(phi * keep).sum((1, 2, 3)) for keep in every])
    compared = {
        "data set": (performance.mean(1, keepdim=True), information.sum(1, keepdim=True)),
        "image": (performance, information / phi.sum((1, 2, 3))),
    }
    for kind in ("all", *(kind for kind, of_kind in sets.items() if len(of_kind) > 1)):
        chosen = torch.tensor([kind in ("all", each) for each in kinds])
        for of, (better, richer) in compared.items():
            found = compared_pairs(better[chosen], richer[chosen])
            yield {
                **case.keys,
                "performance_of": of,
                "sets": kind,
                **found,
                "reversed_share": found["reversed"] / max(1, found["differ"]),
                "no_more_share": found["no_more"] / max(1, found["differ"]),
                "hidden_share": found["hidden"] / max(1, found["ties"]),
            }


def counterexample_rows(case: ratios.Case) -> Iterator[dict[str, Any]]:
    """The smallest pair of each kind, of all pairs of sets of a few pixels of the first image.

    Kinds are "reversed", "no more" and "hidden", as in `compared_pairs`; none where the assumption, and
    what the theorem needs besides, hold for all pairs.
    """
    subsets = _subsets(case)
    p, phi = subsets.performance.to_numpy(), subsets.information.to_numpy()
    pixels = subsets.pixels.to_numpy()
    smallest: dict[str, tuple[int, int, int]] = {}
    for first, second in combinations(np.argsort(pixels, kind="stable"), 2):
        worse, better = (first, second) if p[first] <= p[second] else (second, first)
        more, total = phi[better] - phi[worse], int(pixels[first] + pixels[second])
        if p[better] - p[worse] > SAME:
            kind = "" if more > 0 else "reversed" if more < 0 else "no more"
        else:
            kind = "hidden" if more else ""
        if kind and (kind not in smallest or total < smallest[kind][0]):
            smallest[kind] = total, worse, better
    for kind, (_, worse, better) in smallest.items():
        pair = {"worse": worse, "better": better}
        row = {
            f"{value}_of_{which}": subsets[value][index]
            for value in ("performance", "information")
            for which, index in pair.items()
        }
        names = {which: subsets.kept[index] for which, index in pair.items()}
        yield {**case.keys, "kind": kind, **names, **row}


def theorem_row(case: ratios.Case) -> dict[str, Any]:
    """Theorem 4.11's ratio for a few pixels, all attributed alike, by trying every subset."""
    subsets = _subsets(case)
    whole = subsets.loc[subsets.pixels.idxmax()]
    equal = subsets[(subsets.performance - whole.performance).abs() <= SAME]
    least = equal.loc[equal.pixels.idxmin()]
    return {
        **case.keys,
        "attributed": whole.kept,
        "minimizer": least.kept,
        "theorem": least.pixels / whole.pixels,
        "truth": whole.information / whole.pixels,
    }


def _subsets(case: ratios.Case) -> pd.DataFrame:
    """Every set of a few pixels of the first image: what it holds, its performance and information.

    Information is in pixels of the label.
    """
    place, (network, images, targets) = case.place, case.given
    image, phi = images[:1], place.information[0, 0].flatten()
    classes = place.env.counting.classes_of(image)[0, 0].flatten()
    content = (image != place.env.baseline).any(1).flatten()
    # The class without information that has the most pixels
    others = classes[(phi == 0) & (classes >= 0)]
    rival = int(others.mode().values) if len(others) else -1
    pools = {
        "label": (LABEL, phi > 0),
        "rival": (RIVAL, content & (phi == 0) & (classes == rival)),
        "background": (BACKGROUND, ~content),
    }
    chosen = [
        (at, kind)
        for kind, (count, pool) in pools.items()
        for at in pool.nonzero()[:count, 0].tolist()
    ]
    measured = Performance(network, image, targets[:1], **case.setup)
    rows = []
    for members in product((False, True), repeat=len(chosen)):
        kept = list(compress(chosen, members))
        keep = torch.zeros(phi.shape, dtype=torch.bool)
        keep[[at for at, _ in kept]] = True
        counted = Counter(kind for _, kind in kept)
        performance = float(measured.keeping(keep.view(1, 1, *image.shape[2:]))[0])
        words = " + ".join(f"{n} {kind}" for kind, n in counted.items()) or "nothing"
        rows.append((words, len(kept), performance, float(counted["label"])))
    return pd.DataFrame(rows, columns=["kept", "pixels", "performance", "information"])


def _violated(tables: Tables) -> pd.DataFrame:
    """Rows of the assumption on data sets, with the number of pairs for which it fails."""
    rows = tables["assumption"].query("performance_of == 'data set'")
    return rows.assign(violated=rows.reversed + rows.no_more)


def first_step_explains_little(tables: Tables) -> bool | None:
    rows = ratios.of_condition(tables["soundness"], ratios.REFERENCE).query("bias > 0")
    explained = 1 - rows.bias_from_nothing / rows.bias
    return bool((explained <= 0.2).all()) if len(rows) else None


def other_schedules_are_nearer(tables: Tables) -> bool:
    errors = tables["schedule-held-out"].pivot(index="indicator", columns="chosen", values="error")
    return bool((errors[True] < errors[False]).all())


def assumption_holds_for_the_logit(tables: Tables) -> bool:
    rows = ratios.of_condition(_violated(tables), ratios.REFERENCE).set_index("indicator").violated
    return bool(rows["label logit"] == 0 and (rows.drop("label logit") > 0).all())


def unseen_colors_spoil_estimates(tables: Tables) -> bool:
    violated = _violated(tables)
    violated["share"] = violated.violated / violated.differ.clip(lower=1)
    reached, failing = (
        [ratios.of_condition(table, each, "accuracy")[column].item() for each in (CLEAN, DISTURBED)]
        for table, column in ((tables["soundness"], "reached"), (violated, "share"))
    )
    return bool(reached[1] < reached[0] and failing[1] > failing[0])


def roads_fractions_tell_less_apart(tables: Tables) -> bool:
    table = ratios.of_condition(tables["metrics"], DISTURBED, "accuracy")
    distinct = table[table.truth == "completeness"].set_index("metric").distinct
    return bool(distinct[ratios.OWN_FRACTIONS] < distinct["removal, most first"])
