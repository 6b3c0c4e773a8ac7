"""What a paper claims, what was run, and the verdict that follows from the stored results by rule.

The folder of a paper holds ``claims.py`` with a function ``claims()``, which reads stored results
and returns a list of ``Claim``. A claim's checks are all that its verdict depends on:

    cannot be tested here   no check could be made, and ``why`` says why not
    not                     no check holds
    reproduced              every check holds, at no less than the paper's sizes
    partly                  everything else

Where the data are not the paper's own, the verdict says so.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from dataclasses import dataclass

from papers import runs
from papers.runs import table
from rankine.evaluation.significance import bootstrap_means, paired_tests, percentile_interval

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not"
UNTESTED = "cannot be tested here"
VERDICTS = (REPRODUCED, PARTLY, NOT, UNTESTED)
#: Two values of MAP, NDCG or ROC area are alike when the interval of their difference is within.
MARGIN = 0.01


def paired(difference):
    """Format a paired difference: mean, interval, p-value and margin."""
    drawn = bootstrap_means(difference[:, None], 10_000, 0)
    low, high = percentile_interval(drawn, 0.95)
    return {
        "difference": float(difference.mean()),
        "interval": [low, high],
        "wins": int((difference > 0).sum()),
        "losses": int((difference < 0).sum()),
        "p_randomisation": paired_tests(difference, 10_000, 0).randomisation,
        "equivalent": low > -MARGIN and high < MARGIN,
    }


@dataclass(frozen=True)
class Check:
    """One question to the stored figures: what was asked, what was found, whether it holds."""

    asked: str
    found: str
    held: bool


@dataclass(frozen=True)
class Size:
    """A size that was run, and the size in the paper."""

    what: str
    ours: float
    paper: float

    def words(self):
        """Format our size, with the paper's in brackets."""
        ours, paper = (f"{value:,.0f}" for value in (self.ours, self.paper))
        return f"{ours} {self.what} (paper {paper})"


@dataclass(frozen=True)
class Claim:
    """One claim in the paper's own words, and what came of it.

    ``data`` names what was run on, ``own`` says whether these are the paper's own data, and
    ``figure`` puts our result and the paper's.
    """

    quote: str
    section: str
    data: str = ""
    sizes: tuple[Size, ...] = ()
    figure: str = ""
    checks: tuple[Check, ...] = ()
    own: bool = False
    why: str = ""

    @property
    def kind(self):
        """Return one of ``VERDICTS``."""
        if not self.checks:
            return UNTESTED
        held = [check.held for check in self.checks]
        if not any(held):
            return NOT
        full = all(size.ours >= size.paper for size in self.sizes)
        return REPRODUCED if all(held) and full else PARTLY

    @property
    def verdict(self):
        """Return the verdict as printed on the page."""
        stand_in = self.kind in (REPRODUCED, PARTLY) and not self.own
        return f"**{self.kind}**" + (", on other data" if stand_in else "")

    @property
    def ran(self):
        """Return data and sizes."""
        return "; ".join([self.data, *(size.words() for size in self.sizes)])


def at_most(what, value, bar, form=".3g"):
    """Check that a value does not exceed a bound."""
    return Check(f"{what}: at most {bar:{form}}", f"{value:{form}}", value <= bar)


def at_least(what, value, bar, form=".3g"):
    """Check that a value reaches a bound."""
    return Check(f"{what}: at least {bar:{form}}", f"{value:{form}}", value >= bar)


def alike(what, interval, margin=MARGIN):
    """Check that the 95 % interval of a difference is within the margin on both sides of 0."""
    low, high = interval
    held = -margin <= low and high <= margin
    return Check(f"{what}: difference within ±{margin:g}", _interval(interval), held)


def ahead(what, interval):
    """Check that the 95 % interval of a difference is above 0."""
    return Check(f"{what}: difference above 0", _interval(interval), interval[0] > 0)


def _interval(interval):
    return f"[{interval[0]:+.4f}, {interval[1]:+.4f}]"


def of(paper):
    """Return the claims of a paper; none if its folder has no ``claims.py``."""
    package = runs.package_of(f"{paper}.claims")
    name = f"{package}.{paper}.claims"
    if importlib.util.find_spec(name) is None:
        return []
    found = importlib.import_module(name).claims()
    for claim in found:
        if bool(claim.checks) == bool(claim.why):
            raise ValueError(f"{name}: checks or why, one of them: {claim.quote}")
    return found


def counted(claims):
    """Count the claims by verdict and name those that are not reproduced."""
    count = Counter(claim.kind for claim in claims)
    parts = ", ".join(f"{count[kind]} {kind}" for kind in VERDICTS if count[kind])
    missed = [f"“{_begun(claim.quote)}”" for claim in claims if claim.kind == NOT]
    first = f"**Not reproduced: {'; '.join(missed)}.** " if missed else ""
    return f"{first}Of {len(claims)} claims: {parts}."


def _begun(quote, most=7):
    """Return the beginning of a quote."""
    quote_words = quote.split()
    return (
        quote
        if len(quote_words) <= most + 1
        else " ".join(quote_words[:most]).rstrip(",.") + " ..."
    )


def claims_table(claims):
    """Return the table of claims: what we ran, our result and the paper's, verdict."""
    rows = [[f"“{c.quote}” ({c.section})", c.why or c.ran, c.figure, c.verdict] for c in claims]
    return table(("claim", "what we ran", "our result and the paper's", "verdict"), rows, left=4)


def checks_table(claims):
    """Return the table of all checks behind the verdicts."""
    rows = []
    for claim in claims:
        quote, sizes = f"“{claim.quote}”", [size for size in claim.sizes if size.ours < size.paper]
        asked = [
            *claim.checks,
            *(Check(f"no fewer {s.what} than the paper", s.words(), held=False) for s in sizes),
        ]
        for check in asked:
            rows.append([quote, check.asked, check.found, "yes" if check.held else "**no**"])
            quote = ""
    return table(("claim", "check", "result", "holds"), rows, left=4)
