"""Worlds of tokens as environments: sequences as one-hot images of one row, ids for who wants them."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Name,
    Text,
    checked_arguments,
    own_arithmetic,
    plain_torch,
)
from attributionlab.worlds.environment.admission import Admission
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.questions import REFERENCES, Question, Questions
from attributionlab.worlds.environment.samples import Sample, SampleDataset
from attributionlab.worlds.environment.spec import EnvironmentSpec
from attributionlab.worlds.environment.world_questions import WorldQuestion
from attributionlab.worlds.nets.networks import Network
from attributionlab.worlds.tokens.game import (
    MOST_ACTIVE,
    Meaning,
    TokenRoles,
    contributions,
    moves,
)
from attributionlab.worlds.tokens.languages import (
    LANGUAGES,
    LENGTHS,
    LETTERS,
    Language,
    counting,
)
from attributionlab.worlds.tokens.transformer import TokenTransformer, checked_ids
from attributionlab.worlds.truth.masks import Output, Truth

LENGTH = 15
OTHER_ROLES = 24
"""Roles of words that are tried beside those of a question."""
MOST_DRAWN = 1_000
"""Sequences drawn in search of one whose truth is there and can be enumerated."""
ABSENT = {
    "recipe": "a recipe for images, places and sizes",
}


class AbsentError(AttributionLabError, AttributeError):
    """What only an environment of images has; `hasattr` says so."""


class TokenEnvironment(Environment):
    """A world of tokens. Made by `attributionlab.load` and `attributionlab.token_world`.

    Images are one-hot (V, 1, T), so that every method of images can be asked; `env.model` also takes
    ids (B, T) and embeddings (B, T, D), by its place or as `inputs_embeds`. Absent is [PAD], id 0.

    `language`: what it computes. `words`: the word of each id. `length`: T.
    """

    is_of_tokens = True
    _one_output = "world of tokens"

    def __init__(self, language: Language, length: int, roles: Sequence[int] | None = None) -> None:
        identity = range(len(language.roles) + 1)
        self.language, self.length = language, length
        self.meaning = Meaning(language, tuple(identity if roles is None else roles))
        said = ("[PAD]", *language.roles)
        self.words = tuple(said[role] for role in self.meaning.roles)
        self.spec = self._spec()
        self.name = self.reference = language.name
        self.maker, self.overrides = "load", {}
        self.softmax_model = self.temperature = None
        self.device = torch.device("cpu")
        self.model = deepcopy(_network(language, length))
        if roles is not None:
            self.embedding.weight.data = self.embedding.weight.data[list(roles)]
        self.layers = {"embedding": self.embedding}
        self.classes, self.max_value = max(1, len(language.classes)), 1
        self.image_shape = (len(self.words), 1, length)
        self.counting = self.meaning  # type: ignore[assignment]
        self.network = Network(
            *(self.model, self.layers, self.classes, len(self.words), 1, length),  # type: ignore
            budgets=[],
        )
        self.admission = Admission(self)
        self.baseline = torch.eye(len(self.words))[0][:, None, None]

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what only an environment of images has."""
        if name in ABSENT:
            raise AbsentError(
                f"{self.name} is a world of tokens, without {ABSENT[name]}, which this needs: take one "
                "of attributionlab.environments()"
            )
        raise AttributeError(f"'TokenEnvironment' object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"TokenEnvironment({self.name!r}, {self.task}, {self.length} tokens)"

    def _spec(self) -> EnvironmentSpec:
        language = self.language
        hidden = dict(language.hidden)
        overall = {key: hidden[key] for key in ("roles", "place", "color") if key in hidden}
        return EnvironmentSpec(
            name=language.name,
            claim=language.claim,
            formula=language.formula,
            source="a rule about sequences",
            builder="tokens",
            generator="tokens",
            constants={
                "image_size": [1, self.length],
                "length": self.length,
                "rule": language.formula,
                "words": list(self.words),
            },
            size=256,
            seed=0,
            hidden={**hidden, "overall": overall} if overall else hidden,
        )

    @property
    def embedding(self) -> nn.Embedding:
        """The network's embedding, to which methods of layers attach: ids (B, T) -> (B, T, D)."""
        return self.model.embedding  # type: ignore[return-value]

    @property
    def implementations(self) -> tuple[str, ...]:
        """None: there is one network for each rule."""
        return ()

    @checked_arguments
    def ids(self, images: Real[Tensor, "batch words 1 tokens"]) -> Int[Tensor, "batch tokens"]:
        """Ids of one-hot images, as the embedding takes them."""
        self._check(images)
        return images[:, :, 0].argmax(1)

    @checked_arguments
    def one_hot(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch words 1 tokens"]:
        """Images of ids (B, T). Raises AttributionLabError for ids out of range and other lengths."""
        if ids.shape[1] != self.length:
            raise AttributionLabError(
                f"ids are {tuple(ids.shape)}: {self.name} takes (B, {self.length}); fill up with 0, "
                "which is [PAD]"
            )
        known = checked_ids(ids, len(self.words))
        return nn.functional.one_hot(known, len(self.words)).mT[:, :, None].float()

    @checked_arguments
    def said(self, image: Real[Tensor, "words 1 tokens"]) -> list[str]:
        """The words of a sequence."""
        return [self.words[index] for index in image[:, 0].argmax(0).tolist()]

    def _samples(self, n: int, seed: int) -> SampleDataset:
        """Each token is a patch of its own."""
        return TokenSamples(self, n, seed)

    @checked_arguments
    @own_arithmetic()
    def truth(
        self,
        images: Real[Tensor, "batch words 1 tokens"],
        targets: Int[Tensor, " batch"] | Sequence[int],
        output: Output | None = None,
    ) -> Truth:
        """What each token does, by all coalitions of tokens: (B, 1, 1, T), as `Environment.truth`."""
        self.checked_output(output)
        self._check(images)
        indices = self.admission.targets(targets, len(images))
        return self.meaning.truth(images, indices.tolist())

    @checked_arguments
    @own_arithmetic()
    def shapley(  # type: ignore[override]  # there is one baseline, [PAD]
        self,
        image: Real[Tensor, "words 1 tokens"],
        target: int = 0,
        output: Output | None = None,
    ) -> Float[Tensor, "1 1 tokens"]:
        """Exact Shapley values of a sequence's tokens; an absent token is [PAD] at its place."""
        self.checked_output(output)
        self._check(image[None])
        indices = self.admission.targets([target], 1)
        rising, falling, _ = contributions(
            self.language, self.meaning.of(image[None])[0], int(indices[0])
        )
        return torch.from_numpy(rising - falling)[None, None]

    def truths(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: there is one definition of a token's truth."""
        raise AttributionLabError(
            f"{self.name} is a world of tokens, whose truth has one definition: take env.truth and "
            "env.shapley, and leave also='truths' and the claim 'agreed' out"
        )

    def camouflaged(self, seed: int) -> NoReturn:
        """Refused: there is one network for each rule."""
        raise AttributionLabError(
            f"{self.name} is a world of tokens, whose only network, a transformer, cannot be "
            "rewritten: leave implementations and camouflage out, or take an environment of images"
        )

    def with_implementation(self, name: str) -> NoReturn:
        """Refused, as `camouflaged`."""
        self.camouflaged(0)

    def _check(self, images: Tensor) -> None:
        """Refuse what is no one-hot image of a sequence."""
        fits = images.shape[1:] == self.image_shape
        if not fits or not (((images == 0) | (images == 1)).all() and (images.sum(1) == 1).all()):
            found = " with other values than one 1 for each token" if fits else ""
            raise AttributionLabError(
                f"images are {tuple(images.shape)}{found}: {self.name} takes one-hot ones of the shape "
                f"(B, {', '.join(map(str, self.image_shape))}), as of env.one_hot(ids)"
            )

    # Questions

    def drawn_question(self, looks: np.random.Generator, rng: np.random.Generator) -> Question:
        """A question: words are given roles anew, for the sequence and for the network."""
        for _ in range(MOST_DRAWN):
            sequence = self._drawn(looks)
            words = np.append(0, 1 + looks.permutation(len(self.words) - 1))  # role -> id
            ids = words[sequence]
            role_of = np.argsort(words)  # id -> role, as it was drawn
            targets = rng.permutation(self.classes).tolist()
            renamings = [tuple(self._exchanged(rng)[role_of].tolist()) for _ in range(OTHER_ROLES)]
            moving = ((own, target) for own in renamings for target in targets
                      if moves(self.language, np.array(own)[ids], target))  # fmt: skip
            own, target = next(moving, ((), 0))
            if not own:
                continue
            turns = self.language.turns.values()
            turned = [np.array(self._turned(turn))[list(own)] for turn in turns]
            others = [own, *(tuple(each.tolist()) for each in turned), *renamings]
            active = (self.language.active(np.array(each)[ids]).sum() for each in others)
            if max(active) <= MOST_ACTIVE:  # in other roles other words count
                break
        else:
            raise AttributionLabError(
                f"{self.name}: for none of {MOST_DRAWN} sequences of {self.length} tokens can the "
                "truth also be enumerated in other roles: take a shorter length"
            )
        env = TokenEnvironment(self.language, self.length, own)
        env.maker, env.reference, env.overrides = self.maker, self.reference, self.overrides
        return Question(
            env=env.to(self.device),
            image=self.one_hot(torch.from_numpy(ids)[None])[0],
            target=target,
            patches=_each_token(self.length),
            cells=_each_token(self.length) - 1,
            roles=(),
            values=(),
            world=WorldQuestion(TokenRoles(self.language, ids, others), 0),  # type: ignore[arg-type]
        )

    def references(self, question: Question, n: int, seed: int) -> Tensor:
        """Sequences of a question's words that no question is about."""
        stream = np.random.SeedSequence(seed, spawn_key=(REFERENCES,)).generate_state(n)
        id_of = np.argsort(question.env.meaning.roles)  # type: ignore[attr-defined]
        drawn = [self._drawn(np.random.default_rng(int(each))) for each in stream]
        return self.one_hot(torch.from_numpy(id_of[np.stack(drawn)]))

    def _drawn(self, rng: np.random.Generator, labelled: bool = False) -> NDArray[np.int64]:
        """A sequence (T,) of roles whose truth is there and can be enumerated."""
        language = self.language
        for _ in range(MOST_DRAWN):
            row = np.array(language.draw(rng, self.length))
            if language.active(row).sum() > MOST_ACTIVE:
                continue
            outputs = np.sort(language.rule(row[None])[0])
            if len(outputs) > 1 and labelled and outputs[-1] == outputs[-2]:
                continue
            if any(moves(language, row, output) for output in range(self.classes)):
                return row
        raise AttributionLabError(
            f"{self.name}: none of {MOST_DRAWN:,} sequences of {self.length} tokens has a truth that "
            f"can be enumerated, with 1 to {MOST_ACTIVE} active tokens of which one is relevant: take "
            "a shorter length, fewer words or another rule"
        )

    def _exchanged(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Role -> role, where roles of a group have changed places."""
        table = np.arange(len(self.words))
        for group in self.language.groups:
            table[list(group)] = rng.permutation(list(group))
        return table

    def _turned(self, turn: Mapping[int, int]) -> list[int]:
        return [turn.get(role, role) for role in range(len(self.words))]

    def summary(self) -> str:
        """What it computes and hides, as plain text."""
        spec = self.spec
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        rows = {
            "claim": spec.claim,
            "formula": spec.formula,
            "task": f"{self.task}, {self.classes} output{'s' * (self.classes > 1)}",
            "network": f"{len(self.model.blocks)} blocks, {parameters:,} parameters",  # type: ignore
            "tokens": f"{self.length}, of {len(self.words) - 1} words and [PAD]; images "
            + " x ".join(map(str, self.image_shape)),
            **self.language.heads(self.length),
            "words": ", ".join(self.words),
            "hidden": ", ".join(f"{thing} (1 of {m})" for thing, m in self.hidden().items()),
            "  constants": json.dumps(dict(spec.constants)),
            "spec": spec.digest[:16],
        }
        return "\n".join([self.name, *(f"  {key:<20} {value}" for key, value in rows.items())])


class TokenSamples(SampleDataset):
    """Samples 0 to n - 1 of a world of tokens; each depends on (language, seed, index) alone."""

    def __init__(self, env: TokenEnvironment, n: int, seed: int) -> None:
        self.env, self.n, self.seed = env, n, seed

    def _sample(self, index: int) -> Sample:
        stream = np.random.SeedSequence(self.seed, spawn_key=(index,))
        env, rng = self.env, np.random.default_rng(stream)
        row = env._drawn(rng, labelled=True)
        image = env.one_hot(torch.from_numpy(np.argsort(env.meaning.roles)[row])[None])
        return Sample(image[0], env.meaning.labels(image)[0], _each_token(env.length))


def _each_token(length: int) -> Int[Tensor, "1 tokens"]:
    """Each token a segment of its own."""
    return torch.arange(1, length + 1)[None]


@cache
def _network(language: Language, length: int) -> TokenTransformer:
    return language.network(length)


def loaded(name: str, **overrides: Any) -> TokenEnvironment:
    """A world of tokens of the catalog; `length` is all that can be overridden."""
    if others := [key for key in overrides if key != "length"]:
        raise AttributionLabError(
            f"{name}: {others[0]} is not a constant of a world of tokens, whose only one is length: "
            "leave it out, or take an environment of images"
        )
    return _made(LANGUAGES[name], "load", name, overrides)


TRIED = 20
"""Questions that are drawn when a world is loaded whose sequences may be too long for the truth."""


def _made(
    language: Language, maker: Any, reference: Any, overrides: Mapping[str, Any]
) -> TokenEnvironment:
    length = overrides.get("length", LENGTH)
    if length not in LENGTHS:
        raise AttributionLabError(
            f"{language.name}: length is {length!r}: take one of {', '.join(map(str, LENGTHS))}"
        )
    with plain_torch():
        env = TokenEnvironment(language, int(length))
        env.maker, env.reference, env.overrides = maker, reference, dict(overrides)
        env.dataset(1)[0]  # an impossible one fails here and not when it is used
        for index in range(TRIED if env.length > MOST_ACTIVE else 0):
            Questions(env).question(index)
    return env


@checked_arguments
def token_world(
    rule: Text | Mapping[Text, Text],
    words: Sequence[Text] = LETTERS,
    *,
    length: int = LENGTH,
    name: Name | None = None,
) -> TokenEnvironment:
    """Make a world of tokens from a rule: an exact transformer, its sequences and their truth.

    Parameters
    ----------
    rule : str or dict of str to str
        An expression over counts of words, such as "min(a, b@first_half)", for one output (a
        regression); or one expression for each class, by name. `worlds.rules.parsing.parse` has the
        grammar. Regions are first_half, second_half, first_quarter, second_quarter, third_quarter and
        fourth_quarter: of T tokens the first half has (T - 1) / 2.
    words : sequence of str
        The vocabulary; at least one word must not be in the rule. By default a, b, c, d, e, f.
    length : int
        Number of tokens: 7, 15 or 31.
    name : str, optional
        Name of the world; by default its rule.

    Returns
    -------
    TokenEnvironment
        It hides nothing, so a method cannot pass on this world alone.

    Raises
    ------
    AttributionLabError
        For the first problem of words, rule or length.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.token_world("min(a, b@first_half)")
    >>> images, labels = env.batch(2)
    >>> bool((env.model(env.ids(images))[:, 0] == labels).all())
    True
    """
    words = list(words)
    wrong = [word for word in words if not word.isidentifier() or words.count(word) > 1]
    if wrong:
        raise AttributionLabError(
            f"words are {words}: {wrong[0]!r} is not a name of letters and _, or occurs twice"
        )
    text = rule if isinstance(rule, str) else "; ".join(f"{k}: {v}" for k, v in rule.items())
    title = text if name is None else name
    language = counting(title, rule, words, claim=f"The rule {text}.")
    every_word = np.arange(1, len(words) + 1)
    if language.active(every_word).all():
        raise AttributionLabError(
            f"words are {words}, all of which the rule counts: add one that it does not count, so "
            "that some tokens are irrelevant"
        )
    given = {"words": words, "length": length} | ({} if name is None else {"name": name})
    return _made(language, "token_world", rule if isinstance(rule, str) else dict(rule), given)
