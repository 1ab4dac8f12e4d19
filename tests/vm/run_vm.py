"""Run one case by hand and see everything: `python tests/vm/run_vm.py cut` (from the project's root).

Cases: nothing, correctable, surprise-down, cut, device-del, remove.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import virtual_machine as vm

GUEST = Path(__file__).with_name("guest.py")
MONITOR = {
    "surprise-down": "pcie_aer_inject_error rp1 SDN",
    "device-del": "device_del net0",
}


def say(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def run(case):
    if (why := vm.why_unavailable()) is not None:
        sys.exit(why)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        machine = vm.Machine(Path(folder), GUEST)
        try:
            machine.read(vm.BOOT_S)
            say(f"booted in {time.monotonic() - began:.0f} s")
            if case in MONITOR:
                machine.tell(do="mark")
                machine.read()
                say(machine.monitor(MONITOR[case]))
            elif case != "nothing":
                machine.tell(do=case)
                say(machine.read())
            machine.tell(do="watch", seconds=12)
            say(json.dumps(machine.read(), indent=1))
            machine.tell(do="look")
            say(machine.read())
        finally:
            machine.close()
            say((Path(folder) / "console.log").read_text(errors="replace")[-1500:])


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else "nothing")
