"""A folder with files that commands are tried on."""

from pathlib import Path

import pytest

from cli.command_line import write_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Designs, their data sets and methods, where the command is run."""
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path)
