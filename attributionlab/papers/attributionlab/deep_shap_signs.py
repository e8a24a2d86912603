r"""Where DeepSHAP's wrong signs come from: activations that are no modules, baseline, temperature.

Captum's DeepLift (0.9) hooks the modules of a network. An `nn.ReLU` gets the Rescale rule; a call of
`torch.relu` in `forward` gets none and is differentiated as it stands. The same function, written in
the two ways, gets two attributions.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor, nn

from attributionlab.environment import Environment
from attributionlab.methods import deep_shap, heard
from attributionlab.metrics import Part, alignment, magnitudes, normalize
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.truth import Truth

if TYPE_CHECKING:
    import pandas as pd

ENVIRONMENT = "multi-color-sum"
TEMPERATURES = (1.0, 16.0, 256.0)
GAMMA = 0.5
CASE = ("temperature", "relu", "baseline")


class FunctionalReLU(nn.Module):
    """The same network with every `nn.ReLU` replaced by a call of `torch.relu`.

    Parameters
    ----------
    network : nn.Module
        Nested `nn.Sequential` of layers; they are shared, not copied.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_layers(network))
        self.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, K), as the original."""
        for layer in self.layers:
            # A ReLU in the list marks where one stands; it is never called.
            inputs = torch.relu(inputs) if isinstance(layer, nn.ReLU) else layer(inputs)
        return inputs


def _layers(network: nn.Module) -> Iterator[nn.Module]:
    children = list(network.children())
    if not children:
        yield network
    for child in children:
        yield from _layers(child)


def deepshap_signs(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """DeepSHAP behind the softmax: module or functional ReLU, zero or true baseline, by temperature.

    Beside precision, recall and F1 of each part of the truth: the completeness gap (share of the output
    change that the attributions miss), the distance from the exact Shapley values
    (|a - phi| / |phi|, Euclidean), the share of relevant pixels with phi's sign, and whether the map is
    empty or has every sign wrong.

    Parameters
    ----------
    n : int, optional
        Images; 16, or 2 in a quick run, by default.
    quick : bool
        Images of 72 x 72 pixels.
    seed : int
        Of the images.
    show_progress : bool
        Show progress on standard error.
    """
    import pandas as pd

    n = n or (2 if quick else 16)
    rows: list[dict[str, Any]] = []
    cases = [(relu, baseline) for relu in ("module", "functional") for baseline in ("zero", "true")]
    envs = [environment_of(ENVIRONMENT, quick, temperature=each) for each in TEMPERATURES]
    work = [(env, index) for env in envs for index in range(n)]
    for env, index in track(work, len(work), "deepshap-signs", show_progress):
        sample = env.dataset(n, seed)[index]
        image, target = sample.image[None], sample.label[None]
        truth = env.truth(image, target)
        exact = env.shapley(sample.image, int(target))[None]
        for relu, baseline in cases:
            maps, gap, multiplier = _deep_shap(env, relu, baseline, image, target)
            case = dict(zip(CASE, (env.temperature, relu, baseline), strict=True))
            found = {"multiplier": multiplier, "completeness_gap": gap}
            rows.append({**case, "sample": index, **found, **_scores(maps, truth, exact)})
    images = pd.DataFrame(rows)
    table = images.drop(columns="sample").groupby(list(CASE), sort=False).mean().reset_index()
    return Reproduction(
        "deepshap-signs",
        "DeepSHAP's signs: module or functional ReLU, baseline, temperature",
        {"means": table, "images": images},
        {},
        _findings(table, images, n),
    )


def _deep_shap(
    env: Environment, relu: str, baseline: str, image: Tensor, target: Tensor
) -> tuple[Tensor, float, float]:
    """DeepSHAP's map of an image, the share of the output change that it misses, and by what Captum's
    rule for the softmax multiplies: the change of the target's probability over that of its logit.
    """
    assert env.softmax_model is not None
    model = env.softmax_model if relu == "module" else FunctionalReLU(env.softmax_model)
    start = env.baseline if baseline == "true" else torch.zeros_like(env.baseline)
    with heard() as findings:
        maps = deep_shap(model, image, target, baselines=start).double().sum(1, keepdim=True)
    pair = torch.cat([image, start.expand_as(image)])
    with torch.no_grad():
        changes = [
            net(pair)[:, target].diff(dim=0).item() for net in (env.softmax_model, env.model)
        ]
    multiplier = changes[0] / changes[1] if changes[1] else 0.0
    return maps, next(gap for finding in findings for gap in finding.gaps), multiplier


def _scores(maps: Tensor, truth: Truth, exact: Tensor) -> dict[str, float]:
    """What a map is worth against the masks and against the exact Shapley values."""
    scored = normalize(maps)
    signs_right = float((maps.sign() == exact.sign())[truth.overall].double().mean())
    empty = not maps.any()
    return {
        **{
            f"f1_{part}": float(alignment(magnitudes(scored, part), getattr(truth, part)).f1)
            for part in get_args(Part)
        },
        "empty": float(empty),
        "flipped": float(not empty and signs_right == 0),
        "signs_right": signs_right,
        "shapley_error": float((maps - exact).norm() / exact.norm()),
        "target_to_others": _ratio(maps, truth),
        "target_to_others_exact": _ratio(exact, truth),
    }


def _ratio(maps: Tensor, truth: Truth) -> float:
    """Mean attribution of the target's pixels over that of the other colors'."""
    others = float(maps[truth.negative].mean())
    return float(maps[truth.positive].mean()) / others if others else float("nan")


def _findings(table: "pd.DataFrame", images: "pd.DataFrame", n: int) -> list[str]:
    """What the table says about the paper's pattern, with the cases that show it."""
    shown = table.round({f"f1_{part}": 2 for part in get_args(Part)})
    signs_fail = (shown[["f1_positive", "f1_negative"]] < GAMMA).all(axis=1)
    alike = shown[(shown.f1_overall >= GAMMA) & signs_fail]
    functional = table[table.relu == "functional"]
    maps = images[images.relu == "functional"]
    right, wrong = maps[maps.signs_right == 1], maps[maps.signs_right < 1]
    best = table[(table.relu == "module") & (table.baseline == "true")]
    return [
        "The paper: DeepSHAP with an all-zero baseline passes overall (F1 of at least 0.5) and fails "
        "on positive and on negative truth.",
        f"In our reimplementation this pattern appears for {_cases(alike) or 'none of the cases'}.",
        "By Captum's rule for the softmax (0.9.0) a map is multiplied by the change of the target's "
        "probability over the change of its logit, and the mean over the K units is subtracted: K - 1 "
        "parts for the target, -1 for each other class (column target_to_others; the exact Shapley "
        "values' ratio is beside it). Where the two changes have opposite signs the whole map is "
        "reversed, where the probability does not change it is empty.",
        f"With functional ReLUs up to {functional['empty'].max() * n:.0f} of {n} maps are empty and "
        f"up to {functional.flipped.max() * n:.0f} wrong in every sign. Of the {len(wrong)} maps in "
        f"all cases that are not right in every sign {(wrong.multiplier <= 0).sum()} have a multiplier "
        f"of at most 0, of the {len(right)} that are {(right.multiplier <= 0).sum()}. The maps miss "
        f"{functional.completeness_gap.min():.1f} to {functional.completeness_gap.max():.1f} times the "
        "output change.",
        "With module ReLUs and the true baseline F1 is at least "
        f"{best[['f1_overall', 'f1_positive', 'f1_negative']].to_numpy().min():.2f} on every mask at "
        f"every temperature, and {best.completeness_gap.min():.0%} to "
        f"{best.completeness_gap.max():.0%} of the output change are missed: masks state signs, not "
        "sizes.",
        "The paper states neither its implementation nor its temperature: a case that shows the "
        "pattern is sufficient for it, which is not to say that it happened so.",
    ]


def _cases(table: "pd.DataFrame") -> str:
    return "; ".join(
        f"{row.relu} ReLU, {row.baseline} baseline, temperature {row.temperature:g} (F1 overall / "
        f"positive / negative {row.f1_overall:.2f} / {row.f1_positive:.2f} / {row.f1_negative:.2f})"
        for row in table.itertuples()
    )
