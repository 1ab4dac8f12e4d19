"""Runs inside the virtual machine, as a service: follows a unit, and runs what a test asks for.

Messages, a JSON object a line: `run` is a command line for the shell and gives its code and output;
`follow` follows a unit from now on; `told` gives what was seen of it until now.
"""

import json
import subprocess
import sys

from gpuprobe.events import EngineChanged, OutputWritten
from gpuprobe.sources.following.unit import UnitFollower


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def run(command):
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    say(code=done.returncode, output=done.stdout.decode("utf-8", "replace"))


def told(follower):
    """What a follower gave: a line as it stands, anything else as its type and its text."""
    found = []
    for event in follower.poll():
        if isinstance(event, OutputWritten):
            found += [text for _, text in event.lines]
        else:
            name = event.what if isinstance(event, EngineChanged) else type(event).__name__
            found.append([name, event.origin.text])
    say(told=found)


def main():
    follower = None
    say(ready=True)
    for line in sys.stdin:
        message = json.loads(line)
        match message["do"]:
            case "run":
                run(message["command"])
            case "follow":
                follower = UnitFollower(message["unit"])
                follower.start()
                say(done=True)
            case "told":
                told(follower)


main()
