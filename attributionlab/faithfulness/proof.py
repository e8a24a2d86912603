"""What a score proves: that maps depend on the network, and on the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.environment.questions import Question
from attributionlab.environment.world_questions import KindTruths
from attributionlab.faithfulness.knowledge import (
    CLAIMED,
    Numbers,
    Possible,
    ceiling,
    known_questions,
    smooth_ceiling,
    tail_bound,
    unknown_roles,
    unknown_target,
)
from attributionlab.faithfulness.role_swap import CellMasses, role_swap_test
from attributionlab.faithfulness.setup import Batch, Setup
from attributionlab.truth import Output, smoothed

LEVEL = 0.01
"""Chance of a blind map to be taken for one that is not, in an environment."""
NEEDED = "without-network-and-target", "without-network", "without-target"
"""What maps are made without. A pass says enough only if none of these maps can pass everywhere."""
BLIND_MAPS = (*NEEDED, "without-place", "without-color")
"""Where an environment asks for places, maps from colors, or from places, alone are bounded, too."""


class View(NamedTuple):
    r"""What is left of a question for who cannot tell the pixels of a group apart.

    A map puts the mass a_g on group g, of which a share r_g belongs to a part of the truth. Its
    expected hits are :math:`\sum_g a_g r_g`, its mass and the truth's size are what they are, so its
    expected F1 is :math:`2 \sum_g a_g r_g / (A + |T|)`, what `knowledge.ceiling` bounds for cells that
    belong to a truth in part. That holds

    - for maps with one value on each group, whose hits are exactly these;
    - for maps that are made without the network, where groups are those of
      `attributionlab.environment.roles.Roles.orbits`: a role permutes the cells of a group, which have
      equal sizes, and all roles are equally likely. So every cell of the group belongs to the truth
      with the same probability, which is r_g as the truth has as many of them in every role.
    """

    groups: Possible
    """the one question; a group is a part of its truth as far as its cells are"""
    sizes: NDArray[np.float64]
    """pixels of each group"""


class AskedMasses(NamedTuple):
    """Where a map puts its values, for one question."""

    masses: CellMasses
    """possible are all roles"""
    targets: Possible
    """questions that are possible for who sees the network and not the target"""
    views: Mapping[str, View] = {}
    """the question as somebody sees it who misses something; empty where nothing is missed"""
    provable: bool = True
    """whether the same pixels are asked, each with a sign or none, whatever is asked"""


@dataclass(frozen=True)
class Proof:
    """How well blind maps score in an environment, and whether a method's maps are blind.

    - `ceilings`: by what the maps' maker does not see (`NEEDED` and "without-place") the most that they
      reach, in expectation over questions (`knowledge`); None where no ceiling is known for the claim.
      Colors and network without places give all that is asked where only counts of colors matter: 1.
    - `gamma`: the F1 that must be reached.
    - `p_network`, `p_target`: p-values of the role-swap tests of "the maps do not depend on the
      network" and "... on the target"; None where all roles are alike, and for claims that it does not
      cover.
    - `chances`: by what maps are made without, how probable a score like this is for such maps at most:
      these p-values and, for the claim "positive-smoothed", `tail_bound`.
    """

    ceilings: Mapping[str, float | None]
    gamma: float
    p_network: float | None
    p_target: float | None
    chances: Mapping[str, float]

    @property
    def excluded(self) -> list[str]:
        """The decisive ones of which chance is no explanation either.

        An interval over few questions may lie above gamma although the maps are blind: those that stay
        just above it for most roles, and score nothing for the others, give no low score to resample.
        """
        return [name for name in self.decisive if self.chances.get(name, 1.0) <= LEVEL]

    @property
    def decisive(self) -> list[str]:
        """The blind maps that cannot reach gamma here, so that a pass is not theirs."""
        return [
            name for name, most in self.ceilings.items() if most is not None and most < self.gamma
        ]

    def to_dict(self) -> dict[str, Any]:
        """Entries for an environment in the JSON file."""
        return {
            "blind_ceilings": dict(self.ceilings),
            "decisive": self.decisive,
            "excluded": self.excluded,
            "role_swap": {"network": self.p_network, "target": self.p_target},
        }


def asked_masses(maps: Tensor, batch: Batch, setup: Setup) -> list[AskedMasses]:
    """Sums of scaled maps over each cell of their images; nothing where all have one network."""
    found = []
    for question, values in zip(batch.questions, maps[: len(batch.questions), 0], strict=True):
        cells = int(question.cells.max()) + 1 if question.world else len(question.values)
        places = (question.cells + 1).flatten().numpy()
        positive, negative, sizes = (
            np.bincount(places, each.double().flatten().numpy(), cells + 1).astype(np.float64)
            for each in (values.clamp(min=0), -values.clamp(max=0), torch.ones_like(values))
        )
        if question.world is not None:
            found.append(_in_world(question, positive, negative, sizes, setup.truth_output))
            continue
        masses = CellMasses(
            positive=positive[1:],
            negative=negative[1:],
            outside=(float(positive[0]), float(negative[0])),
            sizes=sizes[1:],
            question=known_questions(
                [(question.roles, question.target)], cells, setup.truth_output
            ),
            possible=_all_roles(cells, len(question.roles), setup.truth_output),
        )
        targets = unknown_target(question.roles, cells, setup.truth_output)
        found.append(AskedMasses(masses, targets))
    return found


def _in_world(
    question: Question,
    positive: Numbers,
    negative: Numbers,
    sizes: Numbers,
    output: Output,
) -> AskedMasses:
    """Sums over the kinds of pixels of a world, the first of pixels of no kind."""
    assert question.world is not None
    roles, role = question.world.roles, question.world.role
    own = KindTruths.of([roles.asked(role, question.target, output)])
    others = targets = own
    # Where roles only permute the kinds all have one game, solved once; else estimates take minutes.
    solvable = roles.orbits is not None or roles.is_exact(role, question.target, output)
    if solvable:
        others = roles.in_all_roles(question.target, output)
        targets = roles.of_all_targets(role, output)
    # Ceilings add up masses on the same cells for every question: what is not asked must not differ.
    same = [
        np.array_equal(each, own.asked.repeat(len(each), 0))
        for each in (others.asked, targets.asked)
    ]
    provable = (
        solvable
        and all(same)
        and not any(
            (each.relevant & (each.signed == 0) & each.asked).any() for each in (others, targets)
        )
    )
    asked = own.asked[0]
    shown = np.where(asked, sizes[1:], 0.0)
    masses = CellMasses(
        positive=np.where(asked, positive[1:], 0.0),
        negative=np.where(asked, negative[1:], 0.0),
        outside=(float(positive[0]), float(negative[0])),
        sizes=shown,
        question=_possible(own),
        possible=_possible(others if provable else own),
    )
    signed = own.signed[0] * asked
    views = {
        "without-place": view_of(signed, shown, roles.kinds.grouped("colors")),
        "without-color": view_of(signed, shown, roles.kinds.grouped("region")),
    }
    if roles.orbits is not None:
        views["without-network"] = view_of(signed, shown, roles.orbits)
    return AskedMasses(masses, _possible(targets if provable else own), views, provable)


def _possible(truths: KindTruths) -> Possible:
    """Questions, equally likely."""
    count = len(truths.signed)
    return Possible(truths.signed > 0, truths.signed < 0, np.full(count, 1 / count))


def view_of(signed: NDArray[np.int8], sizes: Numbers, groups: NDArray[np.int64]) -> View:
    """A question about groups of cells: which share of each raises the output, and which lowers it."""
    total, raising, lowering = (
        np.bincount(groups, sizes * part).astype(np.float64)
        for part in (np.ones_like(signed), signed > 0, signed < 0)
    )
    filled = np.where(total > 0, total, 1.0)
    possible = Possible(raising[None] / filled, lowering[None] / filled, np.ones(1))
    return View(possible, total)


@lru_cache(maxsize=64)
def _all_roles(cells: int, classes: int, output: Output) -> Possible:
    """`unknown_roles`, made once for all questions that share it."""
    return unknown_roles(cells, classes, output)


def smooth_ceilings(batch: Batch) -> dict[str, Tensor]:
    """Ceilings of blind maps on each image, (B,), for the claim "positive-smoothed"; else nothing,
    nor in worlds.

    The possible truths are the smoothed masks of all cells, or of those that count.
    """
    if batch.smooth is None or not batch.questions or batch.questions[0].world is not None:
        return {}
    bounds = []
    for question in batch.questions:
        cells = torch.arange(len(question.values))
        masks = (question.cells == cells[:, None, None])[:, None]
        truths = smoothed(masks, question.env.smoothing_sigma).flatten(1).double().numpy()
        bounds.append((smooth_ceiling(truths), smooth_ceiling(truths[list(question.roles)])))
    found = torch.tensor(bounds).double()
    return {"without-network": found[:, 0], "without-target": found[:, 1]}


def proof_of(
    asked: Sequence[AskedMasses],
    smooth: Mapping[str, NDArray[np.float64]],
    setup: Setup,
    mean: float,
) -> Proof | None:
    """What a run with the mean score `mean` proves; None where the user asked for one network.

    Nothing before a user's own network: no others are known in which pixels have other roles.
    """
    if not asked:
        known = setup.one_network or setup.env.has_roles
        return None if known else Proof(dict.fromkeys(BLIND_MAPS), setup.gamma, None, None, {})
    masses = [each.masses for each in asked]
    without_target = [each.masses._replace(possible=each.targets) for each in asked]
    network: float | None
    target: float | None
    p_network = p_target = network = target = None
    chances: dict[str, float] = {}
    if smooth:
        network, target = (
            float(smooth[name].mean()) for name in ("without-network", "without-target")
        )
        chances = {
            name: tail_bound(mean, min(1.0, float(bounds.mean())), len(asked))
            for name, bounds in smooth.items()
        }
    elif setup.claim in CLAIMED and all(each.provable for each in asked):
        symmetric = all("without-network" in each.views for each in asked)
        without_network = [] if symmetric else masses
        network, target = (
            ceiling([(each.possible, each.sizes) for each in those], setup.claim) if those else None
            for those in (without_network, without_target)
        )
        if len(masses[0].sizes) > 1:
            p_network = role_swap_test(masses, setup.claim, seed=setup.seed).p_value
            chances["without-network"] = p_network
        if setup.env.classes > 1:
            p_target = role_swap_test(without_target, setup.claim, seed=setup.seed).p_value
            chances["without-target"] = p_target
    if "without-network" in chances:
        chances["without-network-and-target"] = chances["without-network"]
    seen = {}
    if setup.claim in CLAIMED and all(each.provable for each in asked):
        for without in set.intersection(*(set(each.views) for each in asked)):
            views = [each.views[without] for each in asked]
            seen[without] = ceiling([(view.groups, view.sizes) for view in views], setup.claim)
            chances.setdefault(without, tail_bound(mean, seen[without], len(asked)))
        network = seen.pop("without-network", network)
    blind = {
        # The number of a class tells nothing of its color: to know the target is no help.
        "without-network-and-target": network,
        "without-network": network,
        "without-target": target,
        "without-place": 1.0,
        "without-color": None,
        **seen,
    }
    return Proof(blind, setup.gamma, p_network, p_target, chances)
