"""Logs of raw columns as shops have them: numbers of very different sizes, many missing.

Each log has 13 numeric columns, an item, its class and two columns of the user, which are constant
within lists. Parts with different seeds share the items, whose effects do not change.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

#: Seeds of the parts to learn from, to choose by and to test once.
PARTS = {"train": 1, "valid": 2, "test": 3}
#: Columns of every log that are no numbers.
CATEGORIES = ("item", "subclass", "region", "member")


def _standardised(values):
    return (values - values.mean()) / values.std()


def _choose(rng, utility, qid, share):
    """Draw clicks so that about ``share`` of the rows of a list are clicked."""
    starts = np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]])
    sizes = np.diff(np.r_[starts, len(qid)])
    offset = np.repeat(np.add.reduceat(utility, starts) / sizes, sizes)
    logit = utility - offset + np.log(share / (1 - share))
    return (rng.random(len(qid)) < 1 / (1 + np.exp(-logit))).astype(np.int8)


class _Shop:
    """Items with a popularity, an effect and a class, and the rows of lists drawn from them."""

    def __init__(self, seed, rows, list_size, items, classes, users):
        world = np.random.default_rng(items)
        self.popularity = 1.0 / np.arange(1, items + 1) ** 0.9
        self.class_of = world.integers(0, classes, items)
        class_effect = world.normal(0, 0.6, classes)
        self.effect = world.normal(0, 0.7, items) + class_effect[self.class_of]
        self.level = world.normal(0, 1, items)
        self.rng = rng = np.random.default_rng([seed, items])
        sizes = rng.poisson(list_size - 2, 2 * rows // list_size + 10) + 2
        n_lists = int(np.searchsorted(np.cumsum(sizes), rows)) + 1
        self.qid = np.repeat(np.arange(n_lists), sizes[:n_lists])[:rows]
        self.rows = len(self.qid)
        user = rng.integers(0, users, n_lists)
        self.user_level = world.normal(0, 1, users)[user][self.qid]
        self.region = (user % 12)[self.qid]
        self.member = user[self.qid]
        shares = self.popularity / self.popularity.sum()
        self.item = rng.choice(items, self.rows, p=shares)

    def heavy(self, scale, spread):
        """Draw numbers with a long tail around ``scale``."""
        return scale * np.exp(spread * self.rng.normal(size=self.rows))

    def missing(self, values, where):
        """Return the values, NaN where they are missing."""
        return np.where(where, np.nan, values)

    def table(self, numbers, utility, share):
        """Return the log as an Arrow table."""
        columns = {"session": self.qid, "clicked": _choose(self.rng, utility, self.qid, share)}
        for name, values in numbers.items():
            columns[name] = pa.array(values, mask=np.isnan(values))
        columns["item"] = pa.array(self.item).cast(pa.string())
        columns["subclass"] = pa.array(self.class_of[self.item]).cast(pa.string())
        columns["region"] = pa.array(self.region).cast(pa.string())
        columns["member"] = pa.array(self.member).cast(pa.string())
        return pa.table(columns)


def grocery(rows, part):
    """Generate baskets: about 85 candidates a list, of which a tenth is bought again."""
    shop = _Shop(PARTS[part], rows, 85, items=20_000, classes=300, users=8_000)
    rng, item = shop.rng, shop.item
    new = rng.random(shop.rows) < 0.4
    times = np.where(new, 0, rng.geometric(0.15, shop.rows)).astype(float)
    user_orders = np.maximum(np.round(20 * np.exp(shop.user_level)), 3.0)
    share = np.minimum(times / user_orders, 1.0)
    days = shop.heavy(15, 1.1)
    place = rng.gamma(2.0, 6.0, shop.rows)
    price = shop.heavy(4, 0.4) * np.exp(0.8 * shop.level[item])
    discount = np.where(rng.random(shop.rows) < 0.8, 0.0, rng.uniform(0.05, 0.5, shop.rows))
    item_orders = np.round(2e6 * shop.popularity[item] * shop.heavy(1, 0.1))
    reorders = 1 / (1 + np.exp(-shop.effect[item] - rng.normal(0, 0.5, shop.rows)))
    unseen = rng.random(shop.rows) < 0.6
    view = shop.heavy(5e4, 2.0)
    numbers = {
        "times_bought": times,
        "share_of_orders": share,
        "days_since_last": shop.missing(days, new),
        "mean_place_in_basket": shop.missing(place, new),
        "price": price,
        "discount": discount,
        "item_orders": item_orders,
        "item_reorder_rate": reorders,
        "user_orders": user_orders,
        "user_days_between": shop.missing(np.exp(2 - 0.3 * shop.user_level), user_orders < 4),
        "weight_g": shop.missing(shop.heavy(400, 1.2), rng.random(shop.rows) < 0.2),
        "stock": np.round(shop.heavy(200, 1.5)),
        "seconds_since_view": shop.missing(view, unseen),
    }
    utility = (
        0.5 * np.log1p(times) + 2.0 * share
        - np.where(new, 1.0, 0.35 * np.log1p(days) + 0.02 * place)
        - 0.25 * np.log(price) + 1.5 * discount + 0.12 * np.log1p(item_orders)
        + np.where(unseen, 0.0, 0.5 - 0.12 * np.log(view / 5e4)) + shop.effect[item]
    )  # fmt: skip
    return shop.table(numbers, utility, 0.06)


def hotels(rows, part):
    """Generate hotel searches: about 25 offers a list, few of them clicked."""
    shop = _Shop(PARTS[part], rows, 25, items=40_000, classes=150, users=5_000)
    rng, item = shop.rng, shop.item
    unrated = rng.random(shop.rows) < 0.15
    score = np.clip(3.5 + 0.8 * shop.effect[item] + rng.normal(0, 0.3, shop.rows), 0, 5)
    stars = np.clip(np.round(3 + shop.level[item]), 1, 5)
    price = shop.heavy(90, 0.5) * np.exp(0.35 * stars)
    # A few prices are for the whole stay, in another currency.
    price = np.where(rng.random(shop.rows) < 0.002, 1000 * price, price)
    distance = shop.heavy(1500, 1.2)
    past = shop.missing(np.log(price) + rng.normal(0, 0.2, shop.rows), rng.random(shop.rows) < 0.14)
    rivals = [rng.random(shop.rows) < gap for gap in (0.97, 0.6, 0.75)]
    differences = [np.round(shop.heavy(12, 1.0)) * rng.choice((-1, 1), shop.rows) for _ in rivals]
    utility = (
        shop.effect[item] + np.where(unrated, -0.4, 0.5 * (score - 3.5)) + 0.3 * stars
        - 0.9 * np.log(np.minimum(price, 5e3)) * (1 - 0.2 * shop.user_level)
        - 0.25 * np.log(distance / 1500)
        + sum(
            np.where(gap, 0, 0.02 * np.clip(difference, -50, 50))
            for gap, difference in zip(rivals, differences, strict=True)
        )
    )  # fmt: skip
    promoted = (rng.random(shop.rows) < 0.2).astype(float)
    near = rng.normal(size=shop.rows) * 0.5 - 0.3 * np.log(distance / 1500)
    opened = np.round(10 * rng.random(shop.rows) + 10 * np.tanh(shop.level[item]))
    user_price = shop.missing(200 * np.exp(0.4 * shop.user_level), shop.user_level < 0.5)
    numbers = {
        "stars": stars,
        "review_score": shop.missing(score, unrated),
        "price": price,
        "historical_log_price": past,
        "distance_m": shop.missing(distance, rng.random(shop.rows) < 0.3),
        "location_score": 0.05 * np.exp(near),
        "promoted": promoted,
        "rival1_difference": shop.missing(differences[0], rivals[0]),
        "rival2_difference": shop.missing(differences[1], rivals[1]),
        "rival3_difference": shop.missing(differences[2], rivals[2]),
        "nights_booked": np.round(5e4 * shop.popularity[item] * shop.heavy(1, 0.3)),
        "user_mean_price": user_price,
        "opened_year": 1990.0 + opened,
    }
    return shop.table(numbers, utility + 0.6 * promoted, 0.05)


def feed(rows, part):
    """Generate a feed of articles: about ten a list, many lists; the age of an article decides."""
    shop = _Shop(PARTS[part], rows, 10, items=3_000, classes=40, users=20_000)
    rng, item = shop.rng, shop.item
    age = shop.heavy(3e4, 1.6)
    rate = 0.05 / (1 + np.exp(-shop.effect[item] - rng.normal(0, 0.6, shop.rows)))
    views = np.round(1e6 * shop.popularity[item] * shop.heavy(1, 0.2))
    length = shop.heavy(3000, 0.7)
    followed = rng.random(shop.rows) < 0.1
    similarity = np.clip(rng.normal(0.2, 0.15, shop.rows), -1, 1)
    unread = rng.random(shop.rows) < 0.5
    utility = (
        shop.effect[item] - 0.3 * np.log(age / 3e4) + 0.08 * np.log1p(views) + 1.2 * followed
        + 3 * similarity - 0.2 * np.abs(np.log(length / 3000)) + np.where(unread, 0.3, 0)
    )  # fmt: skip
    hour = rng.integers(0, 24, shop.qid[-1] + 1)[shop.qid].astype(float)
    numbers = {
        "age_seconds": age,
        "click_rate": rate,
        "views": views,
        "length": length,
        "followed": followed.astype(float),
        "similarity": shop.missing(similarity, rng.random(shop.rows) < 0.1),
        "seconds_since_read": shop.missing(shop.heavy(2e5, 1.5), unread),
        "images": rng.poisson(2, shop.rows).astype(float),
        "bid_micros": np.where(rng.random(shop.rows) < 0.9, 0.0, shop.heavy(2e5, 0.8)),
        "sentiment": rng.normal(0, 0.01, shop.rows),
        "comments": np.round(views * 1e-3 * shop.heavy(1, 1.0)),
        "user_reads": np.round(30 * np.exp(shop.user_level)),
        "hour": hour,
    }
    return shop.table(numbers, utility, 0.12)


LOGS = {"grocery": grocery, "hotels": hotels, "feed": feed}


def write_vw(table, path, numbers):
    """Write a log as text of Vowpal Wabbit: a namespace for numbers, one for each category."""
    labels = np.where(table["clicked"].to_numpy() > 0, "1", "-1").tolist()
    columns = [table[name].to_pylist() for name in (*numbers, *CATEGORIES)]
    width = len(numbers)
    with Path(path).open("w", encoding="ascii") as file:
        for label, row in zip(labels, zip(*columns, strict=True), strict=True):
            pairs = zip(numbers, row[:width], strict=True)
            known = (f" {name}:{value:.7g}" for name, value in pairs if value is not None)
            pairs = zip(CATEGORIES, row[width:], strict=True)
            texts = (f" |{name} {value}" for name, value in pairs)
            file.write(f"{label} |n{''.join(known)}{''.join(texts)}\n")
