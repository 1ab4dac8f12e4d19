"""A small inference engine that knows whether its GPU is still there.

It loads a "model", answers HTTP requests with work on the GPU, and has what an engine should have:
`guard()` round each step, and a health endpoint that fails closed when the device is lost. The
GPU is simulated unless `--torch` is given, so that every way to fail can be tried without one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

from gpuprobe import DeviceLostError, device_present, guard, install_excepthook
from gpuprobe.reading import Known, Reason, Unavailable

CUDA_TEXT = """CUDA error: unspecified launch failure
CUDA kernel errors might be asynchronously reported at some other API call"""

LOST = Event()  # set once this process has lost its GPU: it does not come back within a process

AcceleratorError = type("AcceleratorError", (RuntimeError,), {"__module__": "torch"})


class Kernels:
    """Three places with nothing in common: whichever first touches a dead GPU gets the error."""

    NAMES = ("prepare_indices", "invalidate_buffer", "synchronise")

    def prepare_indices(self, text: str) -> None:  # noqa: D102 - the names are what matters
        raise AcceleratorError(text)

    def invalidate_buffer(self, text: str) -> None:  # noqa: D102
        raise AcceleratorError(text)

    def synchronise(self, text: str) -> None:  # noqa: D102
        raise AcceleratorError(text)


def health() -> tuple[int, str]:
    """Status and body: 200 only while every GPU of this process is on the bus.

    Neither CUDA nor NVML is touched: both can hang for ever on a dead card.
    """
    found = device_present()
    asleep = isinstance(found, Unavailable) and found.reason is Reason.ASLEEP
    if LOST.is_set() or not (asleep or found == Known(True)):
        return 503, f"the GPU is lost, or cannot be seen: {found}"
    return 200, "ok"


class Engine:
    """Works through requests one after the other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.served = options, 0

    def load(self) -> None:
        """Load the model and the kernels that were compiled earlier."""
        print("loading the model", flush=True)
        for entry in sorted(self.options.cache.rglob("*.json")) if self.options.cache else []:
            json.loads(entry.read_text())  # a cut entry ends the engine here
        time.sleep(self.options.load_s)
        print("ready", flush=True)

    @guard()
    def step(self) -> str:
        """Answer one request."""
        time.sleep(self.options.step_s)
        failing = self.options.fail_when
        if self.served == self.options.die_after or (failing and failing.exists()):
            while self.options.hang:  # in a driver call that does not return
                time.sleep(3600)
            getattr(Kernels(), Kernels.NAMES[self.options.leaf])(self.options.die_with)
        if self.options.torch:
            import torch

            torch.ones(1024, device="cuda").sum().item()
        self.served += 1
        print(f"request {self.served}", flush=True)
        return str(self.served)


def _handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    """GET /health, and POST anything else for a step."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(*(health() if self.path == "/health" else (404, "no such page")))

        def do_POST(self) -> None:
            try:
                self.answer(200, engine.step())
            except DeviceLostError as lost:
                LOST.set()
                self.answer(503, f"{lost}\n{lost.hint}")

        def answer(self, status: int, body: str) -> None:
            self.send_response_only(status)
            self.end_headers()
            self.wfile.write(f"{body}\n".encode())

    return Handler


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--serve", type=int, metavar="PORT", help="answer HTTP on this port; 0 for a free one")
    add("--requests", type=int, default=-1, help="work through so many and end; -1 for ever")
    add("--load-s", type=float, default=0.0, help="seconds that loading the model takes")
    add("--step-s", type=float, default=0.05, help="seconds that a request takes")
    add("--cache", type=Path, help="a JIT cache, whose *.json are read while loading")
    add("--torch", action="store_true", help="work on a real GPU with PyTorch")
    add("--die-after", type=int, default=-1, help="fail at the request after so many")
    add("--fail-when", type=Path, metavar="PATH", help="fail once this file exists")
    add("--die-with", default=CUDA_TEXT, metavar="TEXT", help="text of the error")
    add("--leaf", type=int, choices=range(3), default=0, help="frame that raises it")
    add("--hang", action="store_true", help="hang instead of failing")
    add("--exit", type=int, help="end with this code instead of a traceback's 1")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Be the engine; the exit code comes back."""
    options = _parse(arguments)
    install_excepthook()
    engine = Engine(options)
    engine.load()
    if options.serve is not None:
        server = ThreadingHTTPServer(("127.0.0.1", options.serve), _handler(engine))
        print(f"serving on port {server.server_port}", flush=True)
        Thread(target=server.serve_forever, daemon=True).start()
    try:
        while options.serve is not None and options.requests < 0:
            time.sleep(3600)
        while engine.served != options.requests:
            engine.step()
    except Exception as error:
        if options.exit is None:
            raise
        sys.excepthook(type(error), error, error.__traceback__)
        return int(options.exit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
