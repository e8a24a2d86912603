r"""Where DeepSHAP's wrong signs come from: activations that are no modules, baseline, temperature.

Captum's DeepLift (0.9) hooks the modules of a network. An `nn.ReLU` gets the Rescale rule; a call of
`torch.relu` in `forward` gets none and is differentiated as it stands. The same function, written in
the two ways, gets two attributions.
"""

from itertools import product
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.methods import collect_notices, deep_shap
from attributionlab.papers.attributionlab.comparison_plan import COLORS, environment_of
from attributionlab.papers.attributionlab.which_truth import mask_scores
from attributionlab.papers.catalog import Run, Tables
from attributionlab.worlds import Environment
from attributionlab.worlds.truth import Truth

TEMPERATURES = (1.0, 16.0, 256.0)
GAMMA = 0.5
CASE = ("temperature", "relu", "baseline")


class FunctionalReLU(nn.Module):
    """The same network, nested `nn.Sequential` of layers that are shared, not copied, with every
    `nn.ReLU` replaced by a call of `torch.relu`.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        every = (each for _, each in network.named_modules(remove_duplicate=False))
        self.layers = nn.ModuleList(each for each in every if not list(each.children()))
        self.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, K), as the original."""
        for layer in self.layers:
            # A ReLU in the list marks where one stands; it is never called.
            inputs = torch.relu(inputs) if isinstance(layer, nn.ReLU) else layer(inputs)
        return inputs


def deepshap_signs(run: Run) -> Tables:
    """DeepSHAP behind the softmax: module or functional ReLU, zero or true baseline, by temperature.

    Beside F1 of each part of the truth: the completeness gap (share of the output change that the
    attributions miss), the distance from the exact Shapley values (|a - phi| / |phi|, Euclidean), the
    share of relevant pixels with phi's sign, and whether the map is empty or has every sign wrong.
    """
    rows: list[dict[str, Any]] = []
    cases = list(product(("module", "functional"), ("zero", "true")))
    envs = [environment_of(COLORS, run.quick, temperature=each) for each in TEMPERATURES]
    for env, index in run.track(product(envs, range(run.n))):
        sample = env.dataset(run.n, run.seed)[index]
        image, target = sample.image[None], sample.label[None]
        truth = env.truth(image, target)
        exact = env.shapley(sample.image, int(target))[None]
        for relu, baseline in cases:
            maps, gap, multiplier = _deep_shap(env, relu, baseline, image, target)
            case = dict(zip(CASE, (env.temperature, relu, baseline), strict=True))
            found = {"multiplier": multiplier, "completeness_gap": gap}
            rows.append({**case, "sample": index, **found, **_scores(maps, truth, exact)})
    images = pd.DataFrame(rows)
    means = images.drop(columns="sample").groupby(list(CASE), sort=False).mean().reset_index()
    functional = images[images.relu == "functional"]
    signs = functional.groupby(functional.signs_right == 1).multiplier
    multipliers = pd.DataFrame(
        {"maps": signs.size(), "at_most_0": signs.agg(lambda m: (m <= 0).sum())}
    )
    return {
        "means": means,
        "multipliers": multipliers.rename_axis("right_in_every_sign").reset_index(),
        "images": images,
    }


def _deep_shap(
    env: Environment, relu: str, baseline: str, image: Tensor, target: Tensor
) -> tuple[Tensor, float, float]:
    """DeepSHAP's map of an image, the share of the output change that it misses, and by what Captum's
    rule for the softmax multiplies: the change of the target's probability over that of its logit.
    """
    assert env.softmax_model is not None
    model = env.softmax_model if relu == "module" else FunctionalReLU(env.softmax_model)
    start = env.baseline if baseline == "true" else torch.zeros_like(env.baseline)
    with collect_notices() as notices:
        maps = deep_shap(model, image, target, baselines=start).double().sum(1, keepdim=True)
    pair = torch.cat([image, start.expand_as(image)])
    with torch.no_grad():
        changes = [
            net(pair)[:, target].diff(dim=0).item() for net in (env.softmax_model, env.model)
        ]
    multiplier = changes[0] / changes[1] if changes[1] else 0.0
    return maps, next(gap for notice in notices for gap in notice.gaps), multiplier


def _scores(maps: Tensor, truth: Truth, exact: Tensor) -> dict[str, float]:
    """Compare a map with the masks and with the exact Shapley values."""
    signs_right = float((maps.sign() == exact.sign())[truth.overall].double().mean())
    empty = not maps.any()
    return {
        **mask_scores(maps, truth),
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


def some_case_has_the_papers_pattern(tables: Tables) -> bool:
    means = tables["means"].round(2)
    fail = (means[["f1_positive", "f1_negative"]] < GAMMA).all(axis=1)
    return bool(((means.baseline == "zero") & (means.f1_overall >= GAMMA) & fail).any())


def multipliers_explain_wrong_signs(tables: Tables) -> bool | None:
    table = tables["multipliers"].set_index("right_in_every_sign")
    if False not in table.index:
        return None
    explained = table.at_most_0[False] == table.maps[False]
    return bool(explained and table.at_most_0.get(True, 0) == 0)
