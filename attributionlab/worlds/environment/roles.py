"""Roles in worlds: the same rule of other colors, in other places, with other motifs.

Which renamings are possible follows from the images alone: two colors may change places if the list of
patches stays the same. A role is drawn independently of the image, which tells nothing of it then.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from math import perm, prod

import numpy as np

from attributionlab.worlds.images.regions import MOTIFS, QUADRANTS, motif_colors
from attributionlab.worlds.images.scenes import Patch, Scene
from attributionlab.worlds.rules.expressions import Count, with_counts
from attributionlab.worlds.rules.rule import Rule

MOST_ROLES = 120
"""Roles among which that of a question is drawn; where there are more, so many are drawn first. What is
proved of blind maps holds for whoever knows these, too."""

Renaming = dict[str, str]
"""New names of colors, regions and motifs; others stay."""

SQUARE = ("top_left", "top_right", "bottom_right", "bottom_left")
SIDES = ("top", "right", "bottom", "left")
"""Quadrants and sides clockwise; top lies between the first two quadrants."""


@dataclass(frozen=True, eq=False)
class Roles:
    """The renamings of a world.

    `rule`: of the world as it stands. `scene`: its images.
    """

    rule: Rule
    scene: Scene

    @cached_property
    def number(self) -> int:
        """How many renamings there are; some may make the same rule."""
        choices = [perm(len(group), len(named)) for group, named in self.colors]
        return prod(choices) * len(self.regions) * len(self._motifs)

    def drawn(self, rng: np.random.Generator) -> list[Renaming]:
        """All renamings, or `MOST_ROLES` drawn ones."""
        if self.number <= MOST_ROLES:
            return list(self._all())
        return [self._one(rng) for _ in range(MOST_ROLES)]

    def renamed(self, renaming: Renaming) -> Rule:
        """The rule with other names."""
        counts = renamed_counts(self.rule, renaming)
        expressions = tuple(with_counts(each, counts) for each in self.rule.expressions)
        return Rule(expressions, self.rule.names, self.rule.places, self.rule.background)

    @cached_property
    def counts(self) -> tuple[Count, ...]:
        """Every count that the rule reads in some role."""
        found = list(self.rule.counts_used)
        known = set(found)
        for count in found:  # which grows on the way
            new = {renamed_count(count, each) for each in self._steps} - known
            known |= new
            found += sorted(new)
        return tuple(sorted(known))

    @cached_property
    def _steps(self) -> list[Renaming]:
        """Exchanges of which every role consists."""
        swaps = [{group[0]: name, name: group[0]} for group, _ in self.colors for name in group[1:]]
        return [*swaps, *self.regions, *self._motifs]

    def _all(self) -> Iterator[Renaming]:
        colors = [
            [dict(zip(named, chosen, strict=True)) for chosen in permutations(group, len(named))]
            for group, named in self.colors
        ]
        for parts in product(*colors, self.regions, self._motifs):
            yield {old: new for part in parts for old, new in part.items()}

    def _one(self, rng: np.random.Generator) -> Renaming:
        renaming: Renaming = {}
        for group, named in self.colors:
            chosen = rng.permutation(len(group))[: len(named)].tolist()
            renaming |= dict(zip(named, [group[place] for place in chosen], strict=True))
        for choices in (self.regions, self._motifs):
            renaming |= choices[int(rng.integers(len(choices)))]
        return renaming

    @cached_property
    def colors(self) -> list[tuple[list[str], list[str]]]:
        """Groups of colors that may change places, and which of each the rule names."""
        names = {color: name for name, color in self.rule.places.colors.items()}

        def swapped(one: str, other: str) -> Callable[[Patch], Patch]:
            new = {one: other, other: one}

            def change(patch: Patch) -> Patch:
                colors = [new.get(names[each], names[each]) for each in patch.colors]
                return patch._replace(
                    colors=tuple(self.rule.places.colors[each] for each in colors)
                )

            return change

        used = {name for count in self.rule.counts_used for name in count.colors}
        groups = self._groups(list(self.rule.places.colors), swapped)
        return [(group, [name for name in group if name in used]) for group in groups]

    @cached_property
    def _motifs(self) -> list[Renaming]:
        """Exchanges of motifs with equally many colors."""

        def swapped(one: str, other: str) -> Callable[[Patch], Patch]:
            new = {one: other, other: one}
            return lambda patch: patch._replace(motif=new.get(patch.motif, patch.motif))

        used = {count.motif for count in self.rule.counts_used if count.motif}
        shown = {patch.motif for patch in self._patches if patch.motif}
        groups: list[list[str]] = []
        for colors in sorted({motif_colors(motif) for motif in shown}):
            alike = [motif for motif in MOTIFS if motif in shown and motif_colors(motif) == colors]
            groups += [group for group in self._groups(alike, swapped) if used & set(group)]
        return [  # of each group one exchange: all together are equally likely
            {
                old: new
                for group, chosen in zip(groups, all_, strict=True)
                for old, new in zip(group, chosen, strict=True)
            }
            for all_ in product(*map(permutations, groups))
        ]

    @cached_property
    def regions(self) -> list[Renaming]:
        """Exchanges of quadrants: any, or turns and mirror images where the rule names sides."""
        used = {count.region for count in self.rule.counts_used}
        if used & set(SIDES):
            candidates = list(_symmetries())
        elif used & set(QUADRANTS):
            candidates = [dict(zip(SQUARE, each, strict=True)) for each in permutations(SQUARE)]
        else:
            candidates = []

        def moved(names: Renaming) -> Callable[[Patch], Patch]:
            return lambda patch: patch._replace(region=names.get(patch.region, patch.region))

        return [names for names in candidates if self._is_unchanged(moved(names))] or [{}]

    def _groups(
        self, names: Sequence[str], swapped: Callable[[str, str], Callable[[Patch], Patch]]
    ) -> list[list[str]]:
        """Names of which any two may change places."""
        groups: list[list[str]] = []
        for name in names:
            for group in groups:
                if self._is_unchanged(swapped(group[0], name)):
                    group.append(name)
                    break
            else:
                groups.append([name])
        return groups

    @property
    def _patches(self) -> list[Patch]:
        return [patch for item in self.scene.items for option in item for patch in option]

    def _is_unchanged(self, change: Callable[[Patch], Patch]) -> bool:
        """Whether the list of patches stays the same under a change of each."""

        def listed(change: Callable[[Patch], Patch]) -> Counter[tuple[tuple[Patch, ...], ...]]:
            return Counter(
                tuple(sorted(tuple(sorted(map(change, option))) for option in item))
                for item in self.scene.items
            )

        return listed(change) == listed(lambda patch: patch)


def renamed_counts(rule: Rule, renaming: Renaming) -> dict[Count, Count]:
    """The count in place of each that a rule reads."""
    return {count: renamed_count(count, renaming) for count in rule.counts_used}


def renamed_count(count: Count, renaming: Renaming) -> Count:
    """A count of the color, in the region, that a renaming puts in the place of its own."""
    new = {name: renaming.get(name, name) for name in (*count.colors, count.motif, count.region)}
    colors = tuple(new[color] for color in count.colors)
    return Count(colors, new[count.motif], new[count.region])


def _symmetries() -> Iterator[Renaming]:
    """Turns and mirror images of a square, of its quadrants and its sides."""
    for turn, mirror in product(range(4), (1, -1)):
        square = [SQUARE[(turn + mirror * place) % 4] for place in range(4)]
        # A side lies between two quadrants.
        between = {frozenset({SQUARE[k - 1], SQUARE[k]}): SIDES[k - 1] for k in range(4)}
        sides = [between[frozenset({square[k], square[(k + 1) % 4]})] for k in range(4)]
        yield dict(zip((*SQUARE, *SIDES), (*square, *sides), strict=True))
