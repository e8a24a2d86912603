"""`attribute`: a method alone, called as the test calls it."""

import pytest
import torch

import attributionlab as al


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=16)


def test_a_method_gets_what_the_test_gives_it(env):
    images, labels = env.batch(3, 5)
    seen, given = {}, {"settings": {"by": 3}, "explain": "logit"}

    def method(model, inputs, targets, *, baseline, generator, by=1):
        seen["model"], seen["baseline"] = model, baseline
        model.train()
        inputs += torch.rand(1, generator=generator)
        return inputs * by

    with pytest.warns(al.AttributionWarning) as warned:
        maps = al.attribute(method, env, images, labels, **given, seed=2)
    assert seen["model"] is env.model
    assert torch.equal(seen["baseline"], env.baseline)
    assert not env.model.training
    assert maps.shape == (3, 1, 16, 16)
    assert maps.dtype == torch.float64
    texts = " ".join(str(each.message) for each in warned)
    assert "training mode" in texts
    assert "modified inputs" in texts
    # Each image is drawn for by itself, and the images given stay as they are.
    added = maps - 3 * images.double().sum(1, keepdim=True)
    assert len({round(float(each.mean()), 4) for each in added}) == 3
    with pytest.warns(al.AttributionWarning):
        same, changed = (
            al.attribute(method, env, images, labels, **given, seed=seed) for seed in (2, 3)
        )
    assert torch.equal(maps, same)
    assert not torch.equal(maps, changed)


def test_controls_and_patches_are_given_where_they_are_known(env):
    images, labels = env.batch(2, 5)
    truth = env.truth(images, labels)
    assert torch.equal(al.attribute("oracle", env, images, labels), truth.signed.double())
    patches = torch.stack([env.dataset(2, 5)[i].patches for i in range(2)])
    filled = al.attribute("filled-patches", env, images, labels, patches=patches)
    assert torch.equal(filled[:, 0] > 0, patches > 0)
    with pytest.raises(al.AttributionLabError, match="pass patches"):
        al.attribute("filled-patches", env, images, labels)
    with pytest.raises(al.AttributionLabError, match="pass patches"):
        al.attribute("lime", env, images, labels, settings={"segmentation": "patches"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "gradcm"}, "no method named 'gradcm'"),
        ({"env": "multi-color-sum"}, "env is 'multi-color-sum': pass an environment"),
        ({"settings": {"x": 1}}, "gradcam has no setting 'x'"),
        ({"explain": "logits"}, "output"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_attributed_is_refused(env, without_shape_checks, change, message):
    images, labels = env.batch(1)
    given = {"method": "gradcam", "env": env, "images": images, "targets": labels} | change
    with pytest.raises(al.AttributionLabError, match=message):
        al.attribute(**given)


def test_images_that_the_network_was_not_made_for_are_refused(env):
    images, labels = env.batch(1)
    with pytest.raises(al.AttributionLabError):
        al.attribute("gradcam", env, images + 0.5, labels)
