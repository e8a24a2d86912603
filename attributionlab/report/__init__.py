"""Results as people see them: terminal tables and figures."""

from attributionlab.report.figures import report_figure, to_png
from attributionlab.report.terminal import (
    certificates_table,
    explained,
    names_table,
    print_table,
    report_table,
)

__all__ = [
    "certificates_table",
    "explained",
    "names_table",
    "print_table",
    "report_figure",
    "report_table",
    "to_png",
]
