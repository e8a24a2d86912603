"""Where Quantus 0.6.0 defines a metric as we do, both return the same to 1e-6; where not, it is shown.

Run by `pip install -e ".[quantus]"`; without it, all tests here are skipped.
"""

import numpy as np
import pytest
import torch
from torch import nn

from attributionlab import metrics

quantus = pytest.importorskip("quantus", reason="pip install -e '.[quantus]' for Quantus")
pytestmark = pytest.mark.filterwarnings("ignore")  # Quantus advises on its settings

CLOSE = {"rel": 1e-6, "abs": 1e-6}
"""Quantus computes in float32 or float64, with constants up to 1e-6 in its denominators."""
PLAIN = {"abs": False, "normalise": False, "return_aggregate": False, "disable_warnings": True}
PIXELS = torch.arange(16).view(4, 4)
SIZE = (3, 1, 4, 4)


class Flat(nn.Module):
    """Quantus shows a model float32."""

    def forward(self, images):
        return images.flatten(1).double()


class Fixed(nn.Linear):
    """A layer whose new weights need no random numbers, in which the two libraries seed otherwise."""

    def reset_parameters(self):
        with torch.no_grad():
            for offset, each in enumerate(self.parameters()):
                each.copy_(torch.sin(torch.arange(each.numel()) * 1.7 + offset).view(each.shape))


def drawn(seed=0, classes=3):
    """A network that is not linear, images without zeros, targets, maps without ties."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(Flat(), Fixed(16, 8), nn.Tanh(), Fixed(8, classes)).double()
    for each in model.parameters():
        each.data = torch.randn(each.shape, generator=generator, dtype=torch.float64)
    images = torch.rand(SIZE, generator=generator).double() + 0.5
    model[3].bias.data[0] += 50  # the answer, whatever noise there is
    targets = torch.randint(classes, (3,), generator=generator)
    return model.eval(), images, targets, torch.randn(SIZE, generator=generator).double()


def gradient(model, images, targets):
    images = images.detach().requires_grad_()
    return torch.autograd.grad(model(images).gather(1, targets[:, None]).sum(), images)[0]


def explain(model, inputs, targets, **_):
    """The method in Quantus' signature."""
    call = torch.as_tensor(inputs).double(), torch.as_tensor(targets)
    return gradient(model, *call).numpy()


def theirs(name, case, *, masks=None, explained=False, softmax=False, **settings):
    model, images, targets, maps = case
    if explained:
        maps = gradient(model, images, targets)
    found = getattr(quantus, name)(**{**PLAIN, **settings})(
        model=model,
        x_batch=images.numpy(),
        y_batch=targets.numpy(),
        a_batch=maps.numpy().copy(),  # some metrics write into them
        s_batch=None if masks is None else masks.numpy(),
        explain_func=explain,
        device="cpu",
        softmax=softmax,
    )
    return found if isinstance(found, dict) else np.asarray(found, dtype=np.float64).tolist()


def same(ours, others):
    assert ours.tolist() == pytest.approx(others, **CLOSE, nan_ok=True)


def test_concentration():
    *_, maps = case = drawn()
    maps = maps.abs() / maps.abs().amax((1, 2, 3), keepdim=True)
    # 1e-7 is added to values whose mean is above 0.2: a share of 5e-7.
    same(metrics.sparseness(maps), theirs("Sparseness", (*case[:3], maps)))
    same(metrics.complexity(maps), theirs("Complexity", (*case[:3], maps)))


def test_top_k_intersection():
    *_, maps = case = drawn()
    masks = torch.rand(SIZE, generator=torch.Generator().manual_seed(1)) < 0.4
    same(
        metrics.top_k_intersection(maps, masks, share=5 / 16),
        theirs("TopKIntersection", case, masks=masks, k=5),
    )


def test_faithfulness_correlation_over_the_same_subsets(monkeypatch):
    case = tuple(each[:1] if isinstance(each, torch.Tensor) else each for each in drawn())
    generator = torch.Generator().manual_seed(7)
    subsets = iter([torch.randperm(16, generator=generator)[:5].numpy() for _ in range(20)])
    monkeypatch.setattr(np.random, "choice", lambda *_, **__: next(subsets))
    expected = theirs(
        "FaithfulnessCorrelation", case, nr_runs=20, subset_size=5, perturb_baseline=0.0
    )
    settings = {"replacement": 0.0, "share": 5 / 16, "draws": 20, "seed": 7}
    same(metrics.faithfulness_correlation(*case, **settings), expected)


def test_single_pixels():
    case = drawn()
    settings = {"replacement": 0.0, "patches": PIXELS}
    same(
        metrics.faithfulness_estimate(*case, **settings),
        theirs("FaithfulnessEstimate", case, perturb_baseline=0.0),
    )
    same(
        metrics.monotonicity_correlation(*case, **settings),
        theirs("MonotonicityCorrelation", case, abs=True, nr_samples=1, perturb_baseline=0.0),
    )


def test_non_sensitivity_is_their_number_of_pixels_as_a_share():
    model, images, targets, maps = drawn()
    model[1].weight.data[:, :5] = 0  # five pixels that do not matter
    maps[:, :, 0, 3:] = 0
    maps[:, :, 1, 1:] = 0
    case = model, images, targets, maps
    ours = metrics.non_sensitivity(*case, replacement=0.0, patches=PIXELS)
    same(16 * ours, theirs("NonSensitivity", case, abs=True, perturb_baseline=0.0))
    assert ours.tolist() == [7 / 16] * 3


def test_curves_of_regions():
    case = drawn()
    curves = metrics.region_curve(*case, replacement=0.0, patches=4)
    settings = {"patch_size": 2, "perturb_baseline": 0.0}
    for row, other in zip(curves, theirs("Selectivity", case, **settings), strict=True):
        same(row[1:], other)
    drops = theirs("RegionPerturbation", case, **settings)
    for row, other in zip(curves, drops, strict=True):
        same(row[0] - row[1:], other)
    means = torch.tensor(drops).mean(1) * 4 / 5  # ours has f(x) - f(x) = 0 too
    same(metrics.region_perturbation(*case, replacement=0.0, patches=4), means.tolist())


def test_sufficiency_but_for_images_without_neighbors():
    *_, maps = case = drawn()
    maps[1] = maps[0] + 0.01
    # Their distance is Euclidean between maps of one variance, as a share of the largest one.
    even = maps / torch.cat([maps, maps]).std(0)
    largest = torch.cdist(even.flatten(1), even.flatten(1)).amax()
    ours = metrics.sufficiency(*case[:3], even, closeness=0.5 * float(largest))
    same(ours.nan_to_num(0), theirs("Sufficiency", case, threshold=0.5))
    assert ours.isnan().tolist() == [False, False, True]


def test_completeness_where_the_sum_is_exact():
    _, images, targets, _ = drawn()
    images = (images * 4).round()
    model = nn.Sequential(Flat(), nn.Linear(16, 3, bias=False)).double().eval()
    model[1].weight.data = torch.arange(3)[:, None].expand(3, 16).double()
    maps = images * targets[:, None, None, None]
    changes = maps.sum((1, 2, 3))
    maps[2] *= 1 + 1e-9  # as if by rounding: ours has a tolerance
    case = model, images, targets, maps
    same(
        metrics.efficiency_within(maps, changes, tolerance=0),
        theirs("Completeness", case, perturb_baseline=0.0),
    )
    assert metrics.efficiency_within(maps, changes, tolerance=1e-6).tolist() == [1, 1, 1]


def with_noises(images, radius, draws, seed):
    """Our noise, image after image, as a perturbation that Quantus calls once a draw for all images."""
    stream = torch.Generator().manual_seed(seed)
    noise = [torch.rand(draws, *images.shape[1:], generator=stream) * 2 - 1 for _ in images]
    drawn = iter((radius * torch.stack(noise, 1).double()).flatten(2).numpy())
    return lambda arr, **_: arr + next(drawn)


def test_stability():
    model, images, targets, _ = case = drawn()
    settings = {"radius": 0.5, "draws": 6, "seed": 3}
    call = model, images, targets, gradient

    def others(name, **more):
        noise = with_noises(images, *settings.values())
        return theirs(name, case, explained=True, nr_samples=6, perturb_func=noise, **more)

    norms = {"norm_numerator": quantus.distance_euclidean}
    same(metrics.local_lipschitz(*call, **settings), others("LocalLipschitzEstimate", **norms))
    same(metrics.relative_input_stability(*call, **settings), others("RelativeInputStability"))
    same(metrics.relative_output_stability(*call, **settings), others("RelativeOutputStability"))
    same(
        metrics.relative_representation_stability(*call, **settings, layer=model[1]),
        others("RelativeRepresentationStability", layer_names=["1"]),
    )


@pytest.mark.parametrize("order", ["top-down", "bottom-up", "independent"])
def test_parameter_randomization(order):
    model, images, targets, _ = case = drawn()
    settings = {"layer_order": order.replace("-", "_"), "similarity_func": None}
    found = theirs("MPRT", case, explained=True, **settings)
    curve = metrics.parameter_randomization_curve(model, images, targets, gradient, order=order)
    names = [key for key in found if key != "original"]
    assert names == (["3", "1"] if order == "top-down" else ["1", "3"])
    for column, name in zip(curve.T, names, strict=True):
        same(column, found[name])


def test_the_efficient_form():
    model, images, targets, _ = case = drawn()
    settings = {"complexity_func_kwargs": {"n_bins": 20}, "softmax": True}  # it asks for shares
    same(
        metrics.efficient_parameter_randomization(model, images, targets, gradient, bins=20),
        theirs("EfficientMPRT", case, explained=True, **settings),
    )


def test_random_logit_of_two_outputs():
    model, images, targets, _ = case = drawn(classes=2)
    settings = {"similarity_func": quantus.correlation_spearman, "num_classes": 2}
    same(
        metrics.random_logit(model, images, targets, gradient),
        theirs("RandomLogit", case, explained=True, **settings),
    )


def test_monotonicity_differs_as_its_note_says():
    case = drawn()
    ours = metrics.monotonicity(*case, replacement=0.0)
    assert ours.tolist() == [0, 0, 0]
    assert theirs("Monotonicity", case, perturb_baseline=0.0) == [1, 1, 1]
