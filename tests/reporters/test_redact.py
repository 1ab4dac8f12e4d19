"""Redaction replaces what identifies, and nothing that the diagnosis rests on."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gpuprobe.errors import UsageError
from gpuprobe.reporters.redact import Redactor, parse_keep


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ines/x.log", "/home/user-1/x.log"),
        ("/Users/ines/x.log", "/Users/user-1/x.log"),
        (r"C:\Users\Ines Maria\x.log", r"C:\Users\user-1\x.log"),
        ("USER=ines LOGNAME=ines", "USER=user-1 LOGNAME=user-1"),
        ("ines@kestrel:~$ ls", "user-1@host-1:~$ ls"),
        ("Apr 02 19:03:38 kestrel kernel: x", "Apr 02 19:03:38 host-1 kernel: x"),
        (
            "2026-04-02T19:03:38.5+02:00 kestrel sshd[12]: x",
            "2026-04-02T19:03:38.5+02:00 host-1 sshd[12]: x",
        ),
        (
            "<5>1 2026-04-02T19:03:38Z kestrel app 12 - - x",
            "<5>1 2026-04-02T19:03:38Z host-1 app 12 - - x",
        ),
        ('"_HOSTNAME":"kestrel"', '"_HOSTNAME":"host-1"'),
        ("listening on 10.1.2.3:8000", "listening on ip-1:8000"),
        ("from fe80::a1:b2c3 port 2", "from ip-1 port 2"),
        ("link/ether a0:b1:c2:d3:e4:f5 brd", "link/ether mac-1 brd"),
        ("mail ines@example.org now", "mail email-1 now"),
        ("Board Serial Number: 1325021000001", "Board Serial Number: serial-1"),
        ("Device Serial Number 01-23-45-67-89-ab-cd-ef", "Device Serial Number serial-1"),
        ("Service Tag: 8XK2J03", "Service Tag: serial-1"),
        ("GPU-5f0c1a2b-1111-4222-8333-0123456789ab", "GPU-uuid-1"),
        ("_BOOT_ID=0123456789abcdef0123456789abcdef", "_BOOT_ID=uuid-1"),
        ("HF_TOKEN=hf_abcdefghijkl", "HF_TOKEN=[secret-1]"),
        ("WANDB_API_KEY='abc def'", "WANDB_API_KEY='[secret-1]'"),
        ("DB_PASSWORD=123456", "DB_PASSWORD=[secret-1]"),
        ("--api-key abc123 --port 1", "--api-key [secret-1] --port 1"),
        ("api_key='abc123', n=1", "api_key='[secret-1]', n=1"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer [secret-1]"),
        ("https://ines:pw@git.lab.example/x", "https://[secret-1]@host-1/x"),
        ("sk-proj-abcdefghijklmnop", "[secret-1]"),
        ("ghp_abcdefghijklmnop1234", "[secret-1]"),
        ("AKIAABCDEFGHIJKLMNOP", "[secret-1]"),
    ],
)
def test_what_identifies_is_replaced(text, expected) -> None:
    """One of each kind."""
    assert Redactor().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:04:00): 79, pid=2201, name=python3, GPU has fallen off the bus.",
        "pcieport 0000:00:03.0: AER: Corrected error received: 0000:04:00.0",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  595.91.07  Release Build",
        "GSP firmware version 580.105.8.1, CUDA 12.4.1.0, VBIOS Version: 94.2.26.1",
        "#new-token: 8192, #cached-token: 0, #running-req: 2",
        "max_tokens=4096 --max-tokens 300 eos_token_id=2 tokens: 17",
        "c10::AcceleratorError at::native std::vector<int>",
        "Sep 22 07:44:58",
        "[ 1919.359145] nvidia 0000:04:00.0: AER: can't recover (no error_detected callback)",
        "user@1000.service: Consumed 3s CPU time.",
        "RmInitAdapter failed! (0x26:0x56:1470)",
        "KeyError: 'model.layers.0' in get_group",
        "listening on 127.0.0.1 and 0.0.0.0",
        "LnkSta: Speed 8GT/s (ok), Width x16 (ok)",
        "/root/.cache/huggingface",
        "HF_TOKEN= PASSWORD=None api_key=null",
    ],
)
def test_what_the_diagnosis_rests_on_stays(text) -> None:
    """Addresses of devices, codes, versions, times and counts are never replaced."""
    assert Redactor().text(text) == text


def test_pseudonyms_are_the_same_all_over_a_report(loss) -> None:
    """A host named in a log prefix is found in every other text too."""
    redactor = Redactor()
    redacted = redactor.diagnosis(loss)

    evidence = redacted.verdicts[0].evidence
    assert redacted.host == "host-1"
    assert evidence[0].text.startswith("Apr 02 19:03:38 host-1 kernel: NVRM: Xid (PCI:0000:0b:00)")
    assert evidence[0].input == redacted.inputs[0].path == "/home/user-1/incident/kernel.log"
    assert redacted.verdicts[0].device.pci == loss.verdicts[0].device.pci
    assert redacted.verdicts[0].at == loss.verdicts[0].at
    assert redactor.replaced()["host-1"] >= 6


def test_a_name_is_found_wherever_it_stands_once_known() -> None:
    """Full and short host names are one host; a name inside a longer word is left alone."""
    redactor = Redactor()
    redactor.text("Apr 02 19:03:38 kestrel kernel: x")

    assert redactor.text("kestrel.lab.example.org or kestrel") == "host-1 or host-1" or (
        redactor.text("kestrel.lan, kestrel") == "host-1, host-1"
    )
    assert redactor.text("kestrels fly") == "kestrels fly"


def test_a_host_with_a_common_name_is_replaced_only_as_a_host() -> None:
    """On a machine called `gpu` the report still speaks of GPUs."""
    redactor = Redactor()

    assert redactor.text("Apr 02 19:03:38 gpu kernel: gpu 0 is lost") == (
        "Apr 02 19:03:38 host-1 kernel: gpu 0 is lost"
    )


def test_redacting_twice_changes_nothing_more(loss) -> None:
    """Pseudonyms are not redacted again."""
    once = Redactor().diagnosis(loss)

    assert Redactor().text(once.verdicts[0].evidence[0].text) != ""
    redactor = Redactor()
    assert redactor.text("HF_TOKEN=[secret-1] for ip-1 and uuid-1") == (
        "HF_TOKEN=[secret-1] for ip-1 and uuid-1"
    )
    assert redactor.replaced() == {}


def test_the_summary_counts_things_and_times() -> None:
    """Plural and singular are right."""
    redactor = Redactor()
    redactor.text("10.0.0.1 10.0.0.1 10.0.0.2 /home/ines/")

    assert redactor.summary() == "1 user (once), 2 IP addresses (3 times)"


def test_the_map_is_for_the_owner_alone_and_holds_no_secret(tmp_path: Path) -> None:
    """0600, even over a file that was open to all; a secret is not written down."""
    output = tmp_path / "report.md"
    old = tmp_path / "report.md.redaction.txt"
    old.write_text("old")
    old.chmod(0o644)
    redactor = Redactor()
    redactor.text("/home/ines/ HF_TOKEN=hf_abcdefghijkl")

    path = redactor.write_map(output)

    assert path == old
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "user-1\tines\t1" in path.read_text()
    assert "hf_abc" not in path.read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "hostnames",
            "Apr 02 19:03:38 kestrel kernel: kestrel.lab.example.org, http://gpu7.lab:80",
        ),
        ("users", "/home/ines/x USER=ines"),
        ("ips", "10.1.2.3 and FE80::A1:B2C3"),
        ("macs", "A0:B1:C2:D3:E4:F5"),
        ("emails", "Ines@example.org"),
        ("serials", "Serial Number : 1325021000001"),
        ("uuids", "GPU-5F0C1A2B-1111-4222-8333-0123456789AB"),
        ("ssids", "SSID 'Nest'"),
    ],
)
def test_what_is_to_be_kept_stays_as_it_is_written(name, text) -> None:
    """Each name on the list keeps its kind, and without it the text changes."""
    redactor = Redactor(keep=[name])

    assert redactor.text(text) == text
    assert redactor.replaced() == {}
    assert Redactor().text(text) != text


def test_keeping_one_kind_redacts_the_others() -> None:
    """The form for a vendor keeps serials and UUIDs, and no secret."""
    redactor = Redactor(keep=parse_keep("serials, UUIDs"))

    assert redactor.text("S/N: 1325021000001 /home/ines --api-key abc123") == (
        "S/N: 1325021000001 /home/user-1 --api-key [secret-1]"
    )


def test_what_cannot_be_kept_is_refused_with_the_list() -> None:
    """Secrets are not on it."""
    with pytest.raises(UsageError, match="secrets") as caught:
        parse_keep("hostnames,secrets")

    assert "hostnames, users, ips, macs, emails, serials, uuids, ssids" in caught.value.hint


def test_one_secret_is_one_secret_everywhere() -> None:
    """Named in one text, it is found bare in another, also in capitals or percent-encoded."""
    redactor = Redactor()
    redactor.text("--api-key 0a1b2c3d4e5f6a7b")

    assert redactor.text("got 0A1B2C3D4E5F6A7B") == "got [secret-1]"
    assert redactor.text("x%3D0a1b2c3d4e5f6a7b") == "x=[secret-1]"


def test_an_identifier_is_the_same_with_and_without_dashes() -> None:
    """The journal's boot id joins with the kernel's."""
    redactor = Redactor()

    assert redactor.text("5f0c1a2b-1111-4222-8333-0123456789ab") == "uuid-1"
    assert redactor.text("_BOOT_ID=5F0C1A2B1111422283330123456789AB") == "_BOOT_ID=uuid-1"


def test_the_host_in_the_name_of_a_file_is_found() -> None:
    """`kestrel-kern.log` in another folder is the host of the lines."""
    redactor = Redactor()
    redactor.text("Apr 02 19:03:38 kestrel kernel: x")

    assert redactor.text("/srv/logs/kestrel-kern.log") == "/srv/logs/host-1-kern.log"


def test_a_word_in_an_address_is_not_taken_for_a_host_elsewhere() -> None:
    """`api` of `api.lab.example.edu` is a word, `gpu7` is a name."""
    redactor = Redactor()
    redactor.text("http://api.lab.example.edu:80 http://gpu7.lab.example.edu:80")

    assert redactor.text("the api of gpu7") == "the api of host-2"
