"""What a score is held against: controls with a verdict known in advance."""

from attributionlab.assess.controls import (
    CONTROLS,
    baseline_distance,
    constant,
    filled_patches,
    inverted_oracle,
    non_background,
    oracle,
    random,
    sobel,
)

__all__ = [
    "CONTROLS",
    "baseline_distance",
    "constant",
    "filled_patches",
    "inverted_oracle",
    "non_background",
    "oracle",
    "random",
    "sobel",
]
