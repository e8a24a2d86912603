r"""Extremal perturbations: the region of a given area whose sight alone raises an output the most.

A mask is made of cells on a coarse grid, which a kernel and a maximum smooth over the image; it keeps
the image where it is 1, and blurs it where it is 0.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attributionlab.base import (
    AttributionLabError,
    NotNegative,
    Positive,
    Rounds,
    Share,
    Side,
    Sigma,
    Within,
    refuse_beyond_memory,
)
from attributionlab.methods.baselines import blur_pyramid
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.notices import Notice, notify

LN_2 = math.log(2)
COLDNESS = 20.0
"""1/T of the smooth maximum; at a temperature of 0 it is the maximum."""
REACH = 2.0
"""Cells farther than this many sigma do not count: the kernel is below 1.2 % there."""
CACHED = 2**17
"""Numbers of one kind that a processor's cache holds beside others."""
ABSENT = -1e4
"""An exponent, or the value of a cell, that gives a weight of 0 wherever the kernel is not 0."""


class SmoothMask:
    r"""Smooth masks from coarse ones, of the size, type and device of `images`.

    .. math::
        m(u) = \frac{\sum_j v_j e^{20 v_j}}{\sum_j e^{20 v_j}}, \qquad v_j = k(|u - p_j|) \, c_j, \qquad
        k(d) = e^{-2 \max(0, \, d / \sigma - 1/2)^2}

    over the cells j whose position :math:`p_j` lies within 2 sigma (in pixels) of the pixel u. Cells
    lie in the middle of blocks of `step` x `step` pixels that cover the image from its upper left
    corner on; there are none outside the image. Masks that are `normalized` are divided by the one that
    cells of 1 give, and cut off at 1. At a sigma of 21 and a step of 7 that one is 0.985 to 0.996: the
    smooth maximum counts cells farther off, too.
    """

    def __init__(self, images: Tensor, sigma: float, step: int, normalized: bool = False) -> None:
        (height, width), self.step = images.shape[2:], step
        self.size = (height, width)
        if math.hypot(step - 1, step - 1) / 2 > REACH * sigma:
            raise AttributionLabError(
                f"extremal-perturbation: step is {step} and sigma {sigma:g}: some pixels are farther "
                f"than {REACH:g} sigma from all cells: take a smaller step or a larger sigma"
            )
        self.grid = (-(-height // step), -(-width // step))
        self.radius = math.ceil((REACH * sigma + step / 2) / step)
        refuse_beyond_memory(
            32 * (2 * self.radius + 1) ** 2 * step**2,
            f"extremal-perturbation: sigma is {sigma:g} and step {step}: a mask's kernel",
            "take a smaller one",
            images.device,
        )
        within = np.arange(step) - (step - 1) / 2  # of the pixels of a block, from its middle
        self.shifts: list[tuple[int, int]] = []
        kernels = []
        for down in range(-self.radius, self.radius + 1):
            for right in range(-self.radius, self.radius + 1):
                distance = np.hypot(
                    (step * down - within)[:, None], (step * right - within)[None]
                ).ravel()
                if distance.min() <= REACH * sigma:
                    self.shifts.append((down + self.radius, right + self.radius))
                    kernel = np.exp(-2 * np.maximum(0, distance / sigma - 0.5) ** 2)
                    kernels.append(np.where(distance <= REACH * sigma, kernel, 0))
        # (shifts, step^2, 1): what a cell's value is multiplied by, and what is added, to give the
        # base-2 exponent 20 v / ln 2 of its weight.
        self.down, self.right = torch.tensor(self.shifts, device=images.device).T
        kernel = np.stack(kernels)[:, :, None]
        self.kernels = torch.as_tensor(kernel).to(images)
        self.slopes = torch.as_tensor(COLDNESS / LN_2 * kernel).to(images)
        self.offsets = torch.as_tensor(np.where(kernel > 0, 0, ABSENT)).to(images)
        self.full = self._smooth(images.new_ones((1, *self.grid))) if normalized else None

    def __call__(
        self, cells: Float[Tensor, "batch rows columns"]
    ) -> Float[Tensor, "batch 1 height width"]:
        """Masks from cells, both in [0, 1]; differentiable once."""
        masks = self._smooth(cells)
        if self.full is None:
            return masks
        masks = masks / self.full
        # Not clamp: from torch 2.14 on it has no gradient at its bound, where every mask begins.
        return torch.where(masks > 1, 1.0, masks)

    def _smooth(self, cells: Tensor) -> Tensor:
        blocks: Tensor = _Smoothing.apply(cells, self)  # type: ignore[no-untyped-call]
        whole = F.pixel_shuffle(
            blocks.reshape(-1, *cells.shape).transpose(0, 1).contiguous(), self.step
        )
        return whole[:, :, : self.size[0], : self.size[1]]

    def neighbors(self, cells: Tensor) -> Float[Tensor, "shifts 1 cells"]:
        """For each shift the cells that far from every cell."""
        found = self.windows(F.pad(cells, (self.radius,) * 4, value=ABSENT))
        return found[:, self.down, self.right].transpose(0, 1).reshape(len(self.shifts), 1, -1)

    def windows(self, padded: Tensor) -> Float[Tensor, "batch down right rows columns"]:
        """All windows of the grid's size in padded cells, by the row and column where they begin."""
        rows, columns = self.grid
        return padded.unfold(1, rows, 1).unfold(2, columns, 1)

    def weights(
        self, cells: Tensor
    ) -> Iterator[
        tuple[slice, Float[Tensor, "some places cells"], Float[Tensor, "some places cells"]]
    ]:
        """Some shifts at a time, as many as fit a processor's cache: their exponents and weights.

        Maps are (step^2, B * rows * columns): a pixel by its place in its block, and the blocks. Powers
        are those of 2, which are faster than those of e. A caller may write into what it gets.
        """
        neighbors, places = self.neighbors(cells), self.step**2
        some = max(1, CACHED // (places * cells.numel()))
        exponents = cells.new_empty(some, places, cells.numel())
        weights = torch.empty_like(exponents)
        for start in range(0, len(self.shifts), some):
            taken = slice(start, start + some)
            exponent, weight = (each[: len(neighbors[taken])] for each in (exponents, weights))
            torch.mul(self.slopes[taken], neighbors[taken], out=exponent).add_(self.offsets[taken])
            torch.exp2(exponent, out=weight)
            yield taken, exponent, weight


class _Smoothing(torch.autograd.Function):
    """The smooth maximum. Shifts are added one after the other: a sum in another order is rounded
    otherwise, and the descent would end with another mask.
    """

    @staticmethod
    def forward(ctx: Any, cells: Tensor, masks: SmoothMask) -> Tensor:
        total = cells.new_zeros(masks.step**2, cells.numel())
        weighted = torch.zeros_like(total)
        for _, exponents, weights in masks.weights(cells):
            for exponent, weight in zip(exponents, weights, strict=True):
                total += weight
                weighted.addcmul_(weight, exponent)
        mask = weighted.div_(total).mul_(LN_2 / COLDNESS)
        ctx.masks = masks
        ctx.save_for_backward(cells, mask, total)
        return mask

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # dm / dv_j = e^{20 v_j} (1 - 20 m + 20 v_j) / total
        cells, mask, total = ctx.saved_tensors
        masks: SmoothMask = ctx.masks
        share = gradients[0] / total
        constant = share * (1 - COLDNESS * mask)
        share = share * LN_2
        padded = F.pad(torch.zeros_like(cells), (masks.radius,) * 4)
        neighbors = masks.windows(padded)
        for taken, exponents, weights in masks.weights(cells):
            changes = torch.addcmul(constant, share, exponents, out=exponents).mul_(weights)
            of_cells = masks.kernels[taken].transpose(1, 2) @ changes
            for change, (down, right) in zip(of_cells, masks.shifts[taken], strict=True):
                neighbors[:, down, right].add_(change.view_as(cells))
        return neighbors[:, masks.radius, masks.radius], None


def area_gap(masks: Float[Tensor, "batch 1 height width"], area: float) -> Float[Tensor, " batch"]:
    r"""How far masks in [0, 1] are from covering an area fully and nothing else.

    .. math:: R_a(m) = \frac{1}{HW} \lVert sort(m) - r_a \rVert^2

    with :math:`r_a` the sorted mask that is 1 on the share `area` of its pixels (rounded to whole
    ones) and 0 on the others. Where pixels tie for a place among them, as all do at first, each gets
    its share of the gradient; a sorting algorithm would prefer some by their place in the image.
    """
    flat = masks.flatten(1)
    pixels = flat.shape[1]
    outside = pixels - round(area * pixels)
    if outside == 0:
        return ((1 - flat) ** 2).mean(1)
    with torch.no_grad():
        threshold = flat.kthvalue(outside, dim=1, keepdim=True).values
        below, tied = flat < threshold, flat == threshold
        missing = outside - below.sum(1, keepdim=True)
        hidden = below + tied * (missing / tied.sum(1, keepdim=True))  # how much of it is to be 0
    return (hidden * flat**2 + (1 - hidden) * (1 - flat) ** 2).mean(1)


def blurred(
    pyramid: Float[Tensor, "levels batch channels height width"],
    masks: Float[Tensor, "batch 1 height width"],
) -> Float[Tensor, "batch channels height width"]:
    """Images kept where a mask is 1 and blurred the more, the smaller it is.

    A pixel is interpolated linearly between the two levels of the pyramid next to 1 - m of its height.
    """
    height = len(pyramid) - 1
    depth = (1 - masks) * height
    above = depth.detach().floor().clamp(0, height - 1)
    index = above.long()[None].expand(1, *pyramid.shape[1:])
    first, second = pyramid.gather(0, index)[0], pyramid.gather(0, index + 1)[0]
    return torch.lerp(first, second, (depth - above).expand_as(first))


SIDE = 224
"""The authors' lengths are pixels of images of this side."""
MASK_SIGMA, BLUR_SIGMA, LEVELS = 21.0, 20.0, 8
CELLS_PER_SIGMA = 3
GROWTH = 1.0035
"""Factor of the area's weight from one iteration to the next."""
MOMENTUM = 0.9
NUDGE = 2.0**-22
BLIND = (
    "are masks that hardly depend on the image: for at least half of the iterations the output had no "
    "gradient (in up to {worst} of them), for example because a blur turns colors into unseen ones"
)
REMEDY = "; pass normalized=True (--set normalized=True) to start from the image itself"


@checked
@declares(claim="positive", output="logit", images=True, runs=2)
def extremal_perturbation(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    area: Share = 0.1,
    iterations: Rounds = 800,
    sigma: Sigma | None = None,
    step: Side | None = None,
    blur_sigma: Sigma | None = None,
    normalized: bool = True,
    area_weight: NotNegative = 300.0,
    output_weight: NotNegative = 1.0,
    learning_rate: Positive = 0.01,
    nudge: Annotated[int, Within(least=0, most=2**22)] = 0,
) -> Tensor:
    r"""The smooth mask of a given area that maximizes the output when the rest of the image is blurred.

    .. math::
        \min_c \; 1.0035^i \, \lambda \, R_a(m) - w f_t(blurred(x, m)), \qquad m = smooth(c), \quad
        0 \le c \le 1

    in iteration i, with the operators of `SmoothMask`, `area_gap` and `blurred` (eight levels). Cells c
    start at 1 and are clamped to [0, 1] after every step of a gradient descent with momentum and
    dampening 0.9. The attribution is the mask after the last step.

    The unmodified output is maximized (the authors' preservation game). For a class this is the logit
    by default, because the gradient of a probability is even weaker compared with the area. For a
    regression (K = 1) it is the output itself, as in AttributionLab for modulo, although a high
    remainder is no more present than a low one. The authors' :math:`\lambda` suits trained networks,
    whose logits are of order 10; counts are of order 1000. Nothing is rescaled: `output_weight` is w.

    Source: Fong et al., 2019, written from the paper. Choices that it leaves open: lengths (21 for the
    mask, 20 for the blur) are in pixels at 224 and scale with the shorter side; cells, at distances of
    a third of the mask's sigma (7 at 224), lie only within the image; levels of blur are equally
    spaced; edge pixels continue outside the image.

    Shows which parts of the image the output needs, in blobs of a total area that is chosen in advance,
    not found: if the relevant area is larger, parts are missing; if it is smaller, irrelevant pixels
    are included. Counts outweigh the area at first, and the mask may end up larger than requested.
    Claims the positive truth: a mask has no sign.

    The authors start from a mask of 1, but their smooth maximum of cells of 1 is slightly below 1
    (`SmoothMask`) and blurs the image a little from the start. A network that responds to exact colors
    then sees none of its colors and has no gradient, and only the area shapes the mask. Masks are
    therefore `normalized`, unlike in the paper's formula; if the output still has no gradient, there is
    a warning.

    The method is deterministic, but the descent amplifies rounding: another kernel or processor ends
    with another mask. `nudge` shows how much this matters: runs that differ only in it differ in
    rounding.

    Costs `iterations` forward and backward passes.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    area : float
        Share of the image in (0, 1] that the mask should keep.
    iterations : int
        Steps of the descent.
    sigma : float, optional
        Scale of the mask's kernel, in pixels; 21/224 of the shorter side by default.
    step : int, optional
        Pixels from cell to cell; a third of sigma, rounded, by default.
    blur_sigma : float, optional
        Blur where the mask is 0, in pixels; 20/224 of the shorter side by default.
    normalized : bool
        Divide masks by the result for cells of 1 (`SmoothMask`), so that the first one keeps the whole
        image; False for the paper's exact formula.
    area_weight : float
        :math:`\lambda`.
    output_weight : float
        w.
    learning_rate : float
        Learning rate of the descent.
    nudge : int
        The learning rate is multiplied by 1 + nudge * 2^-22: four times what rounding may do to it.

    Returns
    -------
    Tensor, (B, 1, H, W)
        The mask, in [0, 1].

    Raises
    ------
    AttributionLabError
        For settings out of range.
    """
    side = min(inputs.shape[2:])
    sigma = MASK_SIGMA * side / SIDE if sigma is None else sigma
    blur_sigma = BLUR_SIGMA * side / SIDE if blur_sigma is None else blur_sigma
    step = max(1, round(sigma / CELLS_PER_SIGMA)) if step is None else step

    rate = learning_rate * (1 + nudge * NUDGE)

    def optimize(images: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        # Powers of the smooth maximum are beyond half precision.
        exact = images.float() if images.dtype.itemsize < 4 else images
        smooth = SmoothMask(exact, sigma, step, normalized)
        pyramid = blur_pyramid(exact, blur_sigma, LEVELS)
        cells = exact.new_ones((len(images), *smooth.grid), requires_grad=True)
        optimizer = torch.optim.SGD([cells], lr=rate, momentum=MOMENTUM, dampening=MOMENTUM)
        blind = torch.zeros(len(images), device=images.device)
        for iteration in range(iterations):
            masks = smooth(cells)
            # The images' terms do not touch each other: the gradient of their sum is each one's own.
            kept = masks.detach().requires_grad_()
            outputs = model(blurred(pyramid, kept).to(images)).gather(1, chosen[:, None])
            (of_output,) = torch.autograd.grad(outputs.sum(), kept)
            (of_gap,) = torch.autograd.grad(area_gap(kept, area).sum(), kept)
            blind += ~of_output.flatten(1).any(dim=1)
            direction = area_weight * GROWTH**iteration * of_gap - output_weight * of_output
            (cells.grad,) = torch.autograd.grad(masks, cells, direction)
            optimizer.step()
            with torch.no_grad():
                cells.clamp_(0, 1)
        return smooth(cells.detach()).to(images), blind / iterations

    def run(batch: int) -> tuple[Tensor, Tensor]:
        pairs = zip(torch.split(inputs, batch), torch.split(targets, batch), strict=True)
        results = [optimize(images, chosen) for images, chosen in pairs]
        masks, blind = (torch.cat(each) for each in zip(*results, strict=True))
        return masks, blind

    batch = images_at_once(model, inputs)
    masks, blind = in_smaller_batches(run, min(batch, len(inputs)), "extremal-perturbation")
    text = BLIND if normalized else BLIND + REMEDY
    notify(Notice(text, int((blind >= 0.5).sum()), worst=float(blind.max())))
    return masks
