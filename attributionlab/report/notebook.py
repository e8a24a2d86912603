"""A faithfulness test as a notebook shows it."""

from collections.abc import Mapping
from typing import Any

from attributionlab.digits import interval_text, score_text
from attributionlab.report.reading import controls_text, few_images_text, labels, listed, undecided

SHOWN_HINTS = 2
TEMPLATE = """\
<div>
<p><strong>{{ document.method }}: {{ document.verdict }}</strong>
(claim {{ document.claim }}, F1 of at least {{ "%g" | format(document.gamma) }}, {{ document.n }}
image{{ "s" if document.n != 1 }} each{{ "; " + few if few }})</p>
<table>
<thead><tr><th>environment</th><th>decided by</th><th>F1</th><th>95 % interval</th>
<th>bar</th><th>verdict</th></tr></thead>
<tbody>
{%- for label, result in environments %}
<tr><td>{{ label }}</td><td>{{ result.claim_part }}</td>
<td>{{ result.claim_f1 | score(document.gamma) }}</td>
<td>{{ result.claim_ci | interval(document.gamma) }}</td>
<td>{{ result.bar | listed }}</td>
<td>{{ result.verdict }}{% if result.reason %}: {{ result.reason }}{% endif %}</td></tr>
{%- endfor %}
</tbody>
</table>
{%- for said in open %}
<p>{{ said }}</p>
{%- endfor %}
{%- for hint in document.hints[:shown_hints] %}
<p>Likely cause: {{ hint.says }}<br>To confirm: {{ hint.confirm }}</p>
{%- endfor %}
<p><small>Controls: {{ controls }}.{% if barred %} Bar: these see the input only and pass all the
same.{% endif %} Passing is necessary, never sufficient.</small></p>
</div>
"""


def report_fragment(document: Mapping[str, Any]) -> str:
    """A small table for a notebook; the whole page is `faithfulness_page`.

    Parameters
    ----------
    document : mapping
        As written by `FaithfulnessReport.to_dict`.
    """
    from jinja2 import Environment

    templates = Environment(autoescape=True)
    templates.filters |= {"interval": interval_text, "listed": listed, "score": score_text}
    environments = document["environments"]
    named = list(zip(labels(environments), environments, strict=True))
    return templates.from_string(TEMPLATE).render(
        document=document,
        environments=named,
        few=few_images_text(document["n"]),
        open=[
            undecided(label, result, document["n"])
            for label, result in named
            if result["verdict"] == "inconclusive"
        ],
        controls=controls_text(document),
        barred=any(result["bar"] for result in environments),
        shown_hints=SHOWN_HINTS,
    )
