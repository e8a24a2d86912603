"""What the tables on watermarks say, in sentences."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attributionlab.papers.soco.watermarks.data import RECTANGLE
from attributionlab.papers.soco.watermarks.maps import CRAFTED, METHODS, SQUARED

if TYPE_CHECKING:
    import pandas as pd

HIGH = 0.95
"""An accuracy on watermarks from which on they are learned; the paper's are 0.99 and above."""
AGREED = 0.95
"""Share of answers from which on they are called those of the watermark."""
SAME = 1e-9
"""Means that differ by less are equal up to rounding."""
OWN = {"Rect": "number", "Pooling": "stripes"}
PAPER = {"original": "70.4 %", "number": "99.4 %", "blank": "99.9 %"}
Tables = Mapping[str, "pd.DataFrame"]


def findings_of(
    about: Sequence[str],
    tables: Tables,
    told: Mapping[str, int],
    source: str,
) -> list[str]:
    """Sentences on accuracies, on what is asked about, and on what guards said of the maps.

    Parameters
    ----------
    about : sequence of {"attr", "uses", "rect", "order"}
        Subjects, in the order of the sentences.
    tables : mapping of str to DataFrame
        Means over networks "networks", "uses", "attr" and "road", and "curves" of each network.
    told : mapping of str to int
        "images" explained, and of how many each kind of finding is true.
    source : str
        What the natural images are.
    """
    subjects = {
        "attr": lambda: _attr(tables["attr"]),
        "uses": lambda: _uses(tables),
        "rect": lambda: _rect(tables),
        "order": lambda: _order(tables),
    }
    sentences = [_accuracies(tables["networks"], source)]
    for subject in about:
        sentences += subjects[subject]()
    return [*sentences, *_guards(told)]


def _accuracies(networks: "pd.DataFrame", source: str) -> str:
    rows = networks.set_index(["data", "canvas"])
    marked = rows[rows.index.get_level_values("data") != "original"]
    low = [f"{data} on {canvas}" for (data, canvas), row in marked.iterrows() if row.lowest < HIGH]
    said = (
        f"all watermarks are learned (at least {marked.lowest.min():.1%} by every network)"
        if not low
        else f"not every network learned the watermarks of {', '.join(low)}, and maps of one that did "
        "not say little about watermarks"
    )
    return (
        f"Accuracy on test images: original {rows.accuracy['original', 'images']:.1%}, number "
        f"watermarks on images {rows.accuracy['number', 'images']:.1%}, on a blank canvas "
        f"{rows.accuracy['number', 'blank']:.1%} (paper, VGG-16 on CIFAR-100: {PAPER['original']}, "
        f"{PAPER['number']}, {PAPER['blank']}); stripes on images "
        f"{rows.accuracy['stripes', 'images']:.1%}: {said}. Images: {source}; a network of three "
        "convolutions."
    )


def _attr(attr: "pd.DataFrame") -> list[str]:
    rows = attr.set_index(["data", "method"])
    score = rows.attr
    parts = []
    for name, own in OWN.items():
        [other] = [data for data in OWN.values() if data != own]
        parts.append(f"{name} {score[own, name]:.2f} on its own data and {score[other, name]:.2f}")
    best = {data: max(CRAFTED, key=lambda name: score[data, name]) for data in OWN.values()}
    holds = all(best[own] == name for name, own in OWN.items())
    verdict = (
        "each is ahead of the other on the data that it was made for, as in the paper: the design of "
        "the watermark decides which is better"
        if holds
        else "not each is ahead of the other on its own data, as it is in the paper"
    )
    sentences = [
        f"Attr%: {' on the other, '.join(parts)} on the other: {verdict} (paper: Rect 0.92 and Pooling "
        f"0.93 on their own). A uniform map, which says nothing, has {score['number', 'uniform']:.2f} "
        f"on numbers and {score['stripes', 'uniform']:.2f} on stripes."
    ]
    ahead = [m for m in METHODS if score["number", m] > score["number", "Rect"]]
    ahead_of_it, squared = " and ".join(ahead), score["number", SQUARED]
    sentences.append(
        f"Rect on numbers stands around the mean place of all of IG's attributions"
        f"{f', and is behind {ahead_of_it}' if ahead else ''}. Around the mean place by squared "
        f"attributions, in which faint ones count less, it has {squared:.2f}: the verdict on a map "
        "made to measure depends on how it is measured out."
    )
    sentences.append(
        "Pooling spreads a region's attribution evenly over the image's width, so on numbers its Attr% "
        "cannot exceed the square's share of the width, whatever IG finds: "
        f"{RECTANGLE:.2f} at 60 of 224 pixels. The other two values printed in the paper are 0.31 "
        "and 0.60; which is Pooling's on numbers and which is Rect's on stripes (here "
        f"{score['stripes', 'Rect']:.2f}) is unknown. Both are more than {RECTANGLE:.2f}: the paper's "
        "square or its Pooling is not as we read it."
    )
    same = abs(score["stripes", "Pooling"] - score["stripes", "IG"]) < SAME
    if same:
        sentences.append(
            "On stripes Pooling has exactly IG's own Attr%, as it must: it moves attribution within "
            f"regions only, and the stripes are whole regions. Its {score['stripes', 'Pooling']:.2f} "
            "owe nothing to what it knows."
        )
    hollow = rows[(rows.zero_maps > 0) & rows.index.get_level_values("method").isin(METHODS)]
    sentences += [
        f"{method} has no attribution at all on {row.zero_maps:.0%} of the {data} images, which "
        "counts as an Attr% of 0."
        for (data, method), row in hollow.iterrows()
    ]
    return sentences


def _uses(tables: Tables) -> list[str]:
    rows = tables["uses"].set_index(["data", "check"])
    agreed, images = rows.agreed, rows.images
    chance = float(tables["networks"].chance.iloc[0])
    score = tables["attr"].set_index(["data", "method"]).attr
    gone = [agreed[data, "watermark removed"] for data in OWN.values()]
    moved = [agreed[data, c] for data, c in agreed.index if c.startswith("on other images")]
    sentences = [
        "What the networks use is not known but can be asked. Labels are re-assigned at random, so "
        "answers that are right more often than by chance come from the watermark: without it "
        f"{gone[0]:.0%} (number) and {gone[1]:.0%} (stripes) of the answers are the label (chance: "
        f"{chance:.0%}), on another image with the same watermark {moved[0]:.0%} and {moved[1]:.0%}."
    ]
    number = agreed["number"]
    on_black = "watermark alone, on black"
    black, gray = number[on_black], number["watermark alone, on the mean color"]
    strokes, erased = number["digits without rectangle"], number["digits erased"]
    needed = [
        what
        for what, share in (("the rectangle", strokes), ("an image that is not black", black))
        if share < AGREED
    ]
    if needed:
        says = (
            f"the digits do not suffice, but need {' and '.join(needed)} around them (or else fail "
            "because no such image was trained on, which is not told apart here)"
        )
    else:
        says = "the digits suffice, with and without the black pixels around them"
    low, high = (float(end["number", on_black]) for end in (rows.lowest, rows.highest))
    by_network = f" ({low:.0%} to {high:.0%} by network)" if low < high else ""
    sentences.append(
        f"Number: {erased:.0%} with the digits erased, {strokes:.0%} with digits but no rectangle, "
        f"{black:.0%} with the watermark alone on black{by_network}, {gray:.0%} with it alone on the "
        f"images' mean color: {says}."
    )
    removed, added = (agreed["stripes", f"one stripe {how}"] for how in ("removed", "added"))
    counts = [int(images["stripes", f"one stripe {how}"]) for how in ("removed", "added")]
    both = min(removed, added) >= AGREED
    sentences.append(
        f"Stripes: after one is removed {removed:.0%} of {counts[0]} answers are the label that the "
        f"others spell, after one is added {added:.0%} of {counts[1]}. "
        + (
            "The networks read regions without a stripe, too: a stripe put there changes their "
            "answers; Attr% counts attributions there as false "
            f"(IG {1 - score['stripes', 'IG']:.0%}, DeepSHAP {1 - score['stripes', 'DeepSHAP']:.0%})."
            if both
            else "The networks do not read all stripes alike."
        )
    )
    return sentences


def _rect(tables: Tables) -> list[str]:
    road, curves = tables["road"], tables["curves"]
    places, listed = {}, {}
    for data in ("number", "original"):
        here = road[(road.data == data) & (road.canvas == "images")].set_index("method")
        places[data] = (int(here["rank"]["Rect"]), len(here))
        listed[data] = _heights(here.road)
    first, last = places["number"], places["original"]
    here = curves[(curves.data == "number") & (curves.canvas == "images")]
    at = here.groupby(["removed", "method"]).accuracy.mean()
    most = here.removed.max()
    end = at[most]
    as_paper = first[0] == 1 and last[0] == last[1]
    sentences = [
        "ROAD, mean accuracy along the curve (lower is better), on number watermarks: "
        f"{listed['number']}; on the original images: {listed['original']}. Rect has rank {first[0]} "
        f"of {first[1]} on the first and {last[0]} of {last[1]} on the second; in the paper it is "
        f"first and last{', as here' if as_paper else ''}. With {most:.0%} of the pixels of the first "
        f"removed: {_heights(end)}."
    ]
    if first[0] > 1:
        fewest = here.removed[here.removed > 0].min()
        after = at[fewest]
        square = RECTANGLE**2
        attr = tables["attr"].set_index(["data", "method"]).attr
        beside = 1 - attr["number", "Rect"]
        sentences.append(
            f"The square has {square:.0%} of the pixels; after {fewest:.0%} are removed the accuracy "
            f"is {_heights(after)}. Rect removes its square in random order, and {beside:.0%} of it "
            "lie beside the watermark. Which of the two puts it behind is not tested."
        )
    return sentences


def _order(tables: Tables) -> list[str]:
    road = tables["road"][tables["road"].method.isin(METHODS)]
    cases = {
        "original": ("original", "images"),
        "semi-natural": ("number", "images"),
        "pure synthetic": ("number", "blank"),
    }
    scores = {
        name: road[(road.data == data) & (road.canvas == canvas)].set_index("method")
        for name, (data, canvas) in cases.items()
    }
    said = "; ".join(f"{name}: {_heights(rows.road)}" for name, rows in scores.items())
    best = {name: rows.road.idxmin() for name, rows in scores.items()}
    worst = {name: rows.road.idxmax() for name, rows in scores.items()}
    close = [name for name, rows in scores.items() if _overlap(rows)]
    apart = "original" not in close and "semi-natural" not in close  # so that firsts are no chance
    differ = worst["original"] != worst["semi-natural"] or (
        apart and best["original"] != best["semi-natural"]
    )
    sentences = [
        f"ROAD, mean accuracy along the curve (lower is better): {said}. First is {best['original']} "
        f"on the original images, {best['semi-natural']} on the semi-natural and "
        f"{best['pure synthetic']} on the pure synthetic ones; last are {', '.join(worst.values())}. "
        "In the paper GradCAM is first on CIFAR-100, and last on the other two. "
        + (
            "Here, too, the original images give another order."
            if differ
            else "Here the original images give no other order that networks agree on. Why the paper's "
            "images reverse the order and these do not is open."
        )
    ]
    if close:
        sentences.append(
            f"The ranges over networks of the two first methods overlap on {', '.join(close)}: which "
            "of them is ahead there may be chance."
        )
    return [*sentences, *_distances(tables["curves"], cases)]


def _distances(curves: "pd.DataFrame", cases: Mapping[str, tuple[str, str]]) -> list[str]:
    """Which curves those on semi-natural images are nearer to; none where a network knows nothing."""
    here = curves[curves.method.isin(METHODS)]
    means = here.groupby(["data", "canvas", "method", "removed"]).accuracy.mean()
    starts = means.groupby(level=[0, 1, 2]).transform("first")  # where nothing is removed
    if starts.min() == 0:
        return []
    shares = means / starts
    marked = shares[cases["semi-natural"]]
    synthetic, original = (
        float((marked - shares[cases[other]]).abs().mean())
        for other in ("pure synthetic", "original")
    )
    return [
        f"The curves on semi-natural images are {synthetic:.2f} from those on pure synthetic and "
        f"{original:.2f} from those on original ones (mean difference over methods and fractions, in "
        "shares of the intact accuracy): nearer to the "
        + (
            "pure synthetic ones, as in the paper."
            if synthetic < original
            else "original ones, unlike in the paper."
        )
    ]


def _overlap(rows: "pd.DataFrame") -> bool:
    """Whether the two lowest means have ranges that share a value."""
    first, second = rows.sort_values("road").iloc[:2].itertuples()
    return bool(first.highest >= second.lowest)


def _heights(scores: "pd.Series[float]") -> str:
    return ", ".join(f"{name} {score:.2f}" for name, score in scores.sort_values().items())


def _guards(told: Mapping[str, int]) -> list[str]:
    if not told.get("completeness"):
        return []
    return [
        f"DeepSHAP's attributions do not sum to the change of the output on {told['completeness']} of "
        f"{told['images']} images: Captum's rule for maximum pooling, which the paper's VGG-16 has, "
        "too, loses some."
    ]
