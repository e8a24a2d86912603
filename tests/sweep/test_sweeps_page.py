"""docs/sweeps.md: the sweep by hand and as a spec have equal results."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import attributionlab as al

PAGE = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text(encoding="utf-8")
ROUNDING = 1e-9
"""The curves of one map and of many are added in float64 in other orders: 1e-16 a point, 577 points."""


def code(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_the_sweep_by_hand_equals_the_spec(tmp_path):
    [text] = code("toml")
    [by_hand] = code("python")
    # Fewer and smaller images, and one seed, in both.
    shrink = {"n = 6": "n = 2", "n, doses = 6,": "n, doses = 2,", "[16, 24]": "[12, 16]",
              "seeds = [0, 1]": "seeds = [1]", "[16, 24], [0, 1], m": "[12, 16], [1], m"}  # fmt: skip
    for old, new in reversed(shrink.items()):
        text, by_hand = text.replace(old, new), by_hand.replace(old, new)
    assert len(tomllib.loads(text)["environments"][0]["image_size"]) == 2
    (tmp_path / "sweep.toml").write_text(text)
    table = al.run_sweep(tmp_path / "sweep.toml", tmp_path / "out").to_frame()
    names: dict[str, object] = {}
    exec(by_hand, names)
    hand = names["table"]
    keys = ["kind", "environment", "method", "seed", "metric", "axis", "dose", "image", "part"]
    assert len(table) == len(hand) == 2 * 3 * 2 * (3 + 2 * 2)
    both = [each.sort_values(keys).reset_index(drop=True) for each in (table, hand)]
    for key in keys:
        assert (
            both[0][key].astype(str).str.lower().tolist()
            == both[1][key].astype(both[0][key].dtype).astype(str).str.lower().tolist()
        ), key
    for score in ("precision", "recall", "f1", "score"):
        one, other = (each[score].to_numpy(float) for each in both)
        assert np.allclose(one, other, rtol=ROUNDING, atol=ROUNDING, equal_nan=True), score


def test_the_spec_is_short_and_the_hand_is_not():
    [text] = code("toml")
    [by_hand] = code("python")
    lines = [
        sum(bool(line.strip()) and not line.startswith("#") for line in each.splitlines())
        for each in (text, by_hand)
    ]
    assert lines[0] <= 15
    assert 45 <= lines[1] <= 65
