"""The axis of implementations in a test: what is asked, and what is said of it."""

from dataclasses import replace
from pathlib import Path

import pytest

import attributionlab as al
from attributionlab.show import as_text, verdict_table
from attributionlab.show.reading import implementations_text
from attributionlab.verdicts.faithfulness import protocol
from page_cases import environment

SIDE = 24
CONVENTION = pytest.mark.filterwarnings("ignore:.*rest on a convention")


def names_of(environments, implementations=None):
    return [
        (env.name, env.implementation)
        for env in protocol.places_of(environments, {}, implementations)
    ]


def test_names_are_asked_in_both_and_environments_as_they_are():
    made = al.load("quadrants", image_size=SIDE)
    natural = al.load("quadrants", image_size=SIDE, implementation="natural")
    both = [("quadrants", "paper"), ("quadrants (natural)", "natural")]
    assert names_of("quadrants") == names_of(["quadrants"]) == both
    assert names_of(made) == both[:1]
    assert names_of([natural]) == both[1:]
    assert names_of(made, ["natural", "plateau"]) == [both[1], ("quadrants (plateau)", "plateau")]
    assert names_of(natural, "paper") == both[1:]
    assert names_of("uniform-accumulator") == [("uniform-accumulator", "paper")]
    everything = [(name, "paper") for name in protocol.DEFAULT_ENVIRONMENTS]
    natural = [(f"{name} (natural)", "natural") for name in protocol.DEFAULT_ENVIRONMENTS]
    assert sorted(names_of(None)) == sorted(everything + natural)
    assert names_of("random:2:easy:1") == [
        ("random:2:easy:1", "paper"),
        ("random:2:easy:1 (natural)", "natural"),
    ]


@pytest.mark.parametrize(
    ("environment", "implementations", "said"),
    [
        ("quadrants", "naturl", "no implementation 'naturl': did you mean 'natural'"),
        ("quadrants", ["paper", "paper"], "'paper' twice"),
        ("quadrants", [], "implementations are empty: name at least one"),
        ("uniform-accumulator", "natural", "has none of them: take some of paper"),
    ],
)
def test_what_cannot_be_asked_is_refused(environment, implementations, said):
    with pytest.raises(al.AttributionLabError, match=said):
        al.faithfulness_test("saliency", environment, n=2, implementations=implementations)


@CONVENTION
def test_a_method_that_is_right_on_the_papers_networks_alone_fails():
    report = al.faithfulness_test(
        "saliency",
        al.load("quadrants", image_size=SIDE),
        n=13,
        implementations=("paper", "natural"),
    )
    found = {each.implementation: each.count.solved for each in report.environments}
    assert found == {"paper": 13, "natural": 0}
    assert report.verdict == "fail"
    shown = " ".join(as_text(verdict_table(report.to_dict()), 200).split())
    assert "quadrants 13/13 [.75, 1.00] pass 0/13 [.00, .25] fail" in shown
    assert "In quadrants: right on the paper's networks, wrong on natural ones." in shown


def test_random_worlds_are_asked_in_natural_networks_too():
    report = al.faithfulness_test("oracle", "random:2:easy:1", n=4)
    assert [each.count.solved for each in report.environments] == [4, 4]


@CONVENTION
def test_equal_networks_are_asked_of_the_plain_ones_alone():
    env = al.load("quadrants", image_size=SIDE)
    report = al.faithfulness_test(
        "input-x-gradient", env, n=2, also="equivalent:1", implementations=("paper", "natural")
    )
    robustness = [each.robustness is None for each in report.environments]
    assert robustness == [False, True]
    natural = env.with_implementation("natural")
    for word in ("equivalent", "camouflage:1"):
        with pytest.raises(
            al.AttributionLabError, match=r"already has rewritten networks .*: pass an environment"
        ):
            al.faithfulness_test("saliency", natural, n=2, also=word)


def test_protocol_1_stays_as_it_is():
    # Results that were published name this hash: whoever changes what it covers makes protocol 2.
    assert protocol.protocol_hash().startswith("79da44b3e8472de5a7cc416bd7b3da96")


def test_the_protocol_has_each_environment_in_each_implementation():
    known = protocol.protocol_document()["environments"]
    assert list(known) == list(protocol.DEFAULT_ENVIRONMENTS)
    asked = [(name, each) for name, digests in known.items() for each in digests]
    places = protocol.places_of(None, {})
    assert sorted(asked) == sorted((env.spec.name, env.implementation) for env in places)
    digests = {digest for each in known.values() for digest in each.values()}
    assert digests == {env.spec.digest for env in places}

    def changed(**constants):
        asked = constants.pop("implementations", None)
        size = constants.pop("image_size", 72)
        envs = [al.load(name, image_size=size) for name in protocol.DEFAULT_ENVIRONMENTS]
        return protocol.DEFAULT.changes(
            protocol.places_of(envs, {}, asked or protocol.DEFAULT_IMPLEMENTATIONS)
        )

    assert changed() == []
    assert changed(image_size=SIDE) == [f"image_size = {SIDE}"]
    assert changed(implementations="paper") == ["implementations = paper"]
    assert changed(implementations="paper", image_size=SIDE) == [
        "implementations = paper",
        f"image_size = {SIDE}",
    ]
    assert {env.recipe.image_size for env in places} == {72}
    assert {env.recipe.image_size for env in protocol.places_of(None, {}, None, SIDE)} == {SIDE}
    one = protocol.places_of("quadrants", {})
    assert protocol.DEFAULT.changes(one) == ["environments = quadrants"]
    assert protocol.DEFAULT.changes(one[:1]) == [
        "environments = quadrants",
        "implementations = paper",
    ]


def test_other_constants_are_told_beside_other_environments():
    def changed(*envs, implementations="paper"):
        given = protocol.places_of(envs, {}, implementations)
        told = protocol.DEFAULT.changes(given)
        assert told[1] == f"implementations = {implementations}"
        return [told[0], *told[2:]]

    small = al.load("multi-color-sum", image_size=SIDE), al.load("quadrants", image_size=SIDE)
    names = "environments = multi-color-sum, quadrants"
    assert changed(*small) == [names, f"image_size = {SIDE}"]
    assert changed(small[0], "quadrants") == [names, f"image_size of multi-color-sum = {SIDE}"]
    assert changed(al.load("multi-color-sum", image_size=72, distractors=2))[1:] == [
        "distractors = 2"
    ]
    assert changed(al.world("red", image_size=SIDE))[1:] == [f"image_size = {SIDE}"]
    trained = al.load("at-least", implementation="trained")
    assert changed(trained, implementations="trained")[1:] == ["image_size = 24"]


def test_files_with_names_of_the_catalog_are_not_taken_for_its_environments(tmp_path):
    asked = protocol.places_of(None, {})
    assert protocol.DEFAULT.changes(asked) == []
    for env in asked:
        env.spec = replace(env.spec, seed=env.spec.seed + 1)  # no constant, but another digest
    names = ", ".join(protocol.DEFAULT_ENVIRONMENTS)
    assert protocol.DEFAULT.changes(asked) == [f"environments = {names}"]
    paper = [env for env in asked if env.implementation == "paper"]
    assert protocol.DEFAULT.changes(paper) == [f"environments = {names}", "implementations = paper"]
    # A rule that has a natural network, in a file named like an environment that has none.
    file = tmp_path / "number-checker.toml"
    designs = Path(al.__file__).parents[1] / "designs"
    file.write_bytes((designs / "quadrants.toml").read_bytes())
    own = protocol.places_of(str(file), {}, "natural")
    told, *more = protocol.DEFAULT.changes(own)
    assert told.startswith("environments = number-checker (")
    assert more == ["implementations = natural", "image_size = 224"]


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ({"paper": "pass", "natural": "fail"}, "wrong on natural ones"),
        ({"paper": "fail", "natural": "pass"}, "wrong on the paper's, which"),
        ({"paper": "fail", "natural": "fail"}, ""),
        ({"paper": "pass", "natural": "inconclusive"}, ""),
        ({"paper": "pass", "planes": "fail"}, ""),
    ],
)
def test_what_differs_between_implementations_is_said_by_environment(verdicts, said):
    results = [
        environment("place" + f" ({name})" * (name != "paper"), verdict, 0.7, implementation=name)
        for name, verdict in verdicts.items()
    ]
    text = implementations_text({"environments": results})
    assert said in text
    assert bool(text) == bool(said)
    assert not text or text.startswith("In place: right on ")
