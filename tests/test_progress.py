"""Progress: a bar and a table on a terminal, whole lines elsewhere, and no silence."""

import io
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from attributionlab.base import CELLS, follow, progress, track
from attributionlab.base.progress import FIRST_LINE, PATIENCE, Bars, Lines, Task
from attributionlab.cli import app as cli


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def shown():
    """Lines under a clock of ours, with no thread; 32 images are the work."""
    clock = Clock()
    lines = Lines(io.StringIO(), clock)
    task = Task("saliency on number-checker", 32, "images", clock())
    lines.open(task)
    return lines, task, clock


def advance(display, task, count, *item, **about):
    """What `follow` does with progress."""
    task.advance(count, *item, **about)
    display.advanced(task, count)


def written(lines):
    return lines.stream.getvalue().splitlines()


def test_a_line_comes_when_none_has_come_for_the_time_that_is_allowed(shown):
    lines, task, clock = shown
    advance(lines, task, 8)
    clock.now = FIRST_LINE - 1
    assert lines.beat() == 1
    assert written(lines) == []
    clock.now = 30
    assert lines.beat() == PATIENCE
    assert lines.beat() == PATIENCE
    assert written(lines) == ["saliency on number-checker: 8 of 32 images, 30 s, about 90 s left"]
    clock.now = 30 + PATIENCE - 1
    assert lines.beat() == 1
    assert len(written(lines)) == 1
    assert FIRST_LINE < 2.5
    assert PATIENCE < 10


def test_where_another_process_writes_the_first_line_this_one_does_not(monkeypatch):
    class Watcher:
        began, doing = -80.0, ""

        def tell(self, moment):
            pass

    monkeypatch.setattr(progress, "_watcher", Watcher())
    lines = Lines(io.StringIO(), clock := Clock())
    assert lines.patience == PATIENCE
    lines.open(Task("work", None, "", clock()))
    clock.now = 20
    lines.beat()
    assert written(lines) == ["work: 100 s"]  # since the command began


def test_failures_the_rate_and_the_time_left_on_the_clock_are_told_of_cells(shown):
    lines, task, clock = shown
    advance(lines, task, 16)  # known before: they say nothing of how fast the others are
    assert written(lines) == []
    clock.now = 10
    advance(lines, task, 1, "number-checker, 0", measured=True)
    clock.now = 20
    advance(lines, task, 1, "number-checker, 1", failed=True, measured=True)
    what = "saliency on number-checker, number-checker"
    assert written(lines) == [
        f"{what}, 0: 17 of 32 images, 10 s, 0.1 a second, about 2 min 30 s left",
        f"{what}, 1: 18 of 32 images, 1 failed, 20 s, 0.1 a second, about 2 min 20 s left",
    ]


@pytest.mark.parametrize("width", [80, 60])
def test_a_terminal_shows_cells_in_a_table(width):
    clock = Clock()
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width)
    bars = Bars(console, clock)
    task, inner = Task("maps", 40, CELLS, clock()), Task("lime on number-checker", 8, "images", 0.0)
    bars.open(task)
    advance(bars, task, 4)  # known before
    assert drawn(bars, console)[:2] == ["maps          failed", "4 of 40 done  0"]
    clock.now = 20
    advance(bars, task, 1, "one, 0", failed=True, measured=True)
    long = "integrated-gradients-true-baseline, " * 4
    advance(bars, task, 0, [long, "[/red]\x1b[31m", "two, 1", "two, 2", "two, 3"])
    table = [
        "maps          failed  a second  time left",
        "5 of 40 done  1       0.05      about 11 min 40 s",
        f"> {long[: width - 3]}…",
        r"> [/red]\x1b[31m",
        "> two, 1",
        "> 2 more",
    ]
    *shown, bar = drawn(bars, console)
    assert shown == table
    assert bar.startswith("maps ")
    assert bar.endswith("0:00:00")
    bars.open(inner)  # the cells stay in sight
    *shown, bar = drawn(bars, console)
    assert shown == table
    assert bar.startswith("lime on number-checker ")
    bars.close(inner)
    bars.close(task)
    assert drawn(bars, console) == []


def drawn(bars, console):
    """The lines on a terminal."""
    with console.capture() as capture:
        console.print(bars.shown())
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


def test_a_terminal_is_drawn_while_the_work_goes_on_and_is_empty_after_it(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(progress, "_new_display", lambda: Bars(console))
    end = time.monotonic() + 60
    with follow("comparing", 2, CELLS) as advance:
        advance(1, "lime", measured=True)
        table = r"comparing +failed +a second +time left *\s1 of 2 done .*\s> lime"
        while not re.search(table, console.file.getvalue()) and time.monotonic() < end:
            time.sleep(0.01)
    text = console.file.getvalue()
    assert re.search(table, text)
    # Erased from below: a bar, a name, a row and a heading; and the cursor is there again.
    assert text.endswith("\r\x1b[2K" + "\x1b[1A\x1b[2K" * 3 + "\x1b[?25h\r")


def test_the_end_of_the_work_is_told_at_once_and_what_lies_around_it_goes_on(shown):
    lines, task, clock = shown
    outer = Task("test saliency", None, "", -5)
    lines.tasks.insert(0, outer)
    clock.now = 60
    advance(lines, task, 32)
    lines.close(task)
    clock.now = 7_384
    lines.beat()
    assert written(lines) == [
        "saliency on number-checker: 32 of 32 images, 65 s",  # one clock for both
        "test saliency: 2 h 3 min",
    ]


def test_each_item_with_a_name_has_a_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert list(track(["a", "b"], 2, "comparing", True, "runs", str.upper)) == ["a", "b"]
    said = re.sub(r"\d+ s", "0 s", sys.stderr.getvalue())
    assert (
        said == "comparing, A: 1 of 2 runs, 0 s, about 0 s left\ncomparing, B: 2 of 2 runs, 0 s\n"
    )


def test_quick_items_share_a_line(shown):
    lines, task, clock = shown
    for clock.now in (0.1, 0.5, 1.2, 1.3):
        advance(lines, task, 8, "a")
    found = [re.search(r"\d+ of 32", line) for line in written(lines)]
    assert [each and each[0] for each in found] == ["8 of 32", "24 of 32", "32 of 32"]


def test_the_thread_writes_while_the_work_goes_on_and_ends_with_it(monkeypatch):
    written = threading.Event()

    class Stream(io.StringIO):
        def write(self, text):
            written.set()
            return super().write(text)

    monkeypatch.setattr(sys, "stderr", Stream())
    monkeypatch.setattr(progress, "FIRST_LINE", 0.01)

    def fail():
        with follow("work"), follow("inside"):
            assert written.wait(60)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not [each for each in threading.enumerate() if each.name == "progress"]
    assert re.fullmatch(r"(inside: \d+ s\n)+", sys.stderr.getvalue())


def test_nothing_is_written_and_no_thread_runs_unless_asked(capsys):
    for _ in track(range(2), 2, "work", False, "items", str):
        assert not [each for each in threading.enumerate() if each.name == "progress"]
    assert capsys.readouterr() == ("", "")


def test_work_goes_on_where_nobody_reads(monkeypatch):
    class Gone(io.StringIO):
        def write(self, _):
            raise BrokenPipeError

    for stream in (Gone(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        assert list(track("ab", 2, "work", True, name=str)) == ["a", "b"]


def test_a_narrow_terminal_shows_whole_times():
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=40)
    bars = Bars(console)
    bars.open(Task("integrated-gradients on multi-color-sum-distractors", 2, "images", 0.0))
    console.print(bars.progress.get_renderable())
    assert re.search(r"integrated-gradients on .*… \d:\d\d:\d\d\n", console.file.getvalue())


def test_names_move_no_cursor_and_are_no_markup():
    name = "maps[/red].npy \x1b[31m"
    shown = r"maps[/red].npy \x1b[31m"
    assert Task(name, 1, "images", 0.0).text(3.0, 0.0) == f"{shown}: 0 of 1 images, 3 s"
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=100)
    bars = Bars(console)
    task = Task(name, 2, "images", 0.0)
    bars.open(task)
    advance(bars, task, 1, "[/blue]")
    console.print(bars.progress.get_renderable())
    assert f"{shown}, [/blue]" in console.file.getvalue()


SLOW = """
import time
from pathlib import Path

def slow(model, inputs, targets):
    end = time.monotonic() + 60
    while not Path("seen").exists() and time.monotonic() < end:
        time.sleep(0.01)
    return inputs
"""


@pytest.mark.parametrize("command", ["test", "compare"])
def test_one_call_that_takes_long_is_not_silent_where_there_is_no_terminal(
    tmp_path, command, monkeypatch
):
    """The method waits until its reader has seen a line; without one it gives up."""
    (tmp_path / "mine.py").write_text(SLOW)
    waiting = {
        "test": "mine.py:slow on number-checker: 0 of 1 images, ",
        "compare": ": 0 of 1 cells, ",
    }

    class Pipe(io.StringIO):
        def write(self, text):
            if waiting[command] in text:
                Path("seen").touch()
            return super().write(text)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stderr", Pipe())
    monkeypatch.setattr(progress, "FIRST_LINE", 0.05)
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    arguments = [command, "mine.py:slow", "--n", "1", "--quick", "--env", "number-checker"]
    assert cli.main(arguments) in (0, 1, 3)
    assert Path("seen").exists()
    lines = sys.stderr.getvalue().splitlines()
    assert any(re.search(r": 1 of 1 (images|cells), \d+ s$", line) for line in lines)
    assert all(re.search(r"\d s( left)?$", line) for line in lines), lines


@pytest.mark.parametrize(
    "code",
    [
        "from attributionlab.base.progress import track; list(track([1], 1, 'work', True))",
        "import attributionlab.show.terminal",
        "from attributionlab.cli.app import main; main(['--help'])",
    ],
)
def test_what_is_shown_draws_none_of_pythons_random_numbers(code):
    """In a process of its own: rich draws one as it is imported."""
    drawn = f"import random; random.seed(0); {code}; print(random.random())"
    done = subprocess.run(
        [sys.executable, "-c", drawn], capture_output=True, text=True, check=True, timeout=120
    )
    assert float(done.stdout.split()[-1]) == random.Random(0).random()
