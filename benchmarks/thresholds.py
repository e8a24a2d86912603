"""How verdicts in worlds depend on the two thresholds of what is asked, and on the strict level.

    python benchmarks/thresholds.py [--size 48] [--n 12] [--random 20] [METHOD ...]

One column for each choice of thresholds; a row for each method says in how many worlds it solves at
least three quarters of the questions (signed claim), and its mean F1 over worlds. Worlds are those of
the catalog, and random ones. The maps are made once.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch

import attributionlab as al
from attributionlab.base import LEAST_SHARE, count_of, lowest_f1
from attributionlab.base.stats.counts import Count
from attributionlab.metrics import Part, parts_f1
from attributionlab.worlds import Questions, Rule
from attributionlab.worlds.rules.game import PURITY, SHARE, Asked, RuleGame

CATALOG = (
    *("quadrants", "marker-flips", "all-four", "at-least", "either", "more-than", "no-orange"),
    *("stripes-or-checks", "watermark-read"),
)
METHODS = (
    *("saliency", "lrp", "guided-backprop", "feature-ablation-true-baseline"),
    "integrated-gradients-exact-true-baseline",
)
PARTS: tuple[Part, ...] = ("overall", "positive", "negative")
EXACT = "exact Shapley values"
LEVELS: dict[str, Callable[[RuleGame], Asked]] = {
    f"{share:g}, {purity:g}": lambda game, s=share, p=purity: game.asked(s, p)  # type: ignore[misc]
    for share, purity in (
        *((SHARE, PURITY), (0.1, PURITY), (0.5, PURITY), (SHARE, 0.5), (SHARE, 0.95)),
    )
} | {"strict": RuleGame.strict}


class Tally:
    """Mean F1 and solved questions by world, of each method at each level, and shares of pixels."""

    def __init__(self) -> None:
        self.f1: dict[tuple[str, str], list[float]] = {}
        self.counts: dict[tuple[str, str], list[Count]] = {}
        self.asked: dict[str, list[tuple[float, float]]] = {}

    def add(self, env: al.Environment, methods: Sequence[str], n: int) -> None:
        """Ask n questions in a world."""
        questions = Questions(env, 0)
        rows: dict[tuple[str, str], list[list[float]]] = {}
        for index in range(n):
            each = questions[index]
            rule, output = each.env.counting, each.env.outputs[0]
            assert isinstance(rule, Rule)
            game = rule.game(each.image, each.target, output, each.env.temperature)
            image, targets = each.image[None], torch.tensor([each.target])
            maps = {EXACT: game.shapley().values[None].float()}
            maps |= {name: al.attribute(name, each.env, image, targets) for name in methods}
            feeding = torch.from_numpy(game.labels >= 0)[None]
            for level, asks in LEVELS.items():
                found = asks(game)
                shown = (found.asked & feeding, (found.signed != 0) & feeding)
                shares = [int(one.sum()) / int(feeding.sum()) for one in shown]
                self.asked.setdefault(level, []).append((shares[0], shares[1]))
                for name, values in maps.items():
                    scores = parts_f1(values * found.asked, found.signed[None], found.mixed[None])
                    row = [float(scores[part]) for part in PARTS]
                    rows.setdefault((name, level), []).append(row)
        for key, found_f1 in rows.items():
            parts = dict(zip(PARTS, np.array(found_f1).T, strict=True))
            means = [column[~np.isnan(column)] for column in parts.values()]
            lowest = min(float(column.mean()) for column in means if len(column))
            self.f1.setdefault(key, []).append(lowest)
            self.counts.setdefault(key, []).append(count_of(lowest_f1(parts)))

    def show(self, title: str, methods: Sequence[str]) -> None:
        """Print one Markdown table."""
        print(f"\n| {title} | " + " | ".join(LEVELS) + " |")
        print("| --- |" + " --- |" * len(LEVELS))
        for place, what in enumerate(("asked", "asked for a sign")):
            means = [np.mean([each[place] for each in self.asked[level]]) for level in LEVELS]
            print(f"| pixels {what} | " + " | ".join(f"{each:.0%}" for each in means) + " |")
        for name in (EXACT, *methods):
            columns = [np.array(self.f1[name, level]) for level in LEVELS]
            passed = [
                sum(each.solved >= LEAST_SHARE * each.asked for each in self.counts[name, level])
                for level in LEVELS
            ]
            cells = [
                f"{count} ({each.mean():.2f})" for count, each in zip(passed, columns, strict=True)
            ]
            print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    """Print a table for the catalog, and one for random worlds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--random", type=int, default=20)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    worlds = {
        "catalog": [al.load(name, image_size=args.size) for name in CATALOG],
        "random": al.random_worlds(args.random, 0, image_size=args.size),
    }
    for title, envs in worlds.items():
        tally = Tally()
        for env in envs:
            tally.add(env, args.methods, args.n)
        tally.show(f"{title}: {len(envs)} worlds", args.methods)


if __name__ == "__main__":
    main()
