"""The game of a rule's pixels against all coalitions, one by one, and against closed formulas."""

import numpy as np
import pytest
import torch

import oracles_games as oracles
from attributionlab.worlds.images.regions import REGIONS
from attributionlab.worlds.rules import mixtures, softmax, solving, sums, tables
from attributionlab.worlds.rules.expressions import Expression
from attributionlab.worlds.rules.game import PURITY, SHARE, RuleGame, rule_game
from attributionlab.worlds.rules.parsing import parse
from attributionlab.worlds.truth import CountingGame
from rules.random_games import COLORS, Drawing, blank, named_pixels, places_of
from rules.random_rules import operations_in

ROUNDINGS = 2.0**-48
"""Enumeration adds at most 2^14 products, exactly (fsum), of numbers up to 2^7 that are off by some
roundings of 2^-53: less than 2^-48 for values of at most some units."""


@pytest.fixture(autouse=True)
def nothing_remembered():
    """Games solved under one limit are not those of another."""
    solving.solve.cache_clear()


def limits(monkeypatch, *, table=None, sum_work=None, widest=None):
    solving.solve.cache_clear()
    for module, name, value in (
        (tables, "MOST_ENTRIES", table),
        (sums, "MOST_WORK", sum_work),
        (mixtures, "WIDEST", widest),
        (softmax, "WIDEST", widest),
    ):
        if value is not None:
            monkeypatch.setattr(module, name, value)


class Case:
    """A random rule, a small image, and the game of each coalition."""

    def __init__(self, seed: int, players: int, motifs: float = 0.0, tiles: int = 0) -> None:
        drawing = Drawing(seed, motifs=motifs)
        self.random = drawing.random
        is_probability = bool(seed % 2)
        classes = drawing.random.choice([2, 3]) if is_probability else 1
        depth = drawing.random.choice([0, 1, 2] if is_probability else [0, 1, 2, 3])
        self.rules: list[Expression] = [drawing.number(depth) for _ in range(classes)]
        self.target = drawing.random.randrange(classes)
        self.temperature = drawing.random.choice([0.5, 1.0, 2.0, 4.0]) if is_probability else None
        side = 8
        self.image = drawing.tiles(side, tiles) if tiles else drawing.pixels(side, players)
        self.pixels = named_pixels(self.image)
        self.players = len(self.pixels)
        self.game = rule_game(
            self.image,
            places_of(side),
            self.rules,
            self.target,
            "probability" if is_probability else "logit",
            self.temperature,
        )
        self.values, self.integers = oracles.outputs(
            [str(each) for each in self.rules], self.pixels, side, self.target, self.temperature
        )

    def each(self, of_player) -> np.ndarray:
        """An oracle of each player."""
        return np.array([of_player(self.values, i, self.players) for i in range(self.players)])

    def on_players(self, image: torch.Tensor) -> np.ndarray:
        return np.array([image[0, y, x].item() for y, x, _ in self.pixels])

    def label(self, player: int) -> int:
        y, x, _ = self.pixels[player]
        return int(self.game.labels[y, x])

    def routes(self, routes) -> np.ndarray:
        """Whether the answer of each player is exact."""
        labels = [self.label(player) for player in range(self.players)]
        return np.array([at < 0 or routes[at] != "estimate" for at in labels], dtype=bool)


def close(case: Case, solution, expected: np.ndarray, exact: np.ndarray) -> None:
    """Values that are exact are equal, within their bounds, too; estimates within 5 standard errors."""
    off = abs(case.on_players(solution.values) - expected)
    bounds = case.on_players(solution.bounds)
    assert (off[exact] <= ROUNDINGS * (1 + abs(expected[exact]))).all()
    assert (off <= np.where(exact, bounds + ROUNDINGS, 5 / 3 * bounds + ROUNDINGS)).all()


def check(case: Case) -> None:
    """All that a game tells of its pixels, against enumeration."""
    game, last = case.game, 2**case.players - 1
    assert game.full == pytest.approx(case.values[last], rel=0, abs=ROUNDINGS)
    assert game.empty == pytest.approx(case.values[0], rel=0, abs=ROUNDINGS)
    ones = [1 << player for player in range(case.players)]
    everywhere = np.ones(case.players, dtype=bool)
    ablation = np.array([case.values[last] - case.values[last - one] for one in ones])
    insertion = np.array([case.values[one] - case.values[0] for one in ones])
    close(case, game.ablation(), ablation, everywhere)
    close(case, game.insertion(), insertion, everywhere)
    if case.temperature is None:  # integers
        assert (case.on_players(game.ablation().values) == ablation).all()
        assert (case.on_players(game.insertion().values) == insertion).all()
    exact = case.routes(game.solved.value_routes)
    close(case, game.shapley(), case.each(oracles.shapley), exact)
    exact = case.routes(game.solved.part_routes)
    close(case, game.rising(), case.each(oracles.rising), exact)
    close(case, game.falling(), case.each(oracles.falling), exact)
    check_signs(case)


def check_signs(case: Case) -> None:
    """Null players and strict signs, where they are decided."""
    game, solved = case.game, case.game.solved
    for player in range(case.players):
        changes = oracles.changes(case.integers, player, case.players)
        label = case.label(player)
        if label < 0:
            assert not changes
            continue
        happens = (
            *oracles.ever(case.integers, player, case.players, case.temperature),
            changes,
        )
        for found, expected in zip(
            (solved.rises, solved.falls, solved.changes), happens, strict=True
        ):
            assert found[label] in (-1, expected)
        if case.temperature is None and solved.part_routes[label] in ("table", "sums"):
            assert min(solved.rises[label], solved.falls[label], solved.changes[label]) >= 0
    level = game.strict()
    assert (level.relevant | (level.signed == 0)).all()
    assert (level.mixed == (level.relevant & (level.signed == 0))).all()


# Enumeration


@pytest.mark.parametrize("seed", range(40))
def test_a_random_rule_equals_enumeration(seed):
    check(Case(seed, players=4 + seed % 6))


@pytest.mark.parametrize("seed", range(100, 120))
def test_motifs_equal_enumeration(seed):
    check(Case(seed, players=0, motifs=0.6, tiles=2))


@pytest.mark.parametrize("seed", range(200, 212))
def test_tables_of_sums_equal_enumeration(seed, monkeypatch):
    limits(monkeypatch, table=0)
    case = Case(seed, players=7, motifs=0.3 * (seed % 2), tiles=2 * (seed % 3 == 0))
    check(case)
    assert (
        "table" not in case.game.solved.value_routes
        or not case.game.solved.changes.all()
        or (case.temperature is None)
    )


@pytest.mark.parametrize("seed", range(300, 316))
def test_distributions_of_subexpressions_equal_enumeration(seed, monkeypatch):
    limits(monkeypatch, table=0, sum_work=0)
    monkeypatch.setattr("attributionlab.worlds.rules.walks.ARRIVALS", 2**14)
    check(Case(seed, players=7))


@pytest.mark.parametrize("seed", range(400, 408))
def test_estimates_agree_with_enumeration(seed, monkeypatch):
    limits(monkeypatch, table=0, sum_work=0, widest=0)
    monkeypatch.setattr("attributionlab.worlds.rules.walks.ARRIVALS", 2**15)
    check(Case(seed, players=7))


def tiled():
    """Two tiles of stripes, one of checks, and single pixels: 14 players."""
    image = blank(6)
    patterns = ((0, 0, "rbrb"), (0, 2, "rbrb"), (2, 0, "rbbr"))
    for y, x, colors in patterns:
        for at, name in enumerate(colors):
            name = "red" if name == "r" else "blue"
            image[:, y + at // 2, x + at % 2] = COLORS[name]
    for y in (4, 5):
        image[:, y, 5] = COLORS["green"]
    return image


@pytest.mark.long
@pytest.mark.parametrize(
    ("rule", "routes"),
    [
        (
            "relu(2 * stripes(red, blue) + green - 1)",
            ("table", "sums", "sub-expressions", "estimate"),
        ),
        (
            "min(stripes(red, blue), green) - relu(checks(red, blue) - green)",
            ("table", "table", "sub-expressions", "estimate"),
        ),
        ("relu(stripes(red, blue) + red - 2)", ("estimate",)),  # its pixels count alone, too
        ("relu(red - 2) + stripes(red, blue)", ("table",)),
        ("relu(stripes(red, blue) - 1) * -3 + stripes(red, blue) - red", ("table",)),
        ("red - blue - 3 * relu(stripes(red, blue) - 1) + 2 * stripes(red, blue)", ("table",)),
    ],
)
def test_tiles_equal_enumeration_by_every_route(rule, routes, monkeypatch):
    monkeypatch.setattr("attributionlab.worlds.rules.walks.ARRIVALS", 2**17)
    image = tiled()
    pixels = named_pixels(image)
    n = len(pixels)
    values, _ = oracles.outputs([rule], pixels, 6, 0, None)
    expected = np.array(
        [
            [of_player(values, player, n) for player in range(n)]
            for of_player in (oracles.shapley, oracles.rising, oracles.falling)
        ]
    )
    for route, limit in zip(
        routes, ({}, {"table": 0}, {"sum_work": 0}, {"widest": 0}), strict=False
    ):
        limits(monkeypatch, **limit)
        game = rule_game(image, places_of(6), [parse(rule, list(COLORS), [])])
        if rule.startswith("relu"):
            assert route in game.solved.value_routes
        for solution, of_players in zip(
            (game.shapley(), game.rising(), game.falling()), expected, strict=True
        ):
            off = [
                abs(float(solution.values[0, y, x]) - of_players[player])
                for player, (y, x, _) in enumerate(pixels)
            ]
            allowed = [5 / 3 * float(solution.bounds[0, y, x]) + ROUNDINGS for y, x, _ in pixels]
            assert (np.array(off) <= allowed).all()
            assert max(allowed) < 0.05


# Closed formulas


def world(rule, counts, side=72, temperature=None, target=0):
    """The game of an image with so many pixels of each color."""
    texts = [rule] if isinstance(rule, str) else rule
    rules = [parse(each, list(COLORS), [*REGIONS, "ring"]) for each in texts]
    output = "logit" if temperature is None else "probability"
    return rule_game(image_of(counts, side), places_of(side), rules, target, output, temperature)


def image_of(counts, side):
    """So many pixels of each color, from the top row on."""
    image = blank(side)
    at = 0
    for name, number in counts.items():
        for pixel in range(at, at + number):
            image[:, pixel // side, pixel % side] = COLORS[name]
        at += number
    return image


def colored(counts, name, side=72):
    """Which pixels of such an image have a color."""
    return (image_of(counts, side) == np.array(COLORS[name])[:, None, None]).all(0)


def of_color(game: RuleGame, solution, name: str, counts: dict[str, int]) -> float:
    """The value of a pixel of a color."""
    at = sum(number for each, number in list(counts.items())[: list(counts).index(name)])
    side = game.labels.shape[1]
    return float(solution[0, at // side, at % side])


@pytest.mark.parametrize("marker", [1, 2, 9, 25, 81])
def test_what_any_pixel_of_a_marker_negates_has_a_purity_of_m_minus_1_over_m_plus_1(marker):
    # The marker is there with probability 1 - (1 - p)^m, whose mean is m / (m + 1).
    counts = {"red": marker, "blue": 60}
    game = world("blue if red > 0 else -blue", counts)
    up, down = (
        of_color(game, each.values, "blue", counts) for each in (game.rising(), game.falling())
    )
    assert (up - down) / (up + down) == pytest.approx((marker - 1) / (marker + 1), abs=1e-12)
    assert up + down == pytest.approx(1, abs=1e-12)
    asked = game.asked(share=0)  # the marker itself matters much more
    purity = (marker - 1) / (marker + 1)
    assert of_color(game, asked.mixed, "blue", counts) == (purity < PURITY)
    assert of_color(game, asked.signed, "blue", counts) == (purity >= PURITY)


def test_branches_of_a_minimum_share_it_where_they_are_equal():
    counts = {"red": 150, "blue": 150, "green": 150, "yellow": 150}
    game = world("min(red, blue, green, yellow)", counts)
    for name in counts:
        assert of_color(game, game.shapley().values, name, counts) == pytest.approx(0.25, abs=1e-9)
    # It is too large for tables: S- is 0 because nothing can lower a minimum.
    assert set(game.solved.value_routes) == {"sub-expressions"}
    assert not game.solved.falling.any()
    assert set(game.solved.part_routes) == {"sub-expressions"}
    assert game.strict().sure.all()
    assert (game.asked().signed == torch.from_numpy((game.labels >= 0) * 1)).all()


def test_a_parity_of_an_even_number_is_mixed():
    counts = {"red": 20}
    game = world("red % 2", counts)
    assert game.asked().mixed.sum() == 20
    assert game.strict().mixed.sum() == 20
    assert of_color(game, game.rising().values, "red", counts) == pytest.approx(0.5, abs=1e-12)


# All routes say the same


SEPARATE = (
    (["red", "blue", "green", "yellow"], 2.0),
    (["min(red, 4)", "relu(blue - 1)", "yellow % 3 - 2 * green"], 0.5),
    (["red + relu(blue - 2)", "green", "3 - yellow"], 4.0),
    (["red + yellow", "blue + yellow", "min(green, 2) + yellow"], 1.0),
)


@pytest.mark.parametrize(("rules", "temperature"), SEPARATE)
@pytest.mark.parametrize("target", [0, 1, 2])
def test_logits_that_share_no_pixel_equal_enumeration(rules, temperature, target, monkeypatch):
    limits(monkeypatch, table=0, sum_work=0)
    counts = {"red": 3, "blue": 3, "green": 2, "yellow": 2}
    game = world(rules, counts, side=6, temperature=temperature, target=target)
    pixels = named_pixels(image_of(counts, 6))
    values, _ = oracles.outputs(rules, pixels, 6, target, temperature)
    assert "estimate" not in game.solved.value_routes
    for player, (y, x, _) in enumerate(pixels):
        true = oracles.shapley(values, player, len(pixels))
        assert abs(float(game.shapley().values[0, y, x]) - true) <= ROUNDINGS
        assert abs(float(game.shapley().values[0, y, x]) - true) <= game.shapley().bounds[0, y, x]


@pytest.mark.parametrize("temperature", [1.0, 16.0, 64.0])
def test_counts_of_four_colors_have_the_values_of_the_game_of_counts(temperature):
    counts = {"red": 300, "blue": 290, "green": 310, "yellow": 280}
    game = world(list(counts), counts, temperature=temperature)
    present = torch.from_numpy(np.select([colored(counts, name) for name in counts], range(4), -1))[
        None
    ]
    known = CountingGame(
        present, torch.full_like(present, -1), 4, 0, "probability", temperature
    ).shapley()
    found = game.shapley()
    assert set(game.solved.value_routes) == {"sub-expressions"}
    assert ((found.values - known.values).abs() <= found.bounds + known.bounds).all()
    assert found.bounds.max() < 1e-9
    missed = float(found.values.sum()) - (game.full - game.empty)
    assert abs(missed) <= 1e-9
    # Its own color only raises a probability, the others only lower it: S+ and S- are known, too.
    assert set(game.solved.part_routes) == {"sub-expressions"}
    assert (game.strict().signed[0][game.labels >= 0].abs() == 1).all()


TWICE = (["min(red, 2 * red - 2)", "blue", "green"],)
"""A pixel feeds two operands of one logit."""


def test_logits_that_share_pixels_are_not_taken_apart(monkeypatch):
    limits(monkeypatch, table=0, sum_work=0)
    monkeypatch.setattr("attributionlab.worlds.rules.walks.ARRIVALS", 2**14)
    counts = {"red": 3, "blue": 3, "green": 2}
    for rules in (
        ["red", "blue + 2 * green", "green"],
        ["min(red, blue)", "blue", "green"],
        *TWICE,
    ):
        game = world(rules, counts, side=6, temperature=2.0)
        assert "estimate" in game.solved.value_routes


def test_an_estimate_is_unbiased_and_its_standard_errors_are_right(monkeypatch):
    counts = {"red": 30, "blue": 25, "green": 21}
    rule = "(red - blue) if green > 7 else (blue - red)"
    true = world(rule, counts, side=24).solved
    limits(monkeypatch, table=0, sum_work=0, widest=0)
    monkeypatch.setattr("attributionlab.worlds.rules.walks.ARRIVALS", 0)  # 32 pairs
    scores = []
    for seed in range(60):
        found = solving.solve(world(rule, counts, side=24).game, seed)
        errors = found.value_errors / solving.STANDARD_ERRORS
        scores.append((found.values - true.values) / errors)
    scores = np.array(scores)  # 60 by 3; of Student's t with 31 degrees: variance 31 / 29
    # A mean of 60 is off by 4 standard errors of sqrt(31 / 29 / 60); a variance of 60 normal squares
    # has a relative error of sqrt(2 / 60).
    assert (abs(scores.mean(0)) <= 4 * np.sqrt(31 / 29 / 60)).all()
    assert (abs(scores.var(0) * 29 / 31 - 1) <= 5 * np.sqrt(2 / 60)).all()


@pytest.mark.parametrize("seed", range(12))
def test_values_add_up_at_72_pixels(seed):
    quadrants = ("top_left", "top_right", "bottom_left", "bottom_right")
    drawing = Drawing(seed, largest=100, regions=quadrants)
    rule = drawing.number(2)
    while operations_in(rule) < 5:
        rule = drawing.number(2)
    game = rule_game(drawing.patches(72), places_of(72), [rule])
    if game.source == "closed form":
        missed = float(game.shapley().values.sum()) - (game.full - game.empty)
        assert abs(missed) <= 1e-9
    else:  # parts of it are exact, the others off by some standard errors of cells
        sizes = np.bincount(game.labels[game.labels >= 0], minlength=len(game.solved.values))
        missed = (game.solved.values * sizes).sum() - (game.full - game.empty)
        assert abs(missed) <= 5 / 3 * (game.solved.value_errors * sizes).sum()


# What is asked


def test_weak_cells_are_not_asked_and_null_ones_are():
    counts = {"red": 40, "blue": 40, "green": 40}
    game = world("20 * red + blue + green - green", counts)
    asked, strict = game.asked(), game.strict()
    for name, is_asked, sign, strict_sign in (
        ("red", 1, 1, 1),
        ("blue", 0, 0, 1),
        ("green", 1, 0, 0),
    ):
        assert of_color(game, asked.asked, name, counts) == is_asked
        assert of_color(game, asked.signed, name, counts) == sign
        assert of_color(game, strict.signed, name, counts) == strict_sign
    assert asked.asked[0, -1, -1]  # the background
    assert not asked.relevant[0, -1, -1]
    lower = game.asked(share=1 / 20)
    assert of_color(game, lower.signed, "blue", counts) == 1


def test_a_probability_that_is_saturated_still_knows_its_signs():
    counts = {"red": 300, "blue": 20}
    game = world(["red", "blue"], counts, temperature=2.0**-6)
    assert of_color(game, game.strict().signed, "red", counts) == 1
    assert of_color(game, game.strict().signed, "blue", counts) == -1
    assert of_color(game, game.ablation().values, "red", counts) > 0
    assert of_color(game, game.ablation().values, "blue", counts) < 0


def test_what_all_logits_share_is_null_for_a_probability():
    counts = {"red": 30, "blue": 20, "green": 25}
    game = world(["red + relu(green - 3)", "blue + relu(green - 3)"], counts, temperature=4.0)
    assert (game.labels >= 0).sum() == 50
    logit = world("red + relu(green - 3)", counts)
    assert (logit.labels >= 0).sum() == 55


@pytest.mark.parametrize("temperature", [None, 2.0])
def test_a_form_whose_counts_cancel_has_no_players(temperature):
    counts = {"red": 3, "blue": 2}  # red lies on the left
    rules = ["abs(red@left - red) + blue", "relu(red@left - red)"][
        : 1 if temperature is None else 2
    ]
    game = world(rules, counts, side=12, temperature=temperature)
    assert (game.labels >= 0).sum() == 2
    assert game.strict().relevant.sum() == 2
    assert float(game.shapley().values.sum()) == pytest.approx(game.full - game.empty)


def test_equal_games_are_solved_once():
    counts = {"red": 30, "blue": 20}
    first, second = (world("min(red, blue)", counts) for _ in range(2))
    assert first.solved is second.solved


def test_the_value_of_a_coalition_is_that_of_the_image_with_the_others_absent():
    drawing = Drawing(3, motifs=0.4)
    image = drawing.tiles(8, 4)
    rule = parse(
        "stripes(red, blue) + 3 * corner(red) + min(red, blue@left)", list(COLORS), list(REGIONS)
    )
    game = rule_game(image, places_of(8), [rule])
    generator = np.random.default_rng(0)
    for _ in range(20):
        present = generator.random((8, 8)) < 0.8
        masked = np.where(present, image, blank(8))
        alone = rule_game(masked, places_of(8), [rule])
        assert game.value(present) == alone.full


def test_an_image_without_players_is_solved():
    game = rule_game(blank(6), places_of(6), [parse("red > 3", list(COLORS), [])])
    assert not game.shapley().values.any()
    assert game.asked(share=SHARE).asked.all()
    assert game.source == "closed form"
