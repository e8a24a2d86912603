"""What methods return is checked, and brought into one form."""

import numpy as np
import pytest
import torch

from attributionlab import AttributionLabError
from attributionlab.methods import as_maps, collect_notices

INPUTS = torch.zeros(2, 3, 4, 5)


def maps_of(attributions, start=0):
    with collect_notices() as findings:
        maps = as_maps(attributions, INPUTS, "mine on env", start)
    return maps, {finding.text: finding.images for finding in findings if finding.images}


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 1, 4, 5), (2, 4, 5)])
@pytest.mark.parametrize("make", [torch.ones, np.ones])
def test_every_stated_shape_is_summed_over_channels(shape, make):
    maps, _ = maps_of(make(shape))
    assert maps.shape == (2, 1, 4, 5)
    assert maps.dtype == torch.float64
    assert (maps == (3 if len(shape) == 4 and shape[1] == 3 else 1)).all()


def test_channels_are_summed_with_their_signs():
    attributions = torch.zeros(2, 3, 4, 5)
    attributions[0, 0, 0, 0], attributions[0, 1, 0, 0] = 2.0, -5.0
    assert maps_of(attributions)[0][0, 0, 0, 0] == -3


def test_float32_passes_without_a_note_attached_or_not():
    assert not maps_of(torch.ones(2, 4, 5))[1]
    assert not maps_of(torch.ones(2, 4, 5, requires_grad=True) * 1)[1]
    assert not maps_of((torch.ones(2, 4, 5),))[1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_other_real_types_are_converted_and_noted(dtype):
    maps, notes = maps_of(torch.ones(2, 4, 5, dtype=dtype))
    assert maps.dtype == torch.float64
    assert (maps == 1).all()
    [(note, count)] = notes.items()
    assert str(dtype).removeprefix("torch.") in note
    assert count == 2


def test_eight_bit_floats_are_converted():
    maps, notes = maps_of(torch.ones(2, 4, 5).to(torch.float8_e4m3fn))
    assert (maps == 1).all()
    assert any("float8_e4m3fn" in note for note in notes)


def test_maps_of_zeros_are_noted():
    attributions = torch.ones(2, 4, 5)
    attributions[1] = 0
    assert maps_of(attributions)[1] == {"are zero everywhere and score 0": 1}


@pytest.mark.parametrize(
    ("attributions", "message"),
    [
        (
            torch.ones(2, 5, 4),
            r"mine on env returned shape \(2, 5, 4\): return one of \(2, 3, 4, 5\)",
        ),
        (torch.ones(1, 3, 4, 5), r"returned shape \(1, 3, 4, 5\)"),
        (torch.ones(2, 2, 4, 5), r"returned shape \(2, 2, 4, 5\)"),
        (torch.ones(()), r"returned shape \(\)"),
        ([1, 2], "returned list: return a torch tensor or a numpy array"),
        (None, "returned NoneType"),
        (
            torch.ones(2, 4, 5, dtype=torch.complex64),
            "returned torch.complex64: return real numbers",
        ),
        (np.array([["a"]]), "returned an array of <U1: return real numbers"),
    ],
)
def test_what_cannot_be_scored_is_refused(attributions, message):
    with pytest.raises(AttributionLabError, match=message):
        maps_of(attributions)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_are_refused_with_their_place(value):
    attributions = torch.ones(2, 3, 4, 5)
    attributions[1, 2, 3, 4] = value
    with pytest.raises(AttributionLabError, match=rf"{value} for image 7 at \(2, 3, 4\)"):
        maps_of(attributions, start=6)


def test_channels_of_any_size_are_summed_without_loss():
    huge, tiny = (
        torch.full((2, 3, 4, 5), 3e38),
        torch.full((2, 3, 4, 5), 1e-120, dtype=torch.float64),
    )
    assert (maps_of(huge)[0] == 3 * huge.double()[:, :1]).all()
    assert (maps_of(tiny)[0] > 0).all()
    with pytest.raises(AttributionLabError, match="inf for image 0"):
        maps_of(torch.full((2, 3, 4, 5), 1e308, dtype=torch.float64))


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 4, 5), dtype=np.longdouble),
        np.ones((2, 4, 5), dtype=">f4"),
        np.ones((2, 4, 5), dtype=np.float32)[::-1, ::-1],
        np.ones((2, 4, 5), dtype=np.uint16),
    ],
    ids=["longdouble", "big-endian", "negative strides", "uint16"],
)
def test_arrays_of_every_make_are_accepted(array):
    assert (maps_of(array)[0] == 1).all()


def test_sparse_tensors_are_accepted():
    assert (maps_of(torch.ones(2, 4, 5).to_sparse())[0] == 1).all()


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of what is a prototype or deprecated
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("meta", lambda: torch.ones(2, 4, 5, device="meta")),
        ("quantized", lambda: torch.quantize_per_tensor(torch.ones(2, 4, 5), 1.0, 0, torch.qint8)),
        ("nested", lambda: torch.nested.nested_tensor([torch.ones(4, 5)] * 2)),
        (
            "nested",
            lambda: torch.nested.nested_tensor([torch.ones(4, 5)] * 2, layout=torch.jagged),
        ),
    ],
)
def test_tensors_without_plain_numbers_are_refused(kind, make):
    with pytest.raises(AttributionLabError, match=f"returned a {kind} tensor: return a plain one"):
        maps_of(make())


def test_read_only_arrays_are_copied():
    array = np.ones((2, 4, 5), dtype=np.float32)
    array.flags.writeable = False
    assert (maps_of(array)[0] == 1).all()
