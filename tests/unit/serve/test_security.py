"""Who is let in: tokens, Host headers and addresses."""

from __future__ import annotations

import os

import pytest

from rankine.core.errors import ParameterError
from rankine.serve.security import EVENTS_PATH, AccessPolicy, check_bind, is_secret, read_token

TOKEN = "c2VjcmV0LXRva2VuLWZvci10ZXN0cw=="  # noqa: S105 - opens nothing
EVENTS_TOKEN = b"ZXZlbnRzLW9ubHktdG9rZW4tdGVzdHM="


def write_token(path, text=TOKEN, mode=0o600):
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def test_token_files_must_be_private_and_long(tmp_path):
    assert read_token(write_token(tmp_path / "good")) == TOKEN.encode()
    for mode in (0o644, 0o640, 0o604, 0o620):
        with pytest.raises(ParameterError):
            read_token(write_token(tmp_path / f"m{mode}", mode=mode))
    for text in ("short", "a" * 40, "two words of a token file", "", "x" * 2000):
        with pytest.raises(ParameterError):
            read_token(write_token(tmp_path / "bad", text))


def test_a_token_is_one_word_of_many_letters(tmp_path):
    letters = "abcdefgh"
    for text, good in (
        (letters * 3, True),
        (letters[:7] * 4, False),
        ((letters * 3)[:22], True),
        ((letters * 3)[:21], False),
        (letters * 64, True),
        (letters * 64 + "a", False),
        (letters * 2 + "._~+/=-", True),
        (letters * 3 + "!", False),
    ):
        file = write_token(tmp_path / "token", f" {text} ")
        if good:
            assert read_token(file) == text.encode()
        else:
            with pytest.raises(ParameterError):
                read_token(file)
    with pytest.raises(ParameterError):
        read_token(os.devnull)


def test_a_path_is_open_to_all_or_to_the_token():
    access = AccessPolicy("127.0.0.1", TOKEN.encode())
    for path in ("/", "/healthz", "/readyz"):
        assert access.refusal_status(path, None) is None
    for header, good in (
        (None, False), (b"", False), (b"Bearer", False), (f"Bearer {TOKEN}".encode(), True),
        (f"BEARER {TOKEN} ".encode(), True), (f"Basic {TOKEN}".encode(), False),
        (f"Bearer {TOKEN}x".encode(), False), (TOKEN.encode(), False),
    ):  # fmt: skip
        assert access.refusal_status("/v1/models", header) == (None if good else 401)
        assert AccessPolicy("127.0.0.1").refusal_status("/v1/models", header) is None


def test_the_token_for_events_is_refused_elsewhere():
    events_header = b"Bearer " + EVENTS_TOKEN
    access = AccessPolicy("127.0.0.1", TOKEN.encode(), (), EVENTS_TOKEN)
    assert access.refusal_status(EVENTS_PATH, events_header) is None
    assert access.refusal_status("/v1/rank", events_header) == 403
    assert access.refusal_status("/healthz", events_header) is None
    # Without a token of its own, ranking is open, and events are not.
    open_access = AccessPolicy("127.0.0.1", None, (), EVENTS_TOKEN)
    assert open_access.refusal_status("/v1/rank", events_header) is None
    assert open_access.refusal_status(EVENTS_PATH, None) == 401


def test_public_addresses_need_a_token():
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        check_bind(host, None, allow_unauthenticated=False)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):  # noqa: S104
        with pytest.raises(ParameterError):
            check_bind(host, None, allow_unauthenticated=False)
        check_bind(host, TOKEN.encode(), allow_unauthenticated=False)
        check_bind(host, None, allow_unauthenticated=True)


def test_host_headers():
    local = AccessPolicy("127.0.0.1")
    for host in ("localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "LOCALHOST"):
        assert local.host_allowed(host)
    for host in ("", "evil.example", "127.0.0.1.evil.example", "localhost.evil", "10.0.0.1", "a b"):
        assert not local.host_allowed(host)
    assert AccessPolicy("127.0.0.1", None, ("shop.internal",)).host_allowed("Shop.Internal:80")
    public = AccessPolicy("0.0.0.0")  # noqa: S104
    assert public.host_allowed("10.0.0.1:8080")
    assert not public.host_allowed("evil.example")
    assert AccessPolicy("0.0.0.0", TOKEN.encode()).host_allowed("any.example")  # noqa: S104
    assert not AccessPolicy("0.0.0.0", TOKEN.encode(), ("shop",)).host_allowed("any.example")  # noqa: S104
    assert not AccessPolicy("127.0.0.1", TOKEN.encode()).host_allowed("10.0.0.1")
    assert not AccessPolicy("localhost").host_allowed("[2001:db8::1]")
    assert AccessPolicy("127.0.0.1", TOKEN.encode(), ("shop",)).host_allowed("localhost")
    for host in ("localhost:", "localhost:123456", "[::1", "a:b"):
        assert not public.host_allowed(host)


@pytest.mark.parametrize(
    ("owner", "mode", "user", "secret"),
    [
        (0, 0o444, 999, True),  # a secret that Docker mounts
        (0, 0o440, 999, True),  # a secret that Kubernetes mounts, with fsGroup
        (0, 0o664, 999, False),
        (0, 0o646, 999, False),
        (0, 0o400, 0, True),
        (0, 0o444, 0, False),
        (999, 0o600, 999, True),
        (999, 0o644, 999, False),
        (1000, 0o644, 999, False),
    ],
)
def test_a_secret_of_root_may_be_readable(owner, mode, user, secret):
    status = os.stat_result((0o100000 | mode, 0, 0, 1, owner, 0, 40, 0, 0, 0))
    assert is_secret(status, user) is secret
