"""What a result was computed with: libraries, threads, processor, and accelerator."""

import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path


def library_versions() -> dict[str, str]:
    """Versions of what a result depends on, the number of threads, and what computed it.

    The processor is named with the instructions that torch uses there, because sums are rounded as
    these order them; an accelerator is named if one was in use.
    """
    import torch

    from attributionlab import __version__

    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return {
        "attributionlab": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # with its build, such as +cu130
        **_installed(),
        "threads": str(torch.get_num_threads()),
        "processor": f"{_processor()}, {torch.backends.cpu.get_cpu_capability()}",
        "system": platform.platform(),
        **({"accelerator": torch.cuda.get_device_name()} if used else {}),
    }


@cache
def _installed() -> dict[str, str]:
    """Versions of libraries, read once: files of metadata, which no running process changes."""
    libraries = ("captum", "numpy", "scipy", "scikit-image", "scikit-learn", "pandas")
    return {name: version(name) for name in libraries}


@cache
def _processor() -> str:
    """Its name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine()
