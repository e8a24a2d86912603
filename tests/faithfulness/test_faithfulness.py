"""The spine: what is tested, how it is judged, what is refused, and what is left as it was."""

import json
import random
import warnings
from dataclasses import replace

import captum.attr
import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

import attributionlab as al
import oracles
from attributionlab import AttributionLabError, AttributionWarning
from attributionlab.base import Tally, library_versions
from attributionlab.metrics import FLOOR
from attributionlab.runs.running import outcome_of
from attributionlab.show import report_table, verdict_table
from attributionlab.verdicts.faithfulness.report import plain
from attributionlab.verdicts.faithfulness.test import _pays
from attributionlab.worlds.environment.hidden import HIDDEN
from cases import loaded

ON_KINKS = pytest.mark.filterwarnings("ignore:.*rest on a convention")
env = loaded("multi-color-sum", image_size=24)
counter = loaded("nonuniform-accumulator", image_size=24)


def ones(model, inputs, targets):
    return torch.ones_like(inputs)


def test_scores_are_those_of_the_naive_twin(env):
    images, labels = env.batch(3)
    rng = np.random.default_rng(0)
    maps = rng.normal(size=(3, 1, 24, 24)).astype(np.float32)
    frame = al.faithfulness_test(maps, env, n=3, one_network=True).to_frame()
    signs = env.truth(images, labels).signed
    for index in range(3):
        normalized = oracles.normalize(maps[index].ravel().tolist())
        for part in ("overall", "positive", "negative"):
            flat = oracles.part(normalized, signs[index].flatten().tolist(), part)
            row = frame[(frame["sample"] == index) & (frame.part == part)].iloc[0]
            # The twin normalizes in float64, the test in float32: 2^-24 a value, sums of one sign.
            assert row.precision == pytest.approx(oracles.precision(*flat), rel=1e-6)
            assert row.recall == pytest.approx(oracles.recall(*flat), rel=1e-6)
            assert row.f1 == pytest.approx(oracles.f1(*flat), rel=1e-6)


@pytest.mark.long
def test_an_interrupt_says_what_was_solved(env, counter):
    def sums(model, inputs, targets):
        if inputs.shape[1] == 1:
            raise KeyboardInterrupt
        return inputs.sum(1)

    asked = {"n": 6, "claim": "overall", "also": None}
    [alone] = al.faithfulness_test(sums, env, **asked).environments
    said = f"1 of 2 .* multi-color-sum {alone.verdict}, solved {alone.count.solved} of 6"
    with pytest.raises(KeyboardInterrupt, match=said):
        al.faithfulness_test(sums, [env, counter], **asked)


def without_seconds(document):
    if isinstance(document, dict):
        kept = {key: each for key, each in document.items() if "seconds" not in key}
        return {key: without_seconds(each) for key, each in kept.items()}
    return [without_seconds(each) for each in document] if isinstance(document, list) else document


@pytest.fixture
def two_threads():
    """Further processes have one each."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.long
@pytest.mark.usefixtures("two_threads")
def test_processes_find_what_one_finds(env, counter):
    with pytest.warns(AttributionWarning):  # sums that miss the output's change
        one, two = (
            al.faithfulness_test("deep-shap", [env, counter], n=6, jobs=jobs) for jobs in (1, 2)
        )
    found, wanted = (without_seconds(each.to_dict()) for each in (two, one))
    assert found.pop("command") == wanted.pop("command").replace("jobs=1", "jobs=2")
    assert found == wanted
    for ours, theirs in zip(one.environments, two.environments, strict=True):
        for name in ("attributions", "faint", "images", "truth"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


@pytest.mark.long
def test_what_a_method_raises_in_a_process_is_told(env, counter):
    def colors_only(model, inputs, targets):
        if inputs.shape[1] == 1:
            raise ValueError("three channels, please")
        return inputs

    with pytest.raises(AttributionLabError, match=r"colors_only.* ValueError: three channels"):
        al.faithfulness_test(colors_only, [env, counter], n=6, jobs=2)


def threads_of(environments, **running):
    """With how many threads a method is called, and how many the report tells."""
    threads = set()

    def seen(model, inputs, targets):
        threads.add(torch.get_num_threads())
        return inputs

    report = al.faithfulness_test(seen, environments, also=None, **running)
    assert torch.get_num_threads() == 2
    return threads, report.to_dict()["versions"]["threads"]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("jobs", [None, 1])
def test_the_laboratorys_environments_are_tested_with_one_thread(env, counter, jobs):
    assert threads_of([env, counter], n=1, jobs=jobs) == ({1}, "1")


@pytest.mark.usefixtures("two_threads")
def test_a_users_own_network_has_the_threads_of_torch():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2)).eval()
    images, truth = torch.rand(2, 3, 4, 4), torch.ones(2, 1, 4, 4, dtype=torch.int8)
    assert threads_of(al.custom_environment(model, images, truth), n=2) == ({2}, "2")


def test_small_images_take_processes_too(monkeypatch):
    """A quick test asks 32 questions of 72 x 72 pixels in each environment."""
    environments = [al.load("quadrants", image_size=72)] * 4
    monkeypatch.setattr("attributionlab.runs.workers.cores", lambda: 2)
    assert _pays(32, environments, {"jobs": None})
    assert not _pays(8, environments, {"jobs": None})
    monkeypatch.setattr("attributionlab.runs.workers.cores", lambda: 1)
    assert not _pays(32, environments, {"jobs": None})


@pytest.mark.parametrize(
    ("cores", "pixel_seconds", "jobs", "apart"),
    [
        (2, 1.0, None, True),  # 2 environments of 24 x 24 pixels: 1152 s
        (1, 1.0, None, False),
        (2, 1e-3, None, False),
        (2, 1.0, 1, False),
        (1, 0.0, 2, True),
    ],
)
def test_processes_take_environments_where_that_pays(
    env, counter, monkeypatch, cores, pixel_seconds, jobs, apart
):
    class ApartError(Exception):
        pass

    def refused(*_):
        raise ApartError

    monkeypatch.setattr("attributionlab.runs.running._elsewhere", refused)
    monkeypatch.setattr("attributionlab.runs.workers.cores", lambda: cores)
    monkeypatch.setattr("attributionlab.verdicts.faithfulness.test.PIXEL_SECONDS", pixel_seconds)
    asked = {"n": 1, "jobs": jobs, "also": None}
    if apart:
        with pytest.raises(ApartError):
            al.faithfulness_test("constant", [env, counter], **asked)
    else:
        report = al.faithfulness_test("constant", [env, counter], **asked)
        assert [each.name for each in report.environments] == [env.name, counter.name]
    al.faithfulness_test("constant", counter, **asked)  # one environment is for this process


def test_an_interrupt_of_processes_says_what_was_done(env, counter, monkeypatch):
    def interrupted(cells, *_, **__):
        yield cells[1], outcome_of(cells[1].compute)
        raise KeyboardInterrupt

    monkeypatch.setattr("attributionlab.runs.running.run_cells", interrupted)
    with pytest.raises(KeyboardInterrupt, match=f"1 of 2 .* {counter.name}"):
        al.faithfulness_test("constant", [env, counter], n=6, also=None, jobs=2)


def test_signed_rests_on_the_lowest_part(env):
    half = env.truth(*env.batch(4)).signed.float()
    half[:, :, ::2] *= half[:, :, ::2] > 0  # of what lowers the output every second row is missing
    report = al.faithfulness_test(half, env, n=4, one_network=True, also=None)
    [result] = report.environments
    means = {part: result.mean(part, "f1") for part in ("overall", "positive", "negative")}
    assert means["positive"] == 1
    assert result.claim_f1 == min(means.values()) == means[result.claim_part] < 1
    assert result.claim_part == "negative"
    assert np.array_equal(result.lowest, result.scores["negative"]["f1"])


@pytest.mark.parametrize("claim", ["overall", "positive"])
def test_another_claim_rests_on_its_part(env, claim):
    [result] = al.faithfulness_test("non-background", env, n=4, claim=claim).environments
    assert result.claim_part == claim
    assert result.claim_f1 == result.mean(claim, "f1")


def test_a_method_may_bring_its_claim(env):
    def mine(*asked):
        return ones(*asked)

    mine.claim = "positive"
    assert al.faithfulness_test(mine, env, n=1).claim == "positive"
    assert al.faithfulness_test(mine, env, n=1, claim="overall").claim == "overall"


@pytest.mark.long
def test_under_a_smoothed_truth_the_oracle_scores_the_ceiling_and_the_truth_itself_less(env):
    images, labels = env.batch(3)
    positive = env.truth(images, labels).positive
    truth = al.truth.smoothed(positive, env.smoothing_sigma)
    asked = {"n": 3, "claim": "positive-smoothed", "one_network": True}
    [result] = al.faithfulness_test(truth, env, **asked).environments
    values = truth.double()
    scored = torch.where(values < FLOOR, 0.0, values)  # the largest is 1
    sums = (scored * values).sum((1, 2, 3)), (scored + values).sum((1, 2, 3))
    expected = float((2 * sums[0] / sums[1]).mean())
    # Float64 sums of 576 terms below 1.
    assert result.claim_f1 == pytest.approx(expected, abs=1e-12)
    [oracle] = al.faithfulness_test("oracle", env, **asked).environments
    assert oracle.claim_f1 == oracle.ceiling == result.ceiling > result.claim_f1
    [negated] = al.faithfulness_test(-truth, env, **asked).environments
    assert negated.claim_f1 == 0


@pytest.mark.long
def test_every_environment_must_pass(env, counter):
    def right_on_color_only(model, inputs, targets, *, baseline):
        return (inputs != baseline).any(1).float() * (inputs.shape[1] == 3)

    with pytest.warns(AttributionWarning, match="zero everywhere"):
        report = al.faithfulness_test(right_on_color_only, [env, counter], n=13, claim="overall")
    assert [result.verdict for result in report.environments] == ["pass", "fail"]
    assert report.verdict == "fail"


def test_the_output_decides_over_model_and_truth(env, counter):
    seen = []

    def watch(model, inputs, targets):
        seen.append(model(inputs).detach())
        return torch.ones_like(inputs)

    report = al.faithfulness_test(watch, [env, counter], n=1, explain="logit", also=None)
    assert [result.output for result in report.environments] == ["logit", "logit"]
    assert report.environments[0].mean("negative", "f1") is None
    assert report.environments[0].temperature is None
    report = al.faithfulness_test(watch, [env, counter], n=1, also=None)
    assert [result.output for result in report.environments] == ["probability", "logit"]
    assert report.environments[0].temperature == env.temperature
    logits, _, probabilities, _ = seen
    assert logits.sum() > 2
    assert probabilities.sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.long
@ON_KINKS
def test_a_regression_works_with_a_captum_class(counter):
    for settings in ({"n": 13}, {"n": 13, "one_network": True}):
        report = al.faithfulness_test(captum.attr.InputXGradient, counter, **settings)
        [result] = report.environments
        assert result.verdict == "pass"  # a linear network: the gradient is the truth


@ON_KINKS
def test_gradients_are_one_on_every_counted_pixel_by_convention(env):
    """Every relevant pixel sits on kinks; ReLU'(0) = 0 makes plain gradients right there."""
    assert al.faithfulness_test("saliency", env, n=2, explain="logit").environments[0].claim_f1 == 1


@pytest.mark.long
def test_results_depend_on_the_seed_alone(env):
    def noisy(model, inputs, targets, *, generator):
        noise = torch.rand(inputs.shape, generator=generator) + torch.rand_like(inputs)
        return noise + random.random() + float(np.random.rand())

    first = al.faithfulness_test(noisy, env, n=3, seed=5).to_frame()
    torch.rand(7), random.random()
    again = al.faithfulness_test(noisy, env, n=3, seed=5).to_frame()
    assert first.equals(again)
    assert not first.equals(al.faithfulness_test(noisy, env, n=3, seed=6).to_frame())


# Several batches: a question is one, and images before one network fill one with 87 of them.
@pytest.mark.long
@pytest.mark.parametrize(("one_network", "n"), [(False, 8), (True, 120)])
def test_the_first_images_score_the_same_whatever_n_is(env, one_network, n):
    few, many = (
        al.faithfulness_test("random", env, n=each, one_network=one_network, also=None).to_frame()
        for each in (2, n)
    )
    merged = few.merge(many, on=["sample", "part"])
    assert (merged.f1_x == merged.f1_y).all()


@pytest.mark.long
def test_randomness_differs_from_seed_to_seed_and_from_image_to_image(env):
    drawn = []

    def watch(model, inputs, targets, *, generator):
        drawn.append((generator.initial_seed(), float(torch.rand(()))))
        return torch.ones_like(inputs)

    for seed in (0, 1):
        al.faithfulness_test(watch, env, n=20, seed=seed, also=None)
    assert len(drawn) == 2 * 20
    assert len({seed for seed, _ in drawn}) == len({value for _, value in drawn}) == 2 * 20


@pytest.mark.usefixtures("without_shape_checks")  # which draw the items that they look at
def test_global_random_states_are_left_alone(env):
    def noisy(model, inputs, targets):
        torch.rand(3), random.random(), np.random.rand()
        return torch.ones_like(inputs)

    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    al.faithfulness_test(noisy, env, n=1)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


@pytest.mark.long
def test_scores_do_not_depend_on_the_scale_of_the_map(env):
    truth = env.truth(*env.batch(1)).signed.double()
    for scale in (1e-200, 1e-40, 1e40, 1e300):
        with pytest.warns(AttributionWarning, match="float64"):
            report = al.faithfulness_test(truth * scale, env, n=1, one_network=True)
        assert report.environments[0].claim_f1 == 1


def modify_inputs(model, inputs, targets):
    inputs.zero_()
    return torch.ones_like(inputs)


def train_mode(model, inputs, targets):
    model.train()
    return torch.ones_like(inputs)


def no_gradients(model, inputs, targets):
    model.requires_grad_(False)
    return torch.ones_like(inputs)


def leave_hook(model, inputs, targets):
    model.register_forward_hook(lambda *_: None)
    return torch.ones_like(inputs)


def new_weights(model, inputs, targets):
    with torch.no_grad():
        next(model.parameters()).mul_(0)
    return torch.ones_like(inputs)


def zeros(model, inputs, targets):
    return torch.zeros_like(inputs)


def doubles(model, inputs, targets):
    return np.ones(inputs.shape)


def integers(model, inputs, targets):
    return torch.ones_like(inputs).int()


@pytest.mark.long
@pytest.mark.parametrize("one_network", [False, True])
@pytest.mark.parametrize(
    ("method", "message"),
    [
        (modify_inputs, "came with modified inputs"),
        (train_mode, "changed training mode of the model, which have been restored"),
        (no_gradients, "changed requires_grad"),
        (leave_hook, "changed hooks"),
        (new_weights, "changed weights"),
        (zeros, "of 13 images are zero everywhere and score 0"),
        (doubles, "were float64, which is accepted; return float32"),
        (integers, "were int32, which is accepted; return float32"),
    ],
)
def test_what_is_unusual_is_scored_with_one_warning(env, method, message, one_network):
    before = {name: value.clone() for name, value in env.softmax_model.state_dict().items()}
    with pytest.warns(AttributionWarning, match=message) as caught:
        report = al.faithfulness_test(method, env, n=13, one_network=one_network)
    assert len(caught) == len(report.warnings) == 1
    assert report.verdict == "fail"
    after = env.softmax_model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not env.softmax_model.training
    assert all(parameter.requires_grad for parameter in env.softmax_model.parameters())
    assert not env.softmax_model._forward_hooks
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = {"n": 13, "one_network": one_network, "also": None}
        assert al.faithfulness_test("oracle", env, **asked).environments[0].claim_f1 == 1


def test_only_controls_see_the_truth(env):
    def cheat(model, inputs, targets, *, truth=None):
        assert truth is None
        return torch.ones_like(inputs)

    al.faithfulness_test(cheat, env, n=1)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n is 0: take an integer from 1 to 1000000"),
        ({"n": 2.5}, "n is 2.5"),
        ({"n": True}, "n is True"),
        ({"claim": "postive"}, "claim is 'postive': did you mean 'positive'"),
        ({"explain": "logits"}, "no output 'logits' to explain: did you mean 'logit'"),
        ({"n": 0, "seed": -1}, "n is 0.*; seed is -1"),
        ({"seed": -1}, "seed is -1: take an integer"),
        ({"device": "gpu"}, "device is 'gpu': take 'cpu', 'cuda'"),
        ({"environments": []}, r"environments is \[\]"),
        ({"environments": ["multicolor"]}, "no environment named 'multicolor': did you mean"),
        ({"environments": 3}, "environments is 3"),
        ({"settings": {"x": 1}}, "ones has no setting 'x'"),
        ({"settings": ["x"]}, r"settings are \['x'\]: pass a dict"),
        ({"seed": None}, "seed is None"),
        ({"jobs": 0}, "jobs is 0: give an integer above 0"),
        ({"n": 10**20}, "n is 1000000"),
        ({"environments": [None]}, "environment is None: give a name or the path"),
        ({"environments": ["multi-color-sum"] * 2}, "name each once"),
    ],
)
def test_bad_input_is_refused_in_one_line(env, arguments, message):
    with pytest.raises(AttributionLabError, match=message) as caught:
        al.faithfulness_test(ones, **({"environments": env, "n": 1} | arguments))
    assert "\n" not in str(caught.value)


def test_cuda_is_refused_where_there_is_none(env):
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(AttributionLabError, match="there is no such CUDA device: use 'cpu'"):
        al.faithfulness_test(ones, env, n=1, device="cuda")


def test_a_wrong_map_is_refused_with_method_and_environment(env):
    def mine(model, inputs, targets):
        return inputs[:, :, :3]

    with pytest.raises(AttributionLabError, match="mine on multi-color-sum returned shape"):
        al.faithfulness_test(mine, env, n=1)


def test_images_without_a_truth_are_left_out_and_refused_if_there_are_no_others():
    bare = al.load("number-checker", image_size=8, patches=1, keep_degenerate=True)
    images, _ = bare.batch(30)
    empty = (bare.counting.counts(images) == 0)[:, 0]
    assert 0 < empty.sum() < 30
    with pytest.warns(
        AttributionWarning, match=f"of {int(empty.sum())} images are zero everywhere"
    ):
        [result] = al.faithfulness_test("oracle", bare, n=30, one_network=True).environments
    assert np.array_equal(np.isnan(result.scores["overall"]["f1"]), empty.numpy())
    assert result.claim_f1 == 1
    assert not empty[result.example.sample]
    seed = next(k for k in range(99) if not bare.counting.counts(bare.batch(1, seed=k)[0]).any())
    with pytest.raises(AttributionLabError, match="no image of number-checker has a truth for"):
        al.faithfulness_test("constant", bare, n=1, seed=seed, one_network=True)


def test_the_table_is_tidy(env, counter):
    frame = al.faithfulness_test("oracle", [env, counter], n=2).to_frame()
    assert list(frame.columns) == [
        "method", "environment", "spec", "output", "part", "sample", "precision", "recall", "f1",
    ]  # fmt: skip
    assert len(frame) == 2 * 2 * 3
    missing = frame[frame.f1.isna()]
    assert set(zip(missing.environment, missing.part, strict=True)) == {(counter.name, "negative")}


def test_the_build_of_torch_is_told(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.11.0+cu130")  # its wheel says 2.11.0
    assert library_versions()["torch"] == "2.11.0+cu130"


def test_the_json_file_says_everything_and_has_null_for_what_does_not_apply(tmp_path, counter):
    path = tmp_path / "report.json"
    report = al.faithfulness_test("oracle", counter, n=13, seed=3, settings={})
    report.to_json(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document == report.to_dict()
    assert document["schema"] == 3
    said = [document[key] for key in ("verdict", "claim")]
    assert said == ["inconclusive", "signed"]  # all networks count the same pixels
    assert document["not_excluded"] == list(HIDDEN)
    assert (document["n"], document["seed"], document["method"]) == (13, 3, "oracle")
    assert (document["one_network"], document["seed_drawn"]) == (False, False)
    assert document["versions"]["torch"] == torch.__version__
    assert document["versions"]["threads"] == str(torch.get_num_threads())
    assert document["versions"]["processor"].endswith(torch.backends.cpu.get_cpu_capability())
    [result] = document["environments"]
    assert (result["verdict"], result["solved"], result["asked"]) == ("pass", 13, 13)
    scores = ("precision", "recall", "f1")
    exact = dict.fromkeys(scores, 1.0) | {f"{score}_ci": [1.0, 1.0] for score in scores}
    assert result["overall"] == exact
    assert result["negative"] is None
    assert result["spec"] == counter.spec.digest
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.long
def test_the_example_is_the_image_with_the_median_score(env):
    [result] = al.faithfulness_test("random", env, n=5).environments
    scores = result.scores[result.claim_part]["f1"]
    [positive] = al.faithfulness_test("random", env, n=5, claim="positive").environments
    example = positive.example
    assert positive.scores["positive"]["f1"][example.sample] == np.median(
        positive.scores["positive"]["f1"]
    )
    image = al.Questions(env)[example.sample].image
    assert np.array_equal(example.image, image.numpy())
    assert scores.shape == (5,)


def test_numpys_numbers_are_numbers_and_settings_without_a_json_form_are_texts(env, tmp_path):
    def mine(model, inputs, targets, *, scale, shape):
        return torch.ones_like(inputs)

    settings = {"scale": float("inf"), "shape": (3, 1)}
    report = al.faithfulness_test(mine, env, np.int64(2), np.int32(0), settings=settings)
    report.to_json(tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert (written["n"], written["seed"]) == (2, 0)
    assert written["settings"] == {"scale": "inf", "shape": "(3, 1)"}


def test_the_report_tells_environments_of_one_name_apart(env):
    other = al.load("multi-color-sum", image_size=24, redundant_channels=0)
    report = al.faithfulness_test("oracle", [env, other], n=1)
    assert report.to_frame().spec.nunique() == 2
    constants = [result["constants"] for result in report.to_dict()["environments"]]
    assert [each["redundant_channels"] for each in constants] == [2, 0]


@pytest.mark.long
def test_the_command_of_a_report_runs_again(env):
    report = al.faithfulness_test("random", env, n=2, seed=3, claim="overall")
    again = eval(report.command, {"attributionlab": al})
    assert again.to_frame().equals(report.to_frame())
    assert again.command == report.command


@pytest.fixture(scope="module")
def environments():
    return [
        al.load("multi-color-sum", image_size=24),
        al.load("single-color-modulo", image_size=24),
    ]


@pytest.fixture(scope="module")
def report(environments):
    return al.faithfulness_test("inverted-oracle", environments, n=13)


def test_it_prints_the_short_table_and_says_all_of_it_without_color(report):
    for text, columns, table in (
        (repr(report), 100, verdict_table),
        (report.text(), 80, report_table),
    ):
        assert max(map(len, text.splitlines())) <= columns
        assert "\x1b" not in text
        console = Console(width=columns, color_system=None, force_terminal=False)
        with console.capture() as captured:
            console.print(table(report.to_dict()))
        assert text.split() == captured.get().split()
    assert "missing F1" not in repr(report)
    for word in ("inverted-oracle: fail", "likely cause", "to confirm", "missing F1", "controls"):
        assert word in text


def test_a_notebook_shows_the_table_in_which_names_are_text(environments):
    def method(model, inputs, targets):
        return inputs

    method.__name__ = "<script>alert(1)</script>"
    shown = al.faithfulness_test(method, environments[1], n=2)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "single-color-modulo" in shown


def test_files_hold_what_the_report_holds(report, tmp_path):
    report.to_csv(tmp_path / "t.csv")
    report.to_parquet(tmp_path / "t.parquet")
    report.to_json(tmp_path / "t.json")
    report.to_html(tmp_path / "t.html")
    frame = report.to_frame()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), frame)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv"), frame)
    document = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert document == report.to_dict()
    assert document["hints"] == [
        {"cause": hint.cause, "says": hint.says, "confirm": hint.confirm} for hint in report.hints
    ]
    assert document["controls"]["oracle"] == [
        {
            "environment": result.name,
            "claim_f1": 1.0,
            "solved": 13,
            "asked": 13,
            "passes": True,
            "must": "pass",
        }
        for result in report.environments
    ]
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    for result in report.environments:
        assert result.name in page
        for example in result.examples:
            assert f"ample {example.sample}" in page


@pytest.mark.long
def test_what_is_missing_is_split_without_a_remainder(environments):
    for claim in ("signed", "overall", "positive", "positive-smoothed"):
        report = al.faithfulness_test("random", environments, n=5, claim=claim)
        for result in report.environments:
            assert result.diagnosis.missing == pytest.approx(1 - result.claim_f1, abs=1e-6)
            total = sum(result.diagnosis.shares.values())
            # Maps in float32, 2^-24 of values in [0, 1], in means of ratios of sums of them.
            assert total == pytest.approx(1 - result.claim_f1, abs=1e-6)


@pytest.mark.long
def test_an_undiagnosed_report_has_verdicts_and_controls_only(environments):
    report = al.faithfulness_test("random", environments, n=3, also=None)
    assert report.hints == []
    for result in report.to_dict()["environments"]:
        assert (result["diagnosis"], result["resolution"], result["runner_up"]) == (
            None,
            None,
            None,
        )
    assert "likely cause" not in report.text()
    assert "controls" in report.text()


def test_the_least_environment_is_that_with_the_fewest_solved_and_then_the_lowest_mean(report):
    assert [result.count for result in report.environments] == [(0, 13)] * 2
    lowest = min(report.environments, key=lambda result: result.claim_f1)
    assert report.least is lowest
    assert report.to_dict()["least"] == {
        "environment": lowest.name,
        "solved": 0,
        "asked": 13,
        "claim_f1": lowest.claim_f1,
    }
    first, second = report.environments
    better = replace(first, count=Tally(1, 13), claim_f1=-1.0)
    assert replace(report, environments=[better, second]).least is second


def test_settings_are_written_as_numbers_up_to_64_bits_and_as_text_beyond():
    assert plain(2**63 - 1) == 2**63 - 1
    assert plain(2**63) == str(2**63)
    assert plain(-(2**63)) == str(-(2**63))
    assert plain(0.5) == 0.5
    assert plain(float("inf")) == "inf"
