"""Nothing in the inputs failed.

When:
    No line of any input is evidence of a fault. Text that only talks about faults (documentation,
    source code, a DHCP transaction id, a network link that went down) is no fault, and neither is
    a device that somebody removed on purpose.

What it is worth:
    As much as the inputs: which sources were not among them is listed under what was not checked.
"""

from gpuprobe.diagnosis import Kind

KIND = Kind.NO_FAULT
