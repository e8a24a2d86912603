"""Data and networks that a user has on disk; nothing is downloaded, and no pickle is read."""

from attributionlab.runs.local_data.cifar import cifar10, cifar100
from attributionlab.runs.local_data.folders import LabeledImages, images_in
from attributionlab.runs.local_data.models import local_model

__all__ = ["LabeledImages", "cifar10", "cifar100", "images_in", "local_model"]
