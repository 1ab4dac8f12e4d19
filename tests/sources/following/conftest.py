"""What tests of followers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from followed import Followed

from gpuprobe.events import SourceChanged
from gpuprobe.sources.following.base import Follower


@pytest.fixture
def follow() -> Iterator[Callable[[Follower], Followed]]:
    started: list[Followed] = []

    def begin(source: Follower) -> Followed:
        one = Followed(source)
        started.append(one)
        one.until(lambda seen: seen.has(SourceChanged))
        return one

    yield begin
    for one in started:
        one.source.stop()
