"""The package of event types, as the rest of the project sees it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from gpuprobe import events
from gpuprobe.events import Event, GpuHung, Origin, SamplesTaken
from gpuprobe.recording.codec import KINDS


def test_every_kind_of_event_can_be_imported_from_the_package() -> None:
    """What a module of the package defines stands in its `__all__`, and a recording takes it.

    Samples that were taken together are stored each by itself.
    """
    own = {
        name
        for found in iter_modules(events.__path__)
        for name, value in vars(import_module(f"gpuprobe.events.{found.name}")).items()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    }

    assert len(own) > 40
    assert own - {SamplesTaken.__name__} == KINDS.keys()
    assert own <= set(events.__all__)


def test_an_event_of_one_module_has_the_defaults_of_all() -> None:
    """Defaults of the base class and its own are there; a field without one has to be given."""
    event = GpuHung(origin=Origin("-", 1, "x"), driver="xe", what="reset")

    assert (event.count, event.device, event.recovered) == (1, None, None)
    assert GpuHung._needed == {"origin", "driver", "what"}
