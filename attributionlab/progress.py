"""Progress on standard error, for what takes more than two seconds."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["track"]

Item = TypeVar("Item")
PATIENCE = 2.0
"""Seconds before anything is shown."""


def track(items: Iterable[Item], total: int, what: str, show: bool) -> Iterator[Item]:
    """Pass items on and show how many of how many have come, with an estimate of the rest.

    Parameters
    ----------
    items : iterable
        What to pass on.
    total : int
        How many there are.
    what : str
        What is done with them.
    show : bool
        Whether to show anything at all.
    """
    if not show:
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total, visible=False)
        start = time.monotonic()
        for item in items:
            yield item
            late = time.monotonic() - start > PATIENCE
            progress.update(task, advance=1, visible=late)
