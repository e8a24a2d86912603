"""The command `live`: a page whole or not at all, refusals of one line."""

import json
import re

import pytest

from attributionlab.cli import app as cli

LIVE = ("live", "--image-size", "24", "--n", "1", "--env")


def document_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="document">(.*?)</script>', text)[1])


@pytest.mark.long
def test_the_page_is_written_and_says_how(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*LIVE, "uniform-accumulator", "--out", "page.html"]) == 0
    said = capsys.readouterr().out
    page = tmp_path / "page.html"
    assert f"page.html: uniform-accumulator, 1 image, {page.stat().st_size:,} bytes" in said
    assert "attributionlab live --image-size 24" in page.read_text(encoding="utf-8")
    main = document_of(page)["subjects"][0]
    assert (main["name"], main["side"], len(main["targets"])) == ("uniform-accumulator", 24, 1)
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.long
def test_the_page_is_of_multi_color_sum_at_72_by_default(tmp_path):
    assert cli.main(["live", "--out", str(tmp_path / "page.html")]) == 0
    main = document_of(tmp_path / "page.html")["subjects"][0]
    assert (main["name"], main["side"], len(main["targets"])) == ("multi-color-sum", 72, 4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("multi-color-sun",), ("multi-color-sun", "multi-color-sum"), id="name"),
        pytest.param(("quadrants", "--n", "0"), ("n is 0",), id="n"),
        pytest.param(("quadrants", "--image-size", "16"), ("16 x 16", "24 to 128"), id="small"),
        pytest.param(("quadrants", "--image-size", "300"), ("300 x 300", "24 to 128"), id="large"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(tmp_path, capsys, arguments, words):
    assert cli.main([*LIVE, *arguments, "--out", str(tmp_path / "page.html")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert all(each in line for each in words)
    assert list(tmp_path.iterdir()) == []


def test_a_page_never_takes_the_place_of_the_design_it_reads(tmp_path, capsys):
    design = tmp_path / "mine.toml"
    design.write_text("claim = 'none'", encoding="utf-8")
    assert cli.main([*LIVE, str(design), "--out", str(design)]) == 2
    assert "--out" in capsys.readouterr().err
    assert design.read_text(encoding="utf-8") == "claim = 'none'"


def test_a_folder_that_is_missing_is_told_before_the_work(tmp_path, capsys):
    assert cli.main([*LIVE, "quadrants", "--out", str(tmp_path / "no" / "page.html")]) == 2
    assert "no folder" in capsys.readouterr().err
