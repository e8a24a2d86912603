"""Sampled Shapley values come close to the exact ones as the table and the sentences say."""

import numpy as np
import pytest

from attributionlab.papers.attributionlab import shapley_convergence
from attributionlab.papers.registry import experiment


@pytest.fixture(scope="module")
def outcome():
    """Few samples and seeds on one image."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapley_convergence, "QUICK_PERMUTATIONS", (2, 8, 32))
        patch.setattr(shapley_convergence, "QUICK_COALITIONS", (128, 512, 2048))
        patch.setattr(shapley_convergence, "QUICK_SEEDS", 3)
        return experiment("shapley-convergence", n=1, quick=True)


def test_errors_fall_as_the_root_of_the_samples(outcome):
    errors = outcome.tables["errors"]
    assert errors.passes.tolist() == [128, 506, 2018, 130, 514, 2050]
    assert ((errors.low <= errors.error) & (errors.error <= errors.high)).all()
    # Means of three errors of 64 values, off by 20 % or less: over 16 times the samples a slope by
    # at most log(1.2 / 0.8) / log(16) = 0.15.
    slopes = outcome.tables["slopes"].set_index("method").slope
    assert slopes["shapley-value-sampling"] == pytest.approx(-0.5, abs=0.15)
    # A regression of 64 unknowns from 128 samples is worse than its asymptote.
    assert -0.9 < slopes["kernel-shap"] < -0.4


def test_rows_are_geometric_means_of_single_maps(outcome):
    maps, errors = outcome.tables["maps"], outcome.tables["errors"]
    assert len(maps) == 6 * 3
    here = maps[(maps.method == "kernel-shap") & (maps.samples == 512)]
    assert errors.error[4] == pytest.approx(np.exp(np.log(here.error).mean()))


def test_all_coalitions_give_the_definition(outcome):
    enumerated = outcome.tables["enumerated"]
    assert enumerated.coalitions.tolist() == [2**9 - 2]
    assert (enumerated.difference < 1e-6).all()  # some float32 outputs in each


def test_figure_and_sentences_name_what_they_show(outcome):
    [axis] = outcome.figures["errors"].axes
    assert axis.get_xscale() == axis.get_yscale() == "log"
    names = [text.get_text() for text in axis.get_legend().get_texts()]
    assert names == ["shapley-value-sampling", "kernel-shap", "slope -1/2"]
    cost, error = axis.lines[-1].get_xydata().T
    assert np.diff(np.log(error)) == pytest.approx(-np.diff(np.log(cost)) / 2)
    text = "\n".join(outcome.findings)
    assert "with 2,018 (interval" in text
    assert "For equal errors kernel-shap needs" in text
    assert "all 510 coalitions of 9 superpixels" in text
