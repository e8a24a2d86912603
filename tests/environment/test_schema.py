"""Constants of TOML files: defaults of signatures."""

from attributionlab.worlds.environment.catalog import default_constants


def test_defaults_of_several_signatures_are_put_together():
    def one(*, size: int, fill: float = 0.5) -> None: ...

    def other(*, seed: int = 3, names: tuple[str, ...] = ()) -> None: ...

    assert default_constants(one, other) == {"fill": 0.5, "seed": 3, "names": ()}


def test_a_signature_without_defaults_has_none():
    def required(*, size: int) -> None: ...

    assert default_constants(required) == {}
    assert default_constants() == {}
