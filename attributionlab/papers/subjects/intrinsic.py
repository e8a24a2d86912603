"""Networks that explain themselves: BagNet (Brendel and Bethge, 2019), B-cos (Boehle et al., 2022)."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

EVIDENCE_KERNELS, EVIDENCE_SCALE = 32, 10.0
"""Of a BagNet; most places have little to say, so that their mean alone would be slow to learn."""
B_COS_KERNELS, TINY = (32, 64, 64), 1e-6
"""Kernels of each layer; what keeps norms of nothing from being divided by."""


class BagNetwork(nn.Module):
    """Each place sees 5 x 5 pixels and has evidence for each class; a logit is ten times its mean.

    Two convolutions of 3 x 3, the second of stride 2, one of 1 x 1, each with a ReLU of its own, and
    a linear layer at each place.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        kernels = EVIDENCE_KERNELS
        self.evidence = nn.Sequential(
            nn.Conv2d(channels, kernels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(kernels, kernels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(kernels, kernels, 1),
            nn.ReLU(),
            nn.Conv2d(kernels, classes, 1),
        )

    def forward(
        self, images: Float[Tensor, "batch channels side side"]
    ) -> Float[Tensor, "batch classes"]:
        logits: Tensor = EVIDENCE_SCALE * self.evidence(images).mean((2, 3))
        return logits

    def contributions(
        self, images: Float[Tensor, "batch channels side side"]
    ) -> Float[Tensor, "batch classes side side"]:
        """The evidence of each place, spread evenly over its pixels: they sum to the logits."""
        evidence: Tensor = self.evidence(images)
        pixels = images.shape[-1] // evidence.shape[-1]
        spread = evidence.repeat_interleave(pixels, 2).repeat_interleave(pixels, 3)
        return EVIDENCE_SCALE * spread / images[0, 0].numel()


class BCosConvolution(nn.Conv2d):
    """out = gain |cos(x, w)| (w / |w|) . x without bias: linear in x while the cosine is held.

    The gain, sqrt(length of x), keeps outputs of the order of the inputs at the start, when cosines
    are of the order of its inverse.
    """

    def __init__(self, before: int, after: int, kernel: int, stride: int) -> None:
        super().__init__(before, after, kernel, stride, padding=kernel // 2, bias=False)
        self.gain = math.sqrt(before * kernel**2)

    def response(self, inputs: Tensor, *, held: bool) -> Tensor:
        """The output; with `held` no gradient passes through the cosine."""
        unit = nn.functional.normalize(self.weight.flatten(1), dim=1).view_as(self.weight)
        linear = self._conv_forward(inputs, unit, None)
        ones = torch.ones_like(self.weight[:1])
        squares = self._conv_forward(inputs**2, ones, None)
        cosine = (linear / (squares + TINY).sqrt()).abs()
        output: Tensor = self.gain * linear * (cosine.detach() if held else cosine)
        return output

    def forward(self, inputs: Tensor) -> Tensor:
        return self.response(inputs, held=False)


class BCosNetwork(nn.Module):
    """Three B-cos convolutions of 3 x 3, the first two of stride 2, one of 1 x 1, and the mean.

    With B = 2. The input is encoded as [x, 1 - x], so that dark pixels can contribute, too.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        before, layers = 2 * channels, []
        for index, after in enumerate(B_COS_KERNELS):
            layers.append(BCosConvolution(before, after, 3, 2 if index < 2 else 1))
            before = after
        self.features = nn.Sequential(*layers)
        self.classifier = BCosConvolution(before, classes, 1, 1)

    def forward(
        self, images: Float[Tensor, "batch channels side side"]
    ) -> Float[Tensor, "batch classes"]:
        logits: Tensor = self.classifier(self.features(_encoded(images))).mean((2, 3))
        return logits

    def contributions(
        self,
        images: Float[Tensor, "batch channels side side"],
        targets: Int64[Tensor, " batch"],
    ) -> Float[Tensor, "batch 1 side side"]:
        """The label's row of W(x) times the encoded x, summed over channels: they sum to the logit.

        W(x) is the gradient while all cosines are held.
        """
        encoded = _encoded(images.detach()).requires_grad_()
        maps = encoded
        for layer in (*self.features, self.classifier):
            maps = layer.response(maps, held=True)
        chosen = maps.mean((2, 3)).gather(1, targets[:, None]).sum()
        [weights] = torch.autograd.grad(chosen, encoded)
        return (weights * encoded.detach()).sum(1, keepdim=True)


def _encoded(images: Tensor) -> Tensor:
    return torch.cat([images, 1 - images], dim=1)
