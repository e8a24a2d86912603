"""Section 4.1 and Figure 10 of Hesse et al. (2024): does fine-tuning change what a network uses?"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int64
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import Numbers, mean_score, paired_difference
from attributionlab.methods import (
    METHODS,
    channels_first,
    collect_notices,
    find_layer,
    layout_of,
    observe,
)
from attributionlab.papers.answers import above, decided, mean_ends
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.idsds.training import (
    Images,
    Labels,
    Pair,
    given_pair,
    task_named,
    trained_pairs,
)
from attributionlab.papers.subjects.networks import Design, gradcam_layer
from attributionlab.papers.subjects.subjects import OwnNetwork
from attributionlab.show import dots, map_grid

Excited = Float[Tensor, "batch kernels"]

AT_ONCE = 64
ORIGINAL, TUNED = "original", "fine-tuned"
FAMILIES = {"residual": Design("residual", batch_norm=True), "plain": Design("plain")}
SELF, AGAIN = "its fine-tuned self", "another training of it"
"""How names of comparisons end."""
STRONGEST, DRAWN = 8, 2
"""Images that count as exciting a channel most; channels of each network that are drawn."""
MEASURES = {
    "output": "difference of the label's probability",
    "map": "difference of GradCAM's maps",
}
PUBLISHED = {
    (f"residual and {SELF}", "output"): 0.049,
    (f"residual and {SELF}", "map"): 0.047,
    (f"plain and {SELF}", "output"): 0.028,
    (f"plain and {SELF}", "map"): 0.039,
    ("residual and plain", "output"): 0.133,
    ("residual and plain", "map"): 0.193,
}
"""The paper's numbers for ResNet-50 and VGG-16 on ImageNet."""


View = dict[str, Tensor]
"""What is compared of a network: "output", (B,), the label's probability; with a layer also "map",
(B, 1, H, W), GradCAM's of the label's logit, the positive part divided by its maximum, 0 where there is
none, and "excited", the layer's `excitations`. "right", (B,), tells where the label wins."""


def similarity(
    run: Run,
    *,
    training: int,
    epochs: int,
    fine_tuning: int,
    runs: int,
    task: str = "pictures",
    fine_tuned: str | None = None,
    layer: str | None = None,
    **own: Unpack[OwnNetwork],
) -> Found:
    """Compare networks before and after fine-tuning with each other and with other networks.

    `task` is "pictures" or "colors". A network of one's own is compared with its fine-tuned self
    instead where `images` and `model` are given (`given_pair`); `layer` is the dotted name of its
    last convolution, without which outputs alone are compared.
    """
    given = given_pair(run, fine_tuned, layer, **own)
    views: dict[tuple[str, str], list[View]] = {}
    if given is not None:
        subject, tuned = given
        assert tuned is not None
        shown, labels, families = subject.images, subject.targets, [subject.name]
        pairs = [(subject.name, 0, Pair(subject.model, tuned))]
    else:
        data = task_named(task)(training, run.n, run.seed)
        shown, labels, families = data.images, data.labels, [*FAMILIES]
        how = {"runs": runs, "epochs": epochs, "fine_tuning": fine_tuning}
        pairs = run.once("pairs", lambda: [*trained_pairs(run, FAMILIES, data, **how)])
    for family, _, pair in pairs:
        for version, network in zip((ORIGINAL, TUNED), pair, strict=True):
            if given is None:
                module: nn.Module | None = gradcam_layer(network)
            else:
                module = None if layer is None else find_layer(network, layer, None, "gradcam")
            views.setdefault((family, version), []).append(view(network, shown, labels, module))
    tables, figures = _compared(views, families, shown, run)
    if given is None:
        tables["accuracies"] = pd.DataFrame(
            {"network": ", ".join(key), "run": repeat, "accuracy": float(seen["right"].mean())}
            for key, of_key in views.items()
            for repeat, seen in enumerate(of_key)
        )
    return Found(tables, figures, () if given is None else given[0].notes[:2])


def _nearer(again: bool, tables: Tables) -> bool | None:
    if "nearer" not in tables:
        return None
    table = tables["nearer"]
    found = set(table.fine_tuned_self[(table.than == AGAIN) == again])
    return decided(found == {"nearer"}, "farther" in found)


fine_tuned_networks_are_nearer_than_other_designs = partial(_nearer, False)
fine_tuned_networks_are_nearer_than_other_trainings = partial(_nearer, True)


def channels_keep_their_images(tables: Tables) -> bool | None:
    table = _channels_of(tables, SELF)
    if table.empty:
        return None
    return above(table.low, table.high, table.others.clip(lower=0.5))


def channels_of_other_trainings_do_not_correspond(tables: Tables) -> bool | None:
    own, again = (_channels_of(tables, name) for name in (SELF, AGAIN))
    if own.empty or again.empty:
        return None
    return decided(again.high.max() < own.low.min(), again.low.max() > own.high.min())


def _channels_of(tables: Tables, ending: str) -> pd.DataFrame:
    table = tables.get("channels", pd.DataFrame({"comparison": []}, dtype=str))
    return table[table.comparison.str.endswith(ending)]


def view(network: nn.Module, images: Images, labels: Labels, layer: nn.Module | None) -> View:
    """What is compared of a network."""
    with torch.no_grad():
        logits = torch.cat([network(part) for part in torch.split(images, AT_ONCE)])
    found = {
        "output": logits.softmax(1).gather(1, labels[:, None])[:, 0],
        "right": (logits.argmax(1) == labels).double(),
    }
    if layer is None:
        return found
    with collect_notices():  # maps of zeros stay what they are
        maps = METHODS["gradcam"](network, images, labels, layers={"gradcam": layer})
    maps = maps.detach().clamp(min=0)
    most = maps.amax((1, 2, 3), keepdim=True)
    scaled = torch.where(most > 0, maps / most, 0.0)
    return found | {"map": scaled, "excited": excitations(network, images, layer)}


def differences(first: View, second: View) -> dict[str, Numbers]:
    """Each image's mean absolute differences by what both views have of `MEASURES`."""
    changes = {
        name: (first[name] - second[name]).abs()
        for name in MEASURES
        if name in first and name in second
    }
    return {
        name: (each.mean((1, 2, 3)) if each.ndim > 1 else each).double().numpy()
        for name, each in changes.items()
    }


def excitations(network: nn.Module, images: Images, layer: nn.Module) -> Excited:
    """The largest value of each channel of a layer's maps over all places, for each image."""
    layout = layout_of(network, layer, images, None, "excitations")
    maps = (observe(network, layer, part)[0] for part in torch.split(images, AT_ONCE))
    return torch.cat([channels_first(each, layout).amax((2, 3)) for each in maps])


def strongest(excited: Excited, number: int) -> Int64[Tensor, "kernels number"]:
    """The images that excite each channel most, in falling order; of equal ones the first."""
    return excited.argsort(dim=0, descending=True, stable=True)[:number].T


def overlap(
    first: Excited, second: Excited, number: int
) -> tuple[Numbers, Numbers, Bool[Tensor, " kernels"]]:
    """Compare which images excite the same channels of two networks most.

    `number` images count as exciting a channel most. Returned are the shares of common images of a
    channel of one network and the same channel of the other, the mean over all other channels of the
    other, and which channels these are: those that some image excites in both networks, and not all
    alike. Two channels that have nothing in common share number / B of them in expectation.
    """
    compared = (first.amax(0) > first.amin(0)) & (second.amax(0) > second.amin(0))
    members = []
    for excited in (first, second):
        chosen = strongest(excited[:, compared], number)
        members.append(torch.zeros(len(chosen), len(excited)).scatter_(1, chosen, 1.0))
    shares = (members[0] @ members[1].T / number).double().numpy()  # (channels, channels)
    same = np.diagonal(shares)
    others = (shares.sum(1) - same) / max(1, len(shares) - 1)
    return same.copy(), others, compared


def _comparisons(families: Sequence[str]) -> dict[str, tuple[str, str, str, int]]:
    """By name: a network, the other's family and version, and how many runs the other is behind."""
    found = {f"{family} and {SELF}": (family, family, TUNED, 0) for family in families}
    if len(families) > 1:
        first, second = families
        found[f"{first} and {second}"] = (first, second, ORIGINAL, 0)
        found |= {f"{family} and {AGAIN}": (family, family, ORIGINAL, 1) for family in families}
    return found


def _compared(
    views: Mapping[tuple[str, str], Sequence[View]],
    families: Sequence[str],
    images: Images,
    run: Run,
) -> tuple[dict[str, pd.DataFrame], dict[str, Figure]]:
    """Tables and figures; those of `views` have one view for each training run."""
    few = min(STRONGEST, max(1, len(images) // 4))  # count as exciting a channel most
    every: dict[tuple[str, str], Numbers] = {}  # (runs, images)
    channels = []
    for name, (family, other, version, later) in _comparisons(families).items():
        firsts, seconds = views[family, ORIGINAL], views[other, version]
        pairs = [(first, seconds[(own + later) % len(seconds)]) for own, first in enumerate(firsts)]
        found = [differences(first, second) for first, second in pairs]
        every |= {(name, measure): np.stack([of[measure] for of in found]) for measure in found[0]}
        if "excited" in firsts[0] and family == other:  # channels correspond
            shared = [overlap(first["excited"], second["excited"], few) for first, second in pairs]
            channels.append({"comparison": name, **_shares(shared, few / len(images), run.seed)})
    tables = {"differences": _differences(every, run.seed)}
    nearer = _distances(every, families, run.seed)
    if len(nearer):
        tables["nearer"] = nearer
    drawn = tables["differences"].assign(measure=lambda table: table.measure.map(MEASURES))
    title = f"How much networks differ, with 95 % intervals over {len(images)} images (section 4.1)"
    axis = "mean absolute difference (lower: more alike)"
    figure = dots(drawn, "mean", "comparison", panel="measure", title=title, xlabel=axis)
    figures = {"differences": figure}
    if channels:
        tables["channels"] = pd.DataFrame(channels)
        strips: dict[str, list[NDArray[np.float32]]] = {}
        for family in families:
            strips |= _strips(family, views, images, few, run.seed)
        if strips:
            title = f"The {few} images that excite channels most (Figure 10)"
            figures["channels"] = map_grid(strips, title=title)
    return tables, figures


def _differences(every: Mapping[tuple[str, str], Numbers], seed: int) -> pd.DataFrame:
    rows = []
    for (name, measure), values in every.items():
        ends, runs = mean_ends(values.mean(0), seed), values.mean(1)
        of_runs = (runs.min(), runs.max(), len(runs), PUBLISHED.get((name, measure), np.nan))
        rows.append((name, measure, runs.mean(), *ends, *of_runs))
    columns = ["comparison", "measure", "mean", "low", "high", "least", "most", "runs", "paper"]
    return pd.DataFrame(rows, columns=columns)


def _distances(
    every: Mapping[tuple[str, str], Numbers], families: Sequence[str], seed: int
) -> pd.DataFrame:
    """Whether a fine-tuned network differs less from the original one than another does."""
    sides = {"first": "nearer", "second": "farther", None: "undecided"}
    rows = []
    for family, ((name, measure), values) in product(families, every.items()):
        than = [each for each in name.split(" and ") if each != family]
        if len(than) == 1 and than != [SELF]:
            own = every[f"{family} and {SELF}", measure]
            found = paired_difference(values.mean(0), own.mean(0), seed)
            by = (found.mean, found.low, found.high)
            rows.append((family, *than, measure, sides[found.better], *by))
    columns = ["network", "than", "measure", "fine_tuned_self", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _shares(shared: Sequence[tuple[Any, ...]], chance: float, seed: int) -> dict[str, float]:
    same, others = (np.concatenate([each[index] for each in shared]) for index in (0, 1))
    low, high = mean_ends(same, seed)
    found = {"same": mean_score(same), "low": low, "high": high, "others": mean_score(others)}
    left_out = sum(int((~compared).sum()) for *_, compared in shared)
    return found | {"chance": chance, "channels": len(same), "not_compared": left_out}


def _strips(
    family: str,
    views: Mapping[tuple[str, str], Sequence[View]],
    images: Images,
    few: int,
    seed: int,
) -> dict[str, list[NDArray[np.float32]]]:
    """Images for channels drawn at random from those that compare, a row for each version."""
    excited = {version: views[family, version][0]["excited"] for version in (ORIGINAL, TUNED)}
    _, _, kept = overlap(excited[ORIGINAL], excited[TUNED], few)
    compared = kept.nonzero()[:, 0]
    generator = torch.Generator().manual_seed(seed)
    channels = compared[torch.randperm(len(compared), generator=generator)[:DRAWN]].sort().values
    shown = images.clamp(0, 1).cpu().numpy()
    return {
        f"{family}, channel {at}, {version}": [*shown[strongest(of_version, few)[at].tolist()]]
        for at in channels.tolist()
        for version, of_version in excited.items()
    }
