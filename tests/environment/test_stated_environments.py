"""The files of the catalog held against one table, written from the paper and not from the files.

References are to AttributionLab. "Ours" marks what the paper leaves open, or what the laboratory adds.
"""

import tomllib
from dataclasses import asdict
from typing import Any, NamedTuple

import pytest

import attributionlab as al
from attributionlab.worlds import specs_folder
from attributionlab.worlds.environment import catalog
from cases import COUNTING

# Ours: the permutations of one color, so that all have the same contrast.
ORANGE = (220, 120, 20)
COLORS = (ORANGE, (220, 20, 120), (120, 220, 20), (20, 220, 120))
OTHERS = ((120, 20, 220), (20, 120, 220))
GRAY = (20, 20, 20)  # G.1: the background of color images

SMOOTHING = 0.04  # ours: sigma of the smoothed truth, a share of the image side
SIDE = 224  # H.2: Sensitivity-N goes from 1 to 224 x 224 pixels
# F.1, G.1: patches of random sizes. Their range is ours: half of the mean share of white pixels is the
# best deletion AUC of Table 4, which makes 2 x 0.0246 x 224 x 224 = 2,469 pixels.
PATCHES = {"image_size": SIDE, "shapes": ("bezier",), "patch_size": (0.14, 0.245)} | {
    "smoothing": SMOOTHING, "weight_seed": 0, "accumulator": "nonuniform",  # I: the default
}  # fmt: skip
FILL = 0.5  # F.1, G.1: each pixel of a patch is drawn from Bernoulli(0.5)
BINARY = PATCHES | {"fill": FILL, "patches": 4}
COLORFUL = PATCHES | {
    "fill": FILL, "background": GRAY, "patches_per_color": 1, "colors": COLORS,
    "distractor_colors": OTHERS, "distractors": 0,
    "redundant_channels": 2, "redundant_strength": 1.0,  # eqs. 5 and 15; number and strength are ours
}  # fmt: skip
ONE = COLORFUL | {"colors": (ORANGE,)}
DRAWN = {"size": 256, "seed": 0}  # ours
SHAPES_OF_G1 = "four-colors-shapes", ("triangle", "square", "circle")
"""G.1 names these where the default has the Bezier curves of F.1."""

COUNTED = "logit_c(x) = number of pixels of color c"
DISTURBED = f"{COUNTED}; unseen colors enter the first sum with random weights"
PAPER = "AttributionLab, "
SECTION_3 = f"{PAPER}section 3, eqs. 4, 5, 14 and 15, appendices C.4 and G"


class Stated(NamedTuple):
    """One environment."""

    source: str
    """where the paper describes it, as the file cites it"""
    claim: str
    formula: str
    builder: str
    dataset: str
    constants: dict[str, Any]
    counted: tuple[tuple[int, ...], ...] = ((1,),)
    """the pixels that count, one for each output"""
    modulus: int | None = None


GENERATORS = {"color-sum": "color-patches", "number-sum": "number-patches"}
"""By builder; all others take binary patches."""

ENVIRONMENTS = {
    # Section 3: N_C patches of one color each, N_C classes; 3.1: redundant channels; C.4: the detector;
    # G.1: four colors on (20, 20, 20); I: the default accumulator has non-uniform weights.
    "multi-color-sum": Stated(
        SECTION_3,
        "Which of four colors has the most pixels; other colors have unpredictable effects.",
        DISTURBED, "color-sum", "four-colors", COLORFUL, COLORS,
    ),
    # Ours: two patches of colors that the detector knows and the head drops.
    "multi-color-sum-distractors": Stated(
        f"{PAPER}section 3; the distractors are this laboratory's",
        "Which of four colors has the most pixels; distractor patches have no effect.",
        f"{COUNTED}; distractor colors are detected and dropped",
        "color-sum", "four-colors-distractors", COLORFUL | {"distractors": 2}, COLORS,
    ),
    # Section 3: the default mode, in which other colors do not affect the output.
    "multi-color-sum-in-distribution": Stated(
        f"{PAPER}section 3, without eqs. 5 and 15",
        "Which of four colors has the most pixels; other colors have no effect.",
        f"{COUNTED}, for every image",
        "color-sum", "four-colors-in-distribution", COLORFUL | {"redundant_channels": 0}, COLORS,
    ),
    # I: a uniform initialization of the accumulator, redundant channels retained (its heading says
    # the opposite).
    "multi-color-sum-uniform": Stated(
        f"{PAPER}appendix I",
        "Which of four colors has the most pixels, summed by kernels of ones; other colors have "
        "unpredictable effects.",
        DISTURBED, "color-sum", "four-colors-uniform", COLORFUL | {"accumulator": "uniform"}, COLORS,
    ),
    # Eqs. 4 and 14: one detector by itself. The images are ours.
    "color-detector": Stated(
        f"{PAPER}eqs. 4, 14 and appendix C.4",
        "The number of pixels of one color.",
        "f(x) = sum over pixels of C(r, g, b), C = ReLU(I_R(r) + I_G(g) + I_B(b) - 2)",
        "color-sum", "one-color",
        ONE | {"distractor_colors": (*COLORS[1:3], OTHERS[1]), "distractors": 3}
        | {"redundant_channels": 0},
        (ORANGE,),
    ),
    # Appendix D with F.1: N is 30 by default; Table 1: 17 layers, 675,033 parameters; E: 10
    # convolutions and 7 linear layers. So many parameters leave U, the largest count, between 4,891 and
    # 4,920 (164 multiples of N); which one is ours.
    "single-color-modulo": Stated(
        f"{PAPER}appendix D, eqs. 8 to 13 and 16, tables 1, 3 and 4",
        "The number of white pixels of a binary image, modulo 30.",
        "f(x) = (sum over pixels of x) mod N = f_5(f_4(f_3(f_2(f_1(sum x)))))",
        "modulo-sum", "binary-patches", BINARY | {"modulus": 30, "max_count": 4899}, modulus=30,
    ),
    # Ours: one of the six colors counts, so that maps made without the network do not know which.
    "single-color-sum": Stated(
        f"{SECTION_3}, with one class",
        "The number of pixels of one color out of six; unseen colors have unpredictable effects.",
        "f(x) = number of pixels of the color; unseen colors enter the first sum with random "
        "weights",
        "color-sum", "one-color-of-six",
        ONE | {"distractor_colors": (*COLORS[1:], *OTHERS), "distractors": 5}, (ORANGE,),
    ),
    # C.1: a checker for the number 5 (figures 4 and 11). The images are ours.
    "number-checker": Stated(
        f"{PAPER}eqs. 3, 6, 7 and appendix C.1",
        "The number of pixels of a gray image that equal a given number.",
        "f(x) = sum over pixels of I_N(x), I_N(x) = ReLU(I_{>N-1}(x) - I_{>N}(x))",
        "number-sum", "gray-numbers",
        PATCHES | {"patches": 4, "number": 5, "values": (1, 9), "background": 0}, ((5,),),
    ),
    # C.2, figure 12: all weights are 1.
    "uniform-accumulator": Stated(
        f"{PAPER}appendix C.2, figure 12",
        "The number of white pixels of a binary image, summed by kernels of ones.",
        "f(x) = sum over pixels of x",
        "white-sum", "black-and-white", BINARY | {"accumulator": "uniform"},
    ),
    # C.2, figure 13: random weights whose products sum to 1.
    "nonuniform-accumulator": Stated(
        f"{PAPER}appendix C.2, figure 13",
        "The number of white pixels of a binary image, summed by random kernels whose products "
        "sum to 1.",
        "f(x) = sum over pixels of x, with sum_i w_ij m_i = 1 for every kernel position j",
        "white-sum", "white-on-black", BINARY,
    ),
}  # fmt: skip


def files() -> dict[str, dict]:
    """Files of environments that count and of their images, by folder and name, parsed.

    tests/rules/test_worlds.py holds those of worlds from rules.
    """
    read = {
        f"{path.parent.name}/{path.stem}": tomllib.loads(path.read_text(encoding="utf-8"))
        for kind in ("designs", "datasets")
        for path in specs_folder(kind).glob("*.toml")
    }
    return {
        name: table
        for name, table in read.items()
        if table.get("builder") != "rule" and table.get("generator") != "scenes"
    }


def differences(read: dict[str, dict]) -> list[str]:
    """Environments whose files say something else than the table, or that nothing can be made of."""
    different = []
    for name, stated in ENVIRONMENTS.items():
        design = read[f"designs/{name}"]
        try:
            spec = specification(name, design, read[f"datasets/{design['dataset']}"])
        except (al.AttributionLabError, KeyError):
            different.append(name)
            continue
        if (spec, design["dataset"]) != (as_stated(name, stated), stated.dataset):
            different.append(name)
    dataset, shapes = SHAPES_OF_G1
    other = read["datasets/four-colors"]
    if read[f"datasets/{dataset}"] != other | {
        "constants": other["constants"] | {"shapes": list(shapes)}
    }:
        different.append(dataset)
    return different


def specification(name: str, design: dict, dataset: dict) -> dict:
    spec = asdict(catalog._spec(name, dict(design), dict(dataset), {}))
    del spec["hidden"]  # of questions, which the papers do not ask
    return spec


def as_stated(name: str, stated: Stated) -> dict:
    """The specification that the table asks for."""
    texts = {key: getattr(stated, key) for key in ("claim", "formula", "source", "builder")}
    generator = GENERATORS.get(stated.builder, "binary-patches")
    return texts | DRAWN | {"name": name, "generator": generator, "constants": stated.constants}


def test_the_files_say_what_the_table_states():
    assert differences(files()) == []
    assert sorted(ENVIRONMENTS) == sorted(COUNTING)


def changed(value):
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2
        case str():
            return value + "s"
        case [first, *rest]:
            return [changed(first), *rest]


@pytest.mark.long
def test_every_entry_of_every_file_is_held_by_the_table():
    read = files()
    noticed = []
    for file, table in read.items():
        for key, value in table.items():
            if key not in ("constants", "hidden"):  # which only questions have
                noticed.append(differences(read | {file: table | {key: changed(value)}}) != [])
        for key, value in table["constants"].items():
            constants = table["constants"] | {key: changed(value)}
            noticed.append(differences(read | {file: table | {"constants": constants}}) != [])
    assert all(noticed)
    assert len(noticed) > 100


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_what_is_explained_is_what_the_table_states(name):
    env, stated = al.load(name), ENVIRONMENTS[name]
    assert env.network.classes == len(stated.counted)
    assert env.task == ("classification" if env.network.classes > 1 else "regression")
    colorful = stated.builder == "color-sum"
    assert env.max_value == (1 if stated.counted == ((1,),) else 255)
    # Ours: the smallest power of two at which no gradient vanishes.
    assert env.temperature == (256 if env.task == "classification" else None)
    assert (env.softmax_model is None) == (env.task == "regression")
    assert tuple(env.baseline.flatten().tolist()) == (GRAY if colorful else (0,))
    assert env.smoothing_sigma == pytest.approx(SMOOTHING * SIDE, rel=2**-52)  # one product
    assert (env.counting.values, env.counting.modulus) == (stated.counted, stated.modulus)
