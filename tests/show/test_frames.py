"""Data frames at the terminal."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from attributionlab.show import data_table, markdown


def lines(frame, width):
    buffer = io.StringIO()
    Console(file=buffer, width=width).print(data_table(frame))
    return [line.rstrip() for line in buffer.getvalue().splitlines()]


WIDE = pd.DataFrame(
    {
        "imputation": ["true-baseline", "noisy-linear"],
        "method": ["integrated-gradients", "gradcam"],
        **{f"true_mean_completeness_{index}": [index + 0.25, index + 0.5] for index in range(6)},
    }
)


def test_what_fits_is_one_table_with_whole_words():
    shown = lines(WIDE, 130)
    assert len(shown) == 5  # the headings take three lines
    assert shown[3].split()[:3] == ["true-baseline", "integrated-gradients", "0.25"]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_what_does_not_fit_is_shown_in_blocks_and_nothing_is_broken_or_lost(width):
    shown = lines(WIDE, width)
    assert max(map(len, shown)) <= width
    assert sum(line.startswith("true-baseline  integrated-") for line in shown) > 1
    assert shown.count("") == sum(line.startswith("noisy-linear") for line in shown) - 1
    text = "\n".join(shown)
    assert [float(n) for n in re.findall(r"\b\d\.5\b", text)] == [index + 0.5 for index in range(6)]
    assert len(re.findall("completeness", text)) == 6


def test_blocks_repeat_the_columns_that_tell_rows_apart():
    texts = {f"text_{index}": ["a text of some length", "another"] for index in range(4)}
    doses = pd.DataFrame({"axis": ["strength"] * 2, "dose": [0, 1], **texts, "lowest": [0.25, 0.5]})
    heads = [line.split()[:2] for line in lines(doses, 60) if line.startswith("axis")]
    assert heads == [["axis", "dose"]] * 2
    axes = pd.DataFrame({"axis": ["strength", "distance"], **texts, "lowest": [0.25, 0.5]})
    for rows in (axes, axes[:1]):
        assert sum(line.startswith("axis") for line in lines(rows, 60)) == 2


def test_long_names_are_folded_after_a_hyphen_in_blocks():
    frame = WIDE.assign(method="integrated-gradients-smoothgrad-squared")
    shown = [line.split() for line in lines(frame, 70) if line]
    assert ["smoothgrad-"] in shown


def test_a_terminal_too_narrow_for_one_block_gets_one_squeezed_table():
    shown = lines(WIDE, 30)
    assert max(map(len, shown)) <= 30
    assert len([line for line in shown if line.startswith("tr ")]) == 1  # one block


def test_texts_alone_are_one_table():
    frame = pd.DataFrame({"one": ["a" * 60], "two": ["b" * 60]})
    shown = lines(frame, 50)
    assert "".join(shown).count("a") == 60
    assert "" not in shown


def test_markdown_has_numbers_of_three_digits_and_nothing_for_nan():
    rows = [(0.12345, "|"), (float("nan"), "nan"), (12345, "x")]
    assert markdown(["a_b", "c|"], rows) == (
        "| a b | c\\| |\n|---|---|\n| 0.123 | \\| |\n|  | nan |\n| 12,345 | x |"
    )


def test_what_is_missing_is_nothing_and_truth_is_yes_or_no():
    frame = pd.DataFrame(
        {
            "count": pd.array([2, None], dtype="Int64"),
            "agree": pd.Series([np.True_, np.False_], dtype=object),
            "either": pd.array([None, True], dtype="boolean"),
            "text": [None, "a"],
        }
    )
    assert [line.split() for line in lines(frame, 80)[1:]] == [["2", "yes"], ["no", "yes", "a"]]
