"""Figures 25 and 26 of AttributionLab: LIME's maps of photographs by segmentation."""

from attributionlab.papers.attributionlab.photographs.pictured import Own, pictured_by
from attributionlab.papers.attributionlab.photographs.segmented_lime import (
    QUICK_SAMPLES,
    SAMPLES,
    SHOWN,
    lime_figure,
    lime_findings,
    lime_tables,
    segmented_maps,
)
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track

ITEMS = {
    "figure-25": ("LIME's maps of photographs by segmentation, VGG16", "convolutions"),
    "figure-26": ("LIME's maps of photographs by segmentation, ViT-B-16", "attention"),
}
"""Title, and what is trained on drawn pictures without a network and photographs."""


def lime_on_photographs(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    classes: str | None = None,
    size: int = 224,
    sam_weights: str | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """LIME with the superpixels of several segmentations, and how noisy its maps are.

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Photographs of each class folder (of a folder without: in all), by default 1; drawn pictures for
        each network, by default 12, or 6 in a quick run.
    quick : bool
        One network instead of three, trained on half of the pictures; 300 samples of LIME instead of
        1,000.
    seed : int
        Of pictures, training and LIME.
    images, model : str, optional
        A folder of photographs, in class folders or without, and a classifier
        (``path/to/file.py:name``, see `attributionlab.local_data`). Without them networks are trained
        on drawn pictures: convolutions for VGG16, attention for ViT-B-16.
    weights : str, optional
        A safetensors file, or a state dict that `torch.save` wrote, with that classifier's weights.
    classes : str, optional
        A text file that names the class folder of each output of the classifier, one in a line.
    size : int
        Side of the photographs in pixels.
    sam_weights : str, optional
        A file with the weights of a Segment Anything model; SAM is left out without one.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "lime" (means), "lime_differences" and "lime_images"; figure "maps".
    """
    title, network = ITEMS[item]
    own = Own(images, model, weights, classes, size)
    subjects = pictured_by(network, own, n, quick, seed)
    work = segmented_maps(subjects, sam_weights, quick, seed)
    results = list(track(work, len(subjects), item, show_progress))
    tables = lime_tables(results, seed)
    figure = lime_figure(results[0], f"LIME by superpixels: {results[0].pictured.subject.name}")
    samples = QUICK_SAMPLES if quick else SAMPLES
    return Reproduction(
        item,
        title,
        tables,
        {"maps": figure},
        [
            *(note for each in subjects for note in each.subject.notes),
            *lime_findings(tables, samples),
        ],
        SHOWN,
    )
