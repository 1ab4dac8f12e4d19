"""Read the catalogue's data files, and refuse what does not hold together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pkgutil import get_data
from typing import Any

try:
    import tomli  # compiled, and three times as fast
except ModuleNotFoundError:  # gpuprobe was installed without its dependencies, inside an engine
    import tomllib as tomli  # type: ignore[no-redef]

from gpuprobe.errors import CatalogueError


class Entry:
    """One table of a data file, read with checks.

    Attributes:
        where: File and entry, for error messages.
    """

    def __init__(self, where: str, data: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self.where = where
        self._data = data
        self._sources = sources
        self._read: set[str] = set()

    def _get(self, key: str, kind: type, default: Any) -> Any:
        self._read.add(key)
        value = self._data.get(key, default)
        if value is None:
            raise CatalogueError(f"{self.where} has no {key!r}")
        if not isinstance(value, kind):
            raise CatalogueError(f"{self.where}: {key!r} is not a {kind.__name__}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text; `default` where there is none, an error where that is None.

        Raises:
            CatalogueError: The text is missing, empty although required, or no text.
        """
        value: str = self._get(key, str, default)
        if default is None and not value.strip():
            raise CatalogueError(f"{self.where}: {key!r} is empty")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number, with the rules of `text`."""
        value: int = self._get(key, int, default)
        return value

    def flag(self, key: str) -> bool:
        """True or false; false where it is missing."""
        value: bool = self._get(key, bool, False)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty where it is missing."""
        return tuple(str(item) for item in self._get(key, list, []))

    def tables(self, key: str) -> tuple[Mapping[str, Any], ...]:
        """A list of small tables; empty where it is missing."""
        return tuple(self._get(key, list, []))

    def table(self, key: str) -> Mapping[str, Any]:
        """A small table; empty where it is missing."""
        value: Mapping[str, Any] = self._get(key, dict, {})
        return value

    def choice(self, key: str, allowed: Collection[str], default: str | None = None) -> str:
        """A text that is one of `allowed`, or the default.

        Raises:
            CatalogueError: It is none of them.
        """
        value = self.text(key, default)
        if value != default and value not in allowed:
            raise CatalogueError(f"{self.where}: {key} = {value!r} is not one of {sorted(allowed)}")
        return value

    def source(self) -> str:
        """The entry's sources in full, joined by semicolons.

        Raises:
            CatalogueError: There is none, or one that the file does not define.
        """
        keys = self.texts("source")
        if not keys:
            raise CatalogueError(f"{self.where} names no source")
        unknown = [key for key in keys if key not in self._sources]
        if unknown:
            raise CatalogueError(f"{self.where}: source {unknown[0]!r} is not defined")
        return "; ".join(self._sources[key] for key in keys)

    def done(self) -> None:
        """Say that all was read.

        Raises:
            CatalogueError: A key stands in the file that nothing reads, as a misspelt one does.
        """
        extra = sorted(set(self._data) - self._read)
        if extra:
            raise CatalogueError(f"{self.where} has {extra[0]!r}, which nothing reads")


class DataFile:
    """One data file of the catalogue.

    Attributes:
        name: Its name without `.toml`.
        data: What it holds.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        # `importlib.resources` would do the same, and imports as much as the rest of a run.
        data = get_data("gpuprobe.catalog", f"{name}.toml") or b""
        try:
            self.data: dict[str, Any] = tomli.loads(data.decode("utf-8"))
        except tomli.TOMLDecodeError as error:
            raise CatalogueError(f"{name}.toml cannot be read: {error}") from error

    def entries(self, table: str, key: str) -> Iterator[Entry]:
        """The entries of one list of tables, in order.

        Args:
            table: Name of the list.
            key: The key that must differ from entry to entry.

        Raises:
            CatalogueError: The list is missing or a key comes twice.
        """
        rows = self.data.get(table)
        if not rows:
            raise CatalogueError(f"{self.name}.toml has no [[{table}]]")
        seen: set[object] = set()
        for row in rows:
            value = row.get(key)
            where = f"{self.name}.toml, {table} {value}"
            if value in seen:
                raise CatalogueError(f"{where} comes twice")
            seen.add(value)
            yield Entry(where, row, self.data.get("sources", {}))
