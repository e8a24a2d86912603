"""Sampled Shapley values come close to the exact ones as the tables say."""

import numpy as np
import pandas as pd
import pytest

from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab import shapley_convergence
from claims_held import all_hold


@pytest.fixture(scope="module")
def outcome():
    """Few samples and seeds on one image."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapley_convergence, "QUICK_PERMUTATIONS", (2, 8, 32))
        patch.setattr(shapley_convergence, "QUICK_COALITIONS", (128, 512, 2048))
        patch.setattr(shapley_convergence, "QUICK_SEEDS", 3)
        return reproduce("shapley-convergence", n=1, quick=True)


def test_errors_fall_as_the_root_of_the_samples(outcome):
    errors = outcome.tables["errors"]
    assert errors.passes.tolist() == [128, 506, 2018, 130, 514, 2050]
    assert ((errors.low <= errors.error) & (errors.error <= errors.high)).all()
    # Means of three errors of 64 values, off by 20 % or less: over 16 times the samples a slope by
    # at most log(1.2 / 0.8) / log(16) = 0.15.
    slopes = outcome.tables["slopes"].set_index("method").slope
    assert slopes["shapley-value-sampling"] == pytest.approx(-0.5, abs=0.15)
    # A regression of 64 unknowns from 64 pairs is worse than its asymptote.
    assert -1.2 < slopes["kernel-shap"] < -0.4


def test_rows_are_geometric_means_of_single_maps(outcome):
    maps, errors = outcome.tables["maps"], outcome.tables["errors"]
    assert len(maps) == 6 * 3
    here = maps[(maps.method == "kernel-shap") & (maps.samples == 512)]
    assert errors.error[4] == pytest.approx(np.exp(np.log(here.error).mean()))


def test_all_coalitions_give_the_definition(outcome):
    enumerated = outcome.tables["enumerated"]
    assert enumerated.coalitions.tolist() == [2**9 - 2]
    assert (enumerated.difference < 1e-6).all()  # some float32 outputs in each


def test_the_figure_has_a_line_for_each_method(outcome):
    [axis] = outcome.figures["errors"].axes
    assert axis.get_xscale() == axis.get_yscale() == "log"
    assert [len(line.get_xdata()) for line in axis.lines] == [3, 3]
    assert "-1/2" in outcome.figures["errors"].get_suptitle()


def test_equal_errors_cost_what_the_last_numbers_of_samples_say(outcome):
    ends = outcome.tables["errors"].groupby("method", sort=False).last()
    ours, other = (row for _, row in ends.iterrows())
    ratio = (other.error / ours.error) ** 2 * other.passes / ours.passes
    assert outcome.tables["slopes"].relative_passes.tolist() == pytest.approx([1, ratio])


def held(slope, kernel, warned, difference):
    methods = ["shapley-value-sampling", "kernel-shap"]
    errors = pd.DataFrame({"method": methods * 2, "error": [1.0, 1.0, 0.1, 0.1], "warned": warned})
    errors["low"], errors["high"] = [0.9, 0.9, 0.1, kernel[0]], [1.1, 1.1, 0.2, kernel[1]]
    tables = {
        "errors": errors,
        "slopes": pd.DataFrame({"slope": [-0.5, slope]}),
        "enumerated": pd.DataFrame({"difference": [difference]}),
    }
    return all_hold(tables, "shapley-convergence")


def test_claims_follow_the_tables():
    found = held(-0.55, (0.01, 0.05), [1.0, 1.0, 0.0, 0.0], 1e-7)
    assert set(found.values()) == {"agrees"}
    found = held(-0.8, (0.3, 0.4), [0.0, 0.0, 1.0, 1.0], 1e-2)
    assert set(found.values()) == {"differs"}
    found = held(-0.5, (0.15, 0.3), [0.0] * 4, 1e-7)
    assert found["kernel_shap_needs_fewer_passes"] == "undecided"
    assert found["guards_speak_of_large_errors_only"] == "undecided"
