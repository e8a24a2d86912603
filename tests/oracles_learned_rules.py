"""Plain loops: how far a network computes a rule."""

import math


def certificate_by_loops(network, exact, asked, alone):
    """Both networks take one image and return a list of outputs; `asked` has images by kind, `alone`
    the held-out ones without one patch."""
    truth = {kind: [exact(image) for image in images] for kind, images in asked.items()}
    step = all(value in (0, 1) for rows in truth.values() for row in rows for value in row)

    def answer(image):
        return [float(value > 0.5) if step else value for value in network(image)]

    said = {kind: [answer(image) for image in images] for kind, images in asked.items()}
    found = {}
    for kind in asked:
        outputs = range(len(truth[kind][0]))
        if step:
            right = [s == t for s, t in zip(said[kind], truth[kind], strict=True)]
            found[kind] = sum(right) / len(right)
            continue
        error = spread = 0.0
        for k in outputs:
            column = [row[k] for row in truth[kind]]
            mean = sum(column) / len(column)
            error += sum((s[k] - t) ** 2 for s, t in zip(said[kind], column, strict=True))
            spread += sum((t - mean) ** 2 for t in column)
        found[kind] = 1 - error / spread
    still, moved = [], []
    for i, image in enumerate(alone):
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
