"""Tables of what scores of maps by many protocols come to, and of what each protocol lacks."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.base import applicable, mean_score, paired_difference, with_intervals
from attributionlab.metrics import (
    deletion_drops,
    grid_patches,
    ids,
    idsds,
    judged_by_drops,
    patch_sums,
    removal_order,
)
from attributionlab.metrics.ranking import centered_ranks, row_correlations, spearman_interval
from attributionlab.papers.answers import mean_ends
from attributionlab.papers.idsds.maps import INTEGRATED, panel_maps, probable
from attributionlab.papers.idsds.protocol_scores import (
    ALIGNED_IDS,
    ENVIRONMENTS,
    EXACT,
    IDS,
    IDSDS,
    INTRINSIC,
    MASK,
    PARTS,
    PATCHES,
    SDS,
    SIDE,
    UPDATED,
    UPDATED_IDS,
)
from attributionlab.papers.idsds.training import Pair, Task
from attributionlab.papers.subjects.networks import right, trained_small_network
from attributionlab.verdicts import without_rounding
from attributionlab.worlds import load

PUBLISHED = pd.read_csv(Path(__file__).with_name("published_protocols.csv"))
"""Tables 4 to 7 (ResNet-50, ImageNet), and what the paper calls rows of the panel."""
LEGEND: dict[str, str] = dict(zip(PUBLISHED.name, PUBLISHED.method, strict=True))
PAPER = PUBLISHED.set_index("method").drop(columns="name")
METHODS = [name for name in PAPER.index if name not in INTRINSIC.values()]
RAW = [name for name in METHODS if f"{name} abs." in METHODS]
"""Methods that there are raw and absolute maps of."""
PROTOCOLS = (IDSDS, SDS, IDS, UPDATED_IDS, PARTS)
READ = {"idsds": IDSDS, "sds": SDS, "ids": IDS, "updated": UPDATED_IDS, "parts": PARTS}
"""Tables to read, and the protocols in them."""
SECOND = ENVIRONMENTS["multi-color-sum-distractors"]
"""The environment that tables to read leave out, and all others have."""
ALL, UPDATABLE = "all", "updatable"
"""Sets of maps: all, and those that are made anew in updated IDS."""
SAME = 1e-6
"""Mean probabilities that differ by less, in float32, do so by rounding."""
KEY = ["place", "protocol", "method"]


def score_tables(scores: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """The tables that need no truth: of scores a row for each map of each image."""
    units = units_of(scores)
    table = score_table(scores, units, seed)
    first = table[~table.place.str.startswith(SECOND)]
    to_read = {name: readable(first, protocol) for name, protocol in READ.items()}
    correlations = correlation_table(table, seed)
    pairs = {(each, raw): (each, f"{raw} abs.") for each in PROTOCOLS for raw in RAW}
    absolute = difference_table(units, pairs, ("raw", "absolute"), seed)
    absolute = absolute.rename(columns={"difference": "raw_minus_absolute"})
    noise = {(IDSDS, f"{name}-U"): (IDSDS, name) for name in ("IG", "RISE")}
    shown = absolute[~absolute.place.str.startswith(SECOND)]
    interval = ("low", "high")
    return {
        **{name: each for name, each in to_read.items() if len(each)},
        "rankings": side_by_side(correlations, ["first", "second"], ("correlation", *interval)),
        "pairs": side_by_side(shown, ["protocol", "method"], ("raw_minus_absolute", *interval)),
        "correlations": correlations,
        "absolute": absolute,
        "preferences": preference_table(absolute),
        "noise": difference_table(units, noise, ("noise", "baseline"), seed),
        "gains": gain_table(units, seed),
        "scores": table,
    }


def units_of(scores: pd.DataFrame) -> pd.DataFrame:
    """What intervals are taken over: means of networks, or scores of images of a single one.

    Methods have the paper's names from here on.
    """
    scores = scores.assign(method=scores.method.map(lambda name: LEGEND.get(name, name)))
    several = scores.groupby(KEY).network.transform("nunique") > 1
    means = scores[several].groupby([*KEY, "network"], sort=False).score
    means = means.agg(lambda each: mean_score(each.to_numpy())).reset_index()
    return pd.concat([scores[~several].assign(over="images"), means.assign(over="networks")])


def score_table(scores: pd.DataFrame, units: pd.DataFrame, seed: int) -> pd.DataFrame:
    """A row for each place, protocol and method: mean, interval, and constant maps."""
    table = with_intervals(units.rename(columns={"score": "mean"}), KEY, "mean", seed)
    counts = scores.groupby(KEY, sort=False).agg(
        images=("score", "size"), constant_maps=("constant", "sum")
    )
    table = table.rename(columns={"images": "units"})
    table["images"] = counts.images.to_numpy()
    table["constant_maps"] = counts.constant_maps.to_numpy(int)
    table["paper"] = [_published(*each) for each in zip(table.protocol, table.method, strict=True)]
    return table


def _published(protocol: str, method: str) -> float:
    known = protocol in PAPER and method in PAPER.index
    return float(PAPER.loc[method, protocol]) if known else np.nan


def readable(scores: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """One protocol: a row for each method, a column for each place, and how many maps are constant."""
    shown = [*METHODS, EXACT, MASK, *INTRINSIC.values()]
    here = scores[(scores.protocol == protocol) & scores.method.isin(shown)]
    if not len(here):
        return here
    table = side_by_side(here, ["method"], ("mean", "low", "high"))
    table.insert(1, "paper", [_published(protocol, name) for name in table.method])
    if here.constant_maps.any():
        text = here.constant_maps.astype(str) + " of " + here.images.astype(str)
        counted = text.groupby(here.method).agg(", ".join)
        table["constant_maps"] = counted.reindex(table.method).to_numpy()
    return table


def side_by_side(
    table: pd.DataFrame, rows: list[str], values: tuple[str, str, str]
) -> pd.DataFrame:
    """A value and its interval as text: a column for each place."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for each in table.to_dict("records"):
        value, low, high = (each[name] for name in values)
        text = f"{value:.2f}" + (f" ({low:.2f} to {high:.2f})" if np.isfinite(low) else "")
        keys = {name: each[name] for name in rows}
        cells = found.setdefault(tuple(keys.values()), keys)
        cells[each["place"]] = text if np.isfinite(value) else ""
    return pd.DataFrame(found.values()).fillna("")


def correlation_table(scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Spearman's correlation of two protocols' mean scores of methods, the control left out."""
    names = [name for name in METHODS if name != "random"]
    places = {"paper": PAPER} | {
        place: part.pivot(index="method", columns="protocol", values="mean")
        for place, part in scores.groupby("place", sort=False)
    }
    rows = []
    for place, wide in places.items():
        for first, second in combinations([each for each in PROTOCOLS if each in wide], 2):
            both = wide[[first, second]].reindex(names).dropna()
            if len(both) < 4:
                continue
            found = spearman_interval(*without_rounding(both.to_numpy().T), seed=seed)
            rows.append((place, first, second, *found, len(both)))
    columns = ["place", "first", "second", "correlation", "low", "high", "methods"]
    return pd.DataFrame(rows, columns=columns)


def difference_table(
    units: pd.DataFrame,
    pairs: Mapping[tuple[str, str], tuple[str, str]],
    names: tuple[str, str],
    seed: int,
) -> pd.DataFrame:
    """Paired differences of (protocol, method), first - second, in each place that has both.

    Which of `names` is better is told from six networks on, or six images where there is one network.
    """
    parts = dict(list(units.groupby(KEY, sort=False)))
    rows = []
    for (place, *key), part in parts.items():
        second = pairs.get((key[0], key[1]), ("", ""))
        if (place, *second) not in parts or part.score.isna().all():
            continue
        other = parts[place, *second].score
        found = paired_difference(part.score.to_numpy(), other.to_numpy(), seed)
        better = {"first": names[0], "second": names[1], None: ""}[found.better]
        paper = _published(*key) - _published(*second)
        rows.append((place, *key, *found[:4], part.over.iloc[0], better, paper))
    columns = [*KEY, "difference", "low", "high", "units", "over", "better", "paper"]
    return pd.DataFrame(rows, columns=columns)


def preference_table(absolute: pd.DataFrame) -> pd.DataFrame:
    """Count for each protocol and place the methods whose raw or absolute maps score higher.

    `..._better` are those that intervals tell apart; `as_paper` of `with_paper` differences of means
    have the paper's sign.
    """
    difference = absolute.raw_minus_absolute.where(absolute.raw_minus_absolute.abs() > SAME, 0)
    counted = {
        "methods": absolute.method.notna(),
        "raw_higher": difference > 0,
        "absolute_higher": difference < 0,
        "raw_better": absolute.better == "raw",
        "absolute_better": absolute.better == "absolute",
        "paper_raw": absolute.paper > 0,
        "paper_absolute": absolute.paper < 0,
        "as_paper": difference * absolute.paper > 0,
        "with_paper": (difference != 0) & absolute.paper.notna(),
    }
    by = absolute[["protocol", "place"]].assign(**counted)
    return by.groupby(["protocol", "place"], sort=False).sum().reset_index()


def gain_table(units: pd.DataFrame, seed: int) -> pd.DataFrame:
    """What IDS of a method gains where its maps are made anew after each step.

    `ahead` are the three highest updated scores and all that tie with them: where probabilities are 1,
    IDS tells maps apart by rounding.
    """
    aligned = units.place.isin(units.place[units.protocol == ALIGNED_IDS])
    names = units.method.unique()
    table = pd.concat(
        difference_table(
            part, {(UPDATED_IDS, name): (fixed, name) for name in names}, ("updated", "fixed"), seed
        ).assign(fixed=fixed)
        for part, fixed in ((units[aligned], ALIGNED_IDS), (units[~aligned], IDS))
        if len(part)
    ).drop(columns=["protocol", "paper"])
    means = units[units.protocol == UPDATED_IDS].groupby(["place", "method"]).score.mean()
    updated = table.join(means, on=["place", "method"]).score
    third = updated.groupby(table.place).transform(lambda each: each.nlargest(3).iloc[-1])
    return table.assign(updated=updated, ahead=updated > third - SAME)


def intrinsic_table(scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    """IDSDS of networks that explain themselves, minus that of plain networks' best method.

    Networks are paired by their number: they share images and labels.
    """
    rows = []
    for place, part in scores[scores.protocol == IDSDS].groupby("place", sort=False):
        means = part.groupby(["network", "method"]).score.agg(lambda s: mean_score(s.to_numpy()))
        table = means.unstack()[list(dict.fromkeys(part.method))].rename(columns=LEGEND)
        others = table.drop(columns=INTRINSIC.values(), errors="ignore")
        best = others.mean().idxmax()
        for name in [name for name in INTRINSIC.values() if name in table]:
            found = paired_difference(table[name].to_numpy(), others[best].to_numpy(), seed)
            means = (table[name].mean(), best, others[best].mean())
            rows.append((place, name, *means, *found[:4], found.better or ""))
    columns = ["place", "method", "mean", "best", "best_mean", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "networks", "better"])


def agreement_table(scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    """How far each protocol ranks maps as the truth does, image by image.

    Spearman's correlation over the maps of an image, its mean over images with a bootstrap interval.
    An image in which a protocol's scores are all equal has no ranking and is left out.
    """
    rows = []
    keys = ["place", "output", "protocol"]
    for (place, output, protocol), part in scores.groupby(keys, sort=False):
        for maps, here in {ALL: part, UPDATABLE: part[part.method.isin(UPDATED)]}.items():
            wide = here.pivot(index="image", columns="method", values=["score", "f1", "cells"])
            if wide["score"].isna().all().any():
                continue  # not all of these maps have a score
            ranks = {  # (images, maps)
                each: centered_ranks(without_rounding(wide[each].to_numpy(float)))
                for each in ("score", "f1", "cells")
            }
            row = {"place": place.removesuffix(f", {output}"), "output": output, "maps": maps}
            row |= {"protocol": protocol}
            for truth in ("f1", "cells"):
                found = row_correlations(ranks["score"], ranks[truth])
                low, high = mean_ends(found, seed)
                row |= {truth: mean_score(found), f"{truth}_low": low, f"{truth}_high": high}
            counts = {"images": applicable(found), "constant_maps": int(here.constant.sum())}
            rows.append(row | counts)
    return pd.DataFrame(rows)


def above_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Count by place and protocol the methods whose mean score is above that of the exact values."""
    rows = []
    for (place, protocol), part in scores.groupby(["place", "protocol"], sort=False):
        means = part.set_index("method")["mean"]
        if protocol not in (IDSDS, SDS, PARTS, ALIGNED_IDS, IDS) or EXACT not in means:
            continue
        methods = means.reindex(METHODS).dropna()
        above = methods[methods > means[EXACT] + SAME]
        highest = (above.idxmax(), above.max()) if len(above) else ("", np.nan)
        rows.append((place, protocol, means[EXACT], len(above), *highest))
    columns = ["place", "protocol", "exact", "above", "method", "highest"]
    return pd.DataFrame(rows, columns=columns)


# Table 1

ROAR = "ROAR"
ALIGNED, TIGHT = "domain alignment", "no leakage"
COMPARABLE, NATURAL = "inter-model comparison", "natural data"
SAYS: Mapping[str, Mapping[str, str]] = {
    IDS: {ALIGNED: "no", TIGHT: "n/a", COMPARABLE: "no", NATURAL: "yes"},
    SDS: {ALIGNED: "no", TIGHT: "n/a", COMPARABLE: "yes", NATURAL: "yes"},
    ROAR: {ALIGNED: "yes", TIGHT: "no", COMPARABLE: "no", NATURAL: "yes"},
    PARTS: {ALIGNED: "yes", TIGHT: "yes", COMPARABLE: "yes", NATURAL: "no"},
    IDSDS: {ALIGNED: "yes", TIGHT: "yes", COMPARABLE: "yes", NATURAL: "yes"},
}
"""The paper's table; its FunnyBirds is a framework of its own, of which parts are one piece."""
REMOVED = 0.3
"""Share of the pixels, by attribution: what ROAR deletes at one of its steps."""
EPOCHS = 8


class Leak(NamedTuple):
    """How well a network tells the class from `what` is deleted alone, on masks it has not seen.

    `chance` is the share of the commonest class among them.
    """

    what: str
    accuracy: float
    low: float
    high: float
    chance: float


def leaks(task: Task, network: nn.Module, n: int, seed: int) -> dict[str, Leak]:
    """Train networks on masks alone: what ROAR deletes, a cell drawn at random, a known part.

    ROAR deletes the 30 % of the pixels with the highest attributions of the network. Of n masks one
    half is for the training, the other for the test.
    """
    images, labels = task.training_images[:n], task.training_labels[:n]
    height, width = images.shape[2:]
    maps = _maps(network, images, labels, seed)
    highest = removal_order(maps)[:, : round(REMOVED * maps[0].numel())]
    removed = torch.zeros(len(maps), maps[0].numel()).scatter(1, highest, 1.0).view(maps.shape)
    generator = torch.Generator().manual_seed(seed)
    cells = grid_patches(height, width, PATCHES)
    drawn = torch.randint(PATCHES, (len(images), 1, 1, 1), generator=generator)
    dataset = load("multi-color-sum", image_size=width).dataset(n, seed)
    samples = [dataset[index] for index in range(n)]
    patches = torch.stack([sample.patches for sample in samples])[:, None]
    chosen = torch.rand(n, generator=generator) * patches.amax((1, 2, 3))
    part = (patches == chosen.long()[:, None, None, None] + 1).float()
    of_parts = torch.stack([sample.label for sample in samples])
    return {
        ROAR: _leak(f"the top {REMOVED:.0%} by IG", removed, labels, task.classes, seed),
        IDSDS: _leak("a random cell", (cells == drawn).float(), labels, task.classes, seed),
        PARTS: _leak("a random part", part, of_parts, int(of_parts.max()) + 1, seed),
    }


def _leak(what: str, masks: Tensor, labels: Tensor, classes: int, seed: int) -> Leak:
    half = len(masks) // 2
    network = trained_small_network(
        masks[:half], labels[:half], classes=classes, seed=seed, epochs=EPOCHS
    )
    hits = right(network, masks[half:], labels[half:]).double().numpy()
    chance = float(labels[half:].bincount().max()) / len(hits)
    return Leak(what, float(hits.mean()), *mean_ends(hits, seed), chance)


class _Half(nn.Module):
    """Divides logits by 2: the same decisions and ranks, another calibration."""

    def forward(self, logits: Tensor) -> Tensor:
        return logits / 2


def recalibration(task: Task, pair: Pair, seed: int) -> dict[str, float]:
    """The mean change of an image's score when all logits are halved, maps left alone.

    SDS and IDS are of the original network, IDSDS is of the fine-tuned one.
    """
    images, labels = task.images, task.labels

    def change(network: nn.Module, maps: Tensor, metric: Any, **settings: Any) -> float:
        first, second = (
            metric(each, images, labels, maps, replacement=task.baseline, **settings)
            for each in (network, nn.Sequential(network, _Half()).eval())
        )
        return float((second - first).abs().nanmean())

    def ids_of(network: nn.Module, *of_images: Any, **settings: Any) -> Tensor:
        return ids(probable(network), *of_images, **settings)

    maps = [_maps(network, images, labels, seed) for network in pair]
    return {
        SDS: change(pair.original, maps[0], idsds, patches=PATCHES),
        IDSDS: change(pair.fine_tuned, maps[1], idsds, patches=PATCHES),
        IDS: change(pair.original, maps[0], ids_of),
    }


def _maps(network: nn.Module, images: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Maps of the one method that stands for all."""
    how: dict[str, Any] = {"layer": None, "seed": seed, "quick": True}
    return panel_maps(network, images, labels, (INTEGRATED,), **how)[INTEGRATED]


def modulo_table(n: int, seed: int) -> pd.DataFrame:
    """Single deletion's score of the exact Shapley values where what falls is a remainder.

    Single-color-modulo's output is the number of white pixels modulo 30. Each has the same Shapley
    value, but without a cell the output may rise as well as fall.
    """
    env = load("single-color-modulo", image_size=SIDE)
    images, labels = env.batch(n, seed)
    exact = torch.stack([env.shapley(image, 0) for image in images])
    drops = deletion_drops(
        env.model, images, env.targets(labels), patches=PATCHES, replacement=env.baseline
    )
    scores = judged_by_drops(patch_sums(exact, PATCHES), drops).scores.numpy()
    row = (mean_score(scores), *mean_ends(scores, 0), applicable(scores))
    return pd.DataFrame([row], columns=["score", "low", "high", "images"])


def domain_table(unseen: pd.DataFrame) -> pd.DataFrame:
    """For each environment and protocol how much of its images is out of domain.

    `unseen` is the share that sets off a redundant channel; of `networks`, `none` react to none of
    their images and `all` to each.
    """
    counted = unseen.assign(none=unseen.unseen == 0, all=unseen.unseen == 1)
    table = counted.groupby(["place", "protocol"], sort=False).agg(
        unseen=("unseen", "mean"),
        networks=("unseen", "size"),
        none=("none", "sum"),
        all=("all", "sum"),
        exact_drops=("exact_drops", "mean"),
    )
    return table.reset_index()


def properties_table(
    unseen: pd.DataFrame, found: Mapping[str, Leak], changes: Mapping[str, float]
) -> pd.DataFrame:
    """What the paper says of each protocol's properties, what was measured, what that says.

    `unseen` has shares of unseen images (`environment_scores`); `found` and `changes` are those of
    `leaks` and `recalibration`.
    """
    rows = []
    for protocol, says in SAYS.items():
        shares = unseen[unseen.protocol == protocol].unseen
        measured: dict[str, tuple[float, bool | None, str]] = {
            ALIGNED: (np.nan, None, "not measured (soco-figure-1 and -12 retrain)"),
            TIGHT: (np.nan, None, "not measured: nothing is trained on what is deleted"),
            COMPARABLE: (np.nan, None, "not measured"),
            NATURAL: (np.nan, None, "not measured: all images here are drawn"),
        }
        if len(shares):
            how = (
                "share of its images that activate redundant channels; "
                f"{(shares == 0).sum()} of {len(shares)} networks react to none, "
                f"{(shares == 1).sum()} to all"
            )
            measured[ALIGNED] = (shares.mean(), shares.max() == 0, how)
        if protocol in found:
            what, accuracy, low, high, chance = found[protocol]
            how = f"accuracy from {what} alone, {low:.2f} to {high:.2f}; chance {chance:.2f}"
            measured[TIGHT] = (accuracy, low <= chance, how)
        if protocol in changes:
            how = "mean change of scores when all logits are halved"
            measured[COMPARABLE] = (changes[protocol], changes[protocol] == 0, how)
        for name, (value, holds, how) in measured.items():
            ours = "" if holds is None else "yes" if holds else "no"
            rows.append((protocol, name, says[name], ours, value, how))
    return pd.DataFrame(rows, columns=["protocol", "property", "paper", "ours", "measured", "how"])
