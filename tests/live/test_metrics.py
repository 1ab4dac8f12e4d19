"""The Prometheus endpoint."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from http.client import HTTPConnection
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from gpuprobe.clock import now
from gpuprobe.errors import UsageError
from gpuprobe.events import (
    CountersSampled,
    DeviceChanged,
    DeviceIdentified,
    GpuSampled,
    Origin,
    Setting,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.metrics import CLIENTS, STALE_S, Endpoint, Metrics, parse_endpoint
from gpuprobe.live.session import Update

GPU = PciAddress.parse("0000:4b:00.0")
ID = 'pci_bus_id="00000000:4B:00.0"'


def base(text: str = "x", device: PciAddress | None = GPU) -> dict[str, Any]:
    return {"origin": Origin("nvml", None, text), "stamp": now(), "device": device}


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    made = Metrics(clock)
    known = DeviceIdentified(**base(), uuid="GPU-1", index=3, is_gpu=True, name="H200")
    sample = GpuSampled(**base(), power_w=312.5, sm_clock_mhz=1980.0, clocks_event_reasons=0x4)
    made.take(Update((sample,), (known,)))
    return made


def series(metrics: Metrics) -> dict[str, float]:
    lines = metrics.render().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_a_sample_is_served_with_units_and_labels(metrics: Metrics) -> None:
    """Base units, the index, the UUID and the address as NVML spells it."""
    found = series(metrics)

    labels = f'UUID="GPU-1",gpu="3",{ID}'
    assert found[f"gpuprobe_power_watts{{{labels}}}"] == 312.5
    assert found[f"gpuprobe_sm_clock_hertz{{{labels}}}"] == 1.98e9
    assert found[f'gpuprobe_clocks_event_reason{{{labels},reason="power_cap"}}'] == 1
    assert not any("temperature" in name for name in found)  # nobody gave one


def test_presence_goes_to_zero_and_values_go_away(metrics: Metrics) -> None:
    """A lost GPU: its presence stays as a 0, its last values are not repeated; it may return."""
    name = f"gpuprobe_device_present{{{ID}}}"
    assert series(metrics)[name] == 1
    lost = XidReported(**base("NVRM: Xid"), code=79)
    metrics.take(Update((), (lost,)))

    found = series(metrics)
    assert found[name] == 0
    assert not any(one.startswith("gpuprobe_power_watts") for one in found)

    metrics.take(Update((), (DeviceChanged(**base(), what="added"),)))
    assert series(metrics)[name] == 1


def test_a_value_that_does_not_come_again_disappears(metrics: Metrics, clock: Clock) -> None:
    """A probe that hangs leaves no series that look alive; presence is another test's word."""
    clock.at += STALE_S + 1

    found = series(metrics)

    assert not any(one.startswith("gpuprobe_power") for one in found)
    assert found[f"gpuprobe_device_present{{{ID}}}"] == 1


def test_counters(metrics: Metrics) -> None:
    """Xids by code with their counts; AER by severity and error; the driver's own by name."""
    xid = XidReported(**base("NVRM: Xid"), code=31, count=3)
    values = (("aer_dev_correctable.RxErr", 7), ("pcie_replay", 2))
    for _ in range(2):
        metrics.take(Update((CountersSampled(**base(), counters=values),), (xid,)))

    found = series(metrics)

    assert found[f'gpuprobe_xid_errors_total{{{ID},xid="31"}}'] == 6
    aer = f'gpuprobe_pcie_aer_errors_total{{error="RxErr",{ID},severity="correctable"}}'
    assert found[aer] == 7
    assert found[f'gpuprobe_device_errors_total{{counter="pcie_replay",{ID}}}'] == 2


def test_an_xid_that_a_server_prints_is_not_counted(metrics: Metrics) -> None:
    """It may be old or another machine's, and an alert hangs on the count."""
    metrics.take(Update((), (XidReported(**base("Xid"), code=31, setting=Setting.BARE),)))

    assert not any(one.startswith("gpuprobe_xid_errors_total{") for one in series(metrics))


@pytest.fixture
def endpoint(metrics: Metrics) -> Iterator[Endpoint]:
    made = Endpoint(metrics, "127.0.0.1", 0)
    yield made
    made.stop()


def get(endpoint: Endpoint, path: str = "/metrics") -> Any:
    return urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}{path}", timeout=5)


def test_the_endpoint_answers(endpoint: Endpoint) -> None:
    """The text format at /metrics, 404 elsewhere."""
    with get(endpoint) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert b"gpuprobe_power_watts" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(endpoint, "/etc/passwd")


def _ask(endpoint: Endpoint, method: str, path: str = "/metrics") -> tuple[int, Message, bytes]:
    connection = HTTPConnection("127.0.0.1", endpoint.port, timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def test_a_health_check_may_ask_for_the_headers_alone(endpoint: Endpoint) -> None:
    """HEAD is answered as GET is, without the body."""
    status, headers, body = _ask(endpoint, "HEAD")

    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) == len(_ask(endpoint, "GET")[2])
    assert _ask(endpoint, "HEAD", "/other")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(endpoint: Endpoint, method: str) -> None:
    """Other methods are refused, and the answer says which are not."""
    status, headers, _ = _ask(endpoint, method)

    assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_slow_clients_keep_nobody_out_for_long(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that say nothing are let go; while they fill all places others get a 503."""
    monkeypatch.setattr("gpuprobe.live.metrics._Handler.timeout", 0.5)
    slow = [socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(CLIENTS)]
    time.sleep(0.1)
    with pytest.raises((urllib.error.HTTPError, ConnectionError)):
        get(endpoint)
    until = time.monotonic() + 10
    while True:
        try:
            with get(endpoint) as answer:
                assert answer.status == 200
            break
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.1)
    for one in slow:
        one.close()


def test_an_address_in_use_is_one_clear_error(metrics: Metrics, endpoint: Endpoint) -> None:
    """The address, the reason, what to do."""
    with pytest.raises(UsageError, match="cannot listen") as raised:
        Endpoint(metrics, "127.0.0.1", endpoint.port)

    assert raised.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9600", ("127.0.0.1", 9600)),
        (":9600", ("127.0.0.1", 9600)),
        ("0.0.0.0:9600", ("0.0.0.0", 9600)),
        ("[::1]:9600", ("::1", 9600)),
    ],
)
def test_only_a_named_host_is_served_beyond_this_machine(
    text: str, expected: tuple[str, int]
) -> None:
    """A port alone is loopback."""
    assert parse_endpoint(text) == expected


@pytest.mark.parametrize("text", ["", "host", "host:", "1:99999", "x:-1", ":٩"])
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    """Anything else is a usage error."""
    with pytest.raises(UsageError):
        parse_endpoint(text)


def test_a_host_that_is_not_this_machine_is_told_so() -> None:
    """Another port would not help."""
    with pytest.raises(UsageError) as caught:
        Endpoint(Metrics(), "192.0.2.1", 0)

    assert "address of this machine" in caught.value.hint


def test_where_a_scraper_finds_it() -> None:
    """Host, port and path in one piece, for a browser."""
    made = Endpoint(Metrics(), "127.0.0.1", 0)
    made.stop()

    assert made.url == f"http://127.0.0.1:{made.port}/metrics"
