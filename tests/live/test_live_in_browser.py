"""The live page in a real browser: its numbers are those of torch, and people can use it."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients

import attributionlab as al
from attributionlab.metrics import parts_f1
from attributionlab.teaching import live, live_page
from attributionlab.teaching.live.page import WORLDS
from cases import loaded
from chromium import ActionChains, By, Keys, chromium, needs_browser, resize

pytestmark = [*needs_browser, pytest.mark.long]
SIDE, IMAGES = 36, 2
FORMS = ("plateau", "kink-side", "both-sides-averaged", "guided-pair", "and-two-ways")
F1 = 0.005
"""How far F1 may differ: torch adds up in float32 and the page in float64, and where a path crosses a
threshold a rounded point can lie on its other side."""
INTEGRAL = 1e-2
"""How far a sum along a path may differ, by the sum of its magnitudes, for the same reason."""
GRADIENT = 1e-4
"""Gradients have no path. torch rounds their terms to 6e-8 of themselves; in and-two-ways three terms
of 512 times the sum cancel for each logit."""
MINUTE = 60


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        driver.set_script_timeout(MINUTE)
        yield driver


env = loaded("multi-color-sum-distractors", image_size=SIDE)


@pytest.fixture(scope="module")
def address(env, tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / "page.html"
    path.write_text(live_page(env, IMAGES), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser, address):
    """The page as a file; nothing it does may be logged as an error, and it loads nothing."""
    resize(browser, 1200)
    visit(browser, address)
    yield browser
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map((each) => each.name)"
    )
    assert [each for each in loaded if not each.startswith("blob:")] == []
    assert browser.get_log("browser") == []


def visit(browser, address):
    browser.get("about:blank")  # another fragment alone would not open the page anew
    browser.get(address)
    wait(browser, "return Boolean(window.live)")


def wait(browser, condition):
    """Until a script returns true."""
    done = browser.execute_async_script(
        "const done = arguments[0], end = Date.now() + 50000;"
        f"const look = () => {{ {condition} }};"
        "const late = () => Date.now() > end ? done(false) : setTimeout(turn, 50);"
        "const turn = () => look() ? done(true) : late();"
        "turn();"
    )
    assert done, condition


def ask(page, kind="map", **request):
    """What the network in the page answers."""
    usual = {"subject": 0, "network": "plain", "image": 0, "method": "saliency"}
    path = {"baseline": [20, 20, 20], "steps": 50, "spacing": "gauss-legendre"}
    found = page.execute_async_script(
        "const [kind, request, done] = arguments;"
        "const plain = (_, each) => ArrayBuffer.isView(each) ? [...each] : each;"
        "live.ask(kind, request).then("
        "  (found) => done(JSON.parse(JSON.stringify(found, plain))), (error) => done(String(error)));",
        kind,
        {**usual, **path, **request},
    )
    assert not isinstance(found, str), found
    return found


def numbers(values):
    """Numbers of the page as torch's."""
    return torch.tensor(values, dtype=torch.float64)


def leaf(images):
    return images.clone().requires_grad_()


def gradient_of(env, images, targets):
    inputs = leaf(images)
    model = env.explained_model(env.outputs[0])
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return inputs.grad


def guided_gradient_of(env, images, targets):
    """The gradient of which every ReLU hands back the positive part, by hooks."""

    def positive(module, handed_on, arrived):
        return (handed_on[0].clamp(min=0),)

    relus = [each for each in env.model.modules() if isinstance(each, torch.nn.ReLU)]
    hooks = [each.register_full_backward_hook(positive) for each in relus]
    try:
        return gradient_of(env, images, targets)
    finally:
        for hook in hooks:
            hook.remove()


def integral_of(env, images, targets, baseline, steps, spacing):
    rule = {"midpoints": "riemann_middle", "gauss-legendre": "gausslegendre"}[spacing]
    start = torch.tensor(baseline).float()[None, :, None, None].expand_as(images)
    ig = IntegratedGradients(env.explained_model(env.outputs[0]))
    return ig.attribute(images, start, targets, n_steps=steps, method=rule)


def removed_one_by_one(env, image, target):
    """The output's change where each pixel takes the background's color: the definition."""
    model, pixels = env.explained_model(env.outputs[0]), image[0].numel()
    changed = image.repeat(pixels, 1, 1, 1).flatten(2)
    each = torch.arange(pixels)
    changed[each, :, each] = env.baseline.flatten()
    with torch.no_grad():
        outputs = torch.cat([model(part.unflatten(2, (SIDE, SIDE))) for part in changed.split(216)])
        return (model(image[None])[:, target] - outputs[:, target]).reshape(1, 1, SIDE, SIDE)


def check(found, expected, env, images, targets, place, tolerance):
    """One image's map and scores against those of Python."""
    expected = expected.double().sum(1, keepdim=True)
    shown = numbers(found["map"]).reshape(1, 1, SIDE, SIDE)
    assert (shown - expected).abs().sum() <= tolerance * expected.abs().sum()
    truth = env.truth(images[[place]], targets[[place]])
    scores = parts_f1(expected * truth.asked, truth.signed, truth.mixed)
    for part, value in scores.items():
        if value.isnan():
            assert found["scores"][part] is None
        else:
            assert found["scores"][part] == pytest.approx(float(value), abs=F1)
    lowest = min(float(value) for value in scores.values() if not value.isnan())
    assert found["scores"]["lowest"] == pytest.approx(lowest, abs=F1)


def variant(env, name):
    if name == "plain":
        return env
    if name.startswith("strength "):
        return al.load(env.name, image_size=SIDE, redundant_strength=float(name.split()[1]))
    return env.with_implementation(name)


# Numbers


@pytest.mark.parametrize("network", ["plain", *FORMS, "strength 0", "strength 0.25", "strength 2"])
def test_maps_of_every_variant_are_those_of_torch(page, env, network):
    other = variant(env, network)
    images, labels = env.batch(IMAGES)
    for place in range(IMAGES):
        one, target = images[[place]], labels[[place]]
        gradient = gradient_of(other, one, target)
        guided = guided_gradient_of(other, one, target)
        settings = ([20, 20, 20], 50, "gauss-legendre")
        expected = {
            "saliency": (gradient, GRADIENT),
            "input-x-gradient": (gradient * one, GRADIENT),
            "guided-backprop": (guided, GRADIENT),
            "integrated-gradients": (integral_of(other, one, target, *settings), INTEGRAL),
        }
        for method, (values, tolerance) in expected.items():
            found = ask(page, network=network, image=place, method=method)
            check(found, values, env, images, labels, place, tolerance)
            assert found["logits"] == other.model(one)[0].tolist()


@pytest.mark.parametrize("baseline", [0, 19, 20, 60])
@pytest.mark.parametrize(
    ("spacing", "steps"),
    [("gauss-legendre", 50), ("midpoints", 50), ("midpoints", 300)],
)
def test_integrated_gradients_are_those_of_captum(page, env, baseline, spacing, steps):
    images, labels = env.batch(IMAGES)
    for place in range(IMAGES):
        settings = {"baseline": [baseline] * 3, "steps": steps, "spacing": spacing}
        expected = integral_of(env, images[[place]], labels[[place]], **settings)
        found = ask(page, image=place, method="integrated-gradients", **settings)
        check(found, expected, env, images, labels, place, INTEGRAL)


def test_50_midpoints_give_a_map_of_zeros_and_gauss_legendre_does_not(page):
    request = {"method": "integrated-gradients", "steps": 50}
    assert not any(ask(page, spacing="midpoints", **request)["map"])
    assert any(ask(page, spacing="gauss-legendre", **request)["map"])


@pytest.mark.parametrize("world", WORLDS)
def test_worlds_answer_as_in_python(page, world):
    env, subject = al.load(world, image_size=SIDE), 1 + WORLDS.index(world)
    images, labels = env.batch(IMAGES)
    targets = env.targets(labels)
    for place in range(IMAGES):
        one, target = images[[place]], targets[[place]]
        gradient = gradient_of(env, one, target)
        removed = removed_one_by_one(env, images[place], int(target))
        path = integral_of(env, one, target, [20, 20, 20], 50, "gauss-legendre")
        expected = {
            "saliency": (gradient, GRADIENT),
            "input-x-gradient": (gradient * one, GRADIENT),
            "feature-ablation": (removed, 0),
            "integrated-gradients": (path, INTEGRAL),
        }
        for method, (values, tolerance) in expected.items():
            found = ask(page, subject=subject, image=place, method=method)
            check(found, values, env, images, targets, place, tolerance)
            assert found["logits"] == env.model(one)[0].tolist()


def test_scores_are_those_of_python_for_any_map_and_truth(page, generator):
    source = (Path(live.__file__).parent / "worker.js").read_text(encoding="utf-8")
    for place in range(5):
        values = torch.randn(1, 1, 8, 8, generator=generator).double()
        codes = torch.randint(-1, 4, values.shape, generator=generator)
        codes[codes == place - 1] = 0  # once without each
        script = f"{source}; return scores(arguments[0], arguments[1]);"
        found = page.execute_script(script, values.flatten().tolist(), codes.flatten().tolist())
        signed = torch.where(codes.abs() == 1, codes, 0).to(torch.int8)
        for part, score in parts_f1(values * (codes != 3), signed, codes == 2).items():
            expected = None if score.isnan() else pytest.approx(float(score), rel=1e-12)
            assert found[part] == expected  # float64 sums of 64 values


@pytest.mark.parametrize("name", ["parity", "several-objects"])
def test_pixels_without_a_sign_are_scored_as_in_python(browser, tmp_path, name):
    env = al.load(name, image_size=SIDE)
    (tmp_path / "page.html").write_text(live_page(env, IMAGES), encoding="utf-8")
    visit(browser, (tmp_path / "page.html").as_uri())
    images, labels = env.batch(IMAGES)
    targets, scored = env.targets(labels), []
    for place in range(IMAGES):
        settings = ([0, 0, 0], 50, "gauss-legendre")
        expected = integral_of(env, images[[place]], targets[[place]], *settings)
        found = ask(browser, image=place, method="integrated-gradients", baseline=[0, 0, 0])
        check(found, expected, env, images, targets, place, INTEGRAL)
        scored.append(found["scores"]["overall"])
    assert max(scored) > 0  # or nothing was compared


def test_removing_each_pixel_is_what_torch_finds(page, env):
    images, labels = env.batch(IMAGES)
    for place in range(IMAGES):
        expected = removed_one_by_one(env, images[place], int(labels[place]))
        found = ask(page, image=place, method="feature-ablation")
        # A difference of two probabilities, each rounded to 6e-8: some 1e-5 of differences of 5e-3.
        check(found, expected, env, images, labels, place, 1e-4)


def test_all_logits_are_compared_in_the_browser(page):
    wait(page, "return document.getElementById('check').textContent.includes('==')")


def test_a_logit_that_differs_is_told(browser, env, tmp_path):
    text = live_page(env, 1)
    wrong = re.sub(
        r'("logits": \{"plain": \[\[)(\d+)\.', lambda m: f"{m[1]}{int(m[2]) + 1}.", text, count=1
    )
    assert wrong != text
    path = tmp_path / "page.html"
    path.write_text(wrong, encoding="utf-8")
    visit(browser, path.as_uri())
    wait(browser, "return document.getElementById('check').textContent.startsWith('Warning')")


# People


def find(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def text_of(page, name):
    return page.execute_script("return document.getElementById(arguments[0]).textContent", name)


def settled(page):
    """Until the map is drawn."""
    wait(page, "return !document.body.classList.contains('waiting')")


def complete(page):
    """Until the chart has all its points: before that, each new one draws it anew."""
    wait(page, "return !document.getElementById('predicted').hidden")


def scene(page, name, predict=True):
    find(page, f"button[data-scene={name}]").click()
    if predict:
        find(page, "#options button").click()
        settled(page)


def shown(page, name):
    return page.find_element(By.ID, name).is_displayed()


SCENES = ("baseline", "strength", "steps", "forms", "remove", "curves", "worlds")
"""Those that ask for a prediction."""
FREE = ("network", "path", "paint")


@pytest.mark.parametrize(
    ("name", "choice"), [*((name, "first") for name in SCENES), ("baseline", "skip")]
)
def test_nothing_is_shown_before_a_prediction(page, name, choice):
    scene(page, name, predict=False)
    hidden = ("truth", "map", "scores", "chart", "lines", "predicted", "why", "remove-all")
    assert not any(shown(page, each) for each in hidden)
    assert text_of(page, "status") == ""
    buttons = page.find_elements(By.CSS_SELECTOR, "#options button")
    assert buttons[-1].text == "Skip"
    label = buttons[0].text
    buttons[0 if choice == "first" else -1].click()
    settled(page)
    assert shown(page, "lines" if name == "curves" else "map")
    assert not shown(page, "prediction")
    if name == "remove":
        find(page, "#remove-all").click()
    complete(page)
    assert shown(page, "truth")
    assert shown(page, "scores") != (name == "curves")
    assert len(text_of(page, "why")) > 40
    assert f"You predicted: “{label}”" in text_of(page, "predicted") or choice == "skip"
    assert "In this image: “" in text_of(page, "predicted")


def test_what_came_true_is_what_the_numbers_say(page):
    for name, expected in {
        "baseline": "At 20, the background",
        "steps": "0",
        "forms": "It falls to 0",
        "remove&every=1": "That depends on the pixel",
        "worlds": "Yes",
        "worlds&world=all-four": "No",
    }.items():
        visit(page, f"{page.current_url.partition('#')[0]}#scene={name}&prediction=1")
        complete(page)
        assert text_of(page, "predicted").endswith(f"In this image: “{expected}”."), name


def test_a_slider_moves_by_the_keyboard(page):
    scene(page, "baseline")
    before = text_of(page, "status")
    slider = find(page, "[data-control=baseline] input")
    slider.send_keys(Keys.END)
    settled(page)
    assert slider.get_attribute("aria-valuetext") == "60"
    slider.send_keys(Keys.HOME)
    settled(page)
    assert slider.get_attribute("aria-valuetext") == "0, black"
    for _ in range(20):
        slider.send_keys(Keys.ARROW_RIGHT)
    settled(page)
    assert slider.get_attribute("aria-valuetext") == "20, the background"
    assert text_of(page, "status") != before
    assert "baseline=20" in page.current_url


def test_everything_is_reached_by_the_keyboard_and_seen_there(page):
    visit(page, f"{page.current_url.partition('#')[0]}#scene=remove&prediction=1")
    settled(page)
    body, reached = find(page, "body"), []
    for _ in range(20):
        body.send_keys(Keys.TAB)
        body = page.switch_to.active_element
        reached.append(
            body.get_attribute("id") or body.get_attribute("data-scene") or body.tag_name
        )
        assert (
            page.execute_script("return getComputedStyle(document.activeElement).outlineWidth")
            == "3px"
        )
        if reached[-1] == "link":
            break
    scenes = ("network", "path", *SCENES[:-1], "paint", "worlds")
    assert reached == ["a", *scenes, "select", "image", "remove-all", "put-back", "link"]


def color_of(page, column, row):
    """What the map shows there."""
    context = "document.getElementById('map').getContext('2d')"
    data = f"{context}.getImageData(...arguments, 1, 1).data"
    return page.execute_script(f"return [...{data}]", column, row)


def outputs_without(env, image, label, pixels):
    """The explained output after none, one, two ... pixels took the background's color."""
    image, found = image.clone(), []
    for place in [None, *pixels]:
        if place is not None:
            image[:, place // SIDE, place % SIDE] = env.baseline.flatten()
        with torch.no_grad():
            found.append(float(env.softmax_model(image[None])[0, label]))
    return found


def counted_pixel(env, image):
    """A pixel of a color that counts: row and column."""
    classes = env.counting.classes_of(image[None])[0, 0]
    return tuple(int(each) for each in (classes >= 0).nonzero()[0])


def test_a_click_takes_a_pixel_away(page, env):
    images, labels = env.batch(1)
    row, column = counted_pixel(env, images[0])
    scene(page, "remove")
    canvas = find(page, "#image")
    size = canvas.size["width"] / SIDE
    # Offsets count from the middle of what is in view: all of it.
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    offset = [(each + 0.5) * size - canvas.size["width"] / 2 for each in (column, row)]
    ActionChains(page).move_to_element_with_offset(canvas, *offset).click().perform()
    settled(page)
    before, after = outputs_without(env, images[0], labels[0], [row * SIDE + column])
    said = text_of(page, "status")
    assert said.startswith(f"Row {row + 1}, column {column + 1}: ")
    found = [float(each) for each in re.findall(r"0\.\d+", said)]
    assert found == [pytest.approx(each, abs=6e-5) for each in (before, after)]  # 4 digits
    assert said.endswith("raised it." if after < before else "lowered it.")
    assert color_of(page, column, row) == (
        [178, 24, 43, 255] if after < before else [49, 130, 189, 255]
    )
    find(page, "#put-back").click()
    settled(page)
    assert text_of(page, "status") == "All pixels are there."
    assert "removed" not in page.current_url


def test_the_keyboard_takes_a_pixel_away(page, env):
    images, labels = env.batch(1)
    row, column = counted_pixel(env, images[0])
    scene(page, "remove")
    canvas = find(page, "#image")
    canvas.send_keys(*[Keys.ARROW_DOWN] * row, *[Keys.ARROW_RIGHT] * column)
    assert re.fullmatch(
        rf"Row {row + 1}, column {column + 1}: color [\d, ]+\.", text_of(page, "status")
    )
    canvas.send_keys(Keys.ENTER)
    settled(page)
    pixel = row * SIDE + column
    before, after = outputs_without(env, images[0], labels[0], [pixel])
    assert text_of(page, "status").endswith("raised it." if after < before else "lowered it.")
    answers = ask(page, "removal", removed=[pixel])
    target = int(labels[0])
    assert [each["output"][target] for each in answers] == [
        pytest.approx(before, abs=1e-6),
        pytest.approx(after, abs=1e-6),
    ]
    canvas.send_keys(Keys.ENTER)
    assert "already" in text_of(page, "status")


@pytest.mark.parametrize(
    "moment",
    [
        "scene=baseline&image=2&baseline=37&prediction=2",
        "scene=strength&method=saliency&strength=0.75&prediction=skipped",
        "scene=steps&spacing=gauss-legendre&steps=100&prediction=1",
        "scene=forms&method=guided-backprop&form=kink-side&prediction=3",
        "scene=remove&image=2&prediction=4&removed=1.z.rj",
        "scene=remove&prediction=1&every=1",
        "scene=worlds&world=either&image=2&method=input-x-gradient&prediction=1",
        "scene=network&image=2&strength=0.5&pixel=rj",
        "scene=path&strength=2&point=7",
        "scene=curves&image=2&prediction=3",
    ],
    ids=lambda moment: moment.split("&")[0][6:] + ("-every" if "every" in moment else ""),
)
def test_an_address_is_a_moment(page, moment):
    base = page.current_url.partition("#")[0]
    visit(page, f"{base}#{moment}")
    settled(page)
    link = find(page, "#link").get_attribute("href")
    assert dict(each.split("=") for each in link.partition("#")[2].split("&")) == dict(
        each.split("=") for each in moment.split("&")
    )
    assert page.current_url == link
    said = text_of(page, "status"), text_of(page, "map-text")
    visit(page, link)
    settled(page)
    assert (text_of(page, "status"), text_of(page, "map-text")) == said
    find(page, "button[data-scene=worlds]").click()
    page.back()
    settled(page)
    assert page.current_url == link
    assert (text_of(page, "status"), text_of(page, "map-text")) == said


# The network itself


def test_a_pixel_travels_through_the_channels_of_torch(page, env):
    images, _ = env.batch(IMAGES)
    row, column = counted_pixel(env, images[0])
    for pixel in (row * SIDE + column, 0):
        found = ask(page, "trace", pixel=pixel)
        color = images[0].flatten(1)[:, pixel].reshape(1, 3, 1, 1)
        with torch.no_grad():
            for layer, shown_layer in zip(env.model[0], found["layers"], strict=True):
                color = layer(color)
                assert shown_layer["values"] == color.flatten().tolist()
            without = images[:1].clone()
            without.flatten(2)[..., pixel] = env.baseline.flatten()
            assert found["logits"] == env.model(images[:1])[0].tolist()
            assert found["without"] == env.model(without)[0].tolist()
        # Only a channel that the pixel sets off raises an output, by what the pixel does.
        effects = np.array([each or [0.0] * env.classes for each in found["effects"]])
        moved = np.subtract(found["logits"], found["without"])
        assert effects.sum(0).tolist() == moved.tolist()
        assert [bool(each) for each in found["effects"]] == [
            each != 0 for each in shown_layer["values"]
        ]
        assert [*filter(None, found["names"])] == ["orange", "rose", "lime", "spring"]
    wires = found["layers"][0]["wires"]
    weight = env.model[0][0].weight.flatten(1)
    assert [[*map(tuple, row)] for row in wires] == [
        [(k, value) for k, value in enumerate(row) if value] for row in weight.tolist()
    ]


def said_color(page):
    """The color of the pixel whose way is shown."""
    return tuple(map(int, re.search(r"color ([\d, ]+)\.", text_of(page, "status"))[1].split(",")))


def test_a_page_opens_on_a_marked_pixel_that_the_output_depends_on(browser, tmp_path):
    env = al.load("quadrants", image_size=SIDE)
    images, _ = env.batch(1)
    (tmp_path / "page.html").write_text(live_page(env, 1), encoding="utf-8")
    resize(browser, 1200)
    visit(browser, (tmp_path / "page.html").as_uri())
    settled(browser)
    wait(browser, "return !document.getElementById('cursor').hidden")
    said = re.match(
        r"Row (\d+), column (\d+), .*It changes the output by", text_of(browser, "status")
    )
    row, column = int(said[1]) - 1, int(said[2]) - 1
    assert env.truth(images, [0]).signed[0, 0, row, column] != 0
    top = find(browser, "#cursor").value_of_css_property("top")
    height = find(browser, "#image").size["height"]
    assert float(top.removesuffix("px")) == pytest.approx(row * height / SIDE, abs=1)
    # The last wire starts behind the box that is on, which names its color.
    label = f"1 {next(name for name, color in env.colors.items() if color == said_color(browser))}"
    box, text, wire = browser.execute_script(
        """
        const all = (kind) => [...document.querySelectorAll(`#way ${kind}`)];
        const text = all("text").find((each) => each.textContent === arguments[0]);
        return [all("rect.on").at(-1), text, all("line").at(-1)].map((each) => {
          const { x, y, width, height } = each.getBBox();
          return [x, y, width, height];
        });
        """,
        label,
    )
    assert wire[0] == pytest.approx(text[0] + text[2], abs=12)
    middle = box[1] + box[3] / 2
    assert min(abs(wire[1] - middle), abs(wire[1] + wire[3] - middle)) < 1


def test_a_click_shows_a_pixels_way_and_a_slider_changes_the_map(page, env):
    row, column = counted_pixel(env, env.batch(1)[0][0])
    scene(page, "network", predict=False)
    settled(page)
    assert shown(page, "way")
    canvas = find(page, "#image")
    size = canvas.size["width"] / SIDE
    offset = [(each + 0.5) * size - canvas.size["width"] / 2 for each in (column, row)]
    ActionChains(page).move_to_element_with_offset(canvas, *offset).click().perform()
    wait(page, "return document.getElementById('status').textContent.includes('It changes ')")
    assert text_of(page, "status").startswith(f"Row {row + 1}, column {column + 1}, color ")
    before = text_of(page, "map-text")
    find(page, "[data-control=strength] input").send_keys(Keys.HOME)
    settled(page)
    assert text_of(page, "map-text") != before


def test_the_path_ends_with_the_map_of_all_its_points(page, env):
    path = {"network": "strength 1", "method": "integrated-gradients"}
    found, whole = ask(page, "path", upto=51, **path), ask(page, **path)
    total = numbers(whole["map"]).abs().sum()
    assert (numbers(found["map"]) - numbers(whole["map"])).abs().sum() <= 1e-9 * total
    images, _ = env.batch(1)
    other = variant(env, "strength 1")
    start = env.baseline.expand_as(images)
    for point in (0, 20, 51):
        share = torch.tensor(found["shares"][point], dtype=torch.float32)
        with torch.no_grad():
            channels = other.model[0](start + share * (images - start)).sum((0, 2, 3))
        assert found["channels"][point] == pytest.approx(channels.tolist(), rel=1e-3, abs=1e-3)
    silent = [k for k, value in enumerate(found["silent"]) if not value]
    assert len(silent) >= 2  # the redundant channels
    assert all(found["channels"][20][k] >= 0 for k in silent)
    assert any(found["channels"][20][k] for k in silent)


def noise_of(place):
    """Park and Miller's generator, as in the page."""
    found, value = [], place + 1
    for _ in range(SIDE**2):
        value = value * 48271 % 2147483647
        found.append(value)
    return found


def test_curves_of_deletion_are_those_of_torch(page, env):
    images, labels = env.batch(IMAGES)
    truth = env.truth(images, labels).signed.flatten(1).tolist()
    model, replacements = env.softmax_model, {"background": env.baseline, "black": 0 * env.baseline}
    for place in range(IMAGES):
        noise = noise_of(place)
        scores = {
            "truth": [sign + each / 2**32 for sign, each in zip(truth[place], noise, strict=True)],
            "noise": noise,
        }
        found = {
            (each["order"], each["by"]): each["values"] for each in ask(page, "curves", image=place)
        }
        assert {*found} == {(order, by) for order in scores for by in replacements}
        for (order, by), values in found.items():
            ranked = sorted(range(SIDE**2), key=lambda p, of=scores[order]: -of[p])
            steps = images[place].repeat(37, 1, 1, 1).flatten(2)
            for step in range(37):
                steps[step][:, ranked[: SIDE**2 * step // 36]] = replacements[by].reshape(3, 1)
            with torch.no_grad():
                expected = model(steps.unflatten(2, (SIDE, SIDE)))[:, labels[place]]
            assert values == pytest.approx(expected.tolist(), abs=1e-6)  # of a softmax in float32


def test_painted_pixels_are_those_that_the_network_sees(page, env):
    images, labels = env.batch(1)
    scene(page, "paint", predict=False)
    settled(page)
    find(page, "#image").send_keys(*[Keys.ARROW_DOWN] * 4, *[Keys.ARROW_RIGHT] * 4, Keys.ENTER)
    settled(page)
    changed = images.clone()
    color = torch.tensor(env.spec.constants["colors"][0]).float()
    changed[0, :, 2:7, 2:7] = color[:, None, None]
    wait(page, "return document.getElementById('status').textContent.startsWith('25 pixels')")
    with torch.no_grad():
        expected = float(env.softmax_model(changed)[0, labels[0]])
    said = float(re.search(r"is ([\d.]+)\.$", text_of(page, "status"))[1])
    assert said == pytest.approx(expected, abs=6e-5)  # 4 digits
    assert not shown(page, "truth")  # nobody has computed it


DOCS = (Path(__file__).parents[2] / "docs" / "live.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "moment", re.findall(r"`page\.html#([^`]*)`", DOCS), ids=lambda each: each.split("&")[0][6:]
)
def test_the_moments_of_the_docs_are_what_they_say(page, moment):
    visit(page, f"{page.current_url.partition('#')[0]}#{moment}")
    settled(page)
    shown_state = page.current_url.partition("#")[2].split("&")
    assert {*shown_state} >= {*moment.split("&")}


def test_the_snippet_of_the_docs_makes_a_picture(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SE_OFFLINE", "true")  # the driver that is there
    (tmp_path / "page.html").write_text(live_page(env, 1), encoding="utf-8")
    [snippet] = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    made = "options = webdriver.ChromeOptions()\n"
    assert made in snippet  # root may have no sandbox
    names = {}
    exec(snippet.replace(made, f"{made}options.add_argument('--no-sandbox')\n"), names)
    names["browser"].quit()
    assert (tmp_path / "live.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    "wrong",
    [
        "scene=nothing&image=99",
        "scene=baseline&baseline=-1&prediction=77",
        "scene=remove&removed=zzzzz.-1..1&prediction=x",
        "%%%",
        "scene=toString",
    ],
    ids=["scene", "values", "pixels", "no text", "prototype"],
)
def test_an_address_that_says_nothing_opens_the_first_view(page, wrong):
    visit(page, f"{page.current_url.partition('#')[0]}#{wrong}")
    found = page.current_url.partition("#")[2]
    assert shown(page, "prediction") == (found != "scene=network")
    assert found in (
        *("scene=network", "scene=baseline", "scene=remove", "scene=remove&removed=1"),
    )


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("predict", [False, True], ids=["closed", "open"])
def test_no_scene_scrolls_sideways(page, width, predict):
    resize(page, width)
    for name in (*SCENES, *FREE):
        scene(page, name, predict=predict and name in SCENES and name not in page.current_url)
        sizes = "return [innerWidth, document.documentElement.scrollWidth]"
        window, content = page.execute_script(sizes)
        assert window == width
        assert content <= width, name


def test_scenes_that_do_not_apply_say_why(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(live_page(al.load("uniform-accumulator", image_size=24), 1), encoding="utf-8")
    visit(browser, path.as_uri())
    assert "scene=network" in browser.current_url
    for name, words in {
        "baseline": "black and white",
        "strength": "unseen",
        "forms": "implementation",
    }.items():
        scene(browser, name, predict=False)
        assert words in text_of(browser, "inapplicable")
        assert shown(browser, "inapplicable")
        assert not shown(browser, "stage")
    scene(browser, "remove")
    assert shown(browser, "stage")
    assert not shown(browser, "inapplicable")
    assert browser.get_log("browser") == []


def test_pictures_have_words_and_controls_have_names(page):
    scene(page, "baseline")
    for name in ("image", "truth", "map"):
        assert len(find(page, f"#{name}").accessible_name) > 20
    for field in page.find_elements(By.CSS_SELECTOR, "#controls select, #controls input"):
        assert field.accessible_name
    complete(page)
    assert find(page, "#chart svg").accessible_name.startswith("Lowest F1 by gray value")
    assert find(page, "#status").get_attribute("aria-live") == "polite"


def test_a_dark_screen_gets_a_dark_page_and_white_zeros(page):
    feature = {"name": "prefers-color-scheme", "value": "dark"}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    try:
        color = "return getComputedStyle(document.body).backgroundColor"
        assert page.execute_script(color) == "rgb(18, 22, 27)"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    scene(page, "steps")
    corner = (
        "return [...document.getElementById('map').getContext('2d').getImageData(0, 0, 1, 1).data]"
    )
    assert page.execute_script(corner) == [255, 255, 255, 255]
