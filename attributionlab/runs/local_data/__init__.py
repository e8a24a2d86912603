"""Data and networks that a user has on disk; nothing is downloaded, and no pickle is read."""

from attributionlab.runs.local_data.folders import LabeledImages, cifar10, images_in
from attributionlab.runs.local_data.models import local_model

__all__ = ["LabeledImages", "cifar10", "images_in", "local_model"]
