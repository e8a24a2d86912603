"""Results as people see them: terminal tables and figures."""

from attributionlab.report.curves import CurvePanel, curves_figure
from attributionlab.report.doses import DoseLine, doses_figure
from attributionlab.report.figures import MapsRow, maps_figure, report_figure, to_png
from attributionlab.report.frames import data_table
from attributionlab.report.notebook import report_fragment
from attributionlab.report.page import Panel, faithfulness_page
from attributionlab.report.segments import segmentation_figure
from attributionlab.report.terminal import (
    as_text,
    certificates_table,
    comparison_table,
    explained,
    findings_list,
    names_table,
    print_table,
)
from attributionlab.report.trained import TrainedNetworks, trained_networks_figure
from attributionlab.report.verdict import report_table
from attributionlab.report.violins import violins_figure

__all__ = [
    "CurvePanel",
    "DoseLine",
    "MapsRow",
    "Panel",
    "TrainedNetworks",
    "as_text",
    "certificates_table",
    "comparison_table",
    "curves_figure",
    "data_table",
    "doses_figure",
    "explained",
    "faithfulness_page",
    "findings_list",
    "maps_figure",
    "names_table",
    "print_table",
    "report_figure",
    "report_fragment",
    "report_table",
    "segmentation_figure",
    "to_png",
    "trained_networks_figure",
    "violins_figure",
]
