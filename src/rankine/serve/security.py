"""Access rules: the token, the Host header and the address to bind."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankine.core.errors import ParameterError

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]{22,512}")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")

EVENTS_PATH = "/v1/events"
#: Paths that need no token: probes, and a page that contains no data.
PUBLIC_PATHS = frozenset(("/", "/healthz", "/readyz"))


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(host: str, token: bytes | None, *, allow_unauthenticated: bool) -> None:
    """Raise an error for a public address without a token."""
    if is_loopback(host) or token is not None or allow_unauthenticated:
        return
    raise ParameterError(
        f"{host} is reachable from other machines and no token is set",
        parameter="host",
        fix="Pass --token-file FILE, or --allow-unauthenticated if that is what you want",
    )


def is_secret(status: os.stat_result, user: int) -> bool:
    """Return whether a file's permissions protect a token that ``user`` reads.

    Containers mount secrets as files of root that other users can read (Docker: 0444, Kubernetes:
    0440 and a group), so such files pass, unless the server itself runs as root.
    """
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == 0 and user != 0:
        return not mode & 0o022
    return not mode & 0o077


def read_token(path: str | os.PathLike[str], parameter: str = "token_file") -> bytes:
    """Read the bearer token from a file that only its owner can read, or from a mounted secret.

    A token has at least 22 characters of ``A-Z a-z 0-9 . _ ~ + / = -`` (128 bits), such as
    ``openssl rand -base64 24`` creates.
    """
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ParameterError(
                "the token file is not a regular file",
                parameter=parameter,
                fix="Pass the path of a file",
            )
        if os.name != "nt" and not is_secret(status, os.geteuid()):
            raise ParameterError(
                "other users can read or write the token file",
                parameter=parameter,
                fix=f"chmod 600 {path}",
            )
        text = file.read(1025).strip()
    if not _TOKEN.fullmatch(text) or len(set(text)) < 8:
        raise ParameterError(
            "the token file does not contain one token of 22 to 512 characters",
            parameter=parameter,
            fix="openssl rand -base64 24 > FILE && chmod 600 FILE",
        )
    return text


@dataclass(frozen=True)
class AccessPolicy:
    """Access rules of one server.

    Listening on loopback does not keep browsers out: the name of a foreign page can resolve to
    127.0.0.1 (DNS rebinding). Therefore the Host header must be an address, ``localhost`` or an
    allowed name. A server with a token needs no allowed names, because browsers do not add the
    token to requests of foreign pages.
    """

    host: str
    token: bytes | None = None
    allowed_hosts: tuple[str, ...] = ()
    #: A token for events only; senders of events need not be able to rank.
    events_token: bytes | None = None

    def host_allowed(self, header: str) -> bool:
        """Return whether a Host header names this server."""
        match = _HOST.fullmatch(header)
        if match is None:
            return False
        name = match[1].strip("[]").lower()
        if name in self.allowed_hosts:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            if name == "localhost":
                return True
            return self.token is not None and not self.allowed_hosts
        return address.is_loopback or not is_loopback(self.host)

    def refusal_status(self, path: str, header: bytes | None) -> int | None:
        """Return the status of the reply to a request without access; None if it has access.

        401: a token is needed. 403: this token gives no access to the path.
        """
        if path in PUBLIC_PATHS:
            return None
        tokens = [self.token]
        if path == EVENTS_PATH:
            tokens.append(self.events_token)
        accepted = [token for token in tokens if token is not None]
        if not accepted or _holds_token(header, accepted):
            return None
        if self.events_token is not None and _holds_token(header, [self.events_token]):
            return 403
        return 401


def _holds_token(header: bytes | None, accepted: Sequence[bytes]) -> bool:
    """Return whether an Authorization header has one of these bearer tokens."""
    scheme, _, token = (header or b"").partition(b" ")
    # Constant time: the time of a plain comparison would reveal how much of a token is right.
    is_equal = any(hmac.compare_digest(token.strip(), each) for each in accepted)
    return is_equal and scheme.lower() == b"bearer"
