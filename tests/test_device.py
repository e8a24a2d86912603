"""Arithmetic is exact and in its place whatever torch was told globally, and what it was told stays."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten

import attributionlab as al
from attributionlab.base import device as devices
from attributionlab.methods import METHODS
from attributionlab.verdicts import PAIRS
from trials import metric_trial

BACKENDS: Any = torch.backends


def precisions() -> dict[str, Any]:
    """Everything about the precision of products that torch tells."""
    found = {"cudnn": lambda: BACKENDS.cudnn.allow_tf32, "all": torch.get_float32_matmul_precision}
    found |= {
        f"kind {index}": lambda kind=kind: kind.fp32_precision
        for index, kind in enumerate(devices._kinds())
    }
    told = {}
    for name, ask in found.items():
        try:
            told[name] = ask()
        except RuntimeError:  # torch does not tell by the older names what the newer ones set
            told[name] = "refused"
    return told


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """torch is told to round products, in one of the ways that there are."""
    cudnn, matmul = BACKENDS.cudnn, BACKENDS.cuda.matmul
    before = torch.get_float32_matmul_precision(), cudnn.allow_tf32
    kinds = [(kind, kind.fp32_precision) for kind in devices._kinds()]
    if what == "newer names":
        matmul.fp32_precision = BACKENDS.cudnn.conv.fp32_precision = "tf32"
    else:
        torch.set_float32_matmul_precision(what)
    try:
        yield
    finally:
        for kind, precision in kinds:
            kind.fp32_precision = precision
        torch.set_float32_matmul_precision(before[0])
        cudnn.allow_tf32 = before[1]
        for kind, precision in kinds:
            kind.fp32_precision = precision


WAYS = ["highest", "high", "medium"]  # cuDNN's own default rounds in any case
if devices._kinds():
    WAYS.append("newer names")


@pytest.mark.parametrize("what", WAYS)
def test_products_are_exact_inside_and_as_before_outside(what):
    with told(what):
        before = precisions()
        assert devices.rounds_products()
        with contextlib.suppress(KeyError), al.exact_arithmetic():
            assert not devices.rounds_products()
            raise KeyError
        assert precisions() == before


class Watching(torch.nn.Module):
    """Counts two colors of pixels, and sees whether products are rounded meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3 * 144, 2)
        self.rounded: list[bool] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.rounded.append(devices.rounds_products())
        return self.layer(images.flatten(1))


SHOWN = torch.arange(432.0).reshape(1, 3, 12, 12) % 7
ASKED = SHOWN, torch.tensor([0]), SHOWN[:, :1]
CALLS = {
    "a method": lambda model: al.methods.METHODS["saliency"](model, *ASKED[:2]),
    "curves": lambda model: al.metrics.deletion(model, *ASKED, replacement=0.0, step=100),
    "exact": lambda model: al.exact.single_replacements(
        model, SHOWN[:, :, :2, :6].repeat(1, 1, 6, 2), 0.0
    ),
    "incremental deletion": lambda model: al.metrics.ids(
        model, *ASKED, replacement=0.0, steps=2, explain=lambda images, targets: images[:, :1]
    ),
    "infidelity": lambda model: al.metrics.infidelity(model, *ASKED, replacement=0.0, draws=3),
    "performance": lambda model: al.metrics.road(
        model, *ASKED, value_range=(0, 7), fractions=[0.3, 0.5]
    ),
    "single deletion": lambda model: al.metrics.single_deletion(model, *ASKED, replacement=0.0),
}


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_exact_whoever_makes_them(name):
    model = Watching().eval()
    assert devices.rounds_products()  # torch's default
    CALLS[name](model)
    assert model.rounded
    assert not any(model.rounded)
    assert devices.rounds_products()


@pytest.mark.parametrize(
    "ask",
    [
        lambda env, images, labels: env.truths(images, labels),
        lambda env, images, labels: al.verify(env),
        lambda env, images, labels: al.faithfulness_test("saliency", env, n=1),
    ],
)
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_questions_about_a_network_are_exact_whoever_asks(ask, monkeypatch):
    env, rounded = al.load("multi-color-sum", image_size=12), []
    images, labels = env.batch(1)
    forward = torch.nn.Conv2d.forward

    def watching(layer, shown):
        rounded.append(devices.rounds_products() and shown.dtype == torch.float32)
        return forward(layer, shown)

    monkeypatch.setattr(torch.nn.Conv2d, "forward", watching)
    ask(env, images, labels)
    assert rounded
    assert not any(rounded)


@contextlib.contextmanager
def by_default(what: torch.device | torch.dtype) -> Iterator[None]:
    is_type = isinstance(what, torch.dtype)
    (torch.set_default_dtype if is_type else torch.set_default_device)(what)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def small() -> al.Environment:
    return al.load("multi-color-sum", image_size=12)


def of_report(report: al.FaithfulnessReport) -> Any:
    return [each.attributions.tolist() for each in report.environments]


def own_method(model, inputs, targets):
    return inputs * torch.ones(3, 1, 1)  # made where the default is


METRICS = ("deletion", "ids", "idsds", "infidelity", "insertion", "sensitivity_n")
CALLED: dict[str, Any] = {
    "batch": lambda place: small().batch(2),
    "data set": lambda place: list(small().dataset(2)),
    "load": lambda place: list(small().model.state_dict().values()),
    "camouflage": lambda place: list(small().camouflaged(1).model.state_dict().values()),
    "test": lambda place: of_report(
        al.faithfulness_test("lime", small(), n=1, settings={"n_samples": 20})
    ),
    "test of an own method": lambda place: of_report(
        al.faithfulness_test(own_method, small(), n=1)
    ),
    "comparison": lambda place: (
        al.compare(["lrp"], small(), n=1)
        .to_frame()
        .drop(columns="seconds_per_image")
        .values.tolist()
    ),
    "test of a metric": lambda place: (
        metric_trial("infidelity", small(), n=2, doses={"share": [0]})
        .dose_frame()["correlation"]
        .tolist()
    ),
    "leaderboard": lambda place: (
        al.rank_methods(["saliency", "lrp"], n=1, pairs=PAIRS[:1], size=16)
        .to_frame()["score"]
        .tolist()
    ),
    "verification": lambda place: [str(each) for each in al.verify(small()).checks],
    "truth": lambda place: place.env.truth(place.images, place.labels).signed,
    "truths": lambda place: [
        each.values for each in place.env.truths(place.images, place.labels).values()
    ],
    "shapley": lambda place: place.env.shapley(place.images[0], int(place.labels[0])),
    "sampled shapley": lambda place: (
        place.env.sampled_shapley(
            place.images[0], int(place.labels[0]), baseline=0, precision=9.0
        ).values
    ),
    "a method": lambda place: METHODS["feature-ablation"](
        place.env.model, place.images, place.labels, highest=255
    ),
    "soundness": lambda place: vars(
        al.metrics.soundness_sweep(
            *(place.env.model, place.images, place.labels, place.maps.clamp(min=0)),
            ratios=[0.5, 0.2],
            value_range=(0, 255),
            nothing_kept=place.env.baseline,
        )
    ),
    **{
        name: lambda place, name=name: getattr(al.metrics, name)(
            place.env.model, place.images, place.labels, place.maps, replacement=place.env.baseline
        )
        for name in METRICS
    },
}


class Place:
    """An environment with images and maps, made before torch is told anything."""

    def __init__(self) -> None:
        self.env = small()
        self.images, self.labels = self.env.batch(2)
        self.maps = self.images.sum(1, keepdim=True) - 60


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
@pytest.mark.parametrize("default", [torch.device("meta"), torch.float64])
@pytest.mark.parametrize("name", CALLED)
def test_a_default_device_or_type_changes_nothing_and_stays(name, default):
    place = Place()
    expected = tree_flatten(CALLED[name](place))[0]
    with by_default(default):
        found = tree_flatten(CALLED[name](place))[0]
        assert default in (torch.empty(0).device, torch.empty(0).dtype)
    assert len(expected) == len(found) > 0
    for one, other in zip(expected, found, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(other, one, rtol=0, atol=0, equal_nan=True)
        else:
            assert str(other) == str(one)  # a NaN is not equal to itself


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_method_of_a_user_with_a_default_type_has_that(dtype):
    seen = []

    def method(model, inputs, targets):
        seen.append(torch.empty(0).dtype)
        return inputs

    with by_default(dtype):
        al.faithfulness_test(method, small(), n=1, also=None)
    assert set(seen) == {dtype}


def test_a_method_of_a_user_with_a_default_device_has_the_inputs_one():
    seen = []

    def method(model, inputs, targets):
        seen.append(torch.empty(0).device)
        return inputs

    al.faithfulness_test(method, small(), n=1, also=None)
    with by_default(torch.device("meta")):
        al.faithfulness_test(method, small(), n=1, also=None)
    assert {device.type for device in seen} == {"cpu"}
