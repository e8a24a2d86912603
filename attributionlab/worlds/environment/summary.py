"""What an environment is, in lines of plain text."""

import json
from typing import TYPE_CHECKING

from torch import nn

from attributionlab.worlds.nets.implementations import IMPLEMENTATIONS
from attributionlab.worlds.nets.transformers import heads_of
from attributionlab.worlds.rules.networks import head_size

if TYPE_CHECKING:
    from attributionlab.worlds.environment.environment import Environment
    from attributionlab.worlds.environment.world_set import WorldSet


def summary_of(env: "Environment") -> str:
    """What it computes, from which layers, for which images and how exactly."""
    spec, network, recipe = env.spec, env.network, env.recipe
    weighted = [m for m in env.model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    parameters = sum(parameter.numel() for parameter in env.model.parameters())
    names = {module: name for name, module in env.model.named_modules()}
    rows = {
        "claim": spec.claim,
        "formula": spec.formula,
        "source": spec.source,
        "task": f"{env.task}, {network.classes} output{'s' * (network.classes > 1)}",
        "images": f"{recipe.channels} x {recipe.image_size} x {recipe.image_size}",
        "valid box": f"integers in [0, {env.max_value}]",
        "true baseline": str(recipe.background),
    }
    if env.hidden():
        rows["hidden"] = ", ".join(f"{thing} (1 of {m})" for thing, m in env.hidden().items())
    built = {
        "layers": f"{len(weighted)} with weights, {parameters:,} parameters",
        "largest count": f"{network.max_count:,} (the network is exact up to here)",
        "exactness": network.exactness.replace("grid steps", "grid steps, so float32 is exact"),
        "attach": ", ".join(f"{k}: model.{names[layer]}" for k, layer in env.layers.items()),
        "smoothed truth": f"Gaussian, sigma {env.smoothing_sigma:g} pixels",
    }
    if env.rule:
        built["behind the counts"] = str(head_size(network))
    if env.temperature is not None:
        built["temperature"] = f"{env.temperature:g}"
    if env.implementation in IMPLEMENTATIONS:
        line = IMPLEMENTATIONS[env.implementation].line
        built["implementation"] = f"{env.implementation}: {line}"
    for number, head in enumerate(heads_of(env.model), start=1):
        built[f"head {number} of {head.grid} x {head.grid}"] = str(head)
    stated = {name: json.dumps(value) for name, value in spec.constants.items()}
    stated |= {name: f"{value:g} in force" for name, value in network.effective.items()}
    parts = {"": rows, "how its network is built": built, "constants of its files": stated}
    lines = [env.name]
    for heading, part in parts.items():
        lines += [f"\n{heading}"] * bool(heading)
        lines += [f"  {key:<20} {value}" for key, value in part.items()]
    return "\n".join([*lines, f"  {'spec':<20} {spec.digest[:16]}"])


def summary_of_worlds(worlds: "WorldSet") -> str:
    """What random worlds are, and the rule of each."""
    hidden = ", ".join(f"{thing} (1 of {m})" for thing, m in worlds.hidden().items())
    rows = {
        "claim": worlds.spec.claim,
        "task": f"{worlds.task}, 1 output",
        "images": " x ".join(map(str, worlds.image_shape)),
        "hidden": hidden or "nothing that is hidden in every world",
        **{env.name: f"{env.rule} ({', '.join(env.features or ())})" for env in worlds.worlds},
        "spec": worlds.spec.digest[:16],
    }
    width = max(map(len, rows))
    return "\n".join([worlds.name, *(f"  {key:<{width}} {value}" for key, value in rows.items())])
