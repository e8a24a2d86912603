"""Several truths of one question side by side, and what all of them support."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float64, Int, Int8
from torch import Tensor

from attributionlab.base import AttributionLabError, nearest
from attributionlab.worlds.truth.masks import Output

DefinitionName = Literal[
    "mask", "ablation", "insertion", "shapley", "integrated-gradients", "count-path"
]
Source = Literal["closed form", "evaluation", "path integral", "estimate"]
"""How values were had: a formula; the network's own exact outputs; its exact gradients; sampled
permutations."""


@dataclass(frozen=True, eq=False)
class Definition:
    """One definition of what each pixel contributes, evaluated for a batch of images.

    - `name`: short name, unique among the `Truths` of a question.
    - `meaning`: the definition in one sentence, its space named.
    - `values`: in units of the output; for the mask signs.
    - `error`: how far each value may be off. For an estimate three standard errors, which know nothing
      of contributions too rare for its permutations.
    - `source`: how the values were obtained, see `Source`.
    """

    name: DefinitionName
    meaning: str
    values: Float64[Tensor, "batch 1 height width"] = field(repr=False)
    error: Float64[Tensor, "batch 1 height width"] = field(repr=False)
    source: Source

    @property
    def certain(self) -> Float64[Tensor, "batch 1 height width"]:
        """The values, 0 where they are no larger than their errors: noise would have an order too."""
        return torch.where(self.values.abs() > self.error, self.values, 0.0)

    @property
    def signs(self) -> Int8[Tensor, "batch 1 height width"]:
        """Signs of the values; 0 also where a value is no larger than its error."""
        return self.certain.sign().to(torch.int8)


class Agreement(NamedTuple):
    """Pixels on which several definitions agree.

    `agreed`: pixels to which all give the same sign, 0 included. `signed`: that sign; 0 also where they
    do not agree.
    """

    agreed: Bool[Tensor, "batch 1 height width"]
    signed: Int8[Tensor, "batch 1 height width"]


@dataclass(frozen=True, eq=False)
class Truths(Mapping[str, Definition]):
    """What each pixel contributes to one output, by several definitions. Made by `env.truths`.

    A mapping from names to `Definition`.

    - `definitions`: by name.
    - `targets`: which output is explained in each image.
    - `output`: the kind of that output.
    - `changes`: f(x) - f(b): what the values of an efficient definition add up to.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum-in-distribution", image_size=24)
    >>> images, labels = env.batch(1)
    >>> truths = env.truths(images, labels)
    >>> list(truths)
    ['mask', 'ablation', 'insertion', 'shapley', 'integrated-gradients', 'count-path']
    >>> truths["shapley"].source
    'closed form'
    >>> agreement = truths.agreement()
    >>> bool(agreement.agreed.all())
    True
    """

    definitions: Mapping[str, Definition]
    targets: Int[Tensor, " batch"]
    output: Output
    changes: Float64[Tensor, " batch"]

    def __getitem__(self, name: str) -> Definition:
        if name not in self.definitions:
            raise AttributionLabError(
                f"no truth named {name!r} here: {nearest(str(name), self.definitions)}"
            )
        return self.definitions[name]

    def __contains__(self, name: object) -> bool:
        return name in self.definitions

    def __iter__(self) -> Iterator[str]:
        return iter(self.definitions)

    def __len__(self) -> int:
        return len(self.definitions)

    def agreement(self, names: Sequence[str] | None = None) -> Agreement:
        """Pixels and signs on which definitions agree.

        Parameters
        ----------
        names : sequence of str, optional
            Which definitions; all of them by default.

        Raises
        ------
        AttributionLabError
            For a name that is not there, or none at all.
        """
        names = [names] if isinstance(names, str) else names
        chosen = list(self.definitions if names is None else names)
        if not chosen:
            raise AttributionLabError(
                "names is empty: name at least one definition, or leave it out"
            )
        signs = torch.stack([self[name].signs for name in chosen])
        agreed = (signs == signs[0]).all(0)
        return Agreement(agreed, torch.where(agreed, signs[0], 0).to(torch.int8))

    def efficiency_gaps(self, name: str) -> Float64[Tensor, " batch"]:
        """What the values' sum misses of f(x) - f(b), as a share of it; NaN where that is 0."""
        missed = (self[name].values.sum((1, 2, 3)) - self.changes).abs()
        return torch.where(self.changes == 0, torch.nan, missed / self.changes.abs())
