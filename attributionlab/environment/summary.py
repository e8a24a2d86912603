"""An environment in words."""

import json
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from attributionlab.environment.environment import Environment

__all__ = ["described"]


def described(env: "Environment") -> str:
    """What an environment computes, from which layers, for which images and how exactly."""
    spec, network, recipe = env.spec, env.network, env.recipe
    weighted = [m for m in env.model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    parameters = sum(parameter.numel() for parameter in env.model.parameters())
    tightest = max(network.budgets, key=lambda budget: budget.steps)
    names = {module: name for name, module in env.model.named_modules()}
    rows = {
        "claim": spec.claim,
        "formula": spec.formula,
        "source": spec.source,
        "task": f"{env.task}, {network.classes} output{'s' * (network.classes > 1)}",
        "layers": f"{len(weighted)} with weights, {parameters:,} parameters",
        "images": f"{recipe.channels} x {recipe.image_size} x {recipe.image_size}",
        "valid box": f"integers in [0, {env.max_value}]",
        "true baseline": str(recipe.background),
        "largest count": f"{network.max_count:,} (the network is right up to here)",
        "exactness": f"{tightest.layer} needs {tightest.steps:,.0f} of 2^24 grid steps",
        "attach": ", ".join(f"{k}: model.{names[layer]}" for k, layer in env.layers.items()),
        "smoothed truth": f"Gaussian, sigma {env.smoothing_sigma:g} pixels",
    }
    if env.temperature is not None:
        rows["temperature"] = f"{env.temperature:g}"
    rows |= {f"  {name}": _shown(value) for name, value in spec.constants.items()}
    rows |= {name: f"{value:g} in force" for name, value in network.effective.items()}
    rows["spec"] = spec.digest[:16]
    return "\n".join([env.name, *(f"  {key:<20} {value}" for key, value in rows.items())])


def _shown(value: Any) -> str:
    """A constant as TOML would have it."""
    return json.dumps(value)
