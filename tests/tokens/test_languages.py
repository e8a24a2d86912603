"""Networks of tokens are their rule: plain oracle, vectorized rule and transformer agree."""

from functools import cache

import numpy as np
import pytest
import torch

from attributionlab.base import AttributionLabError
from attributionlab.worlds.tokens.languages import LANGUAGES, LENGTHS, Language, counting
from attributionlab.worlds.tokens.transformer import TokenTransformer
from oracles_tokens import ORACLES

SEQUENCES = 10_000
NAMES = sorted(LANGUAGES)


def test_every_language_has_an_oracle():
    assert sorted(ORACLES) == NAMES


@cache
def network(name: str, length: int = 15) -> TokenTransformer:
    return LANGUAGES[name].network(length)


def sequences(language: Language, length: int, n: int, seed: int = 0) -> np.ndarray:
    """Drawn sequences and random ones; half of them with deletions, an eighth of them cut off."""
    rng, rows = np.random.default_rng(seed), []
    for index in range(n):
        any_words = rng.integers(1, len(language.roles) + 1, length)
        row = np.array(language.draw(rng, length) if index % 2 else any_words)
        if index % 4 >= 2:
            row[rng.random(length) > rng.random()] = 0
        if index % 8 == 7:
            row[rng.integers(length + 1) :] = 0
        rows.append(row)
    return np.stack(rows)


def said(language: Language, row: np.ndarray) -> list[str]:
    return [language.roles[role - 1] if role else "" for role in row.tolist()]


def answers(name: str, rows: np.ndarray) -> np.ndarray:
    return np.array([ORACLES[name](said(LANGUAGES[name], row)) for row in rows])


@torch.no_grad()
def outputs(model: TokenTransformer, rows: np.ndarray) -> np.ndarray:
    return torch.cat([model(part) for part in torch.from_numpy(rows).split(2_000)]).numpy()


@pytest.mark.parametrize("name", NAMES)
def test_network_rule_and_oracle_agree_on_short_sequences(name):
    language = LANGUAGES[name]
    rows = sequences(language, 15, 400)
    wanted = answers(name, rows)
    assert len(np.unique(wanted)) > 1
    assert (language.rule(rows) == wanted).all()
    assert (outputs(network(name), rows) == wanted).all()


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_networks_are_exact_on_ten_thousand_sequences_with_deletions(name):
    rows = sequences(LANGUAGES[name], 15, SEQUENCES, seed=1)
    wanted = answers(name, rows)
    assert (LANGUAGES[name].rule(rows) == wanted).all()
    assert (outputs(network(name), rows) == wanted).all()
    double = LANGUAGES[name].network(15).double()
    assert (outputs(double, rows) == wanted).all()


@pytest.mark.parametrize("length", [length for length in LENGTHS if length != 15])
@pytest.mark.parametrize("name", NAMES)
def test_networks_are_exact_at_other_lengths(name, length):
    rows = sequences(LANGUAGES[name], length, 200, seed=2)
    wanted = answers(name, rows)
    assert (LANGUAGES[name].rule(rows) == wanted).all()
    assert (outputs(network(name, length), rows) == wanted).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_sequence_alone_has_the_output_that_it_has_among_others(name):
    rows = sequences(LANGUAGES[name], 15, 32, seed=3)
    alone = np.concatenate([outputs(network(name), row[None]) for row in rows])
    assert (alone == outputs(network(name), rows)).all()


@pytest.mark.parametrize("name", NAMES)
def test_ids_embeddings_and_one_hot_images_are_the_same_input(name):
    model, rows = network(name), sequences(LANGUAGES[name], 15, 16)
    ids = torch.from_numpy(rows)
    words = len(LANGUAGES[name].roles) + 1
    images = torch.nn.functional.one_hot(ids, words).mT[:, :, None].float()
    with torch.no_grad():
        assert torch.equal(model(ids), model(images))
        assert torch.equal(model(ids), model(inputs_embeds=model.embedding(ids)))


def test_the_two_retrieves_are_one_function_bit_for_bit_where_keys_differ():
    language, rng = LANGUAGES["retrieve-scores"], np.random.default_rng(4)
    rows = np.array([language.draw(rng, 15) for _ in range(3_000)])
    rows[rng.random(rows.shape) > rng.random((len(rows), 1))] = 0
    found = [outputs(network(f"retrieve-{way}"), rows) for way in ("scores", "values")]
    assert found[0].tobytes() == found[1].tobytes()
    assert len(np.unique(found[0])) == 3


@pytest.mark.parametrize(
    "name", ["after-marker", "deepest", "fewer-of-two", "last", "more-words", "word-counts"]
)
def test_where_absent_tokens_lie_changes_no_output_where_order_alone_counts(name):
    rng, rows = np.random.default_rng(5), sequences(LANGUAGES[name], 15, 400, seed=5)
    moved = np.zeros_like(rows)
    for row, other in zip(rows, moved, strict=True):
        there = row[row != 0]
        other[np.sort(rng.permutation(15)[: len(there)])] = there
    assert (moved != rows).any(1).sum() > 100
    assert (outputs(network(name), moved) == outputs(network(name), rows)).all()


ATTENDED = {
    "all tokens": lambda row, at: set(range(-1, 15)),  # -1 is the start token
    "tokens 1 to 7": lambda row, at: set(range(-1, 7)),
    "tokens 8 to 15": lambda row, at: set(range(7, 15)),
    "the token before": lambda row, at: {at - 1},
    "the last token": lambda row, at: {14},
    "the last token present": lambda row, at: {max(i for i in range(15) if row[i])},
    "the latest marker before": lambda row, at: {
        max((i for i in range(at) if row[i] == 5), default=-1)
    },
    "the latest token after a copy of this one": lambda row, at: {
        max((i for i in range(1, 15) if row[i - 1] == row[at] in _copied(row)), default=-1)
    },
}
"""Which places a token attends to, by the words of a head."""


def _copied(row):
    """Words that are looked for: keys where there are any, all words of `induction`."""
    return range(5, 21) if max(row) > 10 else range(1, 11)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "deepest"])
def test_heads_attend_to_what_they_say_and_carry_the_words_they_name(name):
    """Attention as the network computes it; `deepest` has registers, and depths to attend by."""
    language, model = LANGUAGES[name], network(name)
    said = language.heads(15)
    row = sequences(language, 15, 2)[1]
    seen = []
    softmaxes = [block.attention.softmax for block in model.blocks if block.attention.softmax]
    handles = [
        each.register_forward_hook(lambda *given: seen.append(given[2])) for each in softmaxes
    ]
    with torch.no_grad():
        model(torch.from_numpy(row)[None])
    for handle in handles:
        handle.remove()
    for place, text in said.items():
        block, head = (int(each.split()[1]) - 1 for each in place.split(", "))
        attends, carried = text.removeprefix("of ").split(": ")
        for at in range(15):
            attention = seen[block][0, head, at + 1]
            found = {i - 1 for i in attention.nonzero().flatten().tolist()}
            assert found == ATTENDED[attends](row, at), (place, at)
        attention = model.blocks[block].attention
        size = attention.size
        values = attention.value.weight[head * size : (head + 1) * size]
        moves = (values @ model.embedding.weight.T).any(0).nonzero().flatten().tolist()
        words = [language.roles[each - 1] for each in moves]
        named = [each for each in carried.split(", ") if each in language.roles]
        assert words or block
        assert carried == f"{words[0]} to {words[-1]}" if len(words) > 6 else named == words


def test_deepest_says_what_its_heads_carry():
    assert LANGUAGES["deepest"].heads(15) == {
        "block 1, head 1": "of all tokens up to this one: (, )",
        "block 2, head 1": "of the deepest token: depth",
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_token_that_is_not_active_never_changes_an_output(name):
    """Each such token alone, among the drawn sequence with others absent."""
    language, rng = LANGUAGES[name], np.random.default_rng(5)
    left_out = 0
    for _ in range(60):
        row = np.array(language.draw(rng, 15))
        for token in np.flatnonzero(~language.active(row)):
            kept = np.where(rng.random((50, 15)) < rng.random((50, 1)), row, 0)
            there, gone = kept.copy(), kept.copy()
            there[:, token], gone[:, token] = row[token], 0
            assert (language.rule(there) == language.rule(gone)).all()
            left_out += 1
    assert left_out or name == "last"


@pytest.mark.parametrize("name", NAMES)
def test_sequences_are_drawn_alike_after_roles_change_places(name):
    """Of 4,000 sequences each role of a group lies as often at each place, within 5 deviations."""
    language, rng = LANGUAGES[name], np.random.default_rng(6)
    rows = np.array([language.draw(rng, 15) for _ in range(4_000)])
    for group in language.groups:
        often = np.array([(rows == role).mean(0) for role in group])
        mean = often.mean(0)
        assert (abs(often - mean) <= 5 * np.sqrt(mean * (1 - mean) / len(rows)) + 1e-12).all()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("min(a, b@left)", "no region named 'left'"),
        ("stripes(a, b)", "stripes"),
        ("min(a, z)", "'z'"),
        ({"one": "a"}, "at least two classes"),
        ({}, "at least two classes"),
    ],
)
def test_rules_that_cannot_be_of_tokens_are_refused(rule, said):
    with pytest.raises(AttributionLabError, match=said):
        counting("world", rule, ["a", "b"], claim="")


@pytest.mark.parametrize("text", ["a", "a - 2*(b@second_quarter)", "a % 3", "a if b >= 2 else 1"])
def test_any_rule_of_the_grammar_is_exact(text):
    language = counting("world", text, ["a", "b", "c"], claim="")
    rows = sequences(language, 15, 300)
    assert (outputs(language.network(15), rows) == language.rule(rows)).all()


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (torch.zeros(2, 14, dtype=torch.int64), "shape"),
        (torch.zeros(2, 15), "integers"),
        (torch.full((2, 15), 7), "ids hold 7"),
        (torch.full((2, 15), -1), "ids hold -1"),
        (None, "type NoneType"),
    ],
)
def test_inputs_that_are_no_sequences_are_refused(inputs, said):
    with pytest.raises(AttributionLabError, match=said):
        network("fewer-of-two")(inputs)
