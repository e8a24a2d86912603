"""Extremal perturbations: the region of a given area whose sight alone raises an output the most."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.declaration import declares
from attributionlab.methods.entry import checked
from attributionlab.methods.findings import Notice, notify
from attributionlab.methods.masking import SmoothMask, area_gap, blur_pyramid, blurred
from attributionlab.validation import MOST_ROUNDS, boolean_problem, integer_problem, number_problem

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
    "gradient at all (in up to {worst} of them), as where a blur turns colors into unseen ones"
)
REMEDY = (
    "; pass normalized=True (on the command line --set normalized=True) to begin with the image "
    "itself"
)


@checked
@declares(claim="positive", output="logit", runs=2)
def extremal_perturbation(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    area: float = 0.1,
    iterations: int = 800,
    sigma: float | None = None,
    step: int | None = None,
    blur_sigma: float | None = None,
    normalized: bool = True,
    area_weight: float = 300.0,
    output_weight: float = 1.0,
    learning_rate: float = 0.01,
    nudge: int = 0,
) -> Tensor:
    r"""The smooth mask of a given area that keeps the output largest where all else is blurred.

    .. math::
        \min_c \; 1.0035^i \, \lambda \, R_a(m) - w f_t(blurred(x, m)), \qquad m = smooth(c), \quad
        0 \le c \le 1

    in iteration i, with the operators of `SmoothMask`, `area_gap` and `blurred` (eight levels). Cells c
    start at 1 and are clamped to [0, 1] after every step of a gradient descent with momentum and
    dampening 0.9. The attribution is the mask after the last step.

    What is maximized (the authors' preservation game) is the output as it is. For a class it is the
    logit by default, as a probability's gradient is weaker still against the area. For a regression (K
    = 1) it is the output itself, as AttributionLab does for modulo, where a high remainder is no more
    present than a low one. The authors' :math:`\lambda` suits trained networks, whose logits are of
    order 10; counts are of order 1000. Nothing is rescaled: `output_weight` is w.

    Source: Fong et al., 2019, written here from the paper. Where that leaves a choice open: its
    lengths (21 for the mask, 20 for the blur) are in pixels at 224 and scale with the shorter side;
    cells, at distances of a third of the mask's sigma (7 at 224), lie within the image only; levels of
    blur are equally spaced; edge pixels continue outside the image.

    Shows where the image must be seen for the output, in blobs of one area that is chosen beforehand
    and not found: what is relevant is lost if it is larger, what is not is included if it is smaller.
    Counts outweigh the area at first, and the mask may end larger than asked for. Claims the positive
    truth: a mask has no sign.

    The authors begin with a mask of 1, which their smooth maximum of cells of 1 is not quite
    (`SmoothMask`): it blurs the image a little from the start. A network that reacts to exact colors
    then sees none of its colors, has no gradient, and the area alone shapes the mask. Masks are
    therefore `normalized`, which the paper's formula does not say; where the output has no gradient
    nevertheless, the result says so.

    Nothing is drawn, but the descent amplifies rounding: another kernel or processor ends with another
    mask. `nudge` shows how much that is worth. Runs that differ in it alone differ in what is rounded.

    Costs `iterations` forward and backward passes.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    area : float
        Share of the image in (0, 1] that the mask is to keep.
    iterations : int
        Steps of the descent.
    sigma : float, optional
        Scale of the mask's kernel, in pixels; 21/224 of the shorter side by default.
    step : int, optional
        Pixels from cell to cell; a third of sigma, rounded, by default.
    blur_sigma : float, optional
        Where the mask is 0, in pixels; 20/224 of the shorter side by default.
    normalized : bool
        Divide masks by what cells of 1 give (`SmoothMask`), so that the first one keeps the whole
        image; False for the formula to the letter.
    area_weight : float
        :math:`\lambda`.
    output_weight : float
        w.
    learning_rate : float
        Of the descent.
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
    weights = {"area_weight": area_weight, "output_weight": output_weight}
    positive = {"sigma": sigma, "blur_sigma": blur_sigma, "learning_rate": learning_rate}
    problems = _problems(area, iterations, step, nudge, normalized, weights, positive)
    refuse_if(problems, "extremal-perturbation")
    step = max(1, round(sigma / CELLS_PER_SIGMA)) if step is None else int(step)

    rate = learning_rate * (1 + nudge * NUDGE)

    def optimize(images: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        smooth = SmoothMask(images, sigma, step, normalized)
        pyramid = blur_pyramid(images, blur_sigma, LEVELS)
        cells = images.new_ones((len(images), *smooth.grid), requires_grad=True)
        optimizer = torch.optim.SGD([cells], lr=rate, momentum=MOMENTUM, dampening=MOMENTUM)
        blind = torch.zeros(len(images), device=images.device)
        for iteration in range(iterations):
            masks = smooth(cells)
            growing, seen = _gradients(model, pyramid, masks, chosen, area)
            blind += ~seen
            direction = area_weight * GROWTH**iteration * growing[0] - output_weight * growing[1]
            (cells.grad,) = torch.autograd.grad(masks, cells, direction)
            optimizer.step()
            with torch.no_grad():
                cells.clamp_(0, 1)
        return smooth(cells.detach()), blind / iterations

    def run(batch: int) -> tuple[Tensor, Tensor]:
        pairs = zip(torch.split(inputs, batch), torch.split(targets, batch), strict=True)
        results = [optimize(images, chosen) for images, chosen in pairs]
        return torch.cat([masks for masks, _ in results]), torch.cat(
            [blind for _, blind in results]
        )

    batch = images_at_once(model, inputs)
    masks, blind = in_smaller_batches(run, min(batch, len(inputs)), "extremal-perturbation")
    text = BLIND if normalized else BLIND + REMEDY
    notify(Notice(text, int((blind >= 0.5).sum()), worst=float(blind.max())))
    return masks


def _gradients(
    model: nn.Module,
    pyramid: Float[Tensor, "levels batch channels height width"],
    masks: Float[Tensor, "batch 1 height width"],
    targets: Int[Tensor, " batch"],
    area: float,
) -> tuple[tuple[Tensor, Tensor], Bool[Tensor, " batch"]]:
    """How the area's gap and the output change with the mask, and whether the output does at all.

    The images' terms do not touch each other: the gradient of their sum is each one's own.
    """
    kept = masks.detach().requires_grad_()
    outputs = model(blurred(pyramid, kept)).gather(1, targets[:, None])
    (of_output,) = torch.autograd.grad(outputs.sum(), kept)
    (of_gap,) = torch.autograd.grad(area_gap(kept, area).sum(), kept)
    return (of_gap, of_output), of_output.flatten(1).any(dim=1)


def _problems(
    area: float,
    iterations: int,
    step: int | None,
    nudge: int,
    normalized: bool,
    weights: dict[str, float],
    positive: dict[str, float],
) -> list[str]:
    problems = number_problem("area", area, above=0, most=1)
    problems += integer_problem("iterations", iterations, 1, MOST_ROUNDS)
    problems += [] if step is None else integer_problem("step", step, 1)
    problems += integer_problem("nudge", nudge, 0)
    problems += boolean_problem("normalized", normalized)
    for name, value in weights.items():
        problems += number_problem(name, value, least=0)
    for name, value in positive.items():
        problems += number_problem(name, value, above=0)
    return problems
