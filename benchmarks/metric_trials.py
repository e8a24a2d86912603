"""The test of a metric of one's own that calls `al.metrics.deletion`: shared preparations or none.

The one side calls `deletion` with all the attributions that it was given, which prepares an image
once a batch; the other calls it for each attribution by itself, which prepares it each time. First the
metric alone, on random attributions of an image; then `attributionlab.metric_test` on the same
questions, which also makes the attributions and ranks them. With --whole, the seconds of a metric of
one forward pass for each attribution, and of `insertion`, too: eight questions, all doses.

    python benchmarks/metric_trials.py [--size 72] [--n 2] [--repeats 3] [--whole]
"""

import argparse
import time

import torch
from side_by_side import side_by_side
from torch import Tensor

import attributionlab as al
from attributionlab.metrics import deletion, metric

DOSES = {"share": [1]}
MAPS = 120
"""About as many as a question is asked with."""


@metric(higher_is_better=False, per_sample=True)
def together(
    model: torch.nn.Module, images: Tensor, targets: Tensor, maps: Tensor, *, replacement: Tensor
) -> Tensor:
    """Deletion of all maps in one call."""
    return deletion(model, images, targets, maps, replacement=replacement)


@metric(higher_is_better=False, per_sample=True)
def one_by_one(
    model: torch.nn.Module, images: Tensor, targets: Tensor, maps: Tensor, *, replacement: Tensor
) -> Tensor:
    """Deletion in a call for each map."""
    each = zip(images.split(1), targets.split(1), maps.split(1), strict=True)
    return torch.cat([deletion(model, *one, replacement=replacement) for one in each])


@metric(higher_is_better=True, per_sample=True)
def one_pass(
    model: torch.nn.Module, images: Tensor, targets: Tensor, maps: Tensor, *, replacement: Tensor
) -> Tensor:
    """The output where only pixels with positive attribution are left."""
    with torch.no_grad():
        outputs: Tensor = model(torch.where(maps > 0, images, replacement))
    return outputs.gather(1, targets[:, None])[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=int, default=72)
    parser.add_argument("--n", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="time whole tests at n = 8, too")
    options = parser.parse_args()
    env = al.load("multi-color-sum", image_size=options.size)
    print(f"{env.name}, {options.size} x {options.size}, one thread")

    images, labels = (each.repeat_interleave(MAPS, 0) for each in env.batch(1))
    maps = torch.randn(images[:, :1].shape, generator=torch.Generator().manual_seed(0))
    given = env.explained_model("probability"), images, labels, maps
    assert torch.equal(*(f(*given, replacement=env.baseline) for f in (together, one_by_one)))
    sides = side_by_side(
        lambda: together(*given, replacement=env.baseline),
        lambda: one_by_one(*given, replacement=env.baseline),
        options.repeats,
    )
    print(
        f"an attribution: together {1000 * sides.ours / MAPS:.1f} ms, "
        f"one by one {1000 * sides.theirs / MAPS:.1f} ms, {1 / sides.ratio:.1f} times as fast"
    )
    sides = side_by_side(
        lambda: al.metric_test(together, env, options.n, doses=DOSES),
        lambda: al.metric_test(one_by_one, env, options.n, doses=DOSES),
        options.repeats,
    )
    print(
        f"whole test of {options.n} questions: together {sides.ours:.1f} s, "
        f"one by one {sides.theirs:.1f} s, {1 / sides.ratio:.1f} times as fast"
    )
    if options.whole:
        for scorer in (one_pass, "insertion"):
            start = time.process_time()
            report = al.metric_test(scorer, env, 8)
            print(f"{report.metric}, all doses, n = 8: {time.process_time() - start:.0f} s")


if __name__ == "__main__":
    main()
