"""Environments as folders that any framework reads, networks as lists of layers with weights by
name, and scores of maps that were made of them.
"""

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab import __version__
from attributionlab.base import (
    MOST_IMAGES,
    NUMPY_FILES,
    AttributionLabError,
    Images,
    Whole,
    check_new_folder,
    checked_arguments,
    folder_made_whole,
    follow,
    format_error,
    in_one_line,
    integer_problem,
    library_versions,
    located,
    printable,
    refuse_if,
)
from attributionlab.verdicts.faithfulness.protocol import Claim
from attributionlab.verdicts.faithfulness.report import FaithfulnessReport
from attributionlab.verdicts.faithfulness.test import faithfulness_test
from attributionlab.worlds import Environment, as_environment, from_spec, load_call
from attributionlab.worlds.truth import Output

SCHEMA = 1


class ListedNetwork(NamedTuple):
    """A network without torch.

    `document`: what network.json holds: `input`, `baseline`, `outputs`, `layers`, `attach`. `tensors`:
    weights and biases, under the names that the layers give.
    """

    document: dict[str, Any]
    tensors: dict[str, NDArray[np.float32]]

    def equals(self, document: Any, tensors: Mapping[str, NDArray[Any]]) -> bool:
        """Whether files say the same."""
        return (
            bool(self.document == document)
            and self.tensors.keys() == tensors.keys()
            and all(np.array_equal(each, tensors[name]) for name, each in self.tensors.items())
        )


def listed_network(env: Environment, numbered: bool = False) -> ListedNetwork:
    """The layers of an environment's network in the order in which they act; `numbered` takes away
    their names.

    The networks are chains: each layer reads what the one before it gives, and there are neither
    branches nor sums of them. For a classifier, temperature (a linear layer without bias) and softmax
    come last.

    Raises AttributionLabError for what is no chain of `nn.Conv2d`, `nn.Linear`, `nn.ReLU`, `nn.Flatten`
    and `nn.Softmax` with weights of float32.
    """
    modules = list(_chain(env.model, ""))
    if numbered:
        modules = [(f"layer{k:02}", module) for k, (_, module) in enumerate(modules)]
    outputs = {"logit": len(modules)}
    if env.softmax_model is not None:
        behind = _parts(env.softmax_model)
        modules += [(name, module) for name, module in behind if module is not env.model]
        outputs["probability"] = len(modules)
    layers, tensors = [], dict[str, NDArray[np.float32]]()
    for name, module in modules:
        described = _described(env, name, module)
        weights = {
            key: _array(env, f"{name}.{key}", value)
            for key in ("weight", "bias")
            if (value := getattr(module, key, None)) is not None
        }
        tensors |= {f"{name}.{key}": value for key, value in weights.items()}
        if weights:
            described |= {
                key: f"{name}.{key}" if key in weights else None for key in ("weight", "bias")
            }
        layers.append({"name": name, **described})
    names = {module: name for name, module in modules}
    recipe = env.recipe
    document = {
        "schema": SCHEMA,
        "input": {
            "channels": recipe.channels,
            "height": recipe.image_size,
            "width": recipe.image_size,
            "lowest": 0,
            "highest": env.max_value,
        },
        "baseline": [int(value) for value in recipe.background],
        "outputs": outputs,
        "layers": layers,
        "attach": {key: names[module] for key, module in env.layers.items() if module in names},
    }
    return ListedNetwork(document, tensors)


def _chain(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules of nested chains with their names; what has no parts is for `_described`."""
    if type(module) is not nn.Sequential:
        yield name, module
        return
    for key, part in _parts(module):
        yield from _chain(part, f"{name}.{key}" if name else key)


def _parts(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Its children with their names; `named_children` leaves out one that is there twice."""
    return [(key, part) for key, part in module._modules.items() if part is not None]


def _described(env: Environment, name: str, module: Any) -> dict[str, Any]:
    """What a layer does, apart from its weights; a subclass may do something else."""
    kind = type(module)
    if kind is nn.Conv2d and _is_plain(module):
        return {
            "kind": "conv2d",
            "kernel": list(module.kernel_size),
            "stride": list(module.stride),
            "padding": list(module.padding),
        }
    if kind is nn.Linear:
        return {"kind": "linear"}
    if kind is nn.ReLU:
        return {"kind": "relu"}
    if kind is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return {"kind": "flatten"}
    if kind is nn.Softmax and module.dim == 1:
        return {"kind": "softmax"}
    said = " ".join(str(module).split())
    raise AttributionLabError(
        f"{env.name}: layer {name!r} is {said}, which a list of layers cannot represent: export "
        "networks that are chains (nn.Sequential) of Conv2d, Linear, ReLU, Flatten and Softmax"
    )


def _is_plain(convolution: Any) -> bool:
    """Whether kernel, stride and padding with zeros are all there is to a convolution."""
    rest = convolution.groups, convolution.dilation, convolution.padding_mode
    return rest == (1, (1, 1), "zeros") and not isinstance(convolution.padding, str)


def _array(env: Environment, name: str, value: Tensor) -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.ascontiguousarray(value.detach().cpu().numpy())
    if found.dtype != np.float32:
        raise AttributionLabError(f"{env.name}: {name} is of {value.dtype}: export float32")
    return found


MANIFEST, ARRAYS, METADATA = "manifest.json", "arrays.npz", "metadata.csv"
NETWORK, WEIGHTS = "network.json", "network.safetensors"
MOST_NAMED = 5
"""Files named in a refusal."""


@dataclass(frozen=True)
class Manifest:
    """What a folder was exported from, and the sums of its files.

    - `environment`: `spec` (the fields of an `EnvironmentSpec`), its `digest`, and `reference` and
      `overrides` with which `attributionlab.load` was called.
    - `n`, `seed`: the images are ``env.batch(n, seed)``.
    - `output`: which output the masks are about.
    - `files`: SHA-256 of each file, in hexadecimal digits, by its path in the folder.
    - `versions`, `command`: what it was written by.
    """

    environment: Mapping[str, Any]
    n: int
    seed: int
    output: str
    files: Mapping[str, str]
    versions: Mapping[str, str]
    command: str

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a folder, or refuse the folder in one line."""
        path = folder / MANIFEST
        if not os.path.isfile(path):  # a name too long is no file
            raise AttributionLabError(
                f"{str(folder)!r} does not hold {MANIFEST}: pass a folder that attributionlab "
                "export wrote"
            )
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError, OSError) as error:
            raise AttributionLabError(f"{path} is not JSON ({error}): export again") from error
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA:
            raise AttributionLabError(
                f"{path} has the schema {schema!r}, this version reads {SCHEMA}: export again"
            )
        kinds = {key: get_origin(kind) or kind for key, kind in get_type_hints(cls).items()}
        wrong = [key for key, kind in kinds.items() if not isinstance(document.get(key), kind)]
        refuse_if([f"{key} is {document.get(key)!r}: export again" for key in wrong], str(path))
        found = cls(**{key: document[key] for key in kinds})
        problems = integer_problem("n", found.n, 1, MOST_IMAGES)
        # An entry that is missing would leave a file unchecked, a further one may lead anywhere.
        expected = {ARRAYS, METADATA, NETWORK, WEIGHTS, *image_names(found.n)}
        if differing := sorted(found.files.keys() ^ expected):
            said = f"files have not those of an export of {found.n} images ({_few(differing)})"
            problems.append(said)
        refuse_if(problems, str(path))
        return found

    def check_files(self, folder: Path) -> None:
        """Refuse a folder in which a file is not as it was written."""
        changed, missing = [], []
        for name, expected in self.files.items():
            path = folder / name
            if not path.is_file():
                missing.append(name)
            elif digest_of(path) != expected:
                changed.append(name)
        refuse_if(
            [
                f"{len(names)} of {len(self.files)} files {verb} ({_few(names)}): export again"
                for verb, names in (("are missing", missing), ("have changed", changed))
                if names
            ],
            str(folder),
        )

    def is_of(self, request: Mapping[str, Any]) -> bool:
        """Whether it is of the same environment, images and output, by the same version."""
        own = self.environment.get("digest"), self.n, self.seed, self.output
        asked = (request[key] for key in ("digest", "n", "seed", "output"))
        return own == tuple(asked) and (self.versions.get("attributionlab") == __version__)


@checked_arguments
def export_environment(
    env: str | Environment,
    out: str | Path,
    n: Images = 32,
    seed: Whole = 0,
    output: Output | None = None,
    *,
    show_progress: bool = False,
    command: str | None = None,
) -> Path:
    """Write an environment into a folder from which any framework can read it, without torch.

    The folder holds ``env.batch(n, seed)`` and the environment's own network. (Questions, which have
    one network each, are not exported: precomputed attributions apply to a single network.) Maps of
    these images can be scored with `score_export`.

    ============================ =====================================================================
    images/00000.png, ...        the images, gray or RGB, values as the network reads them
    metadata.csv                 file_name, index, label, target: Hugging Face's image folder
    arrays.npz                   images (n, C, H, W) uint8, labels and targets (n,) int64, masks
                                 (n, 1, H, W) int8: +1, -1, 0
    network.json                 layers in the order in which they act (`listed_network`)
    network.safetensors          their weights, float32
    manifest.json                schema, environment, n, seed, output, versions, command, and the
                                 SHA-256 of each file above
    ============================ =====================================================================

    Parameters
    ----------
    env : str or Environment
        A name, the path of a TOML file, or an environment as `load` makes it.
    out : str or Path
        The folder to write, completely or not at all. An existing folder must be empty, or contain the
        same export, which is then left unchanged.
    n : int
        How many images, from 1.
    seed : int
        Which, 0 or more.
    output : {"probability", "logit"}, optional
        Which output the masks are about; the probability by default for a classifier.
    show_progress : bool
        Show progress on standard error.
    command : str, optional
        How to run this again, for the manifest.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    AttributionLabError
        For a folder that cannot be written or holds something else, for a network that is not a chain
        of standard layers, and for an environment whose network or images are not those of its
        specification, so that no score could be computed from the folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = al.export_environment(env, Path(folder) / "export", n=2)
    ...     sorted(path.name for path in out.iterdir())
    ['arrays.npz', 'images', 'manifest.json', 'metadata.csv', 'network.json', 'network.safetensors']
    """
    target = check_new_folder(out)
    env = as_environment(env)
    output = env.checked_output(output)
    request = {"digest": env.spec.digest, "n": n, "seed": seed, "output": output}
    if target.is_dir() and any(target.iterdir()):
        _check_same(target, request, str(out))
        return target
    with follow(f"export {env.name}", int(n), "images", show=show_progress) as advance:
        network = listed_network(env)
        _check_rebuilt(env, network)
        with folder_made_whole(target) as folder:
            sums = {}
            for name, content in _contents(env, network, int(n), int(seed), output):
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
                sums[name] = hashlib.sha256(content).hexdigest()
                if path.suffix == ".png":
                    advance()
            manifest = Manifest(
                environment={
                    "name": env.name,
                    "reference": env.reference,
                    "overrides": env.overrides,
                    "spec": asdict(env.spec),
                    "digest": env.spec.digest,
                },
                n=int(n),
                seed=int(seed),
                output=output,
                files=sums,
                versions=library_versions(),
                command=command
                or f"attributionlab.export_environment({load_call(env)}, {str(out)!r}, n={n}, "
                f"seed={seed}, output={output!r})",
            )
            (folder / MANIFEST).write_bytes(_json({"schema": SCHEMA, **asdict(manifest)}))
    return target


def image_names(n: int) -> list[str]:
    """Paths of the images in the folder."""
    digits = max(5, len(str(n - 1)))
    return [f"images/{index:0{digits}}.png" for index in range(n)]


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise AttributionLabError(f"cannot read {str(path)!r}: {error.strerror}") from error


def drawn_arrays(env: Environment, n: int, seed: int, output: Output) -> dict[str, Any]:
    """What arrays.npz holds."""
    images, labels = env.batch(n, seed)
    targets = env.targets(labels)
    masks = env.truth(images, targets, output).signed
    arrays = {"images": images.byte(), "labels": labels, "targets": targets, "masks": masks}
    return {name: np.ascontiguousarray(each.cpu().numpy()) for name, each in arrays.items()}


def _contents(
    env: Environment, network: ListedNetwork, n: int, seed: int, output: Output
) -> Iterator[tuple[str, bytes]]:
    """Files but for the manifest, with their paths."""
    from safetensors.numpy import save

    arrays = drawn_arrays(env, n, seed, output)
    names = image_names(n)
    for name, image in zip(names, arrays["images"], strict=True):
        yield name, _png(image)
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["file_name", "index", "label", "target"])
    rows.writerows(
        zip(names, range(n), arrays["labels"].tolist(), arrays["targets"].tolist(), strict=True)
    )
    yield METADATA, table.getvalue().encode()
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    yield ARRAYS, packed.getvalue()
    yield NETWORK, _json(network.document)
    yield WEIGHTS, save(network.tensors)


def _png(image: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    pixels = image[0] if len(image) == 1 else np.moveaxis(image, 0, 2)
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, format="PNG")
    return file.getvalue()


def _json(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    return (text + "\n").encode("utf-8", "backslashreplace")


def _check_same(folder: Path, request: Mapping[str, Any], said: str) -> None:
    """Refuse a folder with something in it that is not the same export, whole."""
    try:
        found = Manifest.read(folder)
        found.check_files(folder)
        problem = "" if found.is_of(request) else "it holds another export"
    except AttributionLabError as error:
        problem = str(error)
    if problem:
        raise AttributionLabError(f"{said!r} is not empty ({problem}): name another folder")


def _check_rebuilt(env: Environment, network: ListedNetwork) -> None:
    """Refuse what `score_export` could not rebuild from the manifest."""
    again = from_spec(asdict(env.spec))
    if again.recipe != env.recipe or not listed_network(again).equals(*network):
        raise AttributionLabError(
            f"network or images of {env.name} differ from its specification: export an "
            "environment made by attributionlab.load"
        )


def _few(names: list[str]) -> str:
    """The first of some names."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


@checked_arguments
def score_export(
    folder: str | Path,
    maps: str | Path | NDArray[Any] | Tensor,
    claim: Claim | None = None,
    *,
    show_progress: bool = False,
) -> FaithfulnessReport:
    """Score maps of an exported environment, as `faithfulness_test` does on one network.

    All images share one network, so a lookup table of its colors passes: a pass proves less than with
    questions, and the report says so (`one_network` is true).

    Parameters
    ----------
    folder : str or Path
        A folder that `export_environment` wrote, unchanged.
    maps : path of a .npz or .npy file, array or Tensor
        One map for each image, (n, C, H, W), (n, 1, H, W) or (n, H, W), finite, on any scale: how much
        each pixel raises (+) or lowers (-) the output that the manifest names. A file holds one array,
        or an array named after the environment; nothing is unpickled.
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
        For a folder that is not an export or was changed (the message names the file), for one that
        this version would draw differently, and for maps that cannot be scored.

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
            f"{folder} holds images, masks or weights that differ from those that attributionlab "
            f"{__version__} makes from its specification (written by {writer}): export again"
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
