"""The page about truths: its table is what the environments say, its snippets run and show it."""

import re
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import get_args

import pytest
import torch

import attributionlab as al
from attributionlab.metrics import cosine
from attributionlab.worlds.truth import DefinitionName
from cases import COUNTING

PAGE = (Path(__file__).parent.parent / "docs" / "which-truth.md").read_text(encoding="utf-8")
SNIPPETS = dict(re.findall(r"^##? ([^\n]*)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.S | re.M))
NAMES = list(get_args(DefinitionName))
PATH = "integrated-gradients"


def rows(first):
    """The cells of the table whose first column has this heading."""
    [table] = re.findall(rf"^\| {first} \|.*?\n\n", PAGE, re.DOTALL | re.MULTILINE)
    return [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]
    ]


AGREEMENTS = rows("environment")


def test_every_definition_has_its_row_in_order():
    assert [name.strip("`") for name, *_ in rows("name")] == NAMES


def test_every_output_of_every_environment_has_one_row():
    listed = [(name.strip("`"), output) for name, output, *_ in AGREEMENTS]
    envs = {name: al.load(name, image_size=16) for name in sorted(COUNTING)}
    assert listed == [(name, output) for name, env in envs.items() for output in env.outputs]


@pytest.mark.parametrize("row", AGREEMENTS, ids=lambda row: f"{row[0]} {row[1]}")
def test_definitions_agree_as_the_table_says(row):
    name, output, said, dissenting = row
    env = al.load(name.strip("`"), image_size=24)
    images, labels = env.batch(2)
    targets = labels * (env.task == "classification")
    truths = env.truths(images, targets, output)
    groups = []
    for definition in truths.values():
        alike = [
            group
            for group in groups
            if (cosine(truths[group[0]].values, definition.values) > 0.999).all()
        ]
        [*alike, groups][0].append(definition.name if alike else [definition.name])
    found = "; ".join(", ".join(group) for group in groups)
    assert ("all" if len(groups) == 1 else found) == said
    alone = [name for name in NAMES if name not in dissenting]
    assert truths.agreement(alone).agreed.all()
    assert bool(truths.agreement().agreed.all()) == (dissenting == "all agree")


@cache
def run(heading):
    """What a snippet leaves behind and what it prints."""
    with redirect_stdout(StringIO()) as printed:
        exec(compile(SNIPPETS[heading], "which-truth.md", "exec"), scope := {})
    return scope, printed.getvalue().splitlines()


def test_every_snippet_is_under_a_heading_of_its_own():
    assert len(SNIPPETS) == PAGE.count("```python")


def test_the_first_snippet_lists_all_definitions_which_agree():
    _, lines = run("Which truth?")
    assert [line.split()[0] for line in lines[:-2]] == NAMES
    assert lines[-2] == "True"


@pytest.mark.filterwarnings("ignore::UserWarning")  # Captum's own and its guards
def test_deep_lift_has_the_sum_that_counts_foretell_and_the_ratios_of_insertion():
    _, (sums, foretold, *held) = run("A method that scores 1.00")
    # float32 maps of some hundred pixels behind a softmax
    assert eval(sums) == pytest.approx(eval(foretold), abs=1e-4)
    cosines = {line.split(" ", 1)[0]: eval(line.split(" ", 1)[1]) for line in held}
    assert cosines["insertion"] == pytest.approx([1, 1], abs=1e-6)
    assert max(cosines["shapley"]) < 0.9999
    assert max(cosines["ablation"]) < min(cosines["shapley"])


def test_the_estimate_reaches_the_precision():
    scope, [*_, line] = run("Another baseline")
    assert line.startswith("True ")
    assert scope["found"].standard_errors.max() <= 0.005
    env, image = scope["env"], scope["image"]
    with pytest.raises(al.AttributionLabError, match="sampled_shapley"):
        env.shapley(image, scope["target"], baseline=torch.zeros(3, 1, 1))


def test_black_is_one_more_baseline_without_channels_for_unseen_colors():
    scope, [total, plain, unseen, _] = run("Another baseline")
    assert plain.split(" ", 2)[2].split() == NAMES
    assert unseen == "estimate ablation insertion shapley integrated-gradients"
    truths = scope["plain"].truths(scope["images"], scope["labels"], baseline=scope["black"])
    assert truths.agreement().agreed.all()
    assert float(total) == pytest.approx(float(truths.changes[0]))


@pytest.mark.long
def test_from_black_definitions_share_signs_as_the_page_says():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(2)
    truths = env.truths(images, labels, baseline=torch.zeros(3, 1, 1), precision=2e-3)
    signs = torch.stack([each.signs for each in truths.values()])
    same, opposite = (signs == signs[0]).all(0), (signs > 0).any(0) & (signs < 0).any(0)
    found = [
        float(which[(signs != 0).any(0)].double().mean())
        for which in (same, opposite, ~same & ~opposite)
    ]
    said = re.search(r"same sign to (\d+) %,\D*(\d+) %, and only\D*(\d+) %", PAGE)
    # Signs of an estimate are as certain as its precision.
    assert [float(each) / 100 for each in said.groups()] == pytest.approx(found, abs=0.015)


def test_a_third_color_is_not_always_worth_something_between_ablation_and_insertion():
    env = al.load("multi-color-sum-in-distribution", image_size=48, temperature=4.0)
    images, labels = env.batch(1)
    truths, classes = env.truths(images, labels), env.counting.classes_of(images)
    third = int(env.counting.counts(images)[0].argsort(descending=True)[2])
    found = [
        float(3 * values[classes == third].mean() / values[classes == labels].mean())
        for values in (truths[name].values for name in ("ablation", "insertion", "shapley"))
    ]
    said = re.search(r"(-[\d.]+) by ablation, (-[\d.]+) by insertion, (-[\d.]+) by Shapley", PAGE)
    assert [float(each) for each in said.groups()] == pytest.approx(found, abs=0.005)


@pytest.mark.long
def test_a_camouflaged_network_answers_alike_and_has_other_weights():
    _, (same, same_truth, plain, camouflaged) = run("Camouflage and implementation invariance")
    assert (same, same_truth) == ("True", "True")
    assert int(camouflaged) > 5 * int(plain)
