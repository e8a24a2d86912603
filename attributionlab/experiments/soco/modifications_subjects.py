"""A trained network on drawn pictures, where accuracy is graded as on photographs."""

from torch import nn

from attributionlab.experiments.small_network import trained_small_network
from attributionlab.experiments.soco.methods_subjects import Subject
from attributionlab.experiments.soco.retraining_images import CLASSES, pictures

__all__ = ["TRAINED", "trained_subject"]

TRAINED = "trained on pictures"
EPOCHS = 5
REFERENCES = 128


def trained_subject(n: int, training: int, seed: int) -> Subject:
    """A small convolutional network, and pictures that it was not trained on.

    Parameters
    ----------
    n : int
        Pictures to explain.
    training : int
        Pictures to train on.
    seed : int
        Of the pictures for training and of the weights; seed + 1 of those to explain.
    """
    learned, asked = pictures(training, seed), pictures(n, seed + 1)
    network = trained_small_network(
        learned.images, learned.labels, classes=CLASSES, seed=seed, epochs=EPOCHS
    )
    last = [module for module in network if isinstance(module, nn.ReLU)][-1]
    return Subject(
        TRAINED,
        network,
        network,
        asked.images,
        asked.labels,
        1.0,
        learned.images.mean((0, 2, 3))[:, None, None],
        1.0,
        offered={"layers": {"gradcam": last}, "reference_images": learned.images[:REFERENCES]},
    )
