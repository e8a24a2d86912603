"""The script of docs/exchange.md runs where torch cannot be imported, and says what we say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.worlds.nets import EQUIVALENT
from cases import SMALL_ENVIRONMENTS

PAGE = (Path(__file__).parents[1] / "docs" / "exchange.md").read_text(encoding="utf-8")
[SCRIPT] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROUNDING = 6 * 2.0**-24
"""How far F1 may differ, in relation to itself: we round maps to float32 and divide, so each value, and
each sum of values, all positive, is off by at most 3 * 2^-24; F1 is a quotient of two such sums."""
SOFTMAX = 24 * 2.0**-24
"""How far probabilities may differ: in either library exponentials are right up to two units in the
last place, above and below the line (8 * 2^-24), three sums and the quotient add 4 * 2^-24."""

NO_TORCH = "raise ImportError('there is no torch here')"
PROOF = """
try:
    import torch
except ImportError:
    pass
else:
    raise SystemExit("torch is there")
assert "attributionlab" not in sys.modules
np.save("logits.npy", run(images, "logit"))
"""


@pytest.fixture
def without_torch(tmp_path):
    """What runs the script in a folder, where neither torch nor the package can be imported."""
    for name in ("torch", "attributionlab", "safetensors"):
        (tmp_path / "hidden").mkdir(exist_ok=True)
        (tmp_path / "hidden" / f"{name}.py").write_text(NO_TORCH)
    (tmp_path / "without_torch.py").write_text(SCRIPT + PROOF, encoding="utf-8")

    def run(export):
        done = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "without_torch.py", str(export)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "hidden")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return dict(line.split() for line in done.stdout.splitlines())

    return run


@pytest.mark.long
@pytest.mark.parametrize("name", ["multi-color-sum", "number-checker"])
def test_the_script_gives_our_logits_and_our_f1(tmp_path, without_torch, name):
    env = al.load(name, image_size=24)
    out = al.export_environment(env, tmp_path / "export", n=3)
    said = without_torch(out)
    images, _ = env.batch(3)
    assert (np.load(tmp_path / "logits.npy") == env.model(images).detach().numpy()).all()
    result = al.score_export(out, tmp_path / "maps.npz").environments[0]
    assert list(said) == ["overall", "positive", "negative"]
    for part, f1 in said.items():
        ours = result.mean(part, "f1")
        if ours is None:
            assert f1 == "None"
        else:
            assert float(f1) == pytest.approx(ours, rel=ROUNDING)
    assert 0.5 < float(said["overall"]) <= 1


def runner(folder):
    """The page's `run` and what it reads, without the maps and scores."""
    namespace = {"__name__": "page"}
    head = SCRIPT.partition("\narrays = ")[0].replace("sys.argv[1]", repr(str(folder)))
    exec(compile(head, "exchange.md", "exec"), namespace)
    return namespace["run"]


SMALL = ("multi-color-sum-distractors", {"image_size": 16})
NETWORKS = {
    **{name: (name, overrides) for name, overrides in SMALL_ENVIRONMENTS},
    **{form: (SMALL[0], SMALL[1] | {"implementation": form}) for form in EQUIVALENT},
    **{f"seed {seed}": (SMALL[0], SMALL[1] | {"camouflage_seed": seed}) for seed in range(3)},
    "gray": ("number-checker", {"image_size": 20, "camouflage_seed": 1}),
    "modulo": ("single-color-modulo", {"image_size": 20, "camouflage_seed": 1}),
}


@pytest.mark.parametrize("case", NETWORKS)
@torch.no_grad()
def test_the_scripts_network_is_ours_on_any_image_of_integers(tmp_path, case):
    name, overrides = NETWORKS[case]
    env = al.load(name, **overrides)
    run = runner(al.export_environment(env, tmp_path / "export", n=2))
    images, _ = env.batch(2)
    rng = np.random.default_rng(0)
    unseen = rng.integers(0, env.max_value, (3, *images.shape[1:]), endpoint=True)
    for batch in (images.numpy(), unseen.astype(np.float32)):
        tensor = torch.from_numpy(batch)
        assert (run(batch, "logit") == env.model(tensor).numpy()).all()
        if env.softmax_model is not None:
            ours = env.softmax_model(tensor).numpy()
            np.testing.assert_allclose(run(batch, "probability"), ours, rtol=0, atol=SOFTMAX)


def test_the_script_is_short_and_needs_numpy_alone():
    assert set(re.findall(r"^(?:import|from) (\w+)", SCRIPT, re.MULTILINE)) == {
        "json",
        "numpy",
        "pathlib",
        "sys",
    }
    assert len([line for line in SCRIPT.splitlines() if line.strip()]) <= 42
