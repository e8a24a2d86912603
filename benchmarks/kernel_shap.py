"""Errors of KernelSHAP at equal numbers of evaluations: ours, captum's, and shapiq's if installed.

    pip install shapiq==1.4.0
    python benchmarks/kernel_shap.py [--players 9] [--networks 12] [--seeds 5]

Games are random networks of 32 ReLU neurons on 0 and 1. An error is the distance from the exact Shapley
values as a share of their length; a cell is the geometric mean over networks and seeds, and behind it
how many times ours that is.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from captum.attr import KernelShap
from torch import Tensor, nn

from attributionlab.methods import collect_notices, kernel_shap
from attributionlab.worlds.truth import enumerated_shapley

try:
    from shapiq.approximator import KernelSHAP
except ImportError:
    KernelSHAP = None
BUDGETS = (32, 52, 82, 122, 202, 302, 402)
"""Evaluations, those of nobody and of everybody included."""
Estimate = Callable[[nn.Module, int, int, int], Tensor]


def ours(game: nn.Module, players: int, budget: int, seed: int) -> Tensor:
    """A player is a pixel, absent where it is 0."""
    pixels = nn.Sequential(nn.Flatten(), game)
    with collect_notices():
        found: Tensor = kernel_shap(
            pixels,
            torch.ones(1, 1, 1, players, dtype=torch.float64),
            torch.zeros(1, dtype=torch.int64),
            highest=1,
            generator=torch.Generator().manual_seed(seed),
            segmentation="pixels",
            n_samples=budget - 2,
        )
    return found.flatten()


def captums(game: nn.Module, players: int, budget: int, seed: int) -> Tensor:
    """It draws from torch's global generator."""
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        ones = torch.ones(1, players, dtype=torch.float64)
        found: Tensor = KernelShap(game).attribute(
            ones, target=0, n_samples=budget, perturbations_per_eval=64
        )
    return found.flatten().double()


def shapiqs(pairing: bool) -> Estimate:
    """With its pairing trick, or as it is by default."""

    def estimate(game: nn.Module, players: int, budget: int, seed: int) -> Tensor:
        def value(coalitions: np.ndarray) -> np.ndarray:
            rows = torch.cat([torch.zeros(1, players), torch.from_numpy(coalitions)])
            outputs = outputs_of(game, rows)
            return np.asarray(outputs[1:] - outputs[0])

        found = KernelSHAP(players, pairing_trick=pairing, random_state=seed).approximate(
            budget, value
        )
        return torch.tensor([found[(player,)] for player in range(players)])

    return estimate


def outputs_of(game: nn.Module, shown: Tensor) -> Tensor:
    """Of coalitions (n, players)."""
    with torch.no_grad():
        outputs: Tensor = game(shown.double())[:, 0]
    return outputs


def main() -> None:
    """Print one line for each budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--players", type=int, default=9)
    parser.add_argument("--networks", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    estimates: dict[str, Estimate] = {"ours": ours, "captum": captums}
    if KernelSHAP is not None:
        estimates |= {"shapiq": shapiqs(False), "shapiq, pairs": shapiqs(True)}
    torch.manual_seed(0)
    games = []
    for _ in range(args.networks):
        layers = nn.Linear(args.players, 32), nn.ReLU(), nn.Linear(32, 1)
        game = nn.Sequential(*layers).double()
        for weights in game.parameters():
            nn.init.normal_(weights)
        games.append((game, enumerated_shapley(partial(outputs_of, game), args.players)))
    print(f"{'evaluations':<12}" + "".join(f"{name:>20}" for name in estimates))
    for budget in BUDGETS:
        errors = {
            name: np.exp(
                np.mean(
                    [
                        np.log(
                            float(
                                (estimate(game, args.players, budget, seed) - exact).norm()
                                / exact.norm()
                            )
                        )
                        for game, exact in games
                        for seed in range(args.seeds)
                    ]
                )
            )
            for name, estimate in estimates.items()
        }
        cells = [f"{each:.3f} ({each / errors['ours']:.1f} x)" for each in errors.values()]
        print(f"{budget:<12}" + "".join(f"{cell:>20}" for cell in cells))


if __name__ == "__main__":
    main()
