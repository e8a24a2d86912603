"""Maps of the logit and of the probability of a network of one's own."""

from collections.abc import Sequence
from typing import Any

import torch

from attributionlab.methods.layers import find_layer
from attributionlab.papers.idsds.choices.cells import AFTER, LOGIT, OUTPUTS, Explained, cell_scores
from attributionlab.papers.idsds.choices.measurement import Measured, network_facts, summary_of
from attributionlab.papers.subjects.subjects import Subject


def given_network(subject: Subject, methods: Sequence[str], seed: int, *, quick: bool) -> Measured:
    """The tables of `measured` for one network, with the number of an image as "run".

    Parameters
    ----------
    subject : Subject
        Network and images; its empty pixel is what deleted pixels become.
    methods : sequence of str
        Rows of the panel; those that explain by a layer are left out where the subject has none.
    seed : int
        Of what is random in methods.
    quick : bool
        Whether methods take fewer samples.
    """
    import pandas as pd

    scores: list[dict[str, Any]] = []
    # A name may mean something else in the same network with a softmax behind it.
    named = subject.offered.get("layer")
    held = Explained(
        subject.model,
        None if named is None else find_layer(subject.model, named, None, "gradcam"),
        subject.images,
        subject.targets,
        subject.empty,
        None,
    )
    references = held.references()
    for output in OUTPUTS:
        setup = subject.name if output == LOGIT else subject.name + AFTER
        for method, sums in held.sums(output, methods, seed, quick=quick):
            for against, reference in references.items():
                key = {"setup": setup, "method": method, "against": against}
                found = cell_scores(reference, sums)
                scores += [
                    {**key, "run": image, **summary_of(found.of(image))}
                    for image in range(len(subject.images))
                ]
    with torch.no_grad():
        right = (subject.model(subject.images).argmax(1) == subject.targets).double().numpy()
    networks = network_facts(held, references).assign(
        setup=subject.name,
        run=range(len(subject.images)),
        parameters=sum(each.numel() for each in subject.model.parameters()),
        accuracy=right,
    )
    return Measured(pd.DataFrame(scores), networks)
