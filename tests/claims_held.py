"""What claims say of tables, by the names of their checks."""

from attributionlab.papers.catalog import CLAIMS


def holds(tables, name):
    """Say whether one claim holds: agrees, differs or undecided."""
    [claim] = [each for each in CLAIMS if getattr(each.check, "__name__", "") == name]
    return claim.holds(tables)


def all_hold(tables, item):
    """Say whether each claim about an item holds, by the name of its check."""
    return {each.check.__name__: each.holds(tables) for each in CLAIMS if item in each.items}
