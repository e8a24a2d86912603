r"""Assumption 4.10, tested: does a higher performance mean more information?

For all sets of features, :math:`\rho(f(F_1)) < \rho(f(F_2))` is to imply
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

from attributionlab.metrics import removal_order
from attributionlab.metrics.performance import Performance
from attributionlab.papers.soco.truth_conditions import Case, Place

SAME = 1e-9
"""Performances, and informations as shares, that differ by less are equal: rounding."""
OF_EACH_KIND = 16
"""Sets, or a few more, of each kind: how often the assumption fails depends on the mix of them."""
PREFIXES_OF = ("exact", "blur 0.03", "noise 0.75", "gradcam", "integrated-gradients-true-baseline")
LABEL, RIVAL, BACKGROUND = 3, 3, 1
"""Pixels of the images of which every subset is looked at."""


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


def kept_sets(place: Place, seed: int) -> dict[str, list[Bool[Tensor, "batch 1 height width"]]]:
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


def assumption_rows(case: Case, sets: Mapping[str, Sequence[Tensor]]) -> Iterator[dict[str, Any]]:
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


def counterexample_rows(case: Case) -> Iterator[dict[str, Any]]:
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


def theorem_row(case: Case) -> dict[str, Any]:
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


def _subsets(case: Case) -> pd.DataFrame:
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
        rows.append(
            {
                "kept": " + ".join(f"{n} {kind}" for kind, n in counted.items()) or "nothing",
                "pixels": len(kept),
                "performance": float(measured.keeping(keep.view(1, 1, *image.shape[2:]))[0]),
                "information": float(counted["label"]),
            }
        )
    return pd.DataFrame(rows)
