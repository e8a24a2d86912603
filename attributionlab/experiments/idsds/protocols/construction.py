"""Protocols held against the truth, on networks in their domain, or out of it, by construction."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.assess import graded_attributions, pixel_kinds
from attributionlab.assess.moves import blurred
from attributionlab.catalog import load
from attributionlab.dataset import Sample
from attributionlab.dose.agreement import lowest_part
from attributionlab.environment import Environment
from attributionlab.experiments.idsds.maps import PANEL, panel_maps
from attributionlab.experiments.idsds.protocols.names import (
    ALIGNED_IDS,
    IDS,
    IDSDS,
    PARTS,
    SDS,
    UPDATED_BY_CONSTRUCTION,
    UPDATED_IDS,
)
from attributionlab.experiments.idsds.protocols.scoring import (
    Scored,
    by_method,
    fixed_ids,
    rank_scores,
)
from attributionlab.metrics import deletion_drops, grid_patches, ids, parts_f1, patch_sums
from attributionlab.progress import track
from attributionlab.truth import Output

__all__ = ["ENVIRONMENTS", "EXACT", "MASK", "STRENGTHS", "Judged", "dosed", "judged"]

Numbers = NDArray[np.float64]
Images = Float[Tensor, "batch channels height width"]

ENVIRONMENTS = {"multi-color-sum": "sum", "multi-color-sum-distractors": "distractors"}
"""Environments, and what they are called in tables."""
SIDE, PATCHES = 36, 16
CHANNELS, STRENGTH = 2, 1.0
STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Doses of redundant channels; all maps explain the network of strength 1."""
RANDOM, BLURRED, SPECKLED = f"{SDS} random", f"{SDS} blurred", f"{SDS} speckled"
SPECKS = 0.5
"""The share of pixels, drawn for each image, that are black in a speckled replacement; the others have
the true baseline. So cells differ in how much of them is unseen; where all is black they do not."""
BLUR = 41 / 224
"""The paper's standard deviation as a share of its side."""
EXACT, MASK = "exact Shapley values", "mask of the truth"
TRUTHS = (EXACT, MASK)


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
    unseen : mapping of str to float
        By protocol, the share of all images it makes that set off a redundant channel: the outputs
        differ from those of the same network without.
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
    unseen: Mapping[str, float]
    exact: float


@dataclass(frozen=True, eq=False)
class Setting:
    """An image of an environment with the networks that see it, whose redundant weights are its own."""

    name: str
    sample: Sample
    number: int
    output: Output
    seed: int
    quick: bool
    networks: dict[float, Environment] = field(default_factory=dict)

    def network(self, strength: float) -> Environment:
        if strength not in self.networks:
            self.networks[strength] = load(
                self.name,
                image_size=SIDE,
                weight_seed=self.number,
                redundant_channels=CHANNELS if strength else 0,
                redundant_strength=strength or STRENGTH,
            )
        return self.networks[strength]

    @cached_property
    def env(self) -> Environment:
        return self.network(STRENGTH)

    @property
    def image(self) -> Float[Tensor, "channels height width"]:
        return self.sample.image

    @property
    def target(self) -> int:
        return int(self.sample.label)

    @cached_property
    def replacements(self) -> Mapping[str, Tensor]:
        """By protocol, what deleted pixels become: integers, as all images here."""
        drawn = np.random.default_rng([self.seed, self.number, 11])
        specks = torch.from_numpy(drawn.random((1, SIDE, SIDE)) < SPECKS)
        noise = drawn.integers(0, self.env.max_value + 1, tuple(self.image.shape))
        blur = blurred(self.image[:, None], BLUR * SIDE)[:, 0].round()
        black = torch.zeros_like(self.env.baseline)
        return {
            IDSDS: self.env.baseline,
            SDS: black,
            RANDOM: torch.from_numpy(noise).float(),
            BLURRED: blur,
            SPECKLED: torch.where(specks, black, self.env.baseline),
        }

    def explained(self, strength: float = STRENGTH) -> nn.Module:
        return self.network(strength).explained_model(self.output)

    def drops(self, strength: float, patches: Tensor, filling: Tensor) -> Tensor:
        """What each patch's deletion costs the output: (1, P)."""
        return deletion_drops(
            self.explained(strength),
            self.image[None],
            self.sample.label[None],
            patches=patches,
            replacement=filling,
        )

    def known_maps(self, images: Images) -> dict[str, Tensor]:
        """What is true of images: exact Shapley values, and signs."""
        targets = torch.full((len(images),), self.target)
        exact = [self.env.shapley(image, self.target, self.output) for image in images]
        signed = self.env.truth(images, targets, self.output).signed
        return {EXACT: torch.stack(exact), MASK: signed.double()}

    def updated_maps(self, images: Images, targets: Tensor, name: str) -> Tensor:
        """Maps of one name for images that lack pixels."""
        if name in TRUTHS:
            return self.known_maps(images)[name]
        return self._panel(images, targets, (name,))[name]

    def candidates(self) -> dict[str, Float64[Tensor, "1 1 height width"]]:
        """All maps that are judged."""
        images, targets = self.image[None], self.sample.label[None]
        known = self.known_maps(images)
        return {
            **self._panel(images, targets, PANEL),
            **known,
            **self._degraded(known[MASK]),
        }

    def _panel(self, images: Images, targets: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        return panel_maps(
            self.explained(),
            images,
            targets,
            names,
            layer=self.env.layers["gradcam"],
            highest=float(self.env.max_value),
            baselines=self.env.baseline,  # what is deleted has it, too, as in the paper
            seed=self.seed + self.number,
            quick=self.quick,
        )

    def _degraded(self, signed: Tensor) -> dict[str, Tensor]:
        """The truth, damaged in each way at the middle one of its doses."""
        images = self.image[None]
        kinds = pixel_kinds(
            images,
            self.sample.patches[None],
            self.env.counting.classes_of(images),
            self.env.baseline,
        )
        graded = graded_attributions(
            signed.to(torch.int8), kinds, distractors=True, seed=self.seed, first=self.number
        )
        by_kind: dict[str, list[tuple[str, Tensor]]] = defaultdict(list)
        for each in graded:
            if each.kind not in ("exact", "mixture"):
                by_kind[each.kind].append((each.name, each.maps.double()))
        return dict(doses[len(doses) // 2] for doses in by_kind.values())


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
        {protocol: float(np.mean(shares)) for protocol, shares in unseen.items()},
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
