"""Texts that several tests judge: what people paste, and what programs print."""

from __future__ import annotations

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
SMI = "Unable to determine the device handle for GPU 0000:3b:00.0: Unknown Error"
CUDA = "CUDA error: unspecified launch failure"

ISSUE = f"""# GPU lost after update

**Describe the bug**
Since the update my GPU disappears after some minutes of work with the model.

## Logs
```
[  812.110001] {XID}
```

## Steps to reproduce
Run the server and send a long prompt to it until the card is gone.
"""
DMESG = f"""[    0.000000] Linux version 6.8.0
[  812.110001] {XID}
[  812.110009] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
"""
TRACEBACK = f"""Traceback (most recent call last):
  File "/srv/app/main.py", line 20, in <module>
    run(model)
  File "/srv/app/model.py", line 81, in run
    return self.layer(x)
RuntimeError: {CUDA}
"""
SHELL = f"""root@node7:~# nvidia-smi
{SMI}
root@node7:~# dmesg | grep Xid
"""
