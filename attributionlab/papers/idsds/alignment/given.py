"""A network of one's own before and after fine-tuning."""

from typing import NamedTuple

from torch import nn

from attributionlab.errors import AttributionLabError
from attributionlab.local_data import local_model
from attributionlab.papers.subjects.subjects import Subject, chosen_subject


class GivenPair(NamedTuple):
    """A user's images and network, and that network with the weights after fine-tuning."""

    subject: Subject
    fine_tuned: nn.Module


def given_pair(
    images: str | None,
    model: str | None,
    n: int,
    seed: int,
    *,
    size: int,
    layer: str | None,
    classes: str | None,
    weights: str | None,
    fine_tuned: str | None,
) -> GivenPair | None:
    """A `chosen_subject` and what became of it, or None where neither images nor a model are given.

    Parameters
    ----------
    images, model, n, seed, size, layer, classes, weights
        As for `chosen_subject`.
    fine_tuned : str or None
        A file with the weights of the same network after `fine_tuned` of
        `attributionlab.papers.idsds.training`, or a training of one's own like it.

    Raises
    ------
    AttributionLabError
        As for `chosen_subject`; and for fine-tuned weights without a model, or a model without them.
    """
    subject = chosen_subject(
        images, model, n, seed, size=size, layer=layer, classes=classes, weights=weights
    )
    if subject is None:
        if fine_tuned is not None:
            raise AttributionLabError(
                f"fine_tuned is {fine_tuned!r} without a model: pass images and model, too"
            )
        return None
    if fine_tuned is None:
        raise AttributionLabError(
            f"model is {model!r} without fine_tuned: pass the weights of that network after training "
            "on images without a patch (attributionlab.papers.idsds.training.fine_tuned)"
        )
    assert model is not None
    return GivenPair(subject, local_model(model, fine_tuned))
