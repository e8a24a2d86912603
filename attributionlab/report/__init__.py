"""Results as people see them: terminal tables and figures."""

from attributionlab.report.figures import MapsRow, maps_figure, report_figure, to_png
from attributionlab.report.segments import segmentation_figure
from attributionlab.report.terminal import (
    certificates_table,
    comparison_table,
    data_table,
    explained,
    names_table,
    print_table,
    report_table,
)
from attributionlab.report.trained import TrainedNetworks, trained_networks_figure
from attributionlab.report.violins import violins_figure

__all__ = [
    "MapsRow",
    "TrainedNetworks",
    "certificates_table",
    "comparison_table",
    "data_table",
    "explained",
    "maps_figure",
    "names_table",
    "print_table",
    "report_figure",
    "report_table",
    "segmentation_figure",
    "to_png",
    "trained_networks_figure",
    "violins_figure",
]
