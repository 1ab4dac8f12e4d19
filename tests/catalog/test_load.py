"""What does not hold together in a data file is refused, with its place."""

from __future__ import annotations

import pytest

from gpuprobe.catalog.load import DataFile, Entry
from gpuprobe.errors import CatalogueError


def _entry(**data):
    return Entry("made.toml, thing 1", data, {"book": "A book"})


def test_source_is_written_out():
    """A source is given by key and shown in full."""
    assert _entry(source=["book", "book"]).source() == "A book; A book"


@pytest.mark.parametrize(
    ("data", "read", "words"),
    [
        ({}, lambda e: e.text("name"), "has no 'name'"),
        ({"name": " "}, lambda e: e.text("name"), "is empty"),
        ({"name": 3}, lambda e: e.text("name"), "not a str"),
        ({"loss": "some"}, lambda e: e.choice("loss", ("yes", "no")), "not one of"),
        ({}, lambda e: e.source(), "names no source"),
        ({"source": ["film"]}, lambda e: e.source(), "'film' is not defined"),
        ({"nmae": "x"}, lambda e: e.done(), "'nmae', which nothing reads"),
    ],
)
def test_faults_are_named(data, read, words):
    """Each fault is an error that names the entry."""
    with pytest.raises(CatalogueError, match=words) as caught:
        read(_entry(**data))
    assert "thing 1" in str(caught.value)


def test_defaults():
    """What may be missing gives its default."""
    entry = _entry()
    assert entry.text("note", "") == ""
    assert entry.choice("loss", ("yes",), "no") == "no"
    assert entry.texts("tags") == ()
    assert not entry.flag("unused")


def test_code_twice():
    """Two entries with one code are refused."""
    file = DataFile("recovery")
    file.data["recovery"].append(dict(file.data["recovery"][0]))
    with pytest.raises(CatalogueError, match="twice"):
        list(file.entries("recovery", "value"))


def test_missing_list():
    """A list that is not in the file is refused."""
    with pytest.raises(CatalogueError, match=r"no \[\[xid\]\]"):
        list(DataFile("recovery").entries("xid", "code"))
