"""`attributionlab demo`: a report that opens by itself, and what to do next."""

import shlex
import webbrowser
from pathlib import Path

import pytest

from attributionlab.cli import app as cli

pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """The addresses that a browser is asked to open; a folder to work in."""
    addresses = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda address: addresses.append(address) or True)
    return addresses


@pytest.mark.long
def test_the_page_is_opened_and_its_command_gives_the_same_table(opened, capsys):
    assert cli.main(["demo"]) == 0
    page = Path("attributionlab-demo.html").resolve()
    assert opened == [page.as_uri()]
    assert "integrated-gradients" in page.read_text(encoding="utf-8")
    table, _, rest = capsys.readouterr().out.partition("\nopened: attributionlab-demo.html\n")
    [again] = [line for line in rest.splitlines() if "repeat this test" in line]
    words = shlex.split(again.partition("repeat this test")[2])
    assert words[:2] == ["attributionlab", "test"]
    assert cli.main(words[1:]) == cli.FAIL
    assert capsys.readouterr().out.strip() == table.strip()
    assert len(opened) == 1


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["--no-open"], []], ids=["asked-not-to", "no-browser"])
def test_the_path_is_printed_where_nothing_opens(opened, monkeypatch, capsys, arguments):
    if not arguments:
        monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert cli.main(["demo", "--html", "page.html", *arguments]) == 0
    assert "open it in a browser: page.html\n" in capsys.readouterr().out
    assert Path("page.html").stat().st_size > 10_000
    assert opened == []
