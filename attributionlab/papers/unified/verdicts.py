"""What intervals of differences say about all of them."""

import pandas as pd

from attributionlab.stats.intervals import FEWEST_FOR_ORDER


def all_above(table: pd.DataFrame, units: str = "units") -> bool | None:
    """Say whether all intervals lie above 0: False where one lies below, else None.

    Parameters
    ----------
    table : DataFrame
        A row for each difference: `low` and `high`, NaN without an interval, and over how many units
        (networks or images) it is. Fewer than six cover less than 95 % and decide nothing.
    units : str
        Column with their number.

    Examples
    --------
    >>> import pandas as pd
    >>> from attributionlab.papers.unified.verdicts import all_above
    >>> table = pd.DataFrame({"low": [0.1, 0.2], "high": [0.3, 0.4], "units": 6})
    >>> all_above(table), all_above(table.assign(units=5)), all_above(table.assign(low=-0.1))
    (True, None, None)
    """
    if table.empty:
        return None
    enough = table[units] >= FEWEST_FOR_ORDER
    if (enough & (table.high < 0)).any():
        return False
    return True if (enough & (table.low > 0)).all() else None
