"""The page is whole, harmless, accessible, small and the same each time."""

import base64
import io
import itertools
import re
from html import unescape
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import page_cases as cases
from attributionlab import show
from attributionlab.base import SOLVED_ABOVE, AttributionLabError, Tally
from attributionlab.show import page as page_module
from attributionlab.show.page import BINS
from attributionlab.show.provenance import method_text
from attributionlab.show.reading import sentences
from contact_sheet import contrast
from html_pages import Outline

STYLE = (Path(page_module.__file__).parent / "page.css").read_text(encoding="utf-8")


def rendered(document, shown=None):
    return show.faithfulness_page(document, shown or cases.panels(document))


def words(html):
    """What can be read on a page, tags and spaces collapsed."""
    body = re.sub(r"<(script|style).*?</\1>", " ", html, flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", body).replace("&nbsp;", " ").split())


def odd():
    """What a document may lack: one image, no interval, no diagnosis, no hints, a smoothed claim."""
    return cases.whole(
        cases.environment(
            "alone",
            "fail",
            0.4,
            spread=None,
            classifier=False,
            claim_part="positive-smoothed",
            overall=None,
            positive=None,
            diagnosis=None,
            resolution=None,
            solved=0,
            asked=1,
            ceiling_f1=0.9,
            completeness_gap=0.67,
            stochastic=True,
            seeds=3,
            seed_sd=0.012,
            **{"positive-smoothed": cases.scores(0.4, None)},
        ),
        claim="positive-smoothed",
        n=1,
        hints=[],
        settings={},
    )


EVERY = {**cases.DOCUMENTS, "odd": odd, "nine": cases.nine}


@pytest.fixture(scope="module", params=EVERY)
def case(request):
    document = EVERY[request.param]()
    html = rendered(document)
    return document, html, Outline(html)


# Structure


def test_ids_are_unique_and_whatever_names_one_finds_it(case):
    _, _, outline = case
    ids = [element["id"] for element in outline.elements if "id" in element]
    assert len(ids) == len(set(ids))
    for element in outline.elements:
        for name in element.get("aria-labelledby", "").split():
            assert name in ids
        if "href" in element:
            assert element["href"].removeprefix("#") in ids


def test_the_page_has_a_language_landmarks_and_a_link_past_the_head(case):
    document, _, outline = case
    assert outline.every("html")[0]["lang"] == "en"
    for tag in ("header", "main", "nav", "footer", "title", "h1"):
        assert len(outline.every(tag)) == 1
    first = next(e for e in outline.elements if e["tag"] in ("a", "button", "pre"))
    assert first["href"] == "#" + outline.every("main")[0]["id"]
    assert document["method"] in outline.every("title")[0]["text"]
    assert outline.every("h1")[0]["text"] == method_text(document)


def test_headings_skip_no_level_and_sections_have_names(case):
    _, _, outline = case
    levels = [int(e["tag"][1]) for e in outline.every("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all("aria-labelledby" in section for section in outline.every("section"))


SECTIONS = {
    "environments": "Results in detail",
    "samples": "Samples",
    "each": "Errors and causes in detail",
    "excludes": "What a pass excludes",
    "controls": "Controls",
    "how": "How to read this",
    "again": "Run it again",
}
"""Those that are always there: anchor and title, in the order of their importance."""


def test_the_content_stands_in_the_order_of_its_importance(case):
    document, _, outline = case
    titles = [e["text"] for e in outline.every("h2")]
    assert document["verdict"] in titles[0]
    assert titles[1:] == [*SECTIONS.values()]


def test_each_section_is_linked_and_those_without_content_are_left_out():
    truth = dict.fromkeys(
        ("definition", "meaning", "source", "rank_correlation", "cosine", "sign_agreement"), 0.5
    )
    more = {"truths": [truth | {"sum_gap": None}]}
    for changes in ({}, more):
        html = rendered(cases.whole(cases.environment("alone", "fail", 0.4, **changes)))
        links = {e["href"][1:]: e["text"] for e in Outline(html).every("a") if "nav" in e["in"]}
        ever = {anchor: title for anchor, title in links.items() if anchor != "truths"}
        assert [*ever.items()] == [*SECTIONS.items()]
        assert ("truths" in links) == bool(changes)


def test_what_is_hidden_stands_with_its_alternatives_and_chance():
    document = cases.failing() | {"not_excluded": ["sign"]}
    document["environments"][1]["hidden"]["roles"] = 3
    [table] = [e for e in Outline(rendered(document)).every("table") if "alternatives" in e["text"]]
    said = " ".join(table["text"].replace("\N{NO-BREAK SPACE}", " ").split())
    assert "rolewhich" not in said
    assert "roleswhich color has which role in the network 6 3 6 1/6 p = 2e-09" in said
    assert "targetwhich output is to be explained 4 4 not hidden 1/4 p = 3e-07" in said
    assert said.endswith("minus that rule not hidden not hidden not hidden not excluded")
    assert "place" not in said.split("hidden", 1)[1].split("target")[0]


def test_where_nothing_is_hidden_a_sentence_says_so_and_there_is_no_table():
    document = cases.DOCUMENTS["pass"]() | {"one_network": True, "excludes": {}}
    outline = Outline(rendered(document))
    assert not [e for e in outline.every("table") if "alternatives" in e["text"]]
    assert "so nothing is hidden" in outline.text("main")


@pytest.mark.parametrize("schema", [1, 2, None])
def test_documents_of_other_versions_are_refused(schema):
    document = cases.failing() | {"schema": schema}
    said = f"schema is {schema}: this version reads 3; run the test again"
    for render in (rendered, show.report_fragment, show.report_table):
        with pytest.raises(AttributionLabError, match=re.escape(said)):
            render(document)


def test_pictures_have_texts_that_say_what_is_on_them(case):
    _, _, outline = case
    images = outline.every("img")
    assert images
    assert all(re.search(r"sample \d+", image["alt"]) for image in images)
    assert any(re.fullmatch(r"Map of sample 2, median, F1 0\.\d+\.", i["alt"]) for i in images)
    for drawing in outline.every("svg"):
        assert drawing.get("aria-hidden") == "true" or (
            drawing["role"] == "img" and len(drawing["aria-label"]) > 20
        )


def test_tables_have_captions_and_scopes(case):
    _, _, outline = case
    assert len(outline.every("caption")) == len(outline.every("table")) >= 3
    assert all(cell["scope"] in ("row", "col") for cell in outline.every("th"))
    rows = [row for row in outline.every("tr") if "tbody" in row["in"]]
    assert len([cell for cell in outline.every("th") if cell["scope"] == "row"]) == len(rows)


def test_buttons_say_what_they_do_and_boxes_that_scroll_take_the_keyboard(case):
    _, _, outline = case
    for button in outline.every("button"):
        assert button["type"] == "button"
        assert button["text"].strip()
    for element in outline.elements:
        if element.get("class") == "scrolled" or element["tag"] == "pre":
            assert element["tabindex"] == "0"
            assert element["aria-label"]
    assert next(e for e in outline.elements if e.get("id") == "shown")["role"] == "status"


def test_nothing_is_loaded_from_anywhere(case):
    _, html, outline = case
    for element in outline.elements:
        for name in ("src", "href", "xlink:href", "data", "action", "poster", "srcset"):
            assert element.get(name, "#").startswith(("#", "data:image/png;base64,"))
    assert not outline.every("link", "iframe", "object", "embed", "base", "form")
    assert not re.search(r"https?://|@import|url\((?!#)", html)
    [policy] = [e["content"] for e in outline.every("meta") if "http-equiv" in e]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy


def test_the_same_input_gives_the_same_bytes(case):
    document, html, _ = case
    assert rendered(document) == html


# What is said


@pytest.mark.parametrize("verdict", cases.DOCUMENTS)
def test_the_verdict_comes_first_in_a_word_and_a_shape(verdict):
    outline = Outline(rendered(cases.DOCUMENTS[verdict]()))
    assert outline.text("verdict") == f"Verdict: {verdict}"
    shapes = {"pass": "circle", "fail": "rect", "inconclusive": "path", "invalid": "path"}
    place = next(i for i, e in enumerate(outline.elements) if e.get("id") == "verdict")
    drawn = [e["tag"] for e in outline.elements[place:] if "svg" in e["in"]]
    assert drawn[0] == shapes[verdict]


def test_the_reading_of_a_failure_names_where_by_how_much_and_the_likely_cause():
    said = words(rendered(cases.failing())).replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "The method passes in multi-color-sum, fails in multi-color-sum-distractors and is "
        "inconclusive in single-color-modulo. It solves the fewest in multi-color-sum-distractors: 3 "
        "of 32 questions; the 95 % interval of the share solved, 0.02 to 0.25, lies below 0.75."
        in said
    )
    needed = Tally(27, 32).questions_to_decide()
    assert (
        f"About {needed} questions (--n {needed}) would decide single-color-modulo if the share"
        in said
    )
    assert f"Most likely cause {cases.FLIPS['says']}" in said.replace("&#39;", "'")
    assert f"Next: {cases.FLIPS['confirm']}" in said


def test_the_count_that_decides_stands_with_its_interval_and_is_drawn_against_three_quarters():
    outline = Outline(rendered(cases.whole(cases.environment("alone", "fail", 0.4))))
    [row] = [e for e in outline.every("tr") if "softmax of temperature 256" in e["text"]]
    said = " ".join(row["text"].split())
    assert "fail 3 of 320.02 to 0.25 0.510.46 to 0.56 0.400.35 to 0.45 0.60" in said
    drawn = [e for e in outline.every("line", "circle") if "td" in e["in"]]
    whisker, mark, dot = drawn
    low, high = Tally(3, 32).interval
    ends = [float(whisker[end]) for end in ("x1", "x2")]
    assert ends == pytest.approx([100 * low, 100 * high], abs=0.05)  # rounded to 0.1
    assert float(mark["x1"]) == 75
    assert float(dot["cx"]) == pytest.approx(100 * 3 / 32, abs=0.05)


def in_two(**changes):
    """Two environments in two implementations, the first of which fails in one of them."""
    verdicts = {"paper": ("fail", "pass"), "natural": ("inconclusive", "pass")}
    results = [
        cases.environment(f"{name}{' (natural)' * (written == 'natural')}", verdict, 0.5)
        | {"implementation": written}
        for place, name in enumerate(("first", "second"))
        for written, verdict in ((each, verdicts[each][place]) for each in verdicts)
    ]
    return cases.whole(*results, **changes)


def test_beside_the_verdict_stand_environments_by_implementation_and_what_a_pass_needs():
    html = rendered(in_two())
    outline = Outline(html)
    table = outline.every("table")[0]
    assert table["class"] == "counts"
    said = " ".join(table["text"].replace("\N{NO-BREAK SPACE}", " ").split())
    assert "A pass needs 30 of 32 everywhere. environment paper natural first 3 of 32 fail" in said
    assert "first 3 of 32 fail 0.02 to 0.25 27 of 32 inconclusive 0.67 to 0.95 second 32" in said
    text = words(html)
    assert "asked in 2 environments x 2 implementations" in text
    assert "Of 4 tests" not in text  # of so few each is named
    assert "Paper: the networks of the AttributionLab paper. Natural: other networks with" in text
    assert "Paper:" not in words(rendered(cases.nine())).partition("Natural:")[1]
    for unequal in (in_two(), cases.whole(cases.environment("a", "fail", 0.1, asked=5, solved=0))):
        unequal["environments"][0] |= cases.counted(0, 5)
        assert "A pass needs" not in words(rendered(unequal)).partition("Results in detail")[0]


def test_an_environment_is_described_once_and_only_the_parts_that_are_asked_have_a_column():
    document = in_two()
    text = words(rendered(document))
    table = text[text.index("The questions solved, with") : text.index("The line in the dr")]
    assert table.count("Which of four colors has the most pixels.") == 2
    assert [f"mean F1 {part}" in table for part in ("overall", "positive", "negative")] == [
        True
    ] * 3
    assert "in one question the lowest of them decides" in table
    assert "also passed by" not in table
    assert "No control that sees the image alone passes." in text
    document["environments"][1]["bar"] = ["non-background"]
    text = words(rendered(document | {"claim": "positive"}))
    assert "mean F1 positive also passed by" in text
    assert "mean F1 overall" not in text
    assert "F1: of the part that the claim asks for, which decides" in text


def test_a_sample_says_what_its_colors_do_and_how_much_of_the_map_lies_on_what_counts():
    document = cases.failing()
    html = rendered(document)
    [sample] = [e for e in Outline(html).every("article") if "sample 9," in e["text"]]
    said = " ".join(sample["text"].replace("\N{NO-BREAK SPACE}", " ").split())
    assert "Median of multi-color-sum-distractors" in said
    assert re.search(r"raises the output: \w+", said)
    assert re.search(r"missed \d+ %, wrong sign \d+ %, precision \d+ %$", said)
    eye = html[html.index('class="eye"') :]
    shown = re.search(r"(\d+).% of the map lies on what counts \(its precision\)", eye)[1]
    assert f"precision {shown} %" in said
    assert "a typical sample (median F1)" in eye
    assert "the probability of a class that is drawn for each question" in words(eye)
    panels = cases.panels(document)
    median = next(each for each in panels[1].examples if each.rank == "median")
    median.attribution[:] = 0  # nothing can be seen of it
    assert "the sample with the lowest F1" in words(rendered(document, panels))
    alike = "Each question has its own network, so a color may have a different role"
    assert alike in words(html)
    assert alike not in words(rendered(document | {"one_network": True}))


def test_size_and_number_of_the_protocol_stand_at_the_top_and_further_causes_near_the_verdict():
    hints = [
        {"cause": name, "says": f"{name} is seen", "confirm": f"try {name}; confirmed if so"}
        for name in "abcdef"
    ]
    document = cases.failing() | {"hints": hints, "n": 13}
    text = words(rendered(document))
    assert "questions each 13 (the protocol: 32) images 224 x 224 pixels" in text
    assert "Also found B is seen. Next: Try b. C is seen. Next: Try c. D is seen." in text
    assert "E is seen" not in text
    assert "(the protocol" not in words(rendered(cases.failing()))


def test_hints_are_sentences():
    hint = {"cause": "a", "says": "values grow", "confirm": "look closer"}
    document = cases.whole(cases.environment("alone", "fail", 0.4), hints=[hint])
    assert "Most likely cause Values grow. Next: Look closer." in words(rendered(document))


def test_an_invalid_test_says_why():
    said = words(rendered(cases.DOCUMENTS["invalid"]()))
    assert (
        "multi-color-sum-distractors is invalid: the control random solves 31 of 32 questions."
        in said
    )


def test_a_single_image_and_seeds_are_told():
    said = words(rendered(odd())).replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "It solves 0 of 1 question; the 95 % interval of the share solved, 0.00 to 0.97, contains"
        in said
    )
    assert "Random: 3 seeds." in said
    assert "Scores are means over seeds; the pictures are of the first seed's maps." in said
    assert "With fewer than 13 questions no method passes." in said


@pytest.mark.long
def test_environments_of_one_name_are_told_apart_by_their_specification():
    outline = Outline(rendered(cases.nine()))
    buttons = [b["text"] for b in outline.every("button") if b.get("data-filter") == "environment"]
    assert buttons[0] == "all"
    assert len(set(buttons)) == 10


def test_shares_are_drawn_behind_what_was_reached_and_end_at_one():
    outline = Outline(rendered(cases.DOCUMENTS["inconclusive"]()))
    bars = [e for e in outline.every("rect") if e.get("class") in ("reached", "share")]
    bars = [(float(e["x"][:-1]), float(e["width"][:-1])) for e in bars if e["x"].endswith("%")]
    assert bars[0] == (0.0, 49.0)
    for (start, width), (following, _) in itertools.pairwise(bars):
        assert following == pytest.approx(start + width, abs=0.02)  # rounded to 0.01 each
    assert sum(bars[-1]) == pytest.approx(100, abs=0.02)


def test_the_first_sentence_holds_for_trained_networks_too():
    for implementation, said in (("paper", "set by hand"), ("trained", "were trained on rules")):
        result = cases.environment("alone", "fail", 0.4, implementation=implementation)
        [header] = Outline(rendered(cases.whole(result))).every("header")
        assert said in header["text"]


@pytest.mark.long
def test_only_controls_that_do_not_do_what_they_must_are_marked():
    document = cases.failing()
    document["controls"]["random"][1] |= {"claim_f1": 0.77, "solved": 31, "passes": True}
    document["controls"]["non-background"][0] |= {"solved": 32, "passes": True}
    text = words(rendered(document))
    assert "random fail 1 of 32 F1 0.12 31 of 32 F1 0.77 passes (!) 1 of 32 F1 0.12" in text
    assert "oracle pass 32 of 32 F1 1.00 32 of 32 F1 1.00 32 of 32 F1 1.00" in text
    assert "inverted-oracle fail 0 of 32 F1 0.00" in text
    assert "non-background pass or fail 32 of 32 F1 0.52, passes 5 of 32 F1 0.52" in text
    document["controls"]["oracle"][0] |= {"solved": 31, "passes": False}  # it must solve all
    assert "oracle pass 31 of 32 F1 1.00 not all (!) 32 of 32" in words(rendered(document))
    assert "The inverted oracle is among them" not in text
    target = document["controls"]["random"][0] | {"solved": 32, "passes": True, "must": None}
    document["controls"]["wrong-target"] = [document["controls"]["random"][0], target, target]
    free = "32 of 32 F1 0.12, passes sees all here"
    assert f"wrong-target fail 1 of 32 F1 0.12 {free} {free}" in words(rendered(document))
    document = cases.failing() | {"claim": "overall"}
    for row in document["controls"]["inverted-oracle"]:
        row |= {"must": None, "solved": 32, "passes": True, "claim_f1": 1.0}
    text = words(rendered(document))
    assert "inverted-oracle pass or fail 32 of 32 F1 1.00, passes 32 of 32" in text
    assert text.count("(!)") == 1  # in the note
    assert "The inverted oracle is among them" in text


@pytest.mark.parametrize("size", [5, 400])
def test_the_bars_right_of_two_thirds_are_the_questions_that_are_solved(size):
    document = cases.whole(cases.environment("alone", "fail", 0.4))
    [panel] = cases.panels(document)
    f1 = np.random.default_rng(size).random(size)
    f1 = np.append(f1, [0, 1, 2 / 3, SOLVED_ABOVE, 2 / 3 + 2e-9, 1 / 3, np.nan])
    outline = Outline(show.faithfulness_page(document, [panel._replace(image_f1=f1)]))
    [label] = [e["aria-label"] for e in outline.every("svg") if "bins" in e.get("aria-label", "")]
    counts = list(map(int, re.search(r"from 0 to 1: ([\d, ]+)", label)[1].split(", ")))
    solved = int((f1 > SOLVED_ABOVE).sum())
    assert (len(counts), sum(counts), sum(counts[2 * BINS // 3 :])) == (BINS, size + 6, solved)
    bars = [e for e in outline.every("rect") if e.get("class", "").startswith("count")]
    assert len(bars) == sum(count > 0 for count in counts)
    heights = [float(e["height"]) for e in bars]
    tallest = max(counts)
    for height, count in zip(heights, filter(None, counts), strict=True):
        assert height == pytest.approx(90 * count / tallest, abs=0.05)  # rounded to 0.1
    [mark] = {float(e["x1"]) for e in outline.every("line") if e.get("class") == "mark"} & {198.0}
    for bar in bars:
        assert (float(bar["x"]) > mark) == (bar["class"] == "count solved")


def test_what_the_method_was_told_and_the_protocol_are_said():
    protocol = {"name": "protocol 1", "sha256": "3f9a2c" + "0" * 58, "changed": ["n = 16"]}
    changes = {"given": ["baseline"], "protocol": protocol, "seed_drawn": True}
    source = {"built_in": False, "file": "mine.py", "sha256": "ab" * 32, "fingerprint": "x"}
    document = cases.failing() | changes | {"source": source}
    text = words(rendered(document))
    assert "The method receives baseline (the value of an absent pixel), which images" in text
    assert "seed 0 (fresh) protocol protocol 1 (3f9a2c) changed: n = 16" in text
    assert f"mine.py: SHA-256 {'ab' * 32}" in text
    assert "SHA-256" not in words(rendered(cases.failing()))


def test_what_would_decide_is_the_same_sentence_everywhere():
    document = cases.whole(cases.environment("alone", "inconclusive", 0.49))
    assert words(rendered(document)).count(sentences(document)[-1]) == 2


def test_without_examples_there_are_no_pictures():
    document = cases.whole(cases.environment("alone", "pass", 0.9))
    html = show.faithfulness_page(document, [show.Panel([], np.full(32, np.nan))])
    assert "samples" not in [e.get("id") for e in Outline(html).elements]
    assert "#samples" not in [e["href"] for e in Outline(html).every("a")]


# Harmless


@pytest.mark.long
def test_names_settings_and_warnings_are_text_whatever_they_contain():
    evil = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"&{{ 7 * 7 }}"
    document = cases.failing() | {
        "method": evil,
        "settings": {evil: evil},
        "warnings": [evil],
        "command": evil,
        "versions": {evil: evil},
    }
    document["environments"][0] |= {"name": evil, "settings": {evil: evil}, "reason": evil}
    document["environments"][0]["diagnosis"]["hints"] = [
        dict.fromkeys(("cause", "says", "confirm"), evil)
    ]
    html = rendered(document)
    outline = Outline(html)
    assert len(outline.every("script")) == 1
    assert all("onerror" not in element for element in outline.elements)
    assert outline.every("h1")[0]["text"].startswith(f"{evil} ({evil}={evil[:20]}")
    assert outline.text("command") == " ".join(evil.split())
    plain = Outline(rendered(cases.failing()))
    assert len(outline.every("img")) == len(plain.every("img"))


def test_names_between_backticks_are_code_and_stay_text():
    says = "In <i>maps</i> of `<b>x</b>`: set `n` higher"
    document = cases.failing() | {"warnings": [f"a ` alone, and {says}"]}
    document["hints"] = [dict.fromkeys(("cause", "says", "confirm"), says)]
    shown = (
        "In &lt;i&gt;maps&lt;/i&gt; of <code>&lt;b&gt;x&lt;/b&gt;</code>: set <code>n</code> higher"
    )
    assert rendered(document).count(shown) == 2  # the hint and what confirms it
    warned = rendered(document | {"warnings": [says]})
    assert warned.count(shown) == 3
    assert "a <code> alone, and In &lt;i&gt;maps&lt;/i&gt; of </code>" in rendered(document)


def test_code_with_lines_is_a_block_that_nothing_follows():
    code = "from captum.attr import DeepLift\n\ndef my_method(model):\n    return model"
    hint = {
        "cause": "baseline",
        "says": "the method starts from black",
        "confirm": f"wrap it (`--html PATH` shows the code); confirmed if so. The code: `{code}`",
    }
    document = cases.whole(
        cases.environment("quadrants", "fail", 0.4),
        hints=[hint],
        command="attributionlab test captum.attr:DeepLift",
    )
    page = rendered(document)
    assert f'</b> Wrap it; confirmed if so. The code: <code class="lines">{code}</code></p>' in page
    assert "Then run" not in page


def test_a_flag_is_not_broken_at_its_hyphens():
    says = "run `a --image-size 7 <b-c>`"
    hint = dict.fromkeys(("cause", "says", "confirm"), says)
    html = rendered(cases.failing() | {"hints": [hint], "command": "a --no-x"})
    assert '<code>a <span class="whole">--image-size</span> 7 <span class="whole">&lt;b-c' in html
    assert Outline(html).text("command") == "a --no-x"
    assert re.search(r"\.whole \{ display: inline-block", STYLE)


@pytest.mark.long
def test_text_that_is_too_long_is_cut_and_says_so():
    document = cases.failing() | {
        "method": "m" * 300_000,
        "settings": {f"s{i}": "&" * 100_000 for i in range(100)},
        "warnings": ["w" * 100_000] * 100,
        "command": "\ud800" + "c" * 1_000_000,
    }
    html = rendered(document)
    assert len(html.encode()) < 1_000_000
    assert re.search(r"[^m]m{200}\.\.\. \([\d,]+ characters more\)", html)
    assert "<li>50 more</li>" in html
    assert "<code>50 more</code>" in html


# Small


def noise(size, number):
    rng = np.random.default_rng(number)
    image = rng.integers(0, 256, (3, size, size)).astype(np.float32)
    truth = rng.integers(-1, 2, (size, size)).astype(np.int8)
    return image, truth, rng.uniform(-1, 1, (size, size)).astype(np.float32)


@pytest.mark.long
@pytest.mark.parametrize(("size", "environments"), [(224, 9), (1024, 1)])
def test_pages_of_noise_stay_under_five_megabytes_and_say_what_is_left_out(size, environments):
    document = cases.whole(
        *(cases.environment(f"place-{i}", "pass", 0.9) for i in range(environments))
    )
    image, truth, attribution = noise(size, 0)
    examples = [
        cases.Sample(i, rank, 0.5, image, 255, truth, attribution, {})
        for i, rank in enumerate(cases.RANKS)
    ]
    html = show.faithfulness_page(document, [show.Panel(examples, np.full(32, 0.5))] * environments)
    assert len(html.encode()) < 5_000_000
    assert f"Images of {size:,} x {size:,} pixels are averaged over blocks" in html
    left_out = (
        "Omitted to keep this page under 5 MB: the samples of lower quartile and upper" in html
    )
    assert left_out == (html.count("<article") < 5 * environments)
    assert html.count("<article") in (5 * environments, 3 * environments)


def test_pictures_that_fit_are_whole_and_nothing_is_said_about_it():
    html = rendered(cases.failing())
    assert "averaged over blocks" not in html
    assert "Omitted" not in html
    source = [e["src"] for e in Outline(html).every("img")][4]  # behind those beside the verdict
    picture = matplotlib.image.imread(io.BytesIO(base64.b64decode(source.partition(",")[2])))
    expected = cases.panels(cases.failing())[0].examples[0].image
    assert np.array_equal(np.rint(255 * picture), np.moveaxis(expected, 0, -1))


def test_as_many_panels_as_environments_are_asked_for():
    document = cases.failing()
    with pytest.raises(AttributionLabError, match="2 panels for 3 environments: give one for each"):
        show.faithfulness_page(document, cases.panels(document)[:2])


# Colors


def palettes():
    """The colors by name, of the light and of the dark page."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, flags=re.S)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    return {"light": light, "dark": dark}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(scheme):
    colors = palettes()[scheme]
    assert set(colors) == set(palettes()["light"])
    verdicts = ("pass", "fail", "inconclusive", "invalid")
    behind = {
        "ink": ("paper", "tint", *(f"{verdict}-tint" for verdict in verdicts)),
        "muted": ("paper", "tint"),
        "link": ("paper", "tint"),
        "mark": ("paper",),
        "dot": ("paper",),
        **{verdict: ("paper", "tint", f"{verdict}-tint") for verdict in verdicts},
    }
    for text, backgrounds in behind.items():
        for background in backgrounds:
            assert contrast(colors[text], colors[background]) >= 4.5, (text, background)


def test_no_rule_of_the_style_names_a_color_outside_the_palettes():
    rules = re.sub(r":root \{.*?\}", "", STYLE, flags=re.S)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{}]*\{)", rules)


def test_nothing_moves():
    for moving in ("animation", "transition", "scroll-behavior"):
        assert moving not in STYLE


# A table for notebooks


def test_a_notebook_has_what_a_terminal_has_with_the_colors_of_verdicts():
    document = cases.failing()
    shown = show.report_fragment(document)
    said = unescape(re.sub(r"<[^>]+>", "", shown)).strip("\n")
    assert [line.rstrip() for line in said.splitlines()] == show.as_text(
        show.verdict_table(document), 100
    ).splitlines()
    assert re.search(r'<span style="color: #[0-9a-f]{6}[^>]*>fail</span>', shown)


def test_names_in_a_notebook_are_text_whatever_they_contain():
    evil = "<script>alert(1)</script>"
    document = cases.whole(cases.environment(evil, "fail", 0.4), method=evil)
    assert "<script" not in show.report_fragment(document)
    assert "&lt;script&gt;" in show.report_fragment(document)
