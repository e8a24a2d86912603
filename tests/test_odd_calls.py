"""Public functions called with one argument that is odd: each returns, or refuses it in one line."""

import inspect

import numpy as np
import pytest
import torch

import attributionlab as al
from odd_calls import COSTLY, NETWORKS, ODD, Net, drawn, odd_calls, parameters, taken_or_refused

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("without_shape_checks")]

CALLS = 25
"""Of each function, drawn from all pairs of a parameter and an odd value."""


def twice(model, images, targets):
    return 2 * images


def usual():
    """Arguments in good order, by the names of parameters."""
    net, maps = Net().eval(), drawn(2, 1, 4, 4)
    orders = torch.stack([torch.arange(16), torch.arange(16).flip(0)])
    return (
        {"model": net, "layer": net.hidden, "attribute": twice, "images": maps, "inputs": maps}
        | {"image": maps[0], "targets": torch.tensor([0, 2]), "target": 0, "replacement": 0.0}
        | {"replacements": 0.0, "baselines": torch.zeros(1), "baseline": torch.zeros(1)}
        | {"attributions": maps / 2, "others": maps.flip(0), "information": maps, "values": maps}
        | {"truth": maps > 0.5, "masks": maps > 0.5, "keep": maps > 0.5, "positive": maps > 0.5}
        | {"signed": (maps > 0.5).to(torch.int8), "changes": torch.tensor([1.0, 2.0])}
        | {"which": "positive", "order": "morf", "orders": orders, "counts": [0, 4, 16]}
        | {"radius": 0.1, "threshold": 0.1, "level": 0.3, "ratio": 0.5, "closeness": 0.5}
        | {"tolerance": 0.1, "precision": 0.5, "sigma": 1.0, "value": 0.0, "low": 0.0, "high": 1.0}
        | {"steps": 4, "draws": 3, "most": 8, "bins": 4, "max_evaluations": 15, "resamples": 100}
        | {"pixels": 16, "height": 4, "width": 4, "patches": 4, "size": (4, 4), "noise": 0.0}
        | {"n": 2, "reference": 3, "generator": torch.Generator(), "first": torch.tensor([1, 2])}
        | {"second": torch.tensor([2, 3]), "curves": drawn(2, 5), "fractions": (0.2, 0.5)}
        | {"sums": drawn(2, 4).double(), "drops": drawn(2, 4).double(), "nothing_kept": 0.0}
        | {"outputs": drawn(2, 3), "features": drawn(2, 5), "temperature": 1.0, "confidence": 0.9}
        | {"correlation": 0.5, "items": 8, "ranks": [[1, 2, 3], [2, 1, 3]], "players": 3}
        | {"empty": 0.0, "full": 2.0, "classes": torch.zeros(2, 1, 4, 4).int(), "output": "logit"}
        | {"readout": lambda outputs: outputs.double()[..., 0]}
    )


ROWS = np.array([[-1.0, 0.0, 1.0]])
OWN = {
    "exact.trajectory": {"order": torch.arange(16)},
    "exact.trajectories": {"orders": torch.arange(16).expand(2, 1, 16)},
    "imputation.nearest_known_color": {"imputation": al.imputation.mean},
    "imputation.rounded": {"imputation": al.imputation.mean},
    "imputation.noisy_linear_1d": {"keep": torch.ones(2, 5) > 0},
    "metrics.outputs_along": {"orders": torch.arange(16).expand(2, 1, 16)},
    "metrics.area_under_curve": {"fractions": torch.linspace(0, 1, 5)},
    "metrics.parameter_randomization": {"order": "top-down"},
    "metrics.parameter_randomization_curve": {"order": "top-down"},
    "ranking.centered_ranks": {"values": ROWS},
    "ranking.hausdorff": {"first": ROWS, "second": ROWS},
    "ranking.middle": {"values": ROWS[0]},
    "ranking.resampled_correlations": {
        "first": ROWS[0],
        "second": ROWS[0],
        "times": np.ones((2, 3), int),
    },
    "ranking.row_correlations": {"first": ROWS, "second": ROWS},
    "ranking.spearman": {"first": [1, 2, 3], "second": [1, 3, 2]},
    "ranking.spearman_interval": {"first": [1, 2, 3], "second": [1, 3, 2]},
    "truth.enumerated_shapley": {"value": lambda coalitions: coalitions.double().sum(1)},
    "truth.marginal_contributions": {
        "outputs": drawn(2, 4).double(),
        "orders": torch.tensor([[0, 1, 2], [2, 1, 0]]),
    },
    "truth.softmax_shapley": {"counts": torch.tensor([2, 1])},
}

FACES = {
    f"{module.__name__.split('.')[-1]}.{name}": getattr(module, name)
    for module in (al.metrics, al.exact, al.imputation, al.ranking, al.truth)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name)) and name != "metric"
}


def arguments(face, names, needed):
    """Good arguments: what must be given, and what makes the call cheap."""
    good = usual() | OWN.get(face, {})
    cheap = [*COSTLY, "steps", "nothing_kept", "noise", "generator", *OWN.get(face, {})]
    return {
        name: good[name] for name in names if name in needed or (name in cheap and name in good)
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("face", FACES)
def test_an_odd_argument_is_taken_or_refused_in_one_line(face):
    function = FACES[face]
    names, needed = parameters(function)
    function(**arguments(face, names, needed))
    for name, odd in odd_calls(face, names, CALLS):
        given = {**arguments(face, names, needed), name: (ODD | NETWORKS)[odd]}
        taken_or_refused(function, given, f"{name} is {odd}")
