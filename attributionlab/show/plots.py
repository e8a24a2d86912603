"""Four ways to draw a tidy table: curves, dots with intervals, scatter, heat map.

A table has one row for each point. All take

- `table`: with the columns that are named; `x`, `y` and the like are columns, too.
- `color` and `panel`: columns whose values get a color and marker, and a coordinate system of their
  own; a value looks alike in all panels.
- `title`, `xlabel`, `ylabel`: above all, and at the axes, whose labels say what is measured, in which
  unit, and which direction is better; the column's name by default.
- `columns`: panels beside each other. `reference`: where a line is drawn across. `log`: which axes are
  logarithmic, "x", "y" or "xy". `limits`: what the axes of values show at least.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter
from numpy.typing import NDArray

from attributionlab.show import style

if TYPE_CHECKING:
    import pandas as pd

MARKERS = "osD^vPX*"
STYLES = ("-", "--", "-.", ":")
DARK, LIGHT = "#777777", "#dddddd"
WIDEST, THINNEST = 2.6, 1.2
LETTERS, SMALL_LETTERS = 12, 14
"""Characters of a title to the inch, and of names at a heat map."""
DIGIT = 0.065
"""Width of a digit in a cell of a heat map, in inches."""
MOST_BELOW = 30
"""Rows of a heat map up to which its columns are named on one side only."""
FEWEST_SPREAD = 8
"""Values from which on their spread is drawn: of fewer a violin shows more than is known."""
MARGIN, PANEL = 0.9, 3.9
"""Width of what stands beside all coordinate systems, and of one of them, in inches."""
LONGEST_LINE = 52
"""Characters of a line's name before it is folded, where a figure has room."""
LONGEST_NAME = 30
"""The same of a name at a heat map or a point."""
LEVEL = 8
"""Width of a heat map, in inches, up to which its names above are not turned."""
LINE = 0.16
"""Height of a line of text, in inches."""


@style.in_defaults
def curves(
    table: "pd.DataFrame",
    x: str,
    y: str,
    color: str,
    *,
    panel: str | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    columns: int = 3,
    dashed: Sequence[str] = (),
    reference: float | None = None,
    log: str = "",
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draw lines, one a value of `color`, in panels, one a value of `panel`; those in `dashed`, such as
    controls, are dashed. `low` and `high` of the table are drawn as a band, and a `y` that is NaN
    leaves a gap. Without `limits` each panel shows what its lines need.
    """
    figure, axes, wide = _panels(table, panel, title, columns, height=3.1, xlabel=xlabel)
    looks = _looks(table, color)
    for axis, (_, part) in zip(axes, _parts(table, panel), strict=True):
        for name, line in part.groupby(color, sort=False):
            look = looks[name] | ({"linestyle": "--"} if name in dashed else {})
            line = line.sort_values(x)
            axis.plot(line[x], line[y], markersize=4, **look)
            if {"low", "high"} <= {*line}:
                axis.fill_between(
                    line[x], line.low, line.high, color=look["color"], alpha=0.15, lw=0
                )
        if reference is not None:
            axis.axhline(reference, color=DARK, linewidth=0.9)
        if limits is not None:
            axis.update_datalim([(line[x].iloc[0], each) for each in limits])
            axis.autoscale_view(scalex=False)
        _dress(axis, xlabel or x, ylabel or y, log, wide, tall=3.1)
    _legend(figure, looks, dashed)
    return figure


@style.in_defaults
def dots(
    table: "pd.DataFrame",
    x: str,
    y: str,
    *,
    color: str | None = None,
    panel: str | None = None,
    title: str = "",
    xlabel: str = "",
    columns: int = 3,
    reference: float | None = None,
    log: bool = False,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draw values as dots with intervals: a line for each value of `y`, from top to bottom. `low` and
    `high` of the table are an interval's ends; `values`, arrays of what a dot is the mean of, are drawn
    as a violin where they are `FEWEST_SPREAD` or more. `log`: whether the axis is logarithmic.
    """
    lines = list(dict.fromkeys(table[y]))
    looks = _looks(table, color)
    # Values of several colors in one line stand below each other.
    crowded = table.duplicated([y] if panel is None else [panel, y]).any()
    longest = int(min(LONGEST_LINE, LETTERS * style.room() / 2))
    names = [textwrap.fill(str(each), longest) for each in lines]
    line = max(LINE + 0.1 * (len(looks) if crowded else 1), LINE * (text_lines(names) + 0.5))
    figure, axes, wide = _panels(
        *(table, panel, title, columns, 1.0 + len(lines) * line),
        margin=max(MARGIN, widest(names) / LETTERS),
        sharey=True,
        xlabel=xlabel,
    )
    for axis, (_, part) in zip(axes, _parts(table, panel), strict=True):
        for index, (name, look) in enumerate(looks.items()):
            own = part if color is None else part[part[color] == name]
            offset = 0.6 * ((index + 0.5) / len(looks) - 0.5) if crowded else 0.0
            places = [lines.index(each) + offset for each in own[y]]
            for place, values in zip(places, own.get("values", ()), strict=False):
                _spread(
                    axis,
                    place,
                    np.asarray(values, float),
                    look["color"],
                    0.6 / (len(looks) if crowded else 1),
                )
            if {"low", "high"} <= {*own}:
                axis.hlines(places, own.low, own.high, color=look["color"], linewidth=1.6)
            axis.scatter(own[x], places, s=24, color=look["color"], marker=look["marker"])
        if reference is not None:
            axis.axvline(reference, color=DARK, linewidth=0.9, zorder=0)
        if limits is not None:
            axis.update_datalim([(each, 0) for each in limits])
            axis.autoscale_view(scaley=False)
        _dress(axis, xlabel or x, "", "x" if log else "", wide)
        axis.set_yticks(range(len(lines)), names)
        axis.set_ylim(len(lines) - 0.4, -0.6)
    if color is not None:
        _legend(figure, looks)
    return figure


def _spread(axis: Any, place: float, values: NDArray[Any], color: str, width: float) -> None:
    """Draw a violin of many values."""
    known = values[np.isfinite(values)]
    if len(known) < FEWEST_SPREAD or known.min() == known.max():
        return
    drawn = axis.violinplot(
        known, [place], orientation="horizontal", widths=width, showextrema=False
    )
    for body in drawn["bodies"]:
        body.set(facecolor=color, edgecolor="none", alpha=0.3, zorder=0.5)


@style.in_defaults
def scatter(
    table: "pd.DataFrame",
    x: str,
    y: str,
    *,
    color: str | None = None,
    panel: str | None = None,
    label: str | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    columns: int = 3,
    diagonal: str = "",
    log: str = "",
) -> Figure:
    """Draw points, with crosses of intervals where the table has `x_low` to `y_high`. What is in the
    column `label` is written beside a point; `diagonal` says what the line x = y means, which is drawn
    with it alone. A panel says how many of its points are not finite.
    """
    figure, axes, wide = _panels(table, panel, title, columns, height=3.3, xlabel=xlabel)
    looks = _looks(table, color)
    for axis, (_, part) in zip(axes, _parts(table, panel), strict=True):
        known = part[np.isfinite(part[[x, y]].to_numpy(float)).all(1)]
        for name, look in looks.items():
            own = known if color is None else known[known[color] == name]
            if {"x_low", "x_high", "y_low", "y_high"} <= {*own}:
                axis.hlines(own[y], own.x_low, own.x_high, color=look["color"], linewidth=1)
                axis.vlines(own[x], own.y_low, own.y_high, color=look["color"], linewidth=1)
            axis.scatter(own[x], own[y], s=20, color=look["color"], marker=look["marker"])
        if diagonal and len(known):
            ends = [float(known[[x, y]].min().min()), float(known[[x, y]].max().max())]
            axis.plot(ends, ends, color=DARK, linewidth=1, linestyle="--")
        if len(known) < len(part):
            axis.text(
                *(0.02, 0.98, f"{len(part) - len(known)} of {len(part)} have no value"),
                transform=axis.transAxes,
                fontsize=7,
                va="top",
            )
        _dress(axis, xlabel or x, ylabel or y, log, wide, tall=3.3)
    if label:
        for axis, (_, part) in zip(axes, _parts(table, panel), strict=True):
            _name_points(axis, part[[x, y]].to_numpy(float), [str(each) for each in part[label]])
    handles = [Line2D([], [], color=DARK, linestyle="--", label=diagonal)] if diagonal else []
    _legend(figure, looks if color else {}, more=handles)
    return figure


def _name_points(axis: Any, points: NDArray[Any], names: Sequence[str]) -> None:
    """Write names beside points where nothing else is written, the nearest free place first."""
    axis.figure.draw_without_rendering()
    whole = axis.get_window_extent()
    taken = [text.get_window_extent() for text in axis.texts]
    for point, name in zip(points, names, strict=True):
        if not np.isfinite(point).all():
            continue
        name = textwrap.fill(name, LONGEST_NAME)
        named = axis.annotate(name, point, (0, 0), textcoords="offset points", fontsize=7)
        named.set_in_layout(False)  # the places below hold for the layout that was just made
        for place in range(40):  # eight directions, then farther away
            away, turn = 5 + 7 * (place // 8), math.pi * (place % 8 + 0.5) / 4
            across, up = away * math.cos(turn), away * math.sin(turn)
            named.set(position=(across, up), ha="left" if across > 0 else "right", va="center")
            box = named.get_window_extent()
            inside = whole.x0 <= box.x0 and box.x1 <= whole.x1
            inside &= whole.y0 <= box.y0 and box.y1 <= whole.y1
            if inside and not any(box.overlaps(each) for each in taken):
                break
        taken.append(box)


@style.in_defaults
def heat_map(
    table: "pd.DataFrame",
    x: str,
    y: str,
    value: str,
    *,
    panel: str | None = None,
    title: str = "",
    label: str = "",
    limits: tuple[float, float] | None = None,
    columns: int = 2,
) -> Figure:
    """Draw a value for each pair of `x` and `y` as a color, with the number in the cell; a pair without
    a row, or with NaN, is empty; integers have no decimals. `label` stands at the color bar. `limits`
    are the values at the ends of the colors, from least to largest by default; on both sides of 0 they
    have colors that meet there.
    """
    across, down = (list(dict.fromkeys(table[each])) for each in (x, y))
    digits = 0 if table[value].dtype.kind in "iu" else 2
    cell = DIGIT * max((len(f"{each:.{digits}f}") for each in table[value].dropna()), default=1)
    low, high = limits or (float(table[value].min()), float(table[value].max()))
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    parts = [(str(name), part) for name, part in _parts(table, panel)]
    plan = _heat_plan(across, down, style.room(), LEVEL / len(parts), cell)
    if 1.1 + plan.height * len(plan.firsts) * len(parts) > style.tallest():  # then in small print
        plan = _heat_plan(across, down, math.inf, 0, cell)
    each = [(name, part, first) for name, part in parts for first in plan.firsts]
    beside_each_other = columns if len(plan.firsts) == 1 else 1
    figure, axes = _in_rows(
        [name if first == 0 else f"{name} (continued)" * bool(name) for name, _, first in each],
        int(max(1, min(beside_each_other, len(each), style.room() // plan.width))),
        title,
        plan.height,
        plan.width,
        plan.margin,
    )
    drawn: Any = None
    for axis, (_, part, first) in zip(axes, each, strict=True):
        some = slice(first, first + plan.at_once)
        cells = part.pivot(index=y, columns=x, values=value).reindex(
            index=down, columns=across[some]
        )
        drawn = _cells(axis, cells.to_numpy(float), low, high, digits)
        axis.set_xticks(range(len(across[some])), plan.over[some], rotation=plan.turned)
        axis.set_yticks(range(len(down)), plan.beside)
        axis.set_title(axis.get_title(), loc="right", fontsize=9)  # over the names of the rows, too
        axis.set_title("")
        axis.tick_params(labelsize=8)
        if len(down) > MOST_BELOW:  # names of columns on both sides
            axis.tick_params(top=True, labeltop=True)
    high_up = figure.get_figheight()
    bar = figure.colorbar(
        drawn,
        ax=list(axes),
        location="bottom",
        shrink=0.6,
        aspect=40,
        fraction=min(0.05, 0.3 / high_up),
        pad=min(0.05, 0.1 / high_up),
    )
    bar.set_label(wrapped(label or value, figure.get_figwidth() - 1), fontsize=8)
    bar.ax.tick_params(labelsize=8)
    bar.ax.locator_params(nbins=3 if figure.get_figwidth() < 2 * PANEL else 8)
    return figure


class _HeatPlan(NamedTuple):
    """How a heat map is laid out: names above and beside, how many columns at once and with which each
    part begins; width and height of a part, and the width of what stands beside all, in inches; by how
    many degrees the names above are turned.
    """

    over: list[str]
    beside: list[str]
    at_once: int
    firsts: range
    width: float
    height: float
    margin: float
    turned: int


def _heat_plan(
    across: Sequence[Any], down: Sequence[Any], wide: float, level: float, cell: float
) -> _HeatPlan:
    """A heat map for a width: parts of the columns below each other where all have no room. Names above
    are not turned if it then has at most the width `level`. A number has room in the width `cell`.
    """
    narrow = math.isfinite(wide)
    over = [textwrap.fill(str(each), LONGEST_LINE if narrow else LONGEST_NAME) for each in across]
    most = min(LONGEST_LINE, SMALL_LETTERS * wide / 3.6)
    beside = [textwrap.fill(str(each), int(most)) for each in down]
    cell = max(cell if narrow else 0.55, LINE * text_lines(over))
    rest = 0.25 + widest(beside) / SMALL_LETTERS
    longest = widest(over) / SMALL_LETTERS
    fits = rest + (longest + 0.1) * len(across) <= min(wide, level)
    cell = max(cell, longest + 0.1) if fits else cell
    at_once = int(max(1, min(len(across), (wide - rest) // cell)))
    at_once = -(-len(across) // -(-len(across) // at_once))  # in parts that are equally wide
    above = LINE * text_lines(over) if fits else longest
    above *= 1 + (len(down) > MOST_BELOW)
    line, gap = (0.14, 0.03) if narrow else (LINE, 0.1)  # small print needs more
    height = 0.6 + above + max(0.22, line * text_lines(beside) + gap) * len(down)
    width = max(min(2.6, wide), rest + cell * at_once)
    firsts = range(0, len(across), at_once)
    margin, turned = 0.0 if narrow else MARGIN, 0 if fits else 90
    return _HeatPlan(over, beside, at_once, firsts, width, height, margin, turned)


def _cells(axis: Any, numbers: NDArray[np.float64], low: float, high: float, digits: int) -> Any:
    """Numbers (rows, columns) as colors from `low` to `high`, each written into its cell."""
    colors = style.SIGNED if low < 0 < high else style.SEQUENTIAL
    drawn = axis.imshow(numbers, cmap=colors, vmin=low, vmax=high, aspect="auto")
    for (row, column), number in np.ndenumerate(numbers):
        if math.isfinite(number):
            red, green, blue, _ = drawn.cmap(drawn.norm(number))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            axis.text(
                *(column, row, f"{number:.{digits}f}"),
                color="white" if dark else "black",
                fontsize=7,
                ha="center",
                va="center",
            )
    return drawn


def _parts(table: "pd.DataFrame", panel: str | None) -> list[tuple[Any, "pd.DataFrame"]]:
    return [("", table)] if panel is None else list(table.groupby(panel, sort=False))


def _panels(
    table: "pd.DataFrame",
    panel: str | None,
    title: str,
    columns: int,
    height: float,
    margin: float = MARGIN,
    sharey: bool = False,
    xlabel: str = "",
) -> tuple[Figure, list[Any], float]:
    """A figure, one coordinate system for each value of `panel`, under its name, and their width.

    `height` is that of one with a title and an axis label of one line each.
    """
    names = [str(name) for name, _ in _parts(table, panel)]
    across, width = style.panels_beside(len(names), columns, PANEL, margin)
    height += LINE * (text_lines([wrapped(xlabel, width)]) - 1)
    figure, axes = _in_rows(names, across, title, height, width, margin, sharey)
    return figure, axes, width


def _in_rows(
    names: Sequence[str],
    across: int,
    title: str,
    height: float,
    width: float,
    margin: float,
    sharey: bool = False,
) -> tuple[Figure, list[Any]]:
    """A figure with a coordinate system under each name, so many beside each other."""
    names = [textwrap.fill(name, int(LETTERS * width)) for name in names]
    down = -(-len(names) // across)
    whole = margin + width * across
    height += LINE * (text_lines(names) - 1)
    above = wrapped(title, whole)
    size = (whole, 1.1 + LINE * (text_lines([above]) - 1) + height * down)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(above, fontsize=10)
    axes = list(figure.subplots(down, across, squeeze=False, sharey=sharey).flat)
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    for axis, name in zip(axes, names, strict=False):
        axis.set_title(name, fontsize=9)
    return figure, axes[: len(names)]


def _looks(table: "pd.DataFrame", color: str | None) -> dict[Any, dict[str, Any]]:
    """Color, marker and width by value: later lines are thinner, so that equal ones are seen.

    A value of a categorical column looks the same whatever the other values are.
    """
    seen: list[Any] = [None] if color is None else list(dict.fromkeys(table[color]))
    categories = None if color is None else getattr(table[color], "cat", None)
    names = seen if categories is None else list(categories.categories)
    meant = all(name in style.VERDICT_COLORS for name in names)
    return {
        name: {
            "color": style.VERDICT_COLORS[name]
            if meant
            else style.LINE_COLORS[index % len(style.LINE_COLORS)],
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": STYLES[index // len(style.LINE_COLORS) % len(STYLES)],
            "linewidth": WIDEST - (WIDEST - THINNEST) * index / max(1, len(names) - 1),
        }
        for index, name in enumerate(names)
        if name in seen
    }


def _dress(axis: Any, xlabel: str, ylabel: str, log: str, wide: float, tall: float = PANEL) -> None:
    axis.set_xlabel(wrapped(xlabel, wide), fontsize=9)
    axis.set_ylabel(wrapped(ylabel, tall - 0.8), fontsize=9)
    axis.grid(linewidth=0.4, color=LIGHT)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    for each, own in (("x", axis.xaxis), ("y", axis.yaxis)):
        if each in log:
            axis.set(**{f"{each}scale": "log"})
            own.set_minor_formatter(LogFormatter())  # 300, where 3 x 10^2 would not fit


def _legend(
    figure: Figure,
    looks: Mapping[Any, Mapping[str, Any]],
    dashed: Sequence[str] = (),
    more: Sequence[Line2D] = (),
) -> None:
    wide = figure.get_figwidth()
    handles = [
        Line2D(
            *([], []),
            label=wrapped(str(name), wide - 0.7),
            **{**look, **({"linestyle": "--"} if name in dashed else {})},
        )
        for name, look in looks.items()
    ]
    handles += more
    if handles:
        texts = [str(handle.get_label()) for handle in handles]
        across = max(1, min(len(handles), int(wide / (0.7 + widest(texts) / LETTERS))))
        below = LINE * text_lines(texts) * len(texts) / across
        figure.set_figheight(figure.get_figheight() + max(0.0, below - 3 * LINE))
        figure.legend(
            handles=handles, loc="outside lower center", ncols=across, fontsize=8, frameon=False
        )


def text_lines(texts: Sequence[str]) -> int:
    """Lines of the text that has most."""
    return max((text.count("\n") for text in texts), default=0) + 1


def widest(texts: Sequence[str]) -> int:
    """Characters of the longest line."""
    return max(len(line) for text in texts for line in text.split("\n"))


def wrapped(title: str, width: float) -> str:
    return folded(title, int(LETTERS * width))


def folded(text: str, letters: int) -> str:
    """Its lines, none longer than so many characters."""
    return "\n".join(textwrap.fill(line, letters) for line in text.splitlines())
