"""Items of the papers: what items.toml says of each, what computes it, and the claims about it.

An item is one function that returns tidy tables, one block in its paper's items.toml, what the paper
says of it, in our words, with a condition or a function that checks that, and one test. Reading the
catalog imports none of the functions.
"""

import inspect
import json
import tomllib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce, wraps
from importlib import import_module
from operator import or_
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Unpack, cast, get_args

from attributionlab.base import (
    AttributionLabError,
    follow,
    library_versions,
    make_folder,
    nearest,
    refuse_if,
    track,
    write_atomically,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from attributionlab.runs import Running

Part = TypeVar("Part")
Computing = TypeVar("Computing", bound=Callable[..., Any])
Grade = Literal["faithful", "analogue", "beyond the paper"]
Holds = Literal["agrees", "differs", "undecided"]
Tables = Mapping[str, "pd.DataFrame"]
Check = Callable[[Tables], bool | None]

PAPERS = ("attributionlab", "soco", "idsds", "unified", "metarank")
"""Folders of the papers, in the order in which they are listed."""


@dataclass(frozen=True)
class Item:
    """A table, figure or result of a paper.

    - `name`: as in ``attributionlab reproduce NAME``.
    - `paper`, `place`, `title`: which paper, where in it, and what it shows.
    - `grade`: how near ours is to what the paper did; "beyond the paper": it asks what the paper does
      not.
    - `function`: ``module:function`` below `attributionlab.papers`.
    - `sizes`, `quick`: numbers that the function is given, in a full and in a quick run; `n` is the
      number of images.
    - `tables`: those that a terminal has room for, and how to read each.
    - `notes`: what is to be known before the tables are read, whatever they say.
    - `limits`: least, and most where there is one, of n and of numbers among the settings. Without,
      whole ones are at least 1, and n at most what all commands take.
    - `figure`: how the names of its own figures begin: they come first.
    - `per_class`: images of each class of a user's own folder (setting `images`) where n is not given.
    - `accelerated`: whether all that it computes can run on another device than the CPU.
    - `run_with`: an item of the same function and sizes that computes most of what this one needs; the
      two are run together where both are asked for.
    - `resumable`: whether it consists of cells, which a store keeps and several processes can share.
    """

    name: str
    paper: str
    title: str
    place: str
    grade: Grade
    function: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    limits: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    figure: str = ""
    per_class: int | None = None
    accelerated: bool = False
    run_with: str = ""
    resumable: bool = False

    @property
    def module(self) -> str:
        """Where the function that computes the item stands."""
        return f"{__package__}.{self.function.split(':')[0]}"

    def load(self) -> Callable[..., "Found | Tables"]:
        """Import the function that computes the item."""
        name = self.function.split(":")[1]
        found: Callable[..., Found | Tables] = getattr(import_module(self.module), name)
        return found

    def settings(self) -> dict[str, Any]:
        """Its keywords, those that ``--set`` takes and its sizes, with their types."""
        found: dict[str, Any] = {}
        for name, each in inspect.signature(self.load()).parameters.items():
            if each.kind is each.KEYWORD_ONLY:
                found[name] = each.annotation
            elif each.kind is each.VAR_KEYWORD:  # **own: Unpack[OwnNetwork]
                [options] = get_args(each.annotation)
                found |= options.__annotations__
        return found


@dataclass(frozen=True)
class Run:
    """How an item is run: the same for all, beside what is an item's own.

    - `item`: its name: a function may compute several.
    - `n`: images, or whatever the item counts.
    - `quick`: whether the quick sizes hold.
    - `seed`: of everything random.
    - `kept`: what items that are run together compute once (`Item.run_with`).
    - `running`: as for `attributionlab.compare`: a store and processes are for items of many cells
      (`Item.resumable`).
    """

    item: str
    n: int
    quick: bool = False
    seed: int = 0
    kept: dict[Any, Any] | None = field(default=None, compare=False, repr=False)
    running: "Running" = field(default_factory=dict)  # type: ignore[assignment]

    @property
    def device(self) -> str:
        """Where methods compute."""
        return str(self.running.get("device") or "cpu")

    @property
    def show_progress(self) -> bool:
        """Whether to show progress on standard error."""
        return self.running.get("show_progress", False)

    def once(self, key: Hashable, compute: Callable[[], Part]) -> Part:
        """What `compute` returns, from `kept` where another item of the same run computed it.

        The key is that of the work in its module; n, seed and sizes are those of the run.
        """
        if self.kept is None:
            return compute()
        if key not in self.kept:
            self.kept[key] = compute()
        found: Part = self.kept[key]
        return found

    def track(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The parts of the work and show how far it is."""
        every = list(parts)
        return track(every, len(every), self.item, self.show_progress)


@dataclass(frozen=True, eq=False)
class Found:
    """What an item's function returns where it has figures beside its tables, the item's own first.

    Tables are tidy; `notes` are what is to be known of a user's own network and images.
    """

    tables: Tables
    figures: Mapping[str, "Figure"] = field(default_factory=dict)
    notes: Sequence[str] = ()


def shared(compute: Computing) -> Computing:
    """A function of which all items that are run together (`Item.run_with`) show the same."""

    @wraps(compute)
    def once(run: Run, **settings: Any) -> Any:
        return run.once(compute.__name__, lambda: compute(run, **settings))

    return cast(Computing, once)


@dataclass(frozen=True)
class Claim:
    """What a paper says of some items, and what says whether their tables agree.

    `place` and `statement` are where the paper says it, and what it says, in our words; `reason` is
    why ours differs, where it is known. The check takes tables to True (agrees), False or None
    (undecided); `meant` is all that items.toml says, also what it asks of rows of a table.
    """

    items: tuple[str, ...]
    place: str
    statement: str
    reason: str
    check: Check
    meant: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, tables: Tables) -> Holds:
        """Say whether the tables agree with the paper."""
        return {True: "agrees", False: "differs", None: "undecided"}[self.check(tables)]  # type: ignore[return-value]


def _read(folder: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A paper's name, blocks of its items, and statements by module, from its items.toml."""
    text = (Path(__file__).parent / folder / "items.toml").read_text(encoding="utf-8")
    blocks = tomllib.loads(text)
    return blocks.pop("paper"), blocks, blocks.pop("statements", {})


@cache
def items() -> dict[str, Item]:
    """All items by name, paper by paper, from each paper's items.toml.

    A block with the key `like` begins as the block of that name, which stands above it. Where `tables`
    is a list of names, how to read them stands under the paper's own `tables`, for all of its items.
    """
    found = {}
    for folder in PAPERS:
        paper, blocks, _ = _read(folder)
        texts = blocks.pop("tables", {})
        for name, own in blocks.items():
            block = blocks[name] = {**blocks[own.pop("like", name)], **own}
            block["notes"] = tuple(block.get("notes", ()))
            if isinstance(block.get("tables"), list):
                block["tables"] = {each: texts[each] for each in block["tables"]}
            found[name] = Item(name=name, paper=paper, **block)
    return found


def _beside(module: str) -> tuple[str, ...]:
    """Items whose functions stand in a module."""
    return tuple(name for name, item in items().items() if item.function.split(":")[0] == module)


def _check_of(module: str, name: str) -> Check:
    """A function of a module, which is imported when tables are checked."""

    def check(tables: Tables) -> bool | None:
        found: Check = getattr(import_module(f"{__package__}.{module}"), name)
        return found(tables)

    check.__name__, check.__module__ = name, f"{__package__}.{module}"
    return check


def _rows_meet(name: str, one: Mapping[str, Any]) -> Check:
    """A condition on the rows of a table that are meant; without the table it is undecided."""

    def check(tables: Tables) -> bool | None:
        table = tables.get(one["table"])
        if table is None:
            return None
        rows = table.query(one["where"]) if "where" in one else table
        if "any" in one:
            return bool(rows.eval(one["any"]).any())
        if not len(rows):
            return None
        if "above" in one:
            from attributionlab.papers.answers import above

            return above(rows.low, rows.high, one["above"])
        return bool(rows.eval(one["all"]).all())

    check.__name__ = name
    return check


def statements(folder: str) -> Iterator[Claim]:
    """What a paper's items.toml says under [statements.MODULE], name by name.

    `says` is the statement; `place` ("ours") and `reason` as for `Claim`; `about` are the items, all of
    the module by default. Of the rows of a `table`, or of those `where` a condition holds, `all` or
    `any` meet another one, or all intervals, low to high, lie `above` a border; undecided where none is
    meant. Without a table the function of that module and name checks the statement.
    """
    for module, named in _read(folder)[2].items():
        path = f"{folder}.{module}"
        for name, one in named.items():
            about = tuple(one.get("about", _beside(path)))
            where, why = one.get("place", "ours"), one.get("reason", "")
            check = _rows_meet(name, one) if "table" in one else _check_of(path, name)
            yield Claim(about, where, one["says"], why, check, one)


CLAIMS = [each for folder in PAPERS for each in statements(folder)]


def said_of(names: Iterable[str]) -> list[Mapping[str, Any]]:
    """What is said of items, with the conditions of statements: their answers depend on it."""
    return [dict(each.meant) for each in CLAIMS if {*names} & {*each.items}]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The outcome of an item: tables, figures (the item's own first; PNG files once they are `drawn`),
    what is to be known (of the item, of its maps, of a user's own network and images), claims with
    answers, and what it was run with.
    """

    name: str
    tables: Tables
    figures: Mapping[str, "Figure | bytes"]
    notes: Sequence[str]
    claims: Sequence[Mapping[str, str]]
    run: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def item(self) -> Item:
        """What was repeated."""
        return items()[self.name]

    def drawn(
        self, pngs: "dict[Figure, bytes] | None" = None, size: str | None = None
    ) -> "Reproduction":
        """The same with its figures drawn: what is left are values, which a store can keep.

        Items that are run together may share figures. Each is drawn once, into `pngs`: the second time
        its layout would move by a pixel. They have the size that `show.encoded` takes.
        """
        from attributionlab.show import encoded

        pngs = {} if pngs is None else pngs
        figures: dict[str, Figure | bytes] = {}
        for name, figure in self.figures.items():
            if not isinstance(figure, bytes) and figure not in pngs:
                pngs[figure] = encoded(figure, size=size)
            figures[name] = figure if isinstance(figure, bytes) else pngs[figure]
        return replace(self, figures=figures)

    def files(self, command: str, size: str | None = None) -> dict[str, str | bytes]:
        """Content of its files by name, tables (CSV), figures (PNG) and a summary (JSON); `command`
        computes it again.
        """
        summary: dict[str, Any] = {
            "schema": 2,
            "item": self.name,
            "title": self.item.title,
            "notes": self.notes,
            "claims": self.claims,
            "run": self.run,
            "command": command,
            "versions": self.versions,
        }
        text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False, default=str)
        files: dict[str, Any] = {f"{self.name}.json": text + "\n"}
        files |= {f"{self.name}-{key}.csv": t.to_csv(index=False) for key, t in self.tables.items()}
        drawn = self.drawn(size=size).figures
        return files | {f"{self.name}-{key}.png": png for key, png in drawn.items()}

    def save(self, folder: str | Path, command: str, size: str | None = None) -> list[Path]:
        """Write `files` into a folder, made where missing; returns what was written."""
        folder, files = make_folder(folder), self.files(command, size)
        for file, content in files.items():
            write_atomically(folder / file, content)
        return [folder / file for file in files]


def _bounded(annotation: Any, limits: Sequence[Any]) -> Any:
    """The annotation of a setting with its limits; whole numbers are at least 1 by default, and a text
    may be a path.
    """
    from attributionlab.base import Within

    if of := get_args(annotation):
        return reduce(or_, (_bounded(each, limits) for each in of))
    if annotation in (int, float):
        least, most = (*(limits or ((1,) if annotation is int else (None,))), None)[:2]
        return Annotated[annotation, Within(least=least, most=most)]
    return str | PathLike if annotation is str else annotation


def reproduce(
    name: str,
    *,
    n: int | None = None,
    quick: bool = False,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    kept: dict[Any, Any] | None = None,
    **running: "Unpack[Running]",
) -> Reproduction:
    """Repeat a table or figure of a paper, and hold its tables against the paper's claims.

    Parameters
    ----------
    name : str
        An item of `items`.
    n : int, optional
        Images, or whatever the item counts; each item has its own default.
    quick : bool
        Small images, few of them.
    seed : int
        Seed for images and methods.
    settings : mapping, optional
        Settings of this item alone, as `Item.settings` names them.
    kept : dict, optional
        The same for items that are run together (`Item.run_with`), with the same n, seed and settings:
        what they have in common is computed once.
    **running
        As for `attributionlab.compare`. Only `accelerated` items take a device other than "cpu", and
        only `resumable` ones use a store and several processes.

    Returns
    -------
    Reproduction
        The item's tables and figures, its claims with their answers, and its notes.

    Raises
    ------
    AttributionLabError
        For an unknown item or setting, a device that the item cannot use, and impossible numbers.
    """
    from attributionlab.base import MOST_IMAGES, Whole, argument_problems, as_device
    from attributionlab.methods import collect_notices, summarized

    if not isinstance(name, str) or name not in items():
        raise AttributionLabError(f"no item named {name!r}: {nearest(name, items())}")
    item, settings = items()[name], dict(settings or {})
    own = {key: _bounded(each, item.limits.get(key, ())) for key, each in item.settings().items()}
    problems = [
        f"{name} has no setting {key!r}: {nearest(key, own)}" for key in settings if key not in own
    ]
    own |= {"n": _bounded(int | None, item.limits.get("n", (1, MOST_IMAGES))), "seed": Whole}
    problems += argument_problems({**settings, "n": n, "seed": seed}, own)
    device = running.get("device")
    elsewhere = device is not None and as_device(device).type != "cpu"
    if elsewhere and not item.accelerated:
        problems.append(f"device is {device!r}, but {name} computes on the CPU alone: leave it out")
    refuse_if(problems)
    sizes = {**item.sizes, **(item.quick if quick else {})}
    default = sizes.pop("n")
    if settings.get("images") is not None:
        default = item.per_class or default
    number = default if n is None else int(n)
    run = Run(name, number, quick, seed, kept, running)
    with follow(name, show=run.show_progress), collect_notices() as notices:
        found = item.load()(run, **sizes | settings)
    if not isinstance(found, Found):
        found = Found(found)
    own_first = sorted(found.figures, key=lambda each: not each.startswith(item.figure))
    claims = [
        {
            "place": each.place,
            "paper says": each.statement,
            "here": (here := each.holds(found.tables)),
            "reason": each.reason if here == "differs" else "",
        }
        for each in CLAIMS
        if name in each.items
    ]
    how = {"n": number, "quick": quick, "seed": seed} | ({"device": device} if elsewhere else {})
    return Reproduction(
        name,
        dict(found.tables),
        {each: found.figures[each] for each in own_first},
        [*item.notes, *summarized(notices), *found.notes],
        claims,
        how | settings,
        library_versions(),
    )
