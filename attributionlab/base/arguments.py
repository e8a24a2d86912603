"""What public functions refuse before they begin, read from the annotations of their parameters."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from numbers import Real as Number
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np
import torch
from jaxtyping import AbstractArray
from torch import Tensor, nn

from attributionlab.base.errors import LONGEST_VALUE, AttributionLabError, nearest, refuse_if
from attributionlab.base.models import model_problems
from attributionlab.base.validation import (
    HIGHEST_SEED,
    MOST_IMAGES,
    MOST_ROUNDS,
    boolean_problem,
    generator_problem,
    integer_problem,
    number_problem,
    plain_problem,
    shown,
    written,
)

Function = TypeVar("Function", bound=Callable[..., Any])
Sizes = dict[str, str]
"""Lengths of dimensions by their names, as far as the tensors before say; those of a tensor that fits
are added.
"""


class Within(NamedTuple):
    """Which numbers a setting may be, in its annotation: `Annotated[int, Within(least=1)]`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None


def not_empty(name: str, value: Sequence[Any]) -> list[str]:
    """What is wrong with a list that must not be empty, for its annotation."""
    return [] if value else [f"{name} {_are(name)} empty: give at least one"]


def named(known: Collection[str]) -> Callable[[str, Any], list[str]]:
    """What is wrong with a name, or with a list of them, that must be known; for their annotation."""

    def problems(name: str, value: Any) -> list[str]:
        if not value:
            return [f"{name} {_are(name)} empty: give at least one of {', '.join(known)}"]
        unknown = [
            each for each in ([value] if isinstance(value, str) else value) if each not in known
        ]
        return [f"{name} {_are(name)} {each!r}: {nearest(each, known)}" for each in unknown[:1]]

    return problems


def filled(name: str, value: str) -> list[str]:
    """What is wrong with a text that must say something, for its annotation."""
    return [] if value.strip() else [f"{name} is {value!r}: write a text that is not empty"]


def line(name: str, value: str) -> list[str]:
    """What is wrong with the name that somebody gives to something of their own, for its annotation."""
    if value.strip() and value.isprintable() and len(value) <= LONGEST_VALUE:
        return []
    return [
        f"{name} is {value!r}: give a text of one line that is not empty, of at most {LONGEST_VALUE} "
        "characters"
    ]


def ascending(name: str, value: Sequence[float]) -> list[str]:
    """What is wrong with numbers each of which must be larger than the one before."""
    return (
        [] if _in_order(value) else [f"{name} {_are(name)} {written(value)}: pass rising numbers"]
    )


def descending(name: str, value: Sequence[float]) -> list[str]:
    """What is wrong with numbers each of which must be smaller than the one before."""
    if _in_order(value[::-1]):
        return []
    return [f"{name} {_are(name)} {written(value)}: pass falling numbers"]


def _in_order(values: Sequence[float]) -> bool:
    return isinstance(values, range) or all(first < second for first, second in pairwise(values))


def rising(name: str, value: Sequence[float]) -> list[str]:
    """What is wrong with a smallest and a largest number, for their annotation."""
    return (
        []
        if value[0] <= value[1]
        else [f"{name} {_are(name)} {value}: give the smaller number first"]
    )


Count = Annotated[int, Within(least=1)]
Whole = Annotated[int, Within(least=0)]
Grid = tuple[Count, Count]
"""Rows and columns."""
Text = Annotated[str, filled]
Name = Annotated[str, line]
Byte = Annotated[int, Within(least=0, most=255)]
"""A value of a pixel in one channel."""
Seed = Annotated[int, Within(least=0, most=HIGHEST_SEED)]
Positive = Annotated[float, Within(above=0)]
NotNegative = Annotated[float, Within(least=0)]
Share = Annotated[float, Within(above=0, most=1)]
"""A share of an image's pixels that is not nothing."""

Images = Annotated[int, Within(least=1, most=MOST_IMAGES)]
"""How many."""
Rounds = Annotated[int, Within(least=1, most=MOST_ROUNDS)]
"""Steps, permutations or epochs for one image, which memory does not bound."""
LARGEST_IMAGE = 1024
ImageSide = Annotated[int, Within(least=8, most=LARGEST_IMAGE)]
"""Of an image for the networks that the laboratory builds."""
Portion = Annotated[float, Within(least=0, most=1)]
Pixels = Annotated[int, Within(least=1, most=2**26)]
"""Pixels of an image, 8192 x 8192 at most."""
Side = Annotated[int, Within(least=1, most=2**13)]
Sigma = Annotated[float, Within(above=0, most=2**13)]
"""A Gaussian's standard deviation in pixels; its cost grows with it."""


LETTERS = {"batch": "B", "channels": "C", "height": "H", "width": "W", "outputs": "K"}
"""What the documentation calls a tensor's dimensions."""


NUMBERS = {"Real": "real numbers", "Float": "floating-point numbers", "Int": "integers"}
"""Kinds of numbers by the names of jaxtyping; others are types of torch."""


SIMPLE: dict[Any, Callable[[str, object], list[str]]] = {
    int: integer_problem,
    float: number_problem,
    bool: boolean_problem,
}


ENTRIES: dict[Any, str] = {int: "integers", float: "numbers", str: "texts"}
"""What lists are of, in words."""


OBJECTS: dict[Any, str] = {
    Path: "a path",
    PathLike: "a path",
    bytes: "bytes",
    slice: "a slice",
    torch.device: "a torch.device",
    np.random.Generator: "a numpy.random.Generator",
}
"""What others are, with how to say it."""


def checked_arguments(function: Function) -> Function:
    """A function that refuses what its annotations rule out, all of it in one line.

    - Words of a `Literal`; `int` and `float`, finite and `Within` their range; `bool`, `str`, functions
      and generators of random numbers; paths.
    - Tensors: dense, of the kind of numbers and the shape that jaxtyping's annotations say, a dimension
      of the same name being as long in all of them.
    - An `nn.Module` by the name of `model` that cannot be asked: `attributionlab.base.models`.
    - Lists: each entry, and how many there are where a tuple has so many.
    - Whatever a function says that stands beside the type: ``Annotated[kind, problems]``, called with
      the name and a value of the kind, returns sentences.

    Options by ``Unpack`` are checked like parameters. The function gets Python's own numbers, since
    NumPy's small integers overflow. Of a class the arguments of its ``__init__`` are checked.
    """
    if inspect.isclass(function):
        function.__init__ = checked_arguments(function.__init__)  # type: ignore[method-assign]
        return function
    signature, variadic, annotations = _described(function)

    @functools.wraps(function)
    def entry(*arguments: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError:
            return function(*arguments, **named)  # which says what is missing or too much
        given, hints = bound.arguments, annotations()
        options = _options(function, given, variadic)
        # An option may be called as a parameter is that is given by its place alone.
        named = {key: each for key, each in options.items() if key not in signature.parameters}
        refuse_if(argument_problems(given | named, hints))
        given |= plain_arguments(given, hints)
        options |= plain_arguments(named, hints)
        return function(*bound.args, **bound.kwargs, **options)

    return cast(Function, entry)


def explained_arguments(function: Function) -> Function:
    """A function whose annotations say what is wrong with its arguments where it does not say so
    itself: an error that is none of ours becomes a refusal if they rule out what was passed.

    For functions that check their settings together, with the ranges and the nearest words. Truth
    values are checked before, since no error would come of a text, which counts as true. NumPy's
    numbers become Python's own, as `checked_arguments` makes them.
    """
    signature, variadic, annotations = _described(function)

    @functools.cache
    def truth_values() -> dict[str, Any]:
        return {name: each for name, each in annotations().items() if _is_truth_value(each)}

    @functools.wraps(function)
    def entry(*arguments: Any, **named: Any) -> Any:
        try:
            given = signature.bind(*arguments, **named).arguments
        except TypeError:
            return function(*arguments, **named)  # which says what is missing or too much
        given |= _options(function, given, variadic)
        refuse_if(argument_problems(given, truth_values()))
        try:
            return function(
                *map(_of_python, arguments),
                **{key: _of_python(each) for key, each in named.items()},
            )
        except AttributionLabError:
            raise
        except Exception as error:
            explain(error, given, annotations())
            raise

    return cast(Function, entry)


def _of_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.number) else value


def explain(
    error: Exception, given: dict[str, Any], annotations: dict[str, Any], where: str = ""
) -> None:
    """Refuse (`refuse_if`) arguments of which an error of others came, if annotations rule them out."""
    try:
        refuse_if(argument_problems(given, annotations), where)
    except AttributionLabError as refusal:
        raise refusal from error


def _described(
    function: Callable[..., Any],
) -> tuple[inspect.Signature, str, Callable[[], dict[str, Any]]]:
    """A function's signature, the name of its further options, and what gives all annotations."""
    signature = inspect.signature(function)
    [variadic] = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD] or [""]

    @functools.cache
    def annotations() -> dict[str, Any]:
        hints = get_type_hints(function, include_extras=True)
        hint = hints.pop(variadic, None)
        if get_origin(hint) is Unpack:
            hints |= get_type_hints(get_args(hint)[0], include_extras=True)
        return hints

    return signature, variadic, annotations


def _options(function: Callable[..., Any], given: dict[str, Any], variadic: str) -> dict[str, Any]:
    """Further options, taken from what is given; by Unpack only those that it names."""
    options: dict[str, Any] = given.pop(variadic, {})
    hint = get_type_hints(function, include_extras=True).get(variadic) if options else None
    if get_origin(hint) is Unpack:
        for name in options.keys() - get_type_hints(get_args(hint)[0]).keys():
            text = f"{function.__name__}() got an unexpected keyword argument {name!r}"
            raise TypeError(text)
    return options


def argument_problems(given: Mapping[str, Any], annotations: Mapping[str, Any]) -> list[str]:
    """What is wrong with arguments by their annotations, both by name."""
    sizes: Sizes = {}
    return [
        problem
        for name, value in given.items()
        if name in annotations
        for problem in _problems(name, value, annotations[name], sizes)
    ]


def plain_arguments(given: Mapping[str, Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments in which numbers are Python's own, of the kind that is annotated."""
    return {key: _plain(value, annotations.get(key)) for key, value in given.items()}


def _plain(value: Any, annotation: Any) -> Any:
    """A number as Python's own, of the kind that is annotated; a list as a tuple of such numbers."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    kinds = tuple(map(_kind_of, kinds))
    if isinstance(value, range):
        return value
    if (entries := _listed(value)) is not None and not any(map(_is_array, kinds)):
        fitting = (each for each in kinds if get_origin(each) in (tuple, Sequence))
        kind = next((each for each in fitting if not _problems("", value, each, {})), None)
        if kind is None:
            return value
        return tuple(map(_plain, entries, _kinds_of_entries(kind, len(entries))))
    if not isinstance(value, Number) or isinstance(value, bool) or any(map(_is_array, kinds)):
        return value
    number: Any = value
    is_float = float in kinds and int not in kinds
    if type(number) in ((float,) if is_float else (int, float)) and abs(number) < 2**53:
        return number
    if float in kinds and not number_problem("", number):
        return float(number)
    return int(number) if int in kinds and isinstance(number, Integral) else number


def _kind_of(annotation: Any) -> Any:
    """A type without what is said beside it."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _kinds_of_entries(annotation: Any, length: int) -> tuple[Any, ...]:
    """What each entry of a list is: of as many as there are, or as a tuple has."""
    of = get_args(annotation)
    one = get_origin(annotation) is not tuple or of[1:] == (...,)
    return (of[0],) * length if one else of


def _problems(name: str, value: Any, annotation: Any, sizes: Sizes) -> list[str]:
    kind, of = get_origin(annotation), get_args(annotation)
    if kind in (Union, UnionType):
        return _problems_of_union(name, value, of, sizes)
    if kind is Annotated:
        return _problems_of_annotated(name, value, of, sizes)
    if _is_array(annotation):
        return _problems_of_tensor(name, value, annotation, sizes)
    if annotation is nn.Module:
        if name == "model":
            return model_problems(value)
        return (
            [] if isinstance(value, nn.Module) else [f"{name} is {shown(value)}: pass an nn.Module"]
        )
    if annotation is torch.Generator:
        return generator_problem(value)
    if annotation in SIMPLE:
        return SIMPLE[annotation](name, value)
    if kind is Literal and not (type(value) in map(type, of) and value in of):
        words = " or ".join(map(repr, of)) if len(of) < 3 else f"one of {', '.join(map(repr, of))}"
        hint = nearest(value, map(str, of)) if isinstance(value, str) else ""
        hint = f" ({hint})" if hint.startswith("did") else ""
        return [f"{name} is {written(value)}: take {words}{hint}"]
    if kind is Callable and not callable(value):
        return [f"{name} is {written(value)}: pass a function"]
    if annotation is str and not isinstance(value, str):
        return [f"{name} is {written(value)}: pass a text"]
    if kind is Mapping:
        return _problems_of_mapping(name, value, of)
    if is_typeddict(annotation):
        return _problems_of_table(name, value, get_type_hints(annotation, include_extras=True))
    if kind in (tuple, Sequence):
        return _problems_of_list(name, value, annotation)
    if annotation is Tensor and isinstance(value, Tensor):
        return plain_problem(f"{name} {_are(name)}", value)
    if annotation in OBJECTS and not isinstance(value, annotation):
        return [f"{name} is {written(value)}: pass {OBJECTS[annotation]}"]
    if _is_ours(annotation) and not isinstance(value, annotation):
        return [f"{name} is {shown(value)}: pass one of the class {annotation.__name__}"]
    return []


def _problems_of_annotated(name: str, value: Any, of: tuple[Any, ...], sizes: Sizes) -> list[str]:
    """What is wrong by a type, or by the first of what stands beside it."""
    kind, *further = of
    found: list[str]
    if isinstance(further[0], Within):
        least, most, above, below = further.pop(0)
        if kind is int:
            found = integer_problem(
                name, value, cast("int | None", least), cast("int | None", most)
            )
        else:
            found = number_problem(name, value, least=least, most=most, above=above, below=below)
    else:
        found = _problems(name, value, kind, sizes)
    for problems in further:
        found = found or problems(name, _plain(value, kind))
    return found


def _problems_of_list(name: str, value: Any, annotation: Any) -> list[str]:
    """What is wrong with a list, or with its first entry that is wrong."""
    given = _listed(value)
    kinds = _kinds_of_entries(annotation, len(given or ()))
    if given is None or len(kinds) != len(given):
        several = len(set(kinds)) == 1 or not kinds
        what = ENTRIES.get(_kind_of(get_args(annotation)[0])) if several else None
        wanted = f"{len(kinds)} {what or ''}".strip() if kinds else what
        of = f" of {wanted}" if wanted else ""
        return [f"{name} {_are(name)} {written(value)}: pass a list{of}"]
    if isinstance(given, range):  # of as many numbers as an image has pixels
        given, kinds = [*given[:1], *given[-1:]], (*kinds[:1], *kinds[:1])
    entries = enumerate(zip(given, kinds, strict=True))
    found = (_problems(f"{name}[{place}]", each, kind, {}) for place, (each, kind) in entries)
    return next(filter(None, found), [])


def _listed(value: Any) -> Sequence[Any] | None:
    """What passes for a list: vectors do, and texts do not."""
    if isinstance(value, Tensor | np.ndarray):
        plain = isinstance(value, np.ndarray) or not plain_problem("", value)
        return list(value.tolist()) if plain and value.ndim == 1 else None
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def _problems_of_mapping(name: str, value: Any, of: tuple[Any, ...]) -> list[str]:
    """What is wrong with a mapping, with keys of it or with what stands under them."""
    if not isinstance(value, Mapping):
        return [f"{name} {_are(name)} {written(value)}: pass a mapping"]
    return [
        problem
        for key, entry in value.items()
        for problem in _problems(f"a key of {name}", key, of[0], {})
        or _problems(f"{name}[{key!r}]", entry, of[1], {})
    ]


def _problems_of_table(name: str, value: Any, entries: dict[str, Any]) -> list[str]:
    """What is wrong with a mapping whose keys are known, each with an annotation of its own."""
    if not isinstance(value, Mapping):
        return [f"{name} is {written(value)}: write a table of {', '.join(entries)}"]
    problems = [
        f"{name} has no {key!r}: {nearest(key, entries)}" for key in value if key not in entries
    ]
    own = {f"{name}.{key}": value[key] for key in value if key in entries}
    return problems + argument_problems(own, {f"{name}.{key}": entries[key] for key in entries})


def _problems_of_union(name: str, value: Any, of: tuple[Any, ...], sizes: Sizes) -> list[str]:
    """None if one of the annotations fits; else what the first of them says.

    What may be a tensor or something else is left to the function, but for tensors without numbers.
    """
    if value is None and NoneType in of:
        return []
    others = [each for each in of if each is not NoneType]
    if any(map(_is_array, others)) and not all(map(_is_array, others)):
        unread = isinstance(value, Tensor) and not value.is_complex()
        return plain_problem(f"{name} {_are(name)}", value) if unread else []
    found = [_problems(name, value, each, sizes) for each in others]
    if not all(found):
        return []
    inside = (problems for problems, each in zip(found, others, strict=True) if _holds(value, each))
    if first := next(inside, None):
        return first
    if Path in others:
        return found[others.index(Path)]
    functions = len(others) > 1 and any(get_origin(each) is Callable for each in others)
    return [each + ", or a function" * functions for each in found[0]]


def _holds(value: Any, annotation: Any) -> bool:
    """Whether it is a mapping or a list, as annotated, whatever is in it."""
    kind = get_origin(annotation)
    if isinstance(value, Mapping):
        return kind is Mapping
    return kind in (tuple, Sequence) and _listed(value) is not None


def _problems_of_tensor(name: str, value: Any, annotation: Any, sizes: Sizes) -> list[str]:
    what = "a tensor" if annotation.array_type is Tensor else "an array"
    subject, kind = f"{name} {_are(name)}", annotation.dtype.__name__
    numbers = NUMBERS.get(kind, f"torch.{kind.lower()}")
    remedy = f"pass {what} of {numbers}"
    dims: list[str] = []
    if annotation.index_variadic is None:
        dims = [str(dim.size) if hasattr(dim, "size") else dim.name for dim in annotation.dims]
    wanted = [sizes.get(dim, dim) for dim in dims]
    if dims == ["batch"]:
        one = numbers.removeprefix("real ").removesuffix("s")
        images = f"of the {wanted[0]} images" if wanted[0].isdecimal() else "image"
        remedy = f"pass {what} of one {one} for each {images}"
    elif dims:
        letters = ", ".join(LETTERS.get(each, each) for each in wanted)
        remedy = f"pass {what} of shape ({letters}{',' * (len(dims) == 1)})"
        if dims[1:2] == ["1"] and kind != "Bool":
            remedy += ", one value for each pixel (summed over channels)"
    if not isinstance(value, annotation.array_type):
        return [f"{subject} {shown(value)}: {remedy}"]
    if dims:
        found = [str(size) for size in value.shape]
        pairs = zip(wanted, found, strict=False)
        if len(dims) != len(found) or any(a != b for a, b in pairs if a.isdecimal()):
            return [f"{subject} {shown(value)}: {remedy}"]
        if dims[0] == "batch" and "0" in found:
            return [f"{subject} {shown(value)}: {remedy}, B at least 1"]
        sizes |= zip(dims, found, strict=True)
    dtype = str(value.dtype).removeprefix("torch.")
    # To jaxtyping, unsigned integers are none.
    if dtype in annotation.dtypes or (kind == "Int" and dtype.startswith("uint")):
        return plain_problem(subject, value) if what == "a tensor" else []
    if kind == "Real" and dtype == "bool":
        numbers += ", mask.float() for a mask"
    elif kind == "Bool":
        numbers += f", such as {name} > 0"
    elif kind == "Float" and not dtype.startswith("complex"):
        numbers += f", {name}.float() for example"
    return [f"{subject} {value.dtype}: pass {numbers}"]


def _is_truth_value(annotation: Any) -> bool:
    """Whether it is about truth values, of which a wrong one passes for a right one."""
    return annotation is bool or get_args(annotation) == (bool, NoneType)


def _is_array(annotation: Any) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, AbstractArray)


def _is_ours(annotation: Any) -> bool:
    """Whether it is a class of the laboratory, which values are made by, or what they are asked."""
    ours = inspect.isclass(annotation) and annotation.__module__.startswith("attributionlab.")
    asked = not getattr(annotation, "_is_protocol", False) or annotation._is_runtime_protocol
    return ours and not is_typeddict(annotation) and asked


def _are(name: str) -> str:
    return "are" if name.endswith("s") else "is"
