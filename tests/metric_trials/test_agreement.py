"""Agreement is the mean over images of Spearman's correlation within each image."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.base.exact.stepwise import replacement as stepwise
from attributionlab.metrics import deletion, metric, parts_f1
from attributionlab.metrics.ranking import CorrelationInterval, Resamples, spearman
from attributionlab.verdicts.metric_trials.agreement import (
    Contrast,
    Lead,
    contrast_of,
    lead_over,
    mean_over_images,
    ranked_alike,
    swap_contrast,
    truths_of,
    unmoved_axes,
    verdict_of,
)
from attributionlab.verdicts.metric_trials.panel import refuse_equal_twins
from attributionlab.verdicts.metric_trials.registry import BLIND, one_pixel
from attributionlab.verdicts.metric_trials.words import CARD, NUMBERS
from cases import loaded
from trials import metric_trial

RNG = np.random.default_rng(0)
QUALITY = np.linspace(0, 1, 60)


def noisy(spread, images=12, quality=QUALITY):
    return quality[:, None] + spread * RNG.normal(size=(len(quality), images))


F1 = {"overall": noisy(0.1), "positive": noisy(0.1), "negative": noisy(0.1) - 0.3}


def of(scores, f1=F1, confidence=0.95, seed=0):
    """Means with their intervals, by what the truth ranks by."""
    resamples = Resamples(None, confidence, seed)
    return {
        by: resamples.interval(ranked_alike(scores, truth, resamples))
        for by, truth in truths_of(f1).items()
    }


def expected(scores, truth):
    """Image by image, by scipy."""
    return np.mean(
        [stats.spearmanr(*pair).statistic for pair in zip(scores.T, truth.T, strict=True)]
    )


def test_values_are_mean_correlations_with_each_ranking_of_the_truth():
    scores = noisy(0.5)
    found = of(scores)
    truths = {
        "overall": F1["overall"],
        "positive": F1["positive"],
        "signed": np.minimum.reduce(list(F1.values())),
    }
    assert found.keys() == truths.keys()
    for name, truth in truths.items():
        # scipy's ranks have other means: a dozen roundings of float64.
        assert found[name].value == pytest.approx(expected(scores, truth), abs=1e-14)
        assert found[name].low < found[name].value < found[name].high


def test_more_images_change_how_sure_the_value_is_and_not_the_value():
    def found(images, seed):
        rng = np.random.default_rng(seed)
        scores = QUALITY[:, None] + 2 * rng.normal(size=(60, images))
        f1 = dict.fromkeys(F1, np.tile(QUALITY[:, None], (1, images)))
        return of(scores, f1=f1)["overall"]

    few, many = (np.mean([found(n, seed).value for seed in range(20)]) for n in (2, 64))
    # 60 ranks: a standard error of 0.13 for an image, 0.02 for 40 of them; three of these.
    assert few == pytest.approx(many, abs=0.06)
    widths = [np.mean([np.subtract(*found(n, s)[:0:-1]) for s in range(5)]) for n in (6, 64)]
    assert widths[1] < widths[0] / 2


def test_an_image_with_nan_is_left_out_and_so_is_one_whose_scores_are_all_equal():
    scores = noisy(0.2)
    kept = expected(scores[:, 2:], F1["overall"][:, 2:])
    scores[7, 0], scores[:, 1] = np.nan, 0.25
    found = of(scores)["overall"]
    assert found.value == pytest.approx(kept, abs=1e-14)


def test_a_metric_that_scores_all_alike_has_no_ranking():
    for same in (np.full((60, 12), 0.3), np.full((60, 12), np.nan)):
        found = of(same)["overall"]
        assert all(math.isnan(each) for each in found)


def test_scores_that_differ_by_rounding_are_ties():
    quality = np.repeat([0.0, 0.5, 1.0], 20)
    scores = np.tile(quality[:, None], (1, 4))
    wiggled = scores * (1 + 1e-14 * RNG.normal(size=scores.shape))
    assert of(wiggled, f1=dict.fromkeys(F1, scores))["overall"].value == 1


def test_one_image_has_a_value_without_an_interval():
    one = {part: values[:, :1] for part, values in F1.items()}
    value, low, high = of(noisy(0.1, 1), f1=one)["overall"]
    assert value > 0.9
    assert math.isnan(low)
    assert math.isnan(high)


def test_the_interval_is_one_over_images():
    # Six of ten images rank as the truth does, four the other way round: a mean of 0.2.
    scores = np.tile(QUALITY[:, None], (1, 10))
    scores[:, 6:] = 1 - scores[:, 6:]
    f1 = dict.fromkeys(F1, np.tile(QUALITY[:, None], (1, 10)))
    value, low, high = of(scores, f1=f1)["overall"]
    assert value == pytest.approx(0.2, abs=1e-15)
    # A coin that shows 1 or -1: a standard error of 0.31, and t with 9 degrees of freedom.
    assert low == pytest.approx(0.2 - 2.26 * 0.31, abs=0.2)
    assert high == pytest.approx(0.2 + 2.26 * 0.31, abs=0.2)
    narrow = of(scores, f1=f1, confidence=0.5)["overall"]
    assert low < narrow.low < narrow.high < high


def test_the_same_seed_gives_the_same_interval():
    scores = noisy(0.5)
    one, same, other = (of(scores, seed=seed) for seed in (0, 0, 1))
    assert one == same != other


def test_means_over_images_leave_nan_out():
    scores = np.array([[1.0, np.nan, 3.0], [np.nan] * 3])
    np.testing.assert_array_equal(mean_over_images(scores), [2.0, np.nan])


CLEAN = {"share": [0]}
FIXED = Resamples(None, 0.95, 0)
env = loaded("multi-color-sum", image_size=12)


@pytest.fixture(scope="module")
def insertion(env):
    return metric_trial("insertion", env, 6, doses={"share": [0, 1]}, methods=["saliency"])


@metric(higher_is_better=True, per_sample=True)
def foreground(model, images, targets, attributions, *, replacement):
    return (attributions * (images != replacement).any(1, keepdim=True)).sum((1, 2, 3))


@settings(deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(1, 4),
    st.integers(2, 40),
    st.booleans(),
    st.sampled_from([2, 5, 10**9]),
)
def test_a_metric_that_never_looks_has_a_contrast_of_zero_on_any_panel(
    seed, questions, candidates, resampled, levels
):
    rng = np.random.default_rng(seed)
    scores, own, twin = rng.integers(0, levels, (3, candidates, questions)) / levels
    families = [str(each) for each in rng.integers(0, 4, candidates)] if resampled else None
    found = swap_contrast((scores, scores), (own, twin), Resamples(families, 0.95, 0))
    assert set(found.each[~np.isnan(found.each)]) <= {0.0}
    if found.drawn is not None:
        assert set(found.drawn[~np.isnan(found.drawn)]) <= {0.0}


@given(st.integers(0, 2**31))
def test_the_contrast_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    scores, truths = rng.integers(0, 6, (2, 2, 9, 3)).astype(float)
    found = swap_contrast(tuple(scores), tuple(truths), FIXED).each
    for question, value in enumerate(found):
        rho = {
            (s, r): spearman(scores[s][:, question], truths[r][:, question])
            for s in (0, 1)
            for r in (0, 1)
        }
        expected = (rho[0, 0] - rho[0, 1] + rho[1, 1] - rho[1, 0]) / 2
        # Four correlations of at most 1, each rounded by 2^-52 or less.
        assert value == pytest.approx(expected, abs=1e-15, nan_ok=True)


def test_the_truth_itself_has_the_contrast_that_is_possible():
    own, twin = np.random.default_rng(0).normal(size=(2, 30, 5))
    found = contrast_of((own, twin), (own, twin), FIXED)
    rho = [spearman(*each) for each in zip(own.T, twin.T, strict=True)]
    assert found.mean.value == found.possible == pytest.approx(1 - np.mean(rho), abs=1e-15)
    assert not found.is_blind


def test_the_lead_is_over_the_control_that_agrees_best_on_all_attributions():
    rng = np.random.default_rng(0)
    truths = tuple(rng.normal(size=(2, 30, 5)))
    noisy, noise = (
        tuple(s * each + n for each, n in zip(truths, rng.normal(size=(2, 30, 5)), strict=True))
        for s, n in ((1, 1), (0, 1))
    )
    found = lead_over(truths, {"noise": noise, "noisy": noisy}, truths, FIXED)
    expected = [
        [spearman(*each) for each in zip(scores.T, truth.T, strict=True)]
        for scores, truth in zip(noisy, truths, strict=True)
    ]
    assert (found.control, found.agreement) == ("noisy", 1)
    # Ten correlations of at most 1, each rounded by 2^-52 or less.
    assert found.of_control == pytest.approx(np.mean(expected), abs=1e-14)
    assert found.mean.value == pytest.approx(1 - np.mean(expected), abs=1e-14)
    assert found.mean.low <= found.mean.value <= found.mean.high


def interval(low, high):
    return CorrelationInterval((low + high) / 2, low, high)


def contrast(low, high, each=(0.5,) * 8):
    return Contrast(interval(low, high), np.array(each), 1.5)


def lead(low, high):
    return Lead("sparsity (blind)", 0.6, 0.5, interval(low, high))


FINE = (0.2, 0.4), contrast(0.1, 0.3), lead(0.1, 0.2)
OVER = "lead over sparsity (blind)"


@pytest.mark.parametrize(
    ("agreement", "swap", "over", "verdict", "said"),
    [
        (*FINE, "valid", "agreement 0.30 [0.20, 0.40], swap"),
        (*FINE, "valid", f"{OVER} 0.15 [0.10, 0.20]: all above zero. On both networks, its "),
        (*FINE, "valid", "the truth is 0.60, and that of the best control 0.50"),
        (FINE[0], contrast(0, 0, [0.0] * 8), FINE[2], "blind", "is 0 on each of 8 questions"),
        (FINE[0], contrast(0, 0, [0.0, math.nan]), FINE[2], "blind", "on each of 1 questions"),
        ((-0.4, -0.2), *FINE[1:], "reversed", "agreement -0.30 [-0.40, -0.20]: below"),
        (
            FINE[0],
            contrast(-0.3, -0.1),
            FINE[2],
            "reversed",
            "swap contrast -0.20 [-0.30, -0.10]",
        ),
        ((-0.2, 0.4), *FINE[1:], "undecided", "agreement 0.10 [-0.20, 0.40]: the"),
        ((-0.001, 0.4), *FINE[1:], "undecided", "agreement 0.20 [0.00, 0.40]: the"),
        ((-0.4, 0.2), *FINE[1:], "undecided", "agreement -0.10 [-0.40, 0.20]: the"),
        (
            FINE[0],
            contrast(0.0, 0.3),
            FINE[2],
            "undecided",
            "swap contrast 0.15 [0.00, 0.30]: the",
        ),
        (FINE[0], contrast(0.1, 0.3, [0.5] * 5), FINE[2], "undecided", "5 of 8 questions have"),
        (FINE[0], contrast(0.1, 0.3, [math.nan] * 8), FINE[2], "undecided", "no question has a"),
        (FINE[0], None, FINE[2], "undecided", "not decisive: why"),
        (*FINE[:2], lead(0.0, 0.2), "undecided", f"{OVER} 0.10 [0.00, 0.20]: the interval"),
        (*FINE[:2], lead(math.nan, math.nan), "undecided", "the interval contains zero"),
        (*FINE[:2], lead(-0.2, -0.1), "not valid", f"{OVER} -0.15 [-0.20, -0.10]: for both"),
        (*FINE[:2], lead(0, 0), "not valid", "with the truth (0.60) than this control (0.50)"),
    ],
)
def test_the_verdict_follows_from_the_intervals(agreement, swap, over, verdict, said):
    found, reason = verdict_of(interval(*agreement), swap, over, 8, reason="why")
    assert found == verdict
    assert said in reason


def test_who_sees_no_signs_is_told_so_whatever_the_intervals():
    verdict, reason = verdict_of(interval(*FINE[0]), *FINE[1:], 8, sees_signs=False)
    assert verdict == "not valid"
    assert reason.startswith("it ignores signs: on every question")
    assert "more" not in reason  # questions


def test_insertion_is_valid_and_unseen_data_lowers_its_agreement(insertion):
    assert insertion.verdict == "valid"
    assert insertion.sentence.startswith("valid: agreement 0.")
    trial = insertion.trial
    clean, dose = insertion.along("share")
    assert clean.drop is None
    # Share 0 has redundant channels that nothing sets off: the same answers as without any.
    assert clean.correlations["signed"] == trial.agreement
    less = trial.agreement.value - dose.correlations["signed"].value
    assert dose.drop.value == pytest.approx(less, abs=1e-15)
    more = replace(insertion, doses=[*insertion.doses, dose._replace(dose=2.0)])
    for report, largest in ((insertion, 1), (more, 2)):
        [axis] = report.figure().axes
        assert [each.get_text() for each in axis.get_yticklabels()] == [
            *("agreement on both networks (decides)", "agreement on own network"),
            *("swap contrast", "lead over control", f"drop at share {largest}"),
        ]
    assert "valid" in insertion.figure().get_suptitle()


@pytest.mark.long
@pytest.mark.parametrize("tested", [foreground, *BLIND])
def test_who_never_looks_is_blind_though_it_takes_the_model(env, tested):
    report = metric_trial(tested, env, 2, doses={"strength": [0, 1], "share": [0]})
    assert report.verdict == "blind"
    assert report.trial.contrast.each.tolist() == [0, 0]
    assert report.trial.contrast.mean == (0, 0, 0)
    controls = report.trial.controls.set_index("metric")
    assert controls.contrast.drop("one-pixel").tolist() == [0, 0, 0]
    if tested in BLIND:  # is its own control
        own = controls.loc[f"{tested} (blind)"]
        assert own.likeness == pytest.approx(1, abs=1e-15)
        assert own.agreement == report.trial.agreement.value


def test_one_pixel_asks_about_the_first_pixel_of_the_highest_attribution():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[1.0, 2, 3, 4, 5, 6], [0, 0, 0, 0, 0, 1]]))
    images = torch.ones(3, 1, 2, 3)
    maps = torch.zeros(3, 1, 2, 3)
    maps[0, 0, 1, 2] = maps[1, 0, 0, 1] = maps[1, 0, 1, 1] = 1
    given = {"replacement": torch.full((1, 2, 3), 3.0)}
    targets = torch.tensor([0, 0, 0])
    # Pixel 5, pixel 1 (of 1 and 4) and pixel 0 (of all) lose 2 times their weights.
    assert one_pixel(model, images, targets, maps, **given).tolist() == [-12, -4, -2]


def test_blind_scores_are_what_they_say():
    images = torch.zeros(1, 1, 2, 3)
    images[0, 0, 0, 0] = 1
    maps = torch.tensor([[[[1.0, -2, 0], [0, 0, 1]]]])
    share = BLIND["foreground-share"](None, images, None, maps, replacement=torch.zeros(1, 2, 3))
    assert share.tolist() == [1 / 4]
    # The first pixel and its two neighbors.
    assert BLIND["edge-share"](None, images, None, maps).tolist() == [3 / 4]
    # Sorted 0 0 0 1 1 2: (1 x 1 + 1 x 3 + 2 x 5) / (6 x 4).
    assert BLIND["sparsity"](maps).tolist() == [14 / 24]
    assert BLIND["sparsity"](torch.ones(1, 1, 2, 3)).tolist() == [0]
    assert BLIND["sparsity"](torch.zeros(1, 1, 2, 3)).tolist() == [0]


@pytest.mark.long
def test_a_metric_with_the_wrong_direction_is_reversed_and_told_the_remedy(env):
    def region_perturbation(model, images, targets, attributions, *, replacement):
        """What Quantus' RegionPerturbation sums up: by how much the output falls, highest first. It
        states ScoreDirection.LOWER, of what falls more the better the attribution is.
        """
        whole = model(images).gather(1, targets[:, None])[:, 0].detach()
        left = deletion(model, images, targets, attributions, replacement=replacement, step=12)
        return whole - left

    report, turned = (
        metric_trial(region_perturbation, env, 6, doses=CLEAN, higher_is_better=better)
        for better in (False, True)
    )
    assert report.verdict == "reversed"
    assert re.search(r"agreement -0\..* and swap contrast -1\.", report.sentence)
    assert "higher_is_better=True" in report.sentence
    assert "without --lower-is-better" in report.sentence
    assert turned.verdict == "valid"
    assert turned.trial.agreement.value == -report.trial.agreement.value


def test_quantus_states_that_lower_is_better_for_what_falls_more():
    quantus = pytest.importorskip("quantus", reason="pip install -e '.[quantus]' for Quantus' own")
    assert quantus.RegionPerturbation.score_direction.value == "lower"


@pytest.mark.long
@pytest.mark.parametrize(
    ("tested", "said"),
    [
        ("deletion", "2 of 2 questions have a ranking, and intervals need 6"),
        (lambda attributions: torch.ones(len(attributions)), "no question has a ranking"),
    ],
)
def test_too_few_questions_and_a_constant_score_decide_nothing(env, tested, said):
    better = None if isinstance(tested, str) else True
    report = metric_trial(tested, env, 2, doses=CLEAN, higher_is_better=better)
    assert report.verdict == "undecided"
    assert said in report.sentence


@pytest.mark.long
@pytest.mark.parametrize(
    ("colors", "options", "why"),
    [
        ({"colors": [[220, 120, 20]]}, {}, "show a single kind of pixels that may count"),
        ({}, {"one_network": True}, "networks with the same roles"),
    ],
)
def test_without_another_kind_of_pixels_nothing_is_decisive(colors, options, why):
    place = al.load("multi-color-sum", image_size=12, **colors)
    report = metric_trial("deletion", place, 2, doses=CLEAN, **options)
    assert report.verdict == "undecided"
    assert report.trial.contrast is None
    assert report.sentence.startswith("undecided: not decisive: ")
    assert why in report.sentence
    assert report.to_dict()["contrasts"] is None
    assert set(report.to_frame().network) == {"own"}


def test_twins_with_the_same_roles_or_another_image_are_refused(env):
    questions = al.Questions(env, 0)
    own = questions[0]
    refuse_equal_twins(own, questions.twin(0))
    with pytest.raises(AttributionLabError, match=r"count the same pixels.*Questions\.twin"):
        refuse_equal_twins(own, own)
    other = next(each for each in map(questions.twin, range(1, 9)) if each.roles != own.roles)
    other = other._replace(target=own.target, roles=tuple(np.roll(own.roles, 1)))
    with pytest.raises(AttributionLabError, match="its counterpart show two images"):
        refuse_equal_twins(own, other)


@pytest.mark.long
def test_axes_that_a_metric_never_sees_are_left_out(env):
    doses = {"strength": [0, 1], "distance": [0, 20]}
    assert metric_trial("pointing-game", env, 2, doses=doses).doses == []
    # IDSDS deletes by the true baseline, whatever the replacement: only the network changes.
    seen = {each.axis for each in metric_trial("idsds", env, 2, doses=doses).doses}
    assert "distance" not in seen
    axes, keys = ["a", "a", "b", "b", "c"], [1, 2, 1, 2, 1]
    same, other = np.array([1.0, np.nan]), np.array([2.0, np.nan])
    assert unmoved_axes(zip(axes, keys, [same, same, same, other, same], strict=True)) == {"a"}


def test_the_table_holds_each_attribution_before_both_networks(insertion, env):
    table = insertion.to_frame()
    own, twin = (table[table.network == each] for each in ("own", "twin"))
    assert own.name.tolist() == twin.name.tolist()
    per_question = 2 * 120 + 2  # own and twin's, foreground and other target
    assert len(own) == 6 * per_question
    assert set(own.made_for) == {"own", "twin", "none"}
    for part, made_for in ((own, "own"), (twin, "twin")):
        exact = part[(part.name == "exact") & (part.made_for == made_for)]
        assert exact.f1_lowest.tolist() == [1] * 6
    crossed = own[(own.name == "exact") & (own.made_for == "twin")]
    assert crossed.f1_positive.tolist() == [0] * 6  # another kind of pixels is the target's
    question = al.Questions(env, 0)[3]
    seen = own[(own.question == 3) & (own.family == "lure")].set_index("name")
    truth = question.env.truth(question.image[None], torch.tensor([question.target])).signed
    maps = (question.image[None] != question.env.baseline).any(1, keepdim=True).float()
    assert seen.f1_overall["foreground"] == float(parts_f1(maps, truth)["overall"])


@pytest.mark.long
def test_files_hold_scores_and_f1_and_the_page_needs_nothing_else(insertion, tmp_path):
    insertion.to_json(tmp_path / "report.json")
    document = json.loads((tmp_path / "report.json").read_text())
    assert (document["schema"], document["verdict"]) == (4, "valid")
    assert len(document["contrasts"]) == 6
    assert [row["what"] for row in document["headline"]] == [
        *("agreement", "swap contrast", "lead over control", "drop")
    ]
    assert document["lead"]["control"] in [row["metric"] for row in document["controls"]]
    assert {"score", "f1_lowest", "made_for", "network"} <= document["attributions"][0].keys()
    assert len(document["attributions"]) == len(insertion.to_frame())
    insertion = replace(insertion, quick=True)
    insertion.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<section class="verdict pass"' in page
    assert f"{insertion.sentence.removeprefix('valid: a')}.</p>" in page
    assert all(f"<h{2 + (name == CARD)}>{name}</h" in page for name in insertion.tables())
    parts = (
        '<span class="word">valid',
        f"{insertion.asked}.</p>",  # how much the verdict rests on
        *insertion.caveats,
        f"<h3>{CARD}",
        "</section>",
        "<img",
        f'aria-label="{NUMBERS}"',
        "the words mean",
    )
    order = [page.index(part) for part in parts]
    assert order == sorted(order)
    assert page.count("data:image/png;base64,") == 2
    assert insertion.asked == "6 questions of 12 x 12 pixels, seed 0"
    [caveat] = insertion.caveats
    assert page.count(f">{caveat}</p>") == 1
    headings = re.findall(r"<h[123][^>]*>(.*?)</h", page)
    assert len(headings) == len({*headings})
    assert not re.search(r"https?://|<script", page)


@pytest.mark.long
def test_the_figure_begins_with_what_decides_and_says_what_is_a_correlation(insertion):
    [axes] = insertion.figure().axes
    assert [each.get_text() for each in axes.get_yticklabels()][:3] == [
        "agreement on both networks (decides)",
        "agreement on own network",
        "swap contrast",
    ]
    controls = insertion.trial.controls.agreement_on_both
    first = {x for dots in axes.collections for x, y in dots.get_offsets() if abs(y) < 0.5 and x}
    assert {insertion.trial.lead.agreement, *controls} <= first
    label = " ".join(axes.get_xlabel().split())
    assert label.startswith("agreement: Spearman correlation; all others: differences of two")


def test_the_card_answers_by_intervals_and_names_what_beats_the_truth(insertion):
    trial = insertion.trial
    above, below, open_ = ((0.5, 0.3, 0.7), (-0.5, -0.7, -0.3), (0.1, -0.1, 0.3))
    changed = trial._replace(
        agreement=CorrelationInterval(*open_),
        contrast=trial.contrast._replace(mean=CorrelationInterval(*above)),
        lead=trial.lead._replace(mean=CorrelationInterval(*below)),
    )
    doses = [each._replace(best_map="exact") for each in insertion.doses]
    rows = replace(insertion, trial=changed, doses=doses).card()
    assert rows["asked"].tolist() == [
        "looks at the network",
        "prefers the truth without unseen data",
        f"is better than the control {trial.lead.control}",
        "prefers the truth with unseen data",
    ]
    assert rows["answer"].tolist() == ["yes", "undecided", "no", "yes"]
    last = max(range(len(doses)), key=lambda place: doses[place].dose)
    for name, said in {
        "inverted": "inverted",
        "missing negative 1": "the truth with negative values lowered by 100%",
    }.items():
        doses[last] = doses[last]._replace(best_map=name)
        beaten = replace(insertion, trial=changed, doses=doses).card()
        assert beaten["answer"].tolist()[-1] == f"no, {said} scores better"
    turned = trial._replace(contrast=trial.contrast._replace(mean=CorrelationInterval(*below)))
    report = replace(insertion, trial=turned, doses=doses)
    assert report.verdict == "reversed"
    assert report.card()["answer"][0] == "yes, reversed"
    assert "pass higher_is_better=False (command: with --lower-is-better)" in report.sentence


@pytest.mark.long
def test_a_metric_that_calls_deletion_prepares_each_image_a_few_times(env, monkeypatch):
    prepared, whole = [], stepwise._mixture
    monkeypatch.setattr(stepwise, "_mixture", lambda *given: prepared.append(1) or whole(*given))

    def mine(model, images, targets, attributions, *, replacement):
        return deletion(model, images, targets, attributions, replacement=replacement)

    metric_trial(mine, env, 2, doses=CLEAN, higher_is_better=False)
    # For each question: its own panel at the dose 0 and without unseen data, the twin's and lures, and
    # both before the twin: 481 attributions.
    assert len(prepared) == 2 * 5
