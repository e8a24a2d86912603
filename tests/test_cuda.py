"""Every method and command gives on CUDA what it gives on the CPU."""

import numpy as np
import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.cli import main
from attributionlab.methods import METHODS, collect_notices
from attributionlab.papers import reproduce
from attributionlab.verdicts import PAIRS
from device_cases import FEW_STEPS, MORE_ROUNDING, OF_ATTENTION, ROUNDING
from oracles_attention import Transformer

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning"),
]
DEVICES = ("cpu", "cuda")


@pytest.mark.parametrize("method", [name for name in METHODS if name not in OF_ATTENTION])
@pytest.mark.parametrize("name", ["multi-color-sum", "single-color-modulo"])
def test_attributions_do_not_depend_on_the_device(name, method):
    env = al.load(name, image_size=24)
    output = "logit" if method == "lrp" else None
    maps = []
    for device in DEVICES:
        report = al.faithfulness_test(
            method, env, n=2, explain=output, settings=FEW_STEPS.get(method), device=device
        )
        maps.append(report.environments[0].attributions)
    assert np.abs(maps[0] - maps[1]).max() <= MORE_ROUNDING.get((name, method), ROUNDING)


@pytest.mark.parametrize("method", OF_ATTENTION)
def test_attention_does_not_depend_on_the_device(method):
    network = Transformer(read="mean")
    images, targets = torch.rand(2, 3, 4, 6).double(), torch.tensor([0, 2])
    on_cpu = METHODS[method](network, images, targets)
    on_cuda = METHODS[method](network.cuda(), images.cuda(), targets.cuda())
    # Some thousand float64 products, sums and quotients.
    torch.testing.assert_close(on_cuda.cpu(), on_cpu, rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", al.environments())
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_networks_are_exact_on_the_device(name, layout):
    env = al.load(name, image_size=48)
    images, _ = env.batch(4)
    expected = env.model(images)
    env.to("cuda")
    shown = images.cuda().contiguous(memory_format=layout)
    with al.exact_arithmetic(), torch.no_grad():
        assert torch.equal(env.model(shown).cpu(), expected)


@pytest.mark.parametrize("implementation", ["transformer", "transformer-sdpa", "transformer-gelu"])
def test_scores_that_tie_are_equal_on_the_device_in_a_transformer(implementation):
    env = al.load("quadrants", image_size=48).with_implementation(implementation)
    images, _ = env.batch(4)
    expected = env.model(images)
    env.to("cuda")
    with al.exact_arithmetic(), torch.no_grad():
        assert torch.equal(env.model(images.cuda()).cpu(), expected)


@pytest.mark.parametrize("name", ["retrieve-scores", "retrieve-values", "word-counts"])
def test_worlds_of_tokens_are_exact_on_the_device(name):
    env = al.load(name)
    sequences, _ = env.batch(16)
    expected = env.model(sequences)
    env.to("cuda")
    with al.exact_arithmetic(), torch.no_grad():
        assert torch.equal(env.model(sequences.cuda()).cpu(), expected)


def test_products_that_may_be_rounded_are_warned_of():
    with pytest.warns(al.AttributionLabWarning, match="exact_arithmetic"):
        al.load("multi-color-sum", image_size=24).to("cuda")


@pytest.mark.parametrize("name", ["iba", "input-iba"])
def test_noise_is_drawn_where_the_generator_is(name):
    env = al.load("multi-color-sum", image_size=24).to("cuda")
    images, labels = env.batch(1)
    given = {"reference_images": env.batch(8, 1)[0], "layers": env.layers, **FEW_STEPS[name]}
    with collect_notices():
        for device in DEVICES:
            maps = METHODS[name](
                *(env.model, images.cuda(), labels.cuda()),
                **given,
                generator=torch.Generator(device).manual_seed(0),
            )
            assert maps.is_cuda
            assert maps.isfinite().all()


def test_numbers_drawn_from_the_devices_global_generator_are_noticed():
    def drawn(model, inputs, targets):
        return torch.rand_like(inputs)

    env = al.load("multi-color-sum", image_size=24)
    report = al.faithfulness_test(drawn, env, n=2, also="seeds:2", device="cuda")
    assert report.environments[0].stochastic


def test_a_metric_does_not_depend_on_the_device():
    frames = [
        al.metric_test(
            "insertion",
            al.load("multi-color-sum", image_size=24),
            n=2,
            doses={"strength": [0, 1]},
            device=device,
        ).to_frame()
        for device in DEVICES
    ]
    # Built-in metrics follow the networks on the CPU.
    pd.testing.assert_frame_equal(*frames, check_exact=True)


def test_a_leaderboard_does_not_depend_on_the_device():
    boards = [
        al.rank_methods(["saliency", "lrp"], n=1, pairs=PAIRS[:1], size=16, device=device)
        for device in DEVICES
    ]
    places = [board.to_frame()[["method", "place"]] for board in boards]
    pd.testing.assert_frame_equal(*places)


def test_a_reproduction_runs_on_the_device():
    outcome = reproduce("figure-2", n=1, quick=True, device="cuda")
    assert outcome.run["device"] == "cuda"


@pytest.mark.parametrize(
    "command",
    [
        ["test", "lrp", "--env", "multi-color-sum", "--n", "1"],
        ["compare", "lrp", "--env", "multi-color-sum", "--n", "1", "--quick"],
        ["metric", "pointing-game", "--n", "2", "--quick"],
        ["leaderboard", "saliency", "lrp", "--n", "1", "--quick"],
    ],
)
def test_commands_run_on_the_device(command, capsys):
    assert main([*command, "--device", "cuda"]) in (0, 1, 3)
    assert capsys.readouterr().out


@pytest.mark.isolated
def test_a_method_that_runs_alone_has_its_network_on_the_device():
    env = al.load("multi-color-sum", image_size=24)

    def method(model, inputs, targets, *, baseline, generator):
        there = {each.device for each in (inputs, targets, baseline, *model.parameters())}
        assert there == {torch.device("cuda", 0)}
        inputs = inputs.requires_grad_()
        model(inputs).gather(1, targets[:, None]).sum().backward()
        noise = torch.rand(inputs.shape, generator=generator) + torch.rand(inputs.shape)
        return inputs.grad * (inputs - baseline) + noise.cuda()

    alone, inside = (
        al.faithfulness_test(method, env, n=2, device="cuda", isolated=isolated).environments[0]
        for isolated in (True, False)
    )
    assert np.array_equal(alone.attributions, inside.attributions)
