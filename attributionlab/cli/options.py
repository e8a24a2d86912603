"""Options that several commands share: their help, and what their values mean."""

import ast
import functools
import inspect
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from attributionlab.base import (
    AttributionLabError,
    Stopped,
    follow,
    library_versions,
    located,
    printable,
    refuse_unread,
)
from attributionlab.cli.supervisor import limit

if TYPE_CHECKING:
    from attributionlab.worlds import Environment

Result = TypeVar("Result")


WORDS = {"true": True, "false": False, "none": None}
"""What Python's own words may also be spelled like, as in TOML or a shell."""
QUICK_SIZE = 72
"""Side of the images of a quick run, in pixels."""
QUICK_QUESTIONS = 20
"""Of which a method that passes solves 19 or more."""
QUICK_TRIAL, QUICK_SIDE = 6, 32
"""Questions of a quick trial of a metric, the fewest that can have a verdict, and the side of its
images."""
arguments: list[str] = []
"""Arguments of the command line."""
STATUSES = {"pass": 0, "fail": 1, "inconclusive": 3, "invalid": 4}
"""Exit status by verdict."""

Cite = Annotated[
    bool, typer.Option("--cite", help="Print a sentence for your paper and a BibTeX entry.")
]


def print_citation(sentence: str) -> None:
    """Print a sentence for a paper, and what it cites."""
    from attributionlab.show import cited

    typer.echo(f"\n{cited(printable(sentence), library_versions()['attributionlab'])}")


Environments = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        help="Environment: a name, a TOML file, random:N:DIFFICULTY:SEED for N random worlds, or the "
        "set images or tokens. Can be repeated.",
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Use images of 72 x 72 pixels, even if a file sets another size."),
]
QuickTrial = Annotated[
    bool,
    typer.Option(
        "--quick",
        help=f"A first look: {QUICK_TRIAL} questions, images of {QUICK_SIDE} x {QUICK_SIDE} pixels, "
        "unseen data at strength 0 and 1 alone, and, for `metric`, only the checks that can find an "
        "error. Undecided is more likely.",
    ),
]
ImageSize = Annotated[
    int | None,
    typer.Option(
        "--image-size",
        metavar="S",
        help="Use images of S x S pixels, S from 8 to 1024. Default: 72, or the size set in a file.",
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed for images and methods.")]
Claimed = Annotated[
    str | None,
    typer.Option(
        "--claim",
        help="signed, overall, positive, positive-smoothed or agreed. Default: the method's own claim.",
    ),
]
Explained = Annotated[
    str | None, typer.Option("--output", help="Explained output: probability or logit.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting. Can be repeated.")
]
Isolation = Annotated[
    bool,
    typer.Option(
        "--isolation/--no-isolation",
        help="Run a method or metric from a file or module in an isolated process, without access to "
        "truth and scores.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Store results in this folder, and reuse those already there."
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(help="Number of processes. Default: one per core where this saves time."),
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Rerun the work that failed in the folder of --out.")
]

Kinds = Mapping[str, tuple[Any, Any]]
"""Options, by the names of arguments, with their defaults."""


def option(
    kind: Any, meaning: str, *names: str, default: Any = None, **settings: Any
) -> tuple[Any, Any]:
    """An option's annotation and its default."""
    return Annotated[kind, typer.Option(*names, help=meaning, **settings)], default


RUNNING: Kinds = {
    "device": option(str, "Device: cpu or cuda.", default="cpu"),
    "out": (Out, None),
    "jobs": (Jobs, None),
    "retry_failed": (RetryFailed, False),
}
"""How a command is run."""
LIMITS: Kinds = {
    "time_limit": option(
        float | None,
        "Stop after this many seconds, without a verdict.",
        metavar="S",
        callback=lambda value: limit("--time-limit", value, seconds=value),
    ),
    "memory_limit": option(
        float | None,
        "Stop when all processes together use more memory than this, without a verdict.",
        metavar="GIB",
        callback=lambda value: limit("--memory-limit", value, gib=value),
    ),
}
"""Obeyed where they are read."""
Command = Callable[..., None]


def with_options(
    name: str, kinds: Kinds, collected: Callable[[dict[str, Any]], Any]
) -> Callable[[Command], Command]:
    """Commands with these options behind their own, of which they get what is `collected` as `name`."""

    def extended(command: Command) -> Command:
        signature = inspect.signature(command)
        own = {key: each for key, each in signature.parameters.items() if key != name}
        others = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for key, (kind, default) in kinds.items()
            if key not in own
        ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(**{key: given[key] for key in own}, **{name: collected(given)})

        parameters = [*own.values(), *others]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return extended


with_running = with_options(
    "running",
    {**RUNNING, **LIMITS},
    lambda given: {name: given[name] for name in RUNNING} | {"show_progress": True},
)
"""A command with the options `RUNNING` and `LIMITS`, of which it gets the first as one: `running`."""


QUESTIONS: Kinds = {
    "env": (Environments, None),
    "n": option(
        int | None, "Number of questions per environment. Default: 32, or 20 with --quick."
    ),
    "claim": (Claimed, None),
    "output": (Explained, None),
    "quick": option(
        bool,
        "Ask 20 questions, with images of 72 x 72 pixels even if a file sets another size.",
        "--quick",
        default=False,
    ),
    "image_size": (ImageSize, None),
    "preset": option(
        str | None, "paper: use the settings that a paper states for a built-in method."
    ),
    "also": option(
        list[str] | None,
        "Measure more than the verdict. Can be repeated. truths: also score against ablation, "
        "insertion, Shapley values and integrated gradients. equivalent: repeat on K (5) "
        "implementations of each network with identical outputs. camouflage: how much maps drift "
        "between K (3) networks of the same function. seeds: K (5) runs of a randomized method.",
        metavar="WHAT[:K]",
    ),
    "implementation": option(
        list[str] | None,
        "Implementation of the networks: paper, planes, natural, or one with identical outputs but "
        "different gradients, such as plateau; trained (with --one-network): a network trained on "
        "the rule, scored on patches. Can be repeated. Default: paper and natural.",
        metavar="I",
    ),
    "one_network": option(
        bool,
        "Use one network for all images, as in the paper. A pass then proves less.",
        "--one-network",
        default=False,
    ),
    "isolated": (Isolation, True),
}
"""What is asked of methods."""


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `attributionlab.faithfulness_test` and `attributionlab.compare`."""
    settings = parse_settings(given.get("set_") or [])
    for each in given.get("methods") or filter(None, [given.get("method")]):
        refuse_unread(each, settings)
    from attributionlab.base import QUESTIONS
    from attributionlab.verdicts import DEFAULT_ENVIRONMENTS, DEFAULT_IMPLEMENTATIONS, of_sets
    from attributionlab.worlds import IMAGE_SIDE
    from attributionlab.worlds.nets import TRAINED

    side = given["image_size"]
    if TRAINED in (given["implementation"] or ()) and side not in (None, IMAGE_SIDE):
        raise AttributionLabError(
            f"--image-size is {side}, but trained networks are for images of side {IMAGE_SIDE}: leave "
            "--image-size out"
        )
    number = QUICK_QUESTIONS if given["quick"] else QUESTIONS
    return {
        "environments": load_all(
            of_sets(given["env"]) or DEFAULT_ENVIRONMENTS, given["quick"], side
        ),
        "n": number if given["n"] is None else given["n"],
        "explain": given["output"],
        "also": given["also"] or (),
        "implementations": given["implementation"] or DEFAULT_IMPLEMENTATIONS,
        **{name: given[name] for name in ("claim", "preset", "one_network", "isolated")},
    }


with_questions = with_options("asked", QUESTIONS, _asked)
"""A command with the options `QUESTIONS`, of which it gets the arguments that they make: `asked`."""

TRIAL: Kinds = {
    "env": option(
        str,
        "Environment: a name, a TOML file, or random:N:DIFFICULTY:SEED for N random worlds.",
        default="multi-color-sum",
    ),
    "n": option(
        int | None,
        "Number of questions, at least 2; a verdict on a metric needs 6 or more. Default: 8, or 13 "
        "for a method; 6 with --quick.",
    ),
    "seed": (Seed, 0),
    "quick": (QuickTrial, False),
    "image_size": option(
        int | None,
        "Use images of S x S pixels, S from 8 to 1024. Default: 72, or the size set in a file; "
        f"{QUICK_SIDE} with --quick.",
        metavar="S",
    ),
    "dose": option(
        list[str] | None,
        "Doses of unseen data on an axis (strength, channels, distance, share). Can be repeated. "
        "Default: all axes.",
        metavar="AXIS=NUMBER[,NUMBER...]",
    ),
    "isolated": (Isolation, True),
}
"""The trial of a metric."""


def _tried(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `attributionlab.metric_test` and `attributionlab.metric_cards`."""
    for name in ("metric", "tested", "metrics", "method"):
        given_here = given.get(name) or []
        for each in [given_here] if isinstance(given_here, str) else given_here:
            refuse_unread(each)
    from attributionlab.verdicts import quick_doses

    quick, side, n = (given[name] for name in ("quick", "image_size", "n"))
    if quick:
        side, n = side or QUICK_SIDE, QUICK_TRIAL if n is None else n
    [env] = load_all([given["env"]], False, side)
    chosen = parse_doses(given["dose"]) if given["dose"] else None
    doses = quick_doses(env) if quick and chosen is None else chosen
    asked = {"seed": given["seed"], "isolated": given["isolated"]} | ({} if n is None else {"n": n})
    return {"env": env, "doses": doses, **asked}


with_trial = with_options("tried", TRIAL, _tried)
"""A command with the options `TRIAL`, of which it gets the arguments that they make: `tried`."""


def named_metric(word: str) -> Any:
    """The function that a word refers to, or the word: a metric's name."""
    return located(word, {}) if ":" in word or word.endswith(".py") else word


def say(line: str) -> None:
    """Write a line to standard error, at once, since progress is written from a thread; where nobody
    can read it, the exit status says enough.
    """
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def command_line(seed: int | None = None) -> str:
    """Command that repeats the run, with the seed that was drawn for it, if one was; bytes that are no
    text, as names of files may have, are escapes.
    """
    words = list(arguments)
    if seed is not None:
        for place, word in enumerate(words):
            if word == "fresh" and words[place - 1] == "--seed":
                words[place] = str(seed)
            words[place] = words[place].replace("--seed=fresh", f"--seed={seed}")
    return shlex.join(["attributionlab", *words]).encode(errors="backslashreplace").decode()


def name_seeds(seeds: Sequence[int]) -> None:
    """Let the command that is printed name the seeds that were drawn, in place of --seed fresh."""
    words, kept = iter(list(arguments)), list[str]()
    for word in words:
        if word == "--seed":
            next(words, None)
        elif not word.startswith("--seed="):
            kept.append(word)
    arguments[:] = [*kept, *(word for seed in seeds for word in ("--seed", str(seed)))]


def with_command(result: Result) -> Result:
    """A result that says which command repeats it."""
    made: Any = result
    seed = made.seed if getattr(made, "seed_drawn", False) else None
    repeated: Result = replace(made, command=command_line(seed))
    return repeated


def load_all(names: Sequence[str], quick: bool, image_size: int | None) -> list["Environment"]:
    """Environments with the images' side that --quick or --image-size asks for."""
    from attributionlab.verdicts import named_environments

    if quick and image_size not in (None, QUICK_SIZE):
        raise AttributionLabError(
            f"--image-size is {image_size}, --quick takes {QUICK_SIZE}: leave one of them out"
        )
    size = QUICK_SIZE if quick else image_size
    loaded = named_environments(names, size)
    for name, env in zip(names, loaded, strict=True):
        if name.endswith(":fresh"):  # the command that is printed names the seed that was drawn
            arguments[:] = [word.replace(name, env.name) for word in arguments]
    return loaded


def parse_seed(text: str) -> int | Literal["fresh"]:
    """A seed, or "fresh"."""
    if text == "fresh":
        return "fresh"
    try:
        return int(text)
    except ValueError:
        raise AttributionLabError(
            f"--seed is {text!r}: give an integer of at least 0, or fresh"
        ) from None


@contextmanager
def saying_what_was_done() -> Iterator[None]:
    """On Ctrl-C print what a long computation had found; the interruption goes on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if str(stop):
            say(printable(str(stop)))
        raise


@contextmanager
def removed_if_refused(out: Path | None) -> Iterator[None]:
    """A command that is refused before it has any result leaves no new folder of --out."""
    from attributionlab.runs import remove_without_results

    if out is None:
        yield
        return
    made = [each for each in (out, *out.parents) if not os.path.exists(each)]
    empty = not made and os.path.isdir(out) and not os.listdir(out)
    try:
        yield
    except AttributionLabError:
        if made or empty:
            remove_without_results(out, made[1:])
        if empty:
            out.mkdir(exist_ok=True)
        raise


@contextmanager
def kept_in(out: Path | None) -> Iterator[Path]:
    """The folder where results are kept while a command works: --out, or a temporary one, which stays
    only where the command was interrupted.
    """
    if out is not None:
        with removed_if_refused(out):
            yield out
        return
    from attributionlab.runs import remove_without_results

    folder = Path(tempfile.mkdtemp(prefix="attributionlab-"))
    try:
        yield folder
    except KeyboardInterrupt:
        remove_without_results(folder)
        again = f"finished work is kept: to continue, run the same command with --out {folder}"
        say(again if folder.exists() else "nothing was finished, so nothing is kept")
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def as_far_as_done(
    title: str, out: Path | None, compute: Callable[[Path], Result]
) -> tuple[Result, KeyboardInterrupt | None]:
    """Run `compute`, which works cell by cell, with the folder for its results. Return what it found,
    with the command, and what stopped it, if anything did.
    """
    try:
        with follow(title), saying_what_was_done(), kept_in(out) as folder:
            return with_command(compute(folder)), None
    except Stopped as stop:
        if stop.result is None:
            raise
        return with_command(stop.result), stop


def status_of(named: Iterable[str], failed: Iterable[str]) -> int:
    """Exit status: 1 if something that was named on the command line failed somewhere. What was not
    named, as all built-in methods are without names, need not fit everywhere.
    """
    return int(not {printable(name) for name in named}.isdisjoint(failed))


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is a Python literal, or else a string."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise AttributionLabError(f"--set {pair!r}: write KEY=VALUE, such as n_steps=100")
        if key in settings:
            raise AttributionLabError(f"--set gives {key} twice, last by {pair!r}: give it once")
        if text.lower() in WORDS:
            settings[key] = WORDS[text.lower()]
            continue
        try:
            settings[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            settings[key] = text
    return settings


def parse_doses(words: list[str]) -> dict[str, list[float]]:
    """Doses by axis, from AXIS=NUMBER[,NUMBER...]."""
    doses: dict[str, list[float]] = {}
    for word in words:
        axis, _, numbers = word.partition("=")
        try:
            doses.setdefault(axis, []).extend(float(each) for each in numbers.split(","))
        except ValueError:
            raise AttributionLabError(
                f"--dose is {word!r}: write AXIS=NUMBER[,NUMBER...], such as share=0,0.5,1"
            ) from None
    return doses
