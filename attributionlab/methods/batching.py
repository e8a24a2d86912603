"""How many images fit through a network at once, and what to do where they do not."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, free_bytes, refuse_beyond_memory

MEMORY_BUDGET = 64 * 2**20
"""Bytes of activations to hold at once on a CPU, where larger batches cost two to three times more an
image: fresh memory for every layer (measured at 72 and 224 pixels)."""
SHARE_OF_DEVICE = 0.25
"""Share of an accelerator's free memory; gradients and the method itself need some, too."""

MOST_OF_AN_IMAGE = 1000
"""Times its own size that an image takes on its way through a network and back, where nothing was
measured: far more than in most. In a ResNet-50 the outputs of all layers are 150 times as large."""

NO_QUESTION = 2**28
"""Bytes that are free wherever torch runs. To ask the system costs as much as a small gradient."""

UNSEEN = 150
"""The same of a network whose modules are not seen, as those of a function."""

Result = TypeVar("Result")


def images_at_once(model: nn.Module, inputs: Tensor, budget: int | None = None) -> int:
    """How many images fit through a network within a budget of memory, at least one.

    Counts the outputs of all modules that have none of their own, for one image.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K).
    inputs : Tensor, (B, C, H, W)
        Images; one of them is passed through the network.
    budget : int, optional
        In bytes; `MEMORY_BUDGET` by default, or a quarter of what is free on an accelerator.
    """
    if budget is None:
        budget = MEMORY_BUDGET
        if inputs.is_cuda:
            budget = int(SHARE_OF_DEVICE * torch.cuda.mem_get_info(inputs.device)[0])
    # Of a network without modules nothing is seen on the way.
    used = inputs[:1].nbytes * (1 if list(model.children()) else UNSEEN)

    def count(module: nn.Module, _: Any, output: Any) -> None:
        nonlocal used
        if isinstance(output, Tensor):
            used += output.numel() * output.element_size()  # which a compiled module knows

    leaves = [module for module in model.modules() if not list(module.children())]
    handles = [module.register_forward_hook(count) for module in leaves]
    try:
        with torch.no_grad():
            model(inputs[:1])
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return 1  # `in_smaller_batches` says what to do where not even one fits
    finally:
        for handle in handles:
            handle.remove()
    return max(1, budget // used)


def passes_at_once(model: nn.Module, inputs: Tensor, wanted: int | None) -> int:
    """How many images pass at once: what a user asked for, as far as it fits in free memory, or else
    what `images_at_once` finds.
    """
    if wanted is None:
        return images_at_once(model, inputs)
    if wanted <= surely_fitting(inputs, wanted):
        return wanted
    # Half is for gradients.
    return min(wanted, images_at_once(model, inputs, free_bytes(inputs.device) // 2))


def surely_fitting(images: Tensor, wanted: int) -> int:
    """How many of the wanted images surely fit in memory at once, in whatever network."""
    each = MOST_OF_AN_IMAGE * images[:1].nbytes
    if each * wanted <= NO_QUESTION:
        return wanted
    return max(1, min(wanted, free_bytes(images.device) // max(1, each)))


def in_smaller_batches(run: Callable[[int], Result], batch: int, who: str) -> Result:
    """Run with this batch size, halving it until the memory suffices.

    Parameters
    ----------
    run : callable
        Batch size -> result. Called again from its start after a failure.
    batch : int
        The size to begin with.
    who : str
        For the message.

    Raises
    ------
    AttributionLabError
        If not even one image at a time fits.
    """
    while True:
        try:
            return run(batch)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if batch == 1:
                raise AttributionLabError(
                    f"{who} does not fit in memory even one image at a time: use smaller images, or a "
                    "machine with more memory"
                ) from error
        batch //= 2
        logging.getLogger("attributionlab").info(
            "%s: out of memory, trying %d at a time", who, batch
        )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def over_batches(
    run: Callable[..., Sequence[Tensor]], given: Sequence[Tensor], who: str
) -> tuple[Tensor, ...]:
    """Run on all images at once or, where the memory does not suffice, on ever smaller parts.

    Each part of the tensors in `given`, (B, ...) each, is handed to `run`, whose results (b, ...) are
    joined. Refuses if not even one image at a time fits.
    """

    def joined(batch: int) -> tuple[Tensor, ...]:
        splits = (torch.split(each, batch) for each in given)
        parts = [run(*part) for part in zip(*splits, strict=True)]
        if len(parts) == 1:
            return tuple(parts[0])
        return tuple(torch.cat(part) for part in zip(*parts, strict=True))

    return in_smaller_batches(joined, surely_fitting(given[0], len(given[0])), who)


@contextmanager
def drawn_in_memory(
    who: str,
    name: str,
    count: int,
    each: int,
    device: str | torch.device = "cpu",
    most: int | None = None,
) -> Iterator[None]:
    """Refuse the number of an image's draws where the memory does not suffice for them.

    Before anything is drawn, by an estimate; and where an allocation fails inside all the same, because
    of a limit on this process or of what other processes take. The setting `name` says how many
    (`count`, of which there can be `most`), and a draw takes `each` bytes at the peak, within a factor
    of two.
    """
    drawn = int(count if most is None else min(count, most))
    what = f"{who}: {name} is {count}: what is drawn for one image"
    refuse_beyond_memory(drawn * each, what, "take fewer", device)
    try:
        yield
    except (RuntimeError, MemoryError, TypeError) as error:  # a TypeError for a size beyond int64
        if not out_of_memory(error):
            raise
        raise AttributionLabError(f"{what} does not fit in memory; take fewer") from error


def out_of_memory(error: BaseException) -> bool:
    """Whether it is about memory; on a CPU torch raises a plain RuntimeError."""
    texts = (
        *("out of memory", "can't allocate memory", "not enough memory", "bad_alloc"),
        *("size calculation overflowed", "overflow when unpacking long"),  # beyond any memory
    )
    return isinstance(error, MemoryError) or any(text in str(error).lower() for text in texts)
