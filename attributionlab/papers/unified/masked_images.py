"""Figure 5 of Wang and Wang (2022): how isolated masked pixels are, by the order that masks them."""

from typing import Unpack

import pandas as pd
import torch

from attributionlab.metrics import pixel_isolation, reference_order, removal_order
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.subjects import subjects
from attributionlab.show import map_grid

MASKED, REFERENCE = 0.18, 0.24
"""Shares of the pixels: the paper's 9k and 12k of 224 x 224."""
RANDOM, WITHIN, GRADCAM = "random", f"random in the first {REFERENCE:.0%} by GradCAM", "by GradCAM"
COLUMNS = 6


def masked_images(
    run: Run, *, training: int, layer: str | None = None, **own: Unpack[subjects.OwnNetwork]
) -> Found:
    """Mask pixels at random, by GradCAM, and at random within GradCAM's first, and draw what is left.

    The network is a small one trained on `training` drawn pictures, or a user's own.
    """
    given = subjects.chosen_subject(run.n, run.seed, layer=layer, layer_for="GradCAM", **own)
    subject = given or subjects.trained_subject(run.n, training, run.seed)
    generator = torch.Generator().manual_seed(run.seed)
    maps = subjects.maps_of(subject, "gradcam", run.seed)
    by_map, random = (
        removal_order(values, ties="random", generator=generator)
        for values in (maps, torch.zeros_like(maps))
    )
    masked, within = (round(share * by_map.shape[1]) for share in (MASKED, REFERENCE))
    orders = {
        RANDOM: random,
        WITHIN: reference_order(by_map, within, generator),
        GRADCAM: by_map,
    }
    pictures = subject.images[:COLUMNS] / subject.highest
    rows = {"image": list(pictures.numpy())}
    for name, order in orders.items():
        chosen = order[:COLUMNS, None, :masked].expand(-1, pictures.shape[1], -1)
        rows[name] = list(pictures.flatten(2).scatter(2, chosen, 0.0).view_as(pictures).numpy())
    side = (subject.side, subject.side)
    table = pd.DataFrame(
        {
            "order": name,
            "masked": masked / order.shape[1],
            "isolation": float(pixel_isolation(order, side, counts=[masked]).mean()),
            "images": len(order),
        }
        for name, order in orders.items()
    )
    title = f"{MASKED:.0%} of the pixels masked, {subject.name}"
    return Found({"isolation": table}, {"masked": map_grid(rows, title=title)}, subject.notes)


def random_pixels_are_isolated(tables: Tables) -> bool:
    isolation = tables["isolation"].set_index("order").isolation
    return bool(isolation[GRADCAM] < isolation[WITHIN] < isolation[RANDOM])
