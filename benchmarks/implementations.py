"""How long graded networks and transformers take beside the paper's, in one process with one thread.

    python benchmarks/implementations.py [--sizes 24 72 224] [--env quadrants]

Forward with backward passes of four images; medians of alternating runs, and the paper's time over
the other's.
"""

import argparse
from functools import partial

import torch
from side_by_side import side_by_side

import attributionlab as al
from attributionlab.worlds.nets import GRADED, TRANSFORMERS

IMAGES = 4


def gradient(model: torch.nn.Module, images: torch.Tensor) -> None:
    """One forward and one backward pass."""
    inputs = images.detach().requires_grad_()
    torch.autograd.grad(model(inputs).sum(), inputs)


def main() -> None:
    """Print a row for each size and implementation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[24, 72, 224])
    parser.add_argument("--env", default="quadrants")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    print(f"{options.env}, {IMAGES} images: milliseconds, and paper / other")
    for size in options.sizes:
        env = al.load(options.env, image_size=size)
        images, _ = env.batch(IMAGES)
        for name in (*GRADED, *TRANSFORMERS):
            other = env.with_implementation(name)
            sides = side_by_side(
                partial(gradient, env.model, images),
                partial(gradient, other.model, images),
                options.repeats,
            )
            milliseconds = f"{1000 * sides.ours:8.1f} {1000 * sides.theirs:8.1f}"
            print(f"{size:4} px  paper and {name:<16} {milliseconds}   {sides.ratio:5.1f}")


if __name__ == "__main__":
    main()
