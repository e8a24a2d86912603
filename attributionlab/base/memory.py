"""What memory is free, and refusing what does not fit before anything is allocated.

An allocator need not refuse: where memory is overcommitted, it hands out more than there is, and the
process is killed when it writes there.
"""

from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from attributionlab.base.errors import AttributionLabError

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
"""Where Linux says in which control groups this process is."""
FILES = (
    # Version 2, and version 1, where a file system of its own holds the groups of each resource.
    ("", "", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Controller, folder, limit, usage, and in memory.stat what of the usage is given back when needed."""
UNLIMITED = 2**62
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def free_bytes(device: str | torch.device = "cpu") -> int:
    """How many bytes are free: on a CUDA device, or for this process in the main memory.

    Main memory is what the system can give without swapping, or less where a control group of Linux
    (a container, a batch system) limits the process.

    `device`: anything but CUDA is taken for the main memory.
    """
    place = torch.device(device)
    if place.type == "cuda":
        free = torch.cuda.mem_get_info(place)[0]
        # What torch holds and no tensor uses.
        return free + torch.cuda.memory_reserved(place) - torch.cuda.memory_allocated(place)
    available: int = psutil.virtual_memory().available
    return max(0, min([available, *_left_in_groups()]))


def refuse_beyond_memory(
    needed: int, what: str, remedy: str, device: str | torch.device = "cpu"
) -> None:
    """Raise if more bytes are needed than are free, with both numbers.

    - `needed`: an estimate, in bytes.
    - `what`: what does not fit, with the value that makes it so large.
    - `remedy`: what to do instead.
    - `device`: where it would lie.

    Raises AttributionLabError if it does not fit.
    """
    free = free_bytes(device)
    if needed > free:
        raise AttributionLabError(
            f"{what} does not fit in memory: it takes {_format_bytes(needed)}, but "
            f"only {_format_bytes(free)} are free; {remedy}"
        )


def _format_bytes(amount: int) -> str:
    """A number of bytes in a unit that leaves at most four digits before the point."""
    power = min(max(0, amount.bit_length() - 1) // 10, len(UNITS) - 1)
    if amount >> 10 * power >= 1 << 20:  # more digits are of no use
        return f"more than a million {UNITS[power]}"
    return f"about {amount / (1 << 10 * power):.4g} {UNITS[power]}"


def _left_in_groups() -> Iterator[int]:
    """What each limit on a control group of this process, or on one around it, leaves."""
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller, folder, *names in FILES:
            if controller not in controllers.split(","):
                continue
            root = CGROUPS / folder
            group = root / path.lstrip("/")
            # A container that sees its own group as the root does not have the path.
            for each in (group, *group.parents):
                left = _left_in(each, *names)
                if left is not None:
                    yield left
                if each == root:
                    break


def _left_in(group: Path, limit: str, usage: str, returned: str) -> int | None:
    """What the limit of a control group leaves; None where it has none."""
    try:
        # "max", which is no number, is version 2's word for no limit; version 1 has a number for it.
        most = int((group / limit).read_text())
        if most >= UNLIMITED:
            return None
        left = most - int((group / usage).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return left + int(stat.get(returned, 0))
    except (OSError, ValueError):
        return None
