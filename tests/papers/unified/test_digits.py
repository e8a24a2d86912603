"""Digits and linear classifiers in integers: splits, boxes, exact answers, one raised weight."""

from itertools import product

import pytest
import torch

from attributionlab import AttributionLabError
from attributionlab.papers.unified import digits as module


@pytest.fixture(scope="module")
def split():
    return module.digits_split(50, 0)


@pytest.fixture(scope="module")
def classifier(split):
    training, _ = split
    some = training.ink[:200], training.labels[:200]
    return module.sparse_classifier(*some, unit=module.DARKEST, inverse_penalty=0.1, seed=0)


def test_splits_share_no_image_and_depend_on_the_seed_alone(split):
    training, test = split
    assert training.ink.shape == (1197, 1, module.SIDE, module.SIDE)
    # Digits that were drawn twice are in the data; a whole split is not repeated.
    longer = module.digits_split(60, 0)[1]
    assert torch.equal(longer.ink[:50], test.ink)
    assert not torch.equal(module.digits_split(50, 1)[1].ink, test.ink)
    assert int(test.ink.min()) == 0
    assert int(test.ink.max()) == module.DARKEST
    from sklearn.datasets import load_digits

    data = load_digits()
    both = torch.cat([module.digits_split(600, 0)[1].ink, training.ink])[:, 0, 1:-1, 1:-1]
    every = torch.from_numpy(data.images).long()
    assert torch.equal(both.sum(0), every.sum(0))  # each image once


def test_no_box_holds_the_corner_and_each_holds_all_ink(split):
    for digits in split:
        boxes = digits.boxes
        assert not boxes.flatten(1)[:, module.CORNER].any()
        assert not (digits.ink > 0)[~boxes].any()


def test_scores_are_sums_of_maps_and_the_bias(split):
    _, test = split
    random = module.random_classifier(module.DARKEST, 3)
    biased = module.LinearClassifier(random.weights, torch.arange(module.CLASSES) * 1000)
    scores = biased.scores(test.ink)
    for label in range(module.CLASSES):
        targets = torch.full((50,), label)
        maps = biased.maps(test.ink, targets)
        assert maps.shape == test.ink.shape
        assert torch.equal(maps.sum((1, 2, 3)) + 1000 * label, scores[:, label])
    for image, row in zip(test.ink[:2], scores, strict=False):
        for label in (0, 7):
            terms = [
                int(biased.weights[label, y * module.SIDE + x]) * int(image[0, y, x])
                for y, x in product(range(module.SIDE), repeat=2)
            ]
            assert sum(terms) + 1000 * label == int(row[label])
    assert torch.equal(biased.predictions(test.ink), scores.argmax(1))


def test_the_sparse_classifier_is_the_regression_rounded_to_its_grid(split, classifier):
    from sklearn.linear_model import LogisticRegression

    training, test = split
    inputs = training.ink[:200].flatten(1).numpy() / 16
    asked = LogisticRegression(
        C=0.1,
        solver="saga",
        tol=1e-3,
        max_iter=2000,
        random_state=0,
        **_lasso_of_this_version(),
    ).fit(inputs, training.labels[:200].numpy())
    difference = classifier.weights.double() / 2**20 - torch.from_numpy(asked.coef_)
    assert float(difference.abs().max()) <= 0.5 / 2**20
    scores = asked.decision_function(test.ink.flatten(1).numpy() / 16)
    # 100 weights, each off by half of 2^-20 at most, for values up to 1, and the bias.
    exact = classifier.scores(test.ink).double() / (2**20 * 16)
    assert float((exact - torch.from_numpy(scores)).abs().max()) < 101 * 0.5 / 2**20 + 1e-9
    assert 0 < float((classifier.weights != 0).double().mean()) < 0.3


def _lasso_of_this_version():
    import sklearn

    newer = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 8)
    return {"l1_ratio": 1.0} if newer else {"penalty": "l1"}


def test_training_leaves_out_the_corner_whatever_is_there(split, classifier):
    training, _ = split
    lit = training.ink[:200].clone()
    lit[:, 0, 0, 0] = 1
    again = module.sparse_classifier(
        lit, training.labels[:200], unit=module.DARKEST, inverse_penalty=0.1, seed=0
    )
    assert torch.equal(again.weights, classifier.weights)
    assert torch.equal(again.bias, classifier.bias)
    assert not classifier.weights[:, module.CORNER].any()


@pytest.mark.parametrize("corner", [1, 7, -200])
def test_the_raised_corner_leads_for_any_image_and_changes_no_answer(split, classifier, corner):
    _, test = split
    images = test.ink.clone()
    images[:, 0, 0, 0] = corner
    images[0, 0, 1:] = module.DARKEST  # as dark as can be
    raised = module.manipulated(classifier, corner, module.DARKEST)
    changed = (raised.weights != classifier.weights).nonzero()
    assert changed[:, 1].unique().tolist() == [module.CORNER]
    assert len(changed) == module.CLASSES
    rise = raised.scores(images) - classifier.scores(images)
    assert len(rise.unique()) == 1
    assert torch.equal(raised.predictions(images), classifier.predictions(images))
    for label in range(module.CLASSES):
        maps = raised.maps(images, torch.full((50,), label)).flatten(1)
        assert (maps[:, module.CORNER] > maps[:, module.CORNER + 1 :].amax(1)).all()
    # The least integer weight that outdoes the largest term any pixel can have.
    reach = int(classifier.weights.abs().max()) * module.DARKEST
    weight = int(raised.weights[0, module.CORNER])
    assert weight * corner > reach
    assert (abs(weight) - 1) * abs(corner) <= reach


def test_a_corner_of_value_0_adds_nothing_whatever_its_weight(split, classifier):
    _, test = split
    raised = module.manipulated(classifier, 0, module.DARKEST)
    assert raised.weights[:, module.CORNER].min() > 0
    assert torch.equal(raised.maps(test.ink, test.labels), classifier.maps(test.ink, test.labels))


@pytest.mark.usefixtures("without_shape_checks")
def test_impossible_settings_are_refused(split):
    training, _ = split
    for n, seed, message in [(0, 0, "n is 0"), (601, 0, "n is 601: .* 1 to 600"), (1, -1, "seed")]:
        with pytest.raises(AttributionLabError, match=message):
            module.digits_split(n, seed)
    with pytest.raises(AttributionLabError, match="inverse_penalty is 0"):
        module.sparse_classifier(training.ink, training.labels, unit=16, inverse_penalty=0, seed=0)
