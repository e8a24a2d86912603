"""The results of a sweep as one tidy table."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attributionlab.runs import Outcome, Store
from attributionlab.verdicts.sweep.cells import MAPS, METRIC, MapsResult, MetricResult, Planned

if TYPE_CHECKING:
    import pandas as pd

TIMING = ("cpu_seconds",)
"""Columns, the last ones, that differ from run to run."""
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("kind", "environment", "method"), "object"),
    **dict.fromkeys(("seed", "n"), "int64"),
    **dict.fromkeys(("claim", "output"), "object"),
    "one_network": "bool",
    **dict.fromkeys(("metric", "axis"), "object"),
    "dose": "float64",
    "image": "Int64",
    "part": "object",
    **dict.fromkeys(("precision", "recall", "f1", "score"), "float64"),
    "higher_is_better": "boolean",
    "verdict": "object",
    "claim_f1": "float64",
    **dict.fromkeys(("solved", "asked"), "Int64"),
    **dict.fromkeys(("warnings", "status", "error"), "object"),
    "cpu_seconds": "float64",
}
"""With their types; what does not apply is missing."""


def sweep_table(
    combinations: Iterable[Planned], store: Store
) -> tuple["pd.DataFrame", dict[str, dict[str, int]]]:
    """Rows of every cell that the store has, in the order of the plan, and counts by kind."""
    import pandas as pd

    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    counts = {kind: dict.fromkeys(("cells", "done", "failed"), 0) for kind in (MAPS, METRIC)}

    def add(kind: str, rows: list[dict[str, Any]]) -> None:
        counts[kind]["cells"] += 1
        if rows:
            counts[kind][rows[0]["status"]] += 1
        for row in rows:
            for name, values in columns.items():
                values.append(row.get(name))

    maps: dict[str, Outcome | None] = {}
    for each in combinations:
        key = each.maps.key
        if key not in maps:
            outcome = store.outcome(key, arrays=False)
            maps[key] = outcome and outcome._replace(record=None)
            add(MAPS, _maps_rows(each, outcome))
        if each.metric is not None:
            add(METRIC, _metric_rows(each, store.outcome(each.metric.key), maps[key]))
    table = pd.DataFrame(
        {name: pd.Series(columns[name], dtype=kind) for name, kind in COLUMNS.items()}
    )
    if not counts[METRIC]["cells"]:
        del counts[METRIC]
    return table, counts


def _cell_columns(plan: Planned, kind: str) -> dict[str, Any]:
    """What all rows of a cell have."""
    request = plan.work.request
    found = {
        "kind": kind,
        **plan.maps.place,
        **{name: getattr(request, name) for name in ("n", "claim", "one_network")},
        "output": request.explain,
    }
    if kind == METRIC and plan.metric is not None:
        found |= {name: plan.metric.place.get(name) for name in ("metric", "axis", "dose")}
    return found


def _maps_rows(plan: Planned, outcome: Outcome | None) -> list[dict[str, Any]]:
    """A row for each image and part."""
    if outcome is None:
        return []
    own = _cell_columns(plan, MAPS) | {"cpu_seconds": outcome.seconds}
    if outcome.error:
        return [own | _failure(outcome.error)]
    result: MapsResult = outcome.value
    own |= {"claim": result.claim, "output": result.output, "status": "done"}
    own |= {"verdict": result.verdict, "claim_f1": result.claim_f1}
    own |= {"solved": result.solved, "asked": result.asked}
    own |= {"warnings": "; ".join(result.warnings) or None}
    return [
        own | {"image": image, "part": part} | {name: each[image] for name, each in scores.items()}
        for part, scores in result.scores.items()
        for image in range(len(scores["f1"]))
    ]


def _metric_rows(
    plan: Planned, outcome: Outcome | None, maps: Outcome | None
) -> list[dict[str, Any]]:
    """A row for each image."""
    own = _cell_columns(plan, METRIC)
    if outcome is None:
        if maps is None or not maps.error:
            return []
        return [own | _failure(f"no maps: {maps.error}") | {"cpu_seconds": 0.0}]
    own |= {"cpu_seconds": outcome.seconds}
    if outcome.error:
        return [own | _failure(outcome.error)]
    result: MetricResult = outcome.value
    own |= {"higher_is_better": result.higher_is_better, "status": "done"}
    own |= {"warnings": "; ".join(result.warnings) or None}
    return [own | {"image": image, "score": score} for image, score in enumerate(result.scores)]


def _failure(error: str) -> dict[str, Any]:
    """An error as a row has it: the last line of a traceback, the whole of which is in the store."""
    return {"status": "failed", "error": error.strip().splitlines()[-1]}
