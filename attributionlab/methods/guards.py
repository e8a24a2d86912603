r"""Guards: what makes an attribution silently wrong, found and reported.

DeepLift hooks modules, as Captum's Guided Backpropagation and Deconvolution do; an activation that is
called as a function passes them by. Rectifiers other than ReLU have no rule in the latter.
Contributions need not sum to what they account for. A saturated softmax leaves no gradient, and a
gradient on a kink is a convention. A mean of few samples is partly noise. A network may draw random
numbers, or mix the images of a batch. Each guard hands its `Notice` to `notify`; `guarded` has those of
every method.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, borrowed, dependence, own_arithmetic, refuse_if
from attributionlab.methods.batching import out_of_memory, over_batches
from attributionlab.methods.graph import NONLINEAR, nonlinear_steps, operation, step_of, steps_of
from attributionlab.methods.notices import Kind, Notice, collect_notices, collecting, notify
from attributionlab.methods.outputs import same_outputs, target_outputs

STATED_SHARE = 0.05
"""Share of the output change that contributions may miss without mention."""

QUADRATURE_REMEDY = "take a larger n_steps, or the exact integral of integrated-gradients-exact"
"""The remedy for integrated gradients that miss a part of the output change."""

KINK_SHARE = 0.01
"""Share of ReLU units on a kink without mention; a network with random weights has none there."""

CAPTUM_RULES = (
    *(nn.ReLU, nn.ELU, nn.LeakyReLU, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softmax),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
)
"""The modules that DeepLift of captum 0.7 to 0.9 hooks; one of a subclass it passes by."""

OTHER_RECTIFIERS: Mapping[str, str] = {
    "Abs": "abs",
    "Celu": "CELU",
    "CopySlices": "operation in place on a view",
    "Elu": "ELU",
    "Gelu": "GELU",
    "Hardswish": "Hardswish",
    "Hardtanh": "Hardtanh",
    "LeakyRelu": "LeakyReLU",
    "Mish": "Mish",
    "PreluKernel": "PReLU",
    "RreluWithNoise": "RReLU",
    "Silu": "SiLU",
    "Softplus": "Softplus",
    "Threshold": "Threshold",
    "Where": "where",
    **dict.fromkeys(("Clamp", "ClampMin", "ClampMax"), "clamp"),
    **dict.fromkeys(("IndexPut", "MaskedFill"), "masked_fill or assignment"),
    **dict.fromkeys(("Fmax", "Fmin", "Maximum", "Minimum"), "maximum or minimum"),
}
"""Operations that may cut off values as a ReLU does and are none, as the autograd graph and as users
call them. What works in place on a view may be any."""

Backpropagation = Literal["DeepLift", "Deconvolution", "GuidedBackprop"]


_checking = ContextVar("_checking", default=False)


@contextmanager
def checking() -> Iterator[None]:
    """Inside, the network runs for checks of maps that are there, and not for a method."""
    token = _checking.set(True)
    try:
        yield
    finally:
        _checking.reset(token)


def is_checking() -> bool:
    """Whether what runs now is inside `checking`."""
    return _checking.get()


def guarded(
    call: Callable[[], Tensor], who: str, model: nn.Module, inputs: Tensor, targets: Tensor
) -> Tensor:
    """Attributions from a network that is borrowed for the call, with the guards of every method.

    They look at calls of a user's own. A test, which collects notices, looks at all maps itself, and
    its networks are known to return finite numbers and to keep images apart.

    Raises `AttributionLabError` where an explained output or an attribution is no finite number.
    """
    with borrowed(model) as passes:
        if collecting():
            return call()
        with collect_notices() as notices:
            try:
                maps = call()
            except Exception as error:
                broken = [] if passes.finite else _broken_outputs(model, inputs, targets, who)
                if not broken:
                    raise
                raise AttributionLabError(f"{who}: {broken[0]}") from error
            with own_arithmetic():
                if not passes.finite:
                    refuse_if(_broken_outputs(model, inputs, targets, who), who)
                if most := passes.largest:
                    _of_single_images(dependence(model, inputs), most > 1, len(inputs))
                finite_and_not_empty(model, inputs, targets, maps, who, notices)
    for notice in notices:
        notify(notice)
    return maps


def _broken_outputs(model: nn.Module, inputs: Tensor, targets: Tensor, who: str) -> list[str]:
    """Which explained output is no finite number. Others may be none: logits of masked classes, say."""

    @torch.no_grad()
    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        return (target_outputs(model(images), classes),)

    (explained,) = over_batches(run, (inputs, targets), who)
    for image, value in enumerate(explained.tolist()):
        if not math.isfinite(value):
            return [
                f"the model's output {int(targets[image])} of image {image} is {value}: fix the model, "
                "or leave such images out"
            ]
    return []


def _of_single_images(found: str, batches: bool, images: int) -> None:
    """Report a network whose output for an image depends on more than the image."""
    if found == "unseeded":
        text = (
            "come from a random network: two passes of the same image differ (for example by "
            "F.dropout(x) without training=self.training); make it deterministic in eval mode"
        )
        notify(Notice(text, images, kind="unseeded"))
    if found == "batch-mixing" and batches:
        text = (
            "rest on passes in which the output of an image depends on the others in its batch (for "
            "example after a BatchNorm without running statistics): let the network treat each alone"
        )
        notify(Notice(text, images, kind="batch-mixing"))


def finite_and_not_empty(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    maps: Tensor,
    who: str,
    notices: Sequence[Notice],
) -> None:
    """Refuse maps with NaN or infinity; report those that are zero everywhere, unless a notice does."""
    sizes = maps.detach().flatten(1).abs().amax(1)
    broken = (~sizes.isfinite()).nonzero().flatten().tolist()
    if broken:
        problem = (
            f"attributions of image {broken[0]} are {float(sizes[broken[0]])} somewhere, though the "
            "explained outputs are finite: look for an infinite gradient (a root or logarithm at 0), "
            "or compute in float64"
        )
        refuse_if([problem], who)
    told = sum(each.images for each in notices if each.kind == "zeros")
    empty = int((sizes == 0).sum()) - told
    if empty > 0:
        try:
            empty -= saturation(model, inputs, targets, maps)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        notify(Notice("are zero everywhere", empty))


class Activations:
    """What the last forward pass of a network did, seen from its modules and its autograd graph.

    `functional` counts activations that no module made which the method hooks, `hooked` calls of
    modules that it hooks, and `reused` those of them beyond the first of each module; `others` counts
    `other_rectifiers`.
    """

    def __init__(self) -> None:
        self.functional = self.hooked = self.reused = 0
        self.others = Counter[str]()


@contextmanager
def watched(model: nn.Module, method: Backpropagation) -> Iterator[Activations]:
    """Watch forward passes inside, of inputs that require a gradient, for what the method's hooks see.

    Costs a few hooks and a walk over the graph.
    """
    hooked, name = _hooked_by(method)
    found = Activations()
    calls: list[tuple[nn.Module, Any]] = []

    def begin(*_: Any) -> None:
        calls.clear()

    def note(module: nn.Module, _: Any, output: Any) -> None:
        calls.append((module, step_of(output) if isinstance(output, Tensor) else None))

    def finish(_: nn.Module, __: Any, output: Tensor) -> None:
        by_module = {node for _, node in calls}
        steps = nonlinear_steps(output, name)
        found.functional = sum(node not in by_module for node in steps)
        found.others = other_rectifiers(output)
        found.hooked = len(calls)
        found.reused = len(calls) - len({module for module, _ in calls})

    handles = [model.register_forward_pre_hook(begin), model.register_forward_hook(finish)]
    handles += [module.register_forward_hook(note) for module in model.modules() if hooked(module)]
    try:
        yield found
    finally:
        calls.clear()
        for handle in handles:
            handle.remove()


def _hooked_by(method: Backpropagation) -> tuple[Callable[[nn.Module], bool], tuple[str, ...]]:
    """Which modules a method hooks, and which operations it is meant to catch so."""
    if method != "DeepLift":
        return (lambda module: isinstance(module, nn.ReLU)), ("Relu",)
    return (lambda module: type(module) in CAPTUM_RULES), NONLINEAR


def other_rectifiers(output: Tensor) -> Counter[str]:
    """How many `OTHER_RECTIFIERS` an output came through, by name; a network's own autograd functions,
    of which nothing is known, are counted too.
    """
    found = Counter[str]()
    for step in steps_of(output):
        name = operation(step)
        if name == "Hardtanh" and (step._saved_min_val, step._saved_max_val) == (0, 6):
            found["ReLU6"] += 1
        elif name in OTHER_RECTIFIERS:
            found[OTHER_RECTIFIERS[name]] += 1
        elif (
            isinstance(step, torch.autograd.function.BackwardCFunction)
            and name != "BackwardHookFunction"  # torch's, beside a user's hook: it changes nothing
        ):
            found[f"autograd function {name}"] += 1
    return found


def hidden_activations(found: Activations, method: Backpropagation, images: int) -> None:
    """Report activations that hooks miss (reuse harms Captum's DeepLift alone), and for methods with a
    rule for ReLU alone what `unruled` does.
    """
    reused = found.reused if method == "DeepLift" else 0
    counts = {"functional (or unsupported)": found.functional, "reused": reused}
    counted = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    text = (
        f"come from a network with {counted or 'no other'} activations, which {method} misses because "
        "it hooks modules: use a separate nn.ReLU for each"
    )
    notify(Notice(text, images if found.functional or reused else 0, kind="hooks"))
    if method != "DeepLift":
        unruled(found.others, found.functional + found.hooked, method, images)


def unruled(others: Counter[str], relus: int, method: Backpropagation, images: int) -> None:
    """Report rectifiers that a rule for ReLU leaves as they are, and networks without a ReLU."""
    listed = ", ".join(f"{count} {name}" for name, count in sorted(others.items()))
    but = f" but {listed}" if others else ""
    rest = f"and {method} changes nothing else"
    text = f"rest on the plain gradient: the network has no ReLU{but}, {rest}"
    notify(Notice(text, 0 if relus else images))
    text = (
        f"rest on the plain gradient of {listed}, because {method} has a rule for ReLU only: take "
        "another method, or a network whose rectifiers are all nn.ReLU"
    )
    notify(Notice(text, images if relus and others else 0))


def completeness(
    attributions: Float[Tensor, "batch ..."],
    output: Float[Tensor, " batch"],
    reference: Float[Tensor, " batch"] | None,
    remedy: str,
    kind: Kind = "completeness",
) -> None:
    r"""Report by how much attributions miss the change of the output that they should sum to.

    .. math:: gap = |\sum_j a_j - (f(x) - f(b))| \, / \, |f(x) - f(b)|

    Where the output does not change, `shares_of_change` has another scale: the gap is 0 if the
    attributions cancel. `output` is f(x), and `reference` f(b), or None for a method that distributes
    f(x) itself; `remedy` names cause and remedy, and `kind` is "quadrature" where that is the cause.
    """
    before = torch.zeros_like(output) if reference is None else reference
    total = attributions.detach().flatten(1).double().sum(1)
    residual = total - (output.detach().double() - before.detach().double())
    gaps = shares_of_change(residual, attributions, output, before)
    whole = "the output" if reference is None else "the change of the output"
    text = f"do not sum to {whole} but miss up to {{worst}} of it: {remedy}"
    missed = int((~(gaps <= STATED_SHARE)).sum())  # NaN is missed too
    notify(Notice(text, missed, gaps.tolist(), float(gaps.max()), kind=kind))


def shares_of_change(
    amounts: Float[Tensor, " batch"],
    attributions: Float[Tensor, "batch ..."],
    output: Float[Tensor, " batch"],
    reference: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """What amounts, such as errors, are beside the change of the output that attributions explain.

    Where the output does not change by more than rounding (`same_outputs`) they are relative to the
    largest of the sum of |a|, |f(x)| and |f(b)| instead. At least 0, where 0 of nothing is 0; infinite
    where an amount is, or where it stands against attributions and outputs of exactly 0.
    """
    amounts, after, before = (each.detach().double() for each in (amounts, output, reference))
    sizes = attributions.detach().flatten(1).double().abs().sum(1)
    largest = torch.stack([sizes, after.abs(), before.abs()]).amax(0)
    scale = torch.where(same_outputs(output, reference), largest, (after - before).abs())
    return torch.where(amounts == 0, 0.0, amounts.abs() / scale)


def deep_lift_remedy(model: nn.Module, other: str) -> str:
    """Why DeepLift's contributions may miss a part of the output change, `other` if for no softmax."""
    if any(isinstance(module, nn.Softmax) for module in model.modules()):
        return (
            "Captum's rule for a softmax subtracts the mean of the contributions; explain the logit "
            "(explain='logit') where sizes matter"
        )
    return other


def lrp_remedy(model: nn.Module, other: str) -> str:
    """Why relevance may miss a part of the output, `other` in networks without biases."""
    shifts = [
        shift
        for module in model.modules()
        for shift in (getattr(module, "bias", None), getattr(module, "running_mean", None))
    ]
    if any(isinstance(shift, Tensor) and bool(shift.any()) for shift in shifts):
        return "the layers' biases absorb relevance, as LRP is defined"
    return other


def saturation(
    model: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
    maps: Float[Tensor, "batch ..."],
) -> int:
    """Report maps that are zero everywhere because the softmax they look through is saturated.

    A softmax is saturated where the probability explained is 0 or 1 to the last bit, or its gradient
    with respect to all of its inputs underflows. A model that does not end in an `nn.Softmax` cannot be
    saturated. One forward pass of the images whose map is zero.

    Returns how many such images there are.
    """
    empty = (maps == 0).flatten(1).all(1).to(inputs.device)
    if not empty.any():
        return 0
    seen: list[tuple[Tensor, Tensor]] = []
    handles = [
        module.register_forward_hook(lambda _, given, output: seen.append((given[0], output)))
        for module in model.modules()
        if isinstance(module, nn.Softmax)
    ]
    if not handles:
        return 0
    try:
        with torch.no_grad():
            probabilities = model(inputs[empty])
    finally:
        for handle in handles:
            handle.remove()
    if not seen or seen[-1][1] is not probabilities:
        return 0
    chosen = torch.nn.functional.one_hot(targets[empty], probabilities.shape[1])
    explained_one = (probabilities * chosen).sum(1, keepdim=True)
    gradient = explained_one * (chosen - probabilities)
    certain = ((explained_one == 0) | (explained_one == 1))[:, 0]
    temperature = _temperature(model)
    known = "" if temperature is None else f" (now {temperature:g})"
    text = (
        "are zero because the softmax is saturated at float32 precision: raise the "
        f"environment's temperature{known}, or explain the logit (explain='logit')"
    )
    saturated = int((certain | (gradient == 0).all(1)).sum())
    notify(Notice(text, saturated, kind="saturation"))
    return saturated


def _temperature(model: nn.Module) -> float | None:
    """1 / w of the bias-free diagonal layer in front of a softmax, where there is one."""
    modules = list(model.children())
    scale = modules[-2] if len(modules) > 1 and isinstance(modules[-1], nn.Softmax) else None
    if not isinstance(scale, nn.Linear) or scale.bias is not None:
        return None
    weight = scale.weight.detach()
    factor = float(weight[0, 0])
    diagonal = factor * torch.eye(*weight.shape, device=weight.device)
    return 1 / factor if factor and torch.equal(weight, diagonal) else None


def kinks(
    model: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
) -> float:
    """The share of ReLU units at which a convention decides over the gradient, reported if it is large.

    Of the units of `nn.ReLU` modules at whose output a gradient arrives, those whose input is exactly
    0: ReLU'(0) = 0 stops the gradient there, ReLU'(0) = 1 would not. One forward and one backward pass
    of the first image.
    """
    on_kink: list[Tensor] = []
    passed: list[Tensor] = []
    handles = []
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            # Before the call, because one in place overwrites its input.
            handles += [
                module.register_forward_pre_hook(lambda _, given: on_kink.append(given[0] == 0)),
                module.register_forward_hook(lambda _, __, output: passed.append(output)),
            ]
    try:
        with torch.enable_grad():
            image = inputs[:1].detach().clone().requires_grad_()
            value = target_outputs(model(image), targets[:1]).sum()
    finally:
        for handle in handles:
            handle.remove()
    if not passed:
        return 0.0
    gradients = torch.autograd.grad(value, passed, materialize_grads=True)
    reached = [gradient != 0 for gradient in gradients]
    decided = sum(int((kink & here).sum()) for kink, here in zip(on_kink, reached, strict=True))
    share = decided / max(1, sum(int(here.sum()) for here in reached))
    text = (
        "rest on a convention: {worst} of the ReLU units that a gradient reaches have an input of "
        "exactly 0, where ReLU'(0) = 0 decides (checked on the first image of each environment)"
    )
    notify(Notice(text, int(share > KINK_SHARE), worst=share, kind="kinks"))
    return share


STATED_NOISE = 0.5
"""Share of a map's sum of squares that may be sampling noise without mention."""


def noise_share(
    total: Float[Tensor, "..."],
    squares: Float[Tensor, "..."],
    samples: int,
    population: int | None = None,
) -> float:
    r"""Which share of a mean map's sum of squares the error of so few samples is expected to make up.

    .. math::
        \frac{\sum_j \hat s_j^2}{\sum_j \bar a_j^2}, \qquad
        \hat s_j^2 = c \sum_{s=1}^n (a_{sj} - \bar a_j)^2, \qquad
        c = \frac{1}{n (n - 1)}

    for n independent samples, from sums of the samples and of their squares. Drawn from a population of
    N without replacement, all over again after each N, only the r = n mod N of the last round leave the
    mean to chance. Its variance is :math:`S^2 r (N - r) / (N n^2)`, with S^2 of all N (divided by N -
    1), and without bias

    .. math:: c = \frac{r (N - r)}{n \, \big(n^2 (N - 1) - r (N - r)\big)},

    which is (1 - n / N) / (n (n - 1)) in the first round and 0 where every round is complete. Infinite
    where a single sample says nothing of its error; 0 for a map of zeros.
    """
    mean = total / samples
    if population is None:
        c = 1 / (samples * (samples - 1)) if samples > 1 else math.inf
    else:
        rest = samples % population
        left = rest * (population - rest)
        most = samples**2 * (population - 1)
        c = 0.0 if not left else left / (samples * (most - left)) if most > left else math.inf
    if math.isinf(c):
        return c if mean.any() else 0.0
    scatter = (squares - samples * mean.square()).clamp(min=0)
    return share_of_errors(mean, (c * scatter).sqrt())


def share_of_errors(estimate: Float[Tensor, "..."], errors: Float[Tensor, "..."]) -> float:
    r"""Which share of a map's sum of squares is expected to be noise, by the values' standard errors s.

    That of independent samples adds up to the sum of squares,
    :math:`E \sum_j \hat a_j^2 = \sum_j a_j^2 + \sum_j s_j^2`, so that
    :math:`\sum_j s_j^2 / \sum_j \hat a_j^2` estimates its share. Infinite where nothing is known of an
    error; 0 for a map of zeros.
    """
    whole = estimate.double().square().sum()
    return float(errors.double().square().sum() / whole) if whole else 0.0


def notify_of_noise(shares: Sequence[float], remedy: str) -> None:
    """Report maps that are mostly noise, and those of which the share of noise is not known."""
    unknown = sum(math.isinf(share) for share in shares)
    text = f"have a sampling noise of unknown size, as too few samples cannot show it: {remedy}"
    notify(Notice(text, unknown))
    noisy = [share for share in shares if STATED_NOISE < share < math.inf]
    text = (
        "are mostly sampling noise, by the scatter of the samples (about {worst} of a map's sum "
        f"of squares): {remedy}"
    )
    notify(Notice(text, len(noisy), worst=min(1.0, max(noisy, default=0.0))))
