"""Outputs of a model while one pixel after the other, or each pixel alone, is replaced.

What a trajectory refuses before it asks the model anything.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from attributionlab.base.arguments import checked_arguments
from attributionlab.base.device import exact_arithmetic
from attributionlab.base.errors import AttributionLabError, refuse_if
from attributionlab.base.exact.chain import chain_of
from attributionlab.base.exact.stepwise.tree import Tree, UnservedError, tree_of
from attributionlab.base.models import asked
from attributionlab.base.validation import Replacement, broadcast_replacement, plain_problem, shown

if TYPE_CHECKING:
    from attributionlab.base.exact.stepwise.incremental import Mixture


def kind_of(model: Any) -> tuple[torch.dtype, torch.device | None]:
    """In which numbers and where a model computes; float32 and anywhere without parameters."""
    if not isinstance(model, nn.Module):
        raise AttributionLabError(f"the model is {shown(model)}: pass an nn.Module")
    for parameter in model.parameters():
        if parameter.is_floating_point():
            return parameter.dtype, parameter.device
    return torch.float32, None


def checked_pair(
    images: Any, replacement: Any, dtype: torch.dtype, device: torch.device | None
) -> tuple[
    Float[Tensor, "batch channels height width"], Float[Tensor, "batch channels height width"]
]:
    """Images and their replacement in the model's numbers, of the same shape."""
    ends = broadcast_replacement(replacement, images)
    converted = []
    for name, values in (("images", images), ("replacement", ends)):
        if values.is_complex() or values.dtype == torch.bool:
            raise AttributionLabError(f"{name}: {values.dtype} is not a type of real numbers")
        if values.device != (device or images.device):
            raise AttributionLabError(
                f"{name}: on {values.device}, but the model is on {device or images.device}; move "
                "all to one device"
            )
        numbers = values.detach().to(dtype)
        if not numbers.isfinite().all():
            where = tuple(int(i) for i in (~numbers.isfinite()).nonzero()[0])
            raise AttributionLabError(
                f"{name}: the value {float(values[where])} at {where} is not a finite {dtype}, the "
                "model's type; pass other numbers"
            )
        converted.append(numbers)
    return converted[0], converted[1]


def checked_orders(orders: Any, n: int, pixels: int) -> Int[Tensor, "batch draws pixels"]:
    """Orders for each of n images, as far as their type and number tell."""
    if (
        not isinstance(orders, Tensor)
        or orders.ndim != 3
        or len(orders) != n
        or not orders.numel()
        or orders.dtype != torch.int64
    ):
        raise AttributionLabError(
            f"orders are {shown(orders)}: pass a tensor of torch.int64 of shape (B, D, P), here "
            f"({n}, D, {pixels})"
        )
    return orders


def _check_permutations(orders: Tensor, pixels: int) -> None:
    if orders.shape[2] != pixels:
        raise AttributionLabError(
            f"an order has {orders.shape[2]} pixels, the images have {pixels}: pass permutations of "
            f"0 to {pixels - 1}"
        )
    outside = (orders < 0) | (orders >= pixels)
    if outside.any():
        raise AttributionLabError(
            f"an order names pixel {int(orders[outside][0])}: pass permutations of 0 to {pixels - 1}"
        )
    seen = torch.zeros(orders.shape, dtype=torch.bool, device=orders.device)
    seen.scatter_(2, orders, True)
    if not seen.all():
        image, draw, pixel = (int(i) for i in (~seen).nonzero()[0])
        raise AttributionLabError(
            f"order {draw} of image {image} omits pixel {pixel} and repeats another one: pass "
            f"permutations of 0 to {pixels - 1}"
        )


def checked_counts(counts: Any, pixels: int) -> Int[Tensor, " counts"]:
    """After how many replacements to evaluate; all numbers of them for None."""
    if counts is None:
        return torch.arange(pixels + 1, device="cpu")
    if isinstance(counts, Tensor):
        refuse_if(plain_problem("counts are", counts))
    try:
        wanted = torch.as_tensor(counts, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttributionLabError(f"counts are {counts!r}: pass a list of integers") from error
    if (
        wanted.ndim != 1
        or not wanted.numel()
        or wanted.is_floating_point()
        or wanted.is_complex()
        or wanted.dtype == torch.bool
        or wanted[0] < 0
        or wanted[-1] > pixels
        or (wanted.long().diff() <= 0).any()  # unsigned differences would wrap around
    ):
        raise AttributionLabError(
            f"counts are {_few(wanted.flatten().tolist())}: pass increasing numbers of replaced "
            f"pixels, from 0 to {pixels}"
        )
    return wanted.long()


def _few(numbers: Sequence[float]) -> str:
    """A list, without its middle if that is long."""
    shown = [str(number) for number in numbers]
    return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "...", *shown[-2:]]) or "none"


STATES_AT_ONCE = 2**18
"""States of the last map that wait for the layers behind it."""


class Route(NamedTuple):
    """How a model is evaluated along trajectories, and why."""

    name: Literal["incremental", "forward"]
    reason: str


@checked_arguments
def trajectory(
    model: nn.Module,
    image: Real[Tensor, "channels height width"],
    replacement: Replacement,
    order: Int[Tensor, " pixels"],
) -> Float[Tensor, "steps outputs"]:
    """Outputs after 0, 1, ..., P single-pixel replacements.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K); refused in training mode where that differs (batch normalization,
        dropout).
    image : Tensor, (C, H, W)
        Where the trajectory starts.
    replacement : float or Tensor
        Where it ends: a number, (C, H, W), or what broadcasts to it, such as a pixel (C, 1, 1). Any
        finite values, inside a network's valid box or outside.
    order : Tensor of int64, (P,)
        A permutation of the flat indices 0 to P - 1 = H W - 1; all channels of a pixel are replaced
        together.

    Returns
    -------
    Tensor, (P + 1, K)
        Row s belongs to the image in which the first s pixels of `order` are the replacement's. Equal
        to the model's own outputs, see `trajectories`.

    Raises
    ------
    AttributionLabError
        For what `trajectories` refuses.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.base.exact import trajectory
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> torch.nn.init.ones_(model[1].weight).shape
    torch.Size([1, 4])
    >>> image = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    >>> trajectory(model, image, 0, torch.tensor([3, 0, 1, 2])).T
    tensor([[10.,  6.,  5.,  3.,  0.]])
    """
    return trajectories(model, image[None], replacement, order[None, None])[0, 0]


@checked_arguments
def trajectories(
    model: nn.Module,
    images: Real[Tensor, "batch channels height width"],
    replacements: Replacement,
    orders: Int[Tensor, "batch draws pixels"],
    *,
    counts: Sequence[int] | None = None,
) -> Float[Tensor, "batch draws counts outputs"]:
    """Outputs along several orders of replacement for each image.

    Networks that sum without rounding and in which every pixel has one path to the outputs (1x1
    convolutions, then convolutions whose windows do not overlap, `nn.ReLU`, then linear layers, at most
    one `nn.Softmax(dim=1)` at the end) are evaluated incrementally: one walk through the network for
    each pixel, instead of a forward pass. `route_of` says whether that is so and why not. Every other
    model is evaluated by forward passes.

    The image is compared with its replacement pixel by pixel, the layers in front run once on each
    different pair of pixels. Then the proof that no sum is rounded is made anew for this image and this
    replacement (`attributionlab.exact.stepwise.certified`). It holds for all orders, which share it.

    `torch.get_num_threads()` threads share the draws of an image. The loops are compiled at first use
    (some seconds) and kept in numba's cache.

    Parameters
    ----------
    model, images, replacements
        As for `trajectory`, with a batch of images; `replacements` is a number or broadcasts to them.
    orders : Tensor of int64, (B, D, P)
        For each image D permutations of its pixels.
    counts : sequence of int, optional
        After how many replacements to evaluate, increasing numbers from 0 to P; all of them by default.
        It decides the cost where the route is "forward".

    Returns
    -------
    Tensor, (B, D, S, K)
        On the images' device, of the model's type. On both routes equal (``==``) to forward passes on
        the CPU, softmax included; models that round may differ from forward passes in batches of
        another size.

    Raises
    ------
    AttributionLabError
        For shapes, devices and numbers that do not fit, orders that are not permutations, counts out of
        range, and models whose output is not (B, K).

    Examples
    --------
    >>> import torch
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(2)
    >>> orders = torch.stack([torch.randperm(576) for _ in range(6)]).reshape(2, 3, 576)
    >>> al.exact.trajectories(env.model, images, torch.zeros(3, 1, 1), orders).shape
    torch.Size([2, 3, 577, 4])
    """
    return torch.stack(list(each_trajectory(model, images, replacements, orders, counts)))


def each_trajectory(
    model: nn.Module,
    images: Real[Tensor, "batch channels height width"],
    replacements: Replacement,
    orders: Int[Tensor, "batch draws pixels"],
    counts: Sequence[int] | None = None,
) -> Iterator[Float[Tensor, "draws counts outputs"]]:
    """`trajectories` image by image, for who keeps a part of the outputs only.

    An image that is repeated, for another map of it, shares the layers behind the last map, too.
    """
    dtype, device = kind_of(model)
    starts, ends = checked_pair(images, replacements, dtype, device)
    pixels = starts.shape[2] * starts.shape[3]
    _check_permutations(checked_orders(orders, len(starts), pixels), pixels)
    wanted = checked_counts(counts, pixels)
    mixtures = mixtures_of(model, starts, ends)
    questions = zip(mixtures, starts, ends, orders, strict=True)
    at_once = max(1, STATES_AT_ONCE // (orders.shape[1] * len(wanted)))
    for _, same in groupby(questions, key=lambda question: id(question[0])):
        while some := list(islice(same, at_once)):
            mixture, *_ = some[0]
            if mixture is None:
                for _, image, end, order in some:
                    yield by_forward_passes(model, image, end, order, wanted)
            else:
                every = torch.cat([order for *_, order in some])
                outputs = _along(mixture, every, wanted).to(images.device)
                yield from outputs.view(len(some), -1, *outputs.shape[1:])


@checked_arguments
def single_replacements(
    model: nn.Module, images: Real[Tensor, "batch channels height width"], replacements: Replacement
) -> Float[Tensor, "batch pixels outputs"]:
    r"""Outputs after replacing each pixel alone, all channels together.

    What a model loses with a pixel is its ablation effect, f(x) - f(x without p); what it gains from
    one is its insertion effect, f(b with p) - f(b). The second is the same question with image and
    replacement swapped: ``single_replacements(model, replacements, images)``.

    An image with one pixel replaced is a mixture of image and replacement. So `route_of` says how it is
    evaluated, and the proof that covers trajectories covers this: where no mixture is rounded, each
    pixel costs one walk through the network, from what the layers make of the image; otherwise one
    forward pass.

    Parameters
    ----------
    model, images, replacements
        As for `trajectories`: a model (B, C, H, W) -> (B, K), images, and a number or a tensor that
        broadcasts to them.

    Returns
    -------
    Tensor, (B, P, K)
        Row p = y W + x belongs to the image in which the pixel (y, x) is the replacement's; on the
        images' device, of the model's type, and equal (``==``) to forward passes where `trajectories`
        is. 0.8 MB for an image of 224 x 224 pixels and four outputs in float32.

    Raises
    ------
    AttributionLabError
        For shapes, devices and numbers that do not fit, and models whose output is not (B, K).

    Examples
    --------
    >>> import torch
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(2)
    >>> without = al.exact.single_replacements(env.model, images, env.baseline)
    >>> without.shape
    torch.Size([2, 576, 4])
    >>> losses = env.model(images)[:, None] - without
    >>> losses.detach().unique()  # 1 for a pixel of the output's color
    tensor([0., 1.])
    """
    dtype, device = kind_of(model)
    starts, ends = checked_pair(images, replacements, dtype, device)
    results = []
    for image, end, mixture in zip(starts, ends, mixtures_of(model, starts, ends), strict=True):
        if mixture is None:
            pixels = torch.arange(image[0].numel(), device="cpu")
            masks = (some[:, None] == pixels for some in torch.split(pixels, _at_once(image)))
            results.append(_outputs(model, image, end, masks))
        else:
            results.append(mixture.single_outputs().to(image.device))
    return torch.stack(results)


PIXELS_AT_ONCE = 5 * 224 * 224
"""Pixels of the images of one pass: on a CPU larger passes are slower, for page faults."""


def by_forward_passes(
    model: nn.Module,
    image: Float[Tensor, "channels height width"],
    replacement: Float[Tensor, "channels height width"],
    orders: Int[Tensor, "draws pixels"],
    counts: Int[Tensor, " counts"],
) -> Float[Tensor, "draws counts outputs"]:
    """Show the model each image in which the first so many pixels of an order are replaced."""
    places = torch.arange(orders.shape[1], device=orders.device).expand_as(orders)
    when = torch.empty_like(orders).scatter_(1, orders, places)  # of each pixel, its place
    steps = counts.to(orders.device)

    def masks() -> Iterator[Tensor]:
        """All counts of the first order, then of the next."""
        cases = torch.arange(len(orders) * len(steps), device=orders.device)
        for some in torch.split(cases, _at_once(image)):
            draws, indices = some // len(steps), some % len(steps)
            yield when[draws] < steps[indices, None]

    return _outputs(model, image, replacement, masks()).reshape(len(orders), len(counts), -1)


def _at_once(image: Tensor) -> int:
    return max(1, PIXELS_AT_ONCE // image[0].numel())


@torch.no_grad()
def _outputs(
    model: nn.Module, image: Tensor, replacement: Tensor, masks: Iterable[Tensor]
) -> Float[Tensor, "images outputs"]:
    """Outputs for masks (images, P) of pixels that are replaced, batch by batch."""
    outputs = []
    with exact_arithmetic():
        for mask in masks:
            replaced = mask.reshape(-1, 1, *image.shape[1:]).to(image.device)
            images = torch.where(replaced, replacement, image)
            images = images.contiguous(memory_format=torch.channels_last)
            outputs.append(asked(model, images))
    return torch.cat(outputs)


@checked_arguments
def route_of(
    model: nn.Module, image: Real[Tensor, "channels height width"], replacement: Replacement
) -> Route:
    """How `trajectory` evaluates a model on an image and its replacement.

    Parameters
    ----------
    model, image, replacement
        As for `trajectory`.

    Returns
    -------
    Route
        Its `name` is "incremental" or "forward"; its `reason` says why.

    Examples
    --------
    >>> import torch
    >>> import attributionlab as al
    >>> env = al.load("single-color-modulo", image_size=24)
    >>> al.exact.route_of(env.model, env.batch(1)[0][0], 0).name
    'incremental'
    >>> average = torch.nn.Sequential(torch.nn.AvgPool2d(2), torch.nn.Flatten())
    >>> al.exact.route_of(average, torch.ones(1, 2, 2), 0).reason
    'it is not a sequence of nn.Conv2d, nn.Linear, nn.ReLU and nn.Flatten without hooks'
    """
    dtype, device = kind_of(model)
    start, end = checked_pair(image[None], replacement, dtype, device)
    try:
        _mixture(followed_tree(model, start), start[0], end[0])
    except UnservedError as error:
        return Route("forward", str(error))
    return Route("incremental", "every pixel has one path to the outputs, and no sum is rounded")


def followed_tree(model: nn.Module, images: Tensor) -> Tree:
    """A model's layers as they are followed; whether sums are rounded, an image has to show.

    Raises UnservedError if they cannot be.
    """
    if torch.is_autocast_enabled(images.device.type):
        raise UnservedError(
            "autocast is on, so its layers do not compute in the type of their weights"
        )
    chain = chain_of(model)
    if chain is None:
        raise UnservedError(
            "it is not a sequence of nn.Conv2d, nn.Linear, nn.ReLU and nn.Flatten without hooks"
        )
    return tree_of(chain, images.shape[1], (images.shape[2], images.shape[3]))


def mixtures_of(
    model: nn.Module, images: Tensor, replacements: Tensor
) -> Iterator["Mixture | None"]:
    """Each image (B, C, H, W) with its replacement, ready to be followed; None for forward passes.

    An image that is repeated, for another map of it, with the same replacement is prepared once.
    """
    try:
        tree = followed_tree(model, images)
    except UnservedError:
        tree = None
    before: tuple[Tensor, Tensor] | None = None
    mixture = None
    for image, replacement in zip(images, replacements, strict=True):
        repeated = before and torch.equal(image, before[0]) and torch.equal(replacement, before[1])
        if tree is not None and not repeated:
            try:
                mixture = _mixture(tree, image, replacement)
            except UnservedError:
                mixture = None
        before = image, replacement
        yield mixture


def _mixture(tree: Tree, image: Tensor, replacement: Tensor) -> "Mixture":
    # Imported where it is needed: numba takes a second to import.
    from attributionlab.base.exact.stepwise.incremental import mixture_of

    return mixture_of(tree, image.cpu(), replacement.cpu())


def _along(
    mixture: "Mixture", orders: Int[Tensor, "draws pixels"], counts: Int[Tensor, " counts"]
) -> Float[Tensor, "draws counts outputs"]:
    """Outputs along each order, shared by threads."""
    threads = torch.get_num_threads()
    pieces = max(threads, len(orders) * len(counts) // STATES_AT_ONCE)
    some = np.array_split(orders.cpu().numpy(), min(pieces, len(orders)))
    wanted = counts.numpy()
    if threads == 1 or len(some) == 1:
        return torch.cat([mixture.outputs(piece, wanted) for piece in some])
    with ThreadPoolExecutor(min(threads, len(some))) as pool:
        return torch.cat(list(pool.map(lambda piece: mixture.outputs(piece, wanted), some)))
