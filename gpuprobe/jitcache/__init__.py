"""Integrity of JIT caches: find damaged entries, move them aside, put them back.

Nothing of a cache is ever loaded, unpickled or run. One file a kind of cache; `api` is the door.
"""

from __future__ import annotations
