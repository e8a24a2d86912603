"""The truth of sequences, from all coalitions: held against loops over the plain oracles."""

import numpy as np
import pytest

from attributionlab.base import AttributionLabError
from attributionlab.worlds.tokens.game import asked_of, contributions
from attributionlab.worlds.tokens.languages import LANGUAGES
from oracles_tokens import ORACLES
from oracles_tokens import contributions as slowly

NAMES = sorted(LANGUAGES)


def drawn(name: str, length: int, n: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.array(LANGUAGES[name].draw(rng, length)) for _ in range(n)]


@pytest.mark.parametrize("name", NAMES)
def test_contributions_are_those_of_the_definition(name):
    """Sums of at most 64 terms below 8, each off by 2^-53 of it, in either order: below 1e-12."""
    language = LANGUAGES[name]
    for sequence in drawn(name, 7, 4):
        words = [language.roles[role - 1] for role in sequence]
        for output in range(len(ORACLES[name](words))):
            found = contributions(language, sequence, output)
            wanted = slowly(words, lambda said, output=output: ORACLES[name](said)[output])
            for values, expected in zip(found, zip(*wanted, strict=True), strict=True):
                assert np.abs(values.astype(float) - np.array(expected)).max() < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_shapley_values_add_up_to_what_the_whole_sequence_changes(name):
    """Of 15 tokens, up to 1e-9: 2^14 products of a weight and a change below 16, each rounded."""
    language = LANGUAGES[name]
    for sequence in drawn(name, 15, 3):
        rising, falling, _ = contributions(language, sequence)
        whole, nothing = language.rule(np.stack([sequence, 0 * sequence]))[:, 0]
        assert abs((rising - falling).sum() - (whole - nothing)) < 1e-9


def test_key_value_and_query_share_a_retrieved_word_evenly():
    for sequence in drawn("retrieve-scores", 15, 20):
        found = asked_of(LANGUAGES["retrieve-scores"], sequence)
        key = int(np.flatnonzero(sequence == sequence[-1])[0])
        sign = 1 if sequence[key + 1] <= 2 else -1
        wanted = np.zeros(15, dtype=int)
        wanted[[key, key + 1, 14]] = sign
        assert (found.signed == wanted).all()
        assert found.asked.all()
        again = asked_of(LANGUAGES["retrieve-values"], sequence)
        assert (again.signed == wanted).all()


def test_what_is_mixed_has_no_sign_and_what_is_weak_is_not_asked():
    """not good: 'good' adds 1 alone and takes 1 behind 'not'; 'not' takes 2 where 'good' is there."""
    sequence = np.array([5, 1, 6, 6, 6, 6, 6])
    rising, falling, null = contributions(LANGUAGES["negation"], sequence)
    assert rising[:2].tolist() == [0, 0.5]
    assert falling[:2].tolist() == [1, 0.5]
    found = asked_of(LANGUAGES["negation"], sequence)
    assert found.signed.tolist() == [-1, 0, 0, 0, 0, 0, 0]
    assert found.mixed.tolist() == [False, True, *[False] * 5]
    assert found.asked.all()
    assert null.tolist() == [False, False, *[True] * 5]
    last = asked_of(LANGUAGES["last"], np.array([3, 5, 5, 5, 5, 5, 1]))
    assert last.signed.tolist()[-1] == 1
    assert not last.asked[0]


def test_absent_tokens_are_null_players():
    sequence = np.array([0, 1, 0, 2, 1, 0, 2])
    rising, falling, null = contributions(LANGUAGES["fewer-of-two"], sequence)
    assert null.tolist() == [True, False, True, False, False, True, False]
    assert not falling.any()
    assert rising[1] == rising[4]


def test_more_active_tokens_than_can_be_enumerated_are_refused():
    with pytest.raises(AttributionLabError, match="17 tokens of a sequence of last"):
        contributions(LANGUAGES["last"], np.array([1] * 17 + [0] * 14))
