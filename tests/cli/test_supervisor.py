"""No end of strangers' code counts as a verdict: only a status sent at the very end does."""

import mmap
import os
import platform
import re
import signal
import subprocess
import sys
import time

import pytest

from attributionlab.base.progress import FIRST_LINE
from attributionlab.cli import app as cli
from attributionlab.cli.supervisor import Board
from cli.command_line import ENVIRONMENT, python
from cli.command_line import command as command_line

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with os.fork")
SUPERVISED = """
import ctypes, os, resource, signal, sys, threading, time
from attributionlab.base import progress
from attributionlab.cli import supervisor
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
def command():
{body}
sys.exit(supervisor.supervised(command, ["test", "f"]))
"""


def script(body):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return [sys.executable, "-c", SUPERVISED.format(body=lines)]


def run(body, **options):
    return python(*script(body)[1:], timeout=60, **options)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return 0", 0),
        ("return 3", 3),
        ("os.close(0)\nreturn 1", 1),
        ("os.setsid()\nreturn 4", 4),
        ("import atexit\natexit.register(os._exit, 1)\nreturn 0", 0),  # all was done before
        ("signal.signal(signal.SIGALRM, lambda *_: os._exit(1))\nreturn 0", 0),
    ],
)
def test_the_status_is_that_which_the_command_returned(body, status):
    done = run("print('said')\n" + body)
    assert (done.returncode, done.stdout, done.stderr) == (status, "said\n", "")


ENDS = {
    "exit": ("os._exit(0)", "exit status 0"),
    "exit of C": ("ctypes.CDLL(None)._exit(0)", "exit status 0"),
    "exit with our status": ("os._exit(70)", "exit status 70"),
    "verdict printed": ("os.write(1, b'f: pass')\nos._exit(0)", "exit status 0"),
    "fault": ("ctypes.string_at(0)", "SIGSEGV"),
    "abort": ("os.abort()", "SIGABRT"),
    "kill": ("os.kill(os.getpid(), 9)", "SIGKILL.*memory"),
    "unusual signal": ("os.kill(os.getpid(), signal.SIGUSR1)", "SIGUSR1"),
    "real-time signal": ("os.kill(os.getpid(), signal.SIGRTMIN + 3)", "signal 37"),
    "files closed": ("os.closerange(3, 100)\nreturn 0", "close only files"),
    "files closed and numbers taken": (
        "os.closerange(3, 100)\nkept = [os.open(os.devnull, os.O_WRONLY) for _ in range(9)]\nreturn 0",
        "close only files",
    ),
    "another pipe in its place": (
        "os.closerange(3, 100)\nkept = [os.pipe() for _ in range(9)]\nreturn 0",
        "close only files",
    ),
    "any bytes in all files": (
        "for number in range(3, 50):\n"
        "    try:\n        os.write(number, bytes(17))\n"
        "    except OSError:\n        pass\n"
        "os._exit(0)",
        "exit status 0",
    ),
    "a copy goes on alone": ("if os.fork():\n    os._exit(0)\nreturn 0", "exit status 0"),
    "handlers": (
        "for each in (signal.SIGTERM, signal.SIGINT):\n"
        "    signal.signal(each, lambda *_: os._exit(0))\n"
        "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\nreturn 0",
        "exit status 0",
    ),
    "thread": (
        "threading.Thread(target=os._exit, args=(0,)).start()\ntime.sleep(9)\nreturn 0",
        "exit status 0",
    ),
    "exception": ("raise SystemExit(0)", "exit status 0"),
    "work": (
        "with progress.follow('f on small', 3, 'images'):\n    os._exit(0)",
        "it was at: f on small; nothing it printed is a verdict",
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_no_other_end_is_a_verdict_and_one_line_says_which_it_was(case):
    body, says = ENDS[case]
    done = run(body)
    assert done.returncode == 70
    assert done.stderr.startswith("attributionlab: the command ended before it finished (")
    assert done.stderr.count("\n") == 1
    assert re.search(says, done.stderr)


def test_no_file_that_took_the_number_of_ours_is_written_to(tmp_path):
    kept = "kept = [os.open(f'{each}.txt', os.O_WRONLY | os.O_CREAT) for each in range(9)]"
    assert run(f"os.closerange(3, 100)\n{kept}\nreturn 0", cwd=tmp_path).returncode == 70
    assert {path.read_bytes() for path in tmp_path.glob("*.txt")} == {b""}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_memory_that_is_freed_is_kept_for_what_comes_next():
    faults = "resource.getrusage(resource.RUSAGE_SELF).ru_minflt"
    done = run(f"for _ in range(3):\n b'x' * 2**26\n print({faults})\nreturn 0")
    _, second, third = map(int, done.stdout.split())
    assert third - second < 2**26 // mmap.PAGESIZE // 10


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
def test_a_killed_watcher_is_no_verdict_and_takes_the_command_with_it():
    done = run("os.kill(os.getppid(), 9)\ntime.sleep(600)\nreturn 0")
    assert (
        done.returncode == -9
    )  # the command's pipes are closed, too, or the timeout would have come


ANSWERS = """
try:
    print('begun', flush=True)
    for _ in range(600):  # one that comes just before a sleep begins does not end that sleep
        time.sleep(0.1)
except KeyboardInterrupt:
    time.sleep(0.2)  # a second one would end it here
    return 130
return 0
"""


@pytest.mark.parametrize("session", [False, True])
def test_an_interrupt_reaches_the_command_once_whoever_sends_it(session):
    body = ("os.setsid()\n" * session) + ANSWERS.strip()
    with subprocess.Popen(
        script(body), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130


@pytest.mark.long
@pytest.mark.parametrize("session", [False, True])
def test_ctrl_c_on_a_terminal_reaches_the_command_once(session):
    """The terminal sends it to both processes, unless the command has left the session."""
    import pty

    body = ("os.setsid()\n" * session) + ANSWERS.strip()
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, script(body), ENVIRONMENT)
    said = b""
    while b"begun" not in said:
        said += os.read(terminal, 100)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_without_an_answer_ends_by_the_signal_and_so_does_its_watcher(number):
    body = (
        f"signal.signal({int(number)}, signal.SIG_DFL)\nprint('begun', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen(
        script(body), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == -number


def test_a_caller_that_ignores_its_children_gets_the_status():
    done = run("return 3", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == 3


@pytest.mark.long
@pytest.mark.parametrize("busy", ["time.sleep(60)", "sum(range(10**13))"])
def test_silence_is_broken_by_what_is_worked_on_even_where_python_is_locked(busy):
    started = time.monotonic()
    with subprocess.Popen(
        script(f"with progress.follow('f on small'):\n    {busy}"),
        env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        line = process.stderr.readline()
        process.kill()
    assert line.startswith("test: f on small, ")
    assert time.monotonic() - started >= FIRST_LINE


@pytest.mark.long
@pytest.mark.parametrize("ignoring", [False, True])
def test_a_limit_of_time_ends_the_command_in_order_or_else_by_force(ignoring):
    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" * ignoring
    body += "supervisor.limit('--time-limit', 0.2, seconds=0.2)\n"
    done = run(body + "with progress.follow('f on small'):\n    time.sleep(60)")
    assert done.returncode == 70
    assert "stopped after 0.2 s of --time-limit: raise the limit" in done.stderr
    assert "it was at: f on small" in done.stderr


@pytest.mark.long
def test_a_limit_of_memory_counts_all_processes():
    """A worker's memory is the command's."""
    child = "import time; kept = bytearray(400 * 2**20); time.sleep(60)"
    done = run(
        "supervisor.limit('--memory-limit', 0.3, gib=0.3)\nimport subprocess\n"
        f"subprocess.run([sys.executable, '-c', {child!r}])"
    )
    assert done.returncode == 70
    assert "more than 0.3 of --memory-limit" in done.stderr


@pytest.mark.parametrize("command", ["test", "compare", "metric"])
@pytest.mark.parametrize("option", ["--time-limit", "--memory-limit"])
def test_a_limit_that_cannot_be_kept_is_refused(command, option, capsys):
    for value, says in (
        ("0", "take a number above 0"),
        ("nan", "above 0"),
        ("9", "no other process supervises"),
    ):
        assert cli.main([command, "saliency", option, value]) == 2
        assert f"{option} is {value}" in (error := capsys.readouterr().err)
        assert says in error


def test_the_board_holds_what_both_processes_write():
    board = Board.shared()
    assert (board.seconds, board.gib, board.told) == (float("inf"), float("inf"), 0)
    board.tell(7.0)
    board.seconds, board.gib = 3, 2
    board.doing = "ü" * 5000 + "\0"
    assert (board.seconds, board.gib, board.told) == (3, 2, 7)
    assert board.doing.startswith("ü" * 200)
    assert "more" in board.doing
    board.doing = "short"
    assert board.doing == "short"


@pytest.mark.long
@pytest.mark.parametrize(
    ("option", "status", "said"),
    [("--isolation", 2, "exit status 0"), ("--no-isolation", 70, "it was at: ")],
)
@pytest.mark.parametrize("command", ["test", "compare"])
def test_a_stranger_that_ends_the_process_ends_no_command_well(
    tmp_path, command, option, status, said
):
    """Taken before anybody could guard it: Python's own guard sees no call."""
    (tmp_path / "bad.py").write_text("from os import _exit\ndef f(*_, **__):\n    _exit(0)\n")
    words = [command, "bad.py:f", "--n", "2", "--image-size", "16", "--jobs", "1", option]
    done = command_line(*words, "--json", "out.json", cwd=tmp_path)
    assert done.returncode == status
    assert said in done.stderr
    assert "bad.py:f" in done.stderr
    assert not (tmp_path / "out.json").exists()
