"""The page at ``/``: one file, no network, a policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from starlette.responses import Response

__all__ = ["page_response", "policy"]

_BLOCKS = {kind: re.compile(rf"<{kind}>(.*?)</{kind}>", re.DOTALL) for kind in ("style", "script")}


@cache
def _page() -> tuple[str, str]:
    text = files("rankine.serve").joinpath("page.html").read_text(encoding="utf-8")
    return text, policy(text)


def policy(text: str) -> str:
    """Content security policy: this page's own style and script by their hash, nothing else."""
    sources = []
    for kind, pattern in _BLOCKS.items():
        hashes = [
            base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
            for block in pattern.findall(text)
        ]
        sources.append(f"{kind}-src " + " ".join(f"'sha256-{value}'" for value in hashes))
    return "; ".join(
        (
            "default-src 'none'",
            *sources,
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def page_response() -> Response:
    """The page with its policy."""
    text, rules = _page()
    headers = {"content-security-policy": rules, "referrer-policy": "no-referrer"}
    return Response(text, headers=headers, media_type="text/html")
