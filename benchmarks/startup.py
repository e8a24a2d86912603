"""Seconds until `import attributionlab` and `attributionlab --help` are done, as whole processes.

Beside them what cannot be avoided: an empty Python, and for comparison `import torch`.
"""

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python": ["-c", "pass"],
    "import attributionlab": ["-c", "import attributionlab"],
    "attributionlab --help": ["-m", "attributionlab", "--help"],
    "import torch": ["-c", "import torch"],
}


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    rounds = [
        {name: seconds(command) for name, command in COMMANDS.items()} for _ in range(repeats)
    ]
    medians = {name: statistics.median(each[name] for each in rounds) for name in COMMANDS}
    for name, median in medians.items():
        print(
            f"{name:<24}{median:8.3f} s   {median / medians['import torch']:6.2f} of import torch"
        )


if __name__ == "__main__":
    main()
