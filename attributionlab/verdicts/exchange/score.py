"""Scores of maps that somebody made of an exported environment, with any framework."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attributionlab import __version__
from attributionlab.base import (
    NUMPY_FILES,
    AttributionLabError,
    checked_arguments,
    format_error,
    in_one_line,
    located,
    printable,
)
from attributionlab.verdicts.exchange.export import ARRAYS, NETWORK, WEIGHTS, Manifest, drawn_arrays
from attributionlab.verdicts.exchange.network import listed_network
from attributionlab.verdicts.faithfulness.protocol import Claim
from attributionlab.verdicts.faithfulness.report import FaithfulnessReport
from attributionlab.verdicts.faithfulness.test import faithfulness_test
from attributionlab.worlds import Environment, from_spec


@checked_arguments
def score_export(
    folder: str | Path,
    maps: str | Path | NDArray[Any] | Tensor,
    claim: Claim | None = None,
    *,
    show_progress: bool = False,
) -> FaithfulnessReport:
    """Score maps of an exported environment, as `faithfulness_test` does on one network.

    All images have one network, so a table of its colors passes: a pass proves less than one on
    questions, and the report says so (`one_network` is true).

    Parameters
    ----------
    folder : str or Path
        What `export_environment` wrote; each file must be as it was written.
    maps : path of a .npz or .npy file, array or Tensor
        One map for each image, (n, C, H, W), (n, 1, H, W) or (n, H, W), finite, on any scale: how much
        each pixel raises (+) or lowers (-) the output that the manifest names. A file holds one array,
        or the environment's under its name; nothing is unpickled.
    claim : str, optional
        What the verdict rests on; as for `faithfulness_test`, "signed" by default.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    FaithfulnessReport
        Equal to that of ``faithfulness_test(maps, env, n, seed, one_network=True)``; its method has
        the name of the file.

    Raises
    ------
    AttributionLabError
        For a folder that is no export or has changed (the file is named), for one that this version
        would draw differently, and for maps that cannot be scored.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(13)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = al.export_environment(env, Path(folder) / "export", n=13)
    ...     report = al.score_export(out, env.truth(images, labels).signed.float())
    >>> report.verdict, report.one_network
    ('pass', True)
    """
    place = Path(folder)
    manifest = Manifest.read(place)
    manifest.check_files(place)
    env = _rebuilt(manifest, place)
    output = env.checked_output(manifest.output)
    file = str(maps) if isinstance(maps, str | Path) else None
    arrays: Any = maps if file is None else _read_maps(Path(file), env.name)
    report = faithfulness_test(
        arrays,
        env,
        manifest.n,
        manifest.seed,
        claim=claim,
        # The default is left out, as in a call by hand: commands of hints name what differs from it.
        explain=None if output == env.outputs[0] else output,
        one_network=True,
        show_progress=show_progress,
    )
    named = (file and repr(file)) or "maps"
    command = f"attributionlab.score_export({str(folder)!r}, {named}, claim={claim!r})"
    method = report.method if file is None else printable(file)
    return replace(report, method=method, command=command)


def _rebuilt(manifest: Manifest, folder: Path) -> Environment:
    """The environment of an export, whose images, masks and network are those in the folder."""
    stated = manifest.environment
    if not isinstance(stated.get("spec"), Mapping) or not isinstance(stated.get("overrides"), dict):
        raise AttributionLabError(f"{folder}: the manifest has no specification: export again")
    env = from_spec(stated["spec"])
    env.reference, env.overrides = str(stated.get("reference")), stated["overrides"]
    output = env.checked_output(manifest.output)
    drawn = drawn_arrays(env, manifest.n, manifest.seed, output)
    with in_one_line(
        lambda error: f"{folder} cannot be read ({format_error(error)}): export again"
    ):
        with np.load(folder / ARRAYS, allow_pickle=False) as found:
            same = drawn.keys() == set(found) and all(
                np.array_equal(found[name], each) for name, each in drawn.items()
            )
        from safetensors.numpy import load_file

        document = json.loads((folder / NETWORK).read_text(encoding="utf-8"))
        same &= listed_network(env).equals(document, load_file(folder / WEIGHTS))
    if not same or env.spec.digest != stated.get("digest"):
        writer = manifest.versions.get("attributionlab")
        raise AttributionLabError(
            f"{folder} holds other images, masks or weights than attributionlab {__version__} makes "
            f"from its specification (written by {writer}): export again"
        )
    return env


def _read_maps(path: Path, name: str) -> Any:
    """The array in a NumPy file."""
    if path.suffix not in NUMPY_FILES:
        raise AttributionLabError(f"maps are {str(path)!r}: save them as .npz or .npy")
    found = located(str(path), {})
    if not isinstance(found, Mapping):
        return found
    if name in found:
        return found[name]
    if len(found) > 1:
        raise AttributionLabError(
            f"{str(path)!r} holds {', '.join(map(repr, found))}: save one array, or one named {name!r}"
        )
    return next(iter(found.values()))
