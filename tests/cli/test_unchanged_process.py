"""A command that a program calls leaves the program's process as it was."""

import pytest
from torch import nn

from attributionlab.cli.app import main
from unchanged import nothing_changes

COMMANDS = {
    "list": ["list"],
    "show": ["show", "multi-color-sum"],
    "verify": ["verify", "single-color-sum"],
    "test": ["test", "saliency", "--env", "multi-color-sum", "--n", "2", "--image-size", "24"],
    "refused": ["test", "no-such-method"],
    "compare": ["compare", "saliency", "--quick", "--n", "2", "--image-size", "24"],
}
NEED_A_FOLDER = ("compare",)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_changes_nothing_of_the_process(name, tmp_path, capsys, without_shape_checks):
    def run(folder):
        out = ["--out", str(tmp_path / folder)] if name in NEED_A_FOLDER else []
        return main([*COMMANDS[name], *out])

    status = run("first")  # what is imported at the first call sets what it sets
    with nothing_changes(nn.Identity()):
        assert run("second") == status
    capsys.readouterr()
