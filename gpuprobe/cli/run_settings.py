"""What the command line of `gpuprobe run` asks the probe for. Light: the engine waits for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_BOOT: Final = (
    "import sys\n"
    "sys.path.append(sys.argv.pop(1))\n"
    "from gpuprobe.cli.run_probe import main\n"
    "sys.exit(main())"
)
"""The package is found where this process has it from, behind everything else."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asks for.

    Attributes:
        argv: The engine's command.
        record: Where to record; "" for the usual place, None for no recording.
        devices: The engine's GPUs where the user named them.
        rate_hz: NVML's fast rate.
        nvml: False leaves NVML to others.
        keep_exit_code: Never end with 79.
        on_loss: A command to start when a GPU of the engine is lost, or "".
        stop_on_loss_s: Send SIGTERM then, and SIGKILL so much later; None sends nothing.
        restart: Start the engine again where that can help.
        max_deaths: So many deaths within `within_s` end that.
        healthy_after_s: Seconds of service after which the deaths before count no more in a row.
        repair_caches: Move damaged entries of JIT caches aside.
        unclean_at: When the last run or boot ended uncleanly, where the caches are still to be
            looked at; seconds since 1970. unclean_boot: It was the boot.
        report: Where to write the report of a failed run, or "".
        quiet: Only the verdict's sentence. verbose: A line about a clean run, too.
        root: Where /sys and /proc are looked for.
    """

    argv: tuple[str, ...]
    record: str | None = ""
    devices: tuple[str, ...] = ()
    rate_hz: float = 10.0
    nvml: bool = True
    keep_exit_code: bool = False
    on_loss: str = ""
    stop_on_loss_s: float | None = None
    restart: bool = False
    max_deaths: int = 3
    within_s: float = 900.0
    healthy_after_s: float = 21600.0
    repair_caches: bool = False
    unclean_at: float | None = None
    unclean_boot: bool = False
    report: str = ""
    quiet: bool = False
    verbose: bool = False
    root: str = "/"

    def command(self) -> list[str]:
        """The probe's command line; the front puts the rest behind it, `argv` among it."""
        package = str(Path(__file__).parents[2])
        # -P: a file of the working folder named like a module must not be run.
        told = {name: value for name, value in asdict(self).items() if name != "argv"}
        return [sys.executable, "-P", "-c", _BOOT, package, json.dumps(told)]

    @classmethod
    def from_argument(cls, text: str, argv: Sequence[str]) -> Settings:
        """From the text in `command`, and the engine's command."""
        told = json.loads(text)
        return cls(tuple(argv), **{**told, "devices": tuple(told["devices"])})
