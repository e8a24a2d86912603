"""The truths of a question, equally likely for whoever does not see one thing; its own comes first.

A world's table ``[hidden]`` says how many there are (`attributionlab.worlds.environment.hidden`).
"""

from itertools import combinations

import numpy as np
import torch

from attributionlab.worlds.environment.hidden import exchanges, turns
from attributionlab.worlds.environment.roles import Roles, renamed_counts
from attributionlab.worlds.rules.game import placed
from attributionlab.worlds.tokens.game import asked_of
from attributionlab.worlds.truth import mask


def alternatives(question, thing, output):
    """Network and image are made anew where they hide the thing: roles, place and sign change what
    the network counts; color and context change the colors of the image's pixels.

    Each truth is of one image; the own truth stands alone where the thing is not hidden.
    """
    if question.world is not None:
        return in_world(question, thing, output)
    classes, cells, values = question.env.classes, len(question.values), question.values

    def network(step, target):
        counted = torch.full((cells + 1,), -1)
        for index, cell in enumerate(question.roles):
            counted[(cell + step) % cells] = index
        return mask(counted[question.cells][None, None], torch.tensor([target]), output)

    if thing == "target":
        return [network(0, (question.target + step) % classes) for step in range(classes)]
    if thing == "roles":
        return [network(step, question.target) for step in range(cells)]
    if thing == "color":
        turned = (values[step:] + values[:step] for step in range(cells))
        return [
            recolored(question, dict(zip(values, each, strict=True)), output) for each in turned
        ]
    return [network(0, question.target)]


def in_world(question, thing, output):
    """The same in a world from a rule."""
    env, world, role = question.env, question.world.roles, question.world.role
    rule, space, own = env.counting, Roles(env.counting, env.recipe), question.target

    def network(renaming):
        temperature = env.temperature if output == "probability" else None
        asked = world.kinds.asked(
            rule.expressions, renamed_counts(rule, renaming), own, temperature
        )
        return placed(asked, world.kinds.labels).truth()

    def image(renaming):
        shades = rule.places.shades
        pixels = {}
        for old, new in renaming.items():
            pixels |= zip(shades[old], shades[new], strict=True)
        return recolored(question, pixels, output)

    make = image if thing in ("color", "context") else network
    if thing == "target":
        targets = [(own + step) % env.classes for step in range(env.classes)]
        return [world.truth(role, target, output) for target in targets]
    if thing in ("sign", "context"):
        truth = world.truth(role, own, output)
        for group, _ in sorted(space.colors, key=lambda each: len(each[0])):
            for one, other in combinations(group, 2):
                swapped = make({one: other, other: one})
                if truth.signed.any() and swapped.signed.equal(-truth.signed):
                    return [truth, swapped]
        return [truth]
    asked = world.asked(role, own, output)
    positive, unasked = (
        {count for count in rule.counts_used if world.kinds.sees[count][kinds].any()}
        for kinds in (asked.signed > 0, asked.mixed | ~asked.asked)
    )
    return [make(each) for each in turns(positive, positive | unasked, exchanges(space, thing))]


def recolored(question, pixels, output):
    """The truth of a question's image after some pixels have taken other values."""
    image = question.image.clone()
    for old, new in pixels.items():
        where = (question.image == torch.tensor(old)[:, None, None]).all(0)
        image[:, where] = torch.tensor(new, dtype=image.dtype)[:, None]
    return question.env.truth(image[None], torch.tensor([question.target]), output)


def of_tokens(question, thing):
    """The same of a sequence: powers of the language's turn, the classes for "target", and for
    "context" all queries of the sequence in place of its last token.
    """
    env, language = question.env, question.env.language
    sequence = env.meaning.of(question.image[None])[0]
    rows = [(sequence, question.target)]
    if thing == "target":
        rows = [(sequence, (question.target + k) % env.classes) for k in range(env.classes)]
    elif thing == "context":
        queries = sorted({*sequence[:-1:2].tolist()}, key=lambda query: query != sequence[-1])
        rows = [(np.append(sequence[:-1], query), question.target) for query in queries]
    else:
        turn = np.array(env._turned(language.turns[thing]))
        while not np.array_equal(turned := turn[rows[-1][0]], sequence):
            rows.append((turned, question.target))
    return [asked_of(language, *each).truth() for each in rows]
