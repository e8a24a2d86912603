"""The command line."""

from attributionlab.cli.app import main

__all__ = ["main"]
