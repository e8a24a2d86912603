"""What claims say of tables, by the names of their checks."""

import ast
import re

import pytest

from attributionlab.papers.catalog import CLAIMS


def holds(tables, name):
    """Say whether one claim holds: agrees, differs or undecided."""
    [claim] = [each for each in CLAIMS if getattr(each.check, "__name__", "") == name]
    return claim.holds(tables)


def all_hold(tables, item):
    """Say whether each claim about an item holds, by the name of its check."""
    return {each.check.__name__: each.holds(tables) for each in CLAIMS if item in each.items}


def changed(tables, table, where="", **values):
    """Tables of which one has other values, in the rows of a condition or in all."""
    new = tables[table].copy()
    rows = new.eval(where) if where else slice(None)
    new.loc[rows, list(values)] = list(values.values())
    return {**tables, table: new}


def cases(text, names=None):
    """Lines "claim | table | where | column=value, ... | answer" as parameters for `follows`.

    A claim that is not named is that of the line above. @NAME stands for a constant of the module
    `names`.
    """
    text = re.sub(r"@(\w+)", lambda name: repr(getattr(names, name[1])), text)
    found, name = [], ""
    for line in text.strip().splitlines():
        own, table, where, values, answer = (part.strip() for part in line.split("|"))
        name = own or name
        new = dict(part.split("=") for part in values.split(", "))
        new = {key: float("nan") if v == "nan" else ast.literal_eval(v) for key, v in new.items()}
        words = f"{name}: {table}{f', {where}' * bool(where)}, {values}"
        found.append(pytest.param(name, table, where, new, answer, id=words))
    return pytest.mark.parametrize(("name", "table", "where", "values", "answer"), found)


def follows(tables, name, table, where, values, answer):
    """Hold a claim against tables of which one is changed."""
    assert holds(changed(tables, table, where, **values), name) == answer
