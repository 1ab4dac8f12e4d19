"""Paths become streams, and what cannot be read says why."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import socket
import sys
import tarfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprobe.errors import InputUnreadableError
from gpuprobe.sources.files import unpack
from gpuprobe.sources.files.inputs import RawInput, UnreadableInput, open_inputs

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LOG = b"".join(b"[%5d.%06d] usb 1-1: line %d\n" % (i, i, i) for i in range(2000))
COMPRESS = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstd.compress}


def read(found: RawInput) -> bytes:
    with found.open() as stream:
        return stream.read()


def read_all(*paths, stdin=None) -> list[tuple[str, bytes | UnreadableInput]]:
    return [
        (found.path, read(found) if isinstance(found, RawInput) else found)
        for found in open_inputs(paths, stdin=stdin)
    ]


def tar_of(members: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Pipe(io.RawIOBase):
    """A stream that cannot seek, as a pipe."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        return self._inner.readinto(buffer)


def zip_of(members: dict[str, bytes], method=zipfile.ZIP_DEFLATED, seekable=True) -> bytes:
    out = io.BytesIO()
    target = out
    if not seekable:
        # What cannot seek makes zipfile write the sizes behind each member.
        class Unseekable(io.RawIOBase):
            def writable(self):
                return True

            def write(self, data):
                return out.write(data)

        target = Unseekable()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_plain_file_can_be_opened_again(tmp_path):
    """A file is read from the start each time, with its size as a hint."""
    path = tmp_path / "kern.log"
    path.write_bytes(LOG)

    (found,) = open_inputs([path])

    assert LOG == read(found) == read(found)
    assert (str(path), "kern.log", len(LOG), False, []) == (
        found.path,
        found.name,
        found.size,
        found.compressed,
        found.notes,
    )


def test_stdin_is_streamed_once():
    """`-` reads the stream; a second `-` and a second reading are refused."""
    first, second = open_inputs(["-", "-"], stdin=Pipe(LOG))

    assert (first.path, read(first)) == ("-", LOG)
    assert isinstance(second, UnreadableInput)
    with pytest.raises(InputUnreadableError):
        first.open()


@pytest.mark.parametrize("kind", COMPRESS)
def test_compression_is_known_by_magic_and_not_by_name(tmp_path, kind):
    """A compressed file under a plain name, and twice the same, read as their text."""
    path = tmp_path / "messages"
    path.write_bytes(COMPRESS[kind](LOG) + COMPRESS[kind](b"second\n"))
    (tmp_path / "twice").write_bytes(gzip.compress(COMPRESS[kind](LOG)))
    plain = tmp_path / "plain.gz"
    plain.write_bytes(LOG)

    (found,) = open_inputs([path])

    assert found.compressed
    assert LOG + b"second\n" == read(found) == read(found)
    assert [data for _, data in read_all(tmp_path / "twice", plain)] == [LOG, LOG]
    assert not found.notes


@pytest.mark.parametrize("kind", COMPRESS)
def test_torn_compression_gives_what_could_be_read_and_a_note(tmp_path, kind):
    """The beginning of a cut file is used."""
    data = b"".join(os.urandom(30).hex().encode() + b"\n" for _ in range(25_000))
    path = tmp_path / "torn"
    packed = COMPRESS[kind](data)
    path.write_bytes(packed[: len(packed) * 2 // 3])

    (found,) = open_inputs([path])
    got = read(found)

    assert data.startswith(got)
    assert len(got) > 10_000
    assert ["cut off" in note for note in found.notes] == [True]


def test_damaged_and_padded_gzip(tmp_path):
    """Damage stops with a note, zeros at the end are padding, other bytes there are a note."""
    packed = gzip.compress(LOG)
    damaged, padded, trailed = (tmp_path / name for name in ("a", "b", "c"))
    damaged.write_bytes(packed[:-200] + b"\xff" * 100 + packed[-100:])
    padded.write_bytes(packed + b"\0" * 5000)
    trailed.write_bytes(packed + b"hello, this is not gzip")

    a, b, c = open_inputs([damaged, padded, trailed])

    assert LOG.startswith(read(a))
    assert "damaged" in a.notes[0]
    assert (read(b), b.notes) == (LOG, [])
    assert read(c) == LOG
    assert "other data" in c.notes[0]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_members_are_inputs(tmp_path, mode):
    """Members come in order under `archive!member`; pictures among them are skipped by name."""
    path = tmp_path / "a.tar"
    path.write_bytes(
        tar_of(
            {
                "d/kern.log": LOG,
                "d/x.png": b"\x89PNG\r\n\x1a\n" + bytes(9000),
                "d/kern.log.1.gz": gzip.compress(LOG),
            },
            mode,
        )
    )

    kern, image, old = read_all(path)

    assert (f"{path}!d/kern.log", LOG) == kern
    assert (f"{path}!d/kern.log.1.gz", LOG) == old
    assert (f"{path}!d/x.png", True) == (image[1].path, image[1].expected)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("seekable", [True, False])
def test_zip_members_are_inputs_from_a_pipe_too(method, seekable):
    """A zip needs no seeking, whether sizes stand before or behind its members."""
    if method == zipfile.ZIP_STORED and not seekable:
        pytest.skip("nothing says where such a member ends")
    data = zip_of(
        {"dir/": b"", "dir/a.log": LOG, "b.log": b"short\n", "c.log": LOG * 20}, method, seekable
    )

    got = dict(read_all("-", stdin=Pipe(data)))

    assert got == {"-!dir/a.log": LOG, "-!b.log": b"short\n", "-!c.log": LOG * 20}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("reads", [True, False])
def test_wrong_check_sum_of_a_member_is_said(method, seekable, reads):
    """What a member holds is given, with a note where its sum, before or behind it, is another."""
    if method == zipfile.ZIP_STORED and not seekable:
        pytest.skip("nothing says where such a member ends")
    data = zip_of({"a.log": LOG, "b.log": b"short\n"}, method, seekable)
    sum_of_a = zlib.crc32(LOG).to_bytes(4, "little")
    at = data.index(sum_of_a)
    damaged = data[:at] + bytes([sum_of_a[0] ^ 1]) + data[at + 1 :]

    found = []
    for one in open_inputs(["-"], stdin=Pipe(damaged)):
        unreadable = isinstance(one, UnreadableInput)
        found.append((one.path, one.reason if unreadable else read(one) if reads else b""))

    assert [path for path, _ in found] == ["-!a.log", "-!b.log", "-"]
    assert found[0][1] == (LOG if reads else b"")
    assert "a.log is damaged (its check sum is wrong)" in found[2][1]


def test_a_cut_member_has_one_note():
    """A stored member that ends with the archive is said to be cut off, and not to be damaged too."""
    data = zip_of({"a.log": LOG}, zipfile.ZIP_STORED)

    found = read_all("-", stdin=Pipe(data[: len(LOG) // 2]))

    assert found[1][1].reason.startswith("the zip archive is cut off")
    assert len(found) == 2


def test_unread_and_half_read_members_do_not_disturb_the_next(tmp_path):
    """Only the third member is read to its end."""
    members = {"a.log": LOG * 40, "b.log": LOG * 40, "c.log": b"last\n"}
    for number, data in enumerate(
        [zip_of(members), zip_of(members, seekable=False), tar_of(members), tar_of(members, "w:gz")]
    ):
        path = tmp_path / str(number)
        path.write_bytes(data)
        texts = []
        for found in open_inputs([path]):
            if found.name == "b.log":
                with found.open() as stream:
                    assert LOG[:10] == stream.read(10)
            elif found.name == "c.log":
                texts.append(read(found))
        assert texts == [b"last\n"]


def test_archives_nest_to_a_depth(tmp_path):
    """A log four archives deep is read, one deeper is named and skipped."""
    data = LOG
    for level in range(4):
        data = tar_of({f"{level}.tar" if level else "x.log": data})
    path, deep = tmp_path / "ok.tar", tmp_path / "deep.tar"
    path.write_bytes(data)
    deep.write_bytes(zip_of({"ok.tar": data}))

    (name, got), (_, refused) = read_all(path, deep)

    assert (f"{path}!3.tar!2.tar!1.tar!x.log", LOG) == (name, got)
    assert "archives inside one another" in refused.reason


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_cut_archive_gives_its_first_members(tmp_path, make):
    """What is whole is read, and the archive says that it is cut."""
    members = {"a.log": LOG, "b.log": os.urandom(200_000).hex().encode()}
    data = make(members)
    path = tmp_path / "cut"
    path.write_bytes(data[: len(data) // 2])

    got = read_all(path)

    assert (f"{path}!a.log", LOG) == got[0]
    assert members["b.log"].startswith(got[1][1])
    assert "cut off" in got[-1][1].reason


def test_encrypted_zip_member_is_a_skip(tmp_path):
    """The member is named, and the next one is read."""
    data = bytearray(zip_of({"a.log": LOG, "b.log": b"open\n"}))
    data[6] |= 1
    path = tmp_path / "x.zip"
    path.write_bytes(data)

    secret, plain = read_all(path)

    assert secret[1].reason == "encrypted"
    assert plain[1] == b"open\n"


def test_bomb_is_stopped_with_a_note_in_flat_memory(tmp_path, monkeypatch):
    """Reading ends at the limit, and never holds more than some blocks."""
    monkeypatch.setattr(unpack, "RATIO_FREE", 32 << 20)
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb") as out:
        for _ in range(100):
            out.write(bytes(1 << 20))
    (found,) = open_inputs([path])
    tracemalloc.start()
    total = 0
    with found.open() as stream:
        while block := stream.read(1 << 20):
            total += len(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert 30 << 20 < total < 60 << 20
    assert "reading stopped" in found.notes[0]
    assert peak < 12 << 20


@pytest.mark.parametrize("sized", [True, False])
def test_members_behind_a_bomb_in_a_zip_are_read(tmp_path, monkeypatch, sized):
    """One member that expands too much ends early; the next is read, with and without sizes."""
    monkeypatch.setattr(unpack, "RATIO_FREE", 4 << 20)
    path = tmp_path / "logs.zip"
    with path.open("wb") as file:
        stream = file if sized else _Unseekable(file)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb.log", b"0" * (20 << 20))
            archive.writestr("next.log", b"next\n")

    bomb, following, note = read_all(path)

    assert 3 << 20 < len(bomb[1]) < 15 << 20
    assert following[1] == b"next\n"
    assert note[1].reason.startswith("bomb.log expands to more than")


def test_members_behind_many_bombs_are_left_out(tmp_path, monkeypatch):
    """A zip of bombs does not take its number of members times the limit."""
    monkeypatch.setattr(unpack, "RATIO_FREE", 1 << 20)
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(30):
            archive.writestr(f"{number}.log", b"0" * (3 << 20))

    found = read_all(path)

    assert sum(isinstance(content, bytes) for _, content in found) < 12
    assert found[-1][1].reason.startswith("too many members expand")


def test_members_behind_a_bomb_in_a_tar_are_read(tmp_path, monkeypatch):
    """A compressed tar is read past a member that expands too much."""
    monkeypatch.setattr(unpack, "RATIO_FREE", 4 << 20)
    path = tmp_path / "logs.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (("bomb.log", b"0" * (20 << 20)), ("next.log", b"next\n")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))

    bomb, following, note = read_all(path)

    assert len(bomb[1]) < 15 << 20
    assert following[1] == b"next\n"
    assert note[1].reason.startswith("bomb.log expands to more than")


class _Unseekable(io.RawIOBase):
    """A file that can only be written forwards, as a pipe."""

    def __init__(self, file):
        self._file = file

    def writable(self):
        return True

    def write(self, data):
        return self._file.write(data)


def test_folder_is_walked_sorted_without_links_and_specials(tmp_path, monkeypatch):
    """Loops and links inside need no word, links out and specials are named, files are read."""
    (tmp_path / "out.log").write_bytes(b"outside\n")
    root = tmp_path / "logs"
    (root / "b").mkdir(parents=True)
    (root / "a.log").write_bytes(b"a\n")
    (root / "b" / "c.log").write_bytes(b"c\n")
    (root / "loop").symlink_to(root)
    (root / "again.log").symlink_to(root / "a.log")
    (root / "z.log").symlink_to(tmp_path / "out.log")
    os.mkfifo(root / "fifo")
    sock = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(root)  # the name of a socket is short
    sock.bind("sock")

    got = read_all(root)
    sock.close()

    texts = [(path, data) for path, data in got if isinstance(data, bytes)]
    skips = {Path(skip.path).name: skip for _, skip in got if isinstance(skip, UnreadableInput)}
    assert [(f"{root}/a.log", b"a\n"), (f"{root}/b/c.log", b"c\n")] == texts
    assert {"fifo", "sock", "z.log"} == set(skips)
    assert all(skip.expected for skip in skips.values())


@pytest.mark.parametrize(("name", "data", "word"), [
    ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(100), "image"),
    ("prog", b"\x7fELF\x02\x01" + bytes(100), "program"),
    ("x.db", b"SQLite format 3\x00" + bytes(100), "SQLite"),
    ("System.evtx", b"ElfFile\x00" + bytes(100), "event log"),
    ("x.7z", b"7z\xbc\xaf\x27\x1c" + bytes(100), "packed"),
    ("noise", bytes(range(256)) * 16, "not text"),
])  # fmt: skip
def test_what_is_not_text_is_named_by_its_magic(tmp_path, name, data, word):
    """The reason says what it is."""
    path = tmp_path / name
    path.write_bytes(data)

    ((_, skip),) = read_all(path)

    assert word in skip.reason


@pytest.mark.parametrize("data", [
    b"", b"\0" * 5000 + b"kernel: NVRM: Xid\n", "Ereignis 153, nvlddmkm\r\n".encode("utf-16"),
    "M\xe4rz 3 Stra\xdfe\n".encode("latin-1") * 50, b"\x1b[31mred\x1b[0m\r" * 30, "日本語のログ\n".encode("shift-jis") * 99,
])  # fmt: skip
def test_odd_text_is_still_text(tmp_path, data):
    """NULs, UTF-16, old encodings, colours and nothing at all are read."""
    path = tmp_path / "x.log"
    path.write_bytes(data)

    assert [(str(path), data)] == read_all(path)


def test_one_unreadable_among_several_is_a_value(tmp_path):
    """A missing file does not stop the others."""
    path = tmp_path / "x.log"
    path.write_bytes(LOG)

    missing, there = read_all(tmp_path / "nope.log", path)

    assert "no such file" in missing[1].reason
    assert missing[1].hint
    assert there[1] == LOG


def test_growing_file_is_read_to_its_size_at_opening(tmp_path):
    """What is appended meanwhile is not read."""
    path = tmp_path / "x.log"
    path.write_bytes(LOG)
    (found,) = open_inputs([path])

    with path.open("ab") as more:
        more.write(b"later\n")

    assert read(found) == LOG


def test_file_that_vanished_raises_with_a_hint(tmp_path):
    """Opening later says that it is gone."""
    path = tmp_path / "x.log"
    path.write_bytes(LOG)
    (found,) = open_inputs([path])
    path.unlink()

    with pytest.raises(InputUnreadableError) as caught:
        found.open()
    assert caught.value.hint


def test_file_names_with_controls_or_odd_bytes_are_shown_safely(tmp_path):
    """A path never carries escapes to a terminal, or bytes that no output can hold."""
    for name in (b"a\x1b[31m.log", b"b\xff.log"):
        (tmp_path / os.fsdecode(name)).write_bytes(b"x\n")

    got = read_all(tmp_path)

    assert [f"{tmp_path}/a.log", f"{tmp_path}/b\\xff.log"] == [path for path, _ in got]
    assert [data for _, data in got] == [b"x\n", b"x\n"]


def test_fifo_named_itself_does_not_hang(tmp_path):
    """A FIFO that nobody writes to is skipped with a hint."""
    os.mkfifo(tmp_path / "pipe")

    ((_, skip),) = read_all(tmp_path / "pipe")

    assert (skip.reason, bool(skip.hint)) == ("a FIFO", True)


FAKE_JOURNALCTL = """#!/bin/sh
for arg; do case $arg in --file=*) file=${arg#--file=};; esac; done
case $file in *'*'*) exit 3;; esac
printf '{"MESSAGE":"%s"}\\n' "$(tail -c +9 "$file")"
stat -Lc %a "$file" >> "$0.modes"
"""


@pytest.fixture
def journalctl(tmp_path, monkeypatch):
    """A journalctl that shows what it was given."""
    tool = tmp_path / "bin" / "journalctl"
    tool.parent.mkdir()
    tool.write_text(FAKE_JOURNALCTL)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return tool


def test_binary_journal_is_converted(tmp_path, journalctl):
    """Alone, under a name that looks like a pattern, and in an archive by a private copy."""
    data = b"LPKSHHRHhello"
    folder = tmp_path / "j"
    folder.mkdir()
    (folder / "s*.journal").write_bytes(data)
    (folder / "system.journal").write_bytes(data)
    (folder / "x.tar").write_bytes(tar_of({"a.journal": data}))

    found = []
    for raw in open_inputs([folder]):
        assert raw.format == "journal-binary"
        found.append(read(raw))

    assert found == [b'{"MESSAGE":"hello"}\n'] * 3
    assert (tmp_path / "bin" / "journalctl.modes").read_text().split()[-1] == "600"


def test_binary_journal_without_journalctl_is_a_skip_with_the_command(tmp_path, monkeypatch):
    """The hint says how to convert it elsewhere."""
    path = tmp_path / "system.journal"
    path.write_bytes(b"LPKSHHRH" + bytes(100))
    monkeypatch.setattr("shutil.which", lambda name: None)

    ((_, skip),) = read_all(path)

    assert "journalctl --file" in skip.hint


@pytest.mark.skipif(shutil.which("journalctl") is None, reason="no journalctl here")
def test_real_journalctl_complaint_becomes_a_note(tmp_path):
    """A journal that is only a magic gives no text and says why."""
    path = tmp_path / "system.journal"
    path.write_bytes(b"LPKSHHRH" + bytes(4000))
    (found,) = open_inputs([path])

    assert read(found) == b""
    assert found.notes
    assert "journalctl" in found.notes[0]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([b"", b"\x1f\x8b\x08", b"BZh91AY&SY", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"]), st.binary(max_size=600),
       st.sampled_from([b"", gzip.compress(LOG), tar_of({"a": LOG}), zip_of({"a": LOG}), zstd.compress(LOG)]), st.integers(0, 4000), st.integers(0, 255))  # fmt: skip
def test_any_bytes_are_survived(head, tail, base, at, value):
    """Hostile bytes give text or a reason, never an exception."""
    data = bytearray(base)
    if data:
        data[at % len(data)] = value

    assert read_all("-", stdin=Pipe(head + bytes(data) + tail))
