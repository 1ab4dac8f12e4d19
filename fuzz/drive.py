"""One target under the fuzzer, as a process of its own: `python -m fuzz.drive TARGET FOLDER …`.

What stands behind the folder of inputs goes to libFuzzer as it is. All of gpuprobe is instrumented,
so that what a part does with an input guides what is tried next.
"""

from __future__ import annotations

import sys

import atheris  # the extra `fuzz` alone has it

with atheris.instrument_imports(include=["gpuprobe"]):
    from fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until libFuzzer ends the process."""
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
