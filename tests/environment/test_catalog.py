"""The catalog: every file loads, overrides go where they belong, all problems are said at once."""

import json
import tomllib
from pathlib import Path

import pytest
import torch

import attributionlab as al
from attributionlab.base import nearest
from attributionlab.worlds import counting_environments, describe, load_call, specs_folder
from attributionlab.worlds.environment.catalog import BUILDERS
from attributionlab.worlds.images import GENERATORS
from cases import COUNTING
from refusals import refused

DESIGNS, DATASETS = (
    sorted(specs_folder(kind).glob("*.toml"), key=lambda path: path.stem)
    for kind in ("designs", "datasets")
)
SPECIFICATIONS = [pytest.param(path, id=path.stem) for path in DESIGNS + DATASETS]

DESIGN = {
    "claim": "How many pixels are red.",
    "formula": "f(x) = number of red pixels",
    "source": "my own",
    "builder": "color-sum",
    "dataset": "mine.toml",
    "constants": {"redundant_channels": 0, "smoothing": 0.05},
}
DATASET = {
    "generator": "color-patches",
    "size": 12,
    "seed": 3,
    "constants": {"image_size": 24, "colors": [[255, 0, 0]], "background": [0, 0, 0]},
}


def toml(table: dict) -> str:
    """TOML of numbers, strings, lists and one level of tables; JSON writes these values alike."""
    lines = [f"{key} = {json.dumps(v)}" for key, v in table.items() if not isinstance(v, dict)]
    for key, inner in table.items():
        if isinstance(inner, dict):
            lines += [f"[{key}]", *(f"{name} = {json.dumps(v)}" for name, v in inner.items())]
    return "\n".join(lines)


def changed(table: dict, changes: dict, constants: dict) -> dict:
    """A copy with some keys and constants replaced; None removes one."""
    merged = table | changes
    if isinstance(merged.get("constants"), dict):
        inner = merged["constants"] | constants
        merged["constants"] = {key: value for key, value in inner.items() if value is not None}
    return {key: value for key, value in merged.items() if value is not None}


@pytest.fixture
def write(tmp_path):
    """Write both files of an environment, changed as the test says; the path of the design."""

    def write_both(design=None, constants=None, dataset=None, image_constants=None) -> str:
        path = tmp_path / "count-red.toml"
        path.write_text(toml(changed(DESIGN, design or {}, constants or {})), encoding="utf-8")
        text = toml(changed(DATASET, dataset or {}, image_constants or {}))
        (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
        return str(path)

    return write_both


# The files


def test_the_catalog_lists_every_design_in_alphabetical_order():
    assert al.environments() == [path.stem for path in DESIGNS]
    assert counting_environments() == sorted(COUNTING), "SMALL_ENVIRONMENTS of tests/cases.py"


@pytest.mark.parametrize("name", [path.stem for path in DESIGNS])
def test_every_design_loads_as_its_files_say(name):
    """What the files have to say is held in test_stated_environments.py."""
    env = al.load(name)
    design = tomllib.loads((DESIGNS[0].parent / f"{name}.toml").read_text(encoding="utf-8"))
    data = (DATASETS[0].parent / f"{design['dataset']}.toml").read_text(encoding="utf-8")
    dataset = tomllib.loads(data)
    assert env.name == env.spec.name == name
    assert env.spec.claim == design["claim"] == describe(name)
    assert (env.spec.builder, env.spec.generator) == (design["builder"], dataset["generator"])
    assert (env.spec.size, env.spec.seed) == (dataset["size"], dataset["seed"])
    for key, value in (design["constants"] | dataset["constants"]).items():
        written = list(map(list, value.items())) if isinstance(value, dict) else value
        assert json.loads(json.dumps(env.spec.constants[key])) == written
    assert env.recipe.image_size == 224


@pytest.mark.parametrize("path", SPECIFICATIONS)
def test_every_file_begins_with_a_header_for_readers(path):
    text = path.read_text(encoding="utf-8")
    header = text.split("\n\n")[0].splitlines()
    assert all(line.startswith("# ") for line in header)
    assert sum(len(line) for line in header) > 40


def test_there_is_no_python_among_the_files():
    designs = {path.suffix for path in DESIGNS[0].parent.rglob("*") if path.is_file()}
    assert designs == {".toml", ".safetensors"}  # and trained networks
    assert {path.suffix for path in DATASETS[0].parent.iterdir()} == {".toml", ".png"}  # previews


def test_designs_and_data_sets_share_no_key():
    for path in DESIGNS:
        design = tomllib.loads(path.read_text(encoding="utf-8"))
        data = path.parent.parent / "datasets" / f"{design['dataset']}.toml"
        dataset = tomllib.loads(data.read_text(encoding="utf-8"))
        assert not design.keys() & dataset.keys() - {"constants"}
        assert not design["constants"].keys() & dataset["constants"].keys()


def test_every_counting_design_has_a_data_set_of_its_own():
    used = {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8"))["dataset"] for path in DESIGNS
    }
    assert len({used[name] for name in COUNTING}) == len(COUNTING)
    used = set(used.values())
    assert set(used) | {"four-colors-shapes", "colors-everywhere-marker"} == {
        path.stem for path in DATASETS
    }


@pytest.mark.long
def test_every_builder_and_generator_has_an_environment():
    specs = [al.load(name).spec for name in al.environments()]
    assert {spec.builder for spec in specs} == set(BUILDERS)
    assert {spec.generator for spec in specs} == set(GENERATORS)


YELLOW = [220, 220, 20]
"""A mark of marker-flips, which no rule counts as a color of the palette."""


def test_all_colors_of_the_catalog_have_the_same_contrast():
    for path in DATASETS:
        constants = tomllib.loads(path.read_text(encoding="utf-8"))["constants"]
        colors = constants.get("colors", []) + constants.get("distractor_colors", [])
        colors = [color for color in colors if color != YELLOW]
        assert len({tuple(sorted(color)) for color in colors if len(set(color)) > 1}) <= 1


# Overrides


def test_overrides_go_to_network_images_and_environment():
    env = al.load(
        "multi-color-sum",
        image_size=40,
        redundant_channels=3,
        redundant_strength=2,
        accumulator="uniform",
        weight_seed=5,
        distractors=1,
        fill=1.0,
        shapes=["circle"],
        patch_size=[0.1, 0.2],
        patches_per_color=2,
        temperature=8,
        smoothing=0.1,
    )
    detector, first = env.model.detector, env.model.accumulator[0]
    assert detector[-2].out_channels == 4 + 1 + 3
    assert first.weight[:, 5:].abs().max().item() == 2
    ones_on_own_channel = torch.eye(5)[:, :, None, None].expand(5, 5, 3, 3)
    assert torch.equal(env.model.accumulator[2].weight, ones_on_own_channel)
    assert env.recipe.image_size == 40
    assert env.recipe.patches == 4 * 2 + 1
    assert env.recipe.shapes == ("circle",)
    assert env.recipe.ink.fill == 1.0
    assert env.temperature == 8.0
    assert env.smoothing_sigma == 4.0


def test_the_network_knows_the_distractors_that_the_images_show():
    for shown in (0, 1, 2):
        env = al.load("multi-color-sum-distractors", image_size=32, distractors=shown)
        assert env.model.detector[-2].out_channels == 4 + shown + 2
        assert env.network.classes == 4


def test_another_data_set_can_be_chosen_by_name():
    env = al.load("multi-color-sum", dataset="four-colors-shapes", image_size=32)
    assert env.recipe.shapes == ("triangle", "square", "circle")
    assert env.name == "multi-color-sum"
    assert al.load("multi-color-sum", image_size=32).recipe.shapes == ("bezier",)


# Files of one's own


def test_a_users_design_loads_with_the_data_set_beside_it(write):
    env = al.load(write())
    assert env.name.startswith("count-red (")
    assert env.spec.digest[:8] in env.name
    assert env.task == "regression"
    assert len(env.dataset()) == 12
    images, labels = env.batch(3)
    assert env.model(images)[:, 0].tolist() == labels.tolist()
    # What the files leave out has the default of the signatures.
    assert env.spec.constants["fill"] == 0.5
    assert env.spec.constants["accumulator"] == "nonuniform"


def test_a_users_design_loads_with_a_data_set_of_the_catalog(write):
    env = al.load(write(design={"dataset": "four-colors"}), image_size=32)
    assert env.task == "classification"
    assert env.network.classes == 4


def test_a_users_data_set_can_replace_another_by_its_path(write, tmp_path):
    path = write(design={"dataset": "four-colors"})
    assert al.load(path, dataset=str(tmp_path / "mine.toml")).recipe.image_size == 24
    assert al.load("color-detector", dataset=str(tmp_path / "mine.toml")).recipe.image_size == 24


def test_a_users_file_takes_overrides(write):
    assert al.load(write(), image_size=30).recipe.image_size == 30


# Refusals

KNOWN = f"known are {', '.join(sorted([*al.environments(), *al.environments('tokens')]))}"
COLORFUL, BINARY = {"dataset": "four-colors"}, {"dataset": "binary-patches"}


@pytest.mark.parametrize(
    ("name", "overrides", "said"),
    [
        ("multi-colour-sum", {}, "no environment named ... 'multi-color-sum'?"),
        ("Single-Color-Modulo", {}, "'Single-Color-Modulo': did you mean 'single-color-modulo'?"),
        ("x", {}, f"no environment named 'x': {KNOWN}"),
        ("missing.toml", {}, "no environment file at 'missing.toml': check the path"),
        (3, {}, "environment is 3: give a name or the path of a TOML file"),
        ("multi-color-sum", {"dataset": "four-colours"}, "did you mean 'four-colors'?"),
        ("multi-color-sum", {"imagesize": 32}, "constant 'imagesize' (did you mean 'image_size'?)"),
        ("multi-color-sum", {"builder": "white-sum"}, "unknown constant 'builder'"),
        (
            "single-color-modulo",
            {"temperature": 4},
            "is 4.0, but a regression has no softmax: leave",
        ),
        ("uniform-accumulator", {"dataset": "gray-numbers"}, "white-sum takes images of 1"),
        ("uniform-accumulator", COLORFUL, "color-patches makes 3 channels"),
        ("number-checker", COLORFUL, "number-sum takes images of 1 channels"),
        ("number-checker", {"number": 0}, "number is 0, the background: take another"),
        (
            "single-color-modulo",
            {"image_size": 72, "modulus": 7, "max_count": 100},
            "at most 105 counted pixels",
        ),
        ("single-color-modulo", {"max_count": 10**7}, "take at most 2,000"),
        ("multi-color-sum", {"redundant_strength": 1e300}, "of at most 16777216"),
        ("multi-color-sum", {"temperature": 2.0**-140}, "take a power of two"),
        ("multi-color-sum", {"colors": []}, "colors are empty"),
        ("multi-color-sum", {"weight_seed": -1}, "weight_seed is -1: take an integer"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_the_nearest_name_or_a_remedy(name, overrides, said):
    refused(al.load, {"name": name}, overrides, said)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (
            {"design": {"claim": None, "builder": None, "constants": None}},
            ["the design lacks 'claim'", "the design lacks 'builder'"],
        ),
        (
            {"dataset": {"generator": None, "seed": None}},
            ["the data set lacks 'generator'", "the data set lacks 'seed'"],
        ),
        (
            {"image_constants": {"colors": None, "image_size": None}},
            ["the constant 'colors' is missing", "the constant 'image_size' is missing"],
        ),
        (
            {"design": {"buidler": "x"}, "dataset": {"seeds": 3}},
            [
                "design key 'buidler' (did you mean 'builder'?)",
                "set key 'seeds' (did you mean 'seed'?)",
            ],
        ),
        (
            {"design": {"claim": 3}, "dataset": {"size": "many"}},
            ["claim is 3: pass a text", "size is 'many': take an integer of at least 1"],
        ),
        (
            {"design": {"constants": 3}},
            ["the design's constants are not a table: write [constants]"],
        ),
        (
            {"design": {"builder": "colour-sum"}, "dataset": {"generator": "zzz"}},
            [
                "no builder named 'colour-sum': did you mean 'color-sum'?",
                f"no generator named 'zzz': known are {', '.join(sorted(GENERATORS))}",
            ],
        ),
        (
            {"constants": {"image_size": 32}, "image_constants": {"redundant_channels": 1}},
            [
                "'image_size' of the design belongs in",
                "'redundant_channels' of the data set belongs in",
            ],
        ),
        (
            {"design": BINARY, "constants": {"colors": [[255, 0, 0]], "background": [0, 0, 0]}},
            ["images of 3 channels up to 255, binary-patches makes 1 channels up to 1"],
        ),
        *(
            ({"design": {"dataset": name}}, [f"count-red.toml: dataset is {name!r}: give its name"])
            for name in (3, ["four-colors"])
        ),
        ({"design": {"dataset": "gone.toml"}}, ["no data set file at 'gone.toml': check the path"]),
    ],
)
def test_all_that_is_wrong_in_two_files_is_said_at_once(write, changes, found):
    with pytest.raises(al.AttributionLabError) as caught:
        al.load(write(**changes))
    said = str(caught.value).split("; ")
    assert len(said) == len(found)
    assert all(each in problem for each, problem in zip(found, said, strict=True)), said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *(
            (text.encode(), r"^own\.toml is not valid TOML: ")
            for text in ("claim = ", "[constants\n", "a = 1\na = 2\n", "claim = 'no end")
        ),
        ("claim = 'größte Zahl'".encode("latin-1"), r"^own\.toml is not valid TOML: 'utf-8'"),
        (None, "no environment file at"),
    ],
)
def test_what_is_no_toml_file_is_refused(tmp_path, content, said):
    path = tmp_path / "own.toml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(al.AttributionLabError, match=said):
        al.load(str(path))


def test_names_with_nothing_near_are_listed_and_near_ones_offered():
    assert nearest("unform", ["uniform", "nonuniform"]) == "did you mean 'uniform'?"
    assert nearest("zzz", ["b", "a"]) == "known are a, b"


def test_paths_of_the_catalogs_own_files_load_too():
    path = Path(DESIGNS[0])
    assert al.load(str(path), image_size=32).name == path.stem


def test_size_and_seed_of_the_data_set_can_be_overridden():
    env = al.load("uniform-accumulator", image_size=16, size=3, seed=9)
    assert len(env.dataset()) == 3
    assert torch.equal(env.batch(2)[0], env.batch(2, seed=9)[0])


def test_a_path_object_is_a_path_and_a_byte_order_mark_is_ignored(write):
    path = Path(write())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert al.load(path).name == al.load(str(path)).name


def test_loading_leaves_torch_alone():
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        env = al.load("multi-color-sum", image_size=16)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(dtype)
    assert {parameter.dtype for parameter in env.softmax_model.parameters()} == {torch.float32}
    assert torch.equal(torch.get_rng_state(), state)


def test_an_environment_says_how_to_make_it_again():
    env = al.load("multi-color-sum", image_size=24, redundant_channels=0)
    call = load_call(env)
    assert call == "attributionlab.load('multi-color-sum', image_size=24, redundant_channels=0)"
    assert eval(call, {"attributionlab": al}).spec.digest == env.spec.digest
