"""What methods make of equivalent forms: nothing if they read answers to integers, others much."""

from functools import cache

import pytest
import torch

import attributionlab as al
from attributionlab.methods import METHODS, as_method
from attributionlab.verdicts import attribute_batch, prepared
from attributionlab.worlds.nets import FORMS, forms_of
from attributionlab.worlds.nets.camouflage.forms import CHECKERS
from random_chains import silently

NAME, SIDE, IMAGES = "multi-color-sum-distractors", 24, 3


@cache
def environment(form: str | None = None) -> al.Environment:
    constants = {} if form is None else {"equivalent_form": form}
    return al.load(NAME, image_size=SIDE, **constants)


@cache
def questions() -> tuple[torch.Tensor, torch.Tensor]:
    return environment().batch(IMAGES)


def explained(method: str, form: str | None = None, output: str = "logit") -> torch.Tensor:
    """Maps of the same questions, channels summed: (3, 1, H, W)."""
    resolved = as_method(method, METHODS)
    setup = prepared(resolved, environment(form), output=output, n=IMAGES)
    return torch.cat([silently(attribute_batch, setup, batch).maps for batch in setup.batches()])


def counted() -> torch.Tensor:
    """Pixels of the target's color."""
    return environment().truth(*questions(), "logit").positive


def first_distractors() -> torch.Tensor:
    color = environment().spec.constants["distractor_colors"][0]
    images, _ = questions()
    return (images == torch.tensor(color)[:, None, None]).all(1, keepdim=True)


def test_the_questions_show_distractors_and_few_counted_pixels():
    assert forms_of(environment().network) == FORMS
    assert first_distractors().flatten(1).any(1).all()
    assert int(counted().flatten(1).sum(1).max()) < 256


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", ["logit", "probability"])
def test_a_method_that_shows_integer_images_and_reads_answers_gives_the_same_map(form, output):
    method = "feature-ablation-true-baseline"
    assert torch.equal(explained(method, form, output), explained(method, None, output))


@pytest.mark.parametrize("form", ["plateau", "both-sides-averaged"])
@pytest.mark.parametrize("output", ["logit", "probability"])
def test_where_the_slopes_at_integers_are_0_a_gradient_is_0_everywhere(form, output):
    assert bool(explained("saliency", None, output).any())
    for method in ("saliency", "input-x-gradient"):
        assert not explained(method, form, output).any()


@pytest.mark.parametrize("output", ["logit", "probability"])
def test_on_the_other_side_of_the_kink_a_gradient_has_the_other_sign(output):
    plain = explained("saliency", None, output)
    assert torch.equal(explained("saliency", "kink-side", output), -plain)


@pytest.mark.parametrize("form", ["guided-pair", "and-two-ways"])
def test_terms_that_cancel_leave_the_gradient_as_it_is(form):
    assert torch.equal(explained("saliency", form), explained("saliency"))


def test_lrp_follows_the_units_and_finds_nothing_or_the_other_sign():
    # At x = N one plain unit is on, ReLU(x - N + 1) = 1, and x is N parts of it: 220 + 120 + 20 for a
    # color. The mirrored unit ReLU(N + 1 - x) = 1 reads -x. On a plateau 2 x of one unit stands against
    # 2 x of another, from both sides half of N against half of -N.
    plain = explained("lrp")
    assert torch.equal(plain, 360.0 * counted())
    assert torch.equal(explained("lrp", "kink-side"), -plain)
    for form in ("plateau", "both-sides-averaged"):
        assert not explained("lrp", form).any()
    # What the AND gives to a and b the two units of each take back: D / g - D / g.
    for form in ("guided-pair", "and-two-ways"):
        assert torch.equal(explained("lrp", form), plain)


def test_guided_backprop_sees_one_half_of_what_cancels():
    where, distractors = counted(), first_distractors()
    plain = explained("guided-backprop")
    value = float(plain[where][0])
    assert value > 0
    assert torch.equal(plain, value * where)
    # Of a plateau's two units one is left, of slope 2; of two sides that cancel nothing.
    assert torch.equal(explained("guided-backprop", "plateau"), 2 * plain)
    assert torch.equal(explained("guided-backprop", "kink-side"), -plain)
    assert not explained("guided-backprop", "both-sides-averaged").any()
    expected = value * (where + 4 * distractors)
    assert torch.equal(explained("guided-backprop", "guided-pair"), expected)
    # c / g for both, one more for the color, with c = 512 and g = 1/4.
    strength = 512 * 4
    expected = value * ((1 + strength) * where + strength * distractors)
    assert torch.equal(explained("guided-backprop", "and-two-ways"), expected)


def test_deep_lift_sees_differences_alone_and_shares_them_out_by_unit():
    method = "deep-lift-true-baseline"
    where, distractors = counted(), first_distractors()
    for form in (*CHECKERS, "guided-pair"):
        found = explained(method, form)
        torch.testing.assert_close(found, where.double(), rtol=0, atol=1e-4)
    # ReLU(a + b - 1) goes from 0 to 1 while what it reads goes from -1 to 1: half of c = 512 for a and
    # half for b. -a takes c from the color, and ReLU(a - b) is 0 before and after.
    found = explained(method, "and-two-ways")
    half = 512 / 2
    colors, ignored = ((found * each).sum((1, 2, 3)) for each in (where, distractors))
    # Thirds of channels in float32, times c.
    torch.testing.assert_close(colors, where.double().sum((1, 2, 3)) - half, rtol=1e-5, atol=0)
    torch.testing.assert_close(ignored, torch.full((IMAGES,), half).double(), rtol=1e-5, atol=0)
    torch.testing.assert_close((found * ~(where | distractors)), torch.zeros_like(found))
