"""RISE written like its formula, mask by mask and pixel by pixel."""

import oracles_methods


def mask(coins, down, right, height, width):
    """(h, w): coins enlarged to one cell more a side than the image, which begins at (down, right)."""
    tall, wide = (-(-side // len(coins)) for side in (height, width))
    large = oracles_methods.enlarge(coins, (len(coins) + 1) * tall, (len(coins) + 1) * wide)
    return [row[right : right + width] for row in large[down : down + height]]


def mixed(image, start, shown):
    """(C, h, w): the image where it is shown, what it starts from elsewhere."""
    return [
        [
            [m * x + (1 - m) * b for m, x, b in zip(*rows, strict=True)]
            for rows in zip(shown, *channels, strict=True)
        ]
        for channels in zip(image, start, strict=True)
    ]


def rise(output, image, starts, masks, probability):
    """(h, w): outputs times masks, summed; `starts` has what each mask's image starts from."""
    height, width = len(masks[0]), len(masks[0][0])
    total = [[0.0] * width for _ in range(height)]
    for shown, start in zip(masks, starts, strict=True):
        value = output(mixed(image, start, shown))
        for y in range(height):
            for x in range(width):
                total[y][x] += value * shown[y][x] / (len(masks) * probability)
    return total


def share_of_noise(products):
    """Share of the draw in the variance over pixels of the mean of maps: (N, pixels) -> number.

    The mean of N independent maps, each less its own mean over pixels, varies by the maps' variance
    over N.
    """
    count, pixels = len(products), len(products[0])
    centered = [[value - sum(row) / pixels for value in row] for row in products]
    means = [sum(column) / count for column in zip(*centered, strict=True)]
    noise = sum(
        sum((row[j] - means[j]) ** 2 for row in centered) / (count - 1) / count
        for j in range(pixels)
    )
    return noise / sum(mean**2 for mean in means)
