"""PCI devices in sysfs and in the kernel's uevents: which are there, their links and counters."""
