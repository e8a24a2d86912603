"""Maps scored by every protocol: of environments' images, against the truth, and of trained networks.

Environments' networks are in their domain by construction where the true baseline replaces what is
deleted, and out of it by a known dose elsewhere. Each image has a network with redundant weights of its
own.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from attributionlab.base import Numbers, lowest_f1, track
from attributionlab.metrics import (
    deletion_drops,
    grid_patches,
    ids,
    judged_by_drops,
    outputs_along,
    parts_f1,
    patch_sums,
    removal_order,
    step_counts,
)
from attributionlab.papers.idsds.maps import (
    ABSOLUTE,
    CONTROL,
    GRADIENT,
    INTEGRATED,
    PANEL,
    UNIFORM,
    panel_maps,
    probable,
)
from attributionlab.papers.idsds.training import (
    TASKS,
    Images,
    Pair,
    Task,
    trained_pair,
    without_each,
)
from attributionlab.papers.subjects.networks import (
    Design,
    accuracy_of,
    gradcam_layer,
    intrinsic_map,
)
from attributionlab.papers.subjects.subjects import Subject, of_images
from attributionlab.verdicts import blurred, graded_attributions, pixel_kinds
from attributionlab.worlds import Sample, load
from attributionlab.worlds.truth import Output

IDSDS, SDS, IDS, PARTS = "IDSDS", "SDS", "IDS", "parts"
UPDATED_IDS, ALIGNED_IDS = "IDS updated", "IDS aligned"
RANDOM, BLURRED, SPECKLED = f"{SDS} random", f"{SDS} blurred", f"{SDS} speckled"
ENVIRONMENTS = {"multi-color-sum": "sum", "multi-color-sum-distractors": "distractors"}
"""Environments, and what they are called in tables."""
SIDE, PATCHES = 36, 16
STRENGTH, STRENGTHS = 1.0, (0.25, 0.5, 1.0, 2.0, 4.0)
"""Doses of redundant channels; all maps explain the network of strength 1."""
SPECKS = 0.5
"""The share of pixels, drawn for each image, that are black in a speckled replacement; the others have
the true baseline. So cells differ in how much of them is unseen; where all is black they do not."""
BLUR = 41 / 224
"""The paper's standard deviation as a share of its side."""
EXACT, MASK = "exact Shapley values", "mask of the truth"
UPDATED = (
    *("input-x-gradient", "input-x-gradient-absolute", "saliency", "gradcam"),
    *(CONTROL, EXACT, MASK),
)
"""Maps that are made anew in updated IDS: those that need no quadrature, which networks with steep
steps would need much of."""


def dosed(strength: float) -> str:
    """Name the protocol that deletes with specks, on networks with redundant channels of a strength."""
    return f"{SPECKLED} {strength:g}"


def environment_scores(
    name: str, output: Output, n: int, seed: int, *, quick: bool, show_progress: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of maps by every protocol, and how far protocols leave the domain.

    The output is what maps explain, and what the deletion of patches changes; IDS is always one of
    the probability. A quick run takes fewer samples in methods and steps in IDS.

    The first table has a row for each protocol, map and image: `score`, whether the map is
    `constant` (all patches have the same sum), and how right the map is: `f1`, the lowest F1 of all
    masks; `cells`, Pearson's correlation of its sums over cells with those of the exact Shapley
    values, 0 where either is constant. The second has one for each protocol and image, of logits
    (networks for probabilities are the same): `unseen`, the share of the protocol's images that set
    off a redundant channel, so that outputs differ from those of the same network without;
    `exact_drops`, for IDSDS, the share of drops that equal the number of the target's pixels in the
    cell.
    """
    dataset, place = load(name, image_size=SIDE).dataset(n, seed), ENVIRONMENTS[name]
    settings = (Setting(name, dataset[k], k, output, seed, quick) for k in range(n))
    scores, unseen = [], []
    for setting in track(settings, n, f"{place}, {output}", show_progress):
        candidates = setting.candidates()
        maps = torch.cat(list(candidates.values()))
        signed = candidates[MASK].to(torch.int8).expand(len(maps), -1, -1, -1)
        sums = patch_sums(maps, setting.cells)
        known = {
            "place": place if output == "logit" else f"{place}, {output}",
            "output": output,
            "network": 0,
            "method": list(candidates),
            "image": setting.number,
            "f1": lowest_f1({k: v.numpy() for k, v in parts_f1(maps, signed).items()}),
            "cells": _pearson(sums, sums[list(candidates).index(EXACT)]),
        }
        for found in (_single_deletion(setting, maps), _incremental(setting, candidates)):
            for protocol, score, constant in found:
                row = {**known, "protocol": protocol, "score": score, "constant": constant}
                scores.append(pd.DataFrame(row))
        if output == "logit":
            unseen += [{"place": place, "image": setting.number, **row} for row in _unseen(setting)]
    return pd.concat(scores, ignore_index=True), pd.DataFrame(unseen)


class Setting:
    """An image of an environment with the networks that see it, whose redundant weights are its own."""

    def __init__(
        self, name: str, sample: Sample, number: int, output: Output, seed: int, quick: bool
    ) -> None:
        self.sample, self.number = sample, number
        self.output, self.seed, self.quick = output, seed, quick
        self.images, self.targets = sample.image[None], sample.label[None]
        self.cells = grid_patches(SIDE, SIDE, PATCHES)
        self.networks = {
            strength: load(
                name,
                image_size=SIDE,
                weight_seed=number,
                redundant_channels=2 if strength else 0,
                redundant_strength=strength or STRENGTH,
            )
            for strength in (0, *STRENGTHS)
        }
        self.env = self.networks[STRENGTH]
        drawn = np.random.default_rng([seed, number, 11])
        specks = torch.from_numpy(drawn.random((1, SIDE, SIDE)) < SPECKS)
        noise = drawn.integers(0, self.env.max_value + 1, tuple(sample.image.shape))
        black = torch.zeros_like(self.env.baseline)
        # What deleted pixels become, by protocol: integers, as all images here.
        self.replacements: Mapping[str, Tensor] = {
            IDSDS: self.env.baseline,
            SDS: black,
            RANDOM: torch.from_numpy(noise).float(),
            BLURRED: blurred(sample.image[:, None], BLUR * SIDE)[:, 0].round(),
            SPECKLED: torch.where(specks, black, self.env.baseline),
        }

    def drops(
        self, strength: float, patches: Tensor, filling: Tensor
    ) -> Float64[Tensor, "1 patches"]:
        """By how much each patch's deletion lowers the output."""
        model = self.networks[strength].explained_model(self.output)
        return deletion_drops(
            model, self.images, self.targets, patches=patches, replacement=filling
        )

    def maps(self, images: Images, targets: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        """Maps of the panel, exact Shapley values and masks of the truth, for any images."""
        found = {}
        rows = [name for name in names if name not in (EXACT, MASK)]
        if rows:
            found = panel_maps(
                *(self.env.explained_model(self.output), images, targets, rows),
                layer=self.env.layers["gradcam"],
                highest=float(self.env.max_value),
                baselines=self.env.baseline,  # what is deleted has it, too, as in the paper
                seed=self.seed + self.number,
                quick=self.quick,
            )
        if EXACT in names:
            exact = [self.env.shapley(image, int(targets[0]), self.output) for image in images]
            found[EXACT] = torch.stack(exact)
        if MASK in names:
            found[MASK] = self.env.truth(images, targets, self.output).signed.double()
        return found

    def candidates(self) -> dict[str, Float64[Tensor, "1 1 height width"]]:
        """All maps that are judged: and the truth, damaged in each way at the middle of its doses."""
        found = self.maps(self.images, self.targets, (*PANEL, EXACT, MASK))
        classes = self.env.counting.classes_of(self.images)
        kinds = pixel_kinds(self.images, self.sample.patches[None], classes, self.env.baseline)
        by_kind: dict[str, list[tuple[str, Tensor]]] = defaultdict(list)
        for each in graded_attributions(
            found[MASK].to(torch.int8), kinds, distractors=True, seed=self.seed, first=self.number
        ):
            if each.kind not in ("exact", "mixture"):
                by_kind[each.kind].append((each.name, each.maps.double()))
        return found | dict(doses[len(doses) // 2] for doses in by_kind.values())


def _single_deletion(setting: Setting, maps: Tensor) -> Iterator[tuple[str, Numbers, Any]]:
    """Scores of all maps by each protocol that deletes one patch at a time."""
    fillings = setting.replacements
    protocols = [(each, STRENGTH, setting.cells, fillings[each]) for each in fillings]
    protocols[-1:] = [(dosed(each), each, setting.cells, fillings[SPECKLED]) for each in STRENGTHS]
    protocols.append((PARTS, STRENGTH, setting.sample.patches - 1, setting.env.baseline))
    for protocol, strength, patches, filling in protocols:
        sums = patch_sums(maps, patches)
        found = judged_by_drops(sums, setting.drops(strength, patches, filling).expand_as(sums))
        yield protocol, found.scores.numpy(), found.constant_maps.numpy()


def _incremental(
    setting: Setting, candidates: Mapping[str, Tensor]
) -> Iterator[tuple[str, Numbers, bool]]:
    """IDS of the probability: black and the true baseline, fixed; the true baseline, updated."""
    model, steps = setting.env.softmax_model, 8 if setting.quick else 32
    assert model is not None  # these environments classify
    orders = removal_order(torch.cat(list(candidates.values())), order="lerf")
    for protocol, replacement in ((IDS, SDS), (ALIGNED_IDS, IDSDS)):
        curves = outputs_along(  # as `ids` of each map, whose orders are evaluated together
            *(model, setting.images, setting.targets, orders[None]),
            replacement=setting.replacements[replacement],
            counts=step_counts(orders.shape[1], steps),
        )
        yield protocol, curves[0].double().mean(1).numpy(), False

    def remade(name: str, images: Tensor, targets: Tensor) -> Tensor:
        return setting.maps(images, targets, (name,))[name]

    if setting.output == "logit":
        scores = np.full(len(candidates), np.nan)
        for index, (name, maps) in enumerate(candidates.items()):
            if name in UPDATED:
                scores[index] = ids(
                    *(model, setting.images, setting.targets, maps),
                    replacement=setting.env.baseline,
                    steps=steps,
                    explain=partial(remade, name),
                ).item()
        yield UPDATED_IDS, scores, False


def _unseen(setting: Setting) -> Iterator[dict[str, Any]]:
    """By protocol the share of its images that the network reacts to as to unseen ones."""
    fillings, image = setting.replacements, setting.sample.image
    cells = setting.cells == torch.arange(PATCHES)[:, None, None]
    parts = setting.sample.patches - 1
    parts = parts == torch.arange(int(parts.max()) + 1)[:, None, None]
    order = torch.from_numpy(np.random.default_rng(setting.number).permutation(SIDE**2))
    steps = order.argsort().view(SIDE, SIDE) < torch.arange(1, 32)[:, None, None] * SIDE**2 // 32
    drops = setting.drops(STRENGTH, setting.cells, fillings[IDSDS])[0]
    counted = setting.env.counting.classes_of(setting.images) == setting.targets[0]
    counts = patch_sums(counted.reshape(1, 1, SIDE, SIDE).double(), setting.cells)[0]
    deleted = {
        **{each: (cells, filling) for each, filling in fillings.items()},
        PARTS: (parts, setting.env.baseline),
        IDS: (steps, fillings[SDS]),
        ALIGNED_IDS: (steps, fillings[IDSDS]),
    }
    for protocol, (gone, filling) in deleted.items():
        images = torch.where(gone[:, None], filling, image)
        with torch.no_grad():
            differs = setting.env.model(images) != setting.networks[0].model(images)
        exact = float((drops == counts).double().mean()) if protocol == IDSDS else np.nan
        share = float(differs.any(1).double().mean())
        yield {"protocol": protocol, "unseen": share, "exact_drops": exact}


def _pearson(sums: Float64[Tensor, "maps patches"], exact: Float64[Tensor, " patches"]) -> Numbers:
    """Correlation of each row with the exact sums, 0 where either is constant."""
    centered, known = sums - sums.mean(1, keepdim=True), exact - exact.mean()
    scale = centered.norm(dim=1) * known.norm()
    # Rounding of equal sums is no variation.
    tiny = 1e-12 * sums.abs().amax(1) * exact.abs().amax()
    return torch.where(scale > tiny, centered @ known / scale, 0.0).numpy()


# Trained networks

INTRINSIC: Mapping[str, str] = {"b-cos": "B-cos", "bag": "BagNet"}
"""Families of networks that explain themselves, and what their maps are called."""
PLAIN = "plain"
TRUTH = "truth"
"""Not a protocol: Spearman's correlation of a map's sums over cells with those of the data's truth."""
TRAINED_UPDATED = tuple(
    name
    for name in PANEL
    if name.removesuffix(ABSOLUTE) in (GRADIENT, INTEGRATED, UNIFORM)
    or name in ("saliency", "gradcam", CONTROL)
)
"""Rows whose maps are updated: those of which the paper's text speaks and some that cost little."""


class Scale(NamedTuple):
    """How much is trained and explained.

    Networks of each design and task, each with images, weights and an order of its own; images to train
    on and to explain; passes over the whole images, and then over some without a cell; how many of the
    explained images are explained anew in each step of IDS; and its steps.
    """

    networks: int
    training: int
    images: int
    epochs: int
    fine_tuning: int
    updated: int
    steps: int


def trained_scores(
    scale: Scale, seed: int, *, quick: bool, show_progress: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[Task, Pair]]:
    """Train networks on every task and score maps of them.

    Returns a row for each task, network, protocol, map and image; accuracies of both versions of each
    network, on whole images and on those without a cell; and the last task with a plain network.
    """
    scores, accuracies, last = [], [], None
    runs = list(product(TASKS, range(scale.networks), (PLAIN, *INTRINSIC)))
    for place, number, family in track(runs, len(runs), "networks", show_progress):
        if family == PLAIN:
            task = TASKS[place](scale.training, scale.images, seed + 2 * number)
        pair = trained_pair(
            *(Design(family), task),
            seed=seed + number,
            patches=PATCHES,
            replacement=task.baseline,
            epochs=scale.epochs,
            fine_tuning=scale.fine_tuning,
        )
        subject = of_images(place, pair.original, task.images, task.labels, task.baseline)
        if family == PLAIN:
            last = task, pair
            layers = [gradcam_layer(network) for network in pair]
            how: dict[str, Any] = {"truth": task.truth, "quick": quick}
            found = pair_scores(subject, pair.fine_tuned, layers, scale, seed, **how)
        else:
            found = pd.concat(
                each
                for protocol, network in zip((SDS, IDSDS), pair, strict=True)
                for own in [intrinsic_map(network, task.images, task.labels).detach().double()]
                for each in _deleted(protocol, network, subject, {INTRINSIC[family]: own})
            )
        scores.append(found.assign(place=place, network=number))
        row = {"place": place, "family": family, "network": number}
        accuracies.append(row | _accuracies(pair, task))
    assert last is not None  # there is one network at least
    return pd.concat(scores, ignore_index=True), pd.DataFrame(accuracies), last


def pair_scores(
    subject: Subject,
    tuned: nn.Module | None,
    layers: Sequence[nn.Module | str | None],
    scale: Scale,
    seed: int,
    *,
    truth: Tensor | None = None,
    quick: bool,
) -> pd.DataFrame:
    """Score the panel's maps of a network: SDS and IDS, and IDSDS where it has been fine-tuned.

    Each version of the network has maps of its own logits; `layers` are GradCAM's in both. IDS is the
    probability's, on the first images alone, and of maps for which methods take few samples: they are
    made anew in each step. `truth`, (B, 1, H, W), is what the data say, where it is known.
    """
    original, replacement = subject.model, subject.empty
    images, labels = subject.images, subject.targets

    def panel(
        network: nn.Module, images: Tensor, labels: Tensor, quick: bool, names: Any = PANEL
    ) -> dict[str, Tensor]:
        layer = layers[network is tuned]
        how: dict[str, Any] = {"layer": layer, "baselines": replacement, "seed": seed}
        return panel_maps(network, images, labels, names, quick=quick, **how)

    found = [*_deleted(SDS, original, subject, panel(original, images, labels, quick))]
    if tuned is not None:
        own = panel(tuned, images, labels, quick)
        found += _deleted(IDSDS, tuned, subject, own)
        if truth is not None:
            found += _ranked(TRUTH, patch_sums(truth, PATCHES), own)
    images, labels = images[: scale.updated], labels[: scale.updated]
    maps = panel(original, images, labels, True)

    def remade(name: str, images: Tensor, labels: Tensor) -> Tensor:
        return panel(original, images, labels, True, (name,))[name]

    updated = [name for name in TRAINED_UPDATED if name in maps]  # some need a layer
    for protocol, names in ((IDS, [*maps]), (UPDATED_IDS, updated)):
        for name in names:
            values = ids(
                *(probable(original), images, labels, maps[name]),
                replacement=replacement,
                steps=scale.steps,
                explain=partial(remade, name) if protocol == UPDATED_IDS else None,
            )
            found.append(_rows(protocol, name, values, False))
    return pd.concat(found, ignore_index=True)


def _deleted(
    protocol: str, network: nn.Module, subject: Subject, maps: Mapping[str, Tensor]
) -> Iterator[pd.DataFrame]:
    asked = (network, subject.images, subject.targets)
    drops = deletion_drops(*asked, patches=PATCHES, replacement=subject.empty)
    return _ranked(protocol, drops, maps)


def _ranked(protocol: str, drops: Tensor, maps: Mapping[str, Tensor]) -> Iterator[pd.DataFrame]:
    for name, of_name in maps.items():
        found = judged_by_drops(patch_sums(of_name, PATCHES), drops)
        yield _rows(protocol, name, found.scores, found.constant_maps)


def _rows(protocol: str, method: str, score: Tensor, constant: Any) -> pd.DataFrame:
    known = {"protocol": protocol, "method": method, "image": range(len(score))}
    return pd.DataFrame({**known, "score": score.numpy(), "constant": np.asarray(constant)})


def _accuracies(pair: Pair, task: Task) -> dict[str, float]:
    """Accuracies of both versions on whole images, and means over images without each cell."""
    deleted = without_each(task.images, PATCHES, task.baseline)
    found: dict[str, float] = {}
    for version, network in pair._asdict().items():
        lacking = [accuracy_of(network, each, task.labels) for each in deleted]
        found[version] = accuracy_of(network, task.images, task.labels)
        found[f"{version}_lacking"] = float(np.mean(lacking))
    return found
