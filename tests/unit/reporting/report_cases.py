"""Models and data that reports are tested on."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser

import msgspec
import numpy as np
from scipy import sparse

from rankine import Dataset, LeastSquaresRanker, LinearModel, shop_log
from rankine.evaluation.compare import Pair, System
from rankine.reporting.headline import Headline

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "'; DROP TABLE weights; --",
    "\u202eright to left override\u202c",
    "\u05e9\u05dc\u05d5\u05dd \u0639\u0631\u0628\u0649",
    "x" * 5000,
    "tab\there\nand a line\x1b[31m",
    "{{ 7 * 7 }} ${7*7} $x_1$",
]


def words(html):
    """What a reader sees, with single spaces."""
    return " ".join(unescape(re.sub("<[^>]*>", " ", str(html))).split())


@cache
def shop(n=60):
    log = shop_log(n)
    cut = 2 * n // 3
    return log.take_queries(np.arange(cut)), log.take_queries(np.arange(cut, n))


@cache
def fitted():
    return LeastSquaresRanker(scale="standard").fit(shop()[0])


def random_data(n_queries, length, n_features, *, labels=3, seed=0, make_sparse=False):
    rng = np.random.default_rng(seed)
    n = n_queries * length
    X = rng.normal(size=(n, n_features)) if not make_sparse else None
    if make_sparse:
        rows, at = np.repeat(np.arange(n), 12), rng.integers(0, n_features, 12 * n)
        X = sparse.csr_array((rng.random(12 * n), (rows, at)), shape=(n, n_features))
    y = rng.integers(0, labels, n)
    return Dataset.from_arrays(X, y, np.repeat(np.arange(n_queries), length))


def hostile():
    """Every name that can come from outside is a weapon."""
    data = random_data(6, 5, len(HOSTILE))
    names = [f"{name} {k}" for k, name in enumerate(HOSTILE)]
    data = Dataset.from_arrays(
        data.X,
        data.y,
        np.array([f"{HOSTILE[q % 3]}{q}" for q in data.qid]),
        docid=np.array([f"{HOSTILE[i % 5]}{i}" for i in range(data.n_rows)]),
        feature_names=names,
        columns={"query_text": np.array([HOSTILE[i % 2] for i in range(data.n_rows)])},
    )
    model = LinearModel.from_weights(
        np.linspace(-1, 1, len(HOSTILE)) + 0.05,
        names,
        metric="ndcg@10",
        parameters={"ranker": HOSTILE[0], HOSTILE[1]: HOSTILE[2]},
        provenance={"rankine": HOSTILE[0], "training": {"sources": [HOSTILE[1]]},
                    "stop_reason": HOSTILE[0], "certificate": {HOSTILE[1]: 1.0},
                    "trace": {"step": [1, 2], HOSTILE[0]: [1.0, 2.0]}},
    )  # fmt: skip
    return model, data


def pair(a, difference, *, significant=True, verdict="better"):
    return Pair(a, "model", difference, difference - 0.1, difference + 0.1, *[0.5] * 6, 3, 2, 1,
                significant, False, verdict)  # fmt: skip


def head(opponents=("shown", "feature", "random"), differences=(0.2, 0.1, 0.3), **changed):
    names = {"shown": "order as shown", "feature": "best single feature: x",
             "random": "random order", "against": "old.rankine"}  # fmt: skip
    systems = [System("model", 0.8, 0.75, 0.85)]
    systems += [System(names[k], 0.8 - d, 0.5, 0.6) for k, d in zip(opponents, differences)]  # noqa: B905
    pairs = [pair(names[k], d) for k, d in zip(opponents, differences)]  # noqa: B905
    made = Headline("ndcg@10", "NDCG@10", True, 20, 0, 100, ["model", *opponents], systems, pairs)
    return replace(made, **changed)


class Page(HTMLParser):
    """Elements, attributes and ids of a page; complains about tags that do not match."""

    VOID = frozenset({"meta", "br", "link"})

    def __init__(self, text):
        super().__init__()
        self.elements, self.ids, self.links, self.open = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        self.elements.append((name, given))
        if "id" in given:
            self.ids.append(given["id"])
        if given.get("href", "").startswith("#"):
            self.links.append(given["href"][1:])
        if name not in self.VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


def assert_sound(report):
    """What holds for every page."""
    page = Page(report.html)
    names = {name for name, _ in page.elements}
    assert not names & {"script", "img", "iframe", "object", "link", "base", "form"}
    for name, given in page.elements:
        assert not [key for key in given if key.startswith("on") or key in ("style", "src")], name
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.links) <= set(page.ids)
    figures = [given for name, given in page.elements if name == "svg" and "role" in given]
    assert all(given["aria-label"] for given in figures)
    assert report.html.count("<figure") == report.html.count("</figcaption></figure>")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', report.html)[1]
    style = re.search(r"<style>(.*?)</style>", report.html, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert digest in policy
    assert "url(" not in style
    assert "@import" not in style
    assert len(report.html) < 3_000_000
    msgspec.json.encode(report.to_dict())
    return page
