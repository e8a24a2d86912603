"""The command `live`: a page whole or not at all, refusals of one line."""

import json
import re

import pytest

from attributionlab.cli import app as cli
from attributionlab.cli import paths
from attributionlab.verdicts.faithfulness import protocol

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


@pytest.mark.parametrize(("env", "kind"), [("word-counts", "a world of"), ("tokens", "a set of")])
def test_what_has_no_images_is_refused_without_a_word_of_an_image_size(env, kind, capsys):
    assert cli.main(["live", "--env", env, "--out", "page.html"]) == 2
    said = capsys.readouterr().err
    assert f"--env is {env!r}, {kind} " in said
    assert "image_size" not in said


def test_the_command_line_knows_every_set_of_environments():
    assert {*paths.SETS} == {*protocol.SETS}
