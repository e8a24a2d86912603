"""A student's fixed script for sealed laboratories, which reads neither weights nor key.

It takes segments, a color in a place each, replaces them by the background, and fills in every answer
from the outputs. Nothing in it depends on the laboratory but which places there are.
"""

import itertools
import json
import math
import warnings

import numpy as np
import torch

import attributionlab as al
from attributionlab import methods
from attributionlab.metrics import parts_f1

COALITIONS = 80
"""Random ones in which each segment is tried, in every image."""
MOST_RELEVANT = 12
"""Segments whose coalitions are all tried; of more the largest effects are taken."""


def quadrants(spec, side):
    """Masks (H, W) of the four quadrants."""
    low = np.arange(side) + 0.5 < side / 2
    return {
        f"{row}_{column}": np.outer(low == top, low == left)
        for row, top in (("top", True), ("bottom", False))
        for column, left in (("left", True), ("right", False))
    }


def stated(spec, side):
    """Masks of the places in lab.json; of points that are nearest to one, where it has no borders."""
    rows, columns = ((np.indices((side, side)) + 0.5) / side).reshape(2, side, side)
    edges = spec["places"]
    if len(next(iter(edges.values()))) == 4:
        return {
            name: (top <= rows) & (rows < bottom) & (left <= columns) & (columns < right)
            for name, (top, left, bottom, right) in edges.items()
        }
    far = [np.hypot(rows - row, columns - column) for row, column in edges.values()]
    nearest = np.argmin(far, 0)
    return {name: nearest == k for k, name in enumerate(edges)}


class Script:
    """Answers for a laboratory; `places` gives masks by name from lab.json and the image side."""

    def __init__(self, lab, places=quadrants):
        self.lab, self.spec, side = lab, lab.spec, lab.images.shape[-1]
        self.places = places(lab.spec, side)
        flat = lab.images[0].flatten(1).T.numpy()
        colors, counts = np.unique(flat, axis=0, return_counts=True)
        self.background = torch.tensor(colors[counts.argmax()])[:, None, None]
        self.rng = np.random.default_rng(0)
        self.segments = list(itertools.product(lab.spec["colors"], self.places))
        self.found = [self._image(image) for image in lab.images]

    def outputs(self, images):
        with torch.no_grad():
            parts = [self.lab.model(part)[:, 0].double() for part in images.split(512)]
        return torch.cat(parts).numpy()

    def masks(self, image):
        """Pixels of each segment that the image shows."""
        pixels, found = image.numpy(), {}
        for color, place in self.segments:
            shown = (pixels == np.array(self.spec["colors"][color])[:, None, None]).all(0)
            if (shown & self.places[place]).any():
                found[color, place] = shown & self.places[place]
        return found

    def _image(self, image):
        """Effects in one image: a signed map, Shapley values by segment, pairs that interact."""
        masks = self.masks(image)
        names, stacked = list(masks), torch.from_numpy(np.stack(list(masks.values())))

        def without(gone):  # (coalitions, segments), bool -> outputs
            gone = torch.from_numpy(gone)
            holes = (gone.float() @ stacked.flatten(1).float() > 0).reshape(-1, 1, *image.shape[1:])
            return self.outputs(torch.where(holes, self.background, image))

        share = self.rng.random((COALITIONS, 1))
        gone = self.rng.random((COALITIONS, len(names))) < share
        before = without(gone)
        effects = np.zeros(len(names))
        for k in range(len(names)):
            other = gone.copy()
            other[:, k] ^= True
            effects[k] = np.abs(without(other) - before).mean()
        relevant = sorted(np.argsort(-effects, kind="stable")[:MOST_RELEVANT])
        relevant = [k for k in relevant if effects[k] > 0]
        size = len(relevant)
        every = np.zeros((2**size, len(names)), dtype=bool)
        there = np.indices((2,) * size).reshape(size, -1).T if size else np.zeros((1, 0))
        every[:, relevant] = there == 0
        table = without(every).reshape((2,) * size)
        values, signed = {}, np.zeros(image.shape[1:])
        weights = [1 / (size * math.comb(size - 1, k)) for k in range(size)]
        for axis, k in enumerate(relevant):
            rest = np.indices((2,) * (size - 1)).sum(0) if size > 1 else np.zeros(())
            gains = np.diff(table, axis=axis).squeeze(axis)
            values[names[k]] = round(float((gains * np.array(weights)[rest.astype(int)]).sum()), 9)
            signed[masks[names[k]]] = np.sign(values[names[k]])
        pairs = {
            frozenset((names[relevant[a]], names[relevant[b]]))
            for a, b in itertools.combinations(range(size), 2)
            if np.diff(np.diff(table, axis=a), axis=b).any()
        }
        return signed, values, pairs

    @property
    def maps(self):
        """(n, 1, H, W)"""
        return np.stack([signed for signed, _, _ in self.found])[:, None]

    def answers(self):
        """What answers.json holds."""
        own = {part: self._segment(part) for part in self.spec["parts"]}
        sums = dict.fromkeys(self.segments, 0.0)
        for _, values, _ in self.found:
            for segment, value in values.items():
                sums[segment] += value
        parts = {part: int(np.sign(sums[own[part]])) for part in own if sums[own[part]]}
        pairs = {pair for _, _, found in self.found for pair in found}
        counted = {tuple(self.spec["colors"][part.partition("@")[0]]) for part in parts}
        return {
            "parts": parts,
            "contexts": [
                [p, q]
                for p, q in itertools.combinations(own, 2)
                if frozenset((own[p], own[q])) in pairs
            ],
            "baselines": [
                name
                for name, color in self.spec["baselines"].items()
                if tuple(color) not in counted
            ],
            "methods": self._methods(),
            "doses": self._doses(),
        }

    def _segment(self, part):
        """The segment in which most of a part lies."""
        color, place = part.split("@")
        mask = stated(self.spec, self.lab.images.shape[-1])[place]
        return color, max(self.places, key=lambda name: int((self.places[name] & mask).sum()))

    def _methods(self):
        """Scores of methods against the script's own maps; questions.md says what follows."""
        images, signed = self.lab.images, torch.from_numpy(self.maps).to(torch.int8)
        targets = torch.zeros(len(images), dtype=torch.int64)
        base = self.background.float()

        def least(maps):
            found = parts_f1(maps.double().sum(1, keepdim=True), signed)
            means = [float(each.nanmean()) for each in found.values() if not each.isnan().all()]
            return min(means)

        def removed(color):
            maps = []
            for image in images:
                side = image.shape[-1]
                filled = image.repeat(side**2, 1, 1, 1)
                at = torch.arange(side**2)
                filled[at, :, at // side, at % side] = color.flatten()
                maps.append(float(self.outputs(image[None])[0]) - self.outputs(filled))
            return least(torch.from_numpy(np.stack(maps)).reshape(-1, 1, *images.shape[2:]))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gradient = methods.saliency(self.lab.model, images, targets)
            path = methods.integrated_gradients
            own_path = least(path(self.lab.model, images, targets))
            base_path = least(path(self.lab.model, images, targets, baselines=base))
        single, black = removed(base), removed(torch.zeros(3))
        without = "gradient" if single >= 0.5 else "single-change"
        times, difference = least(gradient * images), least(gradient * (images - base))
        return {
            "saliency": "passes" if least(gradient) >= 0.5 else without,
            "input-x-gradient": _cause(times, difference, without),
            "integrated-gradients": _cause(own_path, base_path, "path"),
            "feature-ablation": _cause(black, single, "single-change"),
        }

    def _doses(self):
        """The smallest dose at which the script's maps no longer beat reading order, or its reverse."""
        images, steps = self.lab.images, self.spec["steps"]
        size = images[0, 0].numel()
        found = {}
        for name, color in self.spec["colors"].items():
            found[name] = "never"
            for dose, where in zip(self.spec["doses"], self.lab.doses, strict=True):
                canvas = torch.where(
                    where, torch.tensor(color)[:, None, None].float(), self.background
                )
                scores = np.zeros(3)
                for image, signed in zip(images, self.maps, strict=True):
                    for k, values in enumerate((signed.ravel(), np.zeros(size), np.arange(size))):
                        rank = np.empty(size, dtype=int)
                        rank[np.argsort(-values, kind="stable")] = np.arange(size)
                        ends = np.arange(steps + 1) * size // steps
                        gone = torch.from_numpy(rank < ends[:, None]).reshape(
                            -1, 1, *image.shape[1:]
                        )
                        scores[k] += self.outputs(torch.where(gone, canvas, image)).sum()
                if scores[0] >= scores[1:].min():
                    found[name] = dose
                    break
        return found


def _cause(own, from_background, otherwise):
    if own >= 0.5:
        return "passes"
    return "baseline" if from_background >= 0.5 else otherwise


def points(lab, key, folder, places=quadrants):
    """Hand in what the script finds; the marks."""
    script = Script(al.open_laboratory(lab), places)
    folder.mkdir()
    np.savez(folder / "maps.npz", maps=script.maps)
    (folder / "answers.json").write_text(json.dumps(script.answers()))
    [graded] = al.grade_submissions(lab, key, [folder]).submissions
    return graded.marks
