"""A recommendation carousel over HTTP: train every day, compare, and replace the served model.

    python examples/carousel_http.py            # 6,000 visits
    python examples/carousel_http.py --small    # seconds

A streaming service shows a row of films to each visitor. The model reads raw columns of the film
and of the visitor; what a visitor likes is a *cross* of the two. This script trains on the first
day's visits, serves the model and requests a carousel as a web site would. On each later day it
continues training from yesterday's model, compares the two on visits that neither has seen, and
releases the new model without a restart unless it is worse.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rankine
from rankine.metrics import evaluate_on

GENRES = ["drama", "comedy", "thriller", "cartoon", "nature"]
VISITORS = ["family", "night owl", "student"]
#: Who likes which genre: an effect of visitor and film together, of neither alone.
TASTE = {
    ("family", "cartoon"): 2.0, ("family", "thriller"): -1.5, ("night owl", "thriller"): 1.8,
    ("night owl", "cartoon"): -1.0, ("student", "comedy"): 1.6, ("student", "nature"): -0.5,
}  # fmt: skip


def make_visits(visits: int, seed: int) -> pa.Table:
    """Make visits of twelve films, of which the one with the largest utility is watched."""
    rng = np.random.default_rng(seed)
    n = visits * 12
    visitor = np.repeat(rng.choice(VISITORS, visits), 12)
    genre = rng.choice(GENRES, n)
    age, stars = np.round(rng.gamma(2, 2, n), 1), np.round(rng.uniform(1, 5, n), 1)
    taste = np.array([TASTE.get(pair, 0.0) for pair in zip(visitor, genre, strict=True)])
    utility = (taste + 0.5 * stars - 0.1 * age + rng.gumbel(0, 0.8, n)).reshape(visits, 12)
    watched = np.zeros((visits, 12), dtype=np.int8)
    watched[np.arange(visits), utility.argmax(axis=1)] = 1
    return pa.table(
        {
            "visit": np.repeat(np.arange(visits), 12),
            "visitor": visitor,
            "genre": genre,
            "stars": stars,
            "age": age,
            "watched": watched.ravel(),
        }
    )


def train(log: Path, previous: rankine.LinearModel | None = None) -> tuple[Any, rankine.Dataset]:
    """Train on a day's visits, from the previous model if given; also return the newest visits."""
    ranker = rankine.ElasticRanker(
        adaptive=True, eta0=0.2, l1=1e-4, l2=0, scale="none", metric="mrr", random_state=0
    )
    visits = rankine.logs.scan(
        log,
        like=previous,
        query="visit",
        label="watched",
        numeric=["stars", "age"],
        categorical=["genre"],
        crosses=["visitor*genre"],
        hash_bits=14,
    )
    parts = visits.split("time:0.8,0.2")
    return ranker.fit(parts["train"], coef_init=previous).to_model(), parts["valid"].load()


def release(log: Path, live: Path) -> rankine.LinearModel:
    """Continue training from the live model; publish by an atomic rename unless it is worse."""
    previous = rankine.LinearModel.load(live)
    candidate, newest = train(log, previous)
    systems = {"live": previous, "candidate": candidate}
    pair = rankine.compare(systems, newest, "mrr", margin=0.01).pairs[0]
    print(
        f"{log.stem}: {pair.difference:+.3f} [{pair.low:+.3f}, {pair.high:+.3f}] against the live "
        f"model, {pair.verdict}"
    )
    if pair.verdict == "worse":
        return previous
    candidate.save(live.parent.parent / "candidate.rankine")
    (live.parent.parent / "candidate.rankine").replace(live)
    return candidate


def post(url: str, query: dict[str, Any]) -> dict[str, Any]:
    """Post a list of items and return its ranking: this is all that a web site needs."""
    body = json.dumps(query).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/rank", body, headers)
    with urllib.request.urlopen(request, timeout=10) as reply:
        response: dict[str, Any] = json.load(reply)
    return response


def carousel(url: str, visitor: str, films: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the best three films for a visitor, and the reason for each."""
    items = [
        {"id": film["title"], "raw": {k: film[k] for k in ("genre", "stars", "age")}}
        for film in films
    ]
    return post(url, {"items": items, "context": {"visitor": visitor}, "k": 3, "explain": 2})


def main() -> None:
    """Train, serve, request a carousel, replace the model, request again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="600 visits")
    parser.add_argument("--out", type=Path, default=Path("carousel"), help="folder to write to")
    options = parser.parse_args()
    models = options.out / "models"
    models.mkdir(parents=True, exist_ok=True)

    # 1. Train the first model on Monday's visits.
    logs = [options.out / f"{day}.parquet" for day in ("monday", "tuesday", "wednesday")]
    for seed, log in enumerate(logs):
        pq.write_table(make_visits(600 if options.small else 6000, seed), log)
    live = models / "films.rankine"
    monday, newest = train(logs[0])
    monday.save(live)
    value = evaluate_on(newest, metric="mrr", model=monday)
    print(f"monday: mean reciprocal rank {value:.3f} on the newest visits")

    # 2. Serve the folder. Port 0 takes a free port; --json prints the address once it is ready.
    films = [
        {"title": "Moon Bakery", "genre": "cartoon", "stars": 3.9, "age": 1.0},
        {"title": "The Last Ferry", "genre": "thriller", "stars": 4.2, "age": 6.0},
        {"title": "Roommates", "genre": "comedy", "stars": 3.6, "age": 2.0},
        {"title": "Deep Green", "genre": "nature", "stars": 4.4, "age": 3.0},
    ]
    command = str(Path(sys.executable).with_name("rankine"))
    arguments = ["serve", str(models), "--port", "0", "--reload-every", "0.1", "--json"]
    server = subprocess.Popen(
        [command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        for visitor in VISITORS:
            response = carousel(url, visitor, films)
            row = ", ".join(item["id"] for item in response["ranking"])
            terms = response["ranking"][0]["explanation"]["contributions"]
            reason = " and ".join(term["name"] for term in terms)
            print(f"  for a {visitor}: {row}\n      the first because of {reason}")

        # 3. Replace the model while it serves: no request fails, and none mixes two models.
        for log in logs[1:]:
            model = release(log, live)
            deadline = time.monotonic() + 20
            while carousel(url, "family", films)["digest"] != model.digest:
                if time.monotonic() > deadline:
                    raise SystemExit("the server did not load the new model within 20 s")
                time.sleep(0.05)
            print(f"model {model.digest[:12]} is live")
    finally:
        server.terminate()
        server.communicate(timeout=20)

    # 4. Write a report on the live model.
    page = rankine.report(model, logs[-1], title="Film carousel")
    page.save(options.out / "report.html")
    print(f"report: {options.out / 'report.html'}")


if __name__ == "__main__":
    main()
