"""A faithfulness document in sentences: what was found, by how much, and what would decide."""

from collections.abc import Mapping, Sequence
from typing import Any

from attributionlab.digits import interval_text, score_text

PARTS = ("overall", "positive", "negative", "positive-smoothed")
EXACT_SHAPLEY = "exact Shapley values"
"""Among the ceilings, but the score of one map, which bounds no other."""
ENOUGH_IMAGES = 6
"""With fewer, a bootstrap over images covers clearly less than it says."""
AMPLIFIED = (
    "an optimization amplifies what differs between runs, and rounding: under one seed another "
    "machine's scores may differ as much, or more"
)
SHOWN = 0.01
"""Largest p-value of a dependence that is called shown."""
BLIND = {
    "without-network-and-target": "without the network and the target",
    "without-network": "without the network",
    "without-target": "without the target",
    "without-place": "from colors and network without places",
    "without-color": "from places and network without colors",
}
"""What each kind of blind maps is made of."""
SHOWS = {
    "without-network": "the network",
    "without-target": "the target",
    "without-place": "places",
    "without-color": "colors",
}
"""What maps depend on that are not of such a kind."""
DECISIVE = "multi-color-sum-distractors"
"""An environment in which no maps without network or target reach the default gamma."""
SPACE = "\N{NO-BREAK SPACE}"
VERBS = {
    "pass": "passes in",
    "fail": "fails in",
    "inconclusive": "is undecided in",
    "invalid": "could not be judged in",
}
DOUBTED = "pass?"
"""How a comparison writes the pass of a method of which `test` would not call it proven."""
VERDICTS = ("pass", DOUBTED, "inconclusive", "fail", "invalid")
BANDS = {"pass": "passes", "inconclusive": "is inconclusive", "fail": "fails"}
MAPS = {
    "random": "a random map",
    "constant": "a constant map",
    "inverted-oracle": "a map with every sign wrong",
}
CEILINGS = {
    "positive only": "maps without negative values",
    "own regions": "maps constant on its own superpixels",
    "true patches": "maps constant on the true patches",
    "5 x 5 patches": "maps constant on 5 x 5 pixels",
}


def marked_verdict(verdict: str, unproven: Sequence[str]) -> str:
    """A verdict in one environment, of a method of which a pass does not exclude blind maps.

    Examples
    --------
    >>> marked_verdict("pass", []), marked_verdict("pass", ["without-target"])
    ('pass', 'pass?')
    >>> marked_verdict("fail", ["without-target"])
    'fail'
    """
    return DOUBTED if verdict == "pass" and unproven else verdict


def sentences(document: Mapping[str, Any]) -> list[str]:
    """The verdict of a document, the score that decides it, and what an open one still needs."""
    environments = document["environments"]
    named = list(zip(labels(environments), environments, strict=True))
    parts = []
    for verdict, verb in VERBS.items():
        where = [label for label, result in named if result["verdict"] == verdict]
        if where and len(where) == len(named) > 1:
            every = "any of the" if verdict == "invalid" else "all"
            where = [f"{every} {len(named)} environments"]
        if where:
            parts.append(f"{verb} {listed(where)}")
    lines = [f"The method {listed(parts)}.", _deciding(document), proof_sentence(document)]
    if second := second_verdict(document):
        lines.append(f"Second verdict: {second}.")
    for label, result in named:
        if result["verdict"] == "inconclusive":
            lines.append(undecided(label, result, document["n"]))
        elif result["verdict"] == "invalid":
            lines.append(
                f"{label} is invalid: {result['reason'].rstrip('.') or 'no reason given'}."
            )
    return lines


def proof_sentence(document: Mapping[str, Any]) -> str:
    """What a result proves; of documents of schema 1, that it says nothing of it.

    Users' own environments are followed by what was checked of the truth that they state.
    """
    named = zip(labels(document["environments"]), document["environments"], strict=True)
    checks = [_own_truth(label, result["constants"]) for label, result in named if _is_own(result)]
    return " ".join([_proof(document), *checks])


def _is_own(result: Mapping[str, Any]) -> bool:
    """Whether network and truth are a user's (`attributionlab.custom_environment`)."""
    return "interventions" in result.get("constants", {})


def _own_truth(label: str, constants: Mapping[str, Any]) -> str:
    """What interventions said of a truth that a user states."""
    passes = constants["interventions"]
    if not passes:
        return f"The truth of {label} is as its user states it: nothing of it was checked."
    open_ = [
        f"{constants[key]:,} relevant pixels {what}"
        for key, what in (
            ("unmoved", "never changed the output"),
            ("opposed", "changed it only against their sign"),
        )
        if constants[key]
    ]
    if constants["tolerance"]:
        open_.insert(0, f"changes of up to {constants['tolerance']:g} counted as none")
    return (
        f"The truth of {label} is as its user states it; {passes:,} forward passes with replaced "
        f"pixels did not refute it{': ' if open_ else ''}{listed(open_)}."
    )


def _proof(document: Mapping[str, Any]) -> str:
    """What a result proves, in one sentence."""
    own = [_is_own(result) for result in document["environments"]]
    if document.get("one_network", True):
        table = "" if all(own) else ": a table of its colors can pass, too"
        return (
            f"All images of an environment have one network{table}, so a pass does not prove that the "
            "maps depend on the network."
        )
    if document["verdict"] == "pass":
        bounded = [name for name in SHOWS if _lowest_ceiling(document, name) < document["gamma"]]
        where = " of the laboratory" if any(own) else ""
        chance = f" (the chance of a blind map is at most {SHOWN:.0%} in each environment{where})"
        open_ = [SHOWS[name] for name in SHOWS if name not in bounded]
        unasked = (
            f" No environment here shows whether they depend on {listed(open_)}." if open_ else ""
        )
        most = [f"{_lowest_ceiling(document, name):.2f} {BLIND[name]}" for name in bounded]
        return (
            f"This shows that the maps depend on {listed([SHOWS[name] for name in bounded])}{chance}: "
            f"on average over questions, maps score at most {listed(most)}.{unasked}"
        )
    if has_no_questions(document):
        return (
            "The network and its truth are the user's own: no other networks are known in which "
            "pixels have other roles, so a high score does not show that the maps depend on the "
            "network or the target. Add environments of the laboratory, or set one_network for a "
            "verdict without this."
        )
    passed = {result["verdict"] for result in document["environments"]} == {"pass"}
    if passed and document["unproven"]:
        # Where maps without the network might pass, those without network and target might, too.
        names = [BLIND[name] for name in document["unproven"] if "network-and" not in name]
        return (
            f"The score does not exclude that the maps are made {' or '.join(names)}. "
            + _what_is_open(document, document["unproven"])
        )
    parts = [_dependence(document, what) for what in ("network", "target")]
    return " ".join(filter(None, parts))


def _what_is_open(document: Mapping[str, Any], unproven: Sequence[str]) -> str:
    """Why blind maps are not excluded, and what would exclude them."""
    gamma = document["gamma"]
    if all(_lowest_ceiling(document, name) < gamma for name in unproven):
        return f"Chance explains a score above gamma = {gamma:g}: take more questions."
    known = any(
        result["blind_ceilings"].get(name) is not None
        for result in document["environments"]
        for name in unproven
    )
    why = (
        f"In all of these environments such maps may reach gamma = {gamma:g}"
        if known
        else "What such maps reach is not known in these environments"
    )
    if any(result["name"] == DECISIVE for result in document["environments"]):
        claim = "" if document["claim"] == "signed" else " or the claim signed"
        return f"{why}: take a larger gamma{claim}."
    return (
        f"{why}: add {DECISIVE}, where they cannot (or set one_network for a verdict without this)."
    )


def has_no_questions(document: Mapping[str, Any]) -> bool:
    """Whether every environment has one network, asked for (`one_network`) or a user's own.

    Of blind maps before networks of the laboratory something is always known.
    """
    return document.get("one_network", True) or not any(
        most is not None
        for result in document["environments"]
        for most in result["blind_ceilings"].values()
    )


def _lowest_ceiling(document: Mapping[str, Any], name: str) -> float:
    """Ceiling of such maps in the environment where they reach least."""
    ceilings = [result["blind_ceilings"].get(name) for result in document["environments"]]
    return min((most for most in ceilings if most is not None), default=1.0)


def _dependence(document: Mapping[str, Any], what: str) -> str:
    """Whether the maps were shown to depend on the network, or the target; empty if nothing was."""
    named = zip(labels(document["environments"]), document["environments"], strict=True)
    tested = {label: result["role_swap"][what] for label, result in named if result["role_swap"]}
    tested = {label: p for label, p in tested.items() if p is not None}
    if not tested:
        return ""
    shown = {label: p for label, p in tested.items() if p <= SHOWN}
    if not shown:
        return (
            f"That the maps depend on the {what} is not shown (p = {min(tested.values()):.2g}, above "
            f"{SHOWN:g})."
        )
    where = "" if len(shown) == len(tested) else f" in {listed(list(shown))}"
    return f"The maps depend on the {what}{where} (p <= {max(shown.values()):.3g})."


def second_verdict(document: Mapping[str, Any]) -> str:
    """Whether a method that passes is robust to how networks are written; empty where nobody asked."""
    found = [result.get("equivalent") for result in document["environments"]]
    found = [each for each in found if each and each["reading"]]
    broken = [each for each in found if each["reading"] == "depends on the implementation"]
    if broken:
        return _broken_text(min(broken, key=lambda each: each["lowest"]["claim_f1"]))
    if any(each["reading"] == "undecided" for each in found):
        return "undecided before equal networks"
    count = min((len(each["forms"]) for each in found), default=0)
    return f"robust before {count} of 5 forms" if found else ""


def _broken_text(found: Mapping[str, Any]) -> str:
    """That a score depends on the implementation, with the form before which it is lowest."""
    lowest = found["lowest"]
    return f"depends on the implementation ({lowest['form']}: {lowest['claim_f1']:.2f})"


def forms_text(result: Mapping[str, Any]) -> str:
    """What a method scores before equivalent networks; empty where nobody asked."""
    found = result.get("equivalent")
    if not found:
        return ""
    if not found["forms"]:
        return "none of the forms applies to this network"
    scores = [
        f"{each['form']} {'not run' if each['claim_f1'] is None else format(each['claim_f1'], '.2f')}"
        for each in found["forms"]
    ]
    reading = found["reading"]
    if reading == "depends on the implementation":
        reading = _broken_text(found)
    return f"{reading + '; ' if reading else ''}F1 before equal networks: {', '.join(scores)}"


def blind_text(result: Mapping[str, Any]) -> str:
    """What blind maps reach in an environment, and whether swapped roles would score as well."""
    ceilings = result.get("blind_ceilings")
    if ceilings is None:
        return ""
    parts = [
        f"{'an unknown F1' if ceilings[name] is None else f'{ceilings[name]:.2f}'} {BLIND[name]}"
        for name in ("without-network", "without-target")
    ]
    tests = [f"{what} p = {p:.2g}" for what, p in result["role_swap"].items() if p is not None]
    swapped = f"; role-swap test: {', '.join(tests)}" if tests else ""
    return f"reach at most {', '.join(parts)}{swapped}"


def _deciding(document: Mapping[str, Any]) -> str:
    """The lowest score among the environments that carry the verdict (eq. 2) against gamma."""
    gamma, verdict = document["gamma"], document["verdict"]
    bound = f"gamma{SPACE}={SPACE}{gamma:g}"
    environments = document["environments"]
    scored = [
        (result["claim_f1"], label, result)
        for label, result in zip(labels(environments), environments, strict=True)
        if result["claim_f1"] is not None
    ]
    decisive = [each for each in scored if each[2]["verdict"] == verdict] or scored
    if not decisive:
        return f"No environment has a score for the claim {document['claim']!r}."
    f1, where, result = min(decisive, key=lambda each: each[0])
    score = score_text(f1, gamma)
    if len(environments) == 1:
        start = "It scores"
    else:
        # Elsewhere a lower score may be known less precisely, and be undecided for it.
        lower = any(other < f1 for other, _, _ in scored)
        among = f" where it {VERBS[verdict].removesuffix(' in')}" if lower else ""
        start = f"Its lowest score{among}, that in {where}, is"
    interval = result["claim_ci"]
    if interval is None:
        side = "at least" if f1 >= gamma else "below"
        return (
            f"{start} F1 {score}, {side} {bound}, without an interval, "
            "which needs two images or more."
        )
    low, high = interval
    if low >= gamma:
        side = "wholly at or above"
    elif high < gamma:
        side = "wholly below"
    else:
        side = "on both sides of"
    return (
        f"{start} F1 {score}; its 95{SPACE}% interval, {interval_text(interval, gamma)}, "
        f"lies {side} {bound}."
    )


def undecided(label: str, result: Mapping[str, Any], n: int) -> str:
    """What would decide an inconclusive environment."""
    images = result["images_to_decide"]
    if n < ENOUGH_IMAGES and result.get("blind_ceilings") is not None:
        return f"In {label} {n} question{'s' * (n != 1)} give no verdict; take 8 or more."
    if result["claim_ci"] is None:
        return f"In {label} a part of the claim applies to fewer than two images; take 8 or more."
    if images is None:
        return (
            f"More images will hardly decide {label}: its mean F1 lies too close to gamma; report it "
            "as undecided."
        )
    return f"About {images:,} images like these would decide {label}; {n:,} were used."


def spread_text(result: Mapping[str, Any]) -> str:
    """What the lowest and highest scores of a method that optimizes are; empty for other methods."""
    if not result["spread"]:
        return ""
    lowest, _ = result["spread"]
    return f"{lowest['of']}, and highest: {AMPLIFIED}"


def strict_text(result: Mapping[str, Any]) -> str:
    """What the maps score where all pixels are asked; empty where that is the same, or no rule."""
    scores = result.get("strict", {})
    known = {part: f1 for part, f1 in scores.items() if f1 is not None}
    if all(result[part] and abs(result[part]["f1"] - f1) < 0.005 for part, f1 in known.items()):
        return ""
    parts = [f"{part} {f1:.2f}" for part, f1 in known.items()]
    return f"F1 {', '.join(parts)}, if every pixel that ever changes the output counts"


def few_images_text(n: int) -> str:
    """A caveat about an interval over few images, empty where there are enough."""
    if n >= ENOUGH_IMAGES:
        return ""
    if n == 1:
        return "a single image gives no interval; take 8 or more"
    return "fewer than six images: the interval covers less than 95 %; take 8 or more"


def bands_text(bands: Sequence[Mapping[str, Any]], gamma: float, reached_by: str = "random") -> str:
    """Which gammas in (0, 1] would give which verdict.

    Parameters
    ----------
    bands : sequence of mapping
        `verdict_bands` of an environment: each verdict and the gamma up to which it holds.
    gamma : float
        Threshold of the test; every number is printed on its own side of it.
    reached_by : str
        The control that must fail and reaches the largest gamma.
    """
    valid = [place for place, band in enumerate(bands) if band["verdict"] != "invalid"]
    if not valid:
        return "no gamma gives a verdict"
    ends = [score_text(band["up_to"], gamma) for band in bands]
    first, last = valid[0], valid[-1]
    bounded = last + 1 < len(bands)  # something invalid follows
    phrases = []
    for place in valid:
        start = BANDS[bands[place]["verdict"]]
        if place < last or (bounded and place > first):
            phrases.append(f"{start} up to {'gamma = ' if place == first else ''}{ends[place]}")
        elif place > first:
            phrases.append(f"{start} above")
        else:
            low = f" above gamma = {ends[first - 1]}" if first else ""
            high = f" up to {'' if low else 'gamma = '}{ends[place]}" if bounded else ""
            phrases.append(f"{start}{low}{high}" if low or high else f"{start} at every gamma")
    nothing = []
    if first:
        who = MAPS.get(reached_by, f"the control {reached_by}")
        nothing.append(f"up to {ends[first - 1]} {who} would pass")
    if bounded:
        nothing.append(f"above {ends[last]} even the best possible map would fail")
    text = ", ".join(phrases)
    return f"{text}; {' and '.join(nothing)}, so the test says nothing" if nothing else text


EITHER = "pass or fail"
"""What a control may do of which nothing is asked."""


def required(rows: Sequence[Mapping[str, Any]]) -> str:
    """What a control must do; `EITHER` for one of which nothing is asked."""
    return next((str(row["must"]) for row in rows if row["must"] is not None), EITHER)


def violates(row: Mapping[str, Any]) -> bool:
    """Whether a control does not do what it must in an environment."""
    return row["must"] is not None and row["passes"] != (row["must"] == "pass")


def controls_text(document: Mapping[str, Any]) -> str:
    """Which controls do what they must, and which do not; nothing of those that may do either."""
    places = labels(document["environments"])
    kept: dict[str, list[str]] = {"pass": [], "fail": []}
    broken = []
    for name, rows in document["controls"].items():
        wrong = [place for place, row in zip(places, rows, strict=True) if violates(row)]
        must = required(rows)
        if wrong:
            does = "fails" if must == "pass" else "passes"
            broken.append(f"(!) {name} {does} in {listed(wrong)}, where it must {must}")
        elif must in kept:
            kept[must].append(name)
    parts = [
        f"{listed(names)} {must if len(names) > 1 else must + ('es' if must == 'pass' else 's')}"
        for must, names in kept.items()
        if names
    ]
    they = "it" if sum(map(len, kept.values())) == 1 else "they"
    met = [f"{'; '.join(parts)}, as {they} must"] if parts else []
    return "; ".join([*broken, *met])


def ceiling_phrase(name: str) -> str:
    """The maps that a ceiling is about, as they stand in a sentence."""
    if name.endswith(" cells"):
        return f"maps enlarged from {name}"
    return CEILINGS.get(name, name)


def first_images(result: Mapping[str, Any]) -> str:
    """Which images the ceilings of an environment are about."""
    studied = result["studied_images"]
    return f"first {studied:,} image{'s' * (studied != 1)}"


def gap_text(gap: float) -> str:
    """By how much the sum of the median image's attributions is wrong."""
    if gap > 1:
        off = f"{gap:,.0f} times" if gap >= 10 else f"{gap:.1f} times"
    else:
        off = "less than 1 % of" if gap < 0.005 else f"{100 * gap:.0f} % of"
    return (
        "the attributions should sum to the change of the output; they are off by "
        f"{off} that change (median image)"
    )


def sentence(text: str) -> str:
    """A hint with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def labels(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """The environments' names, with a piece of their hash where several have one name."""
    names = [result["name"] for result in environments]
    return [
        f"{name} ({result['spec'][:8]})" if names.count(name) > 1 else name
        for name, result in zip(names, environments, strict=True)
    ]


def listed(words: Sequence[str]) -> str:
    """Words as they stand in a sentence: a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


TRUTH_COLUMNS = {
    "rank_correlation": "rank corr.",
    "cosine": "cosine",
    "sign_agreement": "signs",
    "sum_gap": "sum gap",
}
"""Heading of each score."""


def truth_score_text(name: str, value: float | None) -> str:
    """A score as it is printed: gaps in percent, nothing where it is not defined."""
    if value is None:
        return ""
    if name == "sum_gap":
        return f"{value:.0%}" if value < 99.995 else "> 9,999%"
    return f"{value:.2f}"


SHOWN_SEEDS = 3
MEANINGS = {
    "equal, as it must be": "0, as it must be: only integer images were shown to the networks, for "
    "which all answer alike",
    "differs, where it must not": "(!) it must be 0, as integer images only and no gradient were seen: "
    "the method reads weights or structure of the network, its random numbers depend on that structure "
    "or on no seed, or this laboratory has an error; the verdict does not change",
    "equal": "the same maps, bit for bit",
    "within rounding": "rounding",
    "beyond rounding": "more than rounding: on kinks a gradient is a convention (ReLU'(0) = 0), and "
    "depends on how the function is built",
    "drifts": "more than rounding of sums: equal functions get different maps",
    "not known": "whether it is rounding is not known: the method does not run in float64, and no "
    "bound of use is derived",
}
"""What each reading of a drift says about a method."""


def drift_number(value: float | None) -> str:
    """Two digits, as drifts span many orders of magnitude.

    Examples
    --------
    >>> drift_number(0.0), drift_number(6.4e-8), drift_number(None)
    ('0', '6.4e-08', 'n/a')
    """
    return "n/a" if value is None else f"{value:.2g}"


def drift_meaning(drift: Mapping[str, Any]) -> str:
    """What the drift of a method means, or why there is none; of `Drift.to_dict`."""
    if drift["refused"]:
        return f"not applicable: {drift['refused']}"
    return MEANINGS[drift["reading"]] + _precision(drift)


def _precision(drift: Mapping[str, Any]) -> str:
    """What is left in float64, and how far rounding may lead at most."""
    parts = []
    if drift["in_float64"] is not None:
        parts.append(f"{drift_number(drift['in_float64'])} is left in float64")
    if drift["rounding_bound"] is not None and drift["largest"]:
        parts.append(f"bound {drift_number(drift['rounding_bound'])}")
    return f" ({', '.join(parts)})" if parts else ""


def drift_text(drift: Mapping[str, Any]) -> str:
    """The drift of an environment in one sentence; of `Drift.to_dict`."""
    meaning = drift_meaning(drift)
    if drift["refused"]:
        return meaning
    networks = len(drift["networks"])
    parts = [
        f"median {drift_number(drift['median'])}, largest {drift_number(drift['largest'])} of the "
        f"plain map's norm ({_count(networks, 'network')}, {_count(drift['images'], 'image')})",
        meaning,
    ]
    if drift["appeared"]:
        parts.append(
            f"{_count(drift['appeared'], 'map')} not zero where the plain one is, up to "
            f"{drift_number(drift['largest_difference'])}"
        )
    if drift["plain_f1"] is not None:
        low, high = f"{drift['lowest_f1']:.2f}", f"{drift['highest_f1']:.2f}"
        span = low if low == high else f"{low} to {high}"
        parts.append(f"F1 {span}, {drift['plain_f1']:.2f} on the plain network")
    return "; ".join(parts)


def drift_seeds_text(networks: Sequence[int]) -> str:
    """How to load the camouflaged networks again."""
    shown = ", ".join(map(str, networks[:SHOWN_SEEDS]))
    more = f" and {len(networks) - SHOWN_SEEDS:,} more (--json)"
    return (
        f"attributionlab.load(..., camouflage_seed=SEED), SEED {shown}"
        f"{more if len(networks) > SHOWN_SEEDS else ''}"
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
