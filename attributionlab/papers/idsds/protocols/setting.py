"""One image of an environment with the networks that see it, and the maps that are judged."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from attributionlab.diagnosis.moves import blurred
from attributionlab.diagnosis.shares import pixel_kinds
from attributionlab.environment import Environment
from attributionlab.environment.catalog import load
from attributionlab.environment.dataset import Sample
from attributionlab.metric_trials.graded import graded_attributions
from attributionlab.metrics import deletion_drops
from attributionlab.papers.idsds.maps import PANEL, panel_maps
from attributionlab.papers.idsds.protocols.names import IDSDS, SDS
from attributionlab.truth import Output

Images = Float[Tensor, "batch channels height width"]

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
