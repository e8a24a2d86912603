"""Settings with which any built-in method is quick, for tests of what holds for all of them."""

import inspect

from attributionlab.methods import METHODS

# As few samples and steps as a method takes: what is asked here does not depend on them.
FEW = {
    "extremal-perturbation": {"iterations": 2},
    "iba": {"steps": 1, "copies": 2, "sigma": 0},
    "input-iba": {"steps": 1, "copies": 2, "sigma": 0, "epochs": 1, "samples": 8},
    "kernel-shap": {"n_samples": 20, "segmentation": "grid"},
    "lime": {"n_samples": 20, "segmentation": "grid"},
    "rise": {"n_samples": 20},
    "shapley-value-sampling": {"n_samples": 2},
    "smoothgrad": {"n_samples": 2},
}
OF_TRANSFORMERS = ("attention-rollout", "chefer-lrp")
VARIANTS = ("-true-baseline", "-absolute", "-smoothgrad-squared", "-smoothgrad", "-vargrad")


def bases(name):
    """The name, and what is left of it without endings that mean the same for every method."""
    names = [name]
    while ending := next((each for each in VARIANTS if names[-1].endswith(each)), None):
        names.append(names[-1].removesuffix(ending))
    return names


def few(name):
    takes = inspect.signature(METHODS[name]).parameters
    of_family = {
        key: value
        for family, settings in FEW.items()
        if any(base.startswith(family) for base in bases(name))
        for key, value in settings.items()
    }
    general = {"n_samples": 2, "n_steps": 3, "n_baselines": 2}
    return {key: value for key, value in (general | of_family).items() if key in takes}
