"""The second verdict: does a score hang on how the networks are written?"""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.methods import METHODS, Call, as_method, attribute
from attributionlab.metrics import parts_f1
from attributionlab.verdicts.faithfulness.equal_networks import FormScore, Robustness
from attributionlab.worlds.nets import FORMS

pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum-distractors", image_size=24)


@pytest.fixture(scope="module")
def saliency(env):
    return al.faithfulness_test("saliency", env, n=13, also="equivalent")


@pytest.mark.long
def test_each_form_is_scored_on_the_same_questions(env, saliency):
    [result] = saliency.environments
    assert [each.form for each in result.robustness.forms] == list(FORMS)
    questions = al.Questions(env)
    for found in result.robustness.forms:
        scores = []
        for index in range(13):
            question = questions[index]
            other = question.env.equivalent(found.form)
            image, target = question.image[None], torch.tensor([question.target])
            signed = question.env.truth(image, target).signed
            call = Call(other.name, other.softmax_model, image, target, 0, 1)
            maps = attribute(as_method("saliency", METHODS), call, 0).maps
            scores.append({part: float(f1) for part, f1 in parts_f1(maps, signed).items()})
        means = [np.mean([each[part] for each in scores]) for part in scores[0]]
        # Maps are kept in float32 between normalization and scores: 24 x 24 terms of up to 1.
        assert found.f1 == pytest.approx(min(means), abs=576 * 2**-24)


def test_a_method_that_a_rewritten_kink_silences_depends_on_the_implementation(saliency):
    [result] = saliency.environments
    assert (saliency.verdict, result.verdict) == ("inconclusive", "pass")  # not all is hidden
    assert result.robustness.reading == "depends on the implementation"
    assert result.robustness.lowest.form == "plateau"
    assert result.robustness.lowest.f1 == 0
    assert "depends on the implementation (plateau: 0.00)" in repr(saliency)


@pytest.mark.long
def test_a_method_that_shows_integer_images_only_is_robust(env):
    report = al.faithfulness_test("feature-ablation-true-baseline", env, n=13, also="equivalent")
    [result] = report.environments
    assert result.robustness.reading == "robust"
    assert {each.f1 for each in result.robustness.forms} == {result.claim_f1}
    assert {each.count for each in result.robustness.forms} == {(13, 13)}
    assert "robust before 5 of 5 forms" in repr(report)


@pytest.mark.long
def test_forms_that_a_network_does_not_have_are_left_out():
    for name, forms in (
        ("multi-color-sum", 3),
        ("uniform-accumulator", 0),
    ):
        env = al.load(name, image_size=24)
        report = al.faithfulness_test("oracle", env, n=6, also="equivalent")
        assert len(report.environments[0].robustness.forms) == forms
    assert report.environments[0].robustness.reading == ""
    assert "none of the forms applies" in repr(report)


@pytest.mark.long
def test_a_method_that_does_not_run_before_a_form_says_why(env):
    def picky(model, inputs, targets):
        layers = len(list(model.modules()))
        if layers != plain:
            raise ValueError("not these layers")
        return torch.ones_like(inputs[:, :1])

    plain = len(list(al.Questions(env)[0].env.softmax_model.modules()))
    [result] = al.faithfulness_test(picky, env, n=6, also="equivalent").environments
    refused = [each for each in result.robustness.forms if each.refused]
    assert refused
    assert all("not these layers" in each.refused and each.f1 is None for each in refused)
    assert result.robustness.to_dict()["forms"][0].keys() == {
        *("form", "claim_f1", "solved", "verdict", "refused")
    }


@pytest.mark.parametrize(
    ("plain", "verdicts", "reading"),
    [
        ("pass", ["pass", "pass"], "robust"),
        ("pass", ["pass", "fail"], "depends on the implementation"),
        ("pass", ["inconclusive", "fail"], "depends on the implementation"),
        ("pass", ["pass", "inconclusive"], "undecided"),
        ("pass", ["pass", None], "undecided"),
        ("pass", [], ""),
        ("fail", ["pass", "fail"], ""),
    ],
)
def test_the_reading_rests_on_the_verdicts_before_all_forms(plain, verdicts, reading):
    forms = [FormScore(str(index), 0.5, None, each) for index, each in enumerate(verdicts)]
    assert Robustness(plain, forms).reading == reading


@pytest.mark.long
def test_a_comparison_has_the_lowest_form_in_its_table_and_figure(env):
    comparison = al.compare(
        ["saliency", "feature-ablation-true-baseline"], env, n=13, also="equivalent:3"
    )
    table = comparison.to_frame().set_index(["method", "part"])
    row = table.loc[("saliency", "overall")]
    assert (row.robustness, row.lowest_form, row.lowest_form_f1) == (
        *("depends on the implementation", "plateau", 0.0),
    )
    assert table.loc[("feature-ablation-true-baseline", "overall")].robustness == "robust"
    [axis] = [axis for axis in comparison.forms().axes if axis.get_title()]
    labels = [tick.get_text() for tick in axis.get_yticklabels()]
    assert labels == ["Saliency", "Feature ablation, true baseline"]
    plain = al.compare(["saliency"], env, n=6)
    with pytest.raises(al.AttributionLabError, match=r"also for 'equivalent' \(--also\)"):
        plain.forms()


@pytest.mark.parametrize("equivalent", [-1, 0, 6, 1.5, "all"])
def test_a_number_of_forms_that_there_is_not_is_refused(equivalent, env):
    with pytest.raises(al.AttributionLabError, match=r"also: equivalent is .* from 1 to 5"):
        al.faithfulness_test("oracle", env, n=6, also=f"equivalent:{equivalent}")


def test_a_rewritten_environment_has_no_further_forms(env):
    for rewritten in (env.equivalent("plateau"), env.camouflaged(1)):
        with pytest.raises(al.AttributionLabError, match="rewritten already"):
            al.faithfulness_test("oracle", rewritten, n=6, also="equivalent:1")
