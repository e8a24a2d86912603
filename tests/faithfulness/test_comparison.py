"""Methods side by side score what they score alone, and one that fails takes nobody with it."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.text import Text

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.base import paired_difference
from attributionlab.show import as_text, comparison_table, methods_table, table_text
from attributionlab.verdicts.faithfulness.comparison import Refusal
from attributionlab.worlds.environment.hidden import HIDDEN
from text_boxes import faults


def broken(model, inputs, targets):
    if inputs.shape[1] == 3:
        raise RuntimeError("no colors, please")
    return torch.ones_like(inputs)


def truth_of(question):
    """The signed truth of a question's only image, (H, W)."""
    image, target = question.image[None], torch.tensor([question.target])
    return question.env.truth(image, target).signed[0, 0]


@pytest.fixture(scope="module")
def comparison(colors, modulo):
    methods = ["saliency", broken, ("integrated-gradients", {"n_steps": 7}), "oracle"]
    return al.compare(methods, [colors, modulo], n=3, seed=1, preset="paper")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_every_score_is_that_of_the_faithfulness_test(comparison, colors, modulo):
    frame = comparison.to_frame()
    for env in (colors, modulo):
        for method, settings in (("saliency", {}), ("integrated-gradients", {"n_steps": 7})):
            alone = al.faithfulness_test(method, env, 3, 1, settings=settings, preset="paper")
            [result] = alone.environments
            mine = frame[(frame.method == alone.label) & (frame.environment == env.name)]
            assert list(mine.part) == ["overall", "positive", "negative"]
            for part in mine.itertuples():
                for score in ("precision", "recall", "f1"):
                    expected = result.mean(part.part, score)
                    value = getattr(part, score)
                    assert np.isnan(value) if expected is None else value == expected
            assert set(mine.verdict) == {result.verdict}
            assert set(zip(mine.solved, mine.asked, strict=True)) == {result.count}
            assert (mine.seconds_per_image > 0).all()


def test_a_method_that_fails_somewhere_is_listed_with_its_reason_and_runs_elsewhere(comparison):
    [refusal] = comparison.refusals
    assert isinstance(refusal, Refusal)
    assert (refusal.method, refusal.environment) == ("broken", "multi-color-sum")
    assert "no colors, please" in refusal.reason
    ran = {(report.method, result.name) for report, result in comparison.results}
    assert ("broken", "single-color-modulo") in ran


def test_the_papers_criterion_is_met_or_not_part_by_part(comparison):
    frame = comparison.to_frame()
    applicable = frame[frame.f1.notna()]
    assert (applicable.reaches_gamma == (applicable.f1 >= 0.5)).all()
    assert set(applicable.reaches_gamma) == {True, False}
    assert frame[frame.f1.isna()].reaches_gamma.isna().all()
    assert frame.f1.isna().any()


def test_the_summary_has_a_row_for_each_method_and_environment(comparison):
    frame, summary = comparison.to_frame(), comparison.summary()
    assert len(summary) == len(comparison.reports)
    for row in summary.itertuples():
        alike = frame[(frame.method == row.method) & (frame.environment == row.environment)]
        parts = alike.set_index("part")
        assert row.precision == parts.precision["overall"]
        assert row.f1_positive == parts.f1["positive"]
        assert row.verdict == parts.verdict["overall"]


def test_a_table_for_a_paper_has_a_row_for_each_method_and_says_what_was_asked(comparison):
    table = comparison.paper_table().set_index("method")
    assert sorted(table.index) == sorted({report.label for report in comparison.reports})
    for report, result in comparison.results:
        place = f"{result.name}, {result.implementation}"
        assert result.count.asked == report.n
        assert table[place][report.label] == str(result.count.solved)
    assert table["multi-color-sum, paper"]["broken"] == "not run"
    caption = comparison.paper_table().attrs["caption"]
    for part in ("protocol 1 (", "seed ", f"of {comparison.reports[0].n} per column", " pixels."):
        assert part in caption
    text = table_text(comparison.paper_table(), "latex")
    for part in (r"\caption{", r"\label{tab:", r"95 \%", r"\toprule", r"\bottomrule"):
        assert part in text
    assert text.count(r" \\") == 2 + len(table)  # a heading of two rows
    document = comparison.to_dict()
    shown = as_text(methods_table(comparison.paper_table(), document), 100)
    for label, row in table.iterrows():
        [line] = [each for each in shown.splitlines() if each.startswith(f"{label} ")]
        assert line.removeprefix(label).split() == [word for cell in row for word in cell.split()]
    assert shown.count("not run: broken on multi-color-sum: ") == 1
    assert table_text(comparison.paper_table(), "markdown").endswith(f"\n\n{caption}\n")


def test_no_method_passes_where_it_was_not_run(modulo):
    environments = [modulo, al.load("multi-color-sum", image_size=24)]
    found = al.compare(["oracle", "sobel"], environments, n=13, one_network=True)
    assert found.paper_table().set_index("method").verdict["oracle"] == "pass"
    of_oracle = [each for each in found.reports if each.method == "oracle"]
    less = replace(found, reports=[each for each in found.reports if each is not of_oracle[0]])
    assert less.paper_table().set_index("method").verdict["oracle"] == "inconclusive"


def test_a_table_of_all_default_environments_is_as_wide_as_a_page():
    """Compiled by pdflatex it is 395 points wide, and the text of a page 397 (5.5 inches)."""
    names = ("multi-color-sum-distractors", "quadrants-of-shades")
    columns = ["method", *(f"{names[0]}, {each}" for each in ("paper", "natural"))]
    row = ["integrated-gradients-true-baseline", "20", "0", "1", "fail"]
    table = pd.DataFrame([row], columns=[*columns, f"{names[1]}, paper", "verdict"])
    table.attrs["caption"] = f"changed: environments = {names[1]}, n = 20"
    text = table_text(table, "latex")
    heads = (
        r"\multicolumn{2}{c}{\shortstack[c]{multi-color-\\sum-\\distractors}}",
        r"\shortstack[c]{quadrants-\\of-shades} ",
    )
    for part in (
        *heads,
        r"\shortstack[l]{integrated-gradients-\\true-baseline} & 20 & 0",
        f"{names[1]}, n",
    ):
        assert part in text


def test_a_table_for_a_paper_doubts_and_takes_the_gravest_verdict(modulo):
    found = al.compare(["oracle", "sobel"], [modulo], n=13, seed=1).paper_table()
    assert dict(zip(found.method, found.verdict, strict=True)) == {
        "oracle": "pass?",
        "sobel": "fail",
    }
    assert "marked ?" in found.attrs["caption"]
    assert all(thing in found.attrs["caption"] for thing in HIDDEN)


@pytest.fixture(scope="module")
def doubted(modulo):
    """Modulo networks hide nothing: nothing here excludes blind maps."""
    return al.compare(["oracle", "inverted-oracle"], [modulo], n=13, seed=1)


@pytest.mark.long
def test_a_pass_that_blind_maps_might_have_is_marked(doubted):
    things = list(HIDDEN)
    assert doubted.not_excluded == {"oracle": things, "inverted-oracle": things}
    assert dict(zip(doubted.summary().method, doubted.summary().verdict, strict=True)) == {
        "oracle": "pass?",
        "inverted-oracle": "fail",
    }
    frame = doubted.to_frame().set_index("method")
    assert set(frame.verdict["oracle"]) == {"pass"}
    assert set(frame.not_excluded) == {", ".join(things)}
    table = as_text(comparison_table(doubted.to_dict()), 120)
    [row] = [line for line in table.splitlines() if line.startswith("oracle")]
    assert re.search(r"pass\? signed 13 of 13 +0\.75 to 1\.00", row)
    # The other method does not pass: no mark of it asks for a note.
    said = " ".join(table.split())
    assert re.search(r"pass\?: none of these .* so a pass of oracle does not .* inconclusive", said)
    texts = {text.get_text() for text in doubted.figure().findobj(Text)}
    assert {"pass?", "fail"} <= texts
    assert any("pass?" in text.get_text() for text in doubted.maps(1).findobj(Text))


@pytest.mark.long
def test_a_pass_is_not_marked_where_nothing_is_open_or_nothing_was_asked(modulo):
    alone = al.compare(["oracle"], [modulo], n=13, seed=1, one_network=True)
    assert (alone.not_excluded, list(alone.summary().verdict)) == ({"oracle": []}, ["pass"])
    assert "not_excluded" not in alone.to_frame()
    hiding = [modulo, al.load("marker-flips", image_size=40)]
    hiding.append(al.load("multi-color-sum-distractors", image_size=24))
    proven = al.compare(["oracle"], hiding, n=13, seed=1)
    assert list(proven.summary().verdict) == ["pass"] * 3
    assert set(proven.to_frame().not_excluded) == {"nothing"}


@pytest.mark.long
def test_a_verdict_has_its_color_whatever_the_others_are(doubted):
    def colors(figure):
        [legend] = figure.legends
        handles = zip(legend.get_texts(), legend.get_lines(), strict=False)
        return {text.get_text(): line.get_color() for text, line in handles}

    both = colors(doubted.figure())
    failed = replace(doubted, reports=[each for each in doubted.reports if each.method != "oracle"])
    assert colors(failed.figure())["fail"] == both["fail"] != both["pass?"]


def test_settings_are_part_of_the_name(comparison):
    assert "integrated-gradients (n_steps=7)" in set(comparison.to_frame().method)


def test_files_hold_the_table(comparison, tmp_path):
    frame = comparison.to_frame()
    comparison.to_csv(tmp_path / "table.csv")
    comparison.to_parquet(tmp_path / "table.parquet")
    comparison.to_json(tmp_path / "all.json")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "table.parquet"), frame)
    read = pd.read_csv(tmp_path / "table.csv").astype({"reaches_gamma": "boolean"})
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)
    document = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert document["command"] == comparison.command
    assert document["refused"] == [vars(refusal) for refusal in comparison.refusals]
    assert len(document["results"]) == len(comparison.reports)
    first = document["results"][0]
    assert first["method"] == "saliency"
    assert first["preset"] == "paper"
    assert first["overall"]["f1"] == frame.f1[0]


def test_a_file_that_cannot_be_written_leaves_nothing(comparison, tmp_path):
    with pytest.raises(AttributionLabError, match="cannot write"):
        comparison.to_parquet(tmp_path / "missing" / "table.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_the_figures_hold_every_method_environment_and_part(comparison, colors):
    assert not faults(comparison.figure())
    assert [axis.get_title() for axis in comparison.figure().axes] == [*comparison.places.values()]
    every = comparison.figure(all_parts=True)
    assert not faults(every)
    titles = [axis.get_title().replace("\n", " ") for axis in every.axes]
    for part in ("overall", "positive", "negative"):
        assert f"multi-color-sum: {part}, F1" in titles
    assert "single-color-modulo: negative, F1" not in titles  # no such truth
    figure = comparison.maps(images=2)
    assert not faults(figure)
    grid = np.array(figure.axes[:-1]).reshape(-1, 4)  # rows: image, truth, methods
    names = [row[0].get_ylabel().replace("\n", " ") for row in grid]
    assert names[:2] == ["image", "ground truth"]
    truth = truth_of(al.Questions(colors, 1)[0])
    [ideal] = [result for report, result in comparison.results
               if report.method == "oracle" and result.name == colors.name]  # fmt: skip
    assert np.array_equal(grid[1, 0].images[0].get_array(), truth)
    oracle = grid[names.index("Oracle"), 0]
    assert np.array_equal(oracle.images[0].get_array(), truth)
    assert oracle.get_xlabel().replace("\n", " ") == f"F1 1.00, {ideal.verdict}"
    # Image, truth and four methods of four images; one method did not run on two of the images.
    assert sum(len(axis.images) for axis in grid.flat) == 4 * 6 - 2


def never(model, inputs, targets):
    pytest.fail("ran")


@pytest.mark.parametrize(
    ("methods", "arguments", "message"),
    [
        ([never, "salienc"], {}, "did you mean 'saliency'"),
        ([never, ("integrated-gradients", {"n_step": 2})], {}, "no setting 'n_step'"),
        ([broken], {"n": 1}, r"no method could be run: .*no colors"),
        ([], {}, "methods are empty"),
        (["sobel", "sobel"], {}, "name 'sobel' twice"),
        (["saliency", "sobel"], {"n": 0}, r"^n is 0: take"),  # once, though it is about each
        (["saliency"], {"claim": "sign"}, "claim is 'sign'"),
        (["occlusion"], {"preset": "papre"}, "preset is 'papre'"),
        *(
            (["occlusion"], {"preset": odd}, re.escape(f"preset is {odd!r}: "))
            for odd in (["paper"], {}, 3)
        ),
        ("sobel", {"environments": ["uniform-accumulator"] * 2}, "name each once"),
    ],
)
def test_what_no_run_could_have_is_refused(colors, methods, arguments, message):
    with pytest.raises(AttributionLabError, match=message):
        al.compare(methods, **({"environments": colors} | arguments))


@pytest.mark.long
def test_environments_of_one_name_are_told_apart_by_what_differs():
    envs = [al.load("multi-color-sum", image_size=24, temperature=t) for t in (1, 64)]
    result = al.compare(["sobel"], envs, n=1)
    assert list(result.places.values()) == [
        *("multi-color-sum (temperature=1.0)", "multi-color-sum (temperature=64.0)")
    ]
    assert set(result.to_frame().environment) == set(result.places.values())
    columns = "multi-color-sum, paper", "multi-color-sum (temperature=64.0), paper"
    assert tuple(result.paper_table())[1:-1] == columns
    axes = result.figure(all_parts=True).axes
    titles = [axis.get_title().replace("\n", " ") for axis in axes]
    assert "multi-color-sum (temperature=64.0): positive, F1" in titles
    with pytest.raises(AttributionLabError, match="name each once"):
        al.compare(["sobel"], [envs[0], al.load("multi-color-sum", image_size=24, temperature=1)])


def test_one_method_needs_no_list(colors):
    assert al.compare("sobel", colors, n=1).reports[0].method == "sobel"


def test_a_preset_is_of_the_built_in_method_only(colors):
    def occlusion(model, inputs, targets):
        return inputs

    assert (
        al.compare([occlusion], colors, n=1, preset="paper").reports[0].environments[0].settings
        == {}
    )
    [report] = al.compare(["occlusion"], colors, n=1).reports
    assert report.environments[0].settings == {}
    assert report.environments[0].output == "probability"


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_the_maps_show_the_default_truth_and_say_who_was_held_against_another(colors):
    figure = al.compare(["lrp", "sobel"], colors, n=1).maps()
    rows = [axis.get_ylabel().replace("\n", " ") for axis in figure.axes]
    assert rows[:4] == ["image", "ground truth", "LRP", "Sobel"]
    notes = [axis.get_xlabel().replace("\n", " ") for axis in figure.axes[2:4]]
    assert ["truth of the logit" in note for note in notes] == [True, False]
    truth = truth_of(al.Questions(colors, 0)[0])
    assert np.array_equal(figure.axes[1].images[0].get_array(), truth)


@pytest.mark.long
def test_two_methods_are_compared_on_the_same_images(colors, modulo):
    comparison = al.compare(["sobel", "constant", "random"], [colors, modulo], n=6, seed=2)
    frame = comparison.differences("sobel", "constant")
    assert list(frame.columns) == [
        "environment", "part", "mean", "low", "high", "images", "better",
    ]  # fmt: skip
    assert set(zip(frame.environment, frame.part, strict=True)) == {
        *((colors.name, part) for part in ("overall", "positive", "negative")),
        *((modulo.name, part) for part in ("overall", "positive")),
    }
    scores = {(report.label, result.name): result.scores for report, result in comparison.results}
    for row in frame.itertuples():
        first, second = (
            scores[name, row.environment][row.part]["f1"] for name in ("sobel", "constant")
        )
        expected = paired_difference(first, second, 2)
        assert (row.mean, row.low, row.high, row.images) == expected[:4]
        assert row.better == expected.better or (expected.better is None and pd.isna(row.better))
    swapped = comparison.differences("constant", "sobel")
    assert swapped["mean"].tolist() == pytest.approx((-frame["mean"]).tolist())


@pytest.mark.long
def test_a_difference_needs_two_methods_that_were_run_together(colors, modulo):
    comparison = al.compare(["sobel", broken], [colors, modulo], n=2)
    with pytest.raises(AttributionLabError, match="no method 'sobl' was run: did you mean 'sobel'"):
        comparison.differences("sobl", "sobel")
    assert set(comparison.differences("sobel", "broken").environment) == {modulo.name}
    assert set(comparison.differences("broken", "sobel").environment) == {modulo.name}
    single = al.compare(["sobel", "constant"], colors, n=1)
    with pytest.raises(AttributionLabError, match="no two images of an environment in common"):
        single.differences("sobel", "constant")


def test_the_table_has_the_interval_of_each_score(comparison):
    for row in comparison.to_frame().itertuples():
        if not math.isnan(row.f1):
            assert row.f1_low <= row.f1 <= row.f1_high


@pytest.mark.long
def test_an_interrupted_comparison_says_which_runs_were_done(colors):
    def stopped(model, inputs, targets):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="1 of 2 runs were done: sobel fail"):
        al.compare(["sobel", stopped], colors, n=6)


@pytest.mark.parametrize(("share", "gray"), [(0.5, True), (2.0, False)], ids=["less", "more"])
def test_a_map_of_less_than_a_millionth_of_the_outputs_change_is_gray(colors, share, gray):
    def flat(model, inputs, targets):
        outputs = model(inputs) - model(colors.baseline.expand_as(inputs))
        change = outputs.gather(1, targets[:, None]).abs().reshape(-1, 1, 1, 1)
        return torch.ones_like(inputs[:, :1]) * 1e-6 * share * change

    result = al.compare([flat], colors, n=1, one_network=True)
    assert result.reports[0].environments[0].faint.tolist() == [gray]
    texts = [text.get_text() for axis in result.maps(1).axes for text in axis.texts]
    assert texts == ["no attribution"] * gray
