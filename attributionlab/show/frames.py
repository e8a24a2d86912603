"""Tables as text: data frames at the terminal, in blocks where they are wider than it, and Markdown."""

import math
import re
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from attributionlab.base import correlation_text, printable

if TYPE_CHECKING:
    import pandas as pd

GAP = 2
"""Blanks between columns."""
IN_LATEX = str.maketrans(
    {each: f"\\{each}" for each in "%&_#${}"}
    | {
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
    }
)
LONGEST_HEAD, LONGEST_NAME = 12, 22
"""Characters of a line of an environment's and of a method's name in a table of LaTeX."""
MISSING = "<NA>"
"""What pandas calls a value that is not there."""
LONGEST_TEXT, IN_BLOCKS = 28, 16
"""Characters of a text that is not folded: in one table, and in blocks, which repeat it."""
MOST_REPEATED = 2 / 3
"""Share of the width that texts may take which every block repeats."""


def data_table(frame: "pd.DataFrame") -> RenderableType:
    """A data frame as it is, numbers to three digits.

    Where its columns do not fit side by side they are shown in blocks. Each block repeats the columns
    that tell the rows apart, and the other texts that rows begin with if these leave enough room.
    """
    return _Frame(frame)


class _Frame:
    def __init__(self, frame: "pd.DataFrame") -> None:
        self.names = [printable(str(name).replace("_", " ")) for name in frame]
        self.numeric = [column.dtype.kind in "iuf" for _, column in frame.items()]
        self.cells = [[cell_text(value) for value in row] for row in frame.itertuples(index=False)]
        self.widths = [self._width(index, LONGEST_TEXT) for index in range(len(self.names))]
        self.in_blocks = [self._width(index, IN_BLOCKS) for index in range(len(self.names))]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width
        if sum(self.widths) + GAP * (len(self.widths) - 1) <= room:
            yield self._table(list(range(len(self.names))), self.widths)
            return
        for number, columns in enumerate(blocks := self._blocks(room)):
            if number:
                yield Text()
            yield self._table(columns, self.in_blocks if len(blocks) > 1 else None)

    def _blocks(self, room: int) -> list[list[int]]:
        """Columns of each block; all in one, which is squeezed, where blocks would not help either."""
        every = list(range(len(self.names)))
        if True not in self.numeric:
            return [every]
        needed = [width + GAP for width in self.in_blocks]
        texts = self.numeric.index(True)
        different = (len({tuple(row[:count]) for row in self.cells}) for count in every[1:])
        keys = next((at for at, rows in enumerate(different, 1) if rows == len(self.cells)), texts)
        if sum(needed[:texts]) <= MOST_REPEATED * room:
            keys = max(keys, texts)
        left = room + GAP - sum(needed[:keys])
        if left < max(needed[keys:]):
            return [every]
        blocks, taken = [every[:keys]], 0
        for column in every[keys:]:
            if taken + needed[column] > left:
                blocks.append(every[:keys])
                taken = 0
            blocks[-1] = [*blocks[-1], column]
            taken += needed[column]
        return blocks

    def _table(self, columns: list[int], widths: list[int] | None) -> Table:
        """Table of these widths, or squeezed."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
        for column in columns:
            # Long names are broken: cut, those that begin alike could not be told apart.
            table.add_column(
                Text(self.names[column]),
                justify="right" if self.numeric[column] else "left",
                overflow="fold",
                width=widths[column] if widths else None,
            )
        for row in self.cells:
            table.add_row(
                *(
                    Text("\n".join(name_lines(row[each], widths[each])) if widths else row[each])
                    for each in columns
                )
            )
        return table

    def _width(self, column: int, text: int) -> int:
        """So that no word of the heading, no number and no text of this length is broken."""
        longest = max((len(row[column]) for row in self.cells), default=0)
        words = max((len(word) for word in self.names[column].split()), default=0)
        return max(words, longest if self.numeric[column] else min(longest, text))


class _Names(textwrap.TextWrapper):
    wordsep_re = re.compile(r"(\s+|[^\s:_-]*[:_-]+)")


def name_lines(name: str, width: int, whole: bool = False) -> list[str]:
    """A name in lines of this width, broken at blanks and after hyphens, colons and underscores rather
    than anywhere; nowhere else if its pieces stay `whole`.

    Examples
    --------
    >>> name_lines("method.py:integrated-gradients", 12)
    ['method.py:', 'integrated-', 'gradients']
    """
    return _Names(max(width, 1), break_long_words=not whole).wrap(name) or [name]


def cell_text(value: Any) -> str:
    """A value in few characters: numbers to three digits, yes or no, missing ones as nothing."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3g}"
    if type(value).__name__.startswith("bool"):  # of Python and NumPy, which is not imported for it
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None or str(value) == MISSING else printable(str(value))


def in_text(frame: "pd.DataFrame", *names: str) -> "pd.DataFrame":
    """A data frame with each of these correlations as text, with its interval (`_low`, `_high`)."""
    ends = [f"{name}{end}" for name in names for end in ("_low", "_high")]
    texts = {
        name: [
            correlation_text(*each)
            for each in frame[[name, f"{name}_low", f"{name}_high"]].itertuples(index=False)
        ]
        for name in names
    }
    return frame.assign(**texts).drop(columns=ends)


def table_text(frame: "pd.DataFrame", kind: str) -> str:
    """A data frame as the text of a file: "markdown", or "latex" (needs the package booktabs).

    A caption in its ``attrs`` stands below a table of Markdown, and makes a table of LaTeX float.
    """
    rows, caption = frame.itertuples(index=False), str(frame.attrs.get("caption", ""))
    if kind == "markdown":
        return markdown(frame, rows) + f"\n\n{caption}" * bool(caption) + "\n"
    names = [str(name).replace("_", " ") for name in frame]
    cells = [[cell_text(value) for value in row] for row in rows]
    table = type(frame)(cells, columns=names)
    if not caption:
        return str(table.to_latex(index=False, escape=True))
    if any(", " in name for name in names):  # a group and its columns
        import pandas as pd

        table.columns = pd.MultiIndex.from_tuples(
            [tuple(name.rsplit(", ", 1)) if ", " in name else ("", name) for name in names]
        )
    text = str(
        table.to_latex(
            index=False,
            escape=True,
            caption=in_latex(caption),
            label="tab:attributionlab",
            position="t",
            multicolumn_format="c",
            column_format=f"@{{}}{'l' * len(names)}@{{}}",
        )
    )
    above, rule, below = text.partition("\\toprule")
    # Nine columns have room in a page: long names are broken at hyphens.
    for name in dict.fromkeys(name.rpartition(", ")[0] for name in names):
        for around in ("{%s}", " %s "):  # over several columns, and over one
            stacked = _stacked(name, LONGEST_HEAD, "c")
            below = below.replace(around % name, around % stacked, 1)
    for name, *_ in cells:
        below = below.replace(f"\n{name} ", f"\n{_stacked(name, LONGEST_NAME, 'l')} ")
    small = "\\centering\\footnotesize\\setlength{\\tabcolsep}{2pt}\n\\begin{tabular}"
    return above.replace("\\begin{tabular}", small) + rule + below


def in_latex(text: str) -> str:
    """Text as LaTeX prints it.

    Examples
    --------
    >>> print(in_latex("my_method: 95 %"), in_latex("~/a^b"))
    my\\_method: 95 \\% \\textasciitilde{}/a\\textasciicircum{}b
    """
    return text.translate(IN_LATEX)


def _stacked(name: str, width: int, side: str) -> str:
    """A name in lines of LaTeX, broken at hyphens."""
    lines = textwrap.wrap(name, width)
    broken = "\\\\".join(lines)
    return f"\\shortstack[{side}]{{{broken}}}" if len(lines) > 1 else name


def markdown(names: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A table of Markdown, without an end of line; a bar in a text does not end its cell."""
    head = [str(name).replace("_", " ") for name in names]
    escaped = [[cell_text(value).replace("|", "\\|") for value in row] for row in (head, *rows)]
    first, *lines = (f"| {' | '.join(row)} |" for row in escaped)
    return "\n".join([first, "|" + "---|" * len(head), *lines])
