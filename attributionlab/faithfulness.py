"""The spine: environment -> method -> score -> verdict."""

import random
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from attributionlab.assess import CONTROLS
from attributionlab.catalog import load, nearest
from attributionlab.device import as_device, without_tf32
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError, AttributionWarning, refuse_if
from attributionlab.methods import METHODS, Method, Occasion, as_maps, as_method, restored
from attributionlab.metrics import Alignment, Part, alignment, normalize, part
from attributionlab.progress import track
from attributionlab.results import (
    EnvironmentResult,
    Example,
    FaithfulnessReport,
    library_versions,
)
from attributionlab.truth import Output, Truth, smoothed

__all__ = ["DEFAULT_ENVIRONMENTS", "Claim", "faithfulness_test"]

Claim = Literal["signed", "overall", "positive", "positive-smoothed"]
DEFAULT_ENVIRONMENTS = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
PIXELS_AT_ONCE = 224 * 224
"""How many pixels a method gets in one call: one image at 224, more where they are smaller."""


def faithfulness_test(
    method: Any,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = 32,
    seed: int = 0,
    gamma: float = 0.5,
    claim: Claim | None = None,
    output: Output | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    device: str | torch.device | None = None,
    show_progress: bool = False,
    command: str | None = None,
) -> FaithfulnessReport:
    """Does an attribution method find what the networks used?

    A method fails if its F1 against the truth is below gamma in any environment (AttributionLab,
    eq. 2). Passing does not make it faithful.

    Parameters
    ----------
    method : str, class, callable, array or mapping
        A built-in name, ``file.py:name``, ``module:name``, a Captum class or instance,
        ``f(model, inputs, targets, **settings)``, or attributions for ``env.batch(n, seed)``.
    environments : str, Environment, or a sequence of them, optional
        Where to test; `DEFAULT_ENVIRONMENTS` by default.
    n, seed : int
        How many images of each environment, and which.
    gamma : float
        The F1 in (0, 1] that must be reached.
    claim : {"signed", "overall", "positive", "positive-smoothed"}, optional
        What must reach it; the method's own claim, or "signed", by default. "signed" takes the lowest
        of the parts overall, positive and negative that an environment has.
    output : {"probability", "logit"}, optional
        Which output of a classifier is explained; the probability by default. A regression has one
        output, which is explained in any case.
    settings : mapping, optional
        Passed to the method.
    device : str or torch.device, optional
        Where to compute; the CPU by default.
    show_progress : bool
        Show progress on standard error.
    command : str, optional
        How to run this again, for the report.

    Returns
    -------
    FaithfulnessReport

    Raises
    ------
    AttributionLabError
        For everything that cannot be tested: unknown names, a method that raises, wrong shapes, NaN.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum-distractors", image_size=24)
    >>> al.faithfulness_test("oracle", env, n=2).verdict
    'pass'
    >>> al.faithfulness_test("non-background", env, n=2).verdict
    'fail'
    """
    contestant = as_method(method, METHODS | CONTROLS, settings)
    claim = _checked(n, gamma, claim or contestant.claim or "signed", output)
    chosen = as_environments(environments)
    outputs = [
        env.checked_output(output if env.task == "classification" else None) for env in chosen
    ]
    place, notes = as_device(device), Counter[str]()
    results = []
    with without_tf32():
        for env, explained in zip(chosen, outputs, strict=True):
            what = f"{contestant.name} on {env.name}"
            images = _Images(env.to(place), n, seed, what, show_progress)
            maps, truth = _test(contestant, env, explained, images, notes)
            maps = normalize(maps)
            scores, ceiling = _score(maps, truth, claim, env)
            decisive, score = _judge(scores, claim)
            results.append(
                EnvironmentResult(
                    name=env.name,
                    output=explained,
                    verdict="pass" if score >= gamma else "fail",
                    claim_f1=score,
                    claim_part=decisive,
                    scores={
                        which: {name: values.numpy() for name, values in each._asdict().items()}
                        for which, each in scores.items()
                    },
                    temperature=env.temperature if explained == "probability" else None,
                    digest=env.spec.digest,
                    ceiling=ceiling,
                    example=_example(images, maps, truth, scores[decisive].f1),
                )
            )
    remarks = [f"{contestant.name}: attributions of {k} images {note}" for note, k in notes.items()]
    for remark in remarks:
        warnings.warn(remark, AttributionWarning, stacklevel=2)
    return FaithfulnessReport(
        verdict="pass" if all(result.verdict == "pass" for result in results) else "fail",
        claim=claim,
        gamma=gamma,
        method=contestant.name,
        settings=contestant.settings,
        seed=seed,
        n=n,
        environments=results,
        warnings=remarks,
        command=command or f"attributionlab.faithfulness_test({contestant.name}, ...)",
        versions=library_versions(),
    )


def as_environments(
    environments: Sequence[str | Environment] | str | Environment | None,
) -> list[Environment]:
    """Names, environments or a mixture, as environments."""
    if environments is None:
        environments = DEFAULT_ENVIRONMENTS
    if isinstance(environments, str | Environment):
        environments = [environments]
    if not isinstance(environments, list | tuple) or not environments:
        raise AttributionLabError(
            f"environments is {environments!r}: name at least one, in a list, or leave it out"
        )
    return [load(each) if isinstance(each, str) else each for each in environments]


def _checked(n: int, gamma: float, claim: str, output: str | None) -> Claim:
    problems = []
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        problems.append(f"n is {n!r}: take an integer of at least 1")
    if not 0 < gamma <= 1:
        problems.append(f"gamma is {gamma!r}: take a number in (0, 1]")
    if claim not in get_args(Claim):
        problems.append(f"claim is {claim!r}: {nearest(str(claim), get_args(Claim))}")
    if output not in (None, *get_args(Output)):
        problems.append(f"output is {output!r}: {nearest(str(output), get_args(Output))}")
    refuse_if(problems)
    return cast(Claim, claim)


def _test(
    method: Method, env: Environment, output: Output, images: "_Images", notes: Counter[str]
) -> tuple[Tensor, Truth]:
    """Attributions of all images, summed over channels, and the truth about them."""
    maps, signed = [], []
    model = env.explained_model(output)
    for start, inputs, labels, patches in images:
        targets = env.targets(labels)
        truth = env.truth(inputs, targets, output)
        generator = torch.Generator().manual_seed(images.seed_of(start))
        offered: dict[str, Any] = {
            "baseline": env.baseline,
            "layers": env.layers,
            "patches": patches,
            "generator": generator,
        }
        if any(method.function is control for control in CONTROLS.values()):
            offered["truth"] = truth
        # The method gets a copy of its own, to modify as it likes.
        inputs = inputs.to(env.device)
        occasion = Occasion(env.name, model, inputs.clone(), targets.to(env.device), start, offered)
        with restored(model) as repaired, _seeded(images.seed_of(start)):
            attributions = method.attribute(occasion)
        for what in repaired:
            notes[f"came with changed {what} of the model, which have been restored"] += len(inputs)
        if not torch.equal(occasion.inputs, inputs):
            notes["came with modified inputs; the truth is about the original ones"] += len(inputs)
        who = f"{method.name} on {env.name}"
        maps.append(as_maps(attributions, inputs, who, start, notes))
        signed.append(truth.signed)
    return torch.cat(maps), Truth(torch.cat(signed))


def _example(images: "_Images", maps: Tensor, truth: Truth, f1: Tensor) -> Example:
    """The image with the median F1: neither the best nor the worst."""
    index = int(f1.argsort()[len(f1) // 2])
    image = images.env.dataset(images.n, images.seed)[index].image
    return Example(
        index,
        image.numpy(),
        images.env.max_value,
        truth.signed[index, 0].numpy(),
        maps[index, 0].numpy(),
    )


def _score(
    maps: Tensor, truth: Truth, claim: Claim, env: Environment
) -> tuple[dict[str, Alignment], float | None]:
    """Precision, recall and F1 of each image and part, and the ceiling of a smoothed truth."""
    scores = {
        which: alignment(part(maps, which), getattr(truth, which)) for which in get_args(Part)
    }
    if claim != "positive-smoothed":
        return scores, None
    best = smoothed(truth.positive, env.smoothing_sigma)
    scores[claim] = alignment(part(maps, "positive"), best)
    return scores, float(alignment(best, best).f1.nanmean())


def _judge(scores: dict[str, Alignment], claim: Claim) -> tuple[str, float]:
    """The part that decides and its mean F1: for "signed" the lowest of those that apply."""
    f1 = {which: float(score.f1.nanmean()) for which, score in scores.items()}
    candidates = get_args(Part) if claim == "signed" else (claim,)
    applicable = [which for which in candidates if not np.isnan(f1[which])]
    decisive = min(applicable, key=f1.__getitem__)
    return decisive, f1[decisive]


@dataclass(frozen=True)
class _Images:
    """The images of a test in batches: start, images, labels, patches."""

    env: Environment
    n: int
    seed: int
    what: str
    show_progress: bool

    def __iter__(self) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
        size = max(1, PIXELS_AT_ONCE // self.env.recipe.image_size**2)
        # A loader without a generator of its own draws from the global one.
        dataset, own = self.env.dataset(self.n, self.seed), torch.Generator()
        loader = DataLoader(dataset, batch_size=size, generator=own)
        batches = track(loader, len(loader), self.what, self.show_progress)
        for index, (images, labels, patches) in enumerate(batches):
            yield (
                index * size,
                images.contiguous(memory_format=torch.channels_last),
                labels,
                patches,
            )

    def seed_of(self, start: int) -> int:
        """A seed for what is random in a method, different for each batch."""
        return int(np.random.SeedSequence([self.seed, start]).generate_state(1)[0])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Global random states set from the run's seed inside, and as they were outside."""
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
