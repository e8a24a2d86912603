"""Which pixels belong together: what LIME and its kin take for their features."""

from attributionlab.segmentation.choice import SEGMENTATIONS, Segmentation, segment
from attributionlab.segmentation.segment_anything import partition, sam
from attributionlab.segmentation.superpixels import felzenszwalb, grid, pixels, quickshift, slic

__all__ = [
    "SEGMENTATIONS",
    "Segmentation",
    "felzenszwalb",
    "grid",
    "partition",
    "pixels",
    "quickshift",
    "sam",
    "segment",
    "slic",
]
