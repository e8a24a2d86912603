"""The command line. Imports stay inside the commands, so that `--help` answers at once."""

import ast
import io
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from attributionlab.errors import AttributionLabError

__all__ = ["app", "main"]

PASS, FAIL, REFUSED, CRASH, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 70, 130, 141

app = typer.Typer(
    name="attributionlab",
    help="A laboratory for feature attribution in which the right answer is known.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command("list")
def list_environments() -> None:
    """List environments, methods and controls."""
    from attributionlab.assess import CONTROLS
    from attributionlab.catalog import describe, environments
    from attributionlab.methods import METHODS
    from attributionlab.report import names_table, print_table

    sections = {
        "environments": {name: describe(name) for name in environments()},
        "methods": {name: _first_sentence(METHODS[name]) for name in sorted(METHODS)},
        "controls": {name: _first_sentence(CONTROLS[name]) for name in sorted(CONTROLS)},
    }
    print_table(names_table(sections))


@app.command()
def show(env: Annotated[str, typer.Argument(help="A name, or the path of a TOML file.")]) -> None:
    """Say what an environment computes, from which layers and for which images."""
    from attributionlab.catalog import load

    typer.echo(load(env).summary())


@app.command()
def verify(
    env: Annotated[
        list[str] | None,
        typer.Argument(help="Names or TOML files; the whole catalogue by default."),
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Check all 2^24 colors of every color detector.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the certificates to this file.")] = None,
) -> None:
    """Hold every network against independent oracles."""
    import json as json_format

    from attributionlab.catalog import environments, load
    from attributionlab.files import check_writable, write_atomically
    from attributionlab.report import certificates_table, print_table
    from attributionlab.verification import verify as certify

    if json:
        check_writable(json)
    loaded = [load(name) for name in env or environments()]
    certificates = [certify(each, exhaustive=exhaustive, show_progress=True) for each in loaded]
    documents = [certificate.to_dict() for certificate in certificates]
    if json:
        write_atomically(json, json_format.dumps(documents, indent=2, allow_nan=False) + "\n")
    print_table(certificates_table(documents))
    wrong = [each.environment for each in certificates if not each.passed]
    typer.echo(f"\nnot certified: {', '.join(wrong)}" if wrong else "\nno mismatches")
    raise typer.Exit(FAIL if wrong else PASS)


@app.command("test")
def run_test(
    method: Annotated[
        str, typer.Argument(help="A built-in name, path/to/file.py:name, or module:name.")
    ],
    env: Annotated[
        list[str] | None, typer.Option(help="Environment (name or TOML file); may be repeated.")
    ] = None,
    n: Annotated[int, typer.Option(help="Images in each environment.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of images and methods.")] = 0,
    gamma: Annotated[float, typer.Option(help="The F1 that must be reached.")] = 0.5,
    claim: Annotated[
        str | None, typer.Option(help="signed, overall, positive or positive-smoothed.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="probability or logit.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of the method; may be repeated."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    json: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write image, truth and attribution to this PNG.")
    ] = None,
) -> None:
    """Test whether an attribution method finds what the networks used.

    Exit status: 0 pass, 1 fail, 2 refused, 70 a crash, 130 interrupted, 141 nobody reads the table.
    """
    from attributionlab.faithfulness import faithfulness_test
    from attributionlab.files import check_writable, write_atomically
    from attributionlab.report import print_table, report_table

    for path in (json, figure):
        if path:
            check_writable(path)
    if figure and figure.suffix.lower() != ".png":
        raise AttributionLabError(f"--figure is {str(figure)!r}: figures are PNG files, name it so")
    if json and figure and json.resolve() == figure.resolve():
        raise AttributionLabError(f"--json and --figure are both {str(json)!r}: give two paths")
    report = faithfulness_test(
        method,
        env or None,
        n,
        seed,
        gamma,
        claim,  # type: ignore[arg-type]
        output,  # type: ignore[arg-type]
        settings=_settings(set_ or []),
        device=device,
        show_progress=True,
        command=shlex.join(["attributionlab", *_arguments]),
    )
    if figure:
        from attributionlab.report import report_figure, to_png

        write_atomically(figure, to_png(report_figure(report)))
    if json:
        report.to_json(json)
    print_table(report_table(report.to_dict()))
    raise typer.Exit(PASS if report.verdict == "pass" else FAIL)


def _settings(pairs: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is a Python literal, or else a string."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise AttributionLabError(f"--set {pair!r}: write KEY=VALUE, such as n_steps=100")
        try:
            settings[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[key] = text
    return settings


def _first_sentence(function: Any) -> str:
    return str(function.__doc__).partition("\n")[0].partition(". ")[0].rstrip(".") + "."


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


_arguments: list[str] = []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every refusal is one line on standard error.

    Returns
    -------
    int
        The exit status.
    """
    _arguments[:] = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8
    if "" not in sys.path:
        sys.path.append("")  # module:name is looked for where the user stands, behind all else
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            status = app(args=list(_arguments), standalone_mode=False)
            sys.stdout.flush()
        if status == INTERRUPTED:  # what newer versions of Typer make of Ctrl-C
            raise KeyboardInterrupt
    except AttributionLabError as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads on. Python would complain once more when it flushes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        # Typer's usage errors have a message of their own; its classes moved between versions.
        if hasattr(error, "format_message"):
            return _refuse(error.format_message())
        import traceback

        traceback.print_exc()
        print("attributionlab: this is a bug; please report the lines above", file=sys.stderr)
        return CRASH
    return status if isinstance(status, int) else PASS


def _refuse(message: str) -> int:
    if message:  # there is none where help was shown
        print(f"attributionlab: {' '.join(message.split())}", file=sys.stderr)
    return REFUSED
