"""Pictures in color, in gray and as two color visions see them, side by side, to be looked at.

`python tests/contact_sheet.py SHEET.png PICTURE.png ...`
"""

import sys

import numpy as np
from PIL import Image

# Viénot, Brettel and Mollon (1999), "Digital video colourmaps for checking the legibility of displays
# by dichromats", eq. 2 to 5: from linear RGB to cones, the missing cone from the two others, and back.
CONES = np.array(
    [[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]]
)
MISSING = {
    "protanopia": [[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]],
    "deuteranopia": [[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
"""IEC 61966-2-1: linear RGB to CIE XYZ, white point D65."""
LUMINANCE = XYZ[1]
VISIONS = ("usual", "gray", *MISSING)
WIDTH = 480


def linear(share):
    """Light of sRGB values in [0, 1] (IEC 61966-2-1)."""
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def seen(light, vision):
    """What a vision makes of light (..., 3)."""
    if vision in MISSING:
        light = light @ (np.linalg.inv(CONES) @ MISSING[vision] @ CONES).T
    elif vision == "gray":
        light = (light @ LUMINANCE)[..., None].repeat(3, -1)
    return light.clip(0, 1)


def light_of(color):
    """Light of a color such as #b2182b."""
    return linear(np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255)


def luminance(color):
    return float(LUMINANCE @ light_of(color))


def contrast(one, other):
    """WCAG 2.2, contrast ratio."""
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def encoded(light):
    """Light as sRGB values from 0 to 255."""
    share = np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.rint(255 * share).astype(np.uint8)


def sheet(paths):
    """A row for each picture, a column for each of `VISIONS`."""
    rows = []
    for path in paths:
        picture = Image.open(path).convert("RGB")
        picture = picture.resize((WIDTH, max(1, picture.height * WIDTH // picture.width)))
        light = linear(np.asarray(picture) / 255)
        rows.append(np.hstack([encoded(seen(light, vision)) for vision in VISIONS]))
    return Image.fromarray(np.vstack(rows))


if __name__ == "__main__":
    sheet(sys.argv[2:]).save(sys.argv[1])
