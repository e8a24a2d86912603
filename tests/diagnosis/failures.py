"""Methods broken on purpose, as maps, and the evidence that a test would collect about maps."""

from dataclasses import dataclass
from typing import Any

import torch
from scipy import ndimage
from torch import Tensor

from attributionlab.metrics import alignment, magnitudes, normalize
from attributionlab.verdicts import pixel_kinds
from attributionlab.verdicts.diagnosis.evidence import Evidence
from attributionlab.verdicts.diagnosis.likeness import Likeness, look_alikes
from attributionlab.verdicts.diagnosis.shares import missing_shares
from attributionlab.worlds import Environment
from attributionlab.worlds.truth import Truth, smoothed


@dataclass(frozen=True)
class Case:
    """A few images of an environment with all that is known about them."""

    env: Environment
    images: Tensor
    patches: Tensor
    truth: Truth

    @property
    def kinds(self) -> Tensor:
        classes = self.env.counting.classes_of(self.images)
        return pixel_kinds(self.images, self.patches, classes, self.env.baseline)


def case_of(env: Environment, n: int = 8, output: str | None = None) -> Case:
    samples = [env.dataset(n)[index] for index in range(n)]
    images = torch.stack([sample.image for sample in samples])
    labels = torch.stack([sample.label for sample in samples])
    patches = torch.stack([sample.patches for sample in samples])
    return Case(env, images, patches, env.truth(images, env.targets(labels), output))


def targets_of(case: Case) -> Tensor:
    """What is explained in each image."""
    samples = case.env.dataset(len(case.images))
    return case.env.targets(torch.stack([samples[i].label for i in range(len(case.images))]))


def truths_of(case: Case) -> list[Tensor]:
    """The signed truth of each class; none where there is one output."""
    if case.env.task == "regression":
        return []
    output = "probability" if case.truth.negative.any() else "logit"
    return [
        case.env.truth(case.images, torch.full((len(case.images),), index), output).signed
        for index in range(len(case.env.counting.values))
    ]


def likeness_of(case: Case, maps: Tensor, claim: str = "signed") -> Likeness:
    claimed = (
        smoothed(case.truth.positive, case.env.smoothing_sigma)
        if claim == "positive-smoothed"
        else None
    )
    return look_alikes(
        normalize(maps),
        case.truth.signed,
        case.images,
        case.patches,
        case.env.baseline,
        claim,
        claimed,
        others=truths_of(case),
    )


def evidence_of(case: Case, maps: Tensor, claim: str = "signed", **known: Any) -> Evidence:
    """What a test would know about these maps."""
    maps = normalize(maps)
    parts = ("overall", "positive", "negative") if claim == "signed" else (claim,)
    f1 = {
        part: float(alignment(magnitudes(maps, part), getattr(case.truth, part)).f1.nanmean())
        for part in parts
    }
    f1 = {part: value for part, value in f1.items() if value == value}
    part = min(f1, key=f1.__getitem__)
    shares = missing_shares(maps, case.truth.signed, case.kinds, part)
    facts = {
        "environment": case.env.name,
        "method": "mine",
        "claim": claim,
        "part": part,
        "missing": 1 - f1[part],
        "shares": {name: float(share.nanmean()) for name, share in shares.items()},
        "likeness": likeness_of(case, maps, claim),
        "sawtooth": case.env.counting.modulus is not None,
        "unseen_colors_disturb": bool(case.env.network.effective.get("redundant_strength")),
        "images": len(maps),
        "all_zero": float((maps == 0).flatten(1).all(1).double().mean()),
        "positive_only": not (maps < 0).any(),
    }
    return Evidence(**(facts | known))


# Maps broken on purpose


def flipped(case: Case) -> Tensor:
    """The truth, with its sign wrong in three of every four images."""
    signs = torch.tensor([1.0, -1.0, -1.0, -1.0]).repeat(len(case.images))[: len(case.images)]
    return case.truth.signed * signs[:, None, None, None]


def shifted(case: Case) -> Tensor:
    """The truth three pixels further down and to the right."""
    return torch.roll(case.truth.signed.float(), (3, 3), (2, 3))


def blurred(case: Case, sigma: float = 12) -> Tensor:
    """The truth under a Gaussian."""
    maps = [
        ndimage.gaussian_filter(each, sigma) for each in case.truth.signed[:, 0].double().numpy()
    ]
    return torch.stack([torch.from_numpy(each) for each in maps])[:, None]


def foreground(case: Case) -> Tensor:
    """All pixels that are not background."""
    return (case.images != case.env.baseline).any(1, keepdim=True).float()


def noise(case: Case) -> Tensor:
    """Uniform on [0, 1)."""
    return torch.rand(case.truth.signed.shape, generator=torch.Generator().manual_seed(0))


def right(case: Case) -> Tensor:
    """The truth."""
    return case.truth.signed.float()
