"""The generated pages are those that are committed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gpuprobe.diagnosis import Kind

DOCS = Path(__file__).parent.parent / "docs"


def _make_pages():
    spec = importlib.util.spec_from_file_location("make_pages", DOCS / "make_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = _make_pages().pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_is_current(name):
    """A page in docs/ is what the code gives now; `make docs` writes it."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]


def test_every_kind_has_a_page():
    """Each verdict kind has its page, and the index links to it."""
    for kind in Kind:
        assert f"rules/{kind.value}.md" in PAGES
        assert f"({kind.value}.md)" in PAGES["rules/README.md"]


def test_no_stale_page():
    """docs/rules and docs/catalogue hold no page that nothing writes any more."""
    there = {
        path.relative_to(DOCS).as_posix()
        for folder in ("rules", "catalogue")
        for path in (DOCS / folder).glob("*.md")
    }
    assert there == {name for name in PAGES if "/" in name}
