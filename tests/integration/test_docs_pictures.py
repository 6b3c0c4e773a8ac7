"""Convergence plots: the script still runs, and its drawings follow the page's colours."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from tools.docs.includes import ROOT
from tools.docs.pictures import PICTURES, draw

pytestmark = pytest.mark.docs


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_from_a_small_run(name):
    picture = PICTURES[name](True)
    svg = draw(picture)
    texts = "".join(ET.fromstring(svg).itertext())  # noqa: S314 - our own drawing
    for curve, (x, y) in picture.curves.items():
        assert curve in texts
        assert len(x) == len(y) > 1
    assert "var(--md-default-fg-color" in svg
    assert not re.search(r"#010203|#040506|http://(?!www\.w3\.org)", svg)


@pytest.mark.parametrize("name", PICTURES)
def test_the_kept_picture_stands_on_its_page(name):
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    assert any(f"pictures/{name}.svg)" in page for page in pages)
    kept = ROOT / "docs" / "pictures" / f"{name}.svg"
    ET.parse(kept)  # noqa: S314 - our own drawing
    assert kept.stat().st_size < 40_000
