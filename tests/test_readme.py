"""What the README says runs."""

import re
from pathlib import Path

import pytest

import attributionlab as al
from attributionlab.cli.app import app
from attributionlab.show.reading import second_verdict
from attributionlab.verdicts.faithfulness import protocol as faithfulness

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")

ON_KINKS = pytest.mark.filterwarnings("ignore:.*rest on a convention")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*do not sum to the change")
def test_the_snippet_runs_and_is_short(capsys):
    [snippet] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 10
    exec(compile(snippet, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    [said] = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert printed.startswith(said.rstrip())
    assert "next  " in said


PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *(REPOSITORY / "docs").glob("*.md"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_named_files_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for target in re.findall(r"`((?:tests|attributionlab|nets|docs)/[a-z_/-]+\.\w+)`", text):
        assert (REPOSITORY / target).exists() or (REPOSITORY / "attributionlab" / target).exists()


@pytest.mark.long
@ON_KINKS
def test_the_environment_of_the_docs_loads_and_is_certified(tmp_path):
    text = (REPOSITORY / "docs" / "bring-your-own.md").read_text(encoding="utf-8")
    design, images = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "my-design.toml").write_text(design)
    (tmp_path / "my-images.toml").write_text(images)
    env = al.load(tmp_path / "my-design.toml", image_size=24)
    assert al.verify(env).passed
    report = al.faithfulness_test("saliency", env, n=13)
    assert report.environments[0].verdict == "pass"
    assert report.not_excluded == ["place", "sign", "context"]


def test_the_folders_of_the_map_exist():
    contributing = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = contributing.split("## Map")[1].split("## Where")[0]
    for target in re.findall(r"`([a-z/_]+(?:/|\.py))`", table):
        package = REPOSITORY / "attributionlab"
        folders = [REPOSITORY, package, *package.iterdir()]  # of a wing by its name alone
        assert any((folder / target).exists() for folder in folders), target


def test_it_is_short_and_methods_and_environments_are_counted():
    assert len(README.splitlines()) <= 80
    [said] = re.findall(r"the (\d+) built-in \[methods\]", README)
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    [again] = re.findall(r"(\d+) built-in attribution methods", changelog)
    by_hand = "by hand: the numbers in README.md and CHANGELOG.md"
    assert int(said) == int(again) == len(al.methods.METHODS), by_hand
    [worlds] = re.findall(r"(\d+)\s+environments and random", changelog)
    assert int(worlds) == len(al.environments()), by_hand
    assert len(changelog.split("\n## 1.0.0")[1].splitlines()) <= 40


def test_commands_name_what_exists():
    commands = set(re.findall(r"(?:^|`)attributionlab ([a-z]+)", README, re.MULTILINE))
    assert {"test", "compare", "metric", "reproduce", "live", "demo"} <= commands
    assert commands <= {each.name or each.callback.__name__ for each in app.registered_commands}
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert "make test" in (REPOSITORY / ".ci" / "run").read_text()


@pytest.mark.long
@ON_KINKS
@pytest.mark.parametrize(("method", "count"), [("saliency", 3), ("input-x-gradient", 1)])
def test_plain_gradients_pass_as_the_limits_say_and_not_before_every_equal_network(method, count):
    """The second differs from the first by a factor that is the image; one environment shows it."""
    names = faithfulness.DEFAULT_ENVIRONMENTS[:count]
    small = [al.load(name, image_size=48) for name in names]
    report = al.faithfulness_test(method, small, n=13, also="equivalent")
    if method == "saliency":  # README says so
        natural = al.faithfulness_test(method, small, n=13, also=None, implementations="natural")
        assert {each.count.solved for each in natural.environments} == {0}
    assert {each.verdict for each in report.environments} == {"pass"}
    last = al.load(faithfulness.FLAT_ENVIRONMENTS[-1], image_size=48)
    alone = al.faithfulness_test(method, last, n=13, also=None)
    page = (REPOSITORY / "docs" / "what-a-pass-proves.md").read_text(encoding="utf-8")
    assert f"`{last.name}` (solved {alone.least.count.solved} of 32)" in page
    second = second_verdict(report.to_dict())
    assert second == "depends on the implementation (plateau: 0.00)"
    assert f"*{second}*" in " ".join(page.split())


def test_the_paper_is_short_cites_what_it_lists_and_says_the_readme_s_numbers():
    paper = (REPOSITORY / "paper" / "paper.md").read_text(encoding="utf-8")
    text = paper.split("---\n", 2)[2]
    entries = re.findall(r"^@\w+\{(\w+),", (REPOSITORY / "paper" / "paper.bib").read_text(), re.M)
    assert 750 < len(text.split()) <= 1000
    assert sorted(set(re.findall(r"@(\w+)", text))) == sorted(entries)
    said = re.findall(r"(0\.\d\d) for (?:original|natural|a ranking score)", " ".join(text.split()))
    assert [f"{number} for" in README for number in said] == [True] * 3, said
    for picture in re.findall(r"\]\((\S+\.png)\)", text):
        assert (REPOSITORY / "paper" / picture).is_file()
