"""Tasks hold what is known of images, and fine-tuning is the paper's."""

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab import base, metrics
from attributionlab.papers.idsds import training
from attributionlab.papers.subjects.drawn_pictures import pictures
from attributionlab.papers.subjects.networks import Design, accuracy_of, network_of


@pytest.fixture(scope="module")
def colors():
    return training.colors_task(training=5, n=6, seed=3)


def test_the_colors_task_has_an_environments_images_labels_and_signs(colors):
    env = al.load("multi-color-sum-in-distribution", image_size=32)
    images, labels = env.batch(6, 4)
    assert torch.equal(colors.images, images / 255)
    assert torch.equal(colors.labels, labels)
    assert torch.equal(colors.training_images, env.batch(5, 3)[0] / 255)
    assert torch.equal(colors.training_labels, env.batch(5, 3)[1])
    assert torch.equal(colors.baseline * 255, env.baseline)
    assert colors.classes == 4
    truth = env.truth(images, labels, output="probability")
    assert torch.equal(colors.truth == 1, truth.positive)
    assert torch.equal(colors.truth == -1, truth.negative)


def test_the_pictures_task_has_objects_as_truth():
    task, learned, asked = training.pictures_task(4, 3, 7), pictures(4, 7), pictures(3, 8)
    assert torch.equal(task.training_images, learned.images)
    assert torch.equal(task.images, asked.images)
    assert torch.equal(task.truth, asked.objects.float())
    assert task.classes == 10
    # Means of 4,096 float32 values in another order.
    expected = learned.images.transpose(0, 1).flatten(1).mean(1)
    assert torch.allclose(task.baseline.flatten(), expected, atol=1e-5)


def test_unknown_tasks_are_refused():
    with pytest.raises(base.AttributionLabError, match=r"no task named 'color': .*colors"):
        training.task_named("color")
    assert training.task_named("colors") is training.colors_task


@pytest.fixture(scope="module")
def bright():
    """Two classes, by which half of 8 x 8 pixels is brighter."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (60,), generator=generator)
    images = 0.5 * torch.rand(60, 1, 8, 8, generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[:, :, 4 * label : 4 * label + 4] += 0.5
    return training.Task(
        "bright", images[:40], labels[:40], images[40:], labels[40:], 2, images[:1], images[40:]
    )


def test_fine_tuning_is_stochastic_gradient_descent_on_images_without_a_patch(bright):
    """A twin with the paper's settings written out."""
    images, labels = bright.training_images, bright.training_labels
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2)).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    tuned = training.fine_tuned(
        network, images, labels, seed=2, patches=4, replacement=0.25, epochs=6, learning_rate=0.5
    )
    assert all(torch.equal(network.state_dict()[name], value) for name, value in before.items())

    twin = nn.Linear(64, 2)
    twin.load_state_dict(network[1].state_dict())
    generator = torch.Generator().manual_seed(2)
    speed = [0.0, 0.0]
    for epoch in range(6):
        rate = 0.5 * (1, 1, 0.1, 0.1, 0.01, 0.01)[epoch]
        for chosen in torch.split(torch.randperm(40, generator=generator), 32):
            shown = metrics.patch_deleted(images[chosen], 4, 0.25, share=0.5, generator=generator)
            loss = nn.functional.cross_entropy(twin(shown.flatten(1)), labels[chosen])
            parameters = [twin.weight, twin.bias]
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for index, (each, gradient) in enumerate(zip(parameters, gradients, strict=True)):
                    speed[index] = 0.9 * speed[index] + gradient + 1e-4 * each
                    each -= rate * speed[index]
    # The same steps in another order of additions.
    assert torch.allclose(tuned[1].weight, twin.weight, atol=1e-5)
    assert torch.allclose(tuned[1].bias, twin.bias, atol=1e-5)


def test_a_filling_may_be_drawn_anew_for_every_batch(bright):
    asked = []

    def noise(batch, generator):
        drawn = torch.rand(batch.shape, generator=generator)
        asked.append((len(batch), float(drawn[0, 0, 0, 0])))
        return drawn

    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    settings = {"seed": 0, "patches": 4, "epochs": 2}
    images, labels = bright.training_images, bright.training_labels
    first, again = (
        training.fine_tuned(network, images, labels, replacement=noise, **settings)
        for _ in range(2)
    )
    sizes, values = zip(*asked, strict=True)
    assert sizes == (32, 8) * 4
    assert values[:4] == values[4:]
    assert len(set(values)) == 4
    assert torch.equal(first[1].weight, again[1].weight)


def test_a_pair_is_a_trained_network_and_its_fine_tuned_copy(bright):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    settings = {"patches": 4, "epochs": 30, "fine_tuning": 2}
    pair = training.trained_pair(Design(width=8), bright, seed=0, **settings)
    assert torch.equal(torch.get_rng_state(), state)
    assert accuracy_of(pair.original, bright.images, bright.labels) > 0.9
    start = network_of(Design(width=8), 1, 2, 8, seed=0)
    weights = [network[0].weight for network in (start, *pair)]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert not any(module.training for network in pair for module in network.modules())
    again = training.fine_tuned(
        pair.original, bright.training_images, bright.training_labels, seed=0, patches=4, epochs=2
    )
    assert torch.equal(again[0].weight, pair.fine_tuned[0].weight)


def test_b_cos_networks_are_fine_tuned_at_a_tenth_of_the_usual_rate(bright):
    settings = {"seed": 0, "patches": 4, "epochs": 1, "fine_tuning": 1}
    design = Design("b-cos")
    pair = training.trained_pair(design, bright, **settings)
    learned = (pair.original, bright.training_images, bright.training_labels)
    tenth, usual = (
        training.fine_tuned(
            *learned, seed=0, patches=4, epochs=1, learning_rate=rate
        ).classifier.weight
        for rate in (0.0005, 0.005)
    )
    assert torch.equal(pair.fine_tuned.classifier.weight, tenth)
    assert not torch.equal(tenth, usual)


def test_settings_of_training_are_refused_in_one_line(bright):
    images, labels = bright.training_images, bright.training_labels
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    with pytest.raises(base.AttributionLabError, match="learning_rate is 0"):
        training.fine_tuned(network, images, labels, seed=0, patches=4, learning_rate=0)
    with pytest.raises(base.AttributionLabError, match="epochs is 0"):
        training.trained_pair(Design(), bright, seed=0, epochs=0, fine_tuning=1)
    with pytest.raises(base.AttributionLabError, match="does not divide 8 x 8"):
        training.fine_tuned(network, images, labels, seed=0, patches=9)
