"""A user's own network, images and truth: what is read, refused, checked and left unchecked."""

import re
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
from attributionlab.worlds.environment.own_interventions import MOST_QUESTIONS
from oracles_games import changes, marginals
from refusals import refused
from small_networks import Function

SIDE = 6


def difference(side=SIDE):
    """Two outputs, by hand: the sum of channel 0 minus that of channel 1, and the reverse."""
    pixels = side * side
    last = nn.Linear(2 * pixels, 2, bias=False)
    row = torch.cat([torch.ones(pixels), -torch.ones(pixels)])
    last.weight.data = torch.stack([row, -row])
    copy = nn.Conv2d(2, 2, 1, bias=False)
    copy.weight.data = torch.eye(2)[:, :, None, None]
    return nn.Sequential(copy, nn.ReLU(), nn.Flatten(), last).eval()


def pictures(n=10, side=SIDE, seed=0):
    """Images in which a pixel has channel 0, channel 1 or nothing, and the truth of output 0."""
    drawn = torch.randint(4, (n, side, side), generator=torch.Generator().manual_seed(seed))
    images = torch.stack([(drawn == 2).float(), (drawn == 3).float()], 1)
    return images, images[:, 0] - images[:, 1]


IMAGES, FIRST = pictures()
TRUTH = torch.stack([FIRST, -FIRST], 1)
MODEL = difference()
make = partial(al.custom_environment, MODEL, IMAGES, TRUTH, baseline=0)


class Counted(nn.Module):
    """The network inside, and how many images it saw."""

    def __init__(self, inside):
        super().__init__()
        self.inside, self.seen = inside, []

    def forward(self, images):
        self.seen.append(len(images))
        return self.inside(images)

    def __deepcopy__(self, memo):
        other = Counted(difference())
        other.seen = self.seen
        return other


# What it is


def test_it_has_what_an_environment_has():
    env = make()
    images, labels = env.batch(10)
    assert isinstance(env, al.Environment)
    assert (env.name, env.task, env.classes, env.outputs) == (
        "custom",
        "classification",
        2,
        ("logit",),
    )
    assert env.model is MODEL
    assert env.softmax_model is None
    assert env.baseline.tolist() == [[[0.0]], [[0.0]]]
    assert images.shape == (10, 2, SIDE, SIDE)
    assert torch.equal(labels, MODEL(images).argmax(1))
    assert repr(env) == "CustomEnvironment('custom', classification, 10 images of 2 x 6 x 6)"
    assert env.max_value == 1


@pytest.mark.parametrize("target", [0, 1])
def test_the_truth_is_that_of_the_image_and_the_target_in_any_order(target):
    env = make()
    places = [7, 0, 3]
    truth = env.truth(IMAGES[places].contiguous(), torch.full((3,), target))
    assert torch.equal(truth.signed[:, 0], TRUTH[places, target].to(torch.int8))
    assert truth.asked.all()


@pytest.mark.parametrize("form", [(10, SIDE, SIDE), (10, 1, SIDE, SIDE)])
@pytest.mark.parametrize("kind", [torch.from_numpy, np.asarray], ids=["torch", "numpy"])
def test_one_map_an_image_is_about_its_target_alone(form, kind):
    own = TRUTH[torch.arange(10), MODEL(IMAGES).argmax(1)].numpy().reshape(form)
    env = al.custom_environment(MODEL, IMAGES, kind(own), baseline=0)
    images, targets = env.batch(4)
    assert torch.equal(
        env.truth(images, targets).signed[:, 0], make().truth(images, targets).signed[:, 0]
    )
    message = (
        rf"image 0 is stated for target {targets[0]}, not {1 - targets[0]}: state one map a class"
    )
    with pytest.raises(al.AttributionLabError, match=message):
        env.truth(images, 1 - targets)


def test_targets_may_be_stated():
    env = al.custom_environment(
        MODEL, IMAGES, TRUTH[:, 1], targets=torch.ones(10, dtype=torch.int64), baseline=0
    )
    assert env.batch(10)[1].tolist() == [1] * 10


def test_a_function_has_the_truth_of_any_image():
    def truth(images, targets):
        sign = 1 - 2 * targets[:, None, None]
        return sign * (images[:, 0] - images[:, 1])

    env = al.custom_environment(MODEL, IMAGES, truth, baseline=0)
    others, first = pictures(seed=1)
    for target, sign in ((0, 1), (1, -1)):
        found = env.truth(others, torch.full((10,), target))
        assert torch.equal(found.signed[:, 0], (sign * first).to(torch.int8))
    with pytest.raises(al.AttributionLabError, match="image 0 is not among the 10 whose truth is"):
        make().truth(others, torch.zeros(10, dtype=torch.int64))


def test_pixels_that_are_not_asked_are_nan_and_mixed_ones_have_no_sign():
    stated = TRUTH.clone()
    stated[:, :, 0] = torch.nan
    truth = al.custom_environment(MODEL, IMAGES, stated, baseline=0).truth(
        IMAGES, torch.zeros(10, dtype=torch.int64)
    )
    assert torch.equal(
        ~truth.asked,
        torch.zeros(10, 1, SIDE, SIDE, dtype=torch.bool).index_fill(2, torch.tensor([0]), True),
    )
    assert not truth.signed[:, :, 0].any()
    signs = FIRST[:, None].to(torch.int8)
    masks = al.Truth(signs.clone().index_fill(3, torch.tensor([2]), 0), signs != 0)
    targets = torch.zeros(10, dtype=torch.int64)
    mixed = al.custom_environment(MODEL, IMAGES, masks, targets=targets, baseline=0)
    assert torch.equal(mixed.truth(IMAGES, targets).mixed, masks.mixed)
    assert masks.mixed.any()


def test_a_regression_has_the_target_zero():
    model = nn.Sequential(MODEL, nn.Linear(2, 1, bias=False)).eval()
    model[1].weight.data = torch.tensor([[1.0, 0.0]])
    env = al.custom_environment(model, IMAGES, FIRST, baseline=0)
    assert (env.task, env.batch(10)[1].tolist()) == ("regression", [0] * 10)
    with pytest.raises(al.AttributionLabError, match="a regression's targets are zeros"):
        env.truth(IMAGES, torch.ones(10, dtype=torch.int64))


def test_images_need_not_be_square_or_positive():
    wide = nn.Sequential(nn.Conv2d(1, 1, (4, 7), bias=False), nn.Flatten()).eval()
    wide[0].weight.data.fill_(1)
    images = torch.randn(4, 1, 4, 7, generator=torch.Generator().manual_seed(0))
    env = al.custom_environment(wide, images, images.sign()[:, 0], baseline=0)
    assert env.max_value == pytest.approx(float(images.max() - images.min()))
    assert env.spec.constants["image_size"] == [4, 7]
    assert env.batch(2)[0].shape == (2, 1, 4, 7)


# Its samples


@given(seed=st.integers(0, 2**64), n=st.integers(1, 10), more=st.integers(0, 9))
def test_samples_are_drawn_without_replacement_and_do_not_depend_on_n(seed, n, more):
    env = ENV
    few, many = env.dataset(n, seed), env.dataset(min(10, n + more), seed)
    rows = [
        next(i for i, own in enumerate(IMAGES) if torch.equal(own, few[k].image)) for k in range(n)
    ]
    assert len(set(rows)) == n == len(few)
    assert all(torch.equal(few[k].image, many[k].image) for k in range(n))
    assert [few[k].label for k in range(n)] == [env.image_targets[row] for row in rows]


ENV = make(interventions=0)


def test_another_seed_draws_another_order_and_all_images_are_the_default():
    orders = {tuple(ENV.dataset(10, seed).order) for seed in range(5)}
    assert len(orders) == 5
    assert len(ENV.dataset()) == 10
    with pytest.raises(IndexError, match="sample 3 of 3"):
        ENV.dataset(3)[3]


def test_a_sample_can_be_changed_without_changing_the_environment():
    before = ENV.images.clone()
    ENV.dataset(1)[0].image.fill_(7)
    assert torch.equal(ENV.images, before)


# What interventions find


@pytest.mark.parametrize("target", [0, 1])
def test_a_relevant_pixel_called_irrelevant_is_refused_by_image_and_pixel(target):
    """Every image has one such pixel, so that whichever is drawn has it."""
    wrong = TRUTH.clone()
    places = []
    for image in range(10):
        row, column = wrong[image, target].nonzero()[image % 5].tolist()
        wrong[image, :, row, column] = 0
        places.append((row, column))
    with pytest.raises(al.AttributionLabError) as refused:
        al.custom_environment(MODEL, IMAGES, wrong, baseline=0)
    text = str(refused.value)
    named = re.findall(r"image (\d+), pixel \((\d), (\d)\)", text)
    assert len(named) == 3
    assert all(places[int(i)] == (int(y), int(x)) for i, y, x in named)
    assert f"in {MOST_QUESTIONS} of 8 images checked the truth is wrong" in text
    assert "changes output" in text
    assert text.endswith("or a tolerance for negligible changes")


PLAYERS = 6


class Table(nn.Module):
    """The value of the coalition of pixels that are 1, from a table."""

    def __init__(self, values):
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values, dtype=torch.float32))

    def forward(self, images):
        bits = 2 ** torch.arange(PLAYERS)
        coalitions = (images.flatten(1) > 0.5).long() @ bits
        return self.values[coalitions][:, None]


@st.composite
def games(draw):
    """A game's values by coalition, in which some players do nothing."""
    idle = draw(st.integers(0, 2**PLAYERS - 1))
    some = draw(st.lists(st.integers(-3, 3), min_size=2**PLAYERS, max_size=2**PLAYERS))
    return [some[coalition & ~idle] for coalition in range(2**PLAYERS)]


@pytest.mark.long
@given(values=games(), seed=st.integers(0, 99))
def test_a_right_truth_is_never_refused_whatever_the_network(values, seed):
    relevant = [changes([(v,) for v in values], player, PLAYERS) for player in range(PLAYERS)]
    truth = torch.tensor(relevant).float().reshape(1, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", al.AttributionLabWarning)  # of signs, all called +1
        env = al.custom_environment(
            Table(values).eval(), torch.ones(1, 1, 2, 3), truth, baseline=0, seed=seed
        )
    assert env.intervened.wrong == []


@pytest.mark.long
@given(values=games(), player=st.integers(0, PLAYERS - 1), last=st.booleans())
def test_a_pixel_that_matters_alone_or_first_is_always_found(values, player, last):
    whole = 2**PLAYERS - 1
    others = whole & ~(1 << player) if last else 0
    if values[others | 1 << player] == values[others]:
        values = [v + 10 * (each >> player & 1) for each, v in enumerate(values)]
    relevant = [changes([(v,) for v in values], each, PLAYERS) for each in range(PLAYERS)]
    relevant[player] = False
    truth = torch.tensor(relevant).float().reshape(1, 2, 3)
    message = re.escape(f"image 0, pixel {divmod(player, 3)}: irrelevant by the truth")
    with pytest.raises(al.AttributionLabError, match=message):
        al.custom_environment(Table(values).eval(), torch.ones(1, 1, 2, 3), truth, baseline=0)


@given(values=games())
def test_what_is_said_of_relevant_pixels_holds_over_all_coalitions_of_a_small_game(values):
    """All coalitions of three players are tried by 8 orders of 8 passes, or nearly; what is said of
    those that were tried is never wrong of the whole game in the direction that a notice claims.
    """
    relevant = [changes([(v,) for v in values], player, PLAYERS) for player in range(PLAYERS)]
    truth = torch.tensor(relevant).float().reshape(1, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", al.AttributionLabWarning)
        env = al.custom_environment(Table(values).eval(), torch.ones(1, 1, 2, 3), truth, baseline=0)
    assert env.intervened.tried == sum(relevant)
    for _, row, column in env.intervened.opposed:
        steps = [step for step, _ in marginals(values, 3 * row + column, PLAYERS)]
        assert min(steps) < 0
    always = [
        player
        for player in range(PLAYERS)
        if all(step > 0 for step, _ in marginals(values, player, PLAYERS))
    ]
    flagged = {
        3 * row + column for _, row, column in env.intervened.unmoved + env.intervened.opposed
    }
    assert not flagged & set(always)


def test_pixels_that_do_nothing_or_the_opposite_are_told_and_counted():
    images = torch.ones(1, 1, 2, 3)
    values = [bin(each & 0b000111).count("1") - (each >> 3 & 1) for each in range(2**PLAYERS)]
    truth = torch.tensor([[[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]])
    with pytest.warns(al.AttributionLabWarning) as warned:
        env = al.custom_environment(Table(values).eval(), images, truth, baseline=0)
    texts = [str(each.message) for each in warned]
    assert texts == [
        "custom: 1 of 5 relevant pixels tried never changed the output (the first: image 0, pixel "
        "(1, 1)): mark them 0, or NaN if they are not scored",
        "custom: 1 of 5 relevant pixels tried changed the output only against their sign (the first: "
        "image 0, pixel (1, 0)): check their signs",
    ]
    assert "5 pixels tried, of which 1 never changed the output and 1 only against" in env.summary()


def test_small_changes_count_as_none_within_a_tolerance():
    def leaky(images):
        return MODEL(images) + 1e-3 * images[:, :, 0, 0].sum(1, keepdim=True)

    images = IMAGES.clone()
    images[:, 0, 0, 0], images[:, 1, 0, 0] = 0.5, 0.5  # equal, so that the difference ignores it
    truth = torch.stack([images[:, 0] - images[:, 1], images[:, 1] - images[:, 0]], 1).sign()
    with pytest.raises(al.AttributionLabError, match=r"pixel \(0, 0\): irrelevant by the truth"):
        al.custom_environment(Function(leaky).eval(), images, truth, baseline=0)
    env = al.custom_environment(Function(leaky).eval(), images, truth, baseline=0, tolerance=0.01)
    assert "(by more than 0.01)" in env.summary()


@pytest.mark.parametrize("single", [False, True], ids=["float64 too", "float32 only"])
def test_rounding_is_no_change(single):
    """(a + b) - b depends on b by rounding alone."""

    def function(images):
        images = images.float() if single else images
        parts = images.flatten(1)
        return (parts[:, :1] + parts[:, 1:] * 1e3 - parts[:, 1:] * 1e3).mean(1, keepdim=True)

    images = torch.rand(4, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    truth = torch.zeros(4, 3, 3)
    truth[:, 0, 0] = 1
    empty = images.clone()
    empty[:, :, 1:] = 0
    network = Function(function).eval()
    assert not torch.equal(network(images), network(empty))
    env = al.custom_environment(network, images, truth, baseline=0)
    assert f"in {'float32' if single else 'float64'}" in env.summary()


def test_the_budget_holds_and_what_was_checked_is_stated():
    model = Counted(difference())
    env = al.custom_environment(model.eval(), IMAGES, TRUTH, baseline=0, interventions=200)
    # All images twice, to see whether the network is deterministic; the first one and its
    # half alone and together, to see whether it mixes them; and once more, to see whether float64 is
    # possible.
    assert sum(model.seen) - 2 * len(IMAGES) - 4 - 1 == env.intervened.passes
    assert 150 <= env.intervened.passes <= 200
    assert len(env.intervened.images) == 200 // 64
    text = env.summary()
    assert f"{env.intervened.passes} forward passes in float64" in text
    assert "not checked" in text
    nulls = sum(int((TRUTH[image, 0] == 0).sum()) for image in env.intervened.images)
    assert f"irrelevant         {nulls} pixels tried in random sets, of which none" in text
    assert "a pass               does not show that maps depend on the network" in text


def test_of_more_relevant_pixels_than_passes_some_are_tried():
    images = torch.ones(1, 2, 12, 12) * torch.tensor([2.0, 1.0])[:, None, None]
    truth = torch.stack([torch.ones(1, 12, 12), -torch.ones(1, 12, 12)], 1)
    env = al.custom_environment(difference(12), images, truth, baseline=0, interventions=64)
    # Each is replaced alone and put back in one order, from a pass without any: 2 (31 + 1) passes.
    assert (env.intervened.tried, env.intervened.passes) == (31, 64)
    assert env.intervened.notices() == []


def test_truths_of_classes_that_do_not_win_are_checked_too():
    wrong = TRUTH.clone()
    wrong[torch.arange(10), 1 - MODEL(IMAGES).argmax(1)] = 0
    with pytest.raises(al.AttributionLabError, match="irrelevant by the truth"):
        al.custom_environment(MODEL, IMAGES, wrong, baseline=0)


@pytest.mark.parametrize("options", [{"baseline": None}, {"interventions": 0}])
def test_nothing_is_checked_without_a_baseline_or_passes_and_that_is_stated(options):
    env = make(**options)
    assert env.intervened is None
    assert "interventions        none: the truth is as stated and not checked" in env.summary()
    assert env.baseline.tolist() == [[[0.0]], [[0.0]]]


def test_checks_are_the_same_for_a_seed_and_differ_for_another():
    drawn = [make(seed=seed).intervened.images for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_digest_tells_weights_images_truth_targets_and_baseline_apart():
    def digest(model=MODEL, images=IMAGES, truth=TRUTH, **options):
        options = {"baseline": 0, "interventions": 0, **options}
        return al.custom_environment(model, images, truth, **options).spec.digest

    scaled = difference()
    scaled[3].weight.data *= 2
    unasked = TRUTH.clone()
    unasked[0, 0, 0, 0] = torch.nan
    others = [
        digest(),
        digest(scaled),
        digest(nn.Sequential(MODEL).eval()),
        digest(images=IMAGES * 2),
        digest(truth=-TRUTH),
        digest(truth=unasked),
        digest(targets=torch.zeros(10, dtype=torch.int64)),
        digest(baseline=1),
        digest(name="other"),
    ]
    assert len(set(others)) == len(others)
    assert digest(difference()) == digest()


def test_the_environment_keeps_its_own_copy_of_the_images():
    images = IMAGES.clone()
    env = al.custom_environment(MODEL, images, TRUTH, baseline=0)
    images += 1
    assert torch.equal(env.images, IMAGES)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("where", ["irrelevant", "relevant"])
def test_an_output_that_is_no_number_at_the_baseline_is_refused_by_image(value, where):
    """NaN differs from nothing, so that it would pass as no change."""

    def function(images):
        empty = (images[:, :, :2] if where == "relevant" else images[:, :, 2:]) == 0
        wrong = empty.flatten(1).any(1)[:, None]
        return torch.where(wrong, value, images[:, :, :2].sum((1, 2, 3))[:, None])

    images = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0)) + 0.1
    truth = torch.zeros(3, 4, 4)
    truth[:, :2] = 1
    message = rf"image \d: output 0 of the model is {value} where pixels have the baseline's value"
    with pytest.raises(al.AttributionLabError, match=message):
        al.custom_environment(Function(function).eval(), images, truth, baseline=0)


class Later(nn.Module):
    """The network, which does something else once it has been asked what it says of all images."""

    def __init__(self, otherwise):
        super().__init__()
        self.otherwise, self.passes = otherwise, 0

    def forward(self, images):
        self.passes += 1
        return MODEL(images) if self.passes <= 2 else self.otherwise(images)

    def __deepcopy__(self, memo):
        return self


def stops(*_):
    raise SystemExit(3)


def fails(*_):
    raise ValueError("one\n   two\nthree")


def zeros_data(images):
    outputs = MODEL(images)
    images.data.zero_()
    return outputs


def zeros(images):
    outputs = MODEL(images)
    images.zero_()
    return outputs


CHANGES = "the model changes its input: let it work on images.clone()"
PLAIN = "pass a dense tensor of real numbers, with its values in memory"


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fails, "model raised ValueError: one two three, given images ("),
        (stops, "model raised SystemExit: 3, given images ("),
        (zeros, CHANGES),
        (zeros_data, CHANGES),
        (lambda images: MODEL(images)[:, :0], "the model's output is ("),
        (lambda images: MODEL(images) * 1j, f"the model's output is torch.complex64: {PLAIN}"),
        (lambda images: MODEL(images).to("meta"), f"the model's output is on meta: {PLAIN}"),
        (lambda images: MODEL(images).to_sparse(), f"output is torch.sparse_coo: {PLAIN}"),
    ],
)
def test_what_a_network_does_wrong_is_refused_in_one_line_whenever_it_does_it(
    function, message, late
):
    model = (Later(function) if late else Function(function)).eval()
    with pytest.raises(al.AttributionLabError, match=re.escape(message)) as refused:
        al.custom_environment(model, IMAGES, TRUTH, baseline=0)
    assert "\n" not in str(refused.value)
    assert not late or model.passes > 2


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    "function",
    [
        lambda images: MODEL(images).detach(),
        lambda images: MODEL(images).long().float(),
        lambda images: torch.ones(len(images), 2),
    ],
    ids=["detach", "long", "constant"],
)
@pytest.mark.filterwarnings("ignore:occlusion. attributions of 2 images are zero")
def test_a_network_without_gradient_is_taken_and_named_where_a_method_needs_one(function):
    env = al.custom_environment(Function(function).eval(), IMAGES, TRUTH[:, 0] * 0, interventions=0)
    assert "gradient             none reaches the images" in env.summary()
    assert "gradient  " not in ENV.summary()
    cause = "the gradient of the model's output does not reach the images .* such as occlusion"
    with pytest.raises(al.AttributionLabError, match=f"saliency: {cause}"):
        al.attribute("saliency", env, *env.batch(2))
    assert al.attribute("occlusion", env, *env.batch(2)).shape == (2, 1, SIDE, SIDE)

    def method(model, inputs, targets):
        raise RuntimeError("its own")

    with pytest.raises(al.AttributionLabError, match="its own") as refused:
        al.attribute(method, ENV, *ENV.batch(2))
    assert "no gradient" not in str(refused.value)


def test_arrays_of_any_memory_state_a_truth():
    own = TRUTH.numpy()
    for other in (own[::-1].copy()[::-1], own.astype(">f4"), own.astype(np.float16)):
        assert al.custom_environment(MODEL, IMAGES, other).spec.digest == ENV_UNCHECKED.spec.digest


ENV_UNCHECKED = al.custom_environment(MODEL, IMAGES, TRUTH)


# What is refused

DROPPING = nn.Sequential(difference(), nn.Dropout())
GIVEN = {"model": MODEL, "images": IMAGES, "truth": TRUTH, "baseline": 0}
SIGNS = FIRST[:, None].to(torch.int8)


def of_masks(**masks):
    return al.custom_environment(MODEL, IMAGES, al.Truth(**masks))


CALLS = {
    "custom": (al.custom_environment, GIVEN),
    "masks": (of_masks, {"signed": SIGNS}),
    "truth": (ENV.truth, {"images": IMAGES, "targets": torch.zeros(10, dtype=torch.int64)}),
    "batch": (ENV.batch, {"n": 2}),
}


def network(function):
    return {"model": Function(function).eval()}


ON_META = f"on meta: {PLAIN}"
ROWS = [
    *(
        ("custom", wrong, said)
        for wrong, said in (
            ({"model": lambda images: images}, "model is of type function: pass an nn.Module"),
            ({"model": DROPPING}, "is in training mode (Dropout '1'): call model.eval()"),
            ({"model": difference().double()}, "0.weight is torch.float64: call model.float()"),
            ({"model": difference().to("meta")}, "0.weight is on meta: call model.cpu()"),
            ({"model": difference(5)}, "model raised RuntimeError"),
            (network(lambda x: (MODEL(x),)), "tuple for 10 images: pass one that returns a tensor"),
            (network(lambda x: MODEL(x) / 0), "image 0 is NaN or infinite"),
            (network(lambda x: MODEL(x) + torch.rand(1)), "make it deterministic"),
            (network(lambda x: MODEL(x) > 0), "torch.bool: return floating-point numbers"),
            (network(lambda x: MODEL(x).long()), "torch.int64: return floating-point numbers"),
            ({"images": IMAGES.to("meta")}, f"images are {ON_META}"),
            ({"images": IMAGES.to_sparse()}, f"images are torch.sparse_coo: {PLAIN}"),
            ({"images": IMAGES.double()}, "images are torch.float64: pass images.float()"),
            ({"images": IMAGES.numpy()}, "images are of type ndarray: pass a tensor of shape"),
            ({"images": IMAGES[0]}, "images are torch.float32 of shape (2, 6, 6): pass a tensor"),
            (
                {"images": IMAGES.clone().index_fill(3, torch.tensor([4]), torch.nan)},
                "120 values that are NaN ... image 0, channel 0, pixel (0, 4): pass finite ones",
            ),
            ({"truth": TRUTH.to("meta")}, f"the truth is {ON_META}"),
            ({"truth": TRUTH.to_sparse()}, f"the truth is torch.sparse_coo: {PLAIN}"),
            (
                {"truth": TRUTH[:9]},
                "the truth is torch.float32 of shape (9, 2, 6, 6): pass numbers",
            ),
            ({"truth": TRUTH[:, :, :5]}, "(10, 6, 6) or (10, 1, 6, 6) or (10, 2, 6, 6)"),
            ({"truth": "signs"}, "the truth is of type str"),
            ({"truth": 0.5 * TRUTH}, "0.5 in image 0 at pixel"),
            ({"truth": TRUTH / 0}, "values other than -1, 0, +1 and NaN"),
            ({"truth": lambda images: images}, "the truth, a function, raised TypeError"),
            ({"truth": lambda images, targets: images}, "torch.float32 of shape (10, 2, 6, 6)"),
            ({"truth": fails}, "a function, raised ValueError: one two three"),
            ({"truth": stops}, "a function, raised SystemExit: 3"),
            ({"targets": torch.zeros(10, dtype=torch.int64).to("meta")}, f"targets are {ON_META}"),
            ({"targets": torch.full((10,), 2)}, "target 2 does not exist: custom has the outputs"),
            ({"targets": torch.zeros(9).long()}, "targets are torch.int64 of shape (9,)"),
            ({"baseline": torch.eye(2)[0, :, None, None]}, "the baseline that the truth refers to"),
            ({"baseline": 1e39}, "baseline is 1e+39: take a number of at least -3.402823466e+38"),
            ({"baseline": -(10**400)}, "baseline is beyond the range of float64: take a smaller"),
            ({"baseline": torch.ones(2, 1, 1).double() * 1e39}, "within the range of float32"),
            ({"baseline": torch.zeros(2, 1, 1, device="meta")}, f"baseline is {ON_META}"),
            ({"baseline": torch.zeros(2)}, "baseline is torch.float32 of shape (2,): pass"),
            ({"baseline": torch.full((2, 1, 1), torch.nan)}, "or finite ones of shape (2, 1, 1)"),
            ({"baseline": "black"}, "baseline is 'black': take a finite number"),
            ({"layers": {"gradcam": nn.ReLU()}}, "layers['gradcam'] is of type ReLU, not a module"),
            ({"layers": [MODEL[1]]}, "layers are [ReLU()]: pass a mapping"),
            ({"name": "a\nb"}, "name is 'a\\nb': give a text of one line"),
            ({"interventions": 63}, "interventions is 63: take an integer from 64 to 100000"),
            ({"interventions": True}, "interventions is True"),
            ({"tolerance": -1}, "tolerance is -1: take a number of at least 0"),
            (
                {
                    "model": DROPPING,
                    "name": " ",
                    "interventions": 5,
                    "tolerance": "no",
                    "seed": 1.5,
                },
                "training mode ... ; name is ' ' ... ; interventions is ... ; tolerance is ... ; seed",
            ),
        )
    ),
    ("masks", {"signed": FIRST[:, None]}, "signed is torch.float32: pass torch.int8"),
    ("masks", {"relevant": SIGNS == 0}, "pixels that have a sign are not relevant: set relevant"),
    ("masks", {"signed": torch.full_like(SIGNS, 2)}, "signed has values other than -1, 0"),
    ("masks", {"signed": SIGNS[:, 0]}, "signed is torch.int8 of shape (10, 6, 6): pass"),
    ("masks", {"signed": SIGNS[:9]}, "pass torch.int8 of shape (10, 1, 6, 6)"),
    ("truth", {"images": IMAGES[:, :1]}, "pass a tensor of shape (N, 2, 6, 6)"),
    ("truth", {"images": None}, "images are of type NoneType"),
    ("batch", {"n": 11}, "n is 11, and there are 10 images: take a smaller n, or pass more"),
    ("batch", {"n": 0}, "n is 0"),
    ("batch", {"seed": -1}, "seed is -1"),
    ("batch", {"n": 2.5}, "n is 2.5"),
]


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(("call", "wrong", "said"), ROWS)
def test_what_cannot_be_used_is_refused_with_its_remedy(call, wrong, said):
    refused(*CALLS[call], wrong, said)


def test_equal_images_need_equal_truths():
    images = torch.cat([IMAGES[:3], IMAGES[1:2]])
    truth = torch.cat([TRUTH[:3], TRUTH[1:2]])
    al.custom_environment(MODEL, images, truth, baseline=0)
    with pytest.raises(al.AttributionLabError, match="images 1 and 3 are equal, but their truths"):
        al.custom_environment(MODEL, images, torch.cat([TRUTH[:3], TRUTH[:1]]))
    # Of other targets they may differ.
    targets = torch.tensor([0, 0, 0, 1])
    stated = torch.cat([TRUTH[:3, 0], TRUTH[1:2, 1]])
    env = al.custom_environment(MODEL, images, stated, targets=targets, baseline=0)
    assert torch.equal(env.truth(images, targets).signed[:, 0], stated.to(torch.int8))


@pytest.mark.parametrize(
    "use",
    [
        lambda env: env.network,
        lambda env: env.recipe,
        lambda env: env.counting,
        lambda env: env.admission,
        lambda env: env.truths(*env.batch(2)),
        lambda env: env.shapley(env.images[0], 0),
        lambda env: env.sampled_shapley(env.images[0], 0),
        lambda env: env.camouflaged(1),
        lambda env: env.with_implementation("plateau"),
        lambda env: env.smoothing_sigma,
        lambda env: al.Questions(env),
        lambda env: al.verify(env),
        lambda env: al.export_environment(env, "nowhere"),
        lambda env: al.faithfulness_test("saliency", env, n=2, also="camouflage:1"),
    ],
)
def test_what_only_the_laboratory_knows_is_refused_in_one_sentence(use):
    with pytest.raises(al.AttributionLabError, match="a user's own environment"):
        use(ENV)
    assert not hasattr(type(ENV), "network")
    with pytest.raises(AttributeError):
        _ = ENV.no_such_name
