"""What a result excludes, in sentences: maps made without what an environment hides."""

from collections.abc import Mapping, Sequence
from typing import Any

from attributionlab.base import listed

SPACE = "\N{NO-BREAK SPACE}"


def labels(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """The environments' names, with a piece of their hash where several have one name."""
    names = [result["name"] for result in environments]
    return [
        f"{name} ({result['spec'][:8]})" if names.count(name) > 1 else name
        for name, result in zip(names, environments, strict=True)
    ]


def proof_sentence(document: Mapping[str, Any]) -> str:
    """What a result excludes, empty where it excludes nothing and should not.

    Users' own environments are followed by what was checked of the truth that they state.
    """
    named = zip(labels(document["environments"]), document["environments"], strict=True)
    checks = [_own_truth(label, result["constants"]) for label, result in named if _is_own(result)]
    return " ".join(filter(None, [_proof(document), *checks]))


def _is_own(result: Mapping[str, Any]) -> bool:
    """Whether network and truth are a user's (`attributionlab.custom_environment`)."""
    return "interventions" in result.get("constants", {})


def _own_truth(label: str, constants: Mapping[str, Any]) -> str:
    """What interventions said of a truth that a user states."""
    passes = constants["interventions"]
    if not passes:
        return f"The truth of {label} was stated by its user and not checked."
    open_ = [
        f"{constants[key]:,} relevant pixels {what}"
        for key, what in (
            ("unmoved", "never changed the output"),
            ("opposed", "changed it only against their sign"),
        )
        if constants[key]
    ]
    if constants["tolerance"]:
        open_.insert(0, f"changes of up to {constants['tolerance']:g} count as none")
    return (
        f"The truth of {label} was stated by its user; {passes:,} forward passes with replaced "
        f"pixels did not refute it{': ' if open_ else ''}{listed(open_)}."
    )


def _proof(document: Mapping[str, Any]) -> str:
    """What a result excludes, in one sentence or two."""
    own = [_is_own(result) for result in document["environments"]]
    if document["one_network"]:
        table = "" if all(own) else ": a lookup table of its colors could pass"
        return (
            f"All images of an environment have one network, so nothing is hidden{table}. A pass "
            "excludes no map that is made without the network."
        )
    if all(own):
        return (
            "Network and truth are the user's own, so nothing is hidden: a pass would exclude no map "
            "that is made without the network. Add environments of the laboratory, or set one_network "
            "(--one-network) for a verdict without this."
        )
    if document["verdict"] == "pass":
        return f"{excludes_text(document)}."
    passed = {result["verdict"] for result in document["environments"]} == {"pass"}
    if passed and document["not_excluded"]:
        things = listed(document["not_excluded"])
        it = "it" if len(document["not_excluded"]) == 1 else "them"
        return (
            f"No environment here hides {things}, so maps made without {it} are not excluded, although "
            "every row passes. For a pass, add the default environments (leave out --env), or set "
            "one_network (--one-network), which proves less."
        )
    return ""


def excludes_text(document: Mapping[str, Any]) -> str:
    """What a map made without a hidden thing solves at most, and how probable the result is then."""
    found = document["excludes"]
    if not found:
        return "Nothing is hidden"
    bounds = ", ".join(f"{thing} 1/{each['alternatives']}" for thing, each in found.items())
    chance = max(each["chance"] for each in found.values())
    return (
        f"At most this share of questions can be solved without seeing: {bounds}; "
        f"this result by chance: p{SPACE}={SPACE}{chance:.1g}"
    )


def has_no_questions(document: Mapping[str, Any]) -> bool:
    """Whether every environment has one network, asked for (`one_network`) or a user's own."""
    return document["one_network"] or all(map(_is_own, document["environments"]))
