"""Results of the protocol: what is read, counted again, and refused."""

import json
from types import SimpleNamespace

import pytest

import attributionlab as al
from attributionlab.base import AttributionLabError, Stopped, Tally
from attributionlab.cli import main
from attributionlab.show import INSIDE
from attributionlab.verdicts.results import COLUMNS, Result, Results, protocol_results, read_results
from schemas import problems


@pytest.fixture(scope="module")
def documents():
    """A report of one method, and a comparison of two, on one question of each network."""
    env = {"n": 1, "image_size": 48, "jobs": 1}
    return {
        "test": al.faithfulness_test("sobel", seed=3, **env).to_dict(),
        "compare": al.compare(["saliency", "gradcam"], seed=4, **env).to_dict(),
    }


@pytest.fixture
def written(documents, tmp_path):
    def write(kind, change=lambda document: None):
        document = json.loads(json.dumps(documents[kind]))
        change(document)
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps(document))
        return path

    return write


def solve(count, verdict="pass"):
    """Give every network of a report so many solved questions of 32, and a verdict."""

    def change(document):
        document["n"] = 32
        document["protocol"]["changed"] = ["image_size = 48"]
        for each in document["environments"]:
            each.update(solved=count, asked=32, verdict=verdict)

    return change


def test_reports_and_comparisons_become_one_table(written):
    found = read_results([written("test"), written("compare")])
    assert [(each.method, each.seed) for each in found.results] == [
        *(("sobel", 3), ("saliency", 4), ("gradcam", 4))
    ]
    assert all([*each.counts] == [*COLUMNS] for each in found.results)
    saliency = next(each for each in found.results if each.method == "saliency")
    assert saliency.counts["quadrants, paper"] == (1, 1)
    assert saliency.counts["quadrants, natural"] == (0, 1)
    table = found.to_frame()
    assert [*table] == ["method", *COLUMNS, "verdict", "seed"]
    assert table.method[0] == "saliency"  # it alone solves anything
    assert set(table.method) == {"saliency", "sobel", "gradcam (positive)"}
    assert "n = 1" in found.caption
    assert "image_size = 48" in found.caption
    preset = written(
        "test", lambda each: each["protocol"].update(changed=["n = 1", "preset = paper"])
    )
    assert "changed: n = 1, preset = paper)" in read_results([preset]).caption


def test_counts_decide_and_a_network_that_is_refused_keeps_a_pass_away(written):
    [passed] = read_results([written("test", solve(32))]).results
    assert passed.verdict == "pass"
    assert passed.n == 32
    lacking = passed._replace(
        counts={name: each for name, each in passed.counts.items() if name != COLUMNS[1]},
        refused=[COLUMNS[1]],
    )
    assert (lacking.verdict, lacking.share) == ("inconclusive", 0.9)
    assert passed._replace(invalid=[COLUMNS[0]]).verdict == "invalid"
    few = {**passed.counts, COLUMNS[3]: Tally(10, 32)}
    assert passed._replace(counts=few).verdict == "fail"
    # 17 of 32 is a failure of one network, and not of one of ten.
    assert Tally(17, 32).verdict() == "fail"
    [doubted] = read_results([written("test", solve(17, "inconclusive"))]).results
    assert doubted.verdict == "inconclusive"
    doubted = passed._replace(counts={**few, COLUMNS[3]: Tally(17, 32)})
    always = passed._replace(method="always", counts=dict.fromkeys(COLUMNS, Tally(30, 32)))
    once = Results([passed, doubted._replace(seed=4), always, always._replace(seed=4)], "")
    assert once.to_frame().method.tolist() == ["always", "sobel"]  # although sobel solves more


def test_a_network_whose_control_is_wrong_makes_a_result_invalid(written):
    def change(document):
        solve(32)(document)
        document["environments"][2]["verdict"] = "invalid"

    [found] = read_results([written("test", change)]).results
    assert (found.invalid, found.verdict) == ([COLUMNS[2]], "invalid")


def test_the_figure_has_the_share_of_all_seeds_and_names_that_differ():
    counts = {COLUMNS[0]: Tally(32, 32), COLUMNS[1]: Tally(16, 32)}
    first = Result("a.py:f", "positive", 0, 32, [], "a" * 64, counts, COLUMNS[2:])
    second = first._replace(seed=1, counts={**counts, COLUMNS[0]: Tally(8, 32)})
    other = first._replace(source="b" * 64)
    own = first._replace(method="b.py:f", source="c" * 64)
    found = Results([first, second, other, own, own._replace(method="c.py:f")], "")
    [axes, *_] = found.figure().axes
    names = [
        "f (positive), bbbbbb",
        "b.py:f (positive)",
        "c.py:f (positive)",
        "f (positive), aaaaaa",
    ]
    assert [each.get_text() for each in axes.get_yticklabels()] == names
    shown = [each.get_text() for each in axes.texts if each.get_text()[0].isdigit()]
    assert shown == ["1.00", "0.50"] * 3 + ["0.62", "0.50"]


def test_a_method_that_a_comparison_could_not_run_has_a_row(written):
    def refused_in(names):
        def change(document):
            document["results"] = [
                each
                for each in document["results"]
                if each["method"] != "gradcam" or each["name"] not in names
            ]
            document["refused"] = [
                {"method": "gradcam", "environment": name, "reason": "no"} for name in names
            ]

        return change

    some = ["all-four", "quadrants (natural)"]
    frame = read_results([written("compare", refused_in(some))]).to_frame().set_index("method")
    row = frame.loc["gradcam (positive)"]
    assert [column for column in COLUMNS if row[column] == "not run"] == [
        *("quadrants, natural", "all-four, paper")
    ]
    everywhere = [
        name.replace(", natural", " (natural)").replace(", paper", "") for name in COLUMNS
    ]
    frame = (
        read_results([written("compare", refused_in(everywhere))]).to_frame().set_index("method")
    )
    assert (frame.loc["gradcam", [*COLUMNS]] == "not run").all()


def test_settings_files_and_numbers_of_questions_keep_results_apart(written, tmp_path):
    def by(sha, seed, n=32, settings=None):
        def change(document):
            solve(n)(document)
            document.update(seed=seed, n=n, settings=settings or {})
            document["protocol"]["changed"] += [f"n = {n}"] * (n != 32)
            for each in document["environments"]:
                each.update(asked=n)
            document["source"]["fingerprint"] = sha

        return written("test", change).rename(tmp_path / f"{sha}{seed}.json")

    files = [
        by("aaaaaaaa", 1),
        by("bbbbbbbb", 2),
        by("bbbbbbbb", 1),
        by("bbbbbbbb", 3, 13, {"k": 2}),
    ]
    frame = read_results(files).to_frame().set_index("method")
    assert set(frame.index) == {"sobel, aaaaaa", "sobel, bbbbbb", "sobel (k=2)"}
    assert frame.loc["sobel, bbbbbb", "seed"] == "1/2"
    assert frame.loc["sobel (k=2)", COLUMNS[0]] == "13 of 13"


def test_seeds_of_a_method_stand_in_one_row(written, tmp_path):
    first = written("test", solve(32)).rename(tmp_path / "first.json")

    def other(document):
        solve(9, "fail")(document)
        document["seed"] = 8

    [row] = read_results([first, written("test", other)]).to_frame().to_dict("records")
    assert row["quadrants, natural"] == "32/9"
    assert (row["verdict"], row["seed"]) == ("fail", "3/8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (solve(9), "solves 9 of 32.*says pass.*run the test again"),
        (solve(33), "questions solved in .* is 33: take an integer from 0 to 32"),
        (solve(31.5), "questions solved in .* is 31.5"),
        (lambda each: each.update(seed="0"), "seed is '0': take an integer"),
        (lambda each: each.update(n=True), "n is True: take an integer"),
        (lambda each: each.update(n=10**7), "n is 10000000: take an integer from 1 to 1000000"),
        (lambda each: each.update(seed=2**64), "seed is .*: take an integer from 0 to 18446"),
        (lambda each: each.update(claim="all"), "claim is 'all'.*run the test again"),
        (
            lambda each: each["protocol"].update(changed=["distractors = 0"]),
            "'distractors = 0'.*out",
        ),
        (lambda each: each["protocol"].update(changed=[3]), "has 3 in place of a text.*run the"),
        (lambda each: each.update(environments=[]), "holds no results: run the test again"),
        (
            lambda each: each["environments"].append(each["environments"][0]),
            "two entries of one network",
        ),
        (lambda each: each["protocol"].update(sha256="0" * 64), "000000.*run the test again"),
        (lambda each: each.update(schema=2), "schema 2.*schema 3"),
        (lambda each: each.update(schema=1), "is not a report"),
        (lambda each: each.update(one_network=True), "leave --one-network out"),
        (lambda each: each["environments"].pop(), f"lacks {COLUMNS[-1]}.*leave --env"),
        (lambda each: each["environments"][0].update(name="parity"), "has parity, paper"),
        (
            lambda each: each.update(warnings=[f"mine.py:f: {INSIDE}"]),
            "sobel ran in the process that knows the truth: leave --no-isolation out",
        ),
        (lambda each: each.pop("source"), "is not a report.*--json"),
        (lambda each: each.pop("protocol"), "is not a report"),
    ],
)
def test_a_report_that_is_not_the_protocol_s_or_was_edited_is_refused(written, change, said):
    path = written("test", change)
    with pytest.raises(AttributionLabError, match=said) as refused:
        read_results([path])
    assert str(path) in str(refused.value)


def test_a_table_with_counts_that_cannot_be_is_refused(written, tmp_path):
    path = tmp_path / "table.json"
    read_results([written("compare")]).to_json(path)
    document = json.loads(path.read_text())
    document["results"][0]["counts"][COLUMNS[2]]["solved"] = 2
    path.write_text(json.dumps(document))
    with pytest.raises(AttributionLabError, match=f"solved in {COLUMNS[2]} is 2: take an integer"):
        read_results([path])
    document["results"][0]["counts"][COLUMNS[2]]["solved"] = 1
    document["results"][0]["verdict"] = "pass"
    path.write_text(json.dumps(document))
    with pytest.raises(
        AttributionLabError, match=r"saliency is stated as pass.*say (fail|inconclusive)"
    ):
        read_results([path])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"source": ["a"]}, "run the test again"),
        ({"refused": [COLUMNS[0]]}, f"columns name '{COLUMNS[0]}' twice"),
        ({"invalid": ["elsewhere"]}, "has elsewhere"),
        ({"changed": []}, r"n = 1, but states \[\]"),
        ({"changed": ["n = 1; one_network = True"]}, "n = 1, but states .*one_network"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(written, tmp_path, change, said):
    path = tmp_path / "table.json"
    read_results([written("compare")]).to_json(path)
    document = json.loads(path.read_text())
    document["results"][0].update(change)
    path.write_text(json.dumps(document))
    with pytest.raises(AttributionLabError, match=said):
        read_results([path])


def test_names_that_no_terminal_prints_are_read(written, tmp_path):
    path = tmp_path / "table.json"
    read_results([written("compare")]).to_json(path)
    document = json.loads(path.read_text())
    document["results"][0]["method"] = "\ud800\x1b[31m"
    path.write_text("\ufeff" + json.dumps(document), encoding="utf-8")
    assert r"\ud800\x1b[31m" in set(read_results([path]).to_frame().method)


def test_what_is_no_report_and_what_is_there_twice_is_refused(written, tmp_path):
    path = written("test")
    with pytest.raises(AttributionLabError, match="sobel has two results of seed 3"):
        read_results([path, path])
    for content in ("{", "[" * 100_000, "[]", "3", '{"schema": 3}', '{"results": 3, "schema": 3}'):
        other = tmp_path / "other.json"
        other.write_text(content)
        with pytest.raises(AttributionLabError, match=r"other\.json"):
            read_results([other])
    with pytest.raises(AttributionLabError, match="missing"):
        read_results([tmp_path / "missing.json"])


def test_the_command_checks_reports_and_writes_the_table(written, tmp_path, capsys):
    path, made = written("test"), tmp_path / "made"
    made.mkdir()
    kinds = ("json", "csv", "markdown", "latex")
    options = [word for kind in kinds for word in (f"--{kind}", str(made / f"table.{kind}"))]
    for _ in range(2):  # its own files are replaced
        assert main(["results", str(path), *options, "--figure", str(made / "table.png")]) == 0
        assert "sobel" in capsys.readouterr().out
    assert {each.name for each in made.iterdir()} == {f"table.{kind}" for kind in (*kinds, "png")}
    assert read_results([made / "table.json"]).results == read_results([path]).results
    assert problems(json.loads((made / "table.json").read_text()), "results") == []
    assert main(["results", str(written("test", solve(9)))]) == 2
    assert "solves 9 of 32" in capsys.readouterr().err
    for wrong in (
        ["--n", "3"],
        ["--seed", "0"],
        ["--json", str(path)],
        ["--protocol", "2"],
        ["--jobs", "2"],
    ):
        assert main(["results", str(path), *wrong]) == 2
        assert wrong[0] in capsys.readouterr().err


@pytest.fixture
def asked(documents, monkeypatch):
    """What would be compared; one method was, and from the third time on there is Ctrl-C."""
    found = []

    def compare(methods, environments, **options):
        found.append((len(methods), environments, options))
        document = json.loads(json.dumps(documents["compare"]))
        one = [each for each in document["results"] if each["method"] == "saliency"]
        document["results"] = [{**each, "seed": options["seed"]} for each in one]
        done = SimpleNamespace(to_dict=lambda: document)
        if len(found) > 2:
            raise Stopped("1 of 78 runs were done", done)
        return done

    monkeypatch.setattr("attributionlab.verdicts.results.compare", compare)
    return found


def test_a_run_is_a_comparison_of_all_methods_for_each_seed(asked):
    found = protocol_results([3, 4], n=2, preset="paper", jobs=1)
    assert [each.seed for each in found.results] == [3, 4]
    given = {"n": 2, "preset": "paper", "image_size": None, "jobs": 1}
    assert [each[1:] for each in asked] == [(None, {"seed": seed, **given}) for seed in (3, 4)]
    assert asked[0][0] > 60  # methods and controls
    with pytest.raises(Stopped) as stopped:
        protocol_results([5], n=2)
    assert [each.seed for each in stopped.value.result.results] == [5]
    for seeds, said in (([], "seeds are empty"), ([1, 1], "twice|name each once")):
        with pytest.raises(AttributionLabError, match=said):
            protocol_results(seeds)


def test_the_command_of_a_run_names_the_seed_that_was_drawn(asked, tmp_path, capsys):
    file = tmp_path / "run.json"
    assert main(["results", "--seed", "3", "--seed=fresh", "--json", str(file)]) == 0
    document = json.loads(file.read_text())
    seeds = [each["seed"] for each in document["results"]]
    assert seeds[0] == 3
    assert document["command"].endswith(f"--seed 3 --seed {seeds[1]}")
    assert "fresh" not in document["command"]
