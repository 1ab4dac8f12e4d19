"""The page around a report: one file that fetches nothing and runs only its own script.

Its content security policy allows the style sheet and the scripts by their hashes and nothing
else, so that a log line that got past every escape could still do nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template

from gpuprobe.reporters.plain import printable


def shown(text: object) -> str:
    """Return `text` as HTML that shows exactly it, in an element or an attribute."""
    return html.escape(printable(str(text)), quote=True)


def page(title: str, body: str, *, scripts: Sequence[str] = (), data: str = "") -> str:
    """The whole document.

    Args:
        title: Of the page; plain text.
        body: HTML.
        scripts: Programs to run, in order.
        data: HTML of elements that hold data for them.
    """
    style = part("report.css")
    runs = "\n".join(f"<script>{script}</script>" for script in scripts)
    return Template(part("report.html")).substitute(
        policy=_policy(style, scripts),
        title=shown(title),
        style=style,
        body=body,
        scripts=f"{data}\n{runs}" if scripts else "",
    )


def part(name: str) -> str:
    """The text of a file of the template."""
    return resources.files(__package__).joinpath("page", name).read_text("utf-8")


def data_element(name: str, text: str) -> str:
    """An element that holds JSON: a browser neither shows it nor runs it."""
    assert "<" not in text
    return f'<script type="application/json" id="{name}">{text}</script>'


def safe_json(value: object) -> str:
    r"""JSON in which `<` is `\u003c`."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _policy(style: str, scripts: Sequence[str]) -> str:
    run = " ".join(_hash(script) for script in scripts) or "'none'"
    rules = (
        "default-src 'none'",
        f"script-src {run}",
        f"style-src {_hash(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
