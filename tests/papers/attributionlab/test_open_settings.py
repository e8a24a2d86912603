"""Settings that a text leaves open: how they are drawn, and what is counted of the answers."""

import numpy as np
import pandas as pd
import pytest

import attributionlab as al
from attributionlab.papers import items
from attributionlab.papers.attributionlab import open_settings as module
from attributionlab.papers.catalog import CLAIMS, Run

LEVELS = [(name, level) for name, levels in module.OPEN.items() for level in levels]


def asked(answers, levels, statement=module.ASKED[0]):
    """Answers to one statement by setting; `levels`: those of the settings that are named."""
    drawn = pd.DataFrame([module.drawn_settings(k, 0) for k in range(len(answers))])
    table = pd.DataFrame(
        {"setting": range(len(answers)), "statement": statement, "answer": answers}
    )
    return table.join(drawn.assign(**levels))


def test_each_level_is_drawn_equally_often_and_settings_stay():
    drawn = pd.DataFrame([module.drawn_settings(k, 3) for k in range(900)])
    for name, levels in module.OPEN.items():
        share = drawn[name].value_counts(normalize=True).reindex([*levels])
        # Within five standard deviations of a share of 900.
        assert (share - 1 / len(levels)).abs().max() < 5 * np.sqrt(0.25 / 900), name
    assert module.drawn_settings(7, 3) == module.drawn_settings(7, 3) != module.drawn_settings(8, 3)


@pytest.mark.parametrize(("name", "level"), [each for each in LEVELS if each[0] != "nodes of IG"])
def test_each_level_makes_a_network(name, level):
    changed = module.OPEN[name][level]
    env = al.load(module.COLORS, image_size=module.SIDE, **changed)
    assert all(env.spec.constants[key] is not None for key in changed)
    assert env.batch(1)[0].shape[-1] == module.SIDE


def test_every_statement_is_one_of_the_papers():
    known = {each.check.__name__ for each in CLAIMS}
    assert {*module.ASKED} <= known
    assert len(module._statements()) == len(module.ASKED)


def test_shares_leave_out_what_is_undecided():
    answers = ["agrees"] * 6 + ["differs"] * 2 + ["undecided"] * 5
    row = module.shares_table(asked(answers, {}), seed=0).iloc[0]
    assert [row.agrees, row.differs, row.undecided] == [6, 2, 5]
    assert row.agrees_in == 0.75
    # Clopper and Pearson for 6 of 8.
    assert [row.low, row.high] == pytest.approx([0.349, 0.968], abs=1e-3)


def test_the_setting_that_decides_is_named_and_chance_is_not():
    rng = np.random.default_rng(0)
    levels = rng.choice(["0.25", "1.0", "4.0"], 60)
    decided = ["agrees" if level == "4.0" else "differs" for level in levels]
    row = module.shares_table(asked(decided, {"their strength": levels}), seed=0).iloc[0]
    assert row.decided_by == "their strength"
    assert row.explains == pytest.approx(1)
    by_chance = rng.choice(["agrees", "differs"], 60)
    row = module.shares_table(asked(by_chance, {"their strength": levels}), seed=0).iloc[0]
    assert "decided_by" not in row or pd.isna(row.decided_by)


def test_levels_count_every_answer():
    table = module.levels_table(
        asked(["agrees", "differs", "undecided"] * 4, {"shape": ["circle"] * 12})
    )
    row = table[(table.of == "shape")].iloc[0]
    assert [row.level, row.agrees, row.differs, row.undecided] == ["circle", 4, 4, 4]
    assert set(table.of) == set(module.OPEN)


@pytest.mark.long
def test_an_item_asks_all_statements_and_resumes(tmp_path, monkeypatch):
    def run():
        return module.open_settings(
            Run(module.ITEM, n=2, running={"out": tmp_path, "jobs": 1}), settings=1
        ).tables

    first = run()["answers"]
    assert first.statement.tolist() == [*module.ASKED]
    assert {*first.answer} <= {*module.ANSWERS}
    [black] = first[first.statement == "black_sets_off_redundant_channels"].answer
    assert black == "agrees"
    monkeypatch.setattr(module, "_studied", None)  # would fail if it were called again
    pd.testing.assert_frame_equal(run()["answers"], first)


def test_the_item_is_resumable_and_asks_two_hundred_settings():
    item = items()[module.ITEM]
    assert item.resumable
    assert item.sizes["settings"] == 200
