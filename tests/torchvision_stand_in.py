"""What other libraries need of torchvision, where it cannot be imported."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import torch
from PIL import Image

# segment-anything uses four names


def box_area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def batched_nms(boxes, scores, categories, iou_threshold):
    """Best score first, without those that overlap a better one of their category too much."""
    kept = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        rivals = [j for j in kept if categories[j] == categories[i]]
        if all(_overlap(boxes[i], boxes[j]) <= iou_threshold for j in rivals):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def _overlap(a, b):
    width, height = (
        (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).tolist()
    )
    both = width * height
    return both / max(float(box_area(a[None])) + float(box_area(b[None])) - both, 1e-12)


def to_pil_image(array):
    return Image.fromarray(np.asarray(array))


def resize(image, size):
    return image.resize((size[1], size[0]), Image.Resampling.BILINEAR)


def modules():
    """The package as entries of sys.modules, for segment-anything."""
    names = ("", ".ops", ".ops.boxes", ".transforms", ".transforms.functional")
    made = {f"torchvision{name}": ModuleType(f"torchvision{name}") for name in names}
    boxes, functional = made["torchvision.ops.boxes"], made["torchvision.transforms.functional"]
    boxes.batched_nms, boxes.box_area = batched_nms, box_area
    functional.resize, functional.to_pil_image = resize, to_pil_image
    return made


def forget(prefixes):
    """Take modules out of sys.modules; they come back with their contents."""
    found = [name for name in sys.modules if name.partition(".")[0] in prefixes]
    return {name: sys.modules.pop(name) for name in found}


class AnyName(type):
    """The type of classes that have every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return AnyName(name, (), {})


class Torchvision:
    """Finds modules of torchvision, all of whose names are empty classes, where there is none.

    pytorch-grad-cam, timm and zennit name it when they are imported, and do without it afterwards.
    """

    def find_spec(self, name, path=None, target=None):
        ours = name.partition(".")[0] == "torchvision"
        return ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__getattr__ = lambda name: getattr(AnyName("module", (), {}), name)
