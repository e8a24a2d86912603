"""What items explain: a network, images and their labels, built in or a user's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    checked_outputs,
    format_error,
    in_one_line,
    integer_problem,
    refuse_if,
)
from attributionlab.methods import METHODS, Call, as_method, attribute, hand_on_notices
from attributionlab.metrics import accuracy
from attributionlab.papers.subjects.drawn_pictures import CLASSES, Pictures, pictures
from attributionlab.papers.subjects.networks import gradcam_layer, trained_small_network
from attributionlab.runs import images_in, local_model
from attributionlab.worlds import Environment

REFERENCE_IMAGES = 128
AT_ONCE = 16
"""Images that a user's network gets in one call."""
ATTACHED = ("gradcam", "iba")
"""Methods that explain by a layer."""

TRAINED = "trained on pictures"
TRAINING_EPOCHS = 5


class OwnNetwork(TypedDict, total=False):
    """Settings of an item that takes a user's classifier and images in place of ours.

    `images` is a folder of class folders, as for `attributionlab.runs.local_data.images_in`; `model`,
    with the file of its `weights`, the classifier, ``path/to/file.py:name``, as for
    `runs.local_data.local_model`: it takes images in [0, 1] and returns logits. `classes`
    is a text file with the names of all class folders in the order of the outputs, one in a line,
    for a folder that has only some of them; `size` the side of the images in pixels, 224 by
    default. An item that explains by a layer takes `layer`, one that compares the network with its
    fine-tuned self `fine_tuned`.
    """

    images: str | None
    model: str | None
    weights: str | None
    classes: str | None
    size: int


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, images and their labels.

    `model` is the network of the metrics, which returns logits, and `explained` the one that is
    explained, unless a method explains logits alone. Images lie in [0, highest]; `empty`, (C, 1,
    1), is the pixel of an image of which nothing is kept; at `temperature` the label's probability
    is not saturated. `information` is phi, where it is known; `objects` where the objects are that
    tell the classes, if that is known; `offered` is what methods may declare by name; `notes` are
    what a reader of results must know.
    """

    name: str
    model: nn.Module
    explained: nn.Module
    images: Float[Tensor, "batch channels height width"]
    targets: Int[Tensor, " batch"]
    highest: float
    empty: Float[Tensor, "channels 1 1"]
    temperature: float
    information: Float64[Tensor, "batch 1 height width"] | None = None
    objects: Bool[Tensor, "batch 1 height width"] | None = None
    offered: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def side(self) -> int:
        return self.images.shape[-1]


def of_images(
    name: str, network: nn.Module, images: Tensor, targets: Tensor, empty: Tensor, **more: Any
) -> Subject:
    """A network of images in [0, 1] that is explained by its logits, which are not saturated."""
    return Subject(name, network, network, images, targets, 1.0, empty, 1.0, **more)


def mean_color(images: Tensor) -> Float[Tensor, "channels 1 1"]:
    """The mean of all pixels."""
    return images.mean((0, 2, 3))[:, None, None]


def environment_subject(env: Environment, n: int, seed: int) -> Subject:
    """Images of an environment, with phi: what is positive of the target's exact Shapley values."""
    images, labels = env.batch(n, seed)
    targets = env.targets(labels)
    values = [env.shapley(x, int(t)) for x, t in zip(images, targets, strict=True)]
    references = env.batch(REFERENCE_IMAGES, seed + 1)[0]
    return Subject(
        env.name,
        env.model,
        env.model if env.softmax_model is None else env.softmax_model,
        images,
        targets,
        float(env.max_value),
        env.baseline,
        float(env.temperature or 1),
        torch.stack(values).clamp(min=0),
        offered={"layers": dict(env.layers), "reference_images": references},
    )


def chosen_subject(
    n: int,
    seed: int,
    *,
    layer: str | None = None,
    layer_for: str | None = None,
    predicted: bool = False,
    **own: Unpack[OwnNetwork],
) -> Subject | None:
    """A user's classifier and images, None without both; what is true of them nobody knows.

    There are n images of each class, chosen by the seed. `layer` is the dotted name of the module
    that methods explain by, such as GradCAM; without it those are left out, or refused where
    `layer_for` names one that is needed. With `predicted`, a folder of images without class folders
    is taken, too: what the model predicts is explained, and n is of all. Refused are one of images
    and model without the other, other settings without them, images without class folders, and a
    model that does not return a finite output for each class.
    """
    folder, reference, size = own.get("images"), own.get("model"), own.get("size", 224)
    classes, weights = own.get("classes"), own.get("weights")
    refuse_if([*integer_problem("n", n, 1), *integer_problem("size", size, 1)])
    if (folder is None) != (reference is None):
        raise AttributionLabError(
            f"images is {folder!r} and model is {reference!r}: pass both, or neither for our own"
        )
    if folder is None or reference is None:
        refuse_if(
            [
                f"{name} is {value!r} without images: pass images and model, too"
                for name, value in (
                    ("classes", classes),
                    ("weights", weights),
                    ("layer", layer),
                    ("size", own.get("size")),
                )
                if value is not None
            ]
        )
        return None
    if layer_for and layer is None:
        raise AttributionLabError(
            f"layer is None, but {layer_for} needs one: pass the dotted name of a module of the "
            "model"
        )
    if not isinstance(classes, str | Path | None):
        raise AttributionLabError(f"classes is {classes!r}: pass the path of a text file")
    names = None if classes is None else _names_in(Path(classes))
    given = images_in(folder, size=size, n=n, seed=seed, classes=names)
    if not given.classes and not predicted:
        raise AttributionLabError(
            f"images is {folder!r}, which has no class folders: put the images of each class into "
            "a folder of their own"
        )
    model = local_model(reference, weights)
    outputs = _outputs(model, reference, given.images)
    if given.classes and outputs.shape[1] != len(given.classes):
        counted = f"class folders in {str(folder)!r}" if names is None else f"names in {classes}"
        raise AttributionLabError(
            f"the model has {outputs.shape[1]} outputs for {len(given.classes)} {counted}: pass as "
            "classes a file that names the folder of each output, one per line"
        )
    targets = given.labels if given.classes else outputs.argmax(1)
    right = accuracy(outputs, given.labels) if given.classes else None
    return of_images(
        *(Path(folder).name, model, given.images, targets),
        mean_color(given.images),
        offered={"layer": layer, "reference_images": given.images} if layer else {},
        notes=_notes(reference, right, len(targets), size, layer),
    )


def _outputs(
    model: nn.Module, reference: str, images: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "batch outputs"]:
    """A few images at a time: a large network's activations of many would not fit the memory."""
    shape = " x ".join(str(length) for length in images.shape)
    with (
        torch.no_grad(),
        in_one_line(
            lambda error: (
                f"{reference} raised {format_error(error)} on images {shape} in [0, 1]: pass a size "
                "that it takes, or images of other channels"
            )
        ),
    ):
        outputs = torch.cat(
            [checked_outputs(model(part), len(part)) for part in torch.split(images, AT_ONCE)]
        )
    what = None
    if not outputs.shape[1]:
        what = f"{tuple(outputs.shape)}: return an output for each class"
    elif outputs.shape[1] == 1:  # its softmax is 1 whatever the image
        what = f"{tuple(outputs.shape)}, one output: return those of at least two classes"
    elif not outputs.is_floating_point():
        what = f"{outputs.dtype}: return floating-point numbers"
    elif not outputs.isfinite().all():
        value = float(outputs[~outputs.isfinite()][0])
        what = f"{value} for images in [0, 1]: check its weights and normalization"
    if what is not None:
        raise AttributionLabError(f"{reference} returned {what}")
    return outputs


def _notes(
    reference: str, right: Float64[Tensor, " images"] | None, n: int, size: int, layer: str | None
) -> tuple[str, ...]:
    """Whether the network knows the images as it gets them, and which methods are left out."""
    at = f"at {size} x {size} in [0, 1]"
    if right is None:
        shown = f"The {n} images have no labels: what {reference} predicts is explained, {at}."
    else:
        shown = (
            f"{reference} is right on {float(right.mean()):.0%} of the {n} images, {at}; if that is "
            "too low, check size, classes, weights and normalization."
        )
    left_out = "Methods that need a layer are left out: pass layer, the name of a module."
    return (shown,) if layer else (shown, left_out)


def _names_in(file: Path) -> list[str]:
    """The lines of a text file."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AttributionLabError(
            f"cannot read classes from {str(file)!r} ({type(error).__name__}): pass a text file"
        ) from error
    names = [line.strip() for line in lines]
    if not names or not all(names):
        raise AttributionLabError(
            f"{str(file)!r} has no name in line {names.index('') + 1 if names else 1}: write the "
            "class folder of each output into a line of its own"
        )
    return names


def maps_of(
    subject: Subject,
    name: str,
    seed: int,
    settings: Mapping[str, Any] | None = None,
    repeat: int = 0,
) -> Float[Tensor, "batch 1 height width"]:
    """The map of a built-in method for each image, summed over channels, of either sign.

    Of a method that explains logits alone the subject's model is explained. The seed is that of
    what is random; `repeat` says which of several runs of a method that optimizes, 0 the first. What
    guards say of the maps is in the item's notes.
    """
    method = as_method(name, METHODS, settings or {})
    if repeat:
        seed = int(np.random.SeedSequence([seed, repeat]).generate_state(1)[0])
    model = subject.model if method.output == "logit" else subject.explained
    generator = torch.Generator().manual_seed(seed)
    offered = {**subject.offered, "generator": generator, "highest": subject.highest}
    offered["nudge"] = repeat
    inputs = subject.images.clone(memory_format=torch.channels_last)
    total = len(inputs)
    call = Call(subject.name, model, inputs, subject.targets.clone(), 0, total, offered)
    with hand_on_notices(name):
        return attribute(method, call, seed).maps


def trained_subject(n: int, training: int, seed: int) -> Subject:
    """A small convolutional network trained on so many pictures, and n others to explain.

    The seed is that of the pictures of the training and of the weights, seed + 1 that of the
    others.
    """
    return subject_trained_on(pictures(training, seed), pictures(n, seed + 1), seed)


def subject_trained_on(
    learned: Pictures, shown: Pictures, seed: int, epochs: int = TRAINING_EPOCHS
) -> Subject:
    """What a training on `learned` has come to after some epochs, with pictures to explain.

    With the same seed further epochs go on along the same trajectory, step by step.
    """
    network = trained_small_network(
        learned.images, learned.labels, classes=CLASSES, seed=seed, epochs=epochs
    )
    layers, references = dict.fromkeys(ATTACHED, gradcam_layer(network)), learned.images
    return of_images(
        *(TRAINED, network, shown.images, shown.labels),
        mean_color(learned.images),
        objects=shown.objects,
        offered={"layers": layers, "reference_images": references[:REFERENCE_IMAGES]},
    )
