"""InputIBA beside its formulas written down plainly, in one process (medians of alternating runs).

The plain form takes torch's own modules and optimizers, all copies in one pass and the same numbers of
steps and images; the bottleneck at the layer is `iba` itself in both.
"""

import argparse

import torch
from side_by_side import side_by_side
from torch import Tensor, nn
from torch.nn import functional as F

import attributionlab as al
from attributionlab.methods import iba, input_iba, observe
from attributionlab.methods.bottleneck import smoothed

BETA, STEPS, COPIES = 20.0, 60, 10
EPOCHS, SAMPLES, BATCH, CLIP = 5, 200, 8, 0.1


def critic(channels: int, height: int, width: int) -> nn.Sequential:
    """For maps of 2 to 3 cells a side, or of 4 and more."""
    halves = min(height, width) > 3
    second = (4, 2) if halves else (3, 1)
    for stride in (2, second[1]):
        height, width = height // stride, width // stride
    return nn.Sequential(
        *(nn.Conv2d(channels, 2 * channels, 4, 2, 1), nn.BatchNorm2d(2 * channels)),
        nn.LeakyReLU(0.2),
        *(nn.Conv2d(2 * channels, 4 * channels, *second, 1), nn.BatchNorm2d(4 * channels)),
        nn.LeakyReLU(0.2),
        *(nn.Conv2d(4 * channels, channels, 3, 1, 1), nn.BatchNorm2d(channels)),
        *(nn.LeakyReLU(0.2), nn.Flatten()),
        *(nn.Linear(channels * height * width, 512), nn.LeakyReLU(0.2)),
        *(nn.Linear(512, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1)),
    )


def plain(model: nn.Module, layer: nn.Module, image: Tensor, target: Tensor, start: Tensor) -> None:
    """The generative network and the bottleneck at the input, by torch's own parts."""
    seen: list[Tensor] = []
    true = observe(model, layer, image)[0].expand(SAMPLES, -1, -1, -1)
    true = true + torch.randn_like(true)
    logits = start.expand_as(image).clone().requires_grad_()
    mean = torch.zeros(1, image.shape[1], 1, 1, requires_grad=True)
    std = torch.ones(1, image.shape[1], 1, 1, requires_grad=True)
    score_outcome = critic(*true.shape[1:])
    of_critic = torch.optim.RMSprop(score_outcome.parameters(), lr=5e-5)
    of_generator = torch.optim.RMSprop([logits, mean, std], lr=0.003)
    handle = layer.register_forward_hook(lambda _m, _i, output: seen.append(output))
    for step in range(EPOCHS * SAMPLES // BATCH):
        if step % 5 == 0:
            noise = torch.randn(BATCH, *image.shape[1:])
            mask = logits.sigmoid()
            seen.clear()
            model(mask * image + (1 - mask) * (mean + std * noise))
        of_critic.zero_grad()
        real = true[torch.randint(SAMPLES, (BATCH,))]
        (score_outcome(seen[0].detach()).mean() - score_outcome(real).mean()).backward()
        of_critic.step()
        for weight in score_outcome.parameters():
            weight.data.clamp_(-CLIP, CLIP)
        if step % 5 == 4:
            of_generator.zero_grad()
            (-score_outcome(seen[0]).mean()).backward()
            of_generator.step()
    handle.remove()
    granted = logits.detach().sigmoid()
    alpha = torch.full_like(image, 5.0, requires_grad=True)
    adam = torch.optim.Adam([alpha], lr=1.0)
    for _ in range(STEPS):
        adam.zero_grad()
        passing = smoothed(alpha.sigmoid(), 1.0)
        noise = torch.randn(COPIES, *image.shape[1:])
        before = (1 - passing * granted).clamp(min=1e-7)
        blocked = (1 - passing).clamp(min=1e-7) / before
        shift = passing * (1 - granted) * image / before
        information = (shift**2 + blocked**2 - 1) / 2 - blocked.log()
        outputs = model(passing * image + (1 - passing) * noise)
        (F.cross_entropy(outputs, target.expand(COPIES)) + BETA * information.mean()).backward()
        adam.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--side", type=int, default=72, help="pixels a side of the images")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    env = al.load(options.environment, image_size=options.side)
    for weight in env.model.parameters():
        weight.requires_grad_(False)
    images, labels = env.batch(1)
    given = {
        "reference_images": env.batch(64, seed=1)[0],
        "generator": torch.Generator().manual_seed(0),
        "layers": env.layers,
    }
    targets = env.targets(labels)

    def reference() -> None:
        start = iba(env.model, images, targets, **given)
        plain(env.model, env.layers["iba"], images / env.max_value, targets, start)

    times = side_by_side(
        lambda: input_iba(env.model, images, targets, **given), reference, options.repeats
    )
    print(f"input-iba, ours        {times.ours:8.2f} s an image")
    print(f"input-iba, reference   {times.theirs:8.2f} s an image")
    print(f"input-iba, ratio       {times.ratio:8.3f}")


if __name__ == "__main__":
    main()
