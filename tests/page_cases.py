"""Documents and pictures of faithfulness tests with questions, made up, for the tests of the page."""

from typing import Any, NamedTuple

import numpy as np

from attributionlab.base import Tally
from attributionlab.show import Panel

RANKS = ("worst", "lower quartile", "median", "upper quartile", "best")
NAMES = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
MUST = {"oracle": "pass", "random": "fail", "constant": "fail", "inverted-oracle": "fail"}
FLIPS = {
    "cause": "sign-flips",
    "says": "Whole images have the wrong sign (24 of 32): the attribution of a losing color is "
    "taken for the winner's.",
    "confirm": "Multiply the maps of those images by -1: F1 should rise to that of the others.",
}
BASELINE = {
    "cause": "baseline",
    "says": "The background carries attribution: the baseline is a color that no image has.",
    "confirm": "Set the baseline to the background's color and run the test again.",
}


class Sample(NamedTuple):
    sample: int
    rank: str
    f1: float
    image: Any
    highest: int
    truth: Any
    attribution: Any
    signless: dict
    faint: bool = False


def scores(f1, spread=0.05):
    interval = None if spread is None else [max(f1 - spread, 0.0), min(f1 + spread, 1.0)]
    return {
        "precision": min(f1 + 0.04, 1.0),
        "recall": max(f1 - 0.03, 0.0),
        "f1": f1,
        "precision_ci": interval,
        "recall_ci": interval,
        "f1_ci": interval,
    }


SOLVED = {"pass": 32, "fail": 3, "inconclusive": 27, "invalid": 32}
"""Questions solved of 32, as they give the verdicts."""


def counted(solved, asked=32):
    """What a document says of a count."""
    interval = Tally(solved, asked).interval
    return {"solved": solved, "asked": asked, "solved_ci": interval and list(interval)}


def environment(name, verdict, f1, spread=0.05, classifier=True, **changes):
    """One environment of a document of 32 questions; `solved` and `asked` change their count."""
    missing = 1 - f1
    solved, asked = changes.pop("solved", SOLVED[verdict]), changes.pop("asked", 32)
    shares = {
        "relevant missed": 0.3,
        "distractors": 0.22,
        "background": 0.18,
        "wrong sign": 0.2,
        "outliers": 0.09,
        "unseen colors": 0.01,
    }
    result = {
        "name": name,
        "output": "probability" if classifier else "logit",
        "implementation": "paper",
        "computes": "Which of four colors has the most pixels.",
        "truth_output": "probability" if classifier else "logit",
        "settings": {},
        "verdict": verdict,
        **counted(solved, asked),
        "questions_to_decide": Tally(solved, asked).questions_to_decide()
        if verdict == "inconclusive"
        else None,
        "hidden": {"roles": 6, "target": 4} if classifier else {"roles": 6, "place": 4},
        "reaches_gamma": f1 >= 0.5,
        "claim_f1": f1,
        "claim_part": "positive",
        "claim_ci": scores(f1, spread)["f1_ci"],
        "seconds_per_image": 0.0123,
        "temperature": 256.0 if classifier else None,
        "spec": "0123456789abcdef" * 4,
        "constants": {"image_size": 224},
        "overall": scores(min(f1 + 0.11, 1.0), spread),
        "positive": scores(f1, spread),
        "negative": scores(min(f1 + 0.2, 1.0), spread) if classifier else None,
        "reason": "the control random solves 31 of 32 questions" if verdict == "invalid" else "",
        "bar": [],
        "resolution": "25 x 25 cells",
        "resolution_f1": 0.88,
        "runner_up": None,
        "diagnosis": {
            "missing": missing,
            "shares": {key: share * missing for key, share in shares.items()},
            "hints": [BASELINE] if missing else [],
        },
        "stochastic": False,
        "seeds": 1,
        "seed_sd": None,
        "spread": [],
        "studied_images": 8,
        "drift": None,
        "truths": [],
        "equivalent": None,
    }
    return result | changes


def whole(*environments, verdict=None, **changes):
    """A document over these environments."""
    verdicts = [result["verdict"] for result in environments]
    order = ("invalid", "fail", "inconclusive", "pass")
    least = min(environments, key=lambda result: result["solved"] / max(1, result["asked"]))
    controls = {
        name: [
            {
                "environment": result["name"],
                "claim_f1": f1,
                "solved": (
                    solved := result["asked"] if name == "oracle" else int(f1 * result["asked"] / 3)
                ),
                "asked": result["asked"],
                "passes": Tally(solved, result["asked"]).passes,
                "must": MUST.get(name),
            }
            for result in environments
        ]
        for name, f1 in {
            "oracle": 1.0,
            "random": 0.12,
            "constant": 0.13,
            "sobel": 0.22,
            "inverted-oracle": 0.0,
            "baseline-distance": 0.41,
            "non-background": 0.52,
            "filled-patches": 0.44,
        }.items()
    }
    document = {
        "schema": 3,
        "verdict": verdict or next(name for name in order if name in verdicts),
        "excludes": {
            "roles": {"alternatives": 6, "chance": 2e-09, "environment": NAMES[0]},
            "target": {"alternatives": 4, "chance": 3e-07, "environment": NAMES[0]},
        },
        "not_excluded": [],
        "one_network": False,
        "seed_drawn": False,
        "seed_bound": False,
        "protocol": {"name": "protocol 1", "sha256": "3f9a2c" + "0" * 58, "changed": []},
        "source": {"built_in": True, "file": None, "sha256": None, "fingerprint": None},
        "given": [],
        "claim": "signed",
        "seed": 0,
        "n": 32,
        "method": "integrated-gradients",
        "settings": {"n_steps": 50, "baseline": [0, 0, 0]},
        "preset": None,
        "versions": {"attributionlab": "0.2.0", "torch": "2.6.0", "numpy": "2.1.1", "threads": "1"},
        "command": "attributionlab test integrated-gradients --n 32 --seed 0 --set n_steps=50",
        "warnings": [],
        "least": {
            "environment": least["name"],
            **{key: least[key] for key in ("solved", "asked", "claim_f1")},
        },
        "hints": [FLIPS, BASELINE] if "fail" in verdicts else [],
        "controls": controls,
        "environments": list(environments),
    }
    return document | changes


def failing():
    """All three kinds of result that a valid test has."""
    return whole(
        environment(NAMES[0], "pass", 0.81, bar=["non-background"]),
        environment(NAMES[1], "fail", 0.31),
        environment(NAMES[2], "inconclusive", 0.52, classifier=False, resolution=None),
        warnings=["integrated-gradients: gradients rest on a convention (ReLU'(0) = 0)."],
    )


def nine():
    """As many environments as the catalog has, some of one name."""
    verdicts = ("pass", "fail", "inconclusive")
    return whole(
        *(
            environment(NAMES[place % 3], verdicts[place % 3], 0.5, spec=str(place) * 64)
            for place in range(9)
        )
    )


DOCUMENTS = {
    "pass": lambda: whole(
        environment(NAMES[0], "pass", 1.0, spread=0.0),
        environment(NAMES[1], "pass", 0.93),
        environment(NAMES[2], "pass", 0.97, classifier=False),
        method="oracle",
    ),
    "fail": failing,
    "inconclusive": lambda: whole(environment(NAMES[1], "inconclusive", 0.49)),
    "invalid": lambda: whole(
        environment(NAMES[0], "pass", 0.81), environment(NAMES[1], "invalid", 0.6, diagnosis=None)
    ),
}


def sample(number, rank, f1, size=56, channels=3):
    """Discs as in the laboratory's images, and a map that finds the share f1 of them."""
    rng = np.random.default_rng([number, size])
    rows, columns = np.mgrid[:size, :size]
    truth = np.zeros((size, size), dtype=np.int8)
    image = np.full((channels, size, size), 20.0, dtype=np.float32)
    for sign in (1, 1, -1, 0) if channels == 3 else (1, 1):
        middle, radius = rng.uniform(0.15, 0.85, 2) * size, 0.12 * size
        disc = (rows - middle[0]) ** 2 + (columns - middle[1]) ** 2 < radius**2
        color = rng.permutation([220, 120, 20])[:channels]
        image[:, disc] = color[:, None]
        truth[disc] = sign
    found = (rng.random(truth.shape) < f1) * truth
    noise = rng.normal(0, 0.25 * (1 - f1), truth.shape)
    flipped = -1 if rank == "worst" else 1
    attribution = np.clip(flipped * found + noise, -1, 1).astype(np.float32)
    return Sample(number, rank, f1, image, 255, truth, attribution, {})


def panels(document, size=56):
    """Pictures and scores for a document, five samples for each environment."""
    shown = []
    for place, result in enumerate(document["environments"]):
        rng = np.random.default_rng(place)
        f1 = np.clip(rng.normal(result["claim_f1"], 0.15, document["n"]), 0, 1)
        ranked = np.quantile(f1, [0, 0.25, 0.5, 0.75, 1])
        channels = 1 if result["temperature"] is None else 3
        shown.append(
            Panel(
                [
                    sample(7 * place + index, rank, float(score), size, channels)
                    for index, (rank, score) in enumerate(zip(RANKS, ranked, strict=True))
                ],
                f1,
            )
        )
    return shown
