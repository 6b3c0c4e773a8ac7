"""Modules of a package are found by their files."""

from __future__ import annotations

import sys

from rankine.core.discovery import import_modules


def test_public_modules_are_imported_in_order_and_private_ones_are_not(tmp_path, monkeypatch):
    folder = tmp_path / "some_plugins"
    folder.mkdir()
    (folder / "__init__.py").write_text("REGISTERED = []\n")
    for name in ("b", "a", "_private"):
        (folder / f"{name}.py").write_text(
            f"from some_plugins import REGISTERED\nREGISTERED.append({name!r})\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert import_modules("some_plugins") == ["a", "b"]
        assert sys.modules["some_plugins"].REGISTERED == ["a", "b"]
        assert import_modules("some_plugins") == ["a", "b"]
        assert sys.modules["some_plugins"].REGISTERED == ["a", "b"]
    finally:
        for name in [name for name in sys.modules if name.startswith("some_plugins")]:
            del sys.modules[name]
