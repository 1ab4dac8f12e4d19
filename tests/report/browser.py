"""Chromium without a window, spoken to over two pipes: what a page logs, fetches and shows."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Browser:
    """One page. Messages of its console and its requests are kept as they come."""

    def __init__(self, process: subprocess.Popen[bytes], read: int, write: int) -> None:
        self.process = process
        self.read, self.write = read, write
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.said: list[str] = []
        self.requests: list[str] = []
        self.loaded = False
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    session: str | None = None

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self.numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            answer = self._next(deadline)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
        raise TimeoutError(method)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                return {}
            data = os.read(self.read, 1 << 20)
            assert data, "the browser ended"
            self.buffer += data
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(one.get("value", one)) for one in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.said.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    def open(self, page: Path, width: int = 1280, *, dark: bool = False) -> None:
        """Open `page` and wait until its first plots are drawn."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900,
                 deviceScaleFactor=1, mobile=width < 500)  # fmt: skip
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", features=features)
        self.loaded = False
        self.said.clear()
        self.requests.clear()
        self.ask("Page.navigate", url=page.as_uri())
        self.wait("document.readyState === 'complete' && [...document.querySelectorAll("
                  "'details[data-device][open]')].every((one) => one.dataset.drawn)")  # fmt: skip

    def wait(self, test: str) -> None:
        """Until a JavaScript expression holds."""
        deadline = time.monotonic() + 120
        while not self.value(f"Boolean({test})"):
            assert time.monotonic() < deadline, (test, self.said)
            time.sleep(0.1)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path, selector: str = "html") -> None:
        """Store a PNG of an element."""
        box = self.value(
            f"(({{x,y,width,height}}) => ({{x: x+scrollX, y: y+scrollY, width, height, scale: 1}}))"
            f"(document.querySelector('{selector}').getBoundingClientRect())"
        )
        made = self.ask("Page.captureScreenshot", clip=box, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(made["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that ends with the block."""
    assert PROGRAM is not None
    ours_read, theirs_write = os.pipe()
    theirs_read, ours_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        arguments = [
            PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={folder}",
        ]  # fmt: skip
        # It wants its pipes as descriptors 3 and 4.
        wrapped = ["bash", "-c", f'exec "$@" 3<&{theirs_read} 4>&{theirs_write}', "-", *arguments]
        process = subprocess.Popen(
            wrapped, pass_fds=(theirs_read, theirs_write), stderr=subprocess.DEVNULL
        )
        os.close(theirs_read)
        os.close(theirs_write)
        try:
            yield Browser(process, ours_read, ours_write)
        finally:
            process.terminate()
            process.wait(30)
            os.close(ours_read)
            os.close(ours_write)
