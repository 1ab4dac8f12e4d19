import re
from pathlib import Path

import pytest

from gpuprobe.testing import why_unavailable

PAGE = Path(__file__).parents[2] / "docs/testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.S | re.M)


def examples():
    for block in BLOCKS:
        space = {}
        exec(block, space)
        yield from ((name, made) for name, made in space.items() if name.startswith("test_"))


EXAMPLES = dict(examples())


def test_there_are_examples():
    """The page shows each fake at work."""
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example(name, tmp_path):
    """An example on the page does what it says."""
    if "lost" in name and why_unavailable():
        pytest.skip(str(why_unavailable()))
    EXAMPLES[name](tmp_path)
