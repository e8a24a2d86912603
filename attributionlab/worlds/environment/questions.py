"""Questions: each has a network of its own, an image and a target; the network alone tells the roles.

A test on one network can be passed with a table of its colors. In a question it is drawn which colors
count, and as which class, independently of the image: a map made from the image alone, or from image
and target, is independent of the roles. `hidden` says how many questions such maps can solve.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    Images,
    Whole,
    checked_arguments,
    own_arithmetic,
    plain_torch,
)
from attributionlab.worlds.environment.catalog import network_of
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.spec import shown_distractors
from attributionlab.worlds.environment.world_questions import WorldQuestion, WorldQuestions
from attributionlab.worlds.images.recipe import BernoulliInk, Drawing, Recipe, draw
from attributionlab.worlds.truth.masks import Counting, Output, Truth

if TYPE_CHECKING:
    from attributionlab.worlds.environment.token_worlds import TokenEnvironment

LIGHTEST = 60
"""Backgrounds are drawn among the grays from 0 to this."""
LOOKS, ROLES, REFERENCES = 1, 2, 3
"""Streams of random numbers beside that of the layouts: of what an image shows (colors, background,
labels of patches), of what the network makes of it, and of other images."""
MOST_TWINS = 200
"""Networks drawn in search of other roles; with two cells half of them have other ones."""


class Question(NamedTuple):
    """A network, an image and a target.

    An image has m cells. A cell is the set of all pixels with one value that might count: a color other
    than the background's, or a number.

    - `env`: with its own network: roles, weights, background and redundant channels are drawn.
    - `image`: integers in the valid box.
    - `target`: uniform over the classes, independent of the winner; 0 for a regression.
    - `patches`: label map, 0 outside; a label reveals nothing about the patch's color.
    - `cells`: cell of each pixel, 0 to m - 1, and -1 for pixels that cannot count.
    - `roles`: the cell that each class counts.
    - `values`: the value of each cell's pixels.
    - `world`: the roles of a world from a rule, which has no such roles and values: its cells are the
      pixels that belong to the same counts in some role.
    """

    env: Environment
    image: Float[Tensor, "channels height width"]
    target: int
    patches: Int[Tensor, "height width"]
    cells: Int[Tensor, "height width"]
    roles: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]
    world: WorldQuestion | None = None

    def truth(self, output: Output) -> Truth:
        """The truth of the question; in a world, as computed when the role was drawn."""
        if self.world is None:
            return self.env.truth(self.image[None], torch.tensor([self.target]), output)
        return self.world.roles.truth(self.world.role, self.target, output)

    def other_network(self, output: Output) -> Truth | None:
        """The truth in the next role of a world that has another one; otherwise None."""
        if self.world is None:
            return None
        roles, own = self.world.roles, self.world.role
        truth = roles.truth(own, self.target, output)
        for step in range(1, len(roles.renamings)):
            role = (own + step) % len(roles.renamings)
            other = roles.truth(role, self.target, output)
            if bool(other.positive.any()) and not other.signed.equal(truth.signed):
                return other
        return None


class Questions:
    """The questions of an environment; question i is a function of (environment, seed, i) alone.

    Parameters
    ----------
    env : Environment
        If colors count, its colors and distractor colors are the palette: each question shows as many
        of them as the environment does, each in the same number of patches. A number that counts is
        drawn among those in the image. Without colors and numbers, only weights are drawn. For random
        worlds, question i is in world i mod N.
    seed : int
        Non-negative.

    Examples
    --------
    >>> import attributionlab as al
    >>> question = al.Questions(al.load("multi-color-sum", image_size=24), seed=0)[0]
    >>> question.env.model(question.image[None]).shape
    torch.Size([1, 4])
    """

    @checked_arguments
    def __init__(self, env: Environment, seed: Whole = 0) -> None:
        constants = env.spec.constants
        if env.spec.is_trained:
            raise AttributionLabError(
                f"{env.name} has a trained network ({constants['trained']}), and there are no trained "
                "networks in which colors have other roles: set one_network (--one-network)"
            )
        self.env, self.seed = env, seed
        self._in_worlds = [Questions(each, seed) for each in env.worlds if each is not env]
        if self._in_worlds or env.is_of_tokens:
            return
        self._world = WorldQuestions(env) if env.rule else None
        self.shows_colors = "colors" in constants and self._world is None
        self._recipe = env.recipe
        self._accept: Callable[[Any], bool] = env.dataset(1).accept
        if self.shows_colors:
            shown = [*constants["colors"], *shown_distractors(constants)]
            self._recipe = showing(shown, env, env.recipe.background)
            self._counting = Counting(tuple(shown))
            self._accept = ShowsAll(self._counting)
        self._references: list[Tensor] = []

    def __getitem__(self, index: int) -> Question:
        """Question `index`, 0 or more; there is no last one."""
        return self.question(index)

    __iter__ = None

    def twin(self, index: int) -> Question:
        """The image of question `index` with a network in which another cell is the target's.

        Raises AttributionLabError if the image has one cell only, so that no network has other roles.
        """
        own = self.question(index)
        if own.world is None and len(own.values) < 2:
            raise AttributionLabError(
                f"image {index} of {self.env.name} shows {len(own.values)} cell of pixels that may "
                "count, so there are no networks with other roles: take an environment with "
                "several colors"
            )
        for attempt in range(1, MOST_TWINS + 1):
            other = self.question(index, attempt)
            if have_other_roles(own, other):
                return other
        raise AttributionLabError(
            f"question {index} of seed {self.seed} in {self.env.name}: {MOST_TWINS} networks have the "
            "same truth for its image; take larger images, which show more of each color, or another "
            "seed"
        )

    @own_arithmetic()
    @plain_torch()
    @checked_arguments
    def question(self, index: Whole, network: Whole = 0) -> Question:
        """Question `index`, 0 or more; other values of `network` give its image other networks, with
        other roles and targets.
        """
        if self._in_worlds:
            return self._in_worlds[index % len(self._in_worlds)].question(index, network)
        looks, rng = (
            np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))
            for key in ((index, LOOKS), (index, ROLES, network))
        )
        if self.env.is_of_tokens:
            return cast("TokenEnvironment", self.env).drawn_question(looks, rng)
        drawing = draw(self._recipe, self.seed, index, self._accept)
        image = torch.from_numpy(drawing.image).float()
        if self._world is not None:
            return self._world_question(drawing, image, looks, rng, index)
        cells, values = self._cells(image)
        background = self.env.recipe.background
        if self.shows_colors:
            palette = self._palette
            values = [palette[place] for place in looks.permutation(len(palette))[: len(values)]]
            if _equally_far(palette, background):
                background = (int(looks.integers(LIGHTEST, endpoint=True)),) * len(background)
            image = _painted(cells, values, background)
        labels = torch.from_numpy(np.append(0, 1 + looks.permutation(self._recipe.patches)))
        roles = rng.permutation(len(values)).tolist()
        env = self._environment(rng, [values[cell] for cell in roles], background)
        classes = env.network.classes
        return Question(
            env=env,
            image=image,
            target=int(rng.integers(classes)),
            patches=labels[torch.from_numpy(drawing.patches).long()],
            cells=cells,
            roles=tuple(roles[:classes]),
            values=tuple(values),
        )

    def _world_question(
        self,
        drawing: Drawing,
        image: Tensor,
        looks: np.random.Generator,
        rng: np.random.Generator,
        index: int,
    ) -> Question:
        """A question in a world."""
        assert self._world is not None
        roles = self._world.roles_of(image, looks, index)
        role, target = self._world.drawn(roles, rng)
        labels = torch.from_numpy(np.append(0, 1 + rng.permutation(self._recipe.patches)))
        return Question(
            env=self._world.environment(roles.renamings[role], int(rng.integers(2**31))),
            image=image,
            target=target,
            patches=labels[torch.from_numpy(drawing.patches).long()],
            cells=torch.from_numpy(roles.kinds.labels),
            roles=(),
            values=(),
            world=WorldQuestion(roles, role),
        )

    @checked_arguments
    def reference_images(
        self, question: Question, n: Images
    ) -> Float[Tensor, "n channels height width"]:
        """N images in a question's colors that no question shows; smaller N give the first of them."""
        for own in self._in_worlds:
            if own.env.name == question.env.name:
                return own.reference_images(question, n)
        if self.env.is_of_tokens:
            return cast("TokenEnvironment", self.env).references(question, n, self.seed)
        stream = np.random.SeedSequence(self.seed, spawn_key=(REFERENCES,)).generate_state(1)
        for index in range(len(self._references), n):
            drawing = draw(self._recipe, int(stream[0]), index, self._accept)
            self._references.append(torch.from_numpy(drawing.image))
        images = torch.stack(self._references[:n]).float()
        if not self.shows_colors:
            return images
        background = question.env.recipe.background
        cells = self._counting.classes_of(images)[:, 0]
        return torch.stack([_painted(each, question.values, background) for each in cells])

    @property
    def _palette(self) -> list[tuple[int, ...]]:
        """Colors from which those of a question are drawn."""
        constants = self.env.spec.constants
        return [*constants["colors"], *constants.get("distractor_colors", ())]

    def _cells(self, image: Tensor) -> tuple[Tensor, list[tuple[int, ...]]]:
        """The cell of each pixel of an image as it was drawn, and the value of each cell."""
        if "number" not in self.env.spec.constants:
            counting = self._counting if self.shows_colors else self.env.counting
            assert isinstance(counting, Counting)
            return counting.classes_of(image[None])[0, 0], list(counting.values)
        numbers = torch.unique(image[0]).long()
        numbers = numbers[numbers != self.env.recipe.background[0]]
        counting = Counting(tuple((int(number),) for number in numbers))
        return counting.classes_of(image[None])[0, 0], list(counting.values)

    def _environment(
        self,
        rng: np.random.Generator,
        values: Sequence[tuple[int, ...]],
        background: tuple[int, ...],
    ) -> Environment:
        """The environment with another network, whose classes count the first of some values."""
        spec = self.env.spec
        drawn: dict[str, Any] = {"weight_seed": int(rng.integers(2**31))}
        recipe = self.env.recipe
        if self.shows_colors:
            classes = len(spec.constants["colors"])
            channels = spec.constants["redundant_channels"]
            if channels:
                drawn["redundant_channels"] = int(rng.integers(1, 2 * channels, endpoint=True))
            hidden = [color for color in self._palette if color not in values]
            ignored = (*values[classes:], *hidden)  # of which the first are shown
            drawn |= {"colors": tuple(values[:classes]), "background": background}
            drawn |= {"distractor_colors": ignored} if ignored else {}
            recipe = showing(values, self.env, background)
        elif "number" in spec.constants:
            drawn["number"] = values[0][0]
        return self.env.with_network(network_of(spec.with_constants(**drawn)), recipe, **drawn)


def have_other_roles(own: Question, other: Question) -> bool:
    """Whether two questions about one image have other truths, by the roles of their networks."""
    if own.world is None or other.world is None:
        return own.roles[own.target] != other.roles[other.target]
    output = own.env.outputs[0]
    truths = [
        each.world.roles.truth(each.world.role, each.target, output).signed
        for each in (own, other)
        if each.world is not None
    ]
    return not truths[0].equal(truths[1])


@dataclass(frozen=True)
class ShowsAll:
    """Which images are kept: those that show every color, since each may be asked about."""

    counting: Counting

    def __str__(self) -> str:
        return "the data set (every color on at least one pixel)"

    def __call__(self, image: Any) -> bool:
        counts = self.counting.counts(torch.from_numpy(image).float()[None])
        return int(counts.min()) > 0


def showing(
    colors: Sequence[tuple[int, ...]], env: Environment, background: tuple[int, ...]
) -> Recipe:
    """A recipe with each of some colors in as many patches as a counted color of an environment has."""
    each = env.spec.constants["patches_per_color"]
    assert isinstance(env.recipe, Recipe)  # patches of one color each
    ink = BernoulliInk(tuple(colors) * each, env.spec.constants["fill"])
    return replace(env.recipe, background=background, patches=len(colors) * each, ink=ink)


def _equally_far(palette: Sequence[tuple[int, ...]], background: tuple[int, ...]) -> bool:
    """Whether every gray background is equally far from all colors, so that none stands out."""
    alike = {tuple(sorted(color)) for color in palette}
    return len(set(background)) == 1 and len(alike) == 1 and len(set(*alike)) > 1


def _painted(
    cells: Tensor, values: Sequence[tuple[int, ...]], background: tuple[int, ...]
) -> Float[Tensor, "channels height width"]:
    """An image whose cells have these values."""
    table = torch.tensor([background, *values]).float()  # (1 + cells, channels)
    return table[cells + 1].permute(2, 0, 1).contiguous()
