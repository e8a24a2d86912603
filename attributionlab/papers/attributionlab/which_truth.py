"""Which truth? Every environment's definitions of what a pixel contributes, side by side."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.environment.catalog import environments
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.attributionlab.definitions_compared import (
    agreement_row,
    definition_rows,
    opposed,
    pair_rows,
)
from attributionlab.papers.attributionlab.pixel_worth import (
    PLACES,
    deep_lift,
    deep_lift_rows,
    temperature_rows,
    worth_rows,
)
from attributionlab.papers.attributionlab.which_truth_findings import findings
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.report.definitions import DefinitionsRow, definitions_figure, worth_figure
from attributionlab.truth import Output, Truth, Truths

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BLACK = "multi-color-sum, black"
"""The case whose baseline is a color that the network has never seen."""
BLACK_SIZE, BLACK_PRECISION = 48, 6e-4
QUICK_BLACK_SIZE, QUICK_BLACK_PRECISION = 24, 2e-3
"""Its images' sides, and the standard errors of its sampled Shapley values, in probability."""
BLACK_IMAGES = 4
TEMPERATURES = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
TEMPERATURE_CASE = "multi-color-sum-in-distribution"
TEMPERATURE_IMAGES = 2
DRAWN = {
    ("multi-color-sum-in-distribution", "probability"): "no unseen colors\non the way",
    ("multi-color-sum", "probability"): "the same image;\nunseen colors\non the RGB path",
    (BLACK, "probability"): "black, an unseen\ncolor, as baseline",
    ("single-color-modulo", "logit"): "count modulo 30",
}
SHOWN = {
    "environments": "shares of pixels on which all definitions agree: of all, and of the relevant "
    "ones, to which some definition gives a sign; opposed: share of the relevant ones that raise the "
    "output by one definition and lower it by another; the two definitions that are least alike",
    "colors": "one pixel of each losing color, on a scale on which the target's is 3; spread: largest "
    "standard deviation within a color on that scale; sum: of all values, as a share of the output's "
    "change; f1: against the parts of the mask",
    "deep-shap": "DeepLift's map from the true baseline held against each definition; signs shared: of "
    "the pixels with a sign in either map, the share with the same one in both",
}
COLORS_OF = "multi-color-sum"
"""Whose rows of "worth" are printed: where images are the same only integrated gradients differ."""


class Case(NamedTuple):
    """One output of one environment, from one baseline."""

    name: str
    env: Environment
    output: Output
    baseline: Tensor | None = None
    precision: float | None = None

    @property
    def keys(self) -> dict[str, str]:
        """What all rows of a case begin with."""
        return {"environment": self.name, "output": self.output}


def which_truth(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Hold mask, ablation, insertion, Shapley values and two path integrals against each other.

    Parameters
    ----------
    n : int, optional
        Images; 8, or 2 in a quick run, by default; from a black baseline 4 at most.
    quick : bool
        Images of 72 x 72 pixels, and of 24 x 24 instead of 48 x 48 from a black baseline.
    seed : int
        Of images and estimates.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables of means over images: "environments" (`agreement_row`, and the least alike of the pairs),
        "definitions" (`definition_rows`), "pairs" (`pair_rows`), "worth" (`worth_rows`), "colors"
        (those of one environment), "deep-shap" (`deep_lift_rows`), "temperatures"
        (`temperature_rows`); "images" and "worth-images" have the rows of "definitions" and "worth" by
        image.
    """
    import pandas as pd

    n = n or (2 if quick else 8)
    cases = list(_cases(quick))
    work = [
        (case, index)
        for case in cases
        for index in range(n if case.baseline is None else min(n, BLACK_IMAGES))
    ]
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    drawn: dict[tuple[str, str], DefinitionsRow] = {}
    for case, index in track(work, len(work), "which-truth", show_progress):
        image, target, truths, truth = _asked(case, n, seed, index)
        keys = {**case.keys, "sample": index}
        found: dict[str, Iterable[dict[str, Any]]] = {
            "agreement": [agreement_row(truths)],
            "definitions": definition_rows(truths, truth),
            "pairs": pair_rows(truths),
        }
        if truth is not None and case.output == "probability":
            lifted = deep_lift(case.env, image, target)
            found["worth"] = worth_rows(case.env, image, truths, truth, lifted)
            found["deep-shap"] = deep_lift_rows(truths, lifted)
        for name, of_image in found.items():
            rows[name] += [{**keys, **row} for row in of_image]
        if index == 0 and (label := DRAWN.get((case.name, case.output))):
            drawn[case.name, case.output] = _drawing(label, case.env, image, truths)
    temperatures = pd.DataFrame(list(_temperature_rows(quick, min(n, TEMPERATURE_IMAGES), seed)))
    every = {name: pd.DataFrame(of_name) for name, of_name in rows.items()}
    pairs = _means(every["pairs"], ["first", "second"])
    worth = _means(every["worth"], ["definition"])
    tables = {
        "environments": _environments(_means(every["agreement"], []), pairs),
        "definitions": _means(every["definitions"], ["definition", "source"]),
        "pairs": pairs,
        "worth": worth,
        "colors": _colors(worth),
        "deep-shap": _means(every["deep-shap"], ["definition"]),
        "temperatures": _mean(temperatures, ["temperature", "definition"]),
        "images": every["definitions"],
        "worth-images": every["worth"],
    }
    default = next(case.env.temperature for case in cases if case.name == TEMPERATURE_CASE)
    return Reproduction(
        item="which-truth",
        title="Definitions of the truth: where they agree, and how much they give",
        tables=tables,
        figures={
            "maps": definitions_figure(
                [drawn[key] for key in DRAWN],
                "What each pixel contributes, by definition (each map by its own largest value)",
            ),
            "worth": _worth_figure(tables, cast(float, default)),
        },
        findings=findings(tables, n),
        shown=SHOWN,
    )


def _cases(quick: bool) -> Iterator[Case]:
    for name in environments():
        env = environment_of(name, quick)
        yield from (Case(name, env, output) for output in env.outputs)
    size = QUICK_BLACK_SIZE if quick else BLACK_SIZE
    precision = QUICK_BLACK_PRECISION if quick else BLACK_PRECISION
    small = environment_of("multi-color-sum", False, image_size=size)
    yield Case(BLACK, small, "probability", torch.zeros_like(small.baseline), precision)


def _asked(
    case: Case, n: int, seed: int, index: int
) -> tuple[Tensor, Tensor, Truths, Truth | None]:
    """Image `index`, the class that is explained, and the answers; no mask for an unseen baseline."""
    sample = case.env.dataset(n, seed)[index]
    image = sample.image[None]
    # A regression has one output; its label is that output's value.
    target = sample.label[None] * (case.env.task == "classification")
    truths = case.env.truths(
        image, target, case.output, baseline=case.baseline, precision=case.precision, seed=seed
    )
    has_mask = "mask" in truths
    return image, target, truths, case.env.truth(image, target, case.output) if has_mask else None


def _temperature_rows(quick: bool, n: int, seed: int) -> Iterator[dict[str, Any]]:
    for temperature in TEMPERATURES:
        env = environment_of(TEMPERATURE_CASE, quick, temperature=temperature)
        for index in range(n):
            case = Case(env.name, env, "probability")
            image, _, truths, _ = _asked(case, n, seed, index)
            yield from temperature_rows(env, image, truths)


def _drawing(label: str, env: Environment, image: Tensor, truths: Truths) -> DefinitionsRow:
    change = float(truths.changes[0])
    values = {name: each.certain[0, 0] for name, each in truths.items()}
    notes = {
        name: f"largest {float(each.abs().max()):.1e}\n"
        f"sum {float(each.sum()) / change:.2f} of the change"
        for name, each in values.items()
    }
    agreement = truths.agreement()
    share = agreement_row(truths)["relevant_agreed"]
    return DefinitionsRow(
        label,
        image[0].numpy(),
        env.max_value,
        {name: each.numpy() for name, each in values.items()},
        notes
        | {"mask": "signs only", "agreement": f"on {share:.0%} of pixels\nthat matter to one"},
        agreement.agreed[0, 0].numpy(),
        agreement.signed[0, 0].numpy(),
        opposed(truths)[0, 0].numpy(),
    )


def _environments(agreement: "pd.DataFrame", pairs: "pd.DataFrame") -> "pd.DataFrame":
    """By environment and output: shares agreed, and the pair of the lowest cosine."""
    import pandas as pd

    lowest = []
    for row in agreement.itertuples():
        here = pairs[(pairs.environment == row.environment) & (pairs.output == row.output)]
        least = here.loc[here.cosine.idxmin()]
        lowest.append(
            {"least_alike": f"{least['first']}, {least['second']}", "cosine": least.cosine}
        )
    return pd.concat([agreement, pd.DataFrame(lowest)], axis=1)


def _colors(worth: "pd.DataFrame") -> "pd.DataFrame":
    """One environment's rows without the columns in which all are alike or nearly all empty."""
    here = worth[worth.environment == COLORS_OF].reset_index(drop=True)
    return here.drop(columns=["output", "target", "expected_sum"])


def _means(images: "pd.DataFrame", keys: Sequence[str]) -> "pd.DataFrame":
    """Means over the images of each case, in the order in which rows come."""
    return _mean(images.drop(columns="sample"), ["environment", "output", *keys])


def _mean(images: "pd.DataFrame", keys: Sequence[str]) -> "pd.DataFrame":
    return images.groupby(list(keys), sort=False).mean().reset_index()


def _worth_figure(tables: dict[str, "pd.DataFrame"], default: float) -> "Figure":
    worth, sizes = tables["worth"], tables["temperatures"]
    here = worth[worth.environment == COLORS_OF].set_index("definition")
    lines = {
        name: (of_one.temperature.tolist(), of_one.target_pixel.tolist())
        for name, of_one in sizes.groupby("definition", sort=False)
    }
    worths = {name: dict(here.loc[name, list(PLACES)]) for name in here.index}
    title = f"What one pixel is worth: of each color ({COLORS_OF}), and by temperature"
    return worth_figure(worths, lines, default, title)
