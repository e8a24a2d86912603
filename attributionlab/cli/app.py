"""The command line. Imports stay inside the commands, so that `--help` answers at once."""

import errno
import inspect
import io
import os
import shutil
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from attributionlab.base import AttributionLabError, AttributionWarning, follow, printable
from attributionlab.cli import options, paths, studies, teaching
from attributionlab.cli.boards import rank_all_metrics, run_leaderboard, show_results
from attributionlab.cli.reproducing import reproduce_items
from attributionlab.cli.supervisor import ENDED, supervised
from attributionlab.cli.sweeps import merge_folders, run_sweep_file, show_status

PASS, FAIL, REFUSED, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143
SYNONYMS = {
    **dict.fromkeys(("--questions", "--images", "--samples"), "--n"),
    **dict.fromkeys(("--environment", "--environments"), "--env"),
    **dict.fromkeys(("--setting", "--settings", "--param"), "--set"),
    **dict.fromkeys(("--gpu", "--cuda"), "--device"),
    "--size": "--image-size",
    "--output": "--out",
    "--workers": "--jobs",
}
"""What options are called elsewhere."""
ALIKE = 0.8
"""Likeness from which another option may be meant: of "--seeds" and "--seed", but of no two of ours."""
LINE, LEAST, HANGING = 100, 40, 23
"""Columns of `show` where no terminal is, at least, and of names before what is said of them."""

app = typer.Typer(
    name="attributionlab",
    help="Test feature attribution methods and metrics where the right answer is known.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(given: bool) -> None:
    if given:
        from attributionlab import __version__

        typer.echo(f"attributionlab {__version__}")
        raise typer.Exit


@app.callback()
def all_commands(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options in front of a command."""


@app.command("list")
def list_names() -> None:
    """List all environments, methods, controls, metrics and reproducible results of papers."""
    from attributionlab.cli.listing import print_names

    print_names()


Written = Annotated[
    str | None,
    typer.Option(
        metavar="I", help="Implementation of the network, such as natural or transformer."
    ),
]


def written(implementation: str | None) -> dict[str, str]:
    """What `attributionlab.load` takes for the option."""
    return {} if implementation is None else {"implementation": implementation}


@app.command()
def show(
    env: Annotated[str, typer.Argument(help="A name or a TOML file.")],
    draw: Annotated[
        Path | None,
        typer.Option(
            help="Draw a small network with its weights, or the attention of a transformer's "
            "heads (.png, .pdf or .svg)."
        ),
    ] = None,
    implementation: Written = None,
    image_size: Annotated[
        int | None,
        typer.Option(
            metavar="S", help="Show it for images of S x S pixels. Default: its own size."
        ),
    ] = None,
) -> None:
    """Describe an environment: the rule it computes, its layers and its images."""
    from attributionlab.worlds import load
    from attributionlab.worlds.nets import TRAINED

    places = paths.check_paths({"draw": draw}, [env])
    sized = {} if image_size is None else {"image_size": image_size}
    loaded = load(env, **sized, **written(implementation))
    if places and loaded.implementation == TRAINED:
        raise AttributionLabError(
            f"--draw: {loaded.name} has a trained network, whose weights are too many to be read in a "
            "drawing: leave it out, or draw a network whose weights are set by hand"
        )
    if places and loaded.is_of_tokens:
        raise AttributionLabError(
            f"--draw: {loaded.name} is a world of tokens, whose heads have no image positions to draw: "
            "leave it out; the tokens that each head attends to are printed"
        )
    if places:
        figure = _drawing(loaded)
        paths.figure_writer(lambda: figure, None)(places["draw"])
        options.say(printable(f"written: {draw}"))
    hanging = textwrap.TextWrapper(
        max(shutil.get_terminal_size((LINE, 24)).columns, LEAST),
        subsequent_indent=" " * HANGING,
        break_on_hyphens=False,
    )
    for line in loaded.summary().splitlines():
        typer.echo(hanging.fill(printable(line)))


def _drawing(env: Any) -> Any:
    """A figure of a network's weights, or of the places that a transformer's heads attend to."""
    from attributionlab.show import network_drawing, place_drawing
    from attributionlab.worlds.nets import heads_of

    if heads := heads_of(env.model):
        patches = {f"head {place}\n{head}": head.patches for place, head in enumerate(heads, 1)}
        return place_drawing(heads[0].grid, patches, title=env.name)
    weighted: Any = [module for module in env.model.modules() if hasattr(module, "weight")]
    return network_drawing(
        [(each.weight.detach(), each.bias.detach()) for each in weighted],
        inputs=["R", "G", "B"] if env.recipe.channels == 3 else ["x"],
        outputs=[f"output {place}" for place in range(env.network.classes)],
        title=env.name,
    )


@app.command()
def verify(
    env: Annotated[
        list[str] | None, typer.Argument(help="Names or TOML files. Default: the whole catalog.")
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Check all 2^24 colors of every color detector.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the certificates to this file.")] = None,
    implementation: Written = None,
) -> None:
    """Verify every network against independent reference implementations."""
    import json as json_format

    from attributionlab.base import library_versions, write_atomically
    from attributionlab.show import certificates_table, print_table
    from attributionlab.worlds import environments, load
    from attributionlab.worlds import verify as certify

    paths.check_paths({"json": json}, env or [])
    with follow("verify"):
        loaded = [
            each
            for name in env or environments()
            for each in load(name, **written(implementation)).worlds
        ]
        certificates = [certify(each, exhaustive=exhaustive, show_progress=True) for each in loaded]
    versions = library_versions()
    documents = [certificate.to_dict() | {"versions": versions} for certificate in certificates]
    if json:
        write_atomically(json, json_format.dumps(documents, indent=2, allow_nan=False) + "\n")
    print_table(certificates_table(documents))
    wrong = [each.environment for each in certificates if not each.passed]
    typer.echo(f"\nnot certified: {printable(', '.join(wrong))}" if wrong else "\nno mismatches")
    raise typer.Exit(FAIL if wrong else PASS)


@app.command("test")
@paths.with_files(
    html="one page with all results",
    json="the report",
    csv="the scores of each image",
    parquet="the scores of each image",
    figure="images, truth and attribution maps (.png, .pdf or .svg)",
)
@options.with_running
@options.with_questions
def run_test(
    method: Annotated[
        str, typer.Argument(help="A built-in name, path/to/file.py:name, module:name, or maps.npy.")
    ],
    seed: Annotated[
        str,
        typer.Option(
            metavar="S",
            help="Seed of the questions: an integer, fresh (draw one), or bound (derive it from the "
            "protocol and the method's code).",
        ),
    ] = "0",
    set_: options.Settings = None,
    cite: options.Cite = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also print the scores of every part and all notes.")
    ] = False,
    *,
    asked: dict[str, Any],
    running: dict[str, Any],
    files: paths.Files,
) -> None:
    """Test whether an attribution method finds what the networks used.

    --env random:50:medium:7 tests in 50 random worlds (with seed 7; fresh draws a seed).

    Exit status: 0 pass, 1 fail, 2 wrong input, 3 inconclusive (too few questions, or the environments
    do not hide everything that the claim requires), 4 invalid (a control has the wrong result), 70 a
    crash, 130 interrupted, 141 the program reading the output has stopped, 143 terminated.
    """
    from attributionlab.show import (
        citation,
        print_table,
        report_figure,
        report_table,
        verdict_table,
    )
    from attributionlab.verdicts import FUNCTIONS, faithfulness_test

    if method in FUNCTIONS:
        raise AttributionLabError(
            f"{method} is a metric, not an attribution method: use attributionlab metric {method}"
        )
    with (
        options.saying_what_was_done(),
        follow(f"test {method}"),
        options.removed_if_refused(running["out"]),
    ):
        report = faithfulness_test(
            method,
            seed="bound" if seed == "bound" else options.parse_seed(seed),
            settings=options.parse_settings(set_ or []),
            **asked,
            **running,
        )
    report = options.with_command(report)
    with files.written(report, figure=lambda: report_figure(report)):
        print_table((report_table if verbose else verdict_table)(report.to_dict()))
        if cite:
            typer.echo(f"\n{citation(report.to_dict())}")
    raise typer.Exit(options.STATUSES[report.verdict])


@app.command()
def demo(
    html: Annotated[Path, typer.Option(help="Path of the page.")] = Path(
        "attributionlab-demo.html"
    ),
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """Test Integrated Gradients on small images and open the report in a browser.

    Exit status: 0 for any verdict, 2 wrong input, 70 crash, 130 interrupted.
    """
    import webbrowser

    from attributionlab.show import print_table, verdict_table
    from attributionlab.verdicts import faithfulness_test

    # Right in one of them and wrong in the other: the page shows both, and why.
    method, names, n, side = "integrated-gradients", ("multi-color-sum", "quadrants"), 13, 36
    words = [*("test", method), *(word for name in names for word in ("--env", name))]
    words += ["--image-size", str(side), "--n", str(n), "--implementation", "paper"]
    places = paths.check_paths({"html": html}, read=[])
    with options.saying_what_was_done(), follow("demo"):
        report = faithfulness_test(
            method, options.load_all(names, False, side), n, show_progress=True
        )
    report = replace(report, command=" ".join(["attributionlab", *words]))
    with paths.Files(places, None).written(report):
        print_table(verdict_table(report.to_dict()))
    opened = not no_open and webbrowser.open(places["html"].as_uri())
    typer.echo(
        f"\n{'opened' if opened else 'written; open it in a browser'}: {printable(str(html))}\n"
        "\nWhat next?\n"
        f"  repeat this test  {report.command}\n"
        "  your own method   attributionlab test mine.py:my_method --quick --html report.html\n"
        "                    my_method(model, inputs, targets) returns one number per pixel\n"
        "  all names         attributionlab list"
    )


@app.command("export")
def export_files(
    env: Annotated[str, typer.Argument(help="A name or a TOML file.")],
    out: Annotated[
        Path, typer.Option(help="The new folder. It is written completely or not at all.")
    ],
    n: Annotated[int, typer.Option(help="Number of images.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of the images.")] = 0,
    output: options.Explained = None,
    quick: options.Quick = False,
    image_size: options.ImageSize = None,
) -> None:
    """Export images, labels, masks and the network of an environment.

    Other frameworks can read the files without torch; `attributionlab score` scores their maps.
    """
    from attributionlab.verdicts import export_environment

    [loaded] = options.load_all([env], quick, image_size)
    export_environment(
        loaded,
        out,
        n,
        seed,
        output,  # type: ignore[arg-type]
        show_progress=True,
        command=options.command_line(),
    )
    chosen = loaded.checked_output(output)
    typer.echo(
        printable(f"{out}: {loaded.name}, {n} images, seed {seed}, masks of the {chosen}")
        + "\nnext: save a map of each image as maps.npz, then "
        + printable(f"attributionlab score {out} maps.npz")
    )


@app.command("score")
@paths.with_files(json="the report")
def score_files(
    folder: Annotated[Path, typer.Argument(help="The folder written by attributionlab export.")],
    maps: Annotated[Path, typer.Argument(help="A .npz or .npy file: one map for each image.")],
    claim: options.Claimed = None,
    cite: options.Cite = False,
    *,
    files: paths.Files,
) -> None:
    """Score attribution maps that any framework computed for exported images.

    All images share one network, so a pass proves less than a pass of attributionlab test. The exit
    status is the same as for attributionlab test.
    """
    from attributionlab.show import citation, print_table, report_table
    from attributionlab.verdicts import score_export

    if any(folder.resolve() in path.parents for path in files.places.values()):
        raise AttributionLabError(
            f"--json is in the exported folder {str(folder)!r}: choose another"
        )
    with follow(f"score {maps}"):
        report = score_export(
            folder,
            maps,
            claim,  # type: ignore[arg-type]
            show_progress=True,
        )
    report = options.with_command(report)
    with files.written(report):
        print_table(report_table(report.to_dict()))
        if cite:
            typer.echo(f"\n{citation(report.to_dict())}")
    raise typer.Exit(options.STATUSES[report.verdict])


app.command("compare")(studies.compare_methods)
app.command("metric")(studies.run_metric_test)
app.command("unseen")(studies.show_unseen)
app.command("cards")(studies.write_cards)
app.command("leaderboard")(run_leaderboard)
app.command("metrics")(rank_all_metrics)
app.command("results")(show_results)
app.command("reproduce")(reproduce_items)
app.command("live")(teaching.write_live_page)
app.command("seal")(teaching.seal_files)
app.command("check-submission")(teaching.check_files)
app.command("grade")(teaching.grade_files)
app.command("sweep")(run_sweep_file)
app.command("status")(show_status)
app.command("merge")(merge_folders)
app.command("course")(teaching.write_course)
app.command("class")(teaching.show_class)
app.command("slides")(teaching.write_slides)
app.command("train")(studies.train_file)
for _each in app.registered_commands:  # Typer keeps line ends within later paragraphs
    _text = inspect.getdoc(_each.callback) or ""
    _each.help = "\n\n".join(" ".join(part.split()) for part in _text.split("\n\n"))


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    options.say(f"warning: {printable(' '.join(str(message).split()))}")


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line; every refusal is one line on standard error. Without arguments it takes
    those of the process, and runs in a child of it (`supervised`).

    Result: the exit status.
    """
    options.arguments[:] = sys.argv[1:] if given is None else given
    _open_closed_streams()  # before the next file takes one of their numbers
    return supervised(_run, options.arguments) if given is None else _run()


def _run() -> int:
    from attributionlab.base import rich_import  # noqa: F401 (Typer imports rich)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8
    streams = sys.stdout, sys.stderr
    terminated: list[int] = []
    before = _end_on_sigterm(terminated)
    backend = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = (
        "agg"  # no window is opened; Matplotlib refuses to load with a wrong one
    )
    if "" not in sys.path:
        sys.path.append("")  # module:name is looked for where the user stands, behind all else
    try:
        _refuse_empty_values(options.arguments)
        date = os.environ.get("SOURCE_DATE_EPOCH", "0")
        if not date.isdecimal():  # NumPy and matplotlib read it
            raise AttributionLabError(
                f"SOURCE_DATE_EPOCH is {date!r}: set it to whole seconds since 1970, or unset it"
            )
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            status = app(args=list(options.arguments), standalone_mode=False)
            sys.stdout.flush()
        if status == INTERRUPTED:  # what newer versions of Typer make of Ctrl-C
            raise KeyboardInterrupt
    except (AttributionLabError, AttributionWarning) as error:  # with -W error
        return _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        options.say("terminated" if terminated else "interrupted")
        return TERMINATED if terminated else INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()
        return BROKEN_PIPE
    except SystemExit as leave:  # Typer and Rich make an exit of a closed pipe
        sys.stdout, sys.stderr = streams  # Typer has put others in their place
        if not isinstance(leave.__context__, BrokenPipeError):
            raise
        _give_up_stdout()
        return BROKEN_PIPE
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"attributionlab", *sys.stdlib_module_names}:
            return _crash()
        return _refuse(paths.not_installed(error))
    except OSError as error:  # files are answered where they are written
        if error.errno is None:  # such as for a library that cannot be loaded
            return _crash()
        if error.filename is not None:
            return _refuse(f"cannot use the file {error.filename!r}: {error.strerror}; check it")
        _give_up_stdout()
        return _refuse(f"cannot write to standard output: {error.strerror}; write elsewhere")
    except Exception as error:
        # Typer's usage errors have a message of their own; its classes moved between versions.
        if hasattr(error, "format_message"):
            return _refuse(_usage_problem(error))
        return _crash()
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
        if backend is None:
            del os.environ["MPLBACKEND"]
        else:
            os.environ["MPLBACKEND"] = backend
    return status if isinstance(status, int) else PASS


def _crash() -> int:
    """Tell the error that is being handled, as a bug of ours."""
    import traceback

    for line in traceback.format_exc().splitlines():
        options.say(printable(line))
    options.say("attributionlab: this is a bug; please report the lines above")
    return ENDED


def _usage_problem(error: Any) -> str:
    """What Typer says about a wrong command line, with the value, which Typer 0.29 leaves out, and
    where the remedy stands; empty where it has shown the help.
    """
    text = error.format_message().rstrip(".")
    if not text:
        return ""
    if hasattr(error, "possibilities") and (name := getattr(error, "option_name", "")):
        params = error.ctx.command.params if error.ctx else []
        known = [each for param in params for each in param.opts if each.startswith("--")]
        meant = [SYNONYMS[name]] if SYNONYMS.get(name) in known else []
        meant = meant or get_close_matches(name, known, n=1, cutoff=ALIKE)
        text = f"no option {name}" + "".join(f" (did you mean {each}?)" for each in meant)
        if name == "--html" and "--figure" in known:
            text += " (it writes no page: take --figure PATH, or --html PATH of the command test)"
    checked = getattr(error.__cause__, "errors", list)  # of pydantic
    values = [repr(each["input"]) for each in checked()]
    text += "".join(f"; it is {value}" for value in values if value not in text)
    commands = {
        each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands
    }
    command = [each for each in options.arguments[:1] if each in commands]
    return f"{text}: see {' '.join(['attributionlab', *command, '--help'])}"


def _end_on_sigterm(terminated: list[int]) -> Any:
    """Let SIGTERM end a command as Ctrl-C does, with what is done written; what was set before.

    Typer makes an exit of any KeyboardInterrupt, so the signal is noted beside it.
    """
    if threading.current_thread() is not threading.main_thread():
        return None

    def end(number: int, _: object) -> None:
        if not terminated:  # a cluster sends it to a command's processes, one of which passes it on
            terminated.append(number)
            raise KeyboardInterrupt

    return signal.signal(signal.SIGTERM, end)


def _refuse_empty_values(given: Sequence[str]) -> None:
    """No option takes an empty text, as an unset variable of the shell leaves it: a path without any
    text would be the current folder.
    """
    for option, value in pairwise([*given, "-"]):
        name, equals, text = option.partition("=")
        if option.startswith("--") and (value == "" if not equals else text == ""):
            raise AttributionLabError(f"{name} is '': give a value, or leave {name} out")


class _Closed(io.TextIOBase):
    """Stands for a standard output that the shell has closed."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _open_closed_streams() -> None:
    """Python has None for a stream that the shell has closed, and the next file takes its number."""
    if sys.stdout is None or sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) <= 2:  # standard error's number is 2
            pass
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for good)


def _give_up_stdout() -> None:
    """Nobody reads on; Python would complain once more when it flushes standard output."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(message: str) -> int:
    if message:  # there is none where help was shown
        options.say(f"attributionlab: {printable(' '.join(message.split()))}")
    return REFUSED
