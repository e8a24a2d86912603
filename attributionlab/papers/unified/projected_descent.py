"""Images changed so slightly, and so well, that a given network classifies them rightly."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.metrics.performance import refuse_training_mode
from attributionlab.references import in_one_line, said
from attributionlab.validation import (
    checked_images,
    checked_outputs,
    checked_targets,
    integer_problem,
    number_problem,
    shown,
)

EPSILON, ALPHA, STEPS = 0.3, 0.03, 30
"""The paper's settings, in units of whatever its networks take."""


def enhanced(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    labels: Int[Tensor, " batch"],
    *,
    epsilon: float = EPSILON,
    alpha: float = ALPHA,
    steps: int = STEPS,
    low: float | None = None,
    high: float | None = None,
    start: torch.Generator | None = None,
    batch_size: int = 64,
) -> Float[Tensor, "batch channels height width"]:
    r"""Step down the loss of the label within a box around each image.

    .. math::
        x^{s+1} = \Pi\big(x^s - \alpha \, sgn \nabla_x L(x^s, y)\big)

    The loss L is the cross-entropy of the softmax of the model's outputs, and Pi cuts off what leaves
    the box [x - epsilon, x + epsilon] and, where they are given, low and high. It is the attack of
    Madry et al. (2018) with the other sign. The sign of 0 is 0: a value without a gradient stays.

    What the paper leaves open is a setting here: the scale on which epsilon is measured (that of
    `images`), whether values are cut to a valid range (`low`, `high`; by default they are not) and
    whether the first step starts from a random place in the box (`start`; by default from the image).

    The model, in eval mode, returns logits (B, K) and is not changed; epsilon and alpha are in units of
    the images, and epsilon = 0 returns them as they are. Refused are settings out of range, images
    that are not finite, outside of their range or not what the model takes, labels that it does not
    have, and a loss that is not finite or that no gradient reaches the images from.

    References
    ----------
    Wang and Wang (2022): A unified study of machine learning explanation evaluation metrics, section 5
    and B.1. Madry, Makelov, Schmidt, Tsipras and Vladu (2018): Towards deep learning models resistant
    to adversarial attacks. ICLR.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.unified.projected_descent import enhanced
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 2, bias=False)).eval()
    >>> with torch.no_grad():
    ...     _ = model[1].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> image = torch.tensor([[[[0.5, 0.25]]]])
    >>> enhanced(model, image, torch.tensor([1]), epsilon=0.25, alpha=0.125, steps=9)
    tensor([[[[0.2500, 0.5000]]]])
    """
    checked_images(images)
    _refuse_unfit(model, images, start)
    refuse_training_mode(model, "the model")
    problems = [
        *number_problem("epsilon", epsilon, least=0),
        *number_problem("alpha", alpha, above=0),
        *integer_problem("steps", steps, 1),
        *integer_problem("batch_size", batch_size, 1),
    ]
    for name, end in (("low", low), ("high", high)):
        problems += [] if end is None else number_problem(name, end)
    refuse_if(problems)
    _refuse_outside(images, low, high)
    try:
        checked_targets(labels, len(images))
    except AttributionLabError as error:
        raise AttributionLabError(str(error).replace("targets", "labels")) from None
    lowest = -torch.inf if low is None else low
    highest = torch.inf if high is None else high
    parts = []
    for chosen, wanted in zip(
        torch.split(images, batch_size), torch.split(labels, batch_size), strict=True
    ):
        below, above = (
            (chosen.detach() + reach).clamp(min=lowest, max=highest)
            for reach in (-epsilon, epsilon)
        )
        current = chosen.detach()
        if start is not None:
            drawn = torch.rand(chosen.shape, generator=start, dtype=chosen.dtype)
            current = torch.lerp(below, above, drawn.to(chosen.device))
        for _ in range(steps):
            moved = current - alpha * _gradient(model, current, wanted).sign()
            current = torch.minimum(torch.maximum(moved, below), above)
        parts.append(current)
    return torch.cat(parts)


def _gradient(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of the summed cross-entropy, so that each image has its own."""
    leaf = images.clone().requires_grad_()
    with torch.enable_grad():
        shape = " x ".join(str(length) for length in leaf.shape)
        with in_one_line(
            lambda error: (
                f"the model raised {said(error)} on images {shape} of {leaf.dtype}: pass images of a "
                "size, channels and dtype that it takes"
            )
        ):
            answer = model(leaf)
        outputs = checked_outputs(answer, len(leaf))
        lowest, highest = int(labels.min()), int(labels.max())
        if lowest < 0 or highest >= outputs.shape[1]:
            raise AttributionLabError(
                f"a label is {lowest if lowest < 0 else highest}: the model has outputs for 0 to "
                f"{outputs.shape[1] - 1} alone"
            )
        loss = nn.functional.cross_entropy(outputs, labels.long(), reduction="sum")
        if not loss.requires_grad:
            raise AttributionLabError(
                "the model's output does not depend on the images by any gradient: pass a network that "
                "computes with its input and outside of torch.no_grad()"
            )
        if not loss.isfinite():
            raise AttributionLabError(
                f"the loss is {loss.item()}: pass a model that returns finite logits"
            )
        (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient


def _refuse_unfit(model: object, images: Tensor, start: object) -> None:
    """Refuse what would be blamed on the model, or fail in many lines."""
    problems = []
    if not callable(model):
        problems.append(f"model is {model!r}: pass a torch.nn.Module that returns logits")
    if not images.is_floating_point():
        problems.append(f"images are {shown(images)}: pass floating-point numbers, images.float()")
    elif not images.isfinite().all():
        value = float(images[~images.isfinite()][0])
        problems.append(f"images have the value {value}: pass finite numbers")
    if start is not None and not isinstance(start, torch.Generator):
        problems.append(
            f"start is {start!r}: pass a torch.Generator, or None to start at the image"
        )
    refuse_if(problems)


def _refuse_outside(images: Tensor, low: float | None, high: float | None) -> None:
    """Refuse images outside of their valid range would not stay what they are with epsilon = 0."""
    least, most = float(images.min()), float(images.max())
    if (low is not None and least < low) or (high is not None and most > high):
        raise AttributionLabError(
            f"images lie in {least:g} to {most:g}, low is {low} and high is {high}: pass the range "
            "that images have, or neither"
        )
