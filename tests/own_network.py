"""A user's network and images, for items that take them in place of ours."""

import numpy as np
import torch
from PIL import Image
from torch import nn


def network(side, seed=None):
    """Two logits of small images; with a seed the global generator is left as it was."""
    with torch.random.fork_rng(enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        places = (side - 2) ** 2
        return nn.Sequential(
            nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * places, 2)
        ).eval()


def own_network(folder, number=2, side=8):
    """Settings that name two classes of so many images, and the network of seed 100.

    The file also makes `net`, which draws its weights from the global generator; 100.pt and 101.pt have
    the weights of two seeds.
    """
    drawn = np.random.default_rng(0)
    for name in ("dark", "light"):
        (folder / "images" / name).mkdir(parents=True)
        for image in range(number):
            pixels = drawn.integers(0, 256, (side, side, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / name / f"{image}.png")
    file = folder / "net.py"
    file.write_text(
        "from own_network import network\n\n\n"
        f"def net():\n    return network({side})\n\n\ndef fixed():\n    return network({side}, 100)\n"
    )
    for seed in (100, 101):
        torch.save(network(side, seed).state_dict(), folder / f"{seed}.pt")
    return {"images": str(folder / "images"), "model": f"{file}:fixed", "size": side}
