"""The generated pages are those that are committed."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from gpuprobe.diagnosis import Kind

DOCS = Path(__file__).parent.parent / "docs"


@cache
def pages() -> dict[str, str]:
    """The pages as the code gives them now, by name."""
    spec = importlib.util.spec_from_file_location("make_pages", DOCS / "make_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def test_pages_are_current():
    """A page in docs/ is what the code gives now; `make docs` writes it."""
    for name, text in pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, name


def test_every_kind_has_a_page():
    """Each verdict kind has its page, and the index links to it."""
    for kind in Kind:
        assert f"rules/{kind.value}.md" in pages()
        assert f"({kind.value}.md)" in pages()["rules/README.md"]


def test_no_stale_page():
    """docs/rules and docs/catalogue hold no page that nothing writes any more."""
    there = {
        path.relative_to(DOCS).as_posix()
        for folder in ("rules", "catalogue")
        for path in (DOCS / folder).glob("*.md")
    }
    assert there == {name for name in pages() if "/" in name}
