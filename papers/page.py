"""The results pages of the documentation, made of the stored results.

    python -m papers.page            # write the pages, and the figures that are stale
    python -m papers.page --check    # only say whether they are up to date

``docs/results.md`` holds every claim and its verdict, ``docs/results/PAPER.md`` what stands behind
them, ``docs/results/stored.md`` when and with which code every stored result was measured.
``CONTENTS`` is their order. A result without its file, a module that is not listed there, or
a figure that was drawn from something else than the stored result is an error.
"""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.common import machine
from benchmarks.common.machine import RESULTS
from benchmarks.common.provenance import is_old

from papers import claims, runs
from papers.contents import CONTENTS, INTRODUCTION, LEGEND, RULE

FOLDER = runs.ROOT / "docs"
#: Marks of a result that was measured with other sources than the present ones.
OLD = "**Older than its code:** the sources that this measures have changed since."
OLDER, CURRENT = "**older**", "as it is"
UNKNOWN = "before commits were recorded"
STORED_PAGE = "results/stored.md"
STORED = """
# Stored results

Every figure in README, in these pages and in the claims is taken from a stored result. This table
says when each was measured, with which commit and on which machine, and whether the sources that it
measures have changed since: *older* results may no longer be what the present code gives. Comments,
docstrings and layout do not count as changes; `benchmarks/common/provenance.py` names the sources
of each result.

`make bench-full` measures all of them, and `make results` writes this page.
"""


def pages():
    """Return every page by its path below ``docs``."""
    papers = {f"results/{paper.name}.md": text(paper) for paper in CONTENTS}
    return {"results.md": verdicts(), **papers, STORED_PAGE: stored_results()}


def verdicts():
    """Return the page of verdicts: one line per paper, then all claims against verdicts."""
    papers = {paper: claims.of(paper.name) for paper in CONTENTS}
    lines, matrices = [], []
    for paper, paper_claims in papers.items():
        link = f"[{paper.heading}](results/{paper.name}.md)"
        if paper_claims:
            lines.append(f"- {link}. {claims.counted(paper_claims)}")
            matrices += [f"### {link}", paper.citation, claims.matrix(paper_claims)]
        else:
            matrices += [f"### {link}", *headlines(paper)]
    parts = [
        INTRODUCTION.strip(),
        "\n".join(lines),
        "## Claims and verdicts",
        LEGEND,
        *matrices,
        RULE,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def headlines(paper):
    """Return the summary of a page without claims: its topic and a sentence per result."""
    sentences = [runs.module_of(name).headline(runs.read(name)) for name in paper.results]
    return [paper.about, "\n".join(f"- {sentence}" for sentence in sentences)]


def text(paper):
    """Return the page of one paper: verdicts, the checks behind them, then the results."""
    paper_claims = claims.of(paper.name)
    parts = [f"# {paper.heading}"]
    if paper_claims:
        parts.append(claims.counted(paper_claims))
    parts += [paper.citation, paper.about]
    if paper_claims:
        parts += ["## The claims one by one", *claims.details(paper_claims)]
        parts.append("[Results](../results.md#the-rule) has the rule of the verdicts.")
    parts += [section(name) for name in paper.results]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def section(name):
    """Return the section of one result: text, figure and how it was measured."""
    module, results = runs.module_of(name), runs.read(name)
    parts = [f"## {module.TITLE}"]
    if is_old(name, results.get("measured", {})):
        parts.append(OLD)
    if hasattr(module, "draw"):
        parts.append(f"![{module.TITLE}](../assets/results/{name}.svg)")
    parts.append(module.markdown(results).strip())
    if results.get("absent"):
        parts.append("Absent when this was measured: " + "; ".join(results["absent"]) + ".")
    parts.append(provenance(name, results))
    return "\n\n".join(parts)


def provenance(name, results):
    """Return command, size, time, code, machine, versions, seeds and repetitions in one line."""
    computer = results["machine"]
    flags = "" if results["size"] == "quick" else f" --{results['size']}"
    usual = runs.parameters_of(name, results["size"])
    for key, value in results["parameters"].items():
        if value != usual.get(key):
            flags += f" --set {key}={json.dumps(value)}"
    versions = ", ".join(
        f"{name} {computer[name]}"
        for name in ("rankine", "python", "numpy", "scipy", "numba", "scikit-learn")
    )
    seeds = results["seeds"]
    seed_text = ", ".join(map(str, seeds)) if len(seeds) < 8 else f"{seeds[0]} to {seeds[-1]}"
    command = f"python -m {runs.package_of(name)} {name}{flags}"
    return (
        f"<small>`{command}` ({results['wall_seconds']:.0f} s); {when(results.get('measured'))}; "
        f"{computer['cpu']}, {computer['cores']} cores, {computer['memory_gib']} GiB; {versions}; "
        f"seeds {seed_text}; repetitions {results['repetitions']}; "
        f"`benchmarks/results/{name}.json`</small>"
    )


def when(measured):
    """Return the time and the commit of a record."""
    if not measured:
        return UNKNOWN
    changed = " with changes" if measured["changed"] else ""
    return f"{measured['time']}, commit {measured['commit']}{changed}"


def stored_results():
    """Return the page that lists every stored result with its time, code and machine."""
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        results = json.loads(path.read_text(encoding="utf-8"))
        for part, measured in machine.records(results).items():
            computer = measured.get("machine", results["machine"])
            state = OLDER if is_old(path.stem, measured) else CURRENT
            name = f"`{path.stem}`" + (f", {part}" if part else "")
            computer_text = f"{computer['cpu']}, {computer['cores']} cores"
            rows.append([name, when(measured), computer_text, state])
    header = ("result", "measured", "machine", "code")
    return STORED.strip() + "\n\n" + runs.table(header, rows, left=4) + "\n"


def listed():
    """Return all results on the pages, in order."""
    return [name for paper in CONTENTS for name in paper.results]


def stale():
    """Describe what is out of date, one sentence each.

    Marks of results that are older than their code, and the list of stored results, are not
    compared: they change with every change of the code and with every benchmark, and are written by
    ``make results`` and into the site by ``make docs``.
    """
    problems = [f"{n} is not in papers/contents.py" for n in runs.names() if n not in listed()]
    for name, markdown in pages().items():
        path = FOLDER / name
        if name == STORED_PAGE and path.is_file():
            continue
        if not path.is_file() or unmarked(path.read_text(encoding="utf-8")) != unmarked(markdown):
            problems.append(f"docs/{name} does not follow from the stored results")
    return problems + [
        f"the figure of {name} is not of the stored result" for name in old_figures()
    ]


def unmarked(markdown):
    """Return a page without its marks of old results."""
    return markdown.replace(f"{OLD}\n\n", "").replace(f" {OLDER} |", f" {CURRENT} |")


def old_figures():
    """Return the results whose figure is missing or shows another result."""
    outdated = []
    for name in listed():
        if hasattr(runs.module_of(name), "draw"):
            path = runs.ASSETS / f"{name}.svg"
            source = runs.digest(runs.read(name))
            if not path.is_file() or source not in path.read_text(encoding="utf-8"):
                outdated.append(name)
    return outdated


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--redraw", action="store_true", help="draw every figure again")
    options = parser.parse_args(argv)
    if not options.check:
        for name in listed() if options.redraw else old_figures():
            if hasattr(runs.module_of(name), "draw"):
                runs.draw(name, runs.read(name))
        (FOLDER / "results").mkdir(exist_ok=True)
        for name, markdown in pages().items():
            (FOLDER / name).write_text(markdown, encoding="utf-8")
            print(f"written: docs/{name}")
    old = stale()
    for sentence in old:
        print(sentence, file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
