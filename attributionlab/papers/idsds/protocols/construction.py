"""Protocols held against the truth, on networks in their domain, or out of it, by construction."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.environment.catalog import load
from attributionlab.metric_trials.agreement import lowest_part
from attributionlab.metrics import grid_patches, ids, parts_f1, patch_sums
from attributionlab.papers.idsds.protocols.names import (
    ALIGNED_IDS,
    IDS,
    IDSDS,
    PARTS,
    SDS,
    UPDATED_BY_CONSTRUCTION,
    UPDATED_IDS,
)
from attributionlab.papers.idsds.protocols.scoring import Scored, by_method, fixed_ids, rank_scores
from attributionlab.papers.idsds.protocols.setting import (
    EXACT,
    MASK,
    PATCHES,
    SIDE,
    SPECKLED,
    STRENGTH,
    STRENGTHS,
    TRUTHS,
    Images,
    Setting,
)
from attributionlab.progress import track
from attributionlab.truth import Output

Numbers = NDArray[np.float64]

ENVIRONMENTS = {"multi-color-sum": "sum", "multi-color-sum-distractors": "distractors"}
"""Environments, and what they are called in tables."""


@dataclass(frozen=True, eq=False)
class Judged:
    """What protocols and the truth say of the maps of images.

    Parameters
    ----------
    place : str
        What the environment is called in tables.
    output : {"logit", "probability"}
        What the maps explain, and what patches' deletion costs; IDS is always one of the probability.
    names : list of str
        Maps: of the panel, of the truth, and degraded ones.
    scored : list of Scored
        By protocol and map.
    f1, cells : array, (maps, images)
        How right a map is: lowest F1 of all masks; Pearson's correlation of its sums over cells with
        those of the exact Shapley values, 0 where either is constant.
    unseen : mapping of str to array, (images,)
        By protocol, the share of the images it makes of each image that set off a redundant channel:
        the outputs differ from those of the same network without.
    exact : float
        The share of drops of IDSDS that equal the number of the target's pixels in the cell; NaN for
        probabilities, for which there is no such number.
    """

    place: str
    output: Output
    names: list[str]
    scored: list[Scored]
    f1: Numbers
    cells: Numbers
    unseen: Mapping[str, Numbers]
    exact: float


def dosed(strength: float) -> str:
    """The protocol that deletes with specks, on networks with redundant channels of a strength."""
    return f"{SPECKLED} {strength:g}"


def judged(
    name: str, output: Output, n: int, seed: int, *, quick: bool, show_progress: bool = False
) -> Judged:
    """Score the maps of an environment's images by every protocol, and by the truth.

    Parameters
    ----------
    name : str
        In `ENVIRONMENTS`.
    output : {"logit", "probability"}
        What is explained.
    n, seed : int
        Images, each with a network of its own redundant weights.
    quick : bool
        Fewer samples in methods and steps in updated IDS.
    show_progress : bool
        Show progress on standard error.
    """
    dataset = load(name, image_size=SIDE).dataset(n, seed)
    settings = (Setting(name, dataset[k], k, output, seed, quick) for k in range(n))
    columns: dict[str, list[tuple[Numbers, NDArray[np.bool_]]]] = defaultdict(list)
    unseen: dict[str, list[float]] = defaultdict(list)
    f1: dict[str, list[Numbers]] = defaultdict(list)
    cells: list[Numbers] = []
    exact: list[float] = []
    names: list[str] = []
    for setting in track(settings, n, f"{ENVIRONMENTS[name]}, {output}", show_progress):
        candidates = setting.candidates()
        names = list(candidates)
        maps = torch.cat(list(candidates.values()))
        labels = grid_patches(SIDE, SIDE, PATCHES)
        sums = patch_sums(maps, labels)
        cells.append(_pearson(sums, sums[names.index(EXACT)]))
        for protocol, drops in _drops(setting, labels):
            columns[protocol].append(rank_scores(drops.expand_as(sums), sums))
            if protocol == IDSDS and output == "logit":
                exact.append(_exact(setting, drops, labels))
        parts = setting.sample.patches - 1
        sums = patch_sums(maps, parts)
        drops = setting.drops(STRENGTH, parts, setting.env.baseline)
        columns[PARTS].append(rank_scores(drops.expand_as(sums), sums))
        for protocol, scores in _incremental(setting, candidates):
            columns[protocol].append((scores, np.zeros(len(scores), dtype=bool)))
        for protocol, share in _unseen(setting, labels):
            unseen[protocol].append(share)
        for part, values in parts_f1(maps, _signed(candidates, len(maps))).items():
            f1[part].append(values.numpy())
    place = ENVIRONMENTS[name]
    scored_at = place if output == "logit" else f"{place}, {output}"
    return Judged(
        place,
        output,
        names,
        [
            each
            for protocol, of_protocol in columns.items()
            for each in by_method(scored_at, protocol, names, of_protocol)
        ],
        lowest_part({part: np.stack(values, 1) for part, values in f1.items()}),
        np.stack(cells, 1),
        {protocol: np.array(shares) for protocol, shares in unseen.items()},
        float(np.mean(exact)) if exact else np.nan,
    )


def _signed(candidates: Mapping[str, Tensor], count: int) -> Tensor:
    return candidates[MASK].to(torch.int8).expand(count, -1, -1, -1)


def _drops(
    setting: Setting, labels: Int64[Tensor, "height width"]
) -> Iterator[tuple[str, Float64[Tensor, "1 patches"]]]:
    """By each single-deletion protocol, what the cells are worth."""
    asked = [
        (protocol, STRENGTH, filling)
        for protocol, filling in setting.replacements.items()
        if protocol != SPECKLED
    ]
    asked += [(dosed(each), each, setting.replacements[SPECKLED]) for each in STRENGTHS]
    for protocol, strength, filling in asked:
        yield protocol, setting.drops(strength, labels, filling)


def _incremental(
    setting: Setting, candidates: Mapping[str, Tensor]
) -> Iterator[tuple[str, Numbers]]:
    """IDS of the probability: black and the true baseline, fixed; the true baseline, updated."""
    model = setting.env.softmax_model
    assert model is not None  # these environments classify
    steps = 8 if setting.quick else 32
    maps = torch.cat(list(candidates.values()))
    for protocol, replacement in ((IDS, SDS), (ALIGNED_IDS, IDSDS)):
        filling = setting.replacements[replacement]
        yield (
            protocol,
            fixed_ids(model, setting.image[None], setting.sample.label[None], maps, filling, steps),
        )
    if setting.output != "logit":
        return
    scores = np.full(len(candidates), np.nan)
    for index, (name, of_name) in enumerate(candidates.items()):
        if name in (*UPDATED_BY_CONSTRUCTION, *TRUTHS):
            scores[index] = ids(
                model,
                setting.image[None],
                setting.sample.label[None],
                of_name,
                replacement=setting.env.baseline,
                steps=steps,
                explain=lambda x, t, name=name: setting.updated_maps(x, t, name),  # type: ignore[misc]
            ).item()
    yield UPDATED_IDS, scores


def _exact(setting: Setting, drops: Tensor, labels: Tensor) -> float:
    """Share of the drops of a logit that are the number of the target's pixels in the cell."""
    counted = (setting.env.counting.classes_of(setting.image[None]) == setting.target)[None]
    counts = patch_sums(counted.reshape(1, 1, SIDE, SIDE).double(), labels)[0]
    return float((drops[0] == counts).double().mean())


def _unseen(setting: Setting, labels: Int64[Tensor, "height width"]) -> Iterator[tuple[str, float]]:
    """By protocol, the share of its images that the network reacts to as to unseen ones."""
    cells = labels == torch.arange(PATCHES)[:, None, None]
    for protocol, filling in setting.replacements.items():
        yield protocol, _reacting(setting, torch.where(cells[:, None], filling, setting.image))
    parts = setting.sample.patches - 1
    inside = parts == torch.arange(int(parts.max()) + 1)[:, None, None]
    yield (
        PARTS,
        _reacting(setting, torch.where(inside[:, None], setting.env.baseline, setting.image)),
    )
    order = torch.from_numpy(np.random.default_rng(setting.number).permutation(SIDE**2))
    rank = order.argsort().view(SIDE, SIDE)
    gone = rank < torch.arange(1, 32)[:, None, None] * SIDE**2 // 32
    for protocol, replacement in ((IDS, SDS), (ALIGNED_IDS, IDSDS)):
        filling = setting.replacements[replacement]
        yield protocol, _reacting(setting, torch.where(gone[:, None], filling, setting.image))


def _reacting(setting: Setting, images: Images) -> float:
    with torch.no_grad():
        outputs = setting.env.model(images)
        alone = setting.network(0).model(images)
    differs: Bool[Tensor, " batch"] = (outputs != alone).any(1)
    return float(differs.double().mean())


def _pearson(sums: Float64[Tensor, "maps patches"], exact: Float64[Tensor, " patches"]) -> Numbers:
    """Of each row with the exact sums, 0 where either is constant."""
    centered, known = sums - sums.mean(1, keepdim=True), exact - exact.mean()
    scale = centered.norm(dim=1) * known.norm()
    # Rounding of equal sums is no variation.
    tiny = 1e-12 * sums.abs().amax(1) * exact.abs().amax()
    product = centered @ known
    return torch.where(scale > tiny, product / scale, 0.0).numpy()
