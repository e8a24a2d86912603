"""Metrics that look at next to nothing of a network, or remember their calls: none is valid."""

import pytest
import torch

import attributionlab as al
from attributionlab.metrics import insertion, metric
from attributionlab.verdicts.metric_trials.run import metric_trial

CLEAN = {"share": [0]}


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=12)


class Remembers:
    """Takes the first network of an image for its own, and the maps that come first for those made for
    it; their mean is nearly the exact map. It calls no model.
    """

    higher_is_better = True

    def __init__(self):
        self.of_image = {}

    def __call__(self, model, images, targets, attributions):
        known = self.of_image.setdefault(images[0].numpy().tobytes(), ([], []))
        models, means = known
        if not any(each is model for each in models):
            models.append(model)
        if len(models) == 1:
            means.append(attributions.double().mean(0, keepdim=True))
        [number] = [place for place, each in enumerate(models) if each is model]
        taken = means[min(number, len(means) - 1)]
        return torch.cosine_similarity(attributions.double().flatten(1), taken.flatten(1))


@metric(higher_is_better=True, per_sample=True)
def largest_pixel(model, images, targets, attributions, *, replacement):
    """What the output loses with the pixel of the largest value, image by image."""
    losses = []
    for image, target, maps in zip(images, targets, attributions, strict=True):
        place = int(maps.sum(0).argmax())
        changed = image.clone().flatten(1)
        changed[:, place] = replacement.flatten(1)[:, place]
        pair = torch.stack([image, changed.view_as(image)])
        with torch.no_grad():
            outputs = model(pair)[:, target]
        losses.append(outputs[0] - outputs[1])
    return torch.stack(losses)


@metric(higher_is_better=True, per_sample=True)
def insertion_of_sizes(model, images, targets, attributions, *, replacement):
    return insertion(model, images, targets, attributions.abs(), replacement=replacement)


def test_a_metric_that_remembers_which_network_came_first_is_not_valid(env):
    report = metric_trial(Remembers(), env, 8, doses=CLEAN)
    assert report.verdict not in ("valid", "blind")  # blind is who is a function of its arguments
    assert min(report.trial.contrast.each) < 0 < max(report.trial.contrast.each)


def test_the_place_of_a_map_says_nothing_of_it(env):
    places = []

    @metric(higher_is_better=True, per_sample=True)
    def spy(model, images, targets, attributions, *, truth):
        right = ((attributions > 0) == truth).flatten(1).all(1)
        places.append(right.nonzero()[:, 0].tolist())
        return torch.cosine_similarity(attributions.flatten(1), truth.double().flatten(1))

    metric_trial(spy, env, 6, doses=CLEAN)
    first = [each[0] for each in places if each]
    assert (
        len(first) >= 12
    )  # the own attributions before the own network, the twin's before the twin's
    assert len(set(first)) > 3


@pytest.mark.long
@pytest.mark.parametrize("size", [12, 24])
def test_a_metric_of_one_pixel_is_not_valid(size):
    report = metric_trial(
        largest_pixel, al.load("multi-color-sum", image_size=size), 8, doses=CLEAN
    )
    assert report.trial.contrast.mean.low > 0
    assert report.trial.agreement.low > 0
    assert report.trial.lead.control == "one-pixel"
    assert report.verdict == "not valid"


def test_a_metric_of_sizes_is_told_that_it_does_not_follow_signs(env):
    report = metric_trial(insertion_of_sizes, env, 2, doses=CLEAN)
    assert report.verdict == "not valid"
    assert "it does not follow the network's signs" in report.sentence
