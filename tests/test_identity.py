"""One address type for every spelling."""

from __future__ import annotations

import pytest

from gpuprobe.errors import AddressError
from gpuprobe.identity import PciAddress


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0000:04:00.0", "0000:04:00.0"),
        ("00000000:5A:00.0", "0000:5a:00.0"),
        ("PCI:0000:04:00", "0000:04:00.0"),
        ("pci:0001:c3:00", "0001:c3:00.0"),
        ("04:00.1", "0000:04:00.1"),
        ("GPU-0000:81:00", "0000:81:00.0"),
        (" 0000:04:1f.7 ", "0000:04:1f.7"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("0000FFFF:01:00.0", "ffff:01:00.0"),
    ],
)
def test_every_spelling_becomes_the_kernel_s(text: str, canonical: str) -> None:
    """Prefix, case, digits of the domain and a missing function do not matter."""
    assert str(PciAddress.parse(text)) == canonical


@pytest.mark.parametrize(
    "text", ["", "GPU 0", "0000:04:00.8", "0000:04:20.0", "04:00:00:00", "0000:zz:00.0", "12:34:56"]
)
def test_what_is_no_address_is_refused_with_a_hint(text: str) -> None:
    """A function above 7, a device above 31 and a time of day are no addresses."""
    with pytest.raises(AddressError) as caught:
        PciAddress.parse(text)
    assert "lspci" in caught.value.hint
    assert PciAddress.try_parse(text) is None


def test_none_is_no_address() -> None:
    """A line that names nothing gives None."""
    assert PciAddress.try_parse(None) is None


def test_an_assumed_domain_is_noted_and_compares_equal() -> None:
    """04:00.0 and 0000:04:00.0 are one device; only one of them said so."""
    short, full = PciAddress.parse("04:00.0"), PciAddress.parse("0000:04:00.0")

    assert short == full
    assert hash(short) == hash(full)
    assert (short.domain_assumed, full.domain_assumed) == (True, False)


def test_functions_of_one_card_share_a_slot() -> None:
    """Sound and USB functions belong to function 0."""
    assert PciAddress.parse("0000:01:00.1").slot == PciAddress.parse("0000:01:00.0")


@pytest.mark.parametrize(
    ("requester", "address"),
    [(0x2100, "0000:21:00.0"), (0x00E4, "0000:00:1c.4"), (0xFFFF, "0000:ff:1f.7")],
)
def test_a_requester_id_is_bus_device_function(requester: int, address: str) -> None:
    """AER and DPC print sixteen bits."""
    assert str(PciAddress.from_requester_id(requester)) == address


def test_addresses_sort_by_domain_bus_device_function() -> None:
    """Lists of devices have one order."""
    texts = ["0001:00:00.0", "0000:10:00.0", "0000:02:00.1", "0000:02:00.0"]

    assert [str(a) for a in sorted(map(PciAddress.parse, texts))] == [
        "0000:02:00.0", "0000:02:00.1", "0000:10:00.0", "0001:00:00.0",
    ]  # fmt: skip
