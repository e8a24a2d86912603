"""The course: every notebook runs from top to bottom, and is stored without outputs."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

import attributionlab as al

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS_PER_CELL = 600  # for a hanging cell only: seconds on an idle machine, minutes on a busy one
# Side of the images in the notebooks, and one at which all that they assert holds too, in a third of
# the time.
SIDE, SMALLER = 72, 56
TERMINAL_COLORS = re.compile(r"\x1b\[[0-9;]*m")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def run(notebook: NotebookNode, folder: Path) -> None:
    """Run all cells in a new kernel; fail with the source and the error of the first that raises."""
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=SECONDS_PER_CELL,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        message = TERMINAL_COLORS.sub("", str(error))
        raise pytest.fail.Exception(message, pytrace=False) from None


@pytest.fixture
def kernel(monkeypatch):
    """Kernels find the package under test, installed or not, and draw pictures as in a browser."""
    monkeypatch.setenv("PYTHONPATH", str(Path(al.__file__).parent.parent))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")


@pytest.mark.parametrize("side", [SMALLER, pytest.param(SIDE, marks=pytest.mark.slow)])
@pytest.mark.notebooks
@each_notebook
def test_a_notebook_runs_from_top_to_bottom(path, side, kernel):
    notebook = read(path)
    for cell in notebook.cells:
        cell.source = cell.source.replace(f"image_size={SIDE}", f"image_size={side}")
    run(notebook, path.parent)


@pytest.mark.notebooks
def test_kernels_run_this_python_and_the_package_under_test(tmp_path, kernel):
    cell = nbformat.v4.new_code_cell(
        "import sys, attributionlab; print(sys.executable, attributionlab.__file__, sep='\\n')"
    )
    run(nbformat.v4.new_notebook(cells=[cell]), tmp_path)
    assert cell.outputs[0].text.splitlines() == [sys.executable, al.__file__]


@pytest.mark.notebooks
def test_a_broken_cell_fails_with_its_source_and_its_error(tmp_path, kernel):
    cells = [nbformat.v4.new_code_cell(source) for source in ("half = 1 / 2", "assert half == 1")]
    with pytest.raises(pytest.fail.Exception, match=r"(?s)assert half == 1.*AssertionError"):
        run(nbformat.v4.new_notebook(cells=cells), tmp_path)


@pytest.mark.skipif(not FOLDER.exists(), reason="needs a checkout")
def test_the_course_is_found():
    assert NOTEBOOKS


@each_notebook
def test_a_notebook_is_stored_without_outputs_and_without_traces_of_a_run(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        assert cell.metadata == {}, cell.id
        if cell.cell_type == "code":
            assert cell.outputs == [], cell.id
            assert cell.execution_count is None, cell.id


@each_notebook
def test_code_comes_after_an_explanation(path):
    assert read(path).cells[0].cell_type == "markdown"
