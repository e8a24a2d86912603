"""What worlds of tokens compute, as the sentences read: loops over words; "" is an absent token.

Nothing here imports the package. Words have the names of their roles.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import factorial

Sentence = Sequence[str]
PLUS, MINUS = ("good", "fine"), ("bad", "poor")


def polarity(word: str) -> int:
    """+1 of good words, -1 of bad ones."""
    return 1 if word in PLUS else -1 if word in MINUS else 0


def halves(sentence: Sentence) -> tuple[Sentence, Sentence]:
    """The first half, which is shorter by one, and the second."""
    middle = len(sentence) // 2
    return sentence[:middle], sentence[middle:]


def fewer_of_two(sentence: Sentence) -> list[int]:
    return [min(sentence.count("a"), sentence.count("b"))]


def in_halves(sentence: Sentence) -> list[int]:
    first, second = halves(sentence)
    return [min(first.count("a"), second.count("b"))]


def word_counts(sentence: Sentence) -> list[int]:
    return [sentence.count(word) for word in "abcd"]


def more_than(sentence: Sentence) -> list[int]:
    return [2 if sentence.count("a") > sentence.count("b") else 0]


def last(sentence: Sentence) -> list[int]:
    for word in reversed(sentence):
        if word:
            return [polarity(word)]
    return [0]


def latest(sentence: Sentence, searched: Callable[[str], bool]) -> list[int]:
    query = sentence[-1]
    if not searched(query):
        return [0]
    for place in range(len(sentence) - 2, -1, -1):
        if sentence[place] == query:
            return [polarity(sentence[place + 1])]
    return [0]


def retrieve_scores(sentence: Sentence) -> list[int]:
    return latest(sentence, lambda word: word.startswith("key"))


def retrieve_values(sentence: Sentence) -> list[int]:
    query, total = sentence[-1], 0
    for before, word in pairwise(sentence):
        if query.startswith("key") and before == query:
            total += polarity(word)
    return [total]


def induction(sentence: Sentence) -> list[int]:
    return latest(sentence, bool)


def negation(sentence: Sentence) -> list[int]:
    total = 0
    for before, word in zip(["", *sentence], sentence, strict=False):
        total += -polarity(word) if before == "not" else polarity(word)
    return [total]


def after_marker(sentence: Sentence) -> list[int]:
    total, seen = 0, False
    for word in sentence:
        total += polarity(word) if seen else 0
        seen = seen or word == "marker"
    return [total]


def deepest(sentence: Sentence) -> list[int]:
    depth = found = 0
    for word in sentence:
        depth += 1 if word == "(" else -1 if word == ")" else 0
        found = max(found, depth)
    return [found]


ORACLES: dict[str, Callable[[Sentence], list[int]]] = {
    "fewer-of-two": fewer_of_two,
    "halves": in_halves,
    "word-counts": word_counts,
    "more-words": more_than,
    "last": last,
    "retrieve-scores": retrieve_scores,
    "retrieve-values": retrieve_values,
    "induction": induction,
    "negation": negation,
    "after-marker": after_marker,
    "deepest": deepest,
}


def contributions(
    sentence: Sentence, value: Callable[[Sentence], int]
) -> list[tuple[float, float, bool]]:
    """S+, S- and whether nothing ever changes, of each token, over all coalitions of the others."""
    tokens, found = len(sentence), []
    for token in range(tokens):
        rises = falls = 0.0
        null = True
        for coalition in range(2**tokens):
            if coalition >> token & 1:
                continue
            without = [word if coalition >> at & 1 else "" for at, word in enumerate(sentence)]
            present = [*without]
            present[token] = sentence[token]
            size = bin(coalition).count("1")
            weight = factorial(size) * factorial(tokens - size - 1) / factorial(tokens)
            change = value(present) - value(without)
            rises += weight * max(change, 0)
            falls += weight * max(-change, 0)
            null = null and change == 0
        found.append((rises, falls, null))
    return found
