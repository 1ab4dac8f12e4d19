"""A Prometheus endpoint: the last values that a session gave, and never a call of the driver.

A value that did not come again is left out rather than repeated. `gpuprobe_device_present` alone
stays, and is 0 when the device is gone. `pci_bus_id` is spelled as NVML and dcgm-exporter spell
it (`00000000:4B:00.0`), so that series can be joined; `gpu` is NVML's index. Needs
`prometheus-client`, the extra `metrics`; this is the one module that imports it.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from gpuprobe import __version__
from gpuprobe.errors import UsageError
from gpuprobe.events import CountersSampled, DeviceIdentified, Event, Setting, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.live.board import REASONS, Board, Row
from gpuprobe.live.session import Update
from gpuprobe.live.sources import SourceState
from gpuprobe.reading import Known

STALE_S: Final = 15.0
"""A sample that is older is no longer served."""

COUNTERS_STALE_S: Final = 60.0

CLIENTS: Final = 8
"""Scrapes at a time; one more is told to come again."""

CLIENT_S: Final = 5.0
"""How long a client may take to ask, and to take the answer."""

PLAIN: Final = (
    ("power_w", "power_watts", "Power draw.", 1.0),
    ("limit_w", "power_limit_watts", "Enforced power limit.", 1.0),
    ("temp_c", "temperature_celsius", "Core temperature.", 1.0),
    ("memory_temp_c", "memory_temperature_celsius", "Memory temperature.", 1.0),
    ("sm_clock_mhz", "sm_clock_hertz", "SM clock.", 1e6),
    ("mem_clock_mhz", "memory_clock_hertz", "Memory clock.", 1e6),
    ("util_percent", "utilization_ratio", "Share of time with a kernel running, 0 to 1.", 0.01),
    ("memory_used_bytes", "memory_used_bytes", "Memory in use.", 1.0),
    ("memory_total_bytes", "memory_size_bytes", "Memory in all.", 1.0),
    ("pstate", "performance_state", "0 (fastest) to 15.", 1.0),
    ("rx_bytes_per_s", "pcie_receive_bytes_per_second", "PCIe traffic to the GPU.", 1.0),
    ("tx_bytes_per_s", "pcie_transmit_bytes_per_second", "PCIe traffic from the GPU.", 1.0),
    ("link_gen", "pcie_link_generation", "PCIe generation in use.", 1.0),
    ("link_width", "pcie_link_width_lanes", "PCIe lanes in use.", 1.0),
)
"""Field of a sample, series without `gpuprobe_`, help, factor."""


class Metrics:
    """What the endpoint serves.

    Args:
        clock: Seconds that nobody sets.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._board = Board(has_history=False)
        self._uuids: dict[PciAddress, str] = {}
        self._sampled: dict[PciAddress, tuple[Any, float]] = {}
        self._counters: dict[PciAddress, dict[str, tuple[int, float]]] = {}
        self._xids: Counter[tuple[PciAddress | None, int]] = Counter()
        self._verdicts: dict[tuple[str, str, str], float] = {}
        self._records = True

    def take(
        self, update: Update, states: tuple[SourceState, ...] = (), *, records: bool = True
    ) -> None:
        """Take what a session gave.

        Args:
            update: What came.
            states: The sources.
            records: Whether the recording still grows.
        """
        here = self._clock()
        with self._lock:
            self._records = records
            self._board.take(update, states)
            for event in update.events:
                self._note(event)
            for sample in update.samples:
                if isinstance(sample, CountersSampled) and sample.device is not None:
                    held = self._counters.setdefault(sample.device, {})
                    held.update((name, (value, here)) for name, value in sample.counters)
            for pci, row in self._board.rows.items():
                if row.latest is not None and self._sampled.get(pci, (None,))[0] is not row.latest:
                    self._sampled[pci] = (row.latest, here)
            if update.diagnosis is not None:
                for one in update.diagnosis.verdicts:
                    pci_text = bus_id(one.device.pci) if one.device and one.device.pci else ""
                    key = (one.kind.value, str(one.certainty or ""), pci_text)
                    self._verdicts[key] = time.time()

    def _note(self, event: Event) -> None:
        if isinstance(event, DeviceIdentified) and event.device is not None and event.uuid:
            self._uuids[event.device.slot] = event.uuid
        elif isinstance(event, XidReported) and event.setting is Setting.LOG:
            device = event.device.slot if event.device is not None else None
            self._xids[device, event.code] += event.count

    # --- series ---------------------------------------------------------------------------

    def collect(self) -> Iterator[Any]:
        """Every series, as prometheus-client asks for them."""
        with self._lock:
            yield from list(self._all())

    def render(self) -> bytes:
        """All of it in the text format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self)

    def _all(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        build = GaugeMetricFamily("gpuprobe_build_info", "Its version.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        present = GaugeMetricFamily(
            "gpuprobe_device_present",
            "1 while the GPU is on the bus, 0 when it is gone; stays either way.",
            labels=["pci_bus_id"],
        )
        for pci, row in self._board.rows.items():
            present.add_metric([bus_id(pci)], 0 if row.over else 1)
        yield present
        yield from self._values(GaugeMetricFamily)
        yield from self._counted(CounterMetricFamily)
        source = GaugeMetricFamily(
            "gpuprobe_source_available", "Whether a source can be used.", labels=["source"]
        )
        for state in self._board.states:
            ended = state.what in ("stopped", "released", "unavailable")
            source.add_metric([state.name], int(isinstance(state.access, Known) and not ended))
        yield source
        recording = GaugeMetricFamily("gpuprobe_recording_up", "1 while the recording is written.")
        recording.add_metric([], int(self._records))
        yield recording
        judged = GaugeMetricFamily(
            "gpuprobe_verdict_timestamp_seconds",
            "When a verdict was last given; it says nothing of now.",
            labels=["kind", "certainty", "pci_bus_id"],
        )
        for key, at in self._verdicts.items():
            judged.add_metric(list(key), at)
        yield judged

    def _fresh(self) -> Iterator[tuple[Row, Any]]:
        """Rows with a sample that is true now."""
        here = self._clock()
        for pci, (sample, at) in self._sampled.items():
            row = self._board.rows[pci]
            if not row.over and here - at <= STALE_S:
                yield row, sample

    def _values(self, gauge: Any) -> Iterator[Any]:
        labels = ["gpu", "UUID", "pci_bus_id"]
        fresh = [(self._labels(row), sample) for row, sample in self._fresh()]
        for field, name, text, factor in PLAIN:
            family = gauge(f"gpuprobe_{name}", text, labels=labels)
            for values, sample in fresh:
                value = getattr(sample, field)
                if value is not None:
                    family.add_metric(values, value * factor)
            yield family
        family = gauge(
            "gpuprobe_clocks_event_reason",
            "1 where the clocks are held back for this reason.",
            labels=[*labels, "reason"],
        )
        for values, sample in fresh:
            if sample.clocks_event_reasons is not None:
                for bit, reason in REASONS:
                    active = int(bool(sample.clocks_event_reasons & bit))
                    family.add_metric([*values, reason.replace(" ", "_")], active)
        yield family

    def _counted(self, counter: Any) -> Iterator[Any]:
        xids = counter(
            "gpuprobe_xid_errors",
            "Xids reported since gpuprobe started.",
            labels=["pci_bus_id", "xid"],
        )
        for (device, code), times in self._xids.items():
            xids.add_metric([bus_id(device) if device else "", str(code)], times)
        yield xids
        aer = counter(
            "gpuprobe_pcie_aer_errors",
            "The kernel's AER counters of a GPU or of a port above it.",
            labels=["pci_bus_id", "severity", "error"],
        )
        other = counter(
            "gpuprobe_device_errors",
            "NVML's counters, since the driver was loaded or for life; only rises mean something.",
            labels=["pci_bus_id", "counter"],
        )
        here = self._clock()
        for pci, held in self._counters.items():
            row = self._board.rows.get(pci.slot)
            if row is not None and row.over:
                continue
            for name, (value, at) in held.items():
                if here - at > COUNTERS_STALE_S:
                    continue
                file, _, error = name.partition(".")
                if file.startswith("aer_dev_"):
                    severity = file.removeprefix("aer_dev_")
                    aer.add_metric([bus_id(pci), severity, error], value)
                else:
                    other.add_metric([bus_id(pci), name], value)
        yield aer
        yield other

    def _labels(self, row: Row) -> list[str]:
        index = "" if row.index is None else str(row.index)
        return [index, self._uuids.get(row.pci, ""), bus_id(row.pci)]


def bus_id(pci: PciAddress) -> str:
    """As NVML spells it: `00000000:4B:00.0`."""
    return f"{pci.domain:08X}:{pci.bus:02X}:{pci.device:02X}.{pci.function}"


def parse_endpoint(text: str) -> tuple[str, int]:
    """Host and port of `9600`, `:9600`, `HOST:PORT` or `[::1]:9600`; without a host, loopback.

    Raises:
        UsageError: It is none of these.
    """
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 65536):
        raise UsageError(
            f"{text!r} is no HOST:PORT", hint="Such as --metrics 9600, which is 127.0.0.1:9600."
        )
    return host, int(port)


class Endpoint:
    """Serves metrics from a thread of its own.

    Args:
        metrics: What is served.
        host: Where to listen. port: 0 for any free one.

    Attributes:
        port: The port that is listened on. url: Where a scraper finds it, from the host as named.

    Raises:
        UsageError: The address cannot be used, or prometheus-client is missing.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        try:
            metrics.render()
        except ImportError as error:
            raise UsageError(
                "--metrics needs prometheus-client", hint="pip install 'gpuprobe[metrics]'"
            ) from error
        server = _Server6 if ":" in host else _Server
        shown = f"[{host}]" if ":" in host else host
        try:
            self._server = server((host, port), _Handler)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {shown}:{port}: {error.strerror or error}", hint=_other(error)
            ) from error
        self._server.metrics = metrics
        self.port = int(self._server.server_address[1])
        self.url = f"http://{shown}:{self.port}/metrics"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; answers that are under way are left."""
        self._server.shutdown()
        self._server.server_close()


def _other(error: OSError) -> str:
    """What to try where a port cannot be listened on."""
    if error.errno == errno.EADDRINUSE:
        return "Another exporter is there. Name another port: --metrics 9601"
    if error.errno == errno.EACCES:
        return "Ports below 1024 are for root. Name a higher one: --metrics 9600"
    return "The host must be an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them."


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 16
    metrics: Metrics

    def __init__(self, *args: Any) -> None:
        self.free = threading.BoundedSemaphore(CLIENTS)
        super().__init__(*args)

    def server_bind(self) -> None:
        """Bind without the look-up of the host's name, which can take long."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or at once with "later" when all are taken."""
        if self.free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.settimeout(0.0)
            request.send(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's problem."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_S
    server: _Server
    server_version = "gpuprobe"
    sys_version = ""

    def do_GET(self) -> None:
        """The metrics at /metrics, and nothing else."""
        self.wfile.write(self._head())

    def do_HEAD(self) -> None:
        """What a health check asks for: the same without the body."""
        self._head()

    def do_POST(self) -> None:
        """Nothing here can be written."""
        self.send_response(405)
        self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815 - named by http.server

    def _head(self) -> bytes:
        """Answer up to the body, which is given; empty where the answer is complete already."""
        if self.path.partition("?")[0] not in ("/metrics", "/"):
            self.send_error(404)
            return b""
        body = self.server.metrics.render()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return body

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by http.server
        """Scrapes are not logged."""
