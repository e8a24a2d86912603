"""What a pass proves: blind methods do not pass, and good ones do."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import attributionlab as al
from attributionlab.faithfulness.knowledge import ceiling, unknown_roles, unknown_target
from attributionlab.faithfulness.proof import LEVEL, NEEDED
from attributionlab.faithfulness.report import lowest_mean
from attributionlab.faithfulness.test import DEFAULT_ENVIRONMENTS
from attributionlab.methods.controls import BLIND, CONTROLS, color_lookup
from attributionlab.metrics import parts_f1
from attributionlab.report.reading import SHOWN
from attributionlab.stats.intervals import least_mean_interval, verdict_of
from attributionlab.truth import Truth

# Of methods that take gradients where ReLUs switch on.
pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")

SIZE, SMALL = 48, 40  # the marker of marker-flips has 9 pixels at 40: fewer would leave signs mixed
FEW, MANY = 32, pytest.param(256, marks=pytest.mark.slow)
Asked = dict[str, tuple[Tensor, Tensor, Tensor]]


@functools.cache
def asked(n: int) -> Asked:
    """For each default environment: images, targets and signed truths of its questions."""
    found = {}
    for name in DEFAULT_ENVIRONMENTS:
        env = al.load(name, image_size=SMALL)
        questions = [al.Questions(env)[index] for index in range(n)]
        targets = torch.tensor([question.target for question in questions])
        images = torch.stack([question.image for question in questions])
        truths = [
            question.env.truth(question.image[None], targets[index : index + 1]).signed
            for index, question in enumerate(questions)
        ]
        found[name] = images, targets, torch.cat(truths)
    return found


def verdicts(attribute: Callable[[Tensor, Tensor], Tensor], n: int) -> list[str]:
    """The verdict of the signed claim in each environment, as the test makes it."""
    found = []
    for images, targets, signed in asked(n).values():
        f1 = parts_f1(attribute(images, targets), signed)
        claimed = {part: values.numpy() for part, values in f1.items()}
        _, mean = lowest_mean(claimed)
        found.append(verdict_of(least_mean_interval(claimed, 0), 0.5, mean))
    return found


def blind_method(seed: int) -> Callable[[Tensor, Tensor], Tensor]:
    """A random function of an image's colors, their ranks and the target."""

    def attribute(images: Tensor, targets: Tensor) -> Tensor:
        maps = torch.zeros_like(images[:, :1])
        for image, target, one in zip(images, targets.tolist(), maps[:, 0], strict=True):
            colors, pixels, counts = torch.unique(
                image.flatten(1), dim=1, return_inverse=True, return_counts=True
            )
            order = counts.argsort(descending=True, stable=True).tolist()
            for rank, color in enumerate(order[1:]):
                shown = colors[:, color].long().tolist()
                key = [seed, rank * (seed % 3 == 0), target * (seed % 2), *(
                    shown if seed % 3 else [0]
                )]  # fmt: skip
                values = np.random.default_rng(key).choice([-1.0, 0.0, 0.5, 1.0], 2)
                places = (pixels == color).nonzero()[:, 0]
                share = len(places) // 2 if seed % 5 == 0 else len(places)
                one.view(-1)[places[:share]] = float(values[0])
                one.view(-1)[places[share:]] = float(values[1])
        return maps

    return attribute


@pytest.mark.long
@pytest.mark.parametrize("n", [FEW, MANY])
@pytest.mark.parametrize("name", ["majority", "majority-hedged", "half-and-half", "catalog-table"])
def test_no_blind_control_passes(name, n):
    found = verdicts(functools.partial(CONTROLS[name], None), n)
    assert "pass" not in found
    assert n == FEW or found == ["fail"] * 4


@pytest.mark.long
@pytest.mark.parametrize("n", [FEW, MANY])
@pytest.mark.parametrize("seed", range(20))
def test_no_random_blind_method_passes(seed, n):
    found = verdicts(blind_method(seed), n)
    assert "pass" not in found
    assert n == FEW or found == ["fail"] * 4


@pytest.fixture(scope="module")
def places():
    return [al.load(name, image_size=SIZE) for name in DEFAULT_ENVIRONMENTS]


@pytest.fixture(scope="module")
def counting():
    return al.load("multi-color-sum-distractors", image_size=24)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(BLIND.keys() - {"color-lookup", "half-and-half"}))
def test_a_blind_control_is_refused_by_the_whole_test(name, counting):
    report = al.faithfulness_test(name, counting, n=12, diagnosed=False)
    assert report.verdict in ("fail", "inconclusive")


@pytest.mark.long
def test_a_table_of_colors_that_asks_the_network_fails_where_places_count(places):
    report = al.faithfulness_test("color-lookup", places, n=6, diagnosed=False)
    counting, *worlds = report.environments
    assert counting.claim_f1 == counting.proof.ceilings["without-place"] == 1
    assert [result.verdict for result in worlds] == ["fail"] * 3
    assert report.verdict == "fail"
    for result in worlds:
        assert result.claim_f1 <= result.proof.ceilings["without-place"] < 0.5


def winner(model, inputs, targets, *, baseline):
    """Asks for the class that wins, whatever the target is."""
    return color_lookup(model, inputs, model(inputs).argmax(1), baseline=baseline)


first = []


def first_network(model, inputs, targets, *, baseline):
    """Asks the first network that it saw about every image."""
    first.append(model)
    return color_lookup(first[0], inputs, targets, baseline=baseline)


@pytest.mark.long
@pytest.mark.parametrize("method", [winner, first_network])
def test_what_one_network_and_its_labels_let_pass_does_not_pass_on_questions(method, counting):
    first.clear()
    one = al.faithfulness_test(method, counting, n=12, one_network=True, diagnosed=False)
    assert one.verdict == "pass"
    first.clear()
    report = al.faithfulness_test(method, counting, n=12, diagnosed=False)
    [result] = report.environments
    assert report.verdict in ("fail", "inconclusive")
    assert result.claim_f1 < 0.5
    assert result.proof.excluded != list(NEEDED)


def one_answer(model, inputs, targets):
    """A single pass: +1 on colors of which there are as many pixels as the output says."""
    flat = inputs.flatten(2)
    counts = (flat[:, :, :, None] == flat[:, :, None]).all(1).sum(1)
    return (counts == model(inputs).gather(1, targets[:, None])).reshape(inputs[:, 0].shape).float()


@pytest.mark.long
def test_one_answer_for_the_image_tells_colors_and_no_places(places):
    report = al.faithfulness_test(one_answer, places[:2], n=6, output="logit", diagnosed=False)
    counting, world = report.environments
    assert counting.verdict == "pass"
    assert counting.proof.excluded == list(NEEDED)
    assert world.verdict == report.verdict == "fail"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "environments"), [("guided-backprop", 2), ("feature-ablation-true-baseline", 4)]
)
def test_good_methods_score_above_three_quarters(name, environments, places):
    """Guided backprop misses a negated context, and follows one branch of a minimum only."""
    report = al.faithfulness_test(name, places[:environments], n=6, diagnosed=False)
    assert report.verdict == "pass"
    assert report.least.claim_f1 > 0.75


@pytest.mark.long
def test_exact_shapley_values_score_at_least_four_fifths(places):
    for env in places:
        questions = [al.Questions(env)[index] for index in range(8)]
        maps = [each.env.shapley(each.image, each.target)[None] for each in questions]
        truth = Truth.joined(
            [each.env.truth(each.image[None], torch.tensor([each.target])) for each in questions]
        )
        assert not truth.mixed.any()
        scores = parts_f1(torch.cat(maps) * truth.asked, truth.signed)
        assert lowest_mean({part: f1.numpy() for part, f1 in scores.items()})[1] >= 0.8


@pytest.mark.long
def test_ceilings_are_those_of_the_questions_own_cells(counting):
    report = al.faithfulness_test("oracle", counting, n=6, diagnosed=False)
    [result] = report.environments
    images, without_target = [], []
    for index in range(6):
        question = al.Questions(counting)[index]
        sizes = [int((question.cells == cell).sum()) for cell in range(6)]
        images.append((unknown_roles(6, 4, "probability"), sizes))
        without_target.append((unknown_target(question.roles, 6, "probability"), sizes))
    assert result.proof.ceilings["without-network"] == ceiling(images, "signed")
    assert result.proof.ceilings["without-target"] == ceiling(without_target, "signed")
    assert result.proof.decisive == [
        "without-network-and-target",
        "without-network",
        "without-target",
    ]


@pytest.mark.long
def test_a_pass_where_no_environment_excludes_maps_without_the_target_is_inconclusive(places):
    report = al.faithfulness_test("oracle", places[1], n=6, diagnosed=False)
    assert [result.verdict for result in report.environments] == ["pass"]
    assert report.unproven == ["without-target"]
    assert report.verdict == "inconclusive"
    assert "without the target" in repr(report)


@pytest.mark.parametrize(
    ("claim", "gamma", "unproven"),
    [
        ("positive", 0.5, []),
        ("positive-smoothed", 0.6, []),
        ("overall", 0.9, NEEDED[2:]),
        ("signed", 0.25, NEEDED),
        ("agreed", 0.5, NEEDED),
    ],
)
def test_which_blind_maps_are_excluded_depends_on_claim_and_gamma(claim, gamma, unproven, counting):
    n = 16 if claim == "positive-smoothed" else 6  # its bound on chance is a coarse one
    report = al.faithfulness_test(
        "oracle", counting, n=n, claim=claim, gamma=gamma, diagnosed=False
    )
    assert [result.verdict for result in report.environments] == ["pass"]
    assert report.unproven == list(unproven)
    assert report.verdict == ("inconclusive" if unproven else "pass")
    said = repr(report).replace("\n", " ")
    assert unproven or "whether they depend on places and colors" in said
    assert ("or the claim signed" in said) == (bool(unproven) and claim != "signed")


@pytest.mark.long
def test_counts_and_places_together_exclude_all_blind_maps(places):
    report = al.faithfulness_test("oracle", places[:2], n=6, diagnosed=False)
    assert report.unproven == []
    assert report.verdict == "pass"
    assert "the network, the target, places and colors" in repr(report)


@pytest.mark.long
def test_maps_that_stay_just_above_gamma_for_most_roles_do_not_pass_by_luck():
    """They score nothing only if the smallest cell is the target's: for six questions with three cells
    that does not happen in (2/3)^6 = 9 % of tests, and no low score is there to be resampled.
    """
    env = al.load("multi-color-sum", image_size=24, colors=COLORS[:3], distractor_colors=COLORS[3:])
    seed = next(seed for seed in range(200) if no_smallest_target(env, seed))
    report = al.faithfulness_test(hedged, env, n=6, seed=seed, diagnosed=False)
    [result] = report.environments
    assert result.verdict == "pass"
    assert result.proof.decisive
    assert result.proof.excluded == []
    assert report.unproven == list(NEEDED)
    assert report.verdict == "inconclusive"


COLORS = list(itertools.permutations((220, 120, 20)))


def no_smallest_target(env: al.Environment, seed: int) -> bool:
    questions = al.Questions(env, seed)
    return not any(
        int(torch.bincount(each.cells[each.cells >= 0]).argmin()) == each.roles[each.target]
        for each in (questions[index] for index in range(6))
    )


def hedged(model: object, inputs: Tensor, targets: Tensor) -> Tensor:
    """+1 on a share of each color but the rarest, -1 on the rest: F1 above gamma for most targets."""
    maps = torch.zeros_like(inputs[:, :1])
    for image, one in zip(inputs, maps[:, 0], strict=True):
        _, pixels, counts = torch.unique(
            image.flatten(1), dim=1, return_inverse=True, return_counts=True
        )
        order = counts.argsort(descending=True, stable=True).tolist()
        flat = one.view(-1)
        for rank, color in enumerate(order[1:]):
            places = (pixels == color).nonzero()[:, 0]
            flat[places] = -1.0
            if rank < 2:
                flat[places[: round(SHARE * len(places))]] = 1.0
    return maps


SHARE = 0.65


@pytest.mark.long
def test_fewer_than_six_questions_give_no_verdict(places):
    for n, verdict in ((5, "inconclusive"), (6, "pass")):
        report = al.faithfulness_test("oracle", places[:2], n=n, diagnosed=False)
        assert report.verdict == verdict
    assert al.faithfulness_test("oracle", places[0], n=2, one_network=True).verdict == "pass"


@pytest.mark.long
def test_the_role_swap_test_tells_a_method_that_fails_from_a_blind_one(counting):
    def half_right(model, inputs, targets):
        """The gradient in one column of three: far from the truth, and not blind."""
        inputs = inputs.requires_grad_()
        out = model(inputs).gather(1, targets[:, None]).sum()
        gradient = torch.autograd.grad(out, inputs)[0].sum(1, keepdim=True)
        return gradient * (torch.arange(gradient.shape[-1]) % 3 == 0)

    seeing = al.faithfulness_test(half_right, counting, n=16, diagnosed=False)
    blind = al.faithfulness_test("majority", counting, n=16, diagnosed=False)
    assert seeing.verdict == "fail"
    assert seeing.environments[0].proof.p_network < 0.001
    assert "depend on the network (p" in repr(seeing).replace("\n", " ")
    assert blind.environments[0].proof.p_network > 0.01


@pytest.mark.long
def test_a_method_that_ignores_the_target_is_told_so(counting):
    def every_class(model, inputs, targets):
        """The sum of all classes' counts, which the network knows and no target changes."""
        inputs = inputs.requires_grad_()
        logits = model(inputs) if not hasattr(model, "model") else model.model(inputs)
        return torch.autograd.grad(logits.sum(), inputs)[0].sum(1, keepdim=True)

    report = al.faithfulness_test(
        every_class, counting, n=32, seed=1, diagnosed=False, claim="positive"
    )
    [result] = report.environments
    assert result.proof.p_network < 0.001 < 0.05 < result.proof.p_target
    assert report.verdict == "fail"
    assert result.claim_f1 <= result.proof.ceilings["without-target"]


@pytest.mark.long
def test_what_is_bound_to_one_network_needs_one_network(counting):
    from captum.attr import Saliency

    images, _ = counting.batch(6)
    for bound in (Saliency(counting.model), images[:, :1].numpy()):
        with pytest.raises(al.AttributionLabError, match="--one-network"):
            al.faithfulness_test(bound, counting, n=6)
        assert al.faithfulness_test(bound, counting, n=6, one_network=True, output="logit")


@pytest.mark.long
def test_a_fresh_seed_is_drawn_stated_and_repeats_the_test(counting):
    first, second = (
        al.faithfulness_test("majority", counting, n=2, seed="fresh", diagnosed=False)
        for _ in range(2)
    )
    assert first.seed != second.seed
    assert first.seed_drawn
    assert first.to_dict()["seed_drawn"]
    assert f"seed {first.seed}" in repr(first).replace("\n", " ")
    again = al.faithfulness_test("majority", counting, n=2, seed=first.seed, diagnosed=False)
    assert not again.seed_drawn
    assert dataclasses.asdict(again.environments[0].proof) == dataclasses.asdict(
        first.environments[0].proof
    )


def test_another_word_than_fresh_is_refused(counting):
    with pytest.raises(al.AttributionLabError, match="seed is 'new'"):
        al.faithfulness_test("majority", counting, n=2, seed="new")


def test_the_level_that_decides_is_the_one_that_is_printed():
    assert SHOWN == LEVEL
