"""What is asked of a method: which questions, which claim, and what is looked at beside the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Unpack, get_args

from attributionlab.base import (
    MOST_IMAGES,
    AttributionLabError,
    boolean_problem,
    integer_problem,
    nearest,
    own_arithmetic,
    refuse_if,
    written,
)
from attributionlab.methods import PRESETS
from attributionlab.runs import Running
from attributionlab.verdicts.faithfulness.protocol import (
    DEFAULT_ENVIRONMENTS,
    QUESTIONS,
    protocol_changes,
)
from attributionlab.worlds import Environment, as_environments
from attributionlab.worlds.nets import FORMS
from attributionlab.worlds.truth import Output

Claim = Literal["signed", "overall", "positive", "positive-smoothed", "agreed"]
"""What a verdict may rest on. "agreed" is "signed" on the pixels to which all definitions of the truth
give the same sign; the other pixels do not count."""

Explained = Output | tuple[Output, Output]
"""The output that is explained, and whose truth is held against it; of a pair the second is the
truth's."""

COUNTED: Mapping[str, tuple[int, int]] = {
    "camouflage": (3, 100),
    "equivalent": (len(FORMS), len(FORMS)),
    "seeds": (5, 1_000),
}
"""What `Also` counts: how many without a number, and how many there may be."""
ALSO = ("truths", *COUNTED)


class RunningMethods(Running, total=False):
    """How methods are run: keywords of everything that runs a user's method.

    Parameters
    ----------
    isolated : bool
        Run a user's method in a process of its own, which holds the network, images, targets and
        arguments, and neither truth nor scores; so it is by default. What such a method notes in
        variables stays there. Set it to False for one that cannot be sent to another process, as the
        report will say.
    """

    isolated: bool


class Also(NamedTuple):
    """What is asked beside a verdict; numbers are 0 for nothing."""

    diagnosis: bool = False
    """the method's resolution, likely causes and, on one network, the runner-up class"""
    truths: bool = False
    """scores against every definition of the truth"""
    camouflage: int = 0
    """on how many camouflaged networks images are explained again"""
    equivalent: int = 0
    """before how many forms of each network questions are asked again"""
    seeds: int = 1
    """how often a method that draws random numbers is run on each image"""

    @property
    def words(self) -> tuple[str, ...]:
        """As users ask for it, but for the diagnosis."""
        counts = [(name, getattr(self, name)) for name in COUNTED]
        asked = [f"{name}:{count}" for name, count in counts if count > (name == "seeds")]
        return (*(["truths"] if self.truths else []), *asked)


DIAGNOSED = Also(diagnosis=True)


@dataclass(frozen=True)
class Request:
    """What is asked of a method wherever it is tested; `faithfulness_test` says what each means.

    `claim` is None for the method's own.
    """

    n: int = QUESTIONS
    seed: int = 0
    claim: Claim | None = None
    explain: Explained | None = None
    preset: str | None = None
    one_network: bool = False
    also: Also = DIAGNOSED

    @property
    def outputs(self) -> tuple[Output | None, Output | None]:
        """The output that is explained, and the truth's where it is another."""
        return self.explain if isinstance(self.explain, tuple) else (self.explain, None)

    @property
    def options(self) -> dict[str, Any]:
        """Keywords that ask for it, as far as they differ from the defaults, without `also`."""
        names = ("claim", "n", "seed", "explain", "preset", "one_network")
        given = {name: getattr(self, name) for name in names}
        return {name: each for name, each in given.items() if each != getattr(DEFAULT, name)}

    def changes(self, environments: Sequence[Environment]) -> list[str]:
        """What differs from the protocol."""
        output, truth_output = self.outputs
        return protocol_changes(
            environments,
            n=self.n,
            claim=self.claim,
            output=output,
            truth_output=truth_output,
            preset=self.preset,
            seeds=self.also.seeds if self.also.seeds > 1 else None,
            one_network=self.one_network,
        )

    def call(self, *arguments: str, **running: Unpack[RunningMethods]) -> str:
        """What stands in the parentheses of a call in Python that asks for it."""
        given = {"n": self.n, "seed": self.seed, **self.options, "also": self.also.words}
        given |= {key: running.get(key) for key in ("isolated", "device", "jobs")}
        said = [f"{key}={each!r}" for key, each in given.items() if each not in (None, ())]
        return ", ".join([*arguments, *said])


DEFAULT = Request()


def requested(
    n: Any,
    seed: Any,
    claim: Any = None,
    explain: Any = None,
    preset: Any = None,
    one_network: Any = False,
    also: Any = (),
) -> Request:
    """What a user asks for. Raises AttributionLabError for all that is wrong with it, at once.

    `also` is None for a verdict without a diagnosis.
    """
    problems = [*integer_problem("n", n, 1, MOST_IMAGES), *integer_problem("seed", seed, 0)]
    if claim is not None and claim not in get_args(Claim):
        problems.append(f"claim is {claim!r}: {nearest(str(claim), get_args(Claim))}")
    outputs = tuple(explain) if isinstance(explain, list | tuple) else (explain,)
    if explain is not None:
        problems += [
            f"no output {each!r} to explain: {nearest(str(each), get_args(Output))}"
            for each in outputs
            if each not in get_args(Output)
        ]
    if len(outputs) not in (1, 2):
        problems.append(f"explain is {explain!r}: take one output, or two, the truth's behind it")
    if preset is not None and not (isinstance(preset, str) and preset in PRESETS):
        problems.append(f"preset is {preset!r}: {nearest(str(preset), PRESETS)}")
    problems += boolean_problem("one_network", one_network)
    words = [also] if isinstance(also, str) else [] if also is None else also
    beside: dict[str, Any] = {"diagnosis": also is not None}
    if not isinstance(words, list | tuple) or not all(isinstance(each, str) for each in words):
        problems.append(f"also is {written(also)}: name {', '.join(ALSO)}, in a list")
        words = []
    for word in words:
        name, colon, number = word.partition(":")
        if name in beside:
            problems.append(f"also names {name!r} twice: name it once")
        elif name not in ALSO or (colon and name not in COUNTED):
            problems.append(f"also names {word!r}: {nearest(word, ALSO)}")
        elif colon:
            beside[name] = int(number) if number.isdecimal() else number
            problems += integer_problem(f"also: {name}", beside[name], 1, COUNTED[name][1])
        else:
            beside[name] = COUNTED[name][0] if name in COUNTED else True
    refuse_if(problems)
    chosen: Any = outputs if len(outputs) == 2 else outputs[0]
    return Request(int(n), int(seed), claim, chosen, preset, one_network, Also(**beside))


def places_of(
    environments: Sequence[str | Environment] | str | Environment | None, running: Running
) -> list[Environment]:
    """The environments of a test, where it computes; those of the protocol by default."""
    chosen = as_environments(DEFAULT_ENVIRONMENTS if environments is None else environments)
    if len({env.spec.digest for env in chosen}) < len(chosen):
        names = [env.name for env in chosen]
        raise AttributionLabError(f"environments are {names}: name each once")
    device = running.get("device")
    with own_arithmetic():
        return chosen if device is None else [env.to(device) for env in chosen]
