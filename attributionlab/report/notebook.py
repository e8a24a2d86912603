"""A faithfulness test as a notebook shows it."""

from collections.abc import Mapping
from typing import Any

__all__ = ["report_fragment"]

TEMPLATE = """\
<div>
<p><strong>{{ document.method }}: {{ document.verdict }}</strong>
(claim {{ document.claim }}, F1 of at least {{ document.gamma }}, {{ document.n }} images each)</p>
<table>
<thead><tr><th>environment</th><th>decided by</th><th>F1</th><th>95 % interval</th>
<th>verdict</th></tr></thead>
<tbody>
{%- for result in document.environments %}
<tr><td>{{ result.name }}</td><td>{{ result.claim_part }}</td>
<td>{{ "%.2f" | format(result.claim_f1) }}</td>
<td>{% if result.claim_ci %}{{ "%.2f to %.2f" | format(*result.claim_ci) }}{% endif %}</td>
<td>{{ result.verdict }}{% if result.reason %}: {{ result.reason }}{% endif %}</td></tr>
{%- endfor %}
</tbody>
</table>
{%- for hint in document.hints[:1] %}
<p>Likely cause: {{ hint.says }}<br>To confirm: {{ hint.confirm }}</p>
{%- endfor %}
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

    template = Environment(autoescape=True).from_string(TEMPLATE)
    return template.render(document=document)
