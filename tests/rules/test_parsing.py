"""The grammar of rules: what is read, what is refused, and that texts and trees go both ways."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributionlab.base import AttributionLabError
from attributionlab.worlds import Count
from attributionlab.worlds.rules.expressions import Constant, Operation
from attributionlab.worlds.rules.parsing import DEEPEST, LARGEST, LONGEST, parse
from rules.random_rules import COLORS, EVERYWHERE, random_rule

NAMES = ["red", "blue", "yellow"]
REGIONS = ["left", "top"]
RED, BLUE = Count(("red",)), Count(("blue",))


def read(text):
    return parse(text, NAMES, REGIONS)


def refused(text) -> str:
    with pytest.raises(AttributionLabError) as error:
        read(text)
    message = str(error.value)
    assert len(message) < 700
    assert "\n" not in message
    return message


# Texts and trees


@given(st.randoms(use_true_random=False), st.integers(0, 5))
def test_the_text_of_a_random_tree_reads_as_that_tree(rng, depth):
    rule = random_rule(rng, depth)
    if len(str(rule)) <= LONGEST:
        assert parse(str(rule), COLORS, EVERYWHERE) == rule


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("red", "red"),
        ("  red\n  + blue\t", "red + blue"),
        ("red+blue-yellow", "red + blue - yellow"),
        ("red - (blue - yellow)", "red - (blue - yellow)"),
        ("red * 3", "3 * red"),
        ("-red", "(-1) * red"),
        ("+red", "red"),
        ("--red", "(-1) * ((-1) * red)"),
        ("2 * (red@left)", "2 * (red@left)"),
        ("red @ left", "red@left"),
        ("red@(left)", "red@left"),
        ("red > 2 + 3 * 4", "red > 14"),
        ("red % -(-7)", "red % 7"),
        ("3 < red <= blue", "3 < red and red <= blue"),
        (
            "red > 1 or blue > 1 and not yellow > 1",
            "red > 1 or blue > 1 and not yellow > 1",
        ),
        ("red if blue > 3 else 4", "red if blue > 3 else 4"),
        ("(red > 3) * 5", "5 * (red > 3)"),
        ("xor(red > 1, blue > 1)", "xor(red > 1, blue > 1)"),
        ("stripes(red, blue)@left", "stripes(red, blue)@left"),
        ("corner(red)", "corner(red)"),
        ("min(red, max(blue, 3, yellow),)", "min(red, max(blue, 3, yellow))"),
        ("1_000 + red + 0x10", "1000 + red + 16"),
    ],
)
def test_the_text_of_what_is_read(text, same):
    assert str(read(text)) == same
    assert read(same) == read(text)


def test_brackets_bind_as_in_python():
    assert read("red - blue - 3") == Operation("-", (Operation("-", (RED, BLUE)), Constant(3)))
    assert read("-red % 5") == Operation("%", (Operation("*", (Constant(-1), RED)), Constant(5)))


def test_what_has_no_count_is_computed_at_once():
    assert read("red + (7 % 4 if 3 > 2 else 1)") == Operation("+", (RED, Constant(3)))
    assert read("red + -7 % 4") == Operation("+", (RED, Constant(1)))


# Refusals: the column, the nearest name, the remedy


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("rde + 1", 1, "no color named 'rde': did you mean 'red'?"),
        ("1 + rde", 5, "no color named 'rde': did you mean 'red'?"),
        ("  rde", 3, "no color named 'rde': did you mean 'red'?"),
        ("red\n + rde", 8, "no color named 'rde': did you mean 'red'?"),
        ("zzz", 1, "no color named 'zzz': known are blue, red, yellow"),
        ("left > 3", 1, "'left' is a region: write color@left"),
        ("red@lft", 5, "no region named 'lft': did you mean 'left'?"),
        ("red@blue", 5, "no region named 'blue': known are left, top"),
        ("red@'left'", 5, "\"'left'\" is not a region: write a name, as in red@left"),
        ("2*red@left", 1, "@ follows '2*red': write it after one color, in brackets, as in"),
        ("red@left@top", 1, "@ follows 'red@left'"),
        ("(red + blue)@left", 1, "@ follows 'red + blue'"),
        ("mni(red, 1)", 1, "no function named 'mni': did you mean 'min'?"),
        ("print(red)", 1, "no function named 'print': known are abs, checks"),
        ("red.real()", 1, "no function named 'red.real': write a function's name"),
        ("min(red)", 1, "min has 1 operand: it takes 2 or more"),
        ("abs(red, 1)", 1, "abs has 2 operands: it takes 1"),
        ("min(red, key=blue)", 1, "min has a named operand: it takes 2 or more without"),
        ("min(1, *red)", 8, "'*red' is not part of a rule"),
        ("xor(red, blue > 1)", 5, "'red' is not a condition: compare it, as in red > 0"),
        ("not red", 5, "'red' is not a condition: compare it"),
        ("red > 1 and blue", 13, "'blue' is not a condition: compare it"),
        ("1 if red else 2", 6, "'red' is not a condition: compare it"),
        ("stripes(red)", 1, "stripes takes 2 colors"),
        ("corner(red, blue)", 1, "corner takes 1 color"),
        ("stripes(red, 1)", 1, "stripes takes 2 colors"),
        ("stripes(red, red)", 1, "has one color twice: take two colors"),
        ("stripes(red, bleu)", 14, "no color named 'bleu': did you mean 'blue'?"),
        ("red * blue", 1, "'red * blue' is a product of counts: multiply by an integer"),
        ("red % blue", 7, "% is followed by 'blue': write an integer of at least 1"),
        ("red % 0", 7, "% is followed by '0': write an integer of at least 1"),
        ("red % -3", 7, "% is followed by '-3': write an integer of at least 1"),
        ("red > 1.5", 7, "1.5 is not an integer: take an integer"),
        ("red > True", 7, "True is not an integer: take an integer"),
        ("red in blue", 1, "compare by >, >=, <, <=, ==, !="),
        ("red > 16777217", 7, "16,777,217 is too large: take at most 16,777,216"),
        ("red > 4096 * 4097", 7, "16,781,312 is too large: take at most 16,777,216"),
        ("red +", 6, "this is not an expression (invalid syntax)"),
        ("red > 1 # much", 9, "'#' is not allowed in a rule: leave it out"),
        ("red # 1\n + blue", 5, "'#' is not allowed in a rule: leave it out"),
    ],
)
def test_a_refusal_has_the_column_the_problem_and_the_remedy(text, column, problem):
    message = refused(text)
    assert message.startswith(f"rule {text!r}: column {column}: ")
    assert problem in message


def test_a_column_counts_characters_not_bytes():
    message = refused("gré + rde")
    assert "column 1: no color named 'gré'" in message
    assert "column 7: no color named 'rde'" in message


def test_all_problems_come_at_once():
    message = refused("rde + min(bleu) + red % 0 + yelow@lft")
    for problem in ("'rde'", "min has 1 operand", "% is followed by '0'", "'yelow'", "'lft'"):
        assert problem in message


@pytest.mark.parametrize("text", ["3", "1 + 2 > 2", "min(1, 2) if 1 > 2 else 4"])
def test_a_rule_without_a_count_is_refused(text):
    assert "for every input: let it depend on a color" in refused(text)


@pytest.mark.parametrize("text", ["", "  \n", None, 3, b"red"])
def test_no_text_is_refused(text):
    assert refused(text).endswith("write a text such as 'red > 40'")


@pytest.mark.parametrize(
    "text",
    [
        *("red ** 2", "red // 2", "red / 2", "~red", "red & blue", "red | blue", "red << 1"),
        *(
            "lambda: red",
            "[red]",
            "{red}",
            "(red, blue)",
            "red,",
            "{'a': red}",
            "red.count",
            "red[0]",
        ),
        *(
            "f'{red}'",
            "(red := 1)",
            "[x for x in red]",
            "await red",
            "'red'",
            "b'red'",
            "1.0 * red",
        ),
        *("1j * red", "None", "...", "red is 1", "red not in blue", "__import__('os').system('x')"),
        *("red == (yield)", "max(*[red])", "min(**red)", "red if red else red", "red@left.top"),
        *("red; blue", "red = 1", "import os", "red\\\n+ 1", "1if red > 0else 0", "'\\d'", "red()"),
        *("(x for x in red)", "print", "__builtins__", "red.__class__", "abs", "min", "stripes"),
    ],
)
def test_nothing_else_of_python_is_accepted(text):
    assert refused(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x" * 10**5, "the rule has 100,000 characters: take at most 2,000"),
        ("(" * 900 + "red" + ")" * 900, "too many nested parentheses"),
        ("-" * 1900 + "red", f"more than {DEEPEST} nested operations"),
        ("not " * 400 + "red > 1", f"more than {DEEPEST} nested operations"),
        ("red" + " + 1" * 400, f"more than {DEEPEST} nested operations"),
        ("abs(" * 150 + "red" + ")" * 150, f"more than {DEEPEST} nested operations"),
        ("9" * 1990 + " + red", "is too large: take at most 16,777,216"),
        ("0x" + "f" * 1980 + " + red", "is too large: take at most 16,777,216"),
        ("2 * " * 30 + "red > " + "16777216 * " * 8 + "1", "is too large"),
        ("red\0", "is not allowed in a rule: leave it out"),
        ("\0", "is not allowed in a rule: leave it out"),
        ("red\ud800", "is not allowed in a rule: leave it out"),
        ("\ufeffred", "is not allowed in a rule: leave it out"),
        ("red\N{NO-BREAK SPACE}+ 1", "is not allowed in a rule: leave it out"),
        ("r\N{LATIN SMALL LETTER E WITH ACUTE}d", "did you mean 'red'?"),
        ("\N{FULLWIDTH LATIN SMALL LETTER X}", "no color named 'x'"),
        ("\N{PILE OF POO}", "this is not an expression"),
        ("red \N{MINUS SIGN} blue", "this is not an expression"),
    ],
)
def test_hostile_texts_are_refused_in_one_line(text, problem):
    assert problem in refused(text)


PARTS = [
    *"()@+-*%<>=!,.",
    *["red", "left", "min", "not", "and", "if", "else", "3", "0", "xor"],
    " ",
]


@given(
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=60),
        st.lists(st.sampled_from(PARTS), max_size=14).map("".join),
    )
)
@settings(max_examples=60)
def test_any_text_is_read_or_refused(text):
    try:
        rule = read(text)
    except AttributionLabError:
        return
    assert read(str(rule)) == rule


def test_the_largest_integer_is_accepted():
    assert read(f"red > {LARGEST}") == Operation(">", (RED, Constant(LARGEST)))
