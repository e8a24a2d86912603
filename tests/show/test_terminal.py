"""Tables say in plain text what the report holds."""

import colorsys
import re
from pathlib import Path

import pandas as pd
import pytest
from rich.color import Color

import attributionlab as al
import page_cases as cases
from attributionlab.show import (
    INSIDE,
    certificates_table,
    citation,
    comparison_table,
    data_table,
    names_table,
    print_table,
    report_table,
    solved_table,
    terminal,
    verdict_table,
)
from attributionlab.show import as_text as text
from attributionlab.show.reading import DOUBTED, VERDICTS
from attributionlab.show.style import VERDICT_COLORS, rgb
from attributionlab.show.terminal import STYLES
from attributionlab.verdicts.faithfulness.protocol import DEFAULT_ENVIRONMENTS

PAGE_STYLE = Path(terminal.__file__).with_name("page.css").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def document():
    environments = [
        al.load("multi-color-sum-distractors", image_size=24),
        al.load("nonuniform-accumulator", image_size=24),
    ]
    return al.faithfulness_test("oracle", environments, n=13).to_dict()


def test_a_report_fits_in_80_columns_and_shows_every_score(document):
    shown = text(report_table(document), width=80)
    lines = [line.rstrip() for line in shown.splitlines()]
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    temperature = document["environments"][0]["temperature"]
    explained = f"multi-color-sum-distractors: probability, temperature {temperature:g}"
    assert ["explained", *explained.split()] in rows
    assert ["nonuniform-accumulator:", "logit"] in rows
    assert [row for row in rows if row[1:] == ["1.00"] * 3] == [
        [part, *["1.00"] * 3]
        for part in ("overall", "positive", "negative", "overall", "positive")  # a regression
    ]
    for name in ("multi-color-sum-distractors", "nonuniform-accumulator"):
        assert [name, "13", "of", "13", "0.75", "to", "1.00", "pass"] in rows
    assert lines[0] == "oracle: inconclusive"
    head = " ".join(lines[1:4])
    assert "(claim signed), 13 questions of 24 x 24 pixels each, seed 0" in head
    assert "protocol 1 (" in head
    assert "changed: environments = multi-color-sum-distractors, nonuniform" in head


def test_a_verdict_has_fifteen_lines_a_line_for_each_environment_and_the_next_command():
    found = [cases.environment(name, "fail", 0.4) for name in DEFAULT_ENVIRONMENTS]
    natural = [
        cases.environment(f"{name} (natural)", "fail", 0.4) | {"implementation": "natural"}
        for name in DEFAULT_ENVIRONMENTS
    ]
    hint = {
        "cause": "baseline",
        "says": "on all 10 environments: " + 4 * "these are words of a cause ",
        "confirm": "do this; confirmed if nobody sees it",
    }
    document = cases.whole(
        *found,
        *natural,
        hints=[hint],
        settings={"steps": 8},
        command="attributionlab test mine.py:mine",
    )
    shown = text(verdict_table(document), 100)
    assert len(shown.splitlines()) <= 15
    assert shown.startswith("integrated-gradients (steps=8): fail")
    assert "(a pass needs 30/32 everywhere, intervals at 0.75 or above)" in " ".join(shown.split())
    assert (
        "next          do this; then\n" + 14 * " " + "attributionlab test mine.py:mine\n" in shown
    )
    assert "nobody" not in shown
    hint["confirm"] = "wrap it; confirmed if seen. The code: `a\n    b`"
    assert "next          wrap it\n" in text(verdict_table(document), 100)
    document["command"] = "attributionlab test mine.py:mine --html page.html"
    hint["confirm"] = "look (`--html PATH`) or wrap it (`--html PATH` shows how); confirmed if so"
    assert "look or wrap it (the page shows how); then" in text(verdict_table(document), 100)
    hint["confirm"] = "wrap it; confirmed if seen. The code: `a\n    b`"
    assert re.search(r"to confirm +wrap it; confirmed if seen\n", text(report_table(document), 100))
    narrow = text(verdict_table(document), 80).splitlines()
    for name in DEFAULT_ENVIRONMENTS:
        [row] = [line.split() for line in narrow if line.startswith(f"{name} ")]
        assert row[1:] == 2 * ["3/32", "[.02,", ".25]", "fail"]


@pytest.mark.parametrize("verdict", [each for each in VERDICTS if each != DOUBTED])
@pytest.mark.parametrize("asked", [13, 100])
def test_counts_of_every_verdict_fit_eighty_columns_and_no_name_is_broken_within_a_word(
    verdict, asked
):
    found = [
        cases.environment(f"{name}{' (natural)' * (how == 'natural')}", verdict, 0.4)
        | {"implementation": how, "solved": asked, "asked": asked, "solved_ci": [0.76, 1.0]}
        for name in DEFAULT_ENVIRONMENTS
        for how in ("paper", "natural")
    ]
    shown = text(verdict_table(cases.whole(*found)), 80)
    assert max(map(len, shown.splitlines())) <= 80
    rows = shown[shown.index("solved, 95 %") :].splitlines()
    cell = f"{asked}/{asked} [.76, 1.00] {verdict}"
    counted = [line for line in rows if line.count(cell) == 2]
    assert len(counted) == len(DEFAULT_ENVIRONMENTS)
    width = counted[0].index(cell)
    column = [line[:width].strip() for line in rows[: rows.index("")]]
    assert "".join(column).endswith("".join(DEFAULT_ENVIRONMENTS))
    words = [*DEFAULT_ENVIRONMENTS, "solved, 95 %", "interval", "solved, 95 % interval"]
    ends = [line for line in column if not line.endswith("-")]
    assert all(any(word.endswith(end) for word in words) for end in ends)


@pytest.mark.parametrize(
    ("confirm", "command", "shown"),
    [
        (
            "keep signs",
            "attributionlab test f.py:f",
            ["keep signs; then", "attributionlab test f.py:f"],
        ),
        ("keep signs", "attributionlab test f", ["keep signs"]),  # would say the same again
        (
            "`attributionlab test g --env a`, or no clamp; confirmed if so",
            "attributionlab test f",
            [
                "attributionlab test g --env a",
                "or no clamp",
                "(read its row: one environment rarely hides enough for a pass)",
            ],
        ),
        (
            "take it: `attributionlab test g --env a --one-network`, or `attributionlab test h`",
            "attributionlab test f",
            [
                "take it:",
                "attributionlab test g --env a --one-network",
                "or",
                "attributionlab test h",
            ],
        ),
    ],
)
def test_a_command_to_copy_stands_alone_on_its_line(confirm, command, shown):
    hint = {"cause": "blur", "says": "so it is", "confirm": confirm}
    document = cases.whole(cases.environment("a", "fail", 0.4), hints=[hint], command=command)
    _, _, after = text(verdict_table(document), 100).partition("\nnext ")
    assert [line.strip() for line in after.partition("\nAsked")[0].splitlines()] == shown


@pytest.mark.parametrize(
    ("given", "said"),
    [("", "--html PATH"), (" --html a.html --n 8", "a.html"), (" --html='my page'", "'my page'")],
)
def test_the_line_on_pictures_names_the_page_that_was_asked_for(given, said):
    document = cases.whole(
        cases.environment("a", "pass", 1.0), command=f"attributionlab test f{given}"
    )
    assert text(verdict_table(document), 300).rstrip().endswith(f"pictures: {said}.")


def test_pictures_are_not_advised_to_whoever_has_them():
    hint = {"cause": "none-found", "says": "no", "confirm": "look by eye (`--html PATH`), and on"}
    of = cases.environment("a", "fail", 0.4)
    for given, advised in (("", True), (" --html a.html", False)):
        document = cases.whole(of, hints=[hint], command=f"attributionlab test f{given}")
        assert ("look by eye (--html PATH)" in text(verdict_table(document), 300)) == advised


def test_colors_of_verdicts_mean_the_same_in_terminal_figures_and_page():
    css = PAGE_STYLE.partition("@media")[0]
    for verdict, style in STYLES.items():
        kind = hue(Color.parse(style.split()[-1]).get_truecolor().hex)
        assert hue(VERDICT_COLORS[verdict]) == kind
        if verdict != DOUBTED:
            assert hue(re.search(rf"--{verdict}: (#\w+)", css)[1]) == kind


def hue(color):
    """Gray, or the nearest of red, green and violet."""
    angle, saturation, _ = colorsys.rgb_to_hsv(*(each / 255 for each in rgb(color)))
    angles = {"red": 0.03, "green": 0.4, "violet": 0.77}
    near = min(angles, key=lambda name: abs((angle - angles[name] + 0.5) % 1 - 0.5))
    return near if saturation > 0.25 else "gray"


def test_what_is_said_of_several_environments_is_said_once():
    shown = lines_of(cases.DOCUMENTS["pass"]())
    both = "multi-color-sum and multi-color-sum-distractors"
    assert f"explained {both}: probability, temperature 256 single-color-modulo: logit" in shown
    assert f"hides {both}: roles (1 of 6), target (1 of 4) single-color-modulo: roles" in shown


def test_a_certificate_shows_mismatches_and_their_first_example():
    check = {"name": "sums", "tested": 1234, "mismatches": 2, "passed": False, "detail": "at 3"}
    fine = {"name": "heads", "tested": 5, "mismatches": 0, "passed": True, "detail": ""}
    shown = text(certificates_table([{"environment": "mine", "checks": [check, fine]}]), 80)
    rows = [line.split() for line in shown.splitlines()]
    assert ["mine", "sums", "1,234", "2"] in rows
    assert ["heads", "5", "0"] in rows
    assert "mine, sums: at 3" in shown
    assert "heads:" not in shown


def compared(method, *, output="probability", truth="probability", gap=None):
    parts = {"overall": {"precision": 0.91, "recall": 0.82, "f1": 0.73}}
    return {
        "environment": "place",
        "method": method,
        "n": 8,
        "seed": 3,
        "output": output,
        "truth_output": truth,
        "implementation": "paper",
        "temperature": 32.0,
        "claim": "signed",
        "claim_f1": 0.64,
        "solved": 32,
        "asked": 32,
        "solved_ci": [0.89, 1.0],
        "verdict": "pass",
        "positive": {"f1": 0.64},
        "negative": None,
        "completeness_gap": gap,
        "seconds_per_image": 0.012,
        "warnings": ["something"] if gap else [],
        "spread": [],
        **parts,
    }


def comparison(*results, **changes):
    """A document of a comparison."""
    return {
        "results": results,
        "refused": [],
        "one_network": False,
        "seed_drawn": False,
        "not_excluded": {each["method"]: [] for each in results},
        "protocol": {"name": "protocol 1", "sha256": "3f9a2c" + "0" * 58, "changed": ["n = 8"]},
    } | changes


def test_a_comparison_folds_long_names_and_leaves_numbers_whole_in_a_narrow_terminal():
    results = [
        compared("a-method-with-a-name-of-more-than-forty-letters", gap=359.0),
        compared("b"),
        compared("other", output="logit"),
    ]
    document = comparison(*results)
    for width in (80, 120):
        shown = text(comparison_table(document), width)
        assert max(map(len, shown.splitlines())) <= width
        pieces = results[0]["method"].split("-")  # broken between them
        for whole in ("0.91  0.82  0.73", "pass signed 32 of 32!", *pieces):
            assert whole in shown
        for extra in ("359 x", "0.012"):
            assert (extra in shown) == (width == 120)
        assert "place: probability, temperature 32" in shown
        apart = shown.index("place: logit, temperature 32, truth of the probability")
        assert shown.index("\nb ") < apart < shown.index("\nother ")


def lines_of(document, width=80):
    shown = text(report_table(document), width)
    assert max(map(len, shown.splitlines())) <= width
    return " ".join(shown.split())


def test_a_citation_says_what_was_asked_and_has_an_entry_for_all_that_it_cites(document):
    sentence, entries = citation(document).split("\n\n", 1)
    protocol = document["protocol"]
    for each in (
        f"oracle was tested with AttributionLab {al.__version__}, ",
        f"{protocol['name']} ({protocol['sha256'][:6]}) changed: ",
        f"n = 13, seed 0; claim signed: {document['verdict']}; ",
        "13 of 13 in multi-color-sum-distractors and 13 of 13 in nonuniform-accumulator",
    ):
        assert each in sentence
    [cited] = re.findall(r"\\citep\{(.*)\}", sentence)
    assert cited.split(",") == re.findall(r"^@\w+\{(.*),$", entries, re.M)
    assert f"version = {{{al.__version__}}}" in entries
    set_by_hand = document | {"settings": {"steps": 8}, "preset": "paper"}
    assert citation(set_by_hand).startswith("oracle (steps=8, preset paper) was tested with ")
    many = {f"setting{k}": k for k in range(40)}
    assert "setting39=39, preset paper) was tested" in citation({**set_by_hand, "settings": many})


def test_a_citation_names_the_code_of_a_user_and_where_it_ran(document):
    assert "fingerprint" not in citation(document)
    source = document["source"] | {"built_in": False, "fingerprint": "12ab" * 16}
    assert "; its code has the fingerprint 12ab12ab12ab; claim" in citation(
        document | {"source": source}
    )
    warned = {"source": source, "warnings": [f"mine.py:f: {INSIDE}"]}
    assert "ab12ab and ran in the process that knows the truth; claim" in citation(
        document | warned
    )


def test_a_citation_says_how_large_the_images_were(document):
    for each in (environments := [dict(each) for each in document["environments"]]):
        each["constants"] = {**each["constants"], "image_size": 40}
    changed = document | {"environments": environments}
    assert "; questions of 40 x 40 pixels solved: 13 of 13" in citation(changed)


def test_what_there_is_to_know_stands_below_the_table_each_in_its_words():
    document = cases.whole(
        cases.environment(
            *("alone", "fail", 0.4),
            completeness_gap=146.2,
            seeds=3,
            seed_sd=0.0123,
            bar=["non-background"],
            runner_up={"images": 8, "overall": 0.9, "positive": 0.31, "negative": None},
        ),
        n=5,
    )
    shown = lines_of(document)
    for said in (
        "note with fewer than 13 questions no method passes",
        "they are off by 146 times that change (median image)",
        "resolution alone: maps upsampled from 25 x 25 cells reach an F1 of at most 0.88 (first 8 ",
        "seeds alone: scores are means over 3 seeds, shares are of the first seed's maps; the F1 of "
        "an image has a standard deviation of 0.012 over seeds",
        "F1 overall 0.90, positive 0.31, explaining the runner-up of the first 8 images",
        "controls oracle passes; random, constant and inverted-oracle fail, as they must",
    ):
        assert said in shown
    assert "1.5e+02" not in shown
    calm = lines_of(cases.DOCUMENTS["pass"]())
    assert not any(word in calm for word in ("fewer than", "completeness", "seeds "))


def test_the_count_decides_and_a_mean_shows_its_side_of_the_papers_criterion():
    result = cases.environment(cases.NAMES[1], "inconclusive", 0.49961, spec="1" * 64)
    shown = text(report_table(cases.whole(result)), 80)
    rows = [line.split() for line in shown.splitlines()]
    assert [cases.NAMES[1], "27", "of", "32", "0.67", "to", "0.95", "inconclusive"] in rows
    assert ["positive", "0.54", "0.47", "0.4996"] in rows
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    "name", ["[red]x[/red]", ":smile:", "two\nlines", "\x1b[31mred", "a\u202eb"]
)
def test_names_settings_and_hints_are_plain_text_whatever_they_contain(name):
    seen = name.encode("unicode_escape").decode()
    hint = {"cause": "a", "says": f"says {name}", "confirm": f"set {name}"}
    result = cases.environment(name, "invalid", 0.4, reason=f"since {name}", bar=[name])
    shown = lines_of(cases.whole(result, method=name, settings={}, hints=[hint]))
    assert shown.startswith(f"{seen}: invalid")
    for said in (
        f"verdict {seen} 32 of 32",
        f"says {seen}",
        f"set {seen}",
        f"since {seen}",
        f"also pass here ({seen})",
    ):
        assert said in shown
    refused = {"method": name, "environment": name, "reason": name}
    results = [compared(name) | {"environment": name}]
    document = comparison(*results, refused=[refused])
    for width in (80, 120):
        compared_text = text(comparison_table(document), width)
        assert f"\n{seen}: probability" in compared_text
        assert f"\n{seen} " in compared_text
        assert f"not run: {seen} on {seen}: {seen}" in compared_text
        assert all(line.isprintable() for line in compared_text.replace("\xa0", " ").splitlines())
    check = {"name": name, "tested": 1, "mismatches": 1, "passed": False, "detail": name}
    certificate = text(certificates_table([{"environment": name, "checks": [check]}]), 80)
    assert f"{seen}, {seen}: {seen}" in certificate
    assert f"\n{seen} " in certificate
    frame = pd.DataFrame({name: [name]})
    assert text(data_table(frame), 80).split() == [seen, seen]
    assert seen in text(names_table({"titles": {name: name}}), 80)


def test_a_comparison_says_by_which_rule_and_shows_the_interval_where_there_is_room():
    document = comparison(compared("a"))
    narrow, wide = (" ".join(text(comparison_table(document), w).split()) for w in (80, 120))
    assert "0.89 to 1.00" in wide
    assert "0.89 to 1.00" not in narrow
    assert "share solved (beside it): pass" in wide
    assert "share solved (in terminals of 104 columns or more, and in --json): pass" in narrow
    for shown in (narrow, wide):
        assert (
            "pass, if all of it is at least 0.75, which needs 13 questions; fail, if none of it is; "
            "inconclusive, if 0.75 lies inside, so that more questions are needed; invalid, if a "
            "control did not do what it must"
        ) in shown


def test_every_comparison_from_its_limit_on_fits_with_intervals_and_below_without():
    method = "integrated-gradients (n_steps=50)"
    document = comparison(compared(method) | {"verdict": "inconclusive"})
    for width in range(80, 121):
        shown = text(comparison_table(document), width)
        assert max(map(len, shown.splitlines())) <= width
        assert ("0.89 to 1.00" in shown) == (width >= 104)


@pytest.mark.parametrize(("columns", "widest"), [("90", 90), ("", 100), ("0", 100), ("wide", 100)])
def test_into_a_file_a_table_is_as_wide_as_columns_says_and_has_no_blanks_at_the_end(
    columns, widest, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", columns)
    print_table(names_table({"things": {"one": "word " * 60}}))
    lines = capsys.readouterr().out.splitlines()
    assert widest - 6 < max(map(len, lines)) <= widest
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("terminal", ["1", ""], ids=["terminal", "file"])
def test_a_narrow_terminal_breaks_lines_and_no_name_and_no_number_is_cut(
    terminal, monkeypatch, capsys
):
    for name, value in {"COLUMNS": "40", "FORCE_COLOR": terminal, "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)  # rich takes FORCE_COLOR for a terminal
    print_table(comparison_table(comparison(compared("one"))))
    row = "one 0.91 0.82 0.73 0.64 pass signed 32 of 32"
    assert row in [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_word_without_a_blank_is_folded_and_not_cut():
    word = "attributionlab.base.exact.path_integrated_attributions"
    shown = text(names_table({"methods": {"one": word}}), 40)
    assert "…" not in shown
    assert word in "".join(shown.replace("one", "").split()[1:])


def test_names_that_begin_alike_can_be_told_apart_in_a_narrow_table():
    names = ["integrated-gradients", "integrated-gradients-true-baseline"]
    shown = text(data_table(pd.DataFrame({"method": names, "f1": 0.5})), 24)
    assert "…" not in shown
    assert "baseline" in "".join(line.split()[0] for line in shown.splitlines())


def test_a_comparison_says_how_much_was_asked_and_from_which_seed():
    one, drawn = (
        comparison(compared("one"), **{key: True}) for key in ("one_network", "seed_drawn")
    )
    heads = [text(comparison_table(each), 120).splitlines()[0] for each in (one, drawn)]
    protocol = "protocol 1 (3f9a2c) changed: n = 8"
    assert heads == [
        f"8 images in each environment, seed 3, {protocol}",
        f"8 questions (one network each) in each environment, seed 3 (fresh), {protocol}",
    ]


def test_a_pass_that_excludes_too_little_is_marked_and_explained():
    document = comparison(
        compared("one"), compared("two"), not_excluded={"one": ["sign"], "two": []}
    )
    shown = " ".join(text(comparison_table(document), 120).split())
    assert "pass? signed 32 of 32" in shown
    assert "pass signed 32 of 32" in shown
    assert "pass?: none of these environments hides sign, so a pass of one does not" in shown


def test_a_method_that_is_refused_everywhere_for_one_reason_is_named_once():
    refused = [
        {"method": "rollout", "environment": place, "reason": reason}
        for place, reason in (("a", "no attention"), ("b", "no attention"), ("c", "no gradient"))
    ]
    document = comparison(compared("saliency"), refused=refused)
    lines = text(comparison_table(document), 120).splitlines()
    told = [line for line in lines if line.startswith("not run")]
    assert told == ["not run: rollout on a, b: no attention", "not run: rollout on c: no gradient"]


@pytest.mark.parametrize("width", [80, 100, 128])
def test_names_of_methods_break_at_hyphens_and_before_headings_do(width):
    written = [f"{name}, {each}" for name in DEFAULT_ENVIRONMENTS for each in ("paper", "natural")]
    names = ("saliency", "integrated-gradients-true-baseline")
    table = pd.DataFrame(
        [{"method": each, **dict.fromkeys(written, "32"), "verdict": "fail"} for each in names]
    )
    shown = text(solved_table(table), width)
    assert max(map(len, shown.splitlines())) <= width
    first = [line.split("  ")[0] for line in shown.splitlines() if line[:1].isalpha()]
    assert "".join(first) == "method" + "".join(names)
    assert all(line.endswith("-") for line in first[2:-1])
    assert any(line.endswith("32 / 32  fail") for line in shown.splitlines())
    # One short name needs no narrower headings.
    alone, at_most = (text(solved_table(table[:1]), columns) for columns in (width, 200))
    assert (alone == at_most) == (width >= 100)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_solved_questions_of_two_seeds_are_shown_by_implementation_and_no_name_is_cut(verdict):
    written = [f"{name}, {each}" for name in DEFAULT_ENVIRONMENTS for each in ("paper", "natural")]
    names = (
        "deconvolution",
        "integrated-gradients-true-baseline",
        "twist.py:twist",
        "my_long_method",
    )
    table = pd.DataFrame(
        [{"method": each, **dict.fromkeys(written, "27, 22"), "verdict": verdict} for each in names]
    )
    shown = text(solved_table(table), 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    parts = shown.split("\n\n")
    for implementation, part in zip(("paper", "natural"), parts, strict=True):
        first, *_, last = part[: part.index("deconvolution")].splitlines()
        assert first == f"implementation: {implementation}"
        assert last.split()[1:] == [
            "distractors",
            "quadrants",
            "flips",
            "four",
            "shades",
            "verdict",
        ]
        assert part.count("27, 22") == 5 * len(names)
        assert part.count(f"  {verdict}") == len(names)
        broken = [line.split("  ")[0] for line in part.splitlines() if line[:1].isalpha()][2:]
        assert "".join(broken) == "".join(names)
        ends = tuple(line for line in broken if not line.endswith(("-", ":", "_")))
        assert [name.endswith(end) for name, end in zip(names, ends, strict=True)] == [True] * 4
