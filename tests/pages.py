"""The parts of docs/ that the registries say, and datasets/previews.png.

    python tests/pages.py metrics.md

writes one page or picture, `make pages` all of them, and tests hold them.

A generated table stands between its line of column names and the next empty line.
"""

import ast
import hashlib
import inspect
import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import previews
from attributionlab.show import markdown

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS.parent / "results"
PAGE_SEEDS = "0, 365330769170395"
"""Those of rows of docs/results.md that name none."""


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(page: str, names: list[str], rows: list[list[str]]) -> str:
    """A page, with these rows in place of those under these column names."""
    found = re.compile(re.escape(row(*names)) + r"\n(?:\|.*\n)*")
    assert len(found.findall(page)) == 1, f"the page has not one table of the columns {names}"
    return found.sub(lambda _: markdown(names, rows) + "\n", page)


def explained_columns(command: str) -> list[str]:
    """The columns that docs/reading-a-result.md explains below a command."""
    page = (DOCS / "reading-a-result.md").read_text(encoding="utf-8")
    # A sentence may begin with the command, too.
    heading = re.split(rf"^`{re.escape(command)}`[:,]", page, maxsplit=1, flags=re.M)[1]
    table = heading.split("\n\n", 2)[1]
    return re.findall(r"^\| `(\w+)` \|", table, re.M)


METHOD_COLUMNS = ["name", "in one line", "source", "claims"]


def methods_page(page: str) -> str:
    """docs/methods.md with a row for each built-in method."""
    from attributionlab.methods import METHODS

    rows = []
    for name in sorted(METHODS):
        method = METHODS[name]
        line = method.__doc__.partition("\n")[0].partition(". ")[0].rstrip(".")
        claim = getattr(method, "claim", None) or "signed"
        claim += ", of the logit" * (getattr(method, "output", None) == "logit")
        rows.append([f"`{name}`", line, source_of(name), claim])
    return with_table(page, METHOD_COLUMNS, rows)


def source_of(name: str) -> str:
    """Who a method is from, as its docstring says under "Source", or that of its suffix or base."""
    from attributionlab import methods
    from attributionlab.methods import base_and_suffix

    split = base_and_suffix(name)
    suffix = split and getattr(methods, split[1].replace("-", "_"), None)
    base = split and methods.METHODS[split[0]]
    for function in filter(None, (methods.METHODS[name], suffix, base)):
        if said := re.search(r"Source: (.*?)(?:\n *\n|$)", function.__doc__, re.DOTALL):
            sentence = " ".join(said[1].split()).partition(". ")[0].replace(" & ", " and ")
            # As far as the year of the first sources, else the last year, else the first comma.
            patterns = (r"[^;]*?\d{4}\)?(?:; [^;]*?\d{4})?", r".*\d{4}", r"[^,;.]*")
            return next(filter(None, (re.match(pattern, sentence) for pattern in patterns)))[0]
    raise AssertionError(f"the docstring of {name} has no source")


CLAIM_COLUMNS = ["item", "grade", "claim", "where", "why ours differs"]


def claims_page(page: str) -> str:
    """docs/claims.md with a table of the claims about each paper's items, under its present head."""
    from attributionlab.papers import items
    from attributionlab.papers.catalog import CLAIMS

    place = {name: index for index, name in enumerate(items())}
    claims = sorted(
        CLAIMS,  # of a module in its order; of several modules the order is that of the imports
        key=lambda each: (place[each.items[0]], getattr(each.check, "func", each.check).__module__),
    )
    papers: dict[str, list[list[str]]] = {}
    for claim in claims:
        each = [items()[name] for name in claim.items]
        grades = dict.fromkeys(item.grade for item in each)
        cells = [", ".join(f"`{item.name}`" for item in each), ", ".join(grades)]
        cells += [claim.statement, claim.place, claim.reason or "—"]
        papers.setdefault(each[0].paper, []).append(cells)
    parts = [page.partition("\n## ")[0].rstrip()]
    parts += [f"## {paper}\n\n{markdown(CLAIM_COLUMNS, rows)}" for paper, rows in papers.items()]
    return "\n\n".join(parts) + "\n"


GRADES = ["faithful", "analogue", "beyond the paper", "not reproduced"]
GRADES += ["illustrations"]


def reproduction_page(page: str) -> str:
    """docs/reproduction.md with the grades of the items, and their counts at its head.

    What the paper says, what ours gives and why they differ are written by hand.
    """
    from attributionlab.papers import items

    head, *sections = page.split("\n## ")
    counts: dict[str, Counter[str]] = {}
    for index, section in enumerate(sections):
        paper, lines = section.partition("\n")[0], section.split("\n")
        count = counts[paper] = Counter()
        for at, line in enumerate(lines):
            if not line.startswith("|") or line.startswith(("| item |", "|---")):
                continue
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            named = re.findall(r"`attributionlab reproduce ([^`]+)`", cells[6])
            if named and not cells[4].startswith("covered"):
                cells[2] = ", ".join(dict.fromkeys(items()[name].grade for name in named))
            count[cells[2].replace("—", "illustrations")] += 1
            lines[at] = row(*cells)
        sections[index] = "\n".join(lines)
    counts["all"] = sum(counts.values(), Counter())
    rows = [[paper, *(str(count[grade]) for grade in GRADES)] for paper, count in counts.items()]
    return "\n## ".join([with_table(head, ["paper", *GRADES], rows), *sections])


FORMULA_COLUMNS = ["name", "formula", "source", "range", "best score, and which maps have it"]
METRIC_COLUMNS = ["name", "in one line", "better", "scores", "maps", "tested by"]
MAPS = {"signed": "any", "nonnegative": "at least 0", "unit": "in [0, 1]"}


def metrics_page(page: str) -> str:
    """docs/metrics.md with the table of the registry, and that of the facts that are said by hand."""
    from attributionlab.metrics import known_facts
    from attributionlab.verdicts import FUNCTIONS
    from attributionlab.verdicts.metric_trials.registry import METRICS, SHORT_NAMES

    rows = []
    for name, function in FUNCTIONS.items():
        line = (
            str(function.__doc__).partition("\n")[0].partition("; ")[0].partition(", with its")[0]
        )
        names = [name, *(short for short, of in SHORT_NAMES.items() if of == name)]
        rows.append(
            [
                f"`{function.__name__}`",
                line.rstrip("."),
                "higher" if function.higher_is_better else "lower",
                "each image" if function.per_sample else "a data set",
                MAPS[function.maps],
                ", ".join(f"`{each}`" for each in names) if name in METRICS else "not tested",
            ]
        )
    formulas = [[f"`{name}`", *each[:4]] for name, each in known_facts().items()]
    return with_table(with_table(page, METRIC_COLUMNS, rows), FORMULA_COLUMNS, formulas)


CHECK_COLUMNS = ["check", "asks", "expected", "answered by the declaration"]


def check_page(page: str) -> str:
    """docs/metric-check.md with a row for each check."""
    from attributionlab.verdicts.metric_trials.check import checks_of
    from attributionlab.verdicts.metric_trials.judging import COMPARING, JUDGING

    def rows(checks: dict[str, Any]) -> list[list[str]]:
        return [
            [
                f"`{name}`",
                each.asks,
                each.expected,
                f"`{each.declared}`" if "=" in each.declared else each.declared,
            ]
            for name, each in checks.items()
        ]

    judging = [each[:3] for each in rows(JUDGING)]
    page = with_table(page, CHECK_COLUMNS, rows(checks_of("attributions")))
    page = with_table(page, ["check of a metric that judges methods", *CHECK_COLUMNS[1:3]], judging)
    first = "check of a metric that compares maps"
    return with_table(page, [first, *CHECK_COLUMNS[1:]], rows(COMPARING))


KEY_COLUMNS = ["key", "value", "meaning"]


def json_page(page: str) -> str:
    """docs/json.md with a table for each kind of object of the schema, under its present head."""
    from attributionlab.verdicts.faithfulness import report

    path = Path(report.__file__).with_name("test.schema.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    kinds = {"document": schema} | {
        name: kind for name, kind in schema["$defs"].items() if kind["type"] == "object"
    }
    parts = [page.partition("\n## document\n")[0].rstrip()]
    for name, kind in kinds.items():
        described = kind["properties"] | kind.get("patternProperties", {})
        rows = []
        for key, said in described.items():
            shown = f"`{key.strip('^$').replace('[0-9]+', '*')}`"
            shown += " (optional)" * (key not in kind.get("required", []))
            rows.append([shown, value_text(said), said["description"]])
        parts.append(f"## {name}\n\n{kind['description']}\n\n{markdown(KEY_COLUMNS, rows)}")
    return "\n\n".join(parts) + "\n"


def value_text(schema: dict[str, Any]) -> str:
    """What a value can be, in words, with a link to the table of an object."""
    if "anyOf" in schema:
        [value] = [value_text(each) for each in schema["anyOf"] if each != {"type": "null"}]
        return f"{value}, or null"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "[lower, upper]" if name == "interval" else f"[{name}](#{name})"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        words = ["null" if each is None else f"`{json.dumps(each)}`" for each in schema["enum"]]
        return " or ".join(words)
    if schema["type"] == "array":
        return f"list of {value_text(schema['items'])}"
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and isinstance(values.get("type", ""), str):
        return f"object of {value_text(values)}"
    words = {"object": "object", "boolean": "true or false"}
    return words.get(schema["type"], schema["type"])


TIME_COLUMNS = ["notebook", "questions", "minutes in class", "exercises", "minutes at home"]
WORDS, LINES = 120, 15
"""Read in a minute: words of a text, lines of code. Slow on purpose: many read in a second language."""
MINUTES = {"question": 6, "exercise": 8, "code": 15}
"""To think, say it to somebody, type and check; an exercise; an exercise in which code is written."""
NOTEBOOKS = sorted((DOCS.parent / "notebooks").glob("*.ipynb"))
COURSE = DOCS.parent / "tests" / "course"


def teaching_page(page: str) -> str:
    """docs/teaching.md with an estimate of the time that each notebook takes."""
    rows = []
    for path in NOTEBOOKS:
        questions, minutes, exercises, at_home = times(json.loads(path.read_text("utf-8")))
        cells = (path.stem.replace("_", " "), questions, minutes, exercises, at_home)
        rows.append([str(each) for each in cells])
    return with_table(page, TIME_COLUMNS, rows)


def times(notebook: dict[str, Any]) -> tuple[int, int, int, int]:
    """Questions of a notebook, minutes of reading and answering them, exercises, minutes of these."""
    counted = [Counter[str](), Counter[str]()]
    at_home = False
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            before, _, after = f"\n{source}".partition("\n## Exercises")
            counted[at_home]["words"] += len(before.split())
            at_home = at_home or bool(after)
            counted[at_home]["words"] += len(after.split())
        elif "al.course.predict(" in source:
            code = at_home and '# "ready"' in source
            counted[at_home]["code" if code else "exercise" if at_home else "question"] += 1
        elif ".check(" not in source:  # closed
            counted[at_home]["lines"] += sum(bool(line.strip()) for line in source.splitlines())
    minutes = [
        each["words"] / WORDS
        + each["lines"] / LINES
        + sum(each[kind] * number for kind, number in MINUTES.items())
        for each in counted
    ]
    lesson, home = counted
    return (
        lesson["question"],
        round(minutes[0]),
        home["exercise"] + home["code"],
        round(minutes[1]),
    )


def answers_page(page: str) -> str:
    """docs/course-answers.md with right answers, expected mistakes and model solutions."""
    from attributionlab.teaching.course.comparing import known_mistakes

    answers = tomllib.loads((COURSE / "answers.toml").read_text("utf-8"))
    solutions = tomllib.loads((COURSE / "solutions.toml").read_text("utf-8"))
    parts = [page.partition("\n## ")[0].rstrip()]
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text("utf-8"))
        number = path.stem.partition("_")[0]
        parts.append(f"## {path.stem.replace('_', ' ')}")
        rows, mistakes = [], []
        for gate, asked in gates_of(notebook).items():
            answer = answers[number][gate]
            texts = [f"{each}" for each in (answer if isinstance(answer, list) else [answer])]
            yes = {"0": "no", "1": "yes"} if '"yes" or "no"' in asked else {}
            rows.append([gate, asked, ", ".join(yes.get(each, each) for each in texts)])
            mistakes += [
                [gate, wrong, text] for wrong, text in known_mistakes().get(gate, {}).items()
            ]
        parts.append(markdown(["gate", "asks for", "answer"], rows))
        parts.append(markdown(["gate", "wrong prediction", "what the notebook answers"], mistakes))
        for gate in filter(solutions.get, gates_of(notebook)):
            parts.append(f"Model solution of {gate}:\n\n```py\n{solutions[gate].strip()}\n```")
    return "\n\n".join(parts) + "\n"


def gates_of(notebook: dict[str, Any]) -> dict[str, str]:
    """What each gate of a notebook asks for."""
    found = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if gate := re.search(r'al\.course\.predict\("([\w.]+)"', source):
            found[gate[1]] = re.findall(r"^prediction = None  # (.*)", source, re.M)[0]
    return found


API_COLUMNS = ["name", "in one line", "defined in"]


def api_page(page: str) -> str:
    """docs/api.md with a row for each public name; the site has the whole docstrings below."""
    import attributionlab as al

    stub = ast.parse(Path(al.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    rows = []
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            [name] = [alias.name for alias in node.names]
            line = str(getattr(al, name).__doc__).partition("\n")[0].partition(". ")[0]
            place = f"attributionlab.{node.module}" if node.module else "attributionlab"
            rows.append([f"`al.{name}`", line.rstrip(".:"), f"`{place}.{name}`"])
    return with_table(page, API_COLUMNS, sorted(rows))


def results_page(page: str) -> str:
    """docs/results.md with the results of results/: "paper / natural", by seed where these differ.

    Rows of other seeds than the page's name them. Refuses results without the file of their method.
    """
    from attributionlab.verdicts import read_results

    results = read_results(sorted(RESULTS.glob("*.json")))
    there = {hashlib.sha256(file.read_bytes()).hexdigest() for file in RESULTS.glob("*.py")}
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob("*.json")]
    entries = [each for found in documents for each in (found, *found.get("results", ()))]
    sources = [each["source"] for each in entries if isinstance(each.get("source"), dict)]
    known = {each["fingerprint"] for each in sources if each["sha256"] in there}
    for each in results.results:
        assert not each.changed, f"{each.method} was run with {each.changed}: the page says none"
        assert each.source in (None, *known), (
            f"results/ lacks the file of the report's SHA-256: add the file that defines {each.method}"
        )
    found = results.to_frame()
    environments = dict.fromkeys(name.rpartition(", ")[0] for name in found if ", " in name)
    rows = []
    for row in found.to_dict("records"):
        solved = [
            " / ".join(row[f"{place}, {how}"] for how in ("paper", "natural"))
            for place in environments
        ]
        name, claim = re.fullmatch(r"(.*?)( \(\w+\))?", row["method"]).groups("")
        other = f" (seed {row['seed']})" * (row["seed"] != PAGE_SEEDS)
        rows.append([f"`{name}`{claim}{other}", *solved, row["verdict"]])
    return with_table(page, ["method", *environments, "verdict"], rows)


def broken_page(page: str) -> str:
    """docs/broken-methods.md with each method of test_broken_methods.py, and what its report says."""
    import attributionlab as al
    import test_broken_methods as broken

    environments = [al.load(name, image_size=48) for name in broken.COUNTED]
    parts = [page.partition("\n## ")[0].rstrip()]
    for method in (*broken.BROKEN, broken.flipped):
        report = al.faithfulness_test(
            method, environments, n=32 if method is broken.flipped else 13
        )
        hint = report.hints[0]
        scores = ", ".join(f"`{each.name}` {each.claim_f1:.2f}" for each in report.environments)
        parts += [
            f"## {method.__name__}",
            f"```py\n{inspect.getsource(method).rstrip()}\n```",
            f"*{report.verdict}*: F1 {scores}.",
            f"**Likely cause** (`{hint.cause}`): {hint.says}.",
            f"**To confirm**: {hint.confirm}.",
        ]
    return "\n\n".join(parts) + "\n"


def networks_page(page: str) -> str:
    """docs/networks-and-methods.md with the verdict on every method on every kind of network.

    Two minutes. Methods of the same verdicts share a row.
    """
    from attributionlab.methods import METHODS
    from method_matrix import SYMBOLS, TABLES, judged
    from small_networks import KINDS

    kinds = [[f"{key}", kind.title] for key, kind in KINDS.items()]
    page = with_table(page, ["kind", "network"], kinds)
    for title, keys in TABLES.items():
        rows: dict[tuple[str, ...], list[str]] = {}
        for name in sorted(METHODS):
            cells = tuple(SYMBOLS[judged(name, KINDS[key])[0]] for key in keys)
            rows.setdefault(cells, []).append(f"`{name}`")
        table = [[", ".join(names), *cells] for cells, names in rows.items()]
        page = with_table(page, [title, *keys], table)
    return page


PAGES = {
    "api.md": api_page,
    "broken-methods.md": broken_page,
    "teaching.md": teaching_page,
    "course-answers.md": answers_page,
    "methods.md": methods_page,
    "networks-and-methods.md": networks_page,
    "metrics.md": metrics_page,
    "metric-check.md": check_page,
    "claims.md": claims_page,
    "reproduction.md": reproduction_page,
    "json.md": json_page,
    "results.md": results_page,
}


def broken_picture() -> bytes:
    """docs/images/broken-methods.png: the maps of the methods of docs/broken-methods.md."""
    import attributionlab as al
    import test_broken_methods as broken
    from attributionlab.show import encoded

    env = al.load("multi-color-sum-distractors", image_size=48)
    methods = [broken.right, *broken.BROKEN, broken.flipped]
    return encoded(al.compare(methods, env, n=6).maps())


PICTURES = {
    "broken-methods.png": (DOCS / "images", broken_picture),
    "previews.png": (previews.PREVIEWS.parent, previews.sheet),
}

if __name__ == "__main__":
    for file in sys.argv[1:] or [*PAGES, *PICTURES]:
        if file in PAGES:
            path = DOCS / file
            path.write_text(PAGES[file](path.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            folder, drawn = PICTURES[file]
            path = folder / file
            path.write_bytes(drawn())
        print(f"written: {path.relative_to(DOCS.parent)}")
