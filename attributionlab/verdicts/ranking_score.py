"""The ranking score: a prediction of how methods rank on trained networks, from hand-weighted ones."""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

from attributionlab.base import (
    MOST_IMAGES,
    AttributionLabError,
    AttributionWarning,
    explained_arguments,
    integer_problem,
    own_arithmetic,
    refuse_if,
    repeated_problem,
)
from attributionlab.methods import AttributionMethod, as_method
from attributionlab.verdicts.controls import KNOWN
from attributionlab.verdicts.faithfulness.calls import claim_score
from attributionlab.verdicts.faithfulness.setup import Batch, Setup, prepared
from attributionlab.worlds import (
    IMAGE_SIDE,
    LEARNING_IMAGES,
    Environment,
    as_environments,
    load,
    soft_sister,
)
from attributionlab.worlds.nets import GRADED


def ranked_world(name: str, image_size: int = IMAGE_SIDE) -> Environment:
    """A world of the catalog with the images that networks learn its rule from."""
    return load(name, image_size=image_size, **LEARNING_IMAGES[name])


@own_arithmetic()
def network_scores(
    env: Environment, methods: Sequence[AttributionMethod], n: int, seed: int
) -> pd.DataFrame:
    """What each method scores on n images of a world, all before the network of `env`, and all by the
    truth of its first output, as in `rank_methods`.

    Columns: method; f1, the mean F1 of its claim's lowest part; solved, the share of images on which
    the lowest F1 of its parts is above two thirds; refused, why a method cannot run there, if it
    cannot: its scores are NaN then.
    """
    rows, drawn = [], dict[str, list[Batch]]()
    for method in [as_method(each, KNOWN) for each in methods]:
        claim = method.claim or "signed"
        setup = prepared(method, env, None, env.outputs[0], n=n, seed=seed, claim=claim)
        if claim not in drawn:
            drawn[claim] = [*setup.batches()]
        rows.append((method.name, *_scores(setup, drawn[claim])))
    columns = ["method", "f1", "solved", "refused"]
    return pd.DataFrame(rows, columns=columns).astype({"f1": float, "solved": float})


def _scores(setup: Setup, batches: Sequence[Batch]) -> tuple[float, float, str]:
    try:
        mean, count = claim_score(setup, batches)
    except AttributionLabError as error:
        return np.nan, np.nan, str(error)
    if mean is None:
        return np.nan, np.nan, "no image has a truth for its claim"
    return mean, count.solved / count.asked, ""


@explained_arguments
def ranking_scores(
    methods: Sequence[AttributionMethod],
    environments: Sequence[str | Environment] | None = None,
    *,
    n: int = 8,
    seed: int = 0,
) -> pd.DataFrame:
    """Predict the order of methods on trained networks from scores on hand-weighted ones.

    The ranking score is the mean F1 of a method's claim over the implementations *planes* and *natural*
    of each world, and over worlds. If a world has a soft sister, it replaces the world: a step, a
    minimum or a maximum has no gradient on one side, while heads of trained networks have one. The
    catalog states some (`soft-at-least` of `at-least`); for worlds of `attributionlab.world` and random
    worlds it is 20 times the rule (1,000 times a condition), plus the counts that it reads, each with
    the sign of its effect, where that leaves the truth as it is.

    The score predicts an order and is not a verdict: a method with a high score may be wrong
    (`attributionlab.faithfulness_test`), and how well it predicts is measured in
    docs/trained-networks.md.

    Parameters
    ----------
    methods : sequence
        Names, classes or callables, as `faithfulness_test` takes them.
    environments : sequence of str or Environment, optional
        Worlds with a color detector in their original implementation; by default the ten worlds in
        which the prediction was measured, with their images.
    n : int
        Images of each world.
    seed : int
        Which images.

    Returns
    -------
    pandas.DataFrame
        One row for each method, best first. Columns: method, ranking_score in [0, 1], and the mean of
        both implementations in each world, by its name (for a soft sister, by the sister's name). NaN
        if a method cannot run; the ranking score leaves such a world out.

    Raises
    ------
    AttributionLabError
        For unknown methods and worlds, and worlds that have no such implementation.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("quadrants", image_size=24)
    >>> found = al.ranking_scores(["saliency", "feature-ablation-true-baseline"], [env], n=2)
    >>> found.method.tolist()
    ['feature-ablation-true-baseline', 'saliency']
    """
    refuse_if([*integer_problem("n", n, 1, MOST_IMAGES), *integer_problem("seed", seed, 0)])
    if not isinstance(methods, list | tuple) or not methods:
        raise AttributionLabError(f"methods is {methods!r}: give a list, such as ['saliency']")
    worlds = (
        [ranked_world(name) for name in LEARNING_IMAGES]
        if environments is None
        else as_environments(environments)
    )
    asked = [soft_sister(world) or world for world in worlds]
    refuse_if(repeated_problem("environments", [env.name for env in asked]))
    columns = {}
    for env in asked:
        both = [network_scores(env.with_implementation(name), methods, n, seed) for name in GRADED]
        columns[env.name] = pd.concat([each.f1 for each in both], axis=1).mean(axis=1, skipna=False)
        names = both[0].method
        for each in pd.concat(both).query("refused != ''").drop_duplicates("method").itertuples():
            text = f"{each.method} has no score in {env.name}: {each.refused}"
            warnings.warn(text, AttributionWarning, stacklevel=4)
    found = pd.DataFrame(columns)
    found.insert(0, "ranking_score", found.mean(axis=1))
    found.insert(0, "method", names)
    order = found.sort_values("ranking_score", ascending=False, kind="stable")
    return order.reset_index(drop=True)
