"""What a machine's first training compiles beside another process."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rankine.cli.warmup import toy
from rankine.kernels import compile as compile_
from rankine.rankers.registry import RANKERS


@pytest.mark.parametrize("ranker", RANKERS)
def test_a_toy_runs_while_another_process_compiles_all_that_it_needs(ranker, monkeypatch, tmp_path):
    """Nothing is compiled here, and nothing waits."""

    compiled = []
    claim = SimpleNamespace(hexdigest=lambda: "taken")
    monkeypatch.setattr(compile_, "hashlib", SimpleNamespace(sha256=lambda _: claim))
    (tmp_path / "taken").touch()
    monkeypatch.setattr(compile_._Kernel, "compile", lambda kernel, _: compiled.append(kernel))
    toy(ranker, str(tmp_path))
    assert compiled == []
