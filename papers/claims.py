"""What a paper claims, what was run, and the verdict that follows from the stored results by rule.

The folder of a paper holds ``claims.py`` with a function ``claims()``, which reads stored results
and returns a list of ``Claim``. A claim's checks are all that its verdict depends on. A check
holds, fails, or is undecided because an interval leaves both open:

    cannot be tested here   no check could be made, and ``why`` says why not
    undecided               no check holds, and none fails
    not                     no check holds, and one or more fail
    reproduced              every check holds, at no less than the paper's sizes
    partly                  everything else

Where the data are not the paper's own, the verdict says so.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy import stats

from papers import runs
from papers.runs import table
from rankine.evaluation.significance import bootstrap_means, paired_tests, percentile_interval

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not"
UNDECIDED, UNTESTED = "undecided", "cannot be tested here"
VERDICTS = (REPRODUCED, PARTLY, UNDECIDED, NOT, UNTESTED)
#: Heads of the matrix, which fit a telephone.
SHORT = dict(zip(VERDICTS, ("yes", "partly", "open", "no", "untested"), strict=True))
#: Two values of MAP, NDCG or ROC area are alike when the interval of their difference is within
#: this, or within ``SHARE`` of the value itself where that is less.
MARGIN, SHARE = 0.01, 0.05
#: Where a bar comes from that no interval decides.
OURS = "our bar"


def margin_of(value):
    """Return the difference from a value of average precision or the like that does not matter."""
    return min(MARGIN, SHARE * value)


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


def interval_over(differences):
    """Return Student's 95 % interval of the mean of differences, one per log, topic or problem."""
    values = np.asarray(list(differences), dtype=float)
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


@dataclass(frozen=True)
class Check:
    """One question to the stored figures: what was asked, what was found, whether it holds.

    ``held`` is None if it is undecided. ``source`` says where the bar comes from.
    """

    asked: str
    found: str
    held: bool | None
    source: str = "interval"

    @property
    def answer(self):
        """Return the answer as printed on the page."""
        return {True: "yes", False: "**no**", None: "undecided"}[self.held]


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
    """One claim of a paper, and what came of it.

    ``says`` is the claim in one sentence of ours, ``quote`` the paper's words. ``data`` names what
    was run on, ``own`` says whether these are the paper's own data, and ``figure`` puts our result
    and the paper's.
    """

    says: str
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
            return NOT if False in held else UNDECIDED
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


def at_most(what, value, bar, form=".3g", source=OURS):
    """Check that a value does not exceed a bound."""
    return Check(f"{what}: at most {bar:{form}}", f"{value:{form}}", bool(value <= bar), source)


def at_least(what, value, bar, form=".3g", source=OURS):
    """Check that a value reaches a bound."""
    return Check(f"{what}: at least {bar:{form}}", f"{value:{form}}", bool(value >= bar), source)


def alike(what, interval, margin=MARGIN):
    """Check that the interval of a difference is within the margin; it fails if it is outside."""
    low, high = interval
    held = None
    if -margin <= low and high <= margin:
        held = True
    elif low > margin or high < -margin:
        held = False
    return Check(f"{what}: difference within ±{margin:.2g}", _interval(interval), held)


def ahead(what, interval):
    """Check that the interval of a difference is above 0; it fails if it is below."""
    low, high = interval
    held = None
    if low > 0 or high < 0:
        held = low > 0
    return Check(f"{what}: difference above 0", _interval(interval), held)


def no_gain(what, interval, margin=MARGIN):
    """Check that a gain is at most the margin; it fails if the interval is above 0."""
    low, high = interval
    held = None
    if low > 0:
        held = False
    elif high <= margin:
        held = True
    return Check(f"{what}: no gain, at most {margin:.2g}", _interval(interval), held)


def no_worse(what, interval, bar, source=OURS):
    """Check that a difference is at least a bar; it fails if the interval is below."""
    low, high = interval
    held = None
    if low >= bar or high < bar:
        held = low >= bar
    return Check(f"{what}: at least {bar:.3g}", _interval(interval), held, source)


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
    missed = [claim.says for claim in claims if claim.kind == NOT]
    first = f"**Not reproduced:** {' '.join(missed)} " if missed else ""
    return f"{first}Of {len(claims)} claims: {parts}."


def matrix(claims):
    """Return the table of claims against verdicts; a hollow mark means other data."""
    rows = []
    for claim in claims:
        mark = "●" if claim.own or claim.kind == UNTESTED else "○"
        rows.append([claim.says, *(mark if claim.kind == kind else "" for kind in VERDICTS)])
    return table(("claim", *SHORT.values()), rows)


def details(claims):
    """Return every claim with the paper's words, what was run, the result and the checks."""
    parts = []
    for claim in claims:
        parts += [f"### {claim.says.rstrip('.')}", f"> {claim.quote} ({claim.section})"]
        if claim.why:
            parts.append(f"{claim.verdict}: {claim.why}.")
        else:
            parts += [f"{claim.verdict}. Run on {claim.ran}. Result: {claim.figure}."]
            parts.append(checks_table(claim))
    return parts


def checks_table(claim):
    """Return the table of the checks behind a verdict."""
    small = [size for size in claim.sizes if size.ours < size.paper]
    checks = [
        *claim.checks,
        *(Check(f"no fewer {s.what} than the paper", s.words(), False, "paper") for s in small),
    ]
    rows = [[check.asked, check.found, check.source, check.answer] for check in checks]
    return table(("check", "result", "bar from", "holds"), rows, left=4)
