"""`attributionlab` and `python -m attributionlab`: the command line."""

import sys


def main() -> int:
    """Run the command line (`attributionlab.cli.app.main`); its imports, which take a while, answer
    Ctrl-C as commands do.

    Result: the exit status.
    """
    try:
        from attributionlab.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
