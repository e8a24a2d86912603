"""Prediction gates: no answer before a prediction, and a file that counts the tries."""

import ast
import builtins
import json
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from attributionlab.base import AttributionLabError, cut, write_json
from attributionlab.teaching.course.comparing import Item, difference, hint, items, word, written

SCHEMA = 1
FILE = Path("predictions.json")
"""Where tries are counted: in the folder in which the notebook runs."""

skip = "skip"
"""What to type in place of a prediction in order to see the answer."""


class Gate:
    """A question of the course; true once a prediction was made or skipped.

    Attributes
    ----------
    name : str
        Notebook and number, "01.3".
    open : bool
        Whether the answer may be shown: `check` found the prediction right, or it is skipped.
    """

    def __init__(self, name: str, prediction: object, made: list[Item]) -> None:
        self.name = name
        self.open = False
        self._prediction, self._made = prediction, made
        self._checked: str | None = None  # the answer that this gate is for

    def __bool__(self) -> bool:
        return bool(self._made)

    def check(
        self,
        answer: object,
        *,
        tolerance: float = 0.0,
        by: Callable[[], object] | None = None,
    ) -> bool:
        """Compare the prediction with the answer, say how it is wrong, and count the try.

        A wrong prediction is no error, so that the cells below run. Nothing is printed or counted where
        there is no prediction. A gate is for one answer: where the cell of the next question stopped
        with an error, this gate does not show that question's answer. ``hints.toml`` says of some wrong
        predictions why people think so.

        Parameters
        ----------
        answer : object
            A number, a truth value, a word, or a list, array or tensor of them; in a set the order
            does not count. Compute it in the cell: a literal would be copied.
        tolerance : float
            The largest difference of a number from the answer that counts as right.
        by : callable, optional
            Where students write code: what calls it. Its result is compared, not what they typed.

        Returns
        -------
        bool
            Whether the answer may be shown, `Gate.open`.

        Raises
        ------
        AttributionLabError
            If the answer holds anything but numbers and words.
        """
        answer_text = written(answer)
        if not self:
            return False
        if self._checked not in (None, answer_text):
            self.open = False
            print(
                f"{self.name} is answered. The cell above stopped with an error: fix it, and run it "
                "again."
            )
            return False
        self._checked = answer_text
        if _is_skip(self._made):
            self.open = True
            _count_try(self.name, skip, None)
            print(f"{self.name}: skipped. The answer: {answer_text}")
            return True
        prediction, self.open = self._prediction, False
        if by is not None:
            prediction, why = _result(by)
            if why:
                print(f"{self.name}: {why}. Fix your code, then run its cell and this one again.")
                return False
        wrong = difference(prediction, answer, tolerance)
        self.open = not wrong
        tries = _count_try(self.name, cut(written(prediction)), self.open)
        number = f" (try {tries})" if tries else ""
        if self.open:
            print(f"{self.name}: right{number}. The answer: {answer_text}")
        else:
            known = hint(self.name, prediction, tolerance, isinstance(answer, (set, frozenset)))
            why = " ".join(filter(None, (wrong, known)))
            print(f"{self.name}: not right{number}. {why} Try again, or type skip.")
        return self.open


def _result(code: Callable[[], object]) -> tuple[object, str]:
    """What a student's code returns, and why that cannot be compared."""
    try:
        made = code()
        if not _is_empty(made) and items(made):
            return made, ""
    except Exception as error:  # whatever it is, the notebook goes on
        reason = str(error).partition("\n")[0]
        return None, f"your code stopped with {type(error).__name__}: {reason}".rstrip(": ")
    return None, "your code returns nothing yet"


def predict(name: str, prediction: object = None) -> Gate:
    """Ask for a prediction; the gate that it returns is false until one is made.

    Write the prediction in one cell, and work and answer in the next, below ``if gate:``. That cell
    computes and prints nothing as long as the prediction is None, "", ... or an empty list, or a list
    that holds one of them. From the first prediction on, warnings are ignored: what a method warns of
    in the cell of the answer would tell it.

    Every prediction is kept in ``predictions.json`` in the current folder: ``{"schema": 1, "gates":
    {"01.3": [{"prediction": "0, 1", "right": false}, ...]}}``, where a skipped one has ``null`` in
    place of true or false. Running a cell again with the same prediction adds nothing. A file of that
    name that is not such a record is left as it is.

    Parameters
    ----------
    name : str
        Notebook and number, "01.3".
    prediction : object
        A number, a truth value, a word, or a list, tuple, array or tensor of them; `skip` or "skip"
        shows the answer. Anything else is told what it should be, and is no prediction.

    Returns
    -------
    Gate
        With `Gate.check(answer, tolerance=..., by=...)` and `Gate.open`.

    Raises
    ------
    AttributionLabError
        If the name is none.

    Examples
    --------
    >>> import attributionlab as al
    >>> prediction = None  # two numbers: the sum and the product of 3 and 4
    >>> gate = al.course.predict("01.1", prediction)
    01.1 waits for a prediction: write it in place of None, or skip, and run the cell again.

    The next cell does the work and compares. What shows the answer in another way, a picture or a
    sentence, waits until the gate is open, that is, until the prediction is right or skipped.

    >>> if gate:
    ...     gate.check([3 + 4, 3 * 4])
    >>> if gate.open:
    ...     print("3 + 4 =", 3 + 4)
    """
    if not isinstance(name, str) or not re.fullmatch(r"\w+(\.\w+)+", name):
        raise AttributionLabError(
            f"{name!r} is not the name of a gate: use notebook and number, '01.3'"
        )
    made: list[Item] = []
    why = "write it in place of None, or skip, and run the cell again"
    try:
        if not _is_empty(prediction):
            made = items(prediction)
    except Exception as error:  # what is typed may be anything: endless, or with any `tolist`
        why = str(error).partition("\n")[0] or type(error).__name__
    if made:
        warnings.simplefilter("ignore")
    else:
        print(f"{name} waits for a prediction: {why}.")
    return Gate(name, prediction, made)


def _is_empty(prediction: object) -> bool:
    """Whether nothing is predicted yet, or a part of it."""
    if isinstance(prediction, (list, tuple)):
        return any(map(_is_empty, prediction))
    blank = isinstance(prediction, str) and not prediction.strip()
    return prediction is None or prediction is ... or blank


PREDICTED = re.compile(r"^(prediction *= *)([^#\n]*?)(\s*(?:#.*)?\n?)$")
WORDS = (ast.Expression, ast.Name, ast.List, ast.Tuple, ast.Load)


def quote_words(lines: list[str], names: Mapping[str, object]) -> list[str]:
    """A cell in which a prediction in words has quotes: ``prediction = pass`` is no Python.

    `lines`: those of the cell, with their ends. `names`: what is defined. An expression of such names
    stays as it is, but for the words that the comment behind it offers: where "red" or "blue" is asked,
    `red` is no variable.

    Examples
    --------
    >>> quote_words(["prediction = pass"], {})
    ["prediction = 'pass'"]
    """
    is_python = _tree("".join(lines), "exec") is not None

    def quoted(found: re.Match[str]) -> str:
        before, typed, rest = found.groups()
        tree = _tree(typed, "eval")
        nodes = [*ast.walk(tree)] if tree else []
        found_names = [node for node in nodes if isinstance(node, ast.Name)]
        bound = {node.id for node in found_names if isinstance(node.ctx, ast.Store)}
        used = {node.id for node in found_names} - bound
        offered = set(map(word, re.findall(r'"([^"]+)"', rest)))
        only_names = all(isinstance(each, WORDS) for each in nodes)
        is_word = bool(used) and only_names and set(map(word, used)) <= offered
        known = is_python if tree is None else used <= {*names, *vars(builtins)} and not is_word
        return before + (repr(typed) if typed and not known else typed) + rest

    return [PREDICTED.sub(quoted, line) for line in lines]


def _tree(source: str, mode: Literal["eval", "exec"]) -> ast.AST | None:
    try:
        return ast.parse(source, mode=mode)
    except (SyntaxError, ValueError):
        return None


if shell := getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)():

    def quote_in_cell(lines: list[str], shell: Any = shell) -> list[str]:
        """Quote words in a cell of this notebook."""
        return quote_words(lines, shell.user_ns)

    shell.input_transformers_post.append(quote_in_cell)


def _is_skip(made: list[Item]) -> bool:
    return len(made) == 1 and isinstance(made[0], str) and word(made[0]) == skip


def _count_try(name: str, prediction: str, right: bool | None) -> int:
    """Write a try down, and return how many there are; 0 where they cannot be counted."""
    try:
        record = read_record(FILE)
        tries = record["gates"].setdefault(name, [])
        latest = {"prediction": prediction, "right": right}
        if not tries or tries[-1] != latest:
            tries.append(latest)
            write_json(FILE, record)
    except AttributionLabError as error:
        print(f"Tries are not counted: {error}")
        return 0
    return len(tries)


def read_record(path: Path) -> dict[str, Any]:
    """What a file of predictions holds, an empty record where there is none."""
    problem = "is not a record of predictions"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict) and record.get("schema") == SCHEMA:
            gates = record.get("gates")
            if isinstance(gates, dict) and all(map(_is_tries, gates.values())):
                return record
        elif isinstance(record, dict) and isinstance(record.get("schema"), int):
            problem = f"has schema {record['schema']}, but this version reads {SCHEMA}"
    except FileNotFoundError:
        return {"schema": SCHEMA, "gates": {}}
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except (ValueError, RecursionError):
        pass
    raise AttributionLabError(f"{str(path)!r} {problem}: rename it, or take another")


def _is_tries(tries: object) -> bool:
    return isinstance(tries, list) and all(
        isinstance(each, dict)
        and set(each) == {"prediction", "right"}
        and isinstance(each["prediction"], str)
        and any(each["right"] is value for value in (True, False, None))
        for each in tries
    )
