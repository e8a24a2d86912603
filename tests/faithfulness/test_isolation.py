"""A user's method runs in a process of its own, and nothing it does there counts here."""

import hashlib
import json
import os
import pickletools
import platform
import subprocess
import sys
import textwrap
import threading
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from captum.attr import Saliency
from safetensors.torch import save

import attributionlab as al
from attributionlab.base import Answer, AttributionLabError, Ended, Process, files_read
from attributionlab.cli import main
from attributionlab.show import INSIDE
from attributionlab.verdicts import own_process
from attributionlab.verdicts.faithfulness import isolation
from attributionlab.verdicts.faithfulness.isolation import as_tested
from attributionlab.verdicts.faithfulness.protocol import bound_seed, source_of
from cases import loaded

pytestmark = [
    pytest.mark.isolated,
    pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning"),
]

colors = loaded("multi-color-sum-distractors", image_size=24)
quadrants = loaded("quadrants", image_size=24)


@pytest.fixture
def file(tmp_path):
    """Write a file of methods; result: its path."""

    def write(text, name="attack.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def children():
    return psutil.Process().children(recursive=True)


def numbers(report):
    """All that a method can be judged by, and what is said of it."""
    return [
        (
            each.name,
            each.attributions.tobytes(),
            {k: v["f1"].tolist() for k, v in each.scores.items()},
        )
        for each in report.environments
    ], [each for each in report.warnings if INSIDE not in each]


RIGHT = """
import random
import numpy as np
import torch
from attributionlab.methods.notices import Notice, notify

def gradient(model, inputs, targets, *, baseline):
    inputs = inputs.clone().requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return (inputs.grad * (inputs - baseline)).detach()

def changing(model, inputs, targets):
    inputs += 1
    targets += 1
    next(model.parameters()).data.zero_()
    return inputs.double()

def drawing(model, inputs, targets, *, generator, strength=1.0):
    drawn = torch.randn(inputs.shape, generator=generator) + torch.rand(inputs.shape)
    drawn += random.random() + torch.from_numpy(np.random.rand(*inputs.shape))
    return strength * drawn

def told(model, inputs, targets, *, patches):
    notify(Notice("are told of, at worst {worst}", 1, (0.25,), 0.5, patches, "error"))
    return patches

class Layered:
    claim = "overall"

    def __init__(self, model, layer):
        self.model, self.layer = model, layer

    def attribute(self, inputs, target):
        kept = []
        handle = self.layer.register_forward_hook(lambda *each: kept.append(each[2]))
        with torch.no_grad():
            self.model(inputs)
        handle.remove()
        coarse = kept[0].sum(1, keepdim=True)
        return torch.nn.functional.interpolate(coarse, inputs.shape[2:]).bfloat16()
"""


@pytest.mark.parametrize(
    "name",
    [
        "gradient",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ("changing", "drawing", "told", "Layered")
        ),
    ],
)
def test_what_runs_alone_gives_the_same_numbers_and_notices(name, file, colors, quadrants):
    method = f"{file(RIGHT)}:{name}"
    alone, inside = (
        al.faithfulness_test(method, [colors, quadrants], n=3, seed=1, isolated=isolated)
        for isolated in (True, False)
    )
    assert numbers(alone) == numbers(inside)
    assert alone.claim == inside.claim
    assert [INSIDE in " ".join(each.warnings) for each in (alone, inside)] == [False, True]
    assert INSIDE in " ".join(repr(inside).split())


def test_one_process_serves_all_environments_and_none_is_left(file, colors, quadrants, monkeypatch):
    started = []
    monkeypatch.setattr(own_process, "Process", lambda *given: started.append(1) or Process(*given))
    before = children()
    al.faithfulness_test(f"{file(RIGHT)}:gradient", [colors, quadrants], n=2, also=None)
    assert started == [1]
    assert children() == before


FAULTS = """
import pathlib, store_cases

def method(model, inputs, targets):
    pathlib.Path("PATH").write_text(str(store_cases.page_faults(None)))
    return inputs
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc is set on glibc alone")
def test_the_process_keeps_memory_that_is_freed(file, colors, tmp_path):
    path = file(FAULTS.replace("PATH", str(tmp_path / "faults")))
    al.faithfulness_test(f"{path}:method", [colors], n=2, also=None)
    assert int((tmp_path / "faults").read_text()) < 1000  # 64 MiB are 16,384 pages


def test_what_the_laboratory_and_captum_bring_starts_no_process(monkeypatch):
    monkeypatch.setattr(own_process, "Process", None)
    maps = np.zeros((1, 1, 4, 4))
    for method in (
        "saliency",
        "oracle",
        "captum.attr:Saliency",
        Saliency,
        al.methods.saliency,
        maps,
    ):
        assert not isinstance(as_tested(method), isolation.Apart)
        assert not isolation.is_users(as_tested(method))


SPY = """
import gc, json, os, sys

def spy(model, inputs, targets, *, path):
    frames, frame = [], sys._getframe()
    while frame:
        frames += [type(each).__name__ for each in frame.f_locals.values()]
        frame = frame.f_back
    found = sorted({type(each).__name__ for each in gc.get_objects()} | set(frames))
    environments = [each for each in gc.get_objects() if type(each).__name__ == "Call"]
    with open(path, "w") as file:
        json.dump([os.getpid(), found, [each.environment for each in environments]], file)
    return inputs
"""


def test_no_truth_no_question_and_no_environment_is_in_its_process(file, tmp_path, colors):
    told = tmp_path / "told.json"
    al.faithfulness_test(f"{file(SPY)}:spy", colors, n=2, settings={"path": str(told)})
    pid, kinds, environments = json.loads(told.read_text())
    assert pid != os.getpid()
    assert {"Call", "Conv2d", "Softmax"} <= set(kinds)  # it looked at the right place
    hidden = {"Truth", "Question", "Questions", "Environment", "Setup", "Batch", "Sample", "Spec"}
    assert not hidden & set(kinds)
    assert set(environments) == {isolation.PLACE}


@pytest.mark.parametrize("name", ["multi-color-sum-distractors", "quadrants", "all-four"])
def test_what_is_sent_names_no_class_that_knows_the_truth(name, monkeypatch):
    """Of the laboratory, a request holds nothing but networks and the request itself."""
    sent = []
    monkeypatch.setattr(own_process._Alone, "ask", lambda *given: sent.append(given[1:3]) or 1 / 0)
    monkeypatch.setattr(own_process, "Process", lambda *_: None)
    monkeypatch.setattr(own_process, "_end_but", lambda *_: None)
    env = al.load(name, image_size=24)

    def method(model, inputs, targets, *, baseline, layers, patches, generator, reference_images):
        return inputs

    with pytest.raises((ZeroDivisionError, AttributeError)):
        al.faithfulness_test(method, env, n=2, also=None)
    once, request = sent[0]
    packed = own_process._packed(({**once, "sent": ""}, request))
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        [pickled] = [each for each in archive.namelist() if each.endswith("data.pkl")]
        read = list(pickletools.genops(archive.read(pickled)))
    texts = {str(given) for _, given, _ in read if given is not None}
    modules = {each.split()[0] for each in texts if each.startswith("attributionlab.")}
    allowed = ("attributionlab.worlds.nets", "attributionlab.verdicts.faithfulness.isolation")
    modules -= {"attributionlab.methods.calling"}  # the call
    assert not {each for each in modules if not each.startswith(allowed)}
    assert not {each for each in texts if name in each or "rule" in each or "truth" in each}


HARMLESS = """
def attack(model, inputs, targets):
    return inputs
"""
ATTACKS = {
    "frames": """
        import sys
        def attack(model, inputs, targets):
            frame = sys._getframe()
            while frame:
                for name, value in frame.f_locals.items():
                    if hasattr(value, "truth"):
                        value.truth.signed[:] = 1
                frame = frame.f_back
            return inputs
    """,
    "collected objects": """
        import gc
        def attack(model, inputs, targets):
            for each in gc.get_objects():
                if type(each).__name__ == "Truth":
                    each.signed[:] = 0
            return inputs
    """,
    "patches at import": """
        import attributionlab.verdicts.faithfulness.setup, attributionlab.metrics
        import attributionlab.verdicts.faithfulness.isolation as isolation
        attributionlab.verdicts.faithfulness.setup.alignment = None
        attributionlab.metrics.alignment = None
        attributionlab.verdicts.faithfulness.setup.normalize = None
        print("pass")
        def attack(model, inputs, targets):
            return inputs
    """,
    "modules, variables, modes": """
        import os, sys, torch
        def attack(model, inputs, targets):
            os.environ["OMP_NUM_THREADS"] = "x"
            sys.stdout.write("pass\\n")
            os.write(1, b"pass\\n")
            torch.Tensor.abs = None
            torch.set_default_dtype(torch.float64)
            sys.path.clear()
            return inputs
    """,
    "at exit": """
        import atexit, os, sys, threading, time
        atexit.register(os._exit, 0)
        atexit.register(print, "pass")
        def attack(model, inputs, targets):
            threading.Thread(target=time.sleep, args=(60,)).start()
            return inputs
    """,
    "forked": """
        import os
        def attack(model, inputs, targets):
            os.fork()
            return inputs
    """,
}


@pytest.fixture(scope="module")
def harmless(tmp_path_factory, colors):
    path = tmp_path_factory.mktemp("harmless") / "attack.py"
    path.write_text(HARMLESS)
    return numbers(al.faithfulness_test(f"{path}:attack", colors, n=2))


@pytest.mark.parametrize(
    "attack",
    [
        "frames",
        "patches at import",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ATTACKS
            if each not in ("frames", "patches at import")
        ),
    ],
)
def test_what_it_does_changes_neither_its_score_nor_anything_here(
    attack, file, colors, harmless, capfd
):
    from attributionlab import metrics
    from attributionlab.verdicts.faithfulness import setup

    before = metrics.alignment, setup.alignment, setup.normalize, dict(os.environ), [*sys.path]
    others = children()
    report = al.faithfulness_test(f"{file(ATTACKS[attack])}:attack", colors, n=2)
    assert numbers(report) == harmless
    after = metrics.alignment, setup.alignment, setup.normalize, dict(os.environ), [*sys.path]
    assert after == before
    assert capfd.readouterr().out == ""
    assert children() == others


ENDS = {
    "os.kill(os.getpid(), signal.SIGKILL)": "signal SIGKILL.*isolated=False",
    "ctypes.CDLL(None)._exit(0)": "exit status 0.*isolated=False",
    "ctypes.string_at(0)": "signal SIGSEGV",
    "os.closerange(3, 100)": "pipe|exit status",
    "flood()": "pipe|ended",
    "os.killpg(0, signal.SIGTERM)": "signal SIGTERM",
    "forked_and_killed()": "signal SIGKILL",
    "os._exit(0)": r"raised RuntimeError: os\._exit\(0\)",
    "sys.exit(0)": "raised SystemExit: 0",
    "fail()": r"raised KeyboardInterrupt",
    "sys.setrecursionlimit(10**9) or deep()": "raised|signal",
}
ENDING = """
import ctypes, os, resource, signal, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def fail():
    raise KeyboardInterrupt

def flood():
    for each in range(3, 50):
        try:
            os.write(each, b"x" * 64)
        except OSError:
            pass

def forked_and_killed():
    parent = os.getpid()
    if os.fork():
        time.sleep(60)
    os.kill(parent, signal.SIGKILL)
    time.sleep(60)

def deep():
    return deep()

def attack(model, inputs, targets):
    {body}
    return inputs
"""


@pytest.mark.parametrize(
    "body",
    [next(iter(ENDS)), *(pytest.param(each, marks=pytest.mark.long) for each in [*ENDS][1:])],
)
def test_its_end_ends_the_test_with_a_line(body, file, colors, capfd):
    path = file(ENDING.format(body=body))
    others = children()
    with pytest.raises(al.AttributionLabError, match=ENDS[body]) as caught:
        al.faithfulness_test(f"{path}:attack", colors, n=2)
    assert len(str(caught.value).splitlines()) == 1
    assert f"{path}:attack" in str(caught.value) or "attack raised" in str(caught.value)
    assert "multi-color-sum-distractors" in str(caught.value)
    assert capfd.readouterr().out == ""
    assert children() == others


@pytest.mark.long
def test_the_status_is_2_and_a_loud_method_has_the_same_output(file, capfd):
    options = ["--env", "multi-color-sum", "--n", "2", "--image-size", "24"]
    killed = file(ENDING.format(body="os.kill(os.getpid(), signal.SIGKILL)"))
    assert main(["test", f"{killed}:attack", *options]) == 2
    out, said = capfd.readouterr()
    assert out == ""
    assert "SIGKILL" in said
    found = []
    for text in (HARMLESS, HARMLESS.replace("return", "print('pass'); return")):
        file(text)
        status = main(["test", f"{killed}:attack", *options])
        found.append((status, capfd.readouterr().out))
    assert found[0] == found[1]
    assert found[0][1]


def test_only_numbers_come_back(file, colors, tmp_path, harmless):
    """Of a subclass of tensors, whose every use runs code, this process sees the numbers."""
    note = tmp_path / "ran"
    path = file(
        f"""
        import os
        import torch

        def ran():
            with open({str(note)!r}, "a") as file:
                file.write(f"{{os.getpid()}}\\n")

        class Evil(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, given=(), named=None):
                ran()
                return super().__torch_function__(function, types, given, named or {{}})

            def __reduce_ex__(self, protocol):
                return ran, ()

        def attack(model, inputs, targets):
            return inputs.as_subclass(Evil)
        """
    )
    assert numbers(al.faithfulness_test(f"{path}:attack", colors, n=2)) == harmless
    assert str(os.getpid()) not in note.read_text().split()


class Bound:
    """Holds what cannot be sent."""

    def __init__(self, lock=None):
        self.lock, self.factor = lock, 2.0

    def __call__(self, model, inputs, targets):
        return self.factor * inputs

    def explain(self, model, inputs, targets):
        return self.factor * inputs


@pytest.mark.long
def test_functions_of_all_kinds_are_sent(colors, harmless):
    factor = 2.0

    def closure(model, inputs, targets):
        return factor * inputs

    with own_process.processes_ended():
        for method in (closure, lambda model, inputs, targets: inputs, Bound(), Bound().explain):
            report = al.faithfulness_test(method, colors, n=2)
            assert numbers(report)[0][0][1] == harmless[0][0][1]  # maps are scaled


def test_what_cannot_be_sent_is_refused_in_a_line_with_the_remedy(colors, harmless):
    method = Bound(threading.Lock())
    with pytest.raises(al.AttributionLabError, match=r"cannot be sent.*isolated=False") as caught:
        al.faithfulness_test(method, colors, n=2)
    assert len(str(caught.value).splitlines()) == 1
    report = al.faithfulness_test(method, colors, n=2, isolated=False)
    assert numbers(report)[0][0][1] == harmless[0][0][1]


def test_an_instance_that_holds_a_network_is_refused(colors):
    class Own(Saliency):
        pass

    with pytest.raises(al.AttributionLabError, match="pass the class"):
        al.faithfulness_test(Own(colors.softmax_model), colors, n=2, one_network=True)
    assert al.faithfulness_test(Own, colors, n=2, one_network=True).environments


@pytest.mark.long
def test_a_script_is_not_run_again(tmp_path):
    """Without `if __name__ == "__main__"`, with a function of the script itself."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import attributionlab as al
            print("begun")
            def method(model, inputs, targets):
                return inputs
            env = al.load("multi-color-sum", image_size=24)
            print(al.faithfulness_test(method, env, n=2).method)
            """
        )
    )
    path = {**os.environ, "PYTHONPATH": str(Path(al.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, str(script)], env=path, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "begun\nmethod\n", done.stderr


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits need a system with os.fork")
def test_a_method_that_hangs_ends_with_the_command(file, tmp_path):
    pid = tmp_path / "pid"
    hanging = file(
        f"""
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        def attack(model, inputs, targets):
            with open({str(pid)!r}, "w") as file:
                file.write(str(os.getpid()))
            time.sleep(600)
        """
    )
    command = [sys.executable, "-m", "attributionlab", "test", f"{hanging}:attack", "--n", "2"]
    command += ["--env", "multi-color-sum", "--image-size", "24", "--time-limit", "30"]
    path = {**os.environ, "PYTHONPATH": str(Path(al.__file__).parents[1])}
    done = subprocess.run(command, env=path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 70
    assert done.stdout == ""
    assert "--time-limit" in done.stderr
    assert not psutil.pid_exists(int(pid.read_text()))


@pytest.mark.long
def test_compare_starts_a_process_for_each_method_and_goes_on_after_one_has_died(
    file, colors, quadrants, monkeypatch
):
    started = []
    monkeypatch.setattr(own_process, "Process", lambda *given: started.append(1) or Process(*given))
    killed = file(ENDING.format(body="os.kill(os.getpid(), signal.SIGKILL)"), "killed.py")
    methods = [f"{killed}:attack", f"{file(HARMLESS)}:attack", "saliency"]
    comparison = al.compare(methods, [colors, quadrants], n=2)
    assert {each.method for each in comparison.refusals} == {methods[0]}
    assert all("SIGKILL" in each.reason for each in comparison.refusals)
    assert {report.method for report in comparison.reports} == {*methods[1:]}
    assert len(started) == 1 + 2  # one for two environments, and a new one after a death
    alone = al.compare("saliency", [colors, quadrants], n=2).to_frame()
    beside = comparison.to_frame()
    assert beside[beside.method == "saliency"].f1.to_list() == alone.f1.to_list()


def test_other_files_a_method_reads_are_known_here(file, colors, tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("3")
    path = file(
        f"""
        import helper_of_attack
        def attack(model, inputs, targets):
            with open({str(data)!r}) as read:
                return inputs * int(read.read())
        """
    )
    helper = file("", "helper_of_attack.py")
    with own_process.processes_ended():
        method = as_tested(f"{path}:attack")
        code, seed, source = isolation.fingerprint_of(method), bound_seed(method), source_of(method)
        al.faithfulness_test(f"{path}:attack", colors, n=2)
        helper.write_text("# changed")
        again = as_tested(f"{path}:attack")
    assert {str(path), str(helper)} <= code.files
    assert "data.txt" in [Path(name).name for name, _ in files_read(code.files)]
    assert source["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert code != isolation.fingerprint_of(again)
    assert seed != bound_seed(again)


@pytest.mark.parametrize("body", [b"", b"x" * 15, save({"maps": torch.ones(4)})[:-1]], ids=len)
def test_maps_that_cannot_be_read_are_refused(body):
    with pytest.raises(Ended, match="wrote no arrays"):
        own_process.arrays_in(Answer({}, bytearray(body)))


@pytest.mark.parametrize(
    "told",
    [
        None,
        [None],
        [["text", 1, [], 0.0, None, "no such kind", []]],
        [["text", "x", [], 0.0, None, "", []]],
        [["text", 1, ["x"], 0.0, None, "", []]],
        [["text", 1, [], 0.0, "3", "", []]],
        [["text", 1, [], 0.0, None, "", ["x"]]],
        [["text", 1, [], 0.0, None, [], []]],
        [["text", 1, [], 0.0, None, "", []]] * (isolation.MOST_NOTICES + 1),
    ],
    ids=lambda told: str(told)[:40],
)
def test_notices_that_cannot_be_read_are_refused(told):
    with pytest.raises(Ended):
        isolation._notices_in(told, {})


def test_what_a_process_tells_of_a_method_is_read_as_texts_and_numbers():
    told = {"claim": ["x"], "takes": ["baseline", "no name", "baseline"], "gradient": 1, "code": 3}
    described = isolation.Described("json:loads", told)
    assert described.claim == "['x']"
    assert [*described.__signature__.parameters] == ["baseline"]
    assert described.code == isolation.Described("json:loads", {}).code
    assert described.code != isolation.Described("json:dumps", {}).code


def test_a_missing_value_is_refused_before_networks_are_made(file):
    """The text of the file does not tell it, since the function is decorated."""
    path = file(
        """
        def same(function):
            return function
        @same
        def attack(model, inputs, targets, *, sigma): ...
        class Own:
            def __init__(self, model, sigma): ...
            def attribute(self, inputs, target): ...
        """
    )
    for name in ("attack", "Own"):
        with pytest.raises(AttributionLabError, match=f"^{name}: no value for 'sigma'"):
            as_tested(f"{path}:{name}")
        assert as_tested(f"{path}:{name}", {"sigma": 1}).settings == {"sigma": 1}
    with pytest.raises(AttributionLabError, match="no value for 'sigma'"):
        as_tested(lambda model, inputs, targets, sigma: inputs)
