"""What each environment of the catalog states: data, written from the paper and not from the files.

References are to AttributionLab. "Ours" marks what the paper leaves open, or what the laboratory adds.
"""

from typing import Any, NamedTuple

__all__ = ["ENVIRONMENTS", "Stated"]

# Ours: the permutations of one color, so that all have the same contrast.
COLORS = ((220, 120, 20), (220, 20, 120), (120, 220, 20), (20, 220, 120))
OTHERS = ((120, 20, 220), (20, 120, 220))
COUNTED = "logit_c(x) = number of pixels of color c"
DISTURBED = f"{COUNTED}; unseen colors enter the first sum with random weights"
GRAY = (20, 20, 20)  # G.1: the background of color images
BLACK = (0,)  # D: the background of binary images

SMOOTHING = 0.04  # ours: sigma of the smoothed truth, a share of the image side
SIDE = 224  # H.2: Sensitivity-N goes from 1 to 224 x 224 pixels
# F.1, G.1: patches of random sizes. Their range is ours: half of the mean share of white pixels is the
# best deletion AUC of Table 4, which makes 2 x 0.0246 x 224 x 224 = 2,469 pixels.
PATCHES = {"shapes": ("bezier",), "patch_size": (0.14, 0.245)}
FILL = 0.5  # F.1, G.1: each pixel of a patch is drawn from Bernoulli(0.5)
DRAWN = {"size": 256, "seed": 0}  # ours


class Stated(NamedTuple):
    """One environment."""

    paper: str
    """where the paper describes it, as the file cites it"""
    claim: str
    formula: str
    builder: str
    dataset: str
    generator: str
    classes: int
    """outputs; a regression has one"""
    counted: tuple[tuple[int, ...], ...]
    """the pixels that count, one for each output"""
    distractors: tuple[tuple[int, ...], ...]
    """colors of patches that do not count, known to the network"""
    background: tuple[int, ...]
    highest: int
    patches: int
    redundant_channels: int
    """which fire on all other colors (eqs. 5 and 15)"""
    accumulator: str
    constants: dict[str, Any]
    """of the files, as far as no column says them"""
    temperature: float | None = None
    """ours: the smallest power of two at which no gradient vanishes"""
    modulus: int | None = None
    parameters: int | None = None
    """where the paper counts them"""


COLOR_PATCHES = {
    **PATCHES, "image_size": SIDE, "fill": FILL, "background": GRAY, "patches_per_color": 1,
    "smoothing": SMOOTHING, "weight_seed": 0, "redundant_strength": 1.0,  # ours: the strength
}  # fmt: skip
BINARY_PATCHES = {
    **PATCHES, "image_size": SIDE, "fill": FILL, "patches": 4, "smoothing": SMOOTHING, "weight_seed": 0,
}  # fmt: skip

ENVIRONMENTS = {
    # Section 3: N_C patches of one color each, N_C classes; 3.1: redundant channels; C.4: the detector;
    # G.1: four colors on (20, 20, 20); I: the default accumulator has non-uniform weights. N_R is ours.
    "multi-color-sum": Stated(
        paper="AttributionLab, section 3, eqs. 4, 5, 14 and 15, appendices C.4 and G",
        claim="Which of four colors has the most pixels; other colors have unpredictable effects.",
        formula=DISTURBED,
        builder="color-sum", dataset="four-colors", generator="color-patches",
        classes=4, counted=COLORS, distractors=(), background=GRAY, highest=255, patches=4,
        redundant_channels=2, accumulator="nonuniform", temperature=256,
        constants=COLOR_PATCHES | {"colors": COLORS, "distractor_colors": OTHERS, "distractors": 0},
    ),
    # Ours: two patches of colors that the detector knows and the head drops.
    "multi-color-sum-distractors": Stated(
        paper="AttributionLab, section 3; the distractors are this laboratory's",
        claim="Which of four colors has the most pixels, among patches that do not matter.",
        formula=f"{COUNTED}; distractor colors are detected and dropped",
        builder="color-sum", dataset="four-colors-distractors", generator="color-patches",
        classes=4, counted=COLORS, distractors=OTHERS, background=GRAY, highest=255, patches=6,
        redundant_channels=2, accumulator="nonuniform", temperature=256,
        constants=COLOR_PATCHES | {"colors": COLORS, "distractor_colors": OTHERS, "distractors": 2},
    ),
    # Section 3: the default mode, in which other colors do not affect the output.
    "multi-color-sum-in-distribution": Stated(
        paper="AttributionLab, section 3, without eqs. 5 and 15",
        claim="Which of four colors has the most pixels; other colors have no effect.",
        formula=f"{COUNTED}, for every image",
        builder="color-sum", dataset="four-colors-in-distribution", generator="color-patches",
        classes=4, counted=COLORS, distractors=(), background=GRAY, highest=255, patches=4,
        redundant_channels=0, accumulator="nonuniform", temperature=256,
        constants=COLOR_PATCHES | {"colors": COLORS, "distractor_colors": OTHERS, "distractors": 0},
    ),
    # I: a uniform initialization of the accumulator, redundant channels retained (its heading says
    # the opposite).
    "multi-color-sum-uniform": Stated(
        paper="AttributionLab, appendix I",
        claim="Which of four colors has the most pixels, by kernels of ones; other colors disturb it.",
        formula=DISTURBED,
        builder="color-sum", dataset="four-colors-uniform", generator="color-patches",
        classes=4, counted=COLORS, distractors=(), background=GRAY, highest=255, patches=4,
        redundant_channels=2, accumulator="uniform", temperature=256,
        constants=COLOR_PATCHES | {"colors": COLORS, "distractor_colors": OTHERS, "distractors": 0},
    ),
    # Eqs. 4 and 14: one detector by itself. The images are ours.
    "color-detector": Stated(
        paper="AttributionLab, eqs. 4, 14 and appendix C.4",
        claim="How many pixels of a color image have one color.",
        formula="f(x) = sum over pixels of C(r, g, b), C = ReLU(I_R(r) + I_G(g) + I_B(b) - 2)",
        builder="color-sum", dataset="one-color", generator="color-patches",
        classes=1, counted=((220, 120, 20),),
        distractors=((220, 20, 120), (120, 220, 20), (20, 120, 220)),
        background=GRAY, highest=255, patches=4, redundant_channels=0, accumulator="nonuniform",
        constants=COLOR_PATCHES | {
            "colors": ((220, 120, 20),),
            "distractor_colors": ((220, 20, 120), (120, 220, 20), (20, 120, 220)),
            "distractors": 3,
        },
    ),
    # Appendix D with F.1: N is 30 by default; Table 1: 17 layers, 675,033 parameters; E: 10
    # convolutions and 7 linear layers. So many parameters leave U, the largest count, between 4,891 and
    # 4,920 (164 multiples of N); which one is ours.
    "single-color-modulo": Stated(
        paper="AttributionLab, appendix D, eqs. 8 to 13 and 16, tables 1, 3 and 4",
        claim="The number of white pixels of a binary image, modulo 30.",
        formula="f(x) = (sum over pixels of x) mod N = f_5(f_4(f_3(f_2(f_1(sum x)))))",
        builder="modulo-sum", dataset="binary-patches", generator="binary-patches",
        classes=1, counted=((1,),), distractors=(), background=BLACK, highest=1, patches=4,
        redundant_channels=0, accumulator="nonuniform", modulus=30, parameters=675_033,
        constants=BINARY_PATCHES | {"modulus": 30, "max_count": 4899},
    ),
    # Ours: one of the six colors counts, so that maps made without the network do not know which.
    "single-color-sum": Stated(
        paper="AttributionLab, section 3, eqs. 4, 5, 14 and 15, appendices C.4 and G, with one class",
        claim="How many pixels of a color image have one color of six; unseen colors have "
        "unpredictable effects.",
        formula="f(x) = number of pixels of the color; unseen colors enter the first sum with random "
        "weights",
        builder="color-sum", dataset="one-color-of-six", generator="color-patches",
        classes=1, counted=((220, 120, 20),),
        distractors=((220, 20, 120), (120, 220, 20), (20, 220, 120), (120, 20, 220), (20, 120, 220)),
        background=GRAY, highest=255, patches=6, redundant_channels=2, accumulator="nonuniform",
        constants=COLOR_PATCHES | {
            "colors": ((220, 120, 20),),
            "distractor_colors": (
                (220, 20, 120), (120, 220, 20), (20, 220, 120), (120, 20, 220), (20, 120, 220),
            ),
            "distractors": 5,
        },
    ),
    # C.1: a checker for the number 5 (figures 4 and 11). The images are ours.
    "number-checker": Stated(
        paper="AttributionLab, eqs. 3, 6, 7 and appendix C.1",
        claim="How many pixels of a gray image equal one number.",
        formula="f(x) = sum over pixels of I_N(x), I_N(x) = ReLU(I_{>N-1}(x) - I_{>N}(x))",
        builder="number-sum", dataset="gray-numbers", generator="number-patches",
        classes=1, counted=((5,),), distractors=(), background=BLACK, highest=255, patches=4,
        redundant_channels=0, accumulator="nonuniform",
        constants={
            **PATCHES, "image_size": SIDE, "patches": 4, "smoothing": SMOOTHING, "weight_seed": 0,
            "number": 5, "values": (1, 9), "background": 0,
        },
    ),
    # C.2, figure 12: all weights are 1.
    "uniform-accumulator": Stated(
        paper="AttributionLab, appendix C.2, figure 12",
        claim="How many pixels of a binary image are white, by kernels of ones.",
        formula="f(x) = sum over pixels of x",
        builder="white-sum", dataset="black-and-white", generator="binary-patches",
        classes=1, counted=((1,),), distractors=(), background=BLACK, highest=1, patches=4,
        redundant_channels=0, accumulator="uniform", constants=BINARY_PATCHES,
    ),
    # C.2, figure 13: random weights whose products sum to 1.
    "nonuniform-accumulator": Stated(
        paper="AttributionLab, appendix C.2, figure 13",
        claim="How many pixels of a binary image are white, by random kernels whose products sum to 1.",
        formula="f(x) = sum over pixels of x, with sum_i w_ij m_i = 1 for every kernel position j",
        builder="white-sum", dataset="white-on-black", generator="binary-patches",
        classes=1, counted=((1,),), distractors=(), background=BLACK, highest=1, patches=4,
        redundant_channels=0, accumulator="nonuniform", constants=BINARY_PATCHES,
    ),
}  # fmt: skip
"""By name; G.1's own shapes are those of the data set `SHAPES_OF_G1`."""

SHAPES_OF_G1 = "four-colors-shapes", ("triangle", "square", "circle")
"""G.1 names these where the default has the Bezier curves of F.1."""
