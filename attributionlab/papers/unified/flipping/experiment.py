"""Figures 1, 4, 5 and 6 of Wang and Wang (2022): what makes a network's output fall under a mask?"""

from typing import TYPE_CHECKING

from attributionlab.environment.catalog import load
from attributionlab.errors import AttributionLabError
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.subjects.subjects import (
    TRAINED,
    Subject,
    chosen_subject,
    environment_subject,
    trained_subject,
)
from attributionlab.papers.unified.flipping.curves import (
    Flipped,
    baselines_of,
    flipped,
    mask_counts,
    pooled,
)
from attributionlab.papers.unified.flipping.figures import (
    decay_figure,
    first_figure,
    masked_figure,
    reference_figure,
)
from attributionlab.papers.unified.flipping.findings import findings_of
from attributionlab.papers.unified.flipping.orders import Orders, orders_of
from attributionlab.papers.unified.flipping.tables import (
    EARLY,
    MASKED,
    Case,
    correlations_table,
    curves_table,
    differences_table,
    drops_table,
    references_table,
    ties_table,
    unseen_table,
)
from attributionlab.progress import track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETWORKS, QUICK_NETWORKS = 6, 3
IMAGES, QUICK_IMAGES = 64, 24
"""Pictures for each trained network, and images of an environment."""
TRAINING, QUICK_TRAINING = 2000, 1000
STEPS, QUICK_STEPS = 40, 20
SIDE = 36
ENVIRONMENT = "multi-color-sum"
UNSEEN, KNOWN = f"{ENVIRONMENT}, unseen data", f"{ENVIRONMENT}, no unseen data"
ZEROS, TRUE_BASELINE = "zeros", "true baseline"
ITEMS = {
    "unified-figure-1": ("Pixel Flipping of GradCAM and of random pixels", "first"),
    "unified-figure-4": ("Pixel Flipping of seven maps, by baseline", "decays"),
    "unified-figure-5": ("Masked images", "masked"),
    "unified-figure-6": ("Reference Pixel Flipping", "references"),
}
"""Title, and which figure comes first; all are of the same run."""
SHOWN = {
    "drops": "by how much the indicators fall from the unmasked images (logit: in units of its mean "
    "there) when a share of the pixels is masked in an order; isolation: mean share of a masked "
    "pixel's neighbors that are not masked; low, high: 95 % interval of the probability's drop",
    "differences": "of these drops: random masking minus GradCAM, and minus a window of as many "
    "connected pixels at a random place; low, high: 95 % bootstrap interval over networks or images",
    "correlations": "Spearman correlation over the seven maps between a drop and isolation, or the "
    "share of the true information that is masked (truth): mean and 95 % interval over networks or "
    "images",
    "unseen": "of the drop of the probability with zeros, which the network has never seen: what is "
    "more than with the true baseline, a color that it knows; low, high: 95 % bootstrap interval over "
    "images",
    "ties": "maps whose order is a random one (constant), and those with fewer positive pixels than "
    "are masked where the tables are read off, whose last masked pixels are zero or negative; ties are "
    "shuffled",
    "references": "reference: pixels that random masking is confined to, as a share of all, the first "
    "by GradCAM. at: masked share of the reference where its mean probability is furthest below "
    "GradCAM's, with a 95 % interval. minus_gradcam, minus_random: differences of the probability "
    "when half of the reference is masked, with 95 % intervals",
}


def unified_flipping(
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
    show_progress: bool = False,
) -> Reproduction:
    """Mask pixels by maps, at random, in a window at random, and at random within GradCAM's first.

    Subjects are small networks trained on drawn pictures, and hand-weighted networks of which is known
    what they use: one that reacts to colors it has never seen, and one that does not.

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Images of each network; 64, or 24 in a quick run, by default. Of given images, for each class; 8
        by default.
    quick : bool
        Fewer trained networks and images, coarser curves.
    seed : int
        Of images, weights, ties, noise and random orders.
    images, model : str, optional
        A folder of class folders and a classifier (``path/to/file.py:name``), to be asked instead of
        our networks.
    weights : str, optional
        A file with that classifier's weights.
    layer : str, optional
        Dotted name of the module of that classifier that GradCAM explains by; needed with it.
    classes : str, optional
        A text file that names the class folder of each output of the classifier, one in a line.
    size : int
        Side of the given images.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "drops", "differences", "correlations", "references", "unseen", "ties" and "curves";
        figures "first", "decays", "masked" and "references".
    """
    given = chosen_subject(
        *(images, model, 8 if n is None else n, seed),
        size=size,
        layer=layer,
        classes=classes,
        weights=weights,
    )
    if given is not None and layer is None:
        raise AttributionLabError(
            "layer is None, and GradCAM explains by one: pass the dotted name of a module of the model"
        )
    steps = QUICK_STEPS if quick else STEPS
    number = n if n is not None else QUICK_IMAGES if quick else IMAGES
    cases: dict[Case, Flipped] = {}
    if given is not None:
        subject, orders = given, orders_of(given, seed)
        explained = {given.name: [orders]}
        cases |= _cases(given, orders, seed, steps)
    else:
        subject, explained, cases = _trained(number, quick, seed, steps, item, show_progress)
        orders = explained[TRAINED][0]
        cases |= _environments(number, seed, steps, explained)
    tables = {
        "drops": drops_table(cases, seed),
        "differences": differences_table(cases, seed),
        "correlations": correlations_table(cases, seed),
        "references": references_table(cases, seed),
        "unseen": unseen_table(cases, seed, TRUE_BASELINE),
        "ties": ties_table(explained),
        "curves": curves_table(cases),
    }
    title, first = ITEMS[item]
    figures: dict[str, Figure] = {
        "first": first_figure(cases),
        "decays": decay_figure(cases),
        "masked": masked_figure(subject, orders),
        "references": reference_figure(cases),
    }
    return Reproduction(
        item=item,
        title=title,
        tables=tables,
        figures={name: figures[name] for name in dict.fromkeys([first, *figures])},
        findings=[
            *(given.notes if given is not None else ()),
            *findings_of(tables, {key: len(case.isolation) for key, case in cases.items()}),
        ],
        shown={name: told for name, told in SHOWN.items() if len(tables[name])},
    )


def _cases(subject: Subject, orders: Orders, seed: int, steps: int) -> dict[Case, Flipped]:
    """With zeros and with noise."""
    counts = mask_counts(orders.orders.shape[2], steps, (EARLY, MASKED))
    return {
        (subject.name, name): flipped(subject, orders, replacement, counts)
        for name, replacement in baselines_of(subject, seed).items()
    }


def _trained(
    n: int, quick: bool, seed: int, steps: int, item: str, show_progress: bool
) -> tuple[Subject, dict[str, list[Orders]], dict[Case, Flipped]]:
    """Networks that differ in their pictures and weights; the first subject, all orders and curves."""
    networks = QUICK_NETWORKS if quick else NETWORKS
    # A subject takes the seeds s and s + 1, so that no two networks share pictures.
    seeds = [seed + 2 * index for index in range(networks)]
    found: dict[Case, list[Flipped]] = {}
    explained: dict[str, list[Orders]] = {}
    first: Subject | None = None
    for own in track(seeds, networks, f"{item}, {TRAINED}", show_progress):
        subject = trained_subject(n, QUICK_TRAINING if quick else TRAINING, own)
        orders = orders_of(subject, own)
        first = first or subject
        explained.setdefault(subject.name, []).append(orders)
        for case, curves in _cases(subject, orders, own, steps).items():
            found.setdefault(case, []).append(curves)
    assert first is not None
    return first, explained, {case: pooled(curves) for case, curves in found.items()}


def _environments(
    n: int, seed: int, steps: int, explained: dict[str, list[Orders]]
) -> dict[Case, Flipped]:
    """Black, which one network has never seen and the other does not react to; a known color.

    The orders are added to `explained`.
    """
    cases: dict[Case, Flipped] = {}
    for name, settings, baselines in (
        (UNSEEN, {}, (ZEROS, TRUE_BASELINE)),
        (KNOWN, {"redundant_channels": 0}, (ZEROS,)),
    ):
        env = load(ENVIRONMENT, image_size=SIDE, **settings)
        subject = environment_subject(env, n, seed)
        orders = orders_of(subject, seed)
        explained[name] = [orders]
        counts = mask_counts(orders.orders.shape[2], steps, (EARLY, MASKED))
        for baseline in baselines:
            replacement = subject.empty if baseline == TRUE_BASELINE else 0.0
            cases[name, baseline] = flipped(subject, orders, replacement, counts)
    return cases
