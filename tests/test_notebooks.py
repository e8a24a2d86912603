"""The course: notebooks run, ask before they answer, and their answers are what the table says."""

import ast
import re
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

import attributionlab as al
from attributionlab.teaching.course import comparing

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ANSWERS = tomllib.loads((Path(__file__).parent / "course" / "answers.toml").read_text("utf-8"))
SOLUTIONS = tomllib.loads((Path(__file__).parent / "course" / "solutions.toml").read_text("utf-8"))
SECONDS_PER_CELL = 600  # for a hanging cell only: seconds on an idle machine, minutes on a busy one
OFFERED = re.compile(r'"([^"]+)"')
"""The words that a gate's comment offers."""
TERMINAL_COLORS = re.compile(r"\x1b\[[0-9;]*m")
PREDICTION = re.compile(r"^prediction = None\b", re.MULTILINE)
GATE = re.compile(r'^\w+ = al\.course\.predict\("([^"]+)", prediction\)$', re.MULTILINE)
SKIPPED = re.compile(r"^(\S+): (?:skipped|right \(try 1\))\. The answer: (.*)$", re.MULTILINE)
MISTAKES = (
    "no idea",  # is no Python
    "7",
    "[]",
    "len",
    "{'a': 'b'}",
    "[1, -1, None]",
    "(1, 2, 3, 4, 5, 6, 7)",
    "1j",
)

SAY_WHAT_FIGURES_SAY = """
from matplotlib.figure import Figure
from matplotlib.text import Text

def write_texts(figure, printer, cycle):
    ticks = {id(t) for axis in figure.axes for t in axis.get_xticklabels() + axis.get_yticklabels()}
    texts = [each.get_text() for each in figure.findobj(Text) if id(each) not in ticks]
    printer.text("<Figure " + " | ".join(filter(None, texts)) + ">")

get_ipython().display_formatter.formatters["text/plain"].for_type(Figure, write_texts)
"""
"""What is written in a picture tells as much as what is printed."""
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def asked(cell: NotebookNode) -> str:
    """The comment of a gate, which says what to type."""
    return re.findall(r"^prediction = None  # (.*)$", cell.source, re.MULTILINE)[0]


def options(cell: NotebookNode) -> set[str]:
    """The words among which a gate asks for one or for several."""
    words = set(OFFERED.findall(asked(cell)))
    return set("abcdefghi") if words == {"a", "i"} else words - {"ready"}


def with_predictions(notebook: NotebookNode, type_in: Callable[[str, int], str]) -> NotebookNode:
    """Type a prediction into each gate; `type_in` is given the gate's name and place."""
    typed = 0
    for cell in notebook.cells:
        if cell.cell_type == "code" and PREDICTION.search(cell.source):
            line = f"prediction = {type_in(gate_of(cell) or '', typed)}"
            cell.source = PREDICTION.sub(lambda _, line=line: line, cell.source)
            typed += 1
    return notebook


def skip(name: str, place: int) -> str:
    """Skip a question, and hand in the model solution where one writes code."""
    return '"skip"' if name not in SOLUTIONS else f'"ready"\n{SOLUTIONS[name]}'


def guess(name: str, place: int) -> str:
    """A wrong prediction, one that the gate expects where there is one, or what is none at all."""
    expected = [*comparing.known_mistakes().get(name, ())]
    mistake = MISTAKES[place % len(MISTAKES)]
    return repr(expected[0]) if expected and place % 4 else mistake


def run(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run all cells in a new kernel; fail with the source and the error of the first that raises."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SAY_WHAT_FIGURES_SAY))
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
    del notebook.cells[0]
    return notebook


def output_text(cell: NotebookNode) -> str:
    """What a cell printed or showed, pictures left out."""
    texts = [""]
    for each in cell.get("outputs", ()):
        if each.output_type == "stream":
            texts[-1] += each.text  # on a busy machine a line comes in parts
        else:
            texts += [each.get("data", {}).get("text/plain", ""), ""]
    return "\n".join(filter(None, texts))


def gate_of(cell: NotebookNode) -> str | None:
    found = GATE.search(cell.source) if cell.cell_type == "code" else None
    return found[1] if found else None


def gates(notebook: NotebookNode) -> list[str]:
    return [name for name in map(gate_of, notebook.cells) if name]


def answers(skipped: NotebookNode) -> dict[str, str]:
    """The answers that gates show where they are skipped or solved."""
    return dict(SKIPPED.findall("\n".join(map(output_text, skipped.cells))))


def pattern(answer: str) -> re.Pattern[str]:
    """An answer as it may be printed: as a list, a tuple or a tensor, with decimals or without."""
    values = [re.escape(value) + r"(?:\.0*)?" for value in answer.split(", ")]
    return re.compile(r"(?<![\w.-])" + r"[\s,;\[\]()]+".join(values) + r"(?![\w]|\.\d)", re.I)


def told(answer: str) -> re.Pattern[str] | None:
    """An answer that stands nowhere by chance, as it may be printed, rounded as well.

    Result: None for words, small integers and pairs of these.
    """
    values = comparing.values_of(answer)
    numbers = [each for each in values if isinstance(each, float)]
    fractions = [each for each in numbers if not each.is_integer()]
    if len(values) < 3 and not fractions and all(abs(each) < 100 for each in numbers):
        return None
    forms = [rounded(each) if isinstance(each, float) else re.escape(str(each)) for each in values]
    before, behind = r"(?<![\w.-])", r"(?!\w|\.\d)"
    if len(values) > 1:  # no part of a longer list
        before, behind = before + r"(?<!\d, )", behind + r"(?!, [-\d])"
    return re.compile(before + r"[\s,;\[\]()]+".join(forms) + behind, re.I)


def rounded(number: float) -> str:
    """A pattern for a number with two digits or more."""
    if number.is_integer():
        return rf"{number:.0f}(?:\.0*)?"
    written = {f"{number:.{digits}f}" for digits in range(1, 6)}
    written |= {f"{100 * number:.0f} ?%", f"{100 * number:.1f} ?%"}
    enough = [each for each in written if len(re.sub(r"^0\.0*|\D", "", each)) > 1]
    return "(?:" + "|".join(each.replace(".", r"\.") for each in sorted(enough)) + ")"


def seen(cell: NotebookNode) -> str:
    """What a student reads at a cell without opening it."""
    return cell.source if cell.cell_type == "markdown" else output_text(cell)


def told_before(skipped: NotebookNode, answers: dict[str, str]) -> list[tuple[str, str]]:
    """Cells that show the answer of a later gate to who has answered all gates before it.

    Where a student's code is run, knowing what it should return does not help.
    """
    found: list[tuple[str, str]] = []
    for gate, answer in ((gate, text) for gate, text in answers.items() if gate not in SOLUTIONS):
        shape = told(answer)
        for cell in skipped.cells:
            if gate_of(cell) == gate:
                break
            if shape and shape.search(seen(cell)):
                found.append((cell.id, gate))
    return found


def eliminated(notebook: NotebookNode, answers: dict[str, str]) -> list[tuple[str, str]]:
    """Cells between a gate and the next that name all of its words but the right ones."""
    found, gate, words = [], "", set()
    for cell in notebook.cells:
        if name := gate_of(cell):
            gate, words = name, {comparing.word(each) for each in options(cell)}
            words |= {"yes", "no"} if "yes" in words else set()
        elif cell.cell_type == "code" and len(words) > 1:
            right = {comparing.word(each) for each in answers[gate].split(", ")}
            strings = {
                comparing.word(node.value)
                for node in ast.walk(tree_of(cell))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            if words - right and words - right <= strings and not right & strings:
                found.append((cell.id, gate))
    return found


def leaks(unanswered: NotebookNode, answers: dict[str, str]) -> list[tuple[str, str]]:
    """Cells of an unanswered notebook that show answers, and the gates of these.

    Lists, and numbers of three digits or more, are looked for in the whole notebook. A single word or a
    small number stands in many places by chance: they are looked for between the question and the
    next one. A cell that compares shows nothing at all.
    """
    found, section = [], ""
    for cell in unanswered.cells:
        section = gate_of(cell) or section
        text = seen(cell)
        if is_check(cell) and cell.outputs:
            found.append((cell.id, section))
        for gate, answer in answers.items():
            telling = told(answer) or ("," in answer and pattern(answer))
            by_chance = gate == section and cell.cell_type == "code" and pattern(answer)
            shape = telling or by_chance
            if shape and shape.search(text.replace(gate, "")):
                found.append((cell.id, gate))
    return found


def is_check(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and ".check(" in cell.source


def tree_of(cell: NotebookNode) -> ast.Module:
    return ast.parse(re.sub(r"^%", "# %", cell.source, flags=re.MULTILINE))


def misplaced(notebook: NotebookNode) -> list[str]:
    """Cells that would compute an answer before a prediction, or hold one."""
    wrong = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        tree = tree_of(cell)
        compared = [node for node in ast.walk(tree) if _is_check(node)]
        guarded = {
            node
            for branch in tree.body
            if isinstance(branch, ast.If)
            for statement in branch.body
            for node in ast.walk(statement)
            if _is_check(node) and ast.unparse(node.func.value) == ast.unparse(branch.test)
        }
        literal = any(
            not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(call.args[0]))
            and "by" not in {each.arg for each in call.keywords}
            for call in compared
        )
        both = bool(GATE.search(cell.source)) and bool(compared)
        if set(compared) - guarded or literal or both:
            wrong.append(cell.id)
    return wrong


def _is_check(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "check"
    )


@pytest.fixture(scope="module", autouse=True)
def kernel():
    """Kernels find the package under test, installed or not, and draw pictures as in a browser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(al.__file__).parent.parent))
        patch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        yield


@pytest.fixture(scope="module")
def skipped(tmp_path_factory):
    """Notebooks run with every gate skipped, each of them once."""

    @cache
    def run_it(path: Path) -> NotebookNode:
        notebook = with_predictions(read(path), skip)
        return run(notebook, tmp_path_factory.mktemp("skipped"))

    return run_it


# Runs


@pytest.mark.notebooks
@each_notebook
def test_the_answers_are_those_of_the_table(path, skipped):
    found, table = answers(skipped(path)), ANSWERS[path.stem.partition("_")[0]]
    assert list(found) == gates(read(path))
    assert list(found) == list(table)
    for gate, answer in table.items():
        # The fifth digit of a mean over images may differ between processors.
        tolerance = 0.0 if isinstance(answer, int) else 1e-3
        right = answer.split(", ") if isinstance(answer, str) else answer
        assert not comparing.difference(found[gate], right, tolerance), (gate, found[gate])


@pytest.mark.notebooks
@each_notebook
def test_figures_are_shown_as_pictures(path, skipped):
    shown = [
        each.data
        for cell in skipped(path).cells
        for each in cell.get("outputs", ())
        if each.get("data", {}).get("text/plain", "").startswith("<Figure")
    ]
    assert shown
    assert all("image/png" in data for data in shown)


@pytest.mark.notebooks
@each_notebook
def test_no_answer_stands_in_a_notebook_without_predictions(path, skipped, tmp_path):
    known = answers(skipped(path))
    assert known
    unanswered = run(read(path), tmp_path)
    assert not leaks(unanswered, known)
    assert not (tmp_path / "predictions.json").exists()
    for gate in gates(unanswered):
        assert f"{gate} waits" in "\n".join(map(output_text, unanswered.cells))


@pytest.mark.notebooks
@each_notebook
def test_nothing_that_was_shown_before_a_gate_answers_it(path, skipped):
    assert not told_before(skipped(path), answers(skipped(path)))


@pytest.mark.notebooks
@each_notebook
def test_who_guesses_wrong_reads_one_line_and_no_answer(path, skipped, tmp_path):
    """No mistake stops a notebook; a check shows no warning, picture or number beside its line."""
    notebook = run(with_predictions(read(path), guess), tmp_path)
    checks = [cell for cell in notebook.cells if is_check(cell)]
    waiting = "\n".join(map(output_text, notebook.cells))
    for gate, cell in zip(gates(notebook), checks, strict=True):
        lines = output_text(cell).splitlines()
        assert lines or re.search(rf"^{re.escape(gate)} waits", waiting, re.MULTILINE), gate
        assert len(lines) <= 1, (gate, lines)
        assert all(line.startswith(f"{gate}: ") for line in lines), (gate, lines)
        assert all(": not right" in line or "Fix your code" in line for line in lines), lines
    for cell in checks:
        cell.outputs = []
    assert not leaks(notebook, answers(skipped(path)))


@pytest.mark.notebooks
def test_kernels_run_this_python_and_the_package_under_test(tmp_path):
    cell = nbformat.v4.new_code_cell(
        "import sys, attributionlab; print(sys.executable, attributionlab.__file__, sep='\\n')"
    )
    run(nbformat.v4.new_notebook(cells=[cell]), tmp_path)
    assert cell.outputs[0].text.splitlines() == [sys.executable, al.__file__]


@pytest.mark.notebooks
def test_a_broken_cell_fails_with_its_source_and_its_error(tmp_path):
    cells = [nbformat.v4.new_code_cell(source) for source in ("half = 1 / 2", "assert half == 1")]
    with pytest.raises(pytest.fail.Exception, match=r"(?s)assert half == 1.*AssertionError"):
        run(nbformat.v4.new_notebook(cells=cells), tmp_path)


# The scan sees what it is for


def lesson(*work: str) -> NotebookNode:
    """A notebook of one gate, whose answer is 0, 1, 1, and these cells behind it."""
    sources = (
        "import attributionlab as al\nvalues = [0, 1, 1]",
        'prediction = None\ngate = al.course.predict("99.1", prediction)',
        "if gate:\n    gate.check(values)",
        *work,
    )
    cells = [nbformat.v4.new_code_cell(text, id=f"c{i}") for i, text in enumerate(sources)]
    return nbformat.v4.new_notebook(cells=cells)


LEAKS = {
    "printed": "print(values)",
    "with decimals": "print([float(value) for value in values])",
    "as a tensor": "import torch; torch.tensor(values)",
    "in a sentence": "print(f'They are {tuple(values)}.')",
    "compared": "print('not before .check(')",
}


@pytest.mark.notebooks
@pytest.mark.parametrize("source", LEAKS.values(), ids=LEAKS)
def test_a_leaking_notebook_is_caught(source, tmp_path):
    known = answers(run(with_predictions(lesson(), skip), tmp_path))
    assert known == {"99.1": "0, 1, 1"}
    assert leaks(run(lesson(source), tmp_path), known) == [("c3", "99.1")]
    assert leaks(run(lesson("if gate.open:\n    print(values)"), tmp_path), known) == []


@pytest.mark.parametrize(
    ("text", "answer", "shown"),
    [
        ("the verdict is Pass.", "pass", True),
        ("it passes", "pass", False),
        ("21 of 3", "1", False),
        ("is 1.0 here", "1", True),
        ("is 1.25 here", "1", False),
        ("-1", "1", False),
        ("tensor([0., 1., 1.])", "0, 1, 1", True),
        ("[0, 1, 1, 1]", "1, 1", True),
        ("82.125", "82.125", True),
    ],
)
def test_an_answer_is_found_as_a_whole(text, answer, shown):
    assert bool(pattern(answer).search(text)) == shown


@pytest.mark.parametrize(
    "source",
    [
        "gate.check(values)",
        "if not gate:\n    gate.check(values)",
        "if gate:\n    pass\nelse:\n    gate.check(values)",
        "if gate:\n    gate.check([0, 1])",
        'gate = al.course.predict("99.1", prediction)\nif gate:\n    gate.check(values)',
    ],
)
def test_an_answer_outside_of_its_gate_is_caught(source):
    assert misplaced(lesson(source)) == ["c3"]
    assert misplaced(lesson()) == []


# Files


@pytest.mark.skipif(not FOLDER.exists(), reason="needs a checkout")
def test_the_course_is_found():
    assert NOTEBOOKS
    assert {path.stem.partition("_")[0] for path in NOTEBOOKS} == set(ANSWERS)


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
        assert cell.metadata == metadata_of(cell), cell.id
        if cell.cell_type == "code":
            assert cell.outputs == [], cell.id
            assert cell.execution_count is None, cell.id


def metadata_of(cell: NotebookNode) -> dict[str, object]:
    """nbgrader: a prediction is marked by hand, its check is locked; no front end opens a check."""
    if cell.cell_type != "code" or not (is_check(cell) or gate_of(cell)):
        return {}
    grader = {"grade_id": cell.id, "schema_version": 3, "task": False}
    if is_check(cell):
        grader |= {"grade": False, "solution": False, "locked": True}
        return {"cellView": "form", "jupyter": {"source_hidden": True}, "nbgrader": grader}
    return {"nbgrader": grader | {"grade": True, "solution": True, "locked": False, "points": 1}}


@each_notebook
def test_a_notebook_is_a_lesson(path):
    notebook = read(path)
    for part in ("# ", "**Goals.**", "**Time.**", "**You need**"):
        assert part in notebook.cells[0].source, part
    assert sum("\n## What to remember\n" in f"\n{cell.source}" for cell in notebook.cells) == 1
    number = path.stem.partition("_")[0]
    names = gates(notebook)
    questions = [name for name in names if ".E" not in name]
    assert 4 <= len(questions) <= 6
    assert questions == [f"{number}.{place}" for place in range(1, len(questions) + 1)]
    exercises = names[len(questions) :]
    assert exercises
    assert exercises == [name for name in (f"{number}.E1", f"{number}.E2") if name in exercises]
    slides = [
        cell.id for cell in notebook.cells if re.search(r"^ *slide\b.* = ", cell.source, re.M)
    ]
    assert len(slides) == 1


@each_notebook
def test_a_gate_that_asks_for_words_says_among_which(path):
    table = ANSWERS[path.stem.partition("_")[0]]
    for cell in filter(gate_of, read(path).cells):
        answer = table[gate_of(cell)]
        if isinstance(answer, str) and '"ready"' not in asked(cell):
            assert set(answer.split(", ")) <= options(cell), asked(cell)
            assert len(options(cell)) > 1, asked(cell)


@each_notebook
def test_no_cell_names_all_words_but_the_right_one(path):
    table = ANSWERS[path.stem.partition("_")[0]]
    said = {"0": "no", "1": "yes"}
    words = {gate: said.get(str(answer), str(answer)) for gate, answer in table.items()}
    assert not eliminated(read(path), words)
    assert not any("hints" in cell.source for cell in read(path).cells if is_check(cell))


@pytest.mark.parametrize(
    ("text", "answer", "shown"),
    [
        ("a value of 0.23 in a figure", "0.23333", True),
        ("23 %, 0.2", "0.23333", True),
        ("0.2, 0.24, 10.23, 0.231", "0.23333", False),
        ("82.1", "82.125", True),
        ("[0.94, 0.57, 0.0]", "0.94353, 0.57418, 0", True),
        ("0, 0, 1", "0, 0, 1", True),
        ("0, 0, 1, 1", "0, 0, 1", False),  # a longer list
        ("114 of them", "114", True),
    ],
)
def test_a_rounded_answer_is_found(text, answer, shown):
    assert bool(told(answer).search(text)) == shown


def test_words_and_small_numbers_are_not_looked_for_everywhere():
    assert not any(map(told, ("pass", "0", "0, 1", "fail, pass")))


def test_an_answer_that_is_shown_before_its_question_is_caught():
    cells = [
        nbformat.v4.new_code_cell("values", id="slide"),
        nbformat.v4.new_code_cell('g = al.course.predict("99.1", prediction)', id="question"),
        nbformat.v4.new_code_cell("values", id="behind"),
    ]
    for cell in cells:
        cell.outputs = [nbformat.v4.new_output("stream", text="0.23 for each")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    assert told_before(notebook, {"99.1": "0.23333"}) == [("slide", "99.1")]
    assert told_before(notebook, {"99.1": "0.5"}) == []
    assert told_before(notebook, {next(iter(SOLUTIONS)): "0.23333"}) == []


def test_a_word_that_is_left_over_is_caught():
    notebook = lesson('print({"pass": "No.", "inconclusive": "No."})')
    notebook.cells[1].source = (
        'prediction = None  # "pass", "fail" or "inconclusive"\n'
        + (notebook.cells[1].source.partition("\n")[2])
    )
    assert eliminated(notebook, {"99.1": "fail"}) == [("c3", "99.1")]
    assert eliminated(notebook, {"99.1": "pass"}) == []


def test_every_exercise_in_code_has_a_model_solution():
    written = {
        gate_of(cell)
        for path in NOTEBOOKS
        for cell in filter(gate_of, read(path).cells)
        if '"ready"' in asked(cell)
    }
    assert written == set(SOLUTIONS)


# Hints


def test_hints_are_for_wrong_predictions_of_gates_of_the_course():
    table = {gate: answer for each in ANSWERS.values() for gate, answer in each.items()}
    for gate, hints in comparing.known_mistakes().items():
        right = table[gate].split(", ") if isinstance(table[gate], str) else table[gate]
        for wrong, text in hints.items():
            assert comparing.difference(comparing.values_of(wrong), right) or len(
                comparing.values_of(wrong)
            ) != len(comparing.items(right))
            shape = told(", ".join(map(str, comparing.items(right))))
            assert not (shape and shape.search(text)), (gate, text)


@each_notebook
def test_no_cell_computes_or_holds_an_answer_before_its_gate(path):
    notebook = read(path)
    assert not misplaced(notebook)
    questions = [cell for cell in notebook.cells if gate_of(cell)]
    assert all(PREDICTION.search(cell.source) for cell in questions)
    checks = sum(".check(" in cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert checks == len(questions)
