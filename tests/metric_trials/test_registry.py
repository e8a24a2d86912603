"""What is shared between maps and conditions changes no score."""

import functools
from dataclasses import replace
from typing import Annotated, Literal, Optional, TypedDict, Unpack

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

import attributionlab as al
from attributionlab import AttributionLabError, metrics
from attributionlab.base import AttributionWarning
from attributionlab.verdicts import FUNCTIONS, as_metric
from attributionlab.verdicts.metric_trials.case import (
    DRAWS,
    LEVELS,
    SHARED,
    Case,
    Evaluation,
    _cells,
    squared_misfit,
)
from attributionlab.verdicts.metric_trials.registry import METRICS, SHORT_NAMES
from attributionlab.worlds.truth import Truth


@pytest.fixture(scope="module")
def seen():
    """Twenty maps of one image, among them a constant one, under the Unseen Data Effect."""
    env = al.load("multi-color-sum", image_size=12)
    images, labels = env.batch(1)
    truth = env.truth(images, labels)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(18, 1, 12, 12, generator=generator)
    maps = torch.cat([truth.signed.float(), torch.full((1, 1, 12, 12), 0.1), noise])
    values = env.shapley(images[0], int(labels[0]))[None].float()
    case = Case(images[0], labels, maps, truth, values, env.baseline, 255, seed=5)
    return Evaluation(case, env.softmax_model, torch.zeros(3, 12, 12))


def test_every_metric_is_tested_by_its_function_s_name_or_refused_with_what_to_do():
    refused = FUNCTIONS.keys() - METRICS.keys()
    assert refused == {
        *("efficiency-gap", "efficiency-within", "efficient-parameter-randomization"),
        *("local-lipschitz", "max-sensitivity", "parameter-randomization", "random-logit"),
        *("relative-input-stability", "relative-output-stability", "sufficiency"),
        *("relative-representation-stability", "top-feature-agreement", "top-rank-agreement"),
        *("top-sign-agreement", "top-signed-rank-agreement"),
    }
    for name in refused:
        remedy = f"metrics.{name.replace('-', '_')} instead, .* attributionlab cards {name} "
        with pytest.raises(AttributionLabError, match=f"^{name} cannot be tested: .*{remedy}"):
            as_metric(name)
    assert METRICS.keys() - FUNCTIONS.keys() == SHORT_NAMES.keys()
    assert SHARED.keys() <= {function.__name__ for function in FUNCTIONS.values()}
    for name, each in METRICS.items():
        function = FUNCTIONS[SHORT_NAMES.get(name, name)]
        assert (each.name, each.higher_is_better) == (name, function.higher_is_better)


def test_every_metric_scores_every_map_of_an_evaluation(seen):
    few = replace(seen, case=replace(seen.case, maps=seen.case.maps[:3]))
    for each in METRICS.values():
        scores = each.scores(few)
        assert scores.shape == (3,)
        assert np.isfinite(scores).all()


def one_by_one(function, seen, **settings):
    case = seen.case
    return [
        float(
            function(
                seen.model,
                case.image[None],
                case.target,
                each[None],
                replacement=seen.replacement,
                **settings,
            )
        )
        for each in case.maps
    ]


CELLS = {"patches": 16}
SHARED_AS = [
    # The same sums in the same order, up to how many curves are added up side by side.
    *(
        (function, {}, 1e-12)
        for function in (metrics.insertion, metrics.deletion, metrics.pixel_flipping, metrics.ids)
    ),
    *(
        (function, CELLS, 1e-12)
        for function in (
            metrics.sds,
            metrics.faithfulness_estimate,
            metrics.monotonicity_correlation,
            metrics.irof,
        )
    ),
    *((function, CELLS, 1e-12) for function in (metrics.region_perturbation, metrics.selectivity)),
    (metrics.idsds, {"replacement": "baseline"}, 0),
    # Correlations of 50 numbers; the two ways round sums of 144 values to 2^-44 of the largest.
    (metrics.sensitivity_n, {"sizes": "all"}, 1e-9),
    (metrics.faithfulness_correlation, {"share": 14 / 144}, 1e-9),
]


@pytest.mark.parametrize(("function", "settings", "tolerance"), SHARED_AS)
def test_evaluations_that_maps_share_change_no_score(seen, function, settings, tolerance):
    case, given, where = seen.case, dict(settings), seen
    if given.pop("replacement", ""):  # whatever the replacement
        where = replace(seen, replacement=case.baseline)
    given |= {"sizes": case.sizes} if "sizes" in given else {}
    if "sizes" in given or "share" in given:
        given |= {"draws": DRAWS, "seed": case.seed}
    if "share" in given:  # about a tenth
        given["share"] = min(case.sizes, key=lambda each: abs(each - 14.4)) / 144
    expected = one_by_one(function, where, **given)
    found = METRICS[function.__name__.replace("_", "-")].scores(seen)
    assert found == pytest.approx(expected, abs=tolerance, rel=0, nan_ok=True)
    assert len(set(expected)) > (10 if function is metrics.idsds else 15)


@pytest.mark.long
def test_magnitudes_of_cells_are_scored_as_by_the_functions(seen):
    other = (seen.case.target + 1) % 3  # an output that rises where others are deleted
    rising = replace(seen, case=replace(seen.case, target=other))
    for each in (seen, rising):
        for function in (metrics.non_sensitivity, metrics.monotonicity_correlation):
            name = function.__name__.replace("_", "-")
            assert METRICS[name].scores(each).tolist() == one_by_one(function, each, patches=16)


def test_road_of_many_maps_is_that_of_each_by_the_output_of_the_label(seen):
    some = replace(seen, case=replace(seen.case, maps=seen.case.maps[:5]))

    def output(outputs, targets):
        return outputs[:, int(targets[0])]

    settings = {"indicator": output, "value_range": (0, 255), "seed": seen.case.seed}
    call = seen.model, seen.case.image[None], seen.case.target
    expected = [float(metrics.road(*call, each[None], **settings)) for each in some.case.maps]
    # The outputs of five images at once may differ in the last bit of float32 from those of one.
    assert METRICS["road"].scores(some) == pytest.approx(expected, rel=1e-6)
    assert len(set(expected)) == 5


@pytest.mark.parametrize(
    ("name", "scale", "known"),
    [
        *((name, "unit", "mask") for name in ("f1", "precision", "recall")),
        *((name, "signed", "mask") for name in ("pointing-game", "relevance-rank-accuracy")),
        ("relevance-mass-accuracy", "nonnegative", "mask"),
        *((name, "signed", "values") for name in ("rank-correlation", "cosine", "sign-agreement")),
        *((name, "nonnegative", "values") for name in ("true-soundness", "true-completeness")),
    ],
)
def test_localization_is_held_against_the_mask_and_what_needs_values_against_shapley_values(
    seen, name, scale, known
):
    values = seen.case.values if scale == "signed" else seen.case.values.clamp(min=0)
    given = seen.case.truth.positive if known == "mask" else values
    maps = seen.case.scaled(scale)
    expected = FUNCTIONS[name](maps, given.expand(maps.shape)).tolist()
    assert METRICS[name].scores(seen).tolist() == expected
    assert METRICS[name].sees == "maps"
    negative = replace(seen, case=replace(seen.case, maps=-seen.case.truth.positive.float()))
    assert np.isfinite(METRICS[name].scores(negative)).all()
    if known == "values":
        exact = replace(seen, case=replace(seen.case, maps=seen.case.values))
        assert METRICS[name].scores(exact) == pytest.approx([1], abs=1e-12)
    elif scale == "unit":
        assert expected[0] == 1  # the truth


def test_cells_are_as_equal_as_the_size_of_an_image_allows():
    sizes = [int((_cells(6, 9) == cell).sum()) for cell in range(16)]
    assert sum(sizes) == 54
    assert set(sizes) == {2, 3, 4, 6}
    assert _cells(2, 3).flatten().tolist() == list(range(6))


def share_of_way(seen, output_of):
    """The indicator: an image's output, 0 at the replacement and 1 at the image."""
    with torch.no_grad():
        low, high = (output_of(each[None]) for each in (seen.replacement, seen.case.image))
    target = int(seen.case.target)

    def indicator(outputs, targets):
        return (outputs[:, target].double() - low[0, target]) / (high - low)[0, target]

    return indicator


def dataset_metric(seen, each, function, **settings):
    return function(
        seen.model,
        seen.case.image[None],
        seen.case.target,
        each[None],
        indicator=share_of_way(seen, lambda images: seen.model(images).double()),
        imputation=lambda images, keep: torch.where(keep, images, seen.replacement),
        nothing_kept=seen.replacement,
        value_range=(0, 255),
        **settings,
    )


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:level")  # jumped over, or not reached: known here
def test_soundness_of_many_maps_is_the_mean_of_each_over_the_levels(seen):
    background = seen.case.image[:, :1, :1].expand(3, 12, 12)
    # The truth, the constant and two maps of noise.
    some = replace(seen.case, maps=seen.case.maps[:4])
    for replacement in (seen.replacement, torch.full((3, 12, 12), 200.0), background):
        other = Evaluation(some, seen.model, replacement)
        expected = []
        for each in some.positive:
            levels = [
                float(dataset_metric(other, each, metrics.soundness_at, level=level))
                for level in LEVELS
            ]
            expected.append(np.mean([0 if np.isnan(value) else value for value in levels]))
        assert METRICS["soundness"].scores(other) == pytest.approx(expected, abs=1e-12)
    assert METRICS["soundness"].scores(other)[0] == 1  # the truth, from plain background


def test_completeness_of_many_maps_is_the_mean_of_each_over_the_thresholds(seen):
    expected = [
        float(
            dataset_metric(seen, each / each.max(), metrics.completeness_curve).differences.mean()
            if each.any()
            else 0.0
        )
        for each in seen.case.positive
    ]
    assert METRICS["completeness"].scores(seen) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["soundness", "completeness", "sensitivity-n"])
def test_scores_are_nan_where_the_output_does_not_change(seen, name):
    still = Evaluation(seen.case, seen.model, seen.case.image)
    assert np.isnan(METRICS[name].scores(still)).all()


class Line(torch.nn.Module):
    """Two outputs: a constant that is far from 0, and the mean of an image a little above it."""

    def __init__(self, offset=0.0, slope=1.0):
        super().__init__()
        self.offset, self.slope = offset, slope

    def forward(self, images):
        mean = images.double().mean((1, 2, 3))
        return (self.offset + torch.stack([self.slope * mean, 0 * mean], 1)).to(images.dtype)


def case_of(image, maps):
    """A case of one image, all of it positive."""
    values = torch.ones(1, *image.shape)
    truth = Truth(values.to(torch.int8))
    return Case(image, torch.tensor([0]), maps, truth, values, image[:, :1, :1], 255, seed=0)


def line_seen(maps, **line):
    image = torch.ones(1, 10, 10)
    return Evaluation(case_of(image, maps), Line(**line).eval(), 0 * image)


def test_a_level_that_a_map_does_not_reach_counts_zero():
    maps = torch.zeros(4, 1, 10, 10)
    maps[1, 0, :3], maps[2, 0, :7], maps[3] = 1, 1, 1
    # Of 0.2, 0.4, 0.6 and 0.8 the shares 0, 0.3, 0.7 and 1 reach none, one, three and all.
    assert METRICS["soundness"].scores(line_seen(maps)).tolist() == [0, 0.25, 0.75, 1]


def test_steps_of_exactly_epsilon_and_levels_that_are_met_exactly_count():
    # A mean of 100 pixels, in float32: every step adds 1 %, but for rounding.
    maps = torch.arange(100, 0, -1.0).view(1, 1, 10, 10)
    for slope in (1, 3, 0.7):
        assert METRICS["soundness"].scores(line_seen(maps, slope=slope)) == 1
    # The first 20, 40, 60 and 80 pixels alone reach one level more each.
    alone = torch.cat([maps * (maps > 100 - count) for count in (20, 40, 60, 80)])
    for offset in (0, 1, 0.3):
        found = METRICS["soundness"].scores(line_seen(alone, slope=0.7, offset=offset))
        assert found.tolist() == [0.25, 0.5, 0.75, 1]


def test_a_value_at_a_threshold_is_not_above_it_in_the_maps_precision():
    maps = torch.stack([(torch.arange(100) % 10 + 1.0).view(1, 10, 10) * scale
                        for scale in (1, 3, 7, 64)])  # fmt: skip
    # Of ten tenths 9, 8 ... 1 are above 0.1, 0.2 ... 0.9: half of them in the mean.
    assert METRICS["completeness"].scores(line_seen(maps)) == pytest.approx([0.5] * 4, abs=1e-6)


@pytest.mark.parametrize("name", ["soundness", "completeness"])
def test_a_rise_that_rounding_may_have_made_has_no_shares(name):
    maps = torch.rand(3, 1, 10, 10, generator=torch.Generator().manual_seed(0))
    # Steps of float32 near 1000 are 6e-5.
    for slope in (6e-5, 1e-3, -1.0):
        assert np.isnan(METRICS[name].scores(line_seen(maps, offset=1000.0, slope=slope))).all()
    assert np.isfinite(METRICS[name].scores(line_seen(maps, offset=1000.0, slope=100))).all()


def test_a_constant_explains_nothing(seen):
    assert METRICS["sensitivity-n"].scores(seen)[1] == 0


def test_infidelity_is_what_the_best_multiple_from_0_up_leaves_unexplained():
    generator = torch.Generator().manual_seed(0)
    sums = torch.randn(4, 5, 4, generator=generator, dtype=torch.float64)
    losses = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    sums[2], sums[3] = 0, -sums[0]  # one of the two opposites fits best when it is inverted
    got = squared_misfit(sums, losses)
    for index in range(4):
        [factor], _ = nnls(sums[index].reshape(-1, 1).numpy(), losses.flatten().numpy())
        left = losses.flatten().numpy() - sums[index].flatten().numpy() * factor
        # Twenty terms near 1, each off by some roundings.
        assert float(got[index]) == pytest.approx((left**2).mean(), abs=1e-13)
    assert got[0] != got[3]


def test_shapley_values_of_the_replaced_game_add_up_and_are_exact_for_a_sum():
    total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 1, bias=False))
    torch.nn.init.ones_(total[1].weight)
    image = torch.arange(9.0).reshape(1, 3, 3)
    values = Evaluation(case_of(image, image[None]), total, torch.full((1, 3, 3), 2.0)).shapley
    assert torch.equal(values, (image - 2).double())


def test_a_metric_of_anybodys_gets_what_it_declares(seen):
    got = {}

    @metrics.metric(higher_is_better=False, per_sample=True)
    def mine(model, images, targets, attributions, *, replacement, truth, seed):
        got.update(model=model, replacement=replacement, seed=seed)
        assert len(images) == len(targets) == len(attributions) == len(truth)
        assert torch.equal(truth[-1:], seen.case.truth.positive)
        assert torch.equal(images[-1], seen.case.image)
        return attributions.amax((1, 2, 3))  # which no batch rounds otherwise

    adapted = as_metric(mine)
    expected = seen.case.maps.amax((1, 2, 3)).numpy()
    np.testing.assert_array_equal(adapted.scores(seen), expected.astype(np.float64))
    assert (adapted.name, adapted.higher_is_better, adapted.sees) == ("mine", False, "condition")
    assert torch.equal(got.pop("replacement"), seen.replacement)
    assert got == {"model": seen.model, "seed": 5}


@pytest.mark.parametrize(
    "kind",
    [int | None, Optional[int], Literal["a"], dict[str, int], Annotated[int, "seconds"]],  # noqa: UP045
)
def test_keywords_of_any_type_are_no_parameters(seen, kind):
    def mine(attributions, **options):
        return attributions.amax((1, 2, 3)) + len(options)

    mine.__annotations__["options"] = kind
    expected = seen.case.maps.amax((1, 2, 3)).tolist()
    assert as_metric(mine, higher_is_better=True).scores(seen).tolist() == expected


def test_keywords_of_a_typed_dict_are_parameters(seen):
    class Options(TypedDict):
        seed: int

    def mine(attributions, **options: Unpack[Options]):
        return [options["seed"]] * len(attributions)

    assert as_metric(mine, higher_is_better=True).scores(seen).tolist() == [5] * 20


def test_a_metric_that_writes_into_what_it_gets_changes_nothing_for_others(seen):
    kept = [seen.case.maps, seen.case.image, seen.replacement, seen.case.truth.signed]
    before = [each.clone() for each in kept]

    def careless(model, images, targets, attributions, *, replacement, truth):
        scores = attributions.sum((1, 2, 3)).clone()
        for each in (images, attributions, replacement, targets):
            each.zero_()
        truth.fill_(True)
        return scores

    adapted = as_metric(careless, higher_is_better=True)
    np.testing.assert_array_equal(adapted.scores(seen), adapted.scores(seen))
    assert all(torch.equal(each, one) for each, one in zip(kept, before, strict=True))


def test_a_metric_that_changes_the_network_changes_no_other_score_and_is_named(seen):
    def careless(model, images, targets, attributions):
        with torch.no_grad():
            scores = model(images)[:, 0] + attributions.sum((1, 2, 3))
            for each in (*model.parameters(), *model.buffers()):
                each.mul_(0)
        return scores

    adapted = as_metric(careless, higher_is_better=True)
    before = [each.clone() for each in seen.model.state_dict().values()]
    with pytest.warns(AttributionWarning, match="careless changed weights .* restored") as warned:
        scores = [adapted.scores(seen) for _ in range(2)]
    np.testing.assert_array_equal(*scores)
    assert len(warned) == 2  # of one batch each
    after = seen.model.state_dict().values()
    assert all(torch.equal(each, one) for each, one in zip(after, before, strict=True))


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_device("meta"),
        lambda: torch.rand(3),
    ],
)
def test_a_metric_that_changes_global_settings_changes_no_other_score(seen, change):
    def careless(attributions):
        scores = attributions.sum((1, 2, 3)) + float(torch.rand((), device="cpu"))
        change()
        return scores

    state = torch.get_rng_state()
    scores = as_metric(careless, higher_is_better=True).scores(seen)
    assert (torch.ones(1).dtype, torch.ones(1).device.type) == (torch.float32, "cpu")
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(as_metric(careless, higher_is_better=True).scores(seen), scores)


def test_a_metric_without_a_model_gets_maps_alone_and_may_return_a_list(seen):
    def spread(attributions):
        return [float(each.std()) for each in attributions]

    adapted = as_metric(spread, higher_is_better=True)
    assert adapted.sees == "maps"
    assert adapted.scores(seen).tolist() == [float(each.std()) for each in seen.case.maps]


def test_a_built_in_function_is_a_metric_too(seen):
    assert as_metric(metrics.deletion).scores(seen) == pytest.approx(
        METRICS["deletion"].scores(seen)
    )
    assert as_metric(
        metrics.deletion, higher_is_better=True
    ).higher_is_better  # what the user says holds
    half = functools.partial(metrics.deletion, step=2)
    assert as_metric(half, higher_is_better=False).name == "partial"


def judging(model, images, targets, attribute):
    raise AssertionError


def comparing(attributions, others):
    raise AssertionError


ANY = {"higher_is_better": True}


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("insertions", {}, "no metric named 'insertions': did you mean 'insertion'?"),
        ("insertion", ANY, "insertion already declares its direction"),
        (3, {}, "metric is 3: pass a name or a function"),
        (lambda attributions: 0, {}, "does not say which direction is better"),
        (
            metrics.road,
            {},
            "road is defined on a data set only .*write a function that returns one number",
        ),
        (judging, ANY, "judging cannot be tested: it lets a method .*check_metric"),
        (comparing, ANY, "comparing cannot be tested: it compares the maps of two .*check_metric"),
        ("random-logit", {}, "random-logit cannot be tested: .*check_metric"),
        (
            lambda model, attributions: attributions,
            ANY,
            r"takes \(model, attributions\) \(too many.*\): write it as \(model, images, targets,",
        ),
    ],
)
def test_what_is_no_metric_of_maps_is_refused(given, options, message):
    with pytest.raises(AttributionLabError, match=message):
        as_metric(given, **options)


def boom(attributions):
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (lambda a: 0.5, r"returned the shape \(\) for 20 attributions"),
        (lambda a: [[1.0]] * 20, r"returned the shape \(20, 1\)"),
        (lambda a: "high", "returned str .*'high'.*: return one number for each attribution"),
        (lambda a: [10**400] * 20, r"returned list \(OverflowError.*: return one number"),
        (
            lambda a: torch.zeros(20, device="meta"),
            r"Tensor of torch.float32 on meta .*: return one",
        ),
        (lambda a: a.sum((1, 2, 3)) / 0, "returned (inf|nan|-inf)"),
        (
            lambda a: a.sum((1, 2, 3)) * 1j,
            r"Tensor of torch.complex64 on cpu \(.*complex.*\): return",
        ),
        (boom, r"^boom raised RuntimeError: boom \(test_registry\.py, line \d+\)$"),
    ],
)
def test_scores_that_are_no_row_of_numbers_are_refused(seen, returns, message):
    with pytest.raises(AttributionLabError, match=message):
        as_metric(returns, higher_is_better=True).scores(seen)


@pytest.mark.parametrize("form", [Tensor.bfloat16, Tensor.half, Tensor.to_sparse, Tensor.bool])
def test_scores_may_be_tensors_of_any_real_form(seen, form):
    def mine(attributions):
        return form((attributions.mean((1, 2, 3)) > 0).float())

    expected = (seen.case.maps.mean((1, 2, 3)) > 0).tolist()
    assert as_metric(mine, higher_is_better=True).scores(seen).tolist() == expected


@pytest.mark.parametrize("key", ["__name__", "higher_is_better", "per_sample", "maps"])
def test_an_attribute_that_raises_is_said_in_one_line_with_its_place(key):
    def broken(self):
        raise RuntimeError("boom")

    def called(self, attributions):
        return attributions.sum((1, 2, 3))

    kept = {"higher_is_better": True, "__call__": called}
    scorer = type("Scorer", (), kept | {key: property(broken)})()
    place = r"\(test_registry\.py, line \d+\)"
    with pytest.raises(
        AttributionLabError, match=f"'{key}' of Scorer raised RuntimeError: boom {place}: let it"
    ):
        as_metric(scorer)
