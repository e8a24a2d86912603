"""Integrated gradients by kinks and by 50 nodes: how far off, how complete, how fast.

    python benchmarks/path_integral.py [--full] [--nodes 50] [ENVIRONMENT ...]

One image at 72 pixels, with --full at 224 too, from an all-zero and from the true baseline. The nodes
are those of Captum's IntegratedGradients (Gauss-Legendre, float32). OMP_NUM_THREADS sets the cores.
"""

import argparse
import sys
import time

import torch
from captum.attr import IntegratedGradients

import attributionlab as al
from attributionlab.base.exact import path_integral

ENVIRONMENTS = ("multi-color-sum-in-distribution", "multi-color-sum", "single-color-modulo")


def compare(name: str, image_size: int, nodes: int) -> None:
    """Print one line for each output and baseline of an environment."""
    env = al.load(name, image_size=image_size)
    images, labels = env.batch(1)
    targets = env.targets(labels)
    for output in env.outputs:
        model = env.explained_model(output)
        for start, baseline in (
            ("zero", torch.zeros_like(env.baseline)),
            ("true", env.baseline),
        ):
            began = time.perf_counter()
            exact = path_integral(model, images, baseline, targets)
            between = time.perf_counter()
            near = IntegratedGradients(model).attribute(
                images,
                baselines=baseline.expand_as(images),
                target=targets,
                n_steps=nodes,
                internal_batch_size=5,
            )
            near = near.double()
            ended = time.perf_counter()
            ends = torch.cat([baseline.expand_as(images), images])
            with torch.no_grad():
                before, after = model(ends)[:, targets[0]].double()
            residual = float(near.sum() - (after - before))
            print(
                f"{image_size:4} {name:32} {output:12} {start:5}"
                f" {exact.routes[0]:8} {exact.panels.item():6} {exact.error.item():8.1e}"
                f" {exact.residual.item():9.1e} {residual:9.1e}"
                f" {exact.attributions.abs().max().item():8.1e}"
                f" {(near - exact.attributions).abs().max().item():8.1e}"
                f" {between - began:8.2f} {ended - between:8.2f}"
                f" {(ended - between) / (between - began):7.1f}"
            )


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Time exact path integrals.")
    parser.add_argument("environments", nargs="*", default=ENVIRONMENTS, metavar="ENVIRONMENT")
    parser.add_argument("--full", action="store_true", help="images of 224 pixels too")
    parser.add_argument("--nodes", type=int, default=50)
    options = parser.parse_args(arguments)
    print(f"{torch.get_num_threads()} threads; off: largest error of {options.nodes} nodes")
    print(
        f"{'size':>4} {'environment':32} {'output':12} {'start':5} {'route':8} {'panels':>6}"
        f" {'error':>8} {'residual':>9} {'nodes':>9} {'largest':>8} {'off':>8}"
        f" {'seconds':>8} {'nodes':>8} {'faster':>7}"
    )
    for image_size in (72, 224) if options.full else (72,):
        for name in options.environments:
            compare(name, image_size, options.nodes)


if __name__ == "__main__":
    main(sys.argv[1:])
