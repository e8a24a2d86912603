r"""Ensembles: any method's maps of noisy samples of an image, reduced to one map.

.. math:: a_s = A(x + \sigma h e_s), \qquad e_s \sim N(0, 1) \text{ for each value}, \qquad s = 1 ... S

SmoothGrad is the mean of the :math:`a_s`, SmoothGrad-squared the mean of their squares, VarGrad their
variance, each of them value by value.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.base import (
    Count,
    NotNegative,
    Positive,
    checked_arguments,
    refuse_if,
    users_default,
)
from attributionlab.methods.baselines import as_baselines
from attributionlab.methods.batching import drawn_in_memory
from attributionlab.methods.declaration import (
    SHOW_PROGRESS,
    checked,
    declared,
    declares,
    kebab,
    name_of,
    parameters_of,
    presented,
    stored,
)
from attributionlab.methods.defaults import seeded, value_range
from attributionlab.methods.notices import Notice, collect_notices, notify
from attributionlab.methods.suffixes import SUFFIXES

NOISE, SAMPLES = 0.15, 20
SAME = 2.0**-18
"""Share of a map's largest value by which equal images' maps may differ: a matrix product rounds the
rows of a batch differently, by some units of float32's 2^-24."""


def _variance(maps: Float[Tensor, "samples channels height width"]) -> Tensor:
    # Differences from the first sample: of equal maps exactly 0, which their mean need not be.
    return (maps - maps[0]).var(0, correction=0)


REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "smoothgrad": lambda maps: maps.mean(0),
    "smoothgrad_squared": lambda maps: maps.square().mean(0),
    "vargrad": _variance,
}
"""What each ensemble makes of the maps of an image's samples: (samples, C, H, W) -> (C, H, W)."""


@checked_arguments
def maps_of_samples(
    method: Callable[..., Tensor],
    model: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
    /,  # a setting may be called "method"
    *,
    highest: Positive,
    generator: torch.Generator,
    n_samples: Count = SAMPLES,
    noise: NotNegative = NOISE,
    **settings: Any,
) -> Iterator[Float[Tensor, "samples channels height width"]]:
    """A method's maps of noisy samples, image by image: what all ensembles of it are made from.

    Settings are those of `smoothgrad`. Refuses settings out of range, inputs that are no batch of
    floating-point images, and targets that are not one integer for each; and, as maps are taken, what
    the method refuses.
    """
    refuse_if(noise_problems(noise, highest, inputs.dtype), f"ensemble of {kebab(method)}")
    given = {"highest": highest, "generator": generator}
    # A partial's settings are settings: of its baselines, too, each image takes its own.
    bound = method.keywords if isinstance(method, partial) else {}
    takes = parameters_of(method)
    passed: dict[str, Any] = {key: given[key] for key in given if key in takes} | bound | settings
    per_image = "baselines" in passed and not declared(method, "distribution")
    starts = as_baselines(passed["baselines"], inputs) if per_image else None

    def of_each_image() -> Iterator[Tensor]:
        who = f"ensemble of {kebab(method)}"
        for index, (image, target) in enumerate(zip(inputs, targets, strict=True)):
            if starts is not None:
                passed["baselines"] = starts[index]
            samples = noisy_samples(who, image, generator, n_samples, noise * highest)
            with users_default(inputs.device):
                maps = method(model, samples, target.expand(n_samples), **passed)
            yield maps

    return of_each_image()


def noise_problems(noise: float, highest: float, dtype: torch.dtype) -> list[str]:
    """What is wrong with a standard deviation in units of a value range, for images of a type."""
    if noise <= torch.finfo(dtype).max / highest:
        return []
    kind = str(dtype).removeprefix("torch.")
    return [
        f"noise is {noise!r}: times the value range of {highest:g} it is beyond {kind}; take less"
    ]


def noisy_samples(
    who: str,
    image: Float[Tensor, "channels height width"],
    generator: torch.Generator,
    n_samples: int,
    deviation: float,
) -> Float[Tensor, "samples channels height width"]:
    """An image with normal noise of this standard deviation on each value, `n_samples` times; refused
    where they do not fit in memory.
    """
    # Samples and maps of all, and what reduces these in float64.
    with drawn_in_memory(who, "n_samples", n_samples, 6 * image.nbytes, image.device):
        size = (n_samples, *image.shape)
        draws = torch.randn(size, generator=generator, device=generator.device).to(image)
        # Convolutions of this layout are up to three times faster on a CPU.
        return (image + deviation * draws).contiguous(memory_format=torch.channels_last)


def all_equal(samples: Float[Tensor, "samples ..."]) -> bool:
    """Whether values of samples differ by rounding only, and are not all 0."""
    size = samples.abs().max()
    return bool(size > 0 and (samples - samples[0]).abs().max() <= SAME * size)


def smoothgrad(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    r"""SmoothGrad of a method: the mean of its maps over noisy samples.

    .. math:: a = \frac{1}{S} \sum_s a_s

    Source: Smilkov et al., 2017. Claims what the method claims.

    Parameters
    ----------
    method : callable
        ``f(model, inputs, targets, **settings)``. Its settings apply to all samples of all images; only
        `baselines` may differ between images, unless they are a distribution (`declares`).

    Returns
    -------
    callable
        ``f(model, inputs, targets, *, highest=None, generator=None, n_samples=20, noise=0.15,
        **settings)`` with the settings of the method, where

        - `highest` (float) is the length of the inputs' value range, provided by an environment; by
          default it is inferred from the images: 1 for [0, 1], 255 for integers up to 255; otherwise it
          is required;
        - `generator` (torch.Generator) draws the noise, on its own device, image after image; by
          default one with seed 0;
        - `n_samples` (int) is S. The image itself is not one of them. A method's own setting of this
          name, or named `noise`, keeps its default: bind another value with `functools.partial`;
        - `noise` (float) is the standard deviation of the noise in units of `highest` (the noise level
          of Smilkov et al., who recommend 0.1 to 0.2). Noisy values may leave the value range.

        It costs `n_samples` times as much as the method, repeats the method's warnings about the
        samples, and warns if all maps of an image's samples are equal. Reductions are computed in
        float64 and returned in the inputs' type; in float64 if a value is beyond that type's range or,
        unless 0, below its smallest normal number. Errors are those of the method, and
        `AttributionLabError` as in `maps_of_samples`.

    Raises
    ------
    AttributionLabError
        If the method cannot be called with settings by name.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.methods.ensembles import smoothgrad
    >>> from attributionlab.methods.gradients import input_x_gradient
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> image, target = torch.ones(1, 1, 2, 2), torch.zeros(1, dtype=torch.int64)
    >>> smooth = smoothgrad(input_x_gradient)
    >>> smooth(model, image, target).shape
    torch.Size([1, 1, 2, 2])
    """
    return _ensemble(method, "smoothgrad", declared(method, "claim"))


def smoothgrad_squared(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    r"""SmoothGrad-squared of a method: the mean of its squared maps over noisy samples.

    .. math:: a = \frac{1}{S} \sum_s a_s^2

    Source: Hooker et al., 2019. A square has no sign: claims the overall truth. Parameters and result
    are those of `smoothgrad`; the attributions are in the method's units squared.
    """
    return _ensemble(method, "smoothgrad_squared", "overall")


def vargrad(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    r"""VarGrad of a method: the variance of its maps over noisy samples.

    .. math:: a = \frac{1}{S} \sum_s (a_s - \bar a)^2, \qquad \bar a = \frac{1}{S} \sum_s a_s

    Source: Adebayo et al., 2018; divided by S, not by S - 1, as in Captum, so that it is
    SmoothGrad-squared minus the square of SmoothGrad. A variance has no sign: claims the overall truth.
    Parameters and result are those of `smoothgrad`; the attributions are in the method's units squared.
    """
    return _ensemble(method, "vargrad", "overall")


def _ensemble(method: Callable[..., Tensor], name: str, claim: str | None) -> Callable[..., Tensor]:
    def ensemble(
        model: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        *,
        highest: Positive | None = None,
        generator: torch.Generator | None = None,
        n_samples: Count = SAMPLES,
        noise: NotNegative = NOISE,
        **settings: Any,
    ) -> Tensor:
        highest = value_range(highest, inputs, kebab(ensemble))
        settings |= {"highest": highest, "generator": seeded(generator)}
        settings |= {"n_samples": n_samples, "noise": noise}
        samples = maps_of_samples(method, model, inputs, targets, **settings)
        notices, maps = _OfSamples(), []
        for _ in range(len(inputs)):
            with collect_notices() as collected:
                of_samples = next(samples)
            notices.note(collected, of_samples)
            maps.append(REDUCTIONS[name](of_samples.double()))
        notices.notify(f"{kebab(method)} (noise {noise:g}, n_samples {n_samples})")
        return stored(torch.stack(maps), inputs.dtype)

    own = inspect.signature(ensemble).parameters
    parameters = dict(parameters_of(method)) | {key: own[key] for key in own if key != "settings"}
    parameters.pop(SHOW_PROGRESS.name, None)
    doc = (
        f"{SUFFIXES[name.replace('_', '-')].format(kebab(method))}\n\n"
        f"Takes the settings of `{name_of(method)}` and those of `{name}`."
    )
    presented(ensemble, f"{name_of(method)}_{name}", doc, __name__, parameters.values())
    kept = ("output", "resolution", "distribution", "modules", "images", "runs")
    return checked(declares(claim=claim, **{key: declared(method, key) for key in kept})(ensemble))


class _OfSamples:
    """Notices of samples, brought together by image."""

    def __init__(self) -> None:
        self.images, self.worst, self.equal = Counter[tuple[str, Any]](), dict[str, float](), 0

    def note(self, collected: list[Notice], maps: Tensor) -> None:
        """Take down what the samples of one image gave."""
        self.images.update(
            dict.fromkeys(((each.text, each.kind) for each in collected if each.images), 1)
        )
        for each in collected:
            self.worst[each.text] = max(self.worst.get(each.text, 0.0), each.worst)
        self.equal += all_equal(maps)

    def notify(self, method: str) -> None:
        """Hand them on, as of images and without `gaps`: an ensemble need not sum to anything."""
        for (text, kind), images in self.images.items():
            whole = f"are made from maps of noisy samples, some of which {text}"
            notify(Notice(whole, images, worst=self.worst[text], kind=kind))
        text = (
            f"are made from identical maps of all samples of {method}: a mean is then that map, a "
            "variance is 0 or rounding; take more noise and samples"
        )
        notify(Notice(text, self.equal))
