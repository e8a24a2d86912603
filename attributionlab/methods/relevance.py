r"""Methods that distribute an output, or its change, backwards over the input: DeepLift and LRP."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attributionlab.base import AttributionLabError, NotNegative, Positive, Within, refuse_if
from attributionlab.methods import graph, guards
from attributionlab.methods.baselines import (
    Baselines,
    as_baselines,
    as_distribution,
    from_true_baseline,
)
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import target_outputs

DEEP_LIFT_CAUSE = "some activations, products or normalizations have no rule"
LRP_CAUSE = "epsilon, or constants that the network adds outside of its layers, absorb relevance"
ONE_SIGN = "alpha-beta does not conserve the relevance of units with contributions of a single sign"
"""What contributions and relevance miss, where neither a softmax nor a bias explains it."""


@checked
@declares(modules=True)
def deep_lift(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baselines: Baselines = 0.0,
    eps: Positive = 1e-10,
) -> Tensor:
    r"""DeepLift with the Rescale rule: distributes the change of the output over the changed inputs.

    .. math::
        a_j = m_j (x_j - b_j), \quad
        m_{ReLU} = \frac{ReLU(z) - ReLU(z')}{z - z'}, \quad
        m_{linear} = w,

    with multipliers chained backwards like gradients; z belongs to x, z' to the baseline b. If |z - z'|
    < eps, the gradient replaces the quotient. Max pooling passes on the change of its output y by way
    of :math:`y^* = \max(y, y')`,

    .. math:: y - y' = (y^* - y') + (y - y^*),

    the first part to the position of the maximum in x, the second to that in b; a position in several
    windows gets the sum of their parts, divided by its change z - z'.

    Source: Shrikumar et al., 2017. Handles saturated units, and sums to f(x) - f(b) for networks of
    linear layers, elementwise activations and max pooling; not after a softmax, whose rule is Captum's
    and subtracts the mean of the multipliers over the outputs. The rules apply to modules: functional
    ReLUs and operations without a rule, such as products of activations, get their plain gradient.
    Guards report all of these. In captum 0.9.0 DeepLift agrees on one image without max pooling
    (docs/methods.md, "Where Captum does not do the work"). One forward and one backward pass of twice
    the batch.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    baselines : float, sequence of float, ndarray or Tensor
        What the input is compared with (`as_baselines`); black by default.
    eps : float
        Smallest change of a unit's input to divide by; in half precision at least its smallest normal
        number.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If an activation works in place on a part of a tensor, if the first dimension of its input is
        not that of the images, or if `eps` is no positive number.
    """
    attributions, output, reference, found = _contributions(
        model, inputs, as_baselines(baselines, inputs), targets, eps, "deep-lift"
    )
    _report(model, attributions, output, reference, found)
    return attributions


deep_lift_true_baseline = from_true_baseline(
    deep_lift, "DeepLift with the environment's background as the baseline."
)


@checked
@declares(distribution=True, modules=True)
def deep_shap(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baselines: Baselines = 0.0,
    eps: Positive = 1e-10,
) -> Tensor:
    r"""DeepLift averaged over a distribution of baselines.

    .. math:: a_j = \frac{1}{N} \sum_{n=1}^N DeepLift_j(x, b_n)

    Source: Lundberg & Lee, 2017. Estimates Shapley values as far as the network is linear. With one
    baseline, as in AttributionLab (all zeros), it *is* DeepLift, see `deep_lift`. In captum 0.9.0,
    DeepLiftShap refuses a single baseline and computes the same for several (docs/methods.md, "Where
    Captum does not do the work"). N times the cost of `deep_lift`.

    Parameters
    ----------
    model, inputs, targets, eps
        As for `deep_lift`.
    baselines : float, sequence of float, ndarray or Tensor
        One baseline (`as_baselines`), or N of them as (N, C, H, W) or (N, C, 1, 1), each for all
        images; black by default.
    """
    each = [
        _contributions(model, inputs, one.expand_as(inputs), targets, eps, "deep-shap")
        for one in as_distribution(baselines, inputs)
    ]
    mean = torch.stack([attributions for attributions, *_ in each]).mean(0)
    reference = torch.stack([before for _, _, before, _ in each]).mean(0)
    _, output, _, found = each[0]
    _report(model, mean, output, reference, found)
    return mean


deep_shap_true_baseline = from_true_baseline(
    deep_shap,
    "DeepSHAP with the environment's background as its only baseline, which makes it DeepLift.",
)


def _contributions(
    model: nn.Module, inputs: Tensor, baselines: Tensor, targets: Tensor, eps: float, who: str
) -> tuple[Tensor, Tensor, Tensor, guards.Activations]:
    """DeepLift's contributions, f(x), f(b) and what the forward pass did."""
    # An expanded baseline would cost the concatenation the layout of the inputs.
    references = torch.empty_like(inputs).copy_(baselines)
    eps = max(eps, torch.finfo(inputs.dtype).tiny)  # which is no 0 beside changes of this type
    found = guards.Activations()

    def run(x: Tensor, b: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        leaf = x.detach().clone().requires_grad_()
        with torch.enable_grad(), _rescaled(model, len(x), eps, who) as ruled:
            values = target_outputs(model(torch.cat([leaf, b])), t.repeat(2))
        steps = graph.steps_on_the_way(values, leaf)
        activations = {step for step in steps if graph.operation(step) in graph.NONLINEAR}
        found.hooked, found.functional = len(ruled), len(activations - ruled)
        found.others = Counter(without_rule(steps, activations | ruled))
        (multipliers,) = torch.autograd.grad(values.sum(), leaf)
        output, reference = values.detach().chunk(2)
        return (leaf.detach() - b) * multipliers, output, reference

    attributions, output, reference = over_batches(run, (inputs, references, targets), who)
    return attributions, output, reference, found


def _report(
    model: nn.Module, maps: Tensor, output: Tensor, reference: Tensor, found: guards.Activations
) -> None:
    """Report what the rules miss, and by how much contributions do not sum to the output's change."""
    guards.hidden_activations(found, "DeepLift", len(maps))
    listed = ", ".join(f"{count} {name}" for name, count in sorted(found.others.items()))
    text = (
        f"rest on the plain gradient of operations for which DeepLift has no rule ({listed}), so they "
        "need not sum to the change of the output"
    )
    notify(Notice(text, len(maps) if found.others else 0, kind="hooks"))
    guards.completeness(maps, output, reference, guards.deep_lift_remedy(model, DEEP_LIFT_CAUSE))


@contextmanager
def _rescaled(model: nn.Module, images: int, eps: float, who: str) -> Iterator[set[Any]]:
    """Give the steps that activations add to the autograd graph DeepLift's backward pass.

    The batch holds the images, then their baselines. A hook on a step sees what passes through this
    call of this module, in its order; one on the module or its input, as Captum's, would also change
    what the input hands to other layers. Filled are the steps that have a rule.
    """
    ruled: set[Any] = set()
    entered: list[Tensor] = []

    def before(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        # Cloned, here and below, because what works in place overwrites it: the module, or a sum.
        entered.append((args or tuple(named.values()))[0].detach().clone())

    def after(module: nn.Module, _: Any, returned: Any) -> None:
        z = entered.pop()
        output = returned[0] if isinstance(returned, tuple) else returned  # beside places
        step, y, rule = graph.step_of(output), output.detach().clone(), RULES[type(module)]
        if step is None:
            return
        if graph.operation(step) not in (*graph.NONLINEAR, graph.IN_PLACE):
            raise AttributionLabError(
                f"{who} cannot hook a {type(module).__name__} that works in place on a part of a "
                "tensor: use inplace=False"
            )

        def hook(
            handed_on: tuple[Tensor, ...], arrived: tuple[Tensor | None, ...]
        ) -> tuple[Tensor, ...] | None:
            if arrived[0] is None:  # from a function that hands on no gradient
                return None
            if len(z) % (2 * images):
                raise AttributionLabError(
                    f"{who}: {type(module).__name__} gets {tuple(z.shape)} in a pass of {images} "
                    "images and as many baselines: keep the images in the first dimension, on one "
                    "device"
                )
            own, above = handed_on[0].reshape(z.shape), arrived[0].reshape(y.shape)
            passed = rule(module, z, y, own, above, eps).reshape(handed_on[0].shape)
            return (passed, *handed_on[1:])  # behind the first, of PReLU its slopes

        step.register_hook(hook)
        ruled.add(step)

    handles = []
    for module in model.modules():
        if type(module) in RULES:
            handles += [
                module.register_forward_pre_hook(before, with_kwargs=True),
                # Before hooks of the user's, which may return something else.
                module.register_forward_hook(after, prepend=True),
            ]
    try:
        yield ruled
    finally:
        for handle in handles:
            handle.remove()


def _rescale(
    _: nn.Module, z: Tensor, y: Tensor, gradient: Tensor, above: Tensor, eps: float
) -> Tensor:
    """The multipliers above, times the change of the output by that of the input; `gradient` is what
    the plain backward pass hands on.
    """
    change = _change(z)
    passed = _halves(above) * _change(y) / change
    return torch.where(change.abs() < eps, _halves(gradient), passed).flatten(0, 1)


def _rescale_softmax(
    module: nn.Module, z: Tensor, y: Tensor, gradient: Tensor, above: Tensor, eps: float
) -> Tensor:
    pairs = _rescale(module, z, y, gradient, above, eps).reshape(2, -1, *z.shape[1:])
    return (pairs - pairs.mean([0, *range(2, pairs.ndim)], keepdim=True)).flatten(0, 1)


def _rescale_pool(
    pool: nn.Module, z: Tensor, y: Tensor, gradient: Tensor, above: Tensor, eps: float
) -> Tensor:
    telling: Any = copy(pool)
    telling.return_indices = True
    highest = telling.forward(z)[1]
    here, there = y.chunk(2)
    peak = torch.maximum(here, there)
    dimensions = POOLED_DIMENSIONS[type(pool)]
    parts = torch.zeros_like(z).flatten(-dimensions)
    for places, part in zip(highest.chunk(2), (peak - there, here - peak), strict=True):
        weighed = above * part.repeat(2, *[1] * (part.ndim - 1))
        parts.scatter_add_(
            -1, torch.cat([places, places]).flatten(-dimensions), weighed.flatten(-dimensions)
        )
    change = _change(z)
    passed = _halves(parts.reshape(z.shape)) / change
    return torch.where(change.abs() < eps, _halves(gradient), passed).flatten(0, 1)


def _change(both: Tensor) -> Tensor:
    """From the baselines to the images."""
    here, there = both.chunk(2)
    return here - there


def _halves(both: Tensor) -> Tensor:
    """Images and baselines in a dimension of their own."""
    return both.reshape(2, -1, *both.shape[1:])


ELEMENTWISE: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU),
    *(nn.Mish, nn.Softplus, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid),
    *(nn.Sigmoid, nn.LogSigmoid, nn.Tanh),
)
"""Activations of each unit by itself."""

POOLED_DIMENSIONS: dict[type[nn.Module], int] = {
    nn.MaxPool1d: 1,
    nn.MaxPool2d: 2,
    nn.MaxPool3d: 3,
    nn.AdaptiveMaxPool1d: 1,
    nn.AdaptiveMaxPool2d: 2,
    nn.AdaptiveMaxPool3d: 3,
}
"""How many of the last dimensions a place in a pooled map is counted over."""

RULES: dict[type[nn.Module], Callable[..., Tensor]] = {
    **dict.fromkeys(ELEMENTWISE, _rescale),
    **dict.fromkeys(POOLED_DIMENSIONS, _rescale_pool),
    nn.Softmax: _rescale_softmax,
}
"""How DeepLift passes each kind of module. One of a subclass may compute something else."""


OTHER_LINEAR = (nn.modules.batchnorm._BatchNorm, nn.AvgPool2d)
LINEAR = (nn.Linear, nn.modules.conv._ConvNd, *OTHER_LINEAR)
"""Layers whose outputs are weighted sums of their inputs and a bias."""

WEIGHTED = (
    *("linear", "conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
)
"""Operations that share out relevance by the rule asked for."""
OPERANDS = ("input", "weight", "bias")

RESCALING = ("Relu", "LeakyRelu", "PreluKernel", "Abs", *graph.POOLS)
"""Operations that multiply each input they pass on by a number, which is also their gradient."""

ARRANGING = (
    *("Alias", "AsStrided", "Cat", "ChannelShuffle", "Clone", "ConstantPadNd", "Diagonal"),
    *("Expand", "Flip", "Gather", "Im2Col", "Index", "IndexSelect", "MaskedFill", "MaskedSelect"),
    *("Narrow", "Permute", "PixelShuffle", "PixelUnshuffle", "ReflectionPad1D"),
    *("ReflectionPad2D", "Repeat"),
    *("ReplicationPad1D", "ReplicationPad2D", "ReshapeAlias", "Roll", "Select", "Slice", "Split"),
    *("SplitWithSizes", "Squeeze", "Stack", "T", "ToCopy", "Transpose", "Tril", "Triu", "Unbind"),
    *("Unfold", "UnsafeSplit", "UnsafeView", "Unsqueeze", "View", "Where", "BackwardHookFunction"),
)
"""Operations that place their inputs, or put constants in their place."""

SUMMING = (
    *("Add", "Sub", "Rsub", "Neg", "Sum", "Mean", "Cumsum", "Col2Im"),
    *("AvgPool2D", "AvgPool3D", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D"),
    *("UpsampleNearest1D", "UpsampleNearest2D", "UpsampleNearest3D", "UpsampleNearestExact2D"),
    *("UpsampleLinear1D", "UpsampleBilinear2D", "UpsampleBilinear2DAa", "UpsampleTrilinear3D"),
    *("UpsampleBicubic2D", "UpsampleBicubic2DAa"),
)
"""Operations that weigh their inputs by constants."""

WEIGHING = {
    **dict.fromkeys(
        ("Mul", "Div", "Mm", "Mv", "Bmm", "Dot", "Convolution", "GridSampler2D"), (0, 1)
    ),
    **dict.fromkeys(("Addmm", "Addmv", "Addbmm", "Baddbmm", "Addcmul"), (1, 2)),
    **dict.fromkeys(("NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"), (0, 1)),
}
"""Operations that weigh their inputs by one another, with the places of the two factors."""


OF_TRANSFORMERS = (
    *("Gelu", "Silu", "Mish", "Elu", "Tanh", "Hardtanh", "Hardswish"),
    *("NativeLayerNorm", "NativeGroupNorm"),
)
"""Operations without a rule here for which AttnLRP has one, beside attention."""


Rule = Literal["epsilon", "gamma", "alpha-beta"]
GAMMA, ALPHA = 0.25, 2.0
"""What the rules of these names take by default."""


@checked
@declares(output="logit", modules=True)
def lrp(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    rule: Rule = "epsilon",
    epsilon: Positive = 1e-9,
    gamma: NotNegative = GAMMA,
    alpha: Annotated[float, Within(least=1)] = ALPHA,
) -> Tensor:
    r"""Layer-wise relevance propagation with the epsilon, gamma or alpha-beta rule.

    With the contributions :math:`c_{jk} = x_j w_{jk}` to :math:`z_k = \sum_j c_{jk} + b_k`, whose terms
    above and below 0, the bias among them, have the sums :math:`z_k^+` and :math:`z_k^-`,

    .. math::
        R_j &= \sum_k \frac{c_{jk}}{z_k} R_k && \text{(epsilon)} \\
        R_j &= \sum_k \frac{c_{jk} + \gamma c_{jk}^{s}}{z_k + \gamma z_k^{s}} R_k,
            \quad s = sign(z_k) && \text{(gamma)} \\
        R_j &= \sum_k \Big( \alpha \frac{c_{jk}^+}{z_k^+} - \beta \frac{c_{jk}^-}{z_k^-} \Big) R_k,
            \quad \beta = \alpha - 1 && \text{(alpha-beta)}

    from R = f_t(x) at the output back to the input; activations pass their relevance on unchanged. Each
    divisor d is increased by epsilon sign(d), with sign(0) = 1.

    Source: Bach et al., 2015 (epsilon, alpha-beta), and Montavon et al., 2019 (gamma), who state it for
    nonnegative inputs and sums, where s is +; for others Andeol et al., 2021, favor contributions with
    the sign of the sum, which keeps the divisor away from 0. Gamma and alpha-beta are for linear layers
    and convolutions; batch normalization, average pooling and explicit products (``x @ w``) keep the
    epsilon rule. Relevance is conserved as with epsilon, except with alpha-beta: a unit with
    contributions of a single sign passes on alpha, or -beta, times its relevance. With these two rules
    a layer costs five passes instead of one.

    Explains logits; after a softmax it is undefined. Each bias b_k absorbs its share, so relevance sums
    to the output only in networks without biases (a guard reports how much is missing, relative to
    f(x)). For epsilon -> 0 and ReLU, the epsilon rule is the input times the gradient (Ancona et al.,
    2018), because an inactive unit has no relevance to pass on. All rules are computed in this way: the
    input times a modified gradient, R / z at each unit. In captum 0.9.0 LRP agrees on chains of layers,
    in two forward passes; but it raises on `nn.Flatten`, is wrong at skip connections, and leaves
    activations on the model, and where it raises its rules too (docs/methods.md, "Where Captum does not
    do the work"). One forward and one backward pass.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`. With the epsilon rule, layers called as functions have no epsilon.
    rule : {"epsilon", "gamma", "alpha-beta"}
        How linear layers and convolutions distribute relevance.
    epsilon : float
        Positive, in units of the layers' outputs; larger ones let weak, contradicting relevance vanish.
    gamma : float
        How much the gamma rule favors contributions with the sign of the sum; 0 gives the epsilon rule.
    alpha : float
        Weight of the positive contributions in alpha-beta, at least 1; at 1 the negative ones do not
        count.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If gamma or alpha is set for another rule. If the network has a softmax, or an operation on the
        images that is neither a sum weighted by constants nor a multiplication of each unit by its own
        number (as ReLU and max pooling are): products of activations, smooth ones, normalization by
        their own statistics, attention (for which there is `attnlrp`). Or if a setting is out of range.
    """
    refuse_if(
        [
            f"{name} is {value:g}, and the rule is {rule!r}: pass rule={own!r}, or leave {name} out"
            for name, value, default, own in (
                ("gamma", gamma, GAMMA, "gamma"),
                ("alpha", alpha, ALPHA, "alpha-beta"),
            )
            if rule != own and value != default
        ],
        "lrp",
    )

    def stabilize(_: nn.Module, __: Any, output: Tensor) -> None:
        z = output.detach()
        stable = _stable(z, epsilon)
        if not torch.equal(stable, z) and output.requires_grad:
            kept = z / stable  # now, as a sum in place may overwrite z
            output.register_hook(lambda gradient: gradient * kept)  # type: ignore[no-untyped-call]

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        leaf = images.detach().clone().requires_grad_()
        known: set[Any] = set()
        handles = []
        for module in model.modules():
            if isinstance(module, LINEAR if rule == "epsilon" else OTHER_LINEAR):
                handles.append(module.register_forward_hook(stabilize))
            elif isinstance(module, nn.ReLU | nn.LeakyReLU):  # in place, the graph hides which
                note = partial(_note, known)
                handles.append(module.register_forward_hook(note))
        shared = nullcontext() if rule == "epsilon" else _Sharing(rule, epsilon, gamma, alpha)
        with torch.enable_grad():
            try:
                with shared:
                    output = model(leaf.clone())
            finally:
                for handle in handles:
                    handle.remove()
            _refuse_without_rule(output, graph.steps_on_the_way(output, leaf), known)
            value = target_outputs(output, classes)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return leaf.detach() * gradient, value.detach()

    relevance, value = over_batches(run, (inputs, targets), "lrp")
    remedy = ONE_SIGN if rule == "alpha-beta" else guards.lrp_remedy(model, LRP_CAUSE)
    guards.completeness(relevance, value, None, remedy)
    return relevance


class _Sharing(TorchFunctionMode):
    """Gives each layer, called as a module or as a function, a sum of the same value whose gradient
    hands down relevance by a rule.
    """

    def __init__(self, rule: Rule, epsilon: float, gamma: float, alpha: float) -> None:
        super().__init__()
        self.rule, self.epsilon, self.gamma, self.alpha = rule, epsilon, gamma, alpha

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        z = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in WEIGHTED:
            return z
        named = {**(kwargs or {}), **dict(zip(OPERANDS, args, strict=False))}
        x, weight, bias = (named.pop(name, None) for name in OPERANDS)

        def terms(sign: int) -> Tensor:
            """The sum of the terms of a sign."""
            same, other = (_of_sign(weight, each) for each in (sign, -sign))
            shift = None if bias is None else _of_sign(bias, sign)
            above: Tensor = func(_of_sign(x, 1), same, shift, *args[3:], **named)
            below: Tensor = func(_of_sign(x, -1), other, None, *args[3:], **named)
            return above + below

        def rescaled(part: Tensor) -> Tensor:
            """z in the shares that this sum has."""
            epsilon = max(self.epsilon, torch.finfo(part.dtype).tiny)
            factor = z.detach() / _stable(part.detach(), epsilon)
            return part * torch.where(part == 0, 0.0, factor)  # no terms of the sign: no infinity

        above, below = terms(1), terms(-1)
        if self.rule == "gamma":
            favored = torch.where(z.detach() >= 0, above, below)
            shares = rescaled(z + self.gamma * favored)
        else:
            shares = self.alpha * rescaled(above) - (self.alpha - 1) * rescaled(below)
        same: Tensor = z.detach() + (shares - shares.detach())  # z to the last bit
        return same


def _of_sign(values: Tensor, sign: int) -> Tensor:
    """What of the values has a sign; the rest, 0 among it, has no gradient."""
    return values * (values * sign > 0)


def _stable(divisor: Tensor, epsilon: float) -> Tensor:
    return divisor + epsilon * torch.where(divisor >= 0, 1.0, -1.0).to(divisor)


def _note(steps: set[Any], _: nn.Module, __: Any, output: Tensor) -> None:
    steps.add(graph.step_of(output))


def _refuse_without_rule(output: Tensor, steps: list[Any], known: set[Any]) -> None:
    """Refuse steps on the way to an output that neither weigh their inputs by constants nor multiply
    each by a number, unless it is known that they do.
    """
    if graph.operation(output.grad_fn).endswith("Softmax"):
        raise AttributionLabError(
            "lrp explains logits, but this network has a softmax: pass explain='logit'"
        )
    rescaling = {step for step in steps if graph.operation(step) in RESCALING}
    weighs = any("Softmax" in graph.operation(step) for step in steps)
    for problem in without_rule(steps, rescaling | known):
        attends = "DotProduct" in problem or (weighs and "of two activations" in problem)
        aware = attends or problem in OF_TRANSFORMERS
        remedy = "take attnlrp" if aware else "use a network of linear layers and ReLUs"
        raise AttributionLabError(f"lrp has no rule for {problem}: {remedy}")


def without_rule(steps: Sequence[Any], ruled: Set[Any]) -> Iterator[str]:
    """What each step computes that has no rule and does not weigh its inputs by constants."""
    on_the_way = set(steps)
    for step in steps:
        kind = graph.operation(step)
        if step in ruled or kind in (*ARRANGING, *SUMMING):
            continue
        if kind == graph.IN_PLACE:
            yield "operations in place on a part of a tensor"
        elif kind not in WEIGHING:
            yield kind
        elif getattr(step, "_saved_training", False):
            yield "a normalization by the statistics of the images themselves"
        else:
            depends = [parent in on_the_way for parent, _ in step.next_functions]
            depends.append(False)  # a number of Python's, beside a single tensor
            first, second = (depends[place] for place in WEIGHING[kind])
            if second and (first or kind == "Div"):
                yield f"{kind} of two activations" if first else "division by an activation"
