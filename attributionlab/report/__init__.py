"""Results as people see them: terminal tables and figures."""

from attributionlab.report.figures import Row, examples_figure, report_figure, to_png
from attributionlab.report.terminal import certificates_table, names_table, report_table, show

__all__ = [
    "Row",
    "certificates_table",
    "examples_figure",
    "names_table",
    "report_figure",
    "report_table",
    "show",
    "to_png",
]
