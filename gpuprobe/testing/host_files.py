"""What a healthy host's files in /proc and the cgroup file system say, for `FakeSysfs`."""

from __future__ import annotations

MEMINFO = """\
MemTotal:       65841532 kB
MemFree:        20131456 kB
MemAvailable:   48234496 kB
Buffers:          524288 kB
Cached:         25165824 kB
SwapCached:            0 kB
Shmem:            262144 kB
SwapTotal:       8388604 kB
SwapFree:        8388604 kB
Dirty:               128 kB
CommitLimit:    41309368 kB
Committed_AS:   18874368 kB
"""

PRESSURE = """\
some avg10=0.00 avg60=0.00 avg300=0.00 total=1024
full avg10=0.00 avg60=0.00 avg300=0.00 total=512
"""

STAT = """\
cpu  10000 20 3000 900000 500 0 100 0 0 0
cpu0 10000 20 3000 900000 500 0 100 0 0 0
ctxt 123456
btime 1790000000
processes 4321
procs_running 2
procs_blocked 0
"""

PROC_FILES = {
    "proc/meminfo": MEMINFO,
    "proc/pressure/cpu": PRESSURE,
    "proc/pressure/memory": PRESSURE,
    "proc/pressure/io": PRESSURE,
    "proc/loadavg": "0.52 0.48 0.40 2/913 4321\n",
    "proc/stat": STAT,
    "proc/uptime": "86400.00 170000.00\n",
    "proc/vmstat": "pgfault 1000\noom_kill 0\n",
    "proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.8.0-79-generic root=/dev/nvme0n1p2 ro quiet\n",
    "proc/version": "Linux version 6.8.0-79-generic (build@host) #79-Ubuntu SMP\n",
    "proc/sys/kernel/osrelease": "6.8.0-79-generic\n",
    "proc/sys/kernel/dmesg_restrict": "1\n",
    "proc/sys/kernel/random/boot_id": "3f1d1c52-8f0b-4a57-9a0e-5c1c2f6f9a10\n",
    "proc/self/cgroup": "0::/system.slice/engine.service\n",
}

CGROUP = "sys/fs/cgroup/system.slice/engine.service"

CGROUP_FILES = {
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    f"{CGROUP}/memory.max": "max\n",
    f"{CGROUP}/memory.high": "max\n",
    f"{CGROUP}/memory.current": "8589934592\n",
    f"{CGROUP}/memory.swap.current": "0\n",
    f"{CGROUP}/memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
    f"{CGROUP}/memory.pressure": PRESSURE,
    f"{CGROUP}/cpu.max": "max 100000\n",
    f"{CGROUP}/cpu.pressure": PRESSURE,
    f"{CGROUP}/io.pressure": PRESSURE,
    f"{CGROUP}/cpu.stat": (
        "usage_usec 1000000\nuser_usec 800000\nsystem_usec 200000\n"
        "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
    ),
}

NVIDIA_VERSION = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build  (build@host)
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""

NVIDIA_INFORMATION = """\
Model: \t\t {name}
IRQ:   \t\t {irq}
GPU UUID: \t {uuid}
Video BIOS: \t 95.02.18.80.5f
Bus Type: \t PCIe
DMA Size: \t 47 bits
DMA Mask: \t 0x7fffffffffff
Bus Location: \t {address}
Device Minor: \t {minor}
GPU Firmware: \t {driver}
GPU Excluded:\t No
"""
