"""Write ``docs/licences.md``: every package that rankine installs, its licence and its size.

python -m tools.licences          # reads the metadata of what is installed
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "licences.md"
#: Extras whose packages users install; tools of developers are not shipped to anybody.
EXTRAS = ("serve", "tune", "dask", "report", "onnx", "cloud")
#: Permissive licences, by SPDX identifier or by the names that older metadata use.
ALLOWED = (
    "0BSD", "Apache", "BSD", "CC0", "HPND", "ISC", "MIT", "MPL-2.0", "MPL 2.0", "PSF",
    "Python Software Foundation", "Unlicense", "Zlib", "CNRI-Python", "MIT-CMU",
)  # fmt: skip
FORBIDDEN = ("AGPL", "GPL-3", "GPLv3", "GPL-2", "GPLv2", "Proprietary", "Commercial", "SSPL")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def plain(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(extras: tuple[str, ...] = EXTRAS) -> list[str]:
    """Names that rankine itself asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return sorted({plain(_NAME.match(line)[0]) for line in lines})  # type: ignore[index]


def required(name: str) -> list[str]:
    """Names that a package asks for; extras and other platforms are skipped."""
    found = []
    for line in metadata.requires(name) or []:
        text, _, marker = line.partition(";")
        if re.search(r"extra\s*==|win32|Windows|python_version\s*<", marker):
            continue
        match = _NAME.match(text.strip())
        if match:
            found.append(plain(match[0]))
    return found


def tree(extras: tuple[str, ...] = EXTRAS) -> list[str]:
    """Everything that ``pip install rankine[extras]`` brings, besides rankine."""
    waiting, seen = direct(extras), set()
    while waiting:
        name = waiting.pop()
        if name in seen or name == "rankine":
            continue
        try:
            waiting += required(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        seen.add(name)
    return sorted(seen)


def licence(name: str) -> str:
    """The licence as the package's metadata tell it."""
    about = metadata.metadata(name)
    said = about.get("License-Expression") or ""
    if not said:
        classes = [
            line.rpartition(" :: ")[2]
            for line in about.get_all("Classifier") or []
            if line.startswith("License ::") and not line.endswith("OSI Approved")
        ]
        said = ", ".join(classes) or (about.get("License") or "").strip().split("\n")[0]
    return said or "not told"


def megabytes(name: str) -> float:
    """Size of the installed files of a package, without compiled bytecode."""
    files = [file.locate() for file in metadata.files(name) or [] if file.suffix != ".pyc"]
    return sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file()) / 1e6


def sizes() -> list[tuple[str, float, list[str]]]:
    """Core and each extra: what it adds in megabytes, and its largest packages."""
    core = set(tree(()))
    found = []
    for label, names in (("core", core), *((e, set(tree((e,))) - core) for e in EXTRAS)):
        largest = sorted(names, key=megabytes, reverse=True)[:4]
        found.append((label, sum(map(megabytes, names)), largest))
    return found


def is_allowed(said: str) -> bool:
    """Whether a licence lets anybody use and pass on the package."""
    return any(name in said for name in ALLOWED) and not any(name in said for name in FORBIDDEN)


def page() -> str:
    """The whole page."""
    asked = set(direct())
    own = sum(p.stat().st_size for p in (ROOT / "src").rglob("*.py")) / 1e6
    lines = [
        "# Licences of what rankine installs",
        "",
        "<!-- Written by tools/licences.py; do not edit. -->",
        "",
        "Use this page to check the licences of an installation. rankine itself is BSD-3-Clause.",
        "`pip install 'rankine[all]'` also installs the following.",
        "Each row shows the package's metadata. rankine depends directly on those in bold.",
        "",
        "| package | licence | MB |",
        "|---|---|---:|",
    ]
    for name in tree():
        shown = f"**{name}**" if name in asked else name
        lines.append(f"| {shown} | {licence(name)} | {megabytes(name):.1f} |")
    lines += [
        "",
        "## What it weighs",
        "",
        "Installed files on Linux x86-64, Python 3.11, without bytecode; an extra's row is what it",
        f"adds to the core. rankine itself takes {own:.1f} MB.",
        "",
        "| part | MB | mostly |",
        "|---|---:|---|",
    ]
    for label, size, largest in sizes():
        words = ", ".join(f"{name} {megabytes(name):.0f}" for name in largest)
        lines.append(f"| {label} | {size:.0f} | {words} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stderr.write(f"wrote {PAGE}\n")
