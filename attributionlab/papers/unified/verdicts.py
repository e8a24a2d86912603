"""What intervals of differences say about all of them."""

import pandas as pd

from attributionlab.stats.intervals import FEWEST_FOR_ORDER


def all_above(table: pd.DataFrame, units: str = "units") -> bool | None:
    """Say whether all intervals, `low` to `high`, lie above 0: False where one lies below, else None.

    Intervals over fewer than six `units` (networks or images) cover less than 95 % and decide
    nothing.
    """
    if table.empty:
        return None
    enough = table[units] >= FEWEST_FOR_ORDER
    if (enough & (table.high < 0)).any():
        return False
    return True if (enough & (table.low > 0)).all() else None
