"""What the server does before it serves."""

import logging

import pytest

from rankine.serve.server import _raise_descriptor_limit

resource = pytest.importorskip("resource")


@pytest.mark.parametrize(
    ("soft", "hard", "after"),
    [
        (100, 5000, 1000),
        (100, resource.RLIM_INFINITY, 1000),
        (100, 300, 300),
        (1000, 1000, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
def test_the_limit_of_descriptors_is_raised_as_far_as_allowed(
    monkeypatch, caplog, soft, hard, after
):
    calls = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: calls.append(pair))
    with caplog.at_level(logging.WARNING, "rankine.serve"):
        _raise_descriptor_limit(1000)
    assert calls == ([] if after is None else [(after, hard)])
    assert bool(caplog.records) == (after == 300)
