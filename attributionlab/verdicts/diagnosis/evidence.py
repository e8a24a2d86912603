"""What a diagnosis rests on, and its hints."""

import ast
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from attributionlab.base import FEWEST_QUESTIONS
from attributionlab.methods import METHODS, Shown, derived
from attributionlab.verdicts.diagnosis.likeness import MARGIN, Likeness, LookAlike

LIKE_ENOUGH = 0.5
"""Similarity with a predicted map from which the prediction may be named."""

LEAST_EXPLAINED = 0.05
"""F1 that a cause must explain to be named."""

EQUALLY_GOOD = 0.02
"""Difference in F1 explained up to which two failures cannot be told apart."""

LISTED = 6
"""Images whose numbers a sentence states."""

REPLACED = 1.0
"""How far a background shown to the network lies from the image's, at least, to be another color; the
steps of color values are 1."""


class Hint(NamedTuple):
    """A likely cause, in the words of a report."""

    cause: str
    """short kebab-case name"""
    says: str
    """what was measured, in one sentence"""
    confirm: str
    """the experiment that would confirm it"""
    explains: float
    """F1 that it accounts for, at most what is missing; an estimate unless `says` names a lifted F1"""
    tried: bool = False
    """whether it was tried out on the method and is certain, no guess from maps"""


KEPT = ("image_size", "implementation")
"""Constants of an environment that a shell can name, and that hold in another environment, too."""

ANYWAY = (("image_size", 72), ("implementation", "paper"), ("implementation", "natural"))
"""Those that a shell need not name, by the protocol: environments of the catalog have them anyway."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known about a method in one environment.

    - `environment`, `method`, `claim`, `part`: names, the environment's as `attributionlab.load` takes
      it; `part` is the part of the truth that decides over the claim.
    - `missing`: 1 - F1 of that part (mean over images).
    - `shares`: `attributionlab.verdicts.diagnosis.shares.missing_shares`, means over images.
    - `likeness`: evidence of the first images.
    - `guards`: the kinds of the guards' notices in this environment (`attributionlab.methods.Notice`).
    - `completeness_gap`: value of the median image; None where it is unknown.
    - `reference`, `in_shell`: how Python names the method (in quotes, or an object's name; the quoted
      name by default), and whether a shell can name it, and the environment as it was loaded.
    - `settings`, `overrides`, `options`: the user's settings: of the method, of the environment, and of
      the test where it differs from the default (claim, n, seed, explain, ...).
    - `takes`: declared ones of baseline (the true one), baselines, n_steps, segmentation, layer.
    - `sawtooth`: whether the output is a count modulo a number, which falls to 0 wherever it wraps.
    - `unseen_colors_disturb`: whether colors that the network has never seen change its output.
    - `tied`: how many equal counts decide a minimum or maximum of the rule, in every studied image.
    - `images`, `all_zero`, `zeros`: number of tested images, and the share of their maps that are zero
      everywhere, with their numbers.
    - `why_zero`: what a guard says of maps that are zero; empty where none does.
    - `shapley_f1`, `runner_up`: the claim's F1 of exact Shapley values; that of the studied images
      where the class with the second-most pixels is explained.
    - `own_resolution`, `own_ceiling`: on what the method's maps are constant, and the best claim F1
      attainable so.
    - `positive_only`, `stochastic`: whether no map has a negative value; whether another seed gives
      other maps.
    - `shown`: what the network was shown of the first image. `rule`: what it computes.
    - `captum`: the name of a class of Captum's whose `attribute` takes baselines, if the method is one.
    - `preferred`: the failure to name among those that this environment cannot tell apart.
    """

    environment: str
    method: str
    claim: str
    part: str
    missing: float
    shares: Mapping[str, float]
    likeness: Likeness
    guards: frozenset[str] = frozenset()
    completeness_gap: float | None = None
    reference: str = ""
    in_shell: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    takes: frozenset[str] = frozenset()
    sawtooth: bool = False
    tied: int = 1
    unseen_colors_disturb: bool = False
    temperature: float | None = None
    images: int = 1
    all_zero: float = 0.0
    zeros: tuple[int, ...] = ()
    why_zero: str = ""
    shapley_f1: float | None = None
    runner_up: float | None = None
    own_resolution: str | None = None
    own_ceiling: float | None = None
    positive_only: bool = False
    stochastic: bool = False
    preferred: str | None = None
    shown: Shown | None = None
    rule: str = ""
    captum: str = ""

    @property
    def implementation(self) -> str:
        """How the networks are written."""
        return str(self.overrides.get("implementation", "paper"))

    @property
    def place(self) -> str:
        """The environment, with the implementation where that is not the paper's."""
        own = self.implementation
        return self.environment if own == "paper" else f"{self.environment} ({own})"

    @property
    def computes(self) -> str:
        """What the network computes, as the end of a sentence; empty where no rule is known."""
        return f": {self.environment} computes {self.rule}" if self.rule else ""

    def share(self, *names: str) -> float:
        """The sum of some shares."""
        return sum(self.shares.get(name, 0.0) for name in names)

    @property
    def built_in(self) -> bool:
        """Whether the method goes by a name of `attributionlab.methods.METHODS`, with or without
        suffixes.
        """
        return self._reference == repr(self.method) and self._known is not None

    @property
    def built_in_settings(self) -> dict[str, Any]:
        """What a built-in method takes, with the defaults; nothing is known of others."""
        if not self.built_in or self._known is None:
            return {}
        return {
            key: each.default for key, each in inspect.signature(self._known).parameters.items()
        }

    @property
    def takes_a_path(self) -> bool:
        """Whether anything says that the method compares images with a baseline, step by step."""
        known = {*self.takes, *self.settings, *self.built_in_settings}
        return bool(
            known & {"baseline", "baselines", "n_steps"}
            or self.guards & {"quadrature", "completeness"}
            or self.completeness_gap is not None
        )

    @property
    def around(self) -> bool:
        """Whether the network was shown a background on both sides of its color, as noise makes it."""
        if not self.shown:
            return False
        seen = zip(self.shown.color, self.shown.lowest, self.shown.highest, strict=True)
        return any(min(color - low, high - color) > REPLACED for color, low, high in seen)

    @property
    def replaced(self) -> bool:
        """Whether the network was shown a background of another color."""
        if not self.shown:
            return False
        ends = zip(self.shown.lowest, self.shown.highest, strict=True)
        return max(high - low for low, high in ends) > REPLACED

    @property
    def noise(self) -> Any:
        """The setting of this name, if one is known."""
        return {**self.built_in_settings, **self.settings}.get("noise")

    @property
    def zero_maps(self) -> str:
        """In how many questions the map is zero everywhere."""
        some = self.zeros[:LISTED] if len(self.zeros) < self.images else ()
        more = f" and {len(self.zeros) - LISTED} more" * (len(self.zeros) > LISTED)
        which = f" (samples {', '.join(map(str, some))}{more})" if some else ""
        empty = round(self.all_zero * self.images)
        plural = "s" * (self.images > 1)
        return f"the map is 0 everywhere in {empty} of {self.images} question{plural}{which}"

    @property
    def _known(self) -> Callable[..., Any] | None:
        return derived(self.method, METHODS)

    @property
    def _reference(self) -> str:
        return self.reference or repr(self.method)

    def test(
        self,
        *,
        method: str = "",
        environment: str = "",
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """The command of this test with some changes, of a shell where one can state it.

        With fewer questions than a pass needs it would end without a verdict, so that a shell's asks
        these; nor does it name what holds `ANYWAY`.

        Else a line of Python after ``import attributionlab``, where a value without a literal, such
        as an array, is named like its setting.

        - `method`: another method's name; of the settings it gets those that it takes.
        - `environment`: another environment of the catalog; of the overrides it gets the image size.
        - `**options`: of the test.
        """
        changed = dict(self.settings if settings is None else settings)
        if method:
            named = derived(method, METHODS)
            assert named is not None  # the hints name methods that there are
            taken = inspect.signature(named).parameters
            changed = {name: value for name, value in changed.items() if name in taken}
        overrides = dict(self.overrides)
        if environment:
            overrides = {k: value for k, value in overrides.items() if k in KEPT}
            changed.pop("layer", None)  # a name of this network
        arguments = {**self.options, **options}
        reference = repr(method) if method else self._reference
        name = environment or self.environment
        if self.in_shell and all(_is_literal(value) for value in changed.values()):
            words = ["attributionlab", "test", reference.strip("'\""), "--env", name]
            if not name.endswith(".toml") and ":" not in name:
                overrides = dict(each for each in overrides.items() if each not in ANYWAY)
            if "n" in arguments:
                arguments["n"] = max(arguments["n"], FEWEST_QUESTIONS)
            for key, value in {**overrides, **arguments}.items():
                option = f"--{ {'explain': 'output'}.get(key, key).replace('_', '-') }"
                words += [option] if value is True else [option, str(value)]
            for key, value in changed.items():
                words += ["--set", f"{key}={_word(value)}"]
            return shlex.join(words)
        place = repr(name)
        if overrides:
            given = [f"{key}={_literal(key, value)}" for key, value in overrides.items()]
            place = f"attributionlab.load({', '.join([place, *given])})"
        words = [reference, place, *(f"{key}={value!r}" for key, value in arguments.items())]
        if changed:
            pairs = [f"{key!r}: {_literal(key, value)}" for key, value in changed.items()]
            words.append(f"settings={{{', '.join(pairs)}}}")
        return f"attributionlab.faithfulness_test({', '.join(words)})"

    def look_alikes(self) -> Iterator[LookAlike]:
        """Failures that the maps are like, and more so than like the truth."""
        for each in self.likeness.ranked:
            # Undoing a failure leaves a map that is at least as like the truth.
            margin = MARGIN if each.f1 is None else -EQUALLY_GOOD
            enough = max(LIKE_ENOUGH, self.likeness.truth + margin)
            if each.similarity >= enough and each.explains >= LEAST_EXPLAINED:
                yield each

    def indistinct(self) -> list[LookAlike]:
        """The failures that explain most, as far as this environment can tell them apart."""
        like = list(self.look_alikes())
        most = max((each.explains for each in like), default=0.0)
        return [each for each in like if each.explains >= most - EQUALLY_GOOD]

    def best(self) -> LookAlike | None:
        """The failure that the maps look like, if any."""
        equal = self.indistinct()
        preferred = [each for each in equal if each.cause == self.preferred]
        return next(iter([*preferred, *equal]), None)


def _is_literal(value: Any) -> bool:
    """Whether Python reads the same value from its representation."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _word(value: Any) -> str:
    """A setting as the command line reads it: a literal, or a string that is none without quotes."""
    if not isinstance(value, str) or value.lower() in ("true", "false", "none"):
        return repr(value)
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    return repr(value)


def _literal(name: str, value: Any) -> str:
    return repr(value) if _is_literal(value) else name
