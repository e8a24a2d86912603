"""What takes the place of removed pixels: functions of `(images, keep, **settings)`."""

from attributionlab.imputation.linear import noisy_linear, noisy_linear_1d
from attributionlab.imputation.replacements import (
    Imputation,
    blur,
    constant,
    mean,
    nearest_known_color,
    rounded,
    true_baseline,
)

__all__ = [
    "Imputation",
    "blur",
    "constant",
    "mean",
    "nearest_known_color",
    "noisy_linear",
    "noisy_linear_1d",
    "rounded",
    "true_baseline",
]
