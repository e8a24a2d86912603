"""What is found out about attributions: that they are silently wrong, or what had to be repaired.

A guard hands a `Notice` to `notify`. Within a test the run collects them; called directly, a notice
with something to say becomes a warning.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal, NamedTuple

from jaxtyping import Int
from torch import Tensor

from attributionlab.base import GuardWarning

Kind = Literal[
    "",
    "batch-mixing",
    "completeness",
    "error",
    "hooks",
    "image-only",
    "kinks",
    "quadrature",
    "saturation",
    "segments",
    "target",
    "unseeded",
    "values",
    "zeros",
]
"""What a notice is about, for a program. Sums are missed by a quadrature, or for another reason
("completeness"); an exact integral has an estimated error; a surrogate has a single superpixel
("segments") or fits nothing ("zeros"). "values" says what the network was shown, "image-only" and
"target" that a map does not depend on the network or on the target."""


ZEROS = "are zero everywhere and score 0"
"""What is said of maps of zeros without a reason."""
PACKAGE = __name__.partition(".")[0]


class Shown(NamedTuple):
    """What a method showed the network of an image."""

    values: tuple[float, float]
    """the lowest and the highest of all calls"""
    of_image: tuple[float, float]
    """the same of the image"""
    color: tuple[float, ...]
    """the most frequent color of the image, a value for each channel"""
    lowest: tuple[float, ...]
    """the lowest value that its pixels had in a call (the median pixel's)"""
    highest: tuple[float, ...]
    """the highest"""


@dataclass(frozen=True)
class Notice:
    """A guard's finding about the attributions of a batch.

    - `text`: the problem and the remedy, continuing "attributions of 3 images ..."; `{worst}` stands
      for the largest of the values.
    - `images`: number of images concerned; 0 if there is no problem.
    - `gaps`: per image the share of the output change that the attributions miss, for the completeness
      guard.
    - `worst`: the largest value that `text` may name.
    - `regions`: label maps of the images, where the attributions are constant on regions.
    - `kind`: its subject; empty if no diagnosis uses it.
    - `shown`: the queries for the first image (kind "values").
    """

    text: str
    images: int
    gaps: Sequence[float] = ()
    worst: float = 0.0
    regions: Int[Tensor, "batch height width"] | None = field(
        default=None, repr=False, compare=False
    )
    kind: Kind = ""
    shown: Shown | None = None


_listener: ContextVar[list[Notice] | None] = ContextVar("listener", default=None)
_looks_itself: ContextVar[bool] = ContextVar("looks itself", default=False)


@contextmanager
def collect_notices(*, of_a_users_call: bool = False) -> Iterator[list[Notice]]:
    """Collect notices inside, instead of warning.

    For a user's own call they include the guards of every method (`guards.guarded`); other callers must
    check maps and network themselves, as a test does.
    """
    notices: list[Notice] = []
    listening, looking = _listener.set(notices), _looks_itself.set(not of_a_users_call)
    try:
        yield notices
    finally:
        _listener.reset(listening)
        _looks_itself.reset(looking)


@contextmanager
def hand_on_notices(of: str) -> Iterator[None]:
    """Hand notices inside to who listens outside, if anybody does, as those of a method's maps."""
    with collect_notices() as notices:
        yield
    outside = _listener.get()
    if outside is not None:
        outside += [replace(notice, text=f"of {of} {notice.text}") for notice in notices]


def collecting() -> bool:
    """Whether somebody collects notices who looks at maps and networks, as tests do."""
    return _looks_itself.get()


def notify(notice: Notice) -> None:
    """Pass a notice to the collector; without one, warn if it reports a problem."""
    listener = _listener.get()
    if listener is not None:
        listener.append(notice)
    else:
        for sentence in summarized([notice]):
            warnings.warn(sentence, GuardWarning, stacklevel=_calls_inside())


def _calls_inside() -> int:
    """How many calls lie between a warning and the code outside of this package."""
    frame, calls = sys._getframe(1), 1
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == PACKAGE:
        frame, calls = frame.f_back, calls + 1
    return calls


def summarized(notices: Iterable[Notice]) -> list[str]:
    """One sentence for each kind of notice, with the number of images and the worst value, or the
    median if each image has a value. Maps of zeros with a reason are reported once.
    """
    images, worst = Counter[str](), dict[str, float]()
    gaps: dict[str, list[float]] = {}
    for notice in notices:
        images[notice.text] += notice.images
        worst[notice.text] = max(worst.get(notice.text, 0.0), notice.worst)
        gaps.setdefault(notice.text, []).extend(notice.gaps)
        if notice.kind in ("zeros", "saturation"):
            images[ZEROS] -= notice.images
    sentences = []
    for text, count in images.items():
        if count > 0:
            middle = f" (median {median(gaps[text]):.0%})" if len(gaps[text]) > 1 else ""
            whole = text.replace("{worst}", f"{worst[text]:.0%}{middle}")
            sentences.append(f"attributions of {count} image{'s' * (count > 1)} {whole}")
    return sentences
