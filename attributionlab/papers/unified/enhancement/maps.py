"""Figure 2 and appendix figures 1 to 5 of Wang and Wang (2022): maps of untrained and trained twins."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.unified.enhancement.accuracies import PAPER_EPSILON
from attributionlab.papers.unified.enhancement.map_findings import findings_of
from attributionlab.papers.unified.enhancement.projected_descent import STEPS
from attributionlab.papers.unified.enhancement.twin_maps import (
    CONDITIONS,
    CONSTANT,
    ENHANCED,
    PLAUSIBILITY,
    RAW,
    SIMILARITY,
    TRAINED,
    TwinMaps,
    pair_name,
    rows_of,
    twin_maps,
)
from attributionlab.papers.unified.enhancement.twins import Twins, given_twins, our_twins
from attributionlab.papers.unified.six_methods import MAPS
from attributionlab.papers.unified.verdicts import ends_of
from attributionlab.progress import track
from attributionlab.report.picture_grid import GridRow, picture_grid_figure
from attributionlab.stats.intervals import mean_score
from attributionlab.validation import integer_problem, number_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ITEMS = {
    "unified-figure-2": "gradcam",
    **{
        f"unified-appendix-figure-{number}": method
        for number, method in enumerate(list(MAPS)[1:], start=1)
    },
}
"""The method of each figure; the numbers of a run are those of all methods."""
DESIGN = "VGG-like"
NETWORKS, QUICK_NETWORKS = 6, 3
IMAGES, QUICK_IMAGES = 32, 16
TRAINING, QUICK_TRAINING = 1500, 400
COLUMNS = 6
SIMILAR = {
    name: pair_name(*pair)
    for name, pair in {
        "same network": (RAW, ENHANCED),
        "same answer": (ENHANCED, TRAINED),
        "neither": (RAW, TRAINED),
    }.items()
}
"""What the maps of two conditions have in common besides the picture."""
SHOWN = {
    "similarities": "Spearman correlation of two maps of an image. same network: untrained, of the raw "
    "and the enhanced image; same answer: the right one, untrained on the enhanced image and trained "
    "on the raw one; neither: untrained and trained on the raw image. more: same network minus same "
    "answer; low, high: its 95 % bootstrap interval over networks. images: those of which no map is "
    "constant, of as many networks; the numbers are of these",
    "plausibility": "pointing game (does the largest value lie on the object?) and share of the "
    "positive values on the object, means over networks; fall: trained minus untrained on enhanced "
    "images; low, high: its 95 % bootstrap interval over networks. images: those of which all three "
    "are defined (no constant map; for the share, positive values), of as many networks",
    "constant": "maps that have one value everywhere, and images",
}


def unified_enhanced_maps(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    layer: str | None = None,
    classes: str | None = None,
    size: int = 224,
    epsilon: float = PAPER_EPSILON,
    steps: int = STEPS,
    show_progress: bool = False,
) -> Reproduction:
    """Maps of the label in an untrained network, on raw and enhanced images, and in its trained twin.

    Images are those that the paper shows: wrong in the untrained network, right there when enhanced,
    and right in the trained one; all images where there are none.

    Parameters
    ----------
    item : str
        A name in `ITEMS`, which decides whose maps are drawn.
    n : int, optional
        Images for each network; 32, or 16 in a quick run, by default. Of given images, for each class;
        2 by default.
    quick : bool
        Fewer networks and images.
    seed : int
        Of images and weights.
    images, model, weights : str, optional
        A folder of class folders, a classifier (``path/to/file.py:name``) and a file with its trained
        weights, to be asked instead of our networks; without the weights it is untrained.
    layer : str, optional
        Dotted name of the module of that classifier that GradCAM and others explain by; needed with it.
    classes : str, optional
        A text file that names the class folder of each output of the classifier, one in a line.
    size : int
        Side of the given images.
    epsilon : float
        Half of the side of the box, in units of pixel values from 0 to 1.
    steps : int
        Of the descent; the step's length is epsilon / 10.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "similarities", "plausibility" (where the objects are known), "constant" (how many maps
        are) and "images" (each of them);
        figure "maps".
    """
    refuse_if(
        [*number_problem("epsilon", epsilon, above=0, most=1), *integer_problem("steps", steps, 1)]
    )
    networks = QUICK_NETWORKS if quick else NETWORKS
    given = given_twins(
        *(images, model, weights, 2 if n is None else n, seed, networks),
        size=size,
        layer=layer,
        classes=classes,
    )
    if given is not None and layer is None:
        raise AttributionLabError(
            "layer is None, and GradCAM explains by one: pass the dotted name of a module of the model"
        )
    number = n if n is not None else QUICK_IMAGES if quick else IMAGES
    training = QUICK_TRAINING if quick else TRAINING
    asked: Iterable[Twins] = given if given is not None else _ours(number, training, seed, networks)
    rows: list[dict[str, Any]] = []
    shown: Figure | None = None
    notes = given[0].notes if given is not None else ()
    for index, twins in enumerate(track(asked, networks, item, show_progress)):
        found = twin_maps(twins, epsilon, steps, seed)
        rows += [{"network": index, **row} for row in rows_of(twins, found)]
        if shown is None:
            shown = _figure(twins, found, ITEMS[item], epsilon)
    assert shown is not None
    tables = _tables(rows, seed)
    return Reproduction(
        item=item,
        title=f"{MAPS[ITEMS[item]]} of untrained and trained networks, raw and enhanced images",
        tables=tables,
        figures={"maps": shown},
        findings=[*notes[:1], *findings_of(tables, epsilon, networks)],
        shown={name: told for name, told in SHOWN.items() if name in tables},
    )


def _ours(n: int, training: int, seed: int, networks: int) -> Iterator[Twins]:
    for index in range(networks):
        yield from our_twins(DESIGN, n, training, seed + 2 * index)


def _tables(rows: list[dict[str, Any]], seed: int) -> dict[str, "pd.DataFrame"]:
    """Means over the typical images of each network, then over networks."""
    import pandas as pd

    each = pd.DataFrame(rows)
    kept = each[each.typical] if each.typical.any() else each
    tables = {"similarities": _similarities(kept, seed)}
    if each.what.isin(PLAUSIBILITY).any():
        tables["plausibility"] = _plausibility(kept, seed)
    return tables | {"constant": _constant(kept), "images": each}


def _similarities(kept: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for method in MAPS.values():
        by_pair = _by_image(kept, method, SIMILARITY)[list(SIMILAR.values())]
        here = by_pair.set_axis(list(SIMILAR), axis=1)
        here["more"] = here["same network"] - here["same answer"]
        rows.append({"method": method, **_means(here, "more", seed)})
    return pd.DataFrame(rows)


def _plausibility(kept: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for metric in PLAUSIBILITY:
        for method in MAPS.values():
            here = _by_image(kept, method, metric)[list(CONDITIONS)]
            here["fall"] = here[TRAINED] - here[ENHANCED]
            rows.append({"metric": metric, "method": method, **_means(here, "fall", seed)})
    return pd.DataFrame(rows)


def _constant(kept: "pd.DataFrame") -> "pd.DataFrame":
    """How many maps of each method and condition are constant, and of how many images."""
    import pandas as pd

    rows = []
    for method in MAPS.values():
        here = _by_image(kept, method, CONSTANT)[list(CONDITIONS)]
        rows.append({"method": method, **here.sum().astype(int), "images": len(here)})
    return pd.DataFrame(rows)


def _by_image(kept: "pd.DataFrame", method: str, what: str) -> "pd.DataFrame":
    """A row for each image of each network, a column for each pair or condition."""
    chosen = kept[(kept.method == method) & (kept.what == what)]
    return chosen.pivot(index=["network", "image"], columns="of", values="value")


def _means(by_image: "pd.DataFrame", difference: str, seed: int) -> dict[str, float]:
    """Of the images of which all is known, over each network's, then over networks."""
    known = by_image.dropna()
    means = known.groupby("network").mean()
    return {
        **{str(name): mean_score(means[name].to_numpy()) for name in means},
        **ends_of(means[difference].to_numpy(), seed),
        "networks": len(means),
        "images": len(known),
    }


def _figure(twins: Twins, found: TwinMaps, method: str, epsilon: float) -> "Figure":
    """The paper's three rows below the raw and the enhanced images."""
    chosen = found.typical().nonzero().flatten()
    chosen = (chosen if len(chosen) else found.typical().argsort())[:COLUMNS]
    maps = {name: of_name[chosen, 0].double() for name, of_name in found.maps[method].items()}
    rows = [
        GridRow("raw image", list(found.images[RAW][chosen].numpy())),
        GridRow("enhanced image", list(found.images[ENHANCED][chosen].numpy())),
    ]
    for name in CONDITIONS:
        right = found.right[name][chosen].tolist()
        notes = ["right" if each else "wrong" for each in right]
        rows.append(GridRow(name, list(maps[name].numpy()), notes))
    title = (
        f"{MAPS[method]} for the label, {twins.design}, epsilon {epsilon:g}\n"
        "right, wrong: the network's answer"
    )
    signed = any(bool((of_name < 0).any()) for of_name in maps.values())
    return picture_grid_figure(rows, title, signed=signed)
