"""A command that a program calls leaves the program's process as it was."""

import pytest
from torch import nn

from attributionlab.cli import main
from unchanged import nothing_changes

SMALL = ["--n", "2", "--image-size", "24"]
SWEEP = """
environments = [{ name = "multi-color-sum", image_size = 12 }]
methods = ["random"]
n = 1
"""
COMMANDS = {
    "list": ["list"],
    "show": ["show", "multi-color-sum"],
    "verify": ["verify", "single-color-sum"],
    "test": ["test", "saliency", "--env", "multi-color-sum", *SMALL],
    "refused": ["test", "no-such-method"],
    "compare": ["compare", "saliency", "--env", "multi-color-sum", *SMALL, "--out", "{new}"],
    "metric": ["metric", "sparsity", "--n", "2", "--image-size", "12"],
    "export": ["export", "multi-color-sum", *SMALL, "--out", "{new}"],
    "live": ["live", *SMALL, "--out", "{new}.html"],
    "reproduce": ["reproduce", "table-1", "--quick", "--out", "{new}"],
    "sweep": ["sweep", "{sweep}", "--out", "{new}"],
    "leaderboard": [
        "leaderboard",
        "saliency",
        "occlusion",
        "--quick",
        "--n",
        "1",
        "--out",
        "{new}",
    ],
}
"""What each leaves is in a folder of its own."""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_changes_nothing_of_the_process(name, tmp_path, capsys, without_shape_checks):
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(SWEEP, encoding="utf-8")

    def run(folder):
        return main([each.format(new=tmp_path / folder, sweep=sweep) for each in COMMANDS[name]])

    status = run("first")  # what is imported at the first call sets what it sets
    assert status == 2 if name == "refused" else status in (0, 1, 3)
    with nothing_changes(nn.Identity()):
        assert run("second") == status
    capsys.readouterr()
