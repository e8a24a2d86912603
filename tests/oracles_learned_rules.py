"""Plain loops: how far a network computes a rule."""

import math
from itertools import combinations, permutations

import numpy as np
from scipy.stats import spearmanr


def certificate_by_loops(network, exact, asked, alone, clear=None, alone_clear=None):
    """Agreement by kind and the share of right signs. Both networks take one image and return a list of
    outputs; `asked` has images by kind, `alone` the held-out ones without one patch; `clear` and
    `alone_clear` say which images are not left out, none by default."""
    clear = clear or {kind: [True] * len(images) for kind, images in asked.items()}
    alone_clear = alone_clear or [True] * len(alone)
    truth = {kind: [exact(image) for image in images] for kind, images in asked.items()}
    step = all(value in (0, 1) for rows in truth.values() for row in rows for value in row)

    def answer(image):
        return [float(value > 0.5) if step else value for value in network(image)]

    said = {kind: [answer(image) for image in images] for kind, images in asked.items()}
    found = {}
    for kind in asked:
        kept = [k for k, one in enumerate(clear[kind]) if one]
        rows = [(said[kind][k], truth[kind][k]) for k in kept]
        if step:
            found[kind] = sum(s == t for s, t in rows) / len(rows)
            continue
        error = spread = 0.0
        for k in range(len(rows[0][1])):
            column = [t[k] for _, t in rows]
            mean = sum(column) / len(column)
            error += sum((s[k] - t[k]) ** 2 for s, t in rows)
            spread += sum((t - mean) ** 2 for t in column)
        found[kind] = 1 - error / spread
    still, moved = [], []
    for i, image in enumerate(alone):
        if not (alone_clear[i] and clear["held_out"][i]):
            continue
        after, now = exact(image), answer(image)
        for k in range(len(after)):
            column = [row[k] for row in truth["held_out"]]
            mean = sum(column) / len(column)
            sd = math.sqrt(sum((t - mean) ** 2 for t in column) / (len(column) - 1))
            least = 0 if step else 0.15 * sd
            effect, change = after[k] - column[i], now[k] - said["held_out"][i][k]
            if effect == 0:
                still.append(abs(change) <= least)
            elif abs(effect) >= 2 * least:
                moved.append(change * math.copysign(1, effect) > least)
    found["signs"] = min(sum(each) / len(each) for each in (still, moved) if each)
    return found


def shapley_by_permutations(value, players):
    """Each player's mean contribution over all orders; `value` takes a set of players."""
    orders = list(permutations(players))
    total = dict.fromkeys(players, 0.0)
    for order in orders:
        for place, player in enumerate(order):
            total[player] += value({*order[: place + 1]}) - value({*order[:place]})
    return {player: each / len(orders) for player, each in total.items()}


def is_beside(count, threshold, most):
    """Whether "count >= threshold" turns over within so many pixels, though a pixel is there: the
    threshold lies between two counts, half a pixel below the first that reaches it."""
    return count > 0 and abs(count - (threshold - 0.5)) < most


def predicted(networks):
    """What each predictor says of one world's trained networks, by scipy and in plain loops.

    `networks`: scores of the methods by network, in eighths; what is solved equals the score. For each
    predictor: mean Spearman correlation, share of methods on one side of 0.5, and of 0.75.
    """
    learned = {name: each for name, each in networks.items() if name.startswith("trained")}
    sources = {n: each for n, each in networks.items() if n not in learned and "soft" not in n}
    soft = {n: networks.get(f"{n} (soft sister)", networks[n]) for n in ("planes", "natural")}
    sources |= {f"{n} (soft sister)": each for n, each in soft.items()}
    sources["mean of planes and natural"] = (networks["planes"] + networks["natural"]) / 2
    sources["ranking score"] = (soft["planes"] + soft["natural"]) / 2
    pairs = {name: [(each, other) for other in learned.values()] for name, each in sources.items()}
    pairs |= {"another architecture": [], "another seed": []}
    for one, other in combinations(learned, 2):
        alike = one.split()[1] == other.split()[1]
        key = "another seed" if alike else "another architecture"
        pairs[key].append((learned[one], learned[other]))
    return {
        name: [
            float(np.mean([spearmanr(*pair).statistic for pair in each])),
            *(
                float(np.mean([(pair[0] >= b) == (pair[1] >= b) for pair in each]))
                for b in (0.5, 0.75)
            ),
        ]
        for name, each in pairs.items()
    }
