"""Reference of a class or function in Markdown, written from its docstring and signature."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["api_reference"]

_SECTION = re.compile(r"^(\S[^\n]*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"\n(?=\S)")
#: Sections whose entries are named.
_LISTS = ("Parameters", "Attributes", "Raises", "Returns", "Yields")
#: Methods of scikit-learn's base class, described there.
_NOT_OURS = "sklearn"


def api_reference(path: str) -> str:
    """Return the reference of ``package.name``: options, attributes, example, methods."""
    module, _, name = path.rpartition(".")
    subject = getattr(importlib.import_module(module), name)
    parts = [f"### {path} {{ #{path} }}", *_description(subject)]
    if inspect.isclass(subject):
        for method_name, method in _methods(subject):
            parts.append(f"#### {method_name} {{ #{path}.{method_name} }}")
            parts += _description(method)
    return "\n\n".join(parts)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class, in the order in which they are written, bases last."""
    seen = set()
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen or base.__module__.startswith(_NOT_OURS):
                continue
            seen.add(name)
            method = getattr(value, "__func__", value)
            method = getattr(method, "fn", method)  # a method that depends on the parameters
            if inspect.isfunction(method) and method.__doc__:
                yield name, method


def _description(subject: Any) -> list[str]:
    """Return the blocks of Markdown for one class or function."""
    summary, sections = split_docstring(inspect.getdoc(subject) or "")
    blocks = [f"```text\n{_signature(subject)}\n```", *_markdown(summary)]
    for title, text in sections.items():
        if title == "Parameters":
            blocks += ["**Parameters**", _parameters(subject, text)]
        elif title in _LISTS:
            blocks += [f"**{title}**", *_entries(text)]
        elif title == "Examples":
            blocks += ["**Example**", f"```python-console\n{text}\n```"]
        else:
            blocks += [f"**{title}**", *_markdown(text)]
    return blocks


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first section of a numpydoc docstring, and its sections."""
    summary, *rest = _SECTION.split(text)
    return summary.strip(), {
        title: body.strip("\n") for title, body in zip(rest[::2], rest[1::2], strict=True)
    }


def _signature(subject: Any) -> str:
    """Return the name with all parameters and defaults, one per line where there are many."""
    parameters = []
    keyword = False
    for parameter in inspect.signature(subject).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            keyword = True
            parameters.append("*")
        text = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text += parameter.name
        if parameter.default is not parameter.empty:
            text += f"={_default(parameter.default)}"
        parameters.append(text)
    line = f"{subject.__name__}({', '.join(parameters)})"
    if len(line) <= 88:
        return line
    return f"{subject.__name__}(\n    " + ",\n    ".join(parameters) + ",\n)"


def _default(value: Any) -> str:
    return value.__name__ if isinstance(value, type | Callable) else repr(value)  # type: ignore[arg-type]


def _parameters(subject: Any, text: str) -> str:
    """Return a list of all parameters with their meaning; those of the base class come last."""
    entries = dict(_named(text))
    for base in getattr(subject, "__mro__", ())[1:]:
        _, sections = split_docstring(inspect.cleandoc(vars(base).get("__doc__") or ""))
        described = {name for names in entries for name in names.split(", ")}
        for names, meaning in _named(sections.get("Parameters", "")):
            own = [n for n in names.split(", ") if n not in described or _refers(entries, n)]
            if own and base.__name__ == "BaseRanker":
                entries[", ".join(own)] = meaning
    kept = {names: meaning for names, meaning in entries.items() if "``BaseRanker``" not in meaning}
    return "\n".join(_entry(names, meaning) for names, meaning in kept.items())


def _refers(entries: dict[str, str], name: str) -> bool:
    """Return whether the entry of a parameter only refers to the base class."""
    meaning = next(text for names, text in entries.items() if name in names.split(", "))
    return "``BaseRanker``" in meaning


def _named(text: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a section: names, and their text on one line."""
    for entry in _ENTRY.split(text.strip("\n")):
        names, _, meaning = entry.partition("\n")
        if names.strip():
            yield names.strip(), " ".join(meaning.split())


def _entries(text: str) -> list[str]:
    return ["\n".join(_entry(names, meaning) for names, meaning in _named(text))]


def _entry(names: str, meaning: str) -> str:
    names, _, kind = names.partition(" : ")
    if kind and meaning:
        kind = f" ({kind})"
    elif kind:
        meaning, kind = kind, ""
    return f"- `{names}`{_inline(kind)}: {_inline(meaning)}".rstrip(": ")


def _markdown(text: str) -> list[str]:
    """Return paragraphs of a docstring as Markdown."""
    blocks = []
    # The body of the directive may follow a blank line; it belongs to the same paragraph.
    text = re.sub(r"\.\. math::\s+", ".. math:: ", text)
    for paragraph in re.split(r"\n\s*\n", text):
        formula = re.match(r"\.\. math::\s*(.*)", paragraph, re.DOTALL)
        if formula is not None:
            blocks.append(f"$$\n{' '.join(formula[1].split())}\n$$")
        elif paragraph.lstrip().startswith((">>>", "* ", "- ", "|")):
            blocks.append(inspect.cleandoc(paragraph))
        elif paragraph.strip():
            blocks.append(_inline(" ".join(paragraph.split())))
    return blocks


def _inline(text: str) -> str:
    """Return text with code and formulas marked as Markdown marks them."""
    parts = re.split(r"(``.+?``|:math:`.+?`)", text)
    for k, part in enumerate(parts):
        if part.startswith(":math:"):
            parts[k] = f"${part[7:-1]}$"
        elif part.startswith("``"):
            parts[k] = part[1:-1]
        else:
            parts[k] = re.sub(r"([|<*_])", r"\\\1", part)
    return "".join(parts)
