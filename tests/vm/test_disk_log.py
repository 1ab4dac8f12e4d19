import struct

import disk_log


def entry(sector, flags=0, data=b""):
    head = struct.pack("<QQQQ", sector, len(data) // 512, flags, 0)
    return head.ljust(512, b"\0") + data


def test_what_was_not_flushed_is_lost(tmp_path):
    """A write before the last flush and one that forces itself are kept, a later one is not."""
    one, two, three = (bytes([n]) * 512 for n in (1, 2, 3))
    head = struct.pack("<QQQI", disk_log.MAGIC, 1, 0, 512).ljust(512, b"\0")
    log = head + entry(0, data=one) + entry(0, disk_log.FLUSH)
    log += entry(1, data=two) + entry(2, disk_log.FUA, three)
    (tmp_path / "log").write_bytes(log)
    (tmp_path / "before").write_bytes(bytes(4 * 512))

    made = tmp_path / "made"
    assert disk_log.as_left_by_a_power_cut(tmp_path / "before", tmp_path / "log", made) == (2, 1)
    assert made.read_bytes() == one + bytes(512) + three + bytes(512)
