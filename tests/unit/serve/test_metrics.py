"""Metrics of the server."""

from rankine.serve.metrics import _resident_bytes


def test_unknown_memory_is_reported_as_zero(monkeypatch):
    def absent(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.read_text", absent)
    assert _resident_bytes() == 0
