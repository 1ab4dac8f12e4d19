"""Programs that somebody else started, followed as they run: unit, container, file, process."""
