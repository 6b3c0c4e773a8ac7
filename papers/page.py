"""The results pages of the documentation, made of the stored results.

    python -m papers.page            # write the pages, and the figures that are stale
    python -m papers.page --check    # only say whether they are up to date

``docs/results.md`` holds every claim and its verdict, ``docs/results/PAPER.md`` what stands behind
them. ``CONTENTS`` is their order. A result without its file, a module that is not listed there, or
a figure that was drawn from something else than the stored result is an error.
"""

from __future__ import annotations

import argparse
import json
import sys

from papers import claims, runs
from papers.contents import CONTENTS, INTRODUCTION

FOLDER = runs.ROOT / "docs"


def pages():
    """Return every page by its path below ``docs``."""
    return {"results.md": verdicts(), **{f"results/{p.name}.md": text(p) for p in CONTENTS}}


def verdicts():
    """Return the page of claims and verdicts."""
    parts = [INTRODUCTION.strip()]
    for paper in CONTENTS:
        paper_claims = claims.of(paper.name)
        parts += [f"## [{paper.heading}](results/{paper.name}.md)", paper.citation]
        parts += (
            [claims.counted(paper_claims), claims.claims_table(paper_claims)]
            if paper_claims
            else headlines(paper)
        )
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
    parts += [paper.citation, paper.about, quick_ones(paper)]
    if paper_claims:
        parts += [
            "## What the verdicts rest on",
            "[Results](../results.md) has the claims with data and figures; these are the tests.",
            claims.checks_table(paper_claims),
        ]
    parts += [section(name) for name in paper.results]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def quick_ones(paper):
    """Name the results of the page that were only run at the quick size."""
    quick = [name for name in paper.results if runs.read(name)["size"] == "quick"]
    if not quick:
        return ""
    return (
        "**Only a trial of the command**, and marked below: "
        + ", ".join(f"`{name}`" for name in quick)
        + "."
    )


def section(name):
    """Return the section of one result: text, figure and how it was measured."""
    module, results = runs.module_of(name), runs.read(name)
    parts = [f"## {module.TITLE}"]
    if results["size"] == "quick":
        parts.append(f"*Quick size, a trial of the command; `{name}` was not run in full yet.*")
    if hasattr(module, "draw"):
        parts.append(f"![{module.TITLE}](../assets/results/{name}.svg)")
    parts.append(module.markdown(results).strip())
    if results.get("absent"):
        parts.append("Absent when this was measured: " + "; ".join(results["absent"]) + ".")
    parts.append(provenance(name, results))
    return "\n\n".join(parts)


def provenance(name, results):
    """Return command, size, machine, versions, seeds and repetitions in one line."""
    machine = results["machine"]
    flag = " --full" if results["size"] == "full" else ""
    size = "" if flag else "quick size; "
    usual = runs.parameters_of(name, results["size"])
    for key, value in results["parameters"].items():
        if value != usual.get(key):
            flag += f" --set {key}={json.dumps(value)}"
    versions = ", ".join(
        f"{name} {machine[name]}"
        for name in ("rankine", "python", "numpy", "scipy", "numba", "scikit-learn")
    )
    seeds = results["seeds"]
    seed_text = ", ".join(map(str, seeds)) if len(seeds) < 8 else f"{seeds[0]} to {seeds[-1]}"
    command = f"python -m {runs.package_of(name)} {name}{flag}"
    return (
        f"<small>`{command}` ({size}{results['wall_seconds']:.0f} s); "
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; {versions}; "
        f"seeds {seed_text}; repetitions {results['repetitions']}; "
        f"`benchmarks/results/{name}.json`</small>"
    )


def listed():
    """Return all results on the pages, in order."""
    return [name for paper in CONTENTS for name in paper.results]


def stale():
    """Describe what is out of date, one sentence each."""
    problems = [f"{n} is not in papers/contents.py" for n in runs.names() if n not in listed()]
    for name, markdown in pages().items():
        path = FOLDER / name
        if not path.is_file() or path.read_text(encoding="utf-8") != markdown:
            problems.append(f"docs/{name} does not follow from the stored results")
    return problems + [
        f"the figure of {name} is not of the stored result" for name in old_figures()
    ]


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
