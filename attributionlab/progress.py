"""Progress on standard error, gone when the work is done."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["track"]

Item = TypeVar("Item")


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
        Whether to show anything at all; nothing is shown where standard error is no terminal.
    """
    if not show:
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        for item in items:
            yield item
            progress.advance(task)
