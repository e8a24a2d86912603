"""Which pixels belong together: what LIME takes for its features."""

from attributionlab.segmentation.choice import SEGMENTATIONS, Segmentation, segment
from attributionlab.segmentation.segment_anything import partition, sam
from attributionlab.segmentation.superpixels import felzenszwalb, grid, quickshift, slic

__all__ = [
    "SEGMENTATIONS",
    "Segmentation",
    "felzenszwalb",
    "grid",
    "partition",
    "quickshift",
    "sam",
    "segment",
    "slic",
]
