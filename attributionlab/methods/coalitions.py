r"""Superpixels as players: what the output is while some of them are replaced by a baseline.

A masking method is a sampler of coalitions and an estimator of what their outputs say. What stands in
between is here: :math:`x_z`, the image that shows the superpixels of the coalition
:math:`z \in \{0, 1\}^M` and has the baseline elsewhere, and the explained output of many of these.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attributionlab.base import AttributionLabError
from attributionlab.base.exact import route_of
from attributionlab.methods.batching import in_smaller_batches, passes_at_once
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import target_outputs

MASKING_SETTINGS = ("segmentation", "baselines", "perturbations_per_eval")
"""What a user sets of every method here, beside its own and those of the segmentation."""


class Game(NamedTuple):
    """An image (C, H, W) whose superpixels are shown, or replaced by a baseline (C, H, W).

    `owners` is each pixel's superpixel, 0 to M - 1 for M `players`; -1 for one that belongs to none and
    is always shown. `target` is the index of the output that is explained.
    """

    image: Float[Tensor, "channels height width"]
    baseline: Float[Tensor, "channels height width"]
    owners: Int[Tensor, "height width"]
    players: int
    target: Int[Tensor, ""]

    def mixtures(
        self, coalitions: Bool[Tensor, "n players"]
    ) -> Float[Tensor, "n channels height width"]:
        """Images in which the members of each coalition are shown, and no other superpixel."""
        always = coalitions.new_ones(len(coalitions), 1)  # column -1
        shown = torch.cat([coalitions, always], 1).to(self.image.device)[:, self.owners]
        return torch.where(shown[:, None], self.image, self.baseline)

    def shared(self, importance: Float[Tensor, " players"]) -> Float[Tensor, "1 height width"]:
        """A map in which a superpixel's pixels share its importance equally; 0 where no player is."""
        sizes = torch.bincount(self.owners.flatten().cpu() + 1, minlength=self.players + 1)[1:]
        nobody = importance.new_zeros(1)  # entry -1
        return torch.cat([importance / sizes, nobody]).to(self.image)[self.owners][None]


class Coalitions(NamedTuple):
    """Coalitions of one game by number, so that many of them need not be held at once.

    `members` takes numbers (n,) from 0 to `total` - 1 to bool (n, players), true for superpixels that
    are shown.
    """

    total: int
    members: Callable[[Tensor], Tensor]


def drawn(kept: Bool[Tensor, "n players"]) -> Coalitions:
    """Coalitions that are held as rows."""
    return Coalitions(len(kept), kept.__getitem__)


def games_of(
    inputs: Float[Tensor, "batch channels height width"],
    baselines: Float[Tensor, "batch channels height width"],
    labels: Int[Tensor, "batch height width"],
    targets: Int[Tensor, " batch"],
) -> list[Game]:
    """A game for each image, whose players are the superpixels that differ from the baseline.

    A superpixel that looks the same either way changes no output: its importance is 0 by every
    definition, and it costs no forward pass.
    """
    games = []
    for image, baseline, owners, target in zip(inputs, baselines, labels, targets, strict=True):
        players = owners[(image != baseline).any(0)].unique()
        numbers = owners.new_full((int(owners.max()) + 1,), -1)
        numbers[players] = torch.arange(len(players), device=owners.device)
        games.append(Game(image, baseline, numbers[owners], len(players), target))
    return games


def followed_pixels(model: nn.Module, game: Game) -> Int[Tensor, " players"] | None:
    """Each player's pixel, in a game whose mixtures need no forward passes; otherwise None.

    That is so where every player is one pixel and `route_of` says that changes of single pixels can be
    followed through the network: `single_replacements` and `trajectories` then have every output.
    """
    pixels = game.owners.flatten().argsort()[
        game.owners.numel() - game.players :
    ]  # those behind -1
    alone = int((game.owners >= 0).sum()) == game.players > 0
    if not alone or route_of(model, game.image, game.baseline).name != "incremental":
        return None
    return pixels


@torch.no_grad()
def coalition_outputs(
    model: nn.Module,
    games: Sequence[Game],
    coalitions: Sequence[Coalitions],
    batch: int | None,
    who: str,
) -> list[Tensor]:
    """The explained output of every coalition of every game, on the CPU: (total,) of each game.

    Passes are filled with coalitions of several images where those of one do not suffice; `batch`
    mixtures at once, by default what fits the memory budget. Outputs that are not finite are refused:
    what is worked out from them would be zeros or NaN without a reason.
    """
    counts = [each.total for each in coalitions]
    owners = torch.repeat_interleave(torch.arange(len(games)), torch.tensor(counts))
    numbers = torch.cat([torch.arange(count) for count in counts])

    def run(batch: int) -> Tensor:
        outputs = []
        for first in range(0, len(numbers), batch):
            some = slice(first, first + batch)
            mixtures, targets = [], []
            for k in sorted(set(owners[some].tolist())):
                chosen = numbers[some][owners[some] == k]
                mixtures.append(games[k].mixtures(coalitions[k].members(chosen)))
                targets.append(games[k].target.expand(len(chosen)))
            images = mixtures[0] if len(mixtures) == 1 else torch.cat(mixtures)
            outputs.append(target_outputs(model(images), torch.cat(targets)).cpu())
        found = torch.cat(outputs)
        if not found.isfinite().all():
            raise AttributionLabError(
                f"{who}: the model returns {float(found[~found.isfinite()][0])} for a mixture of image "
                "and baseline: choose other baselines, or a model whose outputs are finite there"
            )
        return found

    width = passes_at_once(model, games[0].image[None], batch)
    return list(torch.split(in_smaller_batches(run, min(width, len(numbers)), who), counts))


def notify_superpixels(labels: Int[Tensor, "batch height width"]) -> None:
    """Report on which regions maps are constant, and images with a single one."""
    text = (
        "come from a segmentation with a single superpixel, so every pixel has the same value: "
        "choose another segmentation or other settings of it"
    )
    highest = labels.flatten(1).amax(1) + 1
    pixels = labels[0].numel()
    regions = None if bool((highest == pixels).all()) else labels  # a pixel each restricts no map
    notify(Notice(text, int((highest == 1).sum()), regions=regions, kind="segments"))


def notify_unmoved(images: int) -> None:
    """Report maps that are zero because no mixture of image and baseline moves the output."""
    text = (
        "are zero because no perturbation changes the output by more than rounding: choose other "
        "baselines, or a higher temperature"
    )
    notify(Notice(text, images, kind="zeros"))
