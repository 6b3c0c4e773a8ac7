"""Reference of a class, function or module in Markdown, from docstrings and signatures."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock, patch

__all__ = ["api_reference"]

_SECTION = re.compile(r"^(\S[^\n]*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"\n(?=\S)")
#: Sections whose entries are named.
_LISTS = ("Parameters", "Attributes", "Raises", "Returns", "Yields")
#: Modules that need an optional package -> what they import of it.
_OPTIONAL = {"rankine.mlflow": ("mlflow", "mlflow.models")}
_PROPERTIES = (property, cached_property)
#: Comments that document a constant.
_CONSTANT = r"((?:^#: .*\n)+)^{name}\b"


def api_reference(path: str) -> str:
    """Return the reference of ``package.name``: options, attributes, example, methods.

    Of a module it is the text before the first section of its docstring and the reference of its
    public names.
    """
    module_path, _, name = path.rpartition(".")
    module = _import(module_path)
    # A function may have the name of its package's module, so an attribute does not tell.
    if hasattr(module, "__path__") and importlib.util.find_spec(path) is not None:
        return _module_reference(path)
    subject = getattr(module, name)
    parts = [f"### {path} {{ #{path} }}"]
    if not callable(subject):
        return "\n\n".join([*parts, *_constant(module, name)])
    parts += _description(subject)
    if inspect.isclass(subject):
        properties = list(_properties(subject))
        if properties:
            parts += ["**Properties**", "\n".join(properties)]
        for method_name, method in _methods(subject):
            parts.append(f"#### {method_name} {{ #{path}.{method_name} }}")
            parts += _description(method)
    return "\n\n".join(parts)


def _module_reference(path: str) -> str:
    module = _import(path)
    summary, _ = split_docstring(inspect.getdoc(module) or "")
    names = [api_reference(f"{path}.{name}") for name in _public_names(module)]
    return "\n\n".join([*_markdown(summary), *names])


def _import(path: str) -> ModuleType:
    """Import a module, with a stand-in for an optional package that is not installed."""
    packages = _OPTIONAL.get(path, ())
    if not packages or importlib.util.find_spec(packages[0]):
        return importlib.import_module(path)
    with patch.dict(sys.modules, {name: MagicMock() for name in packages}):
        return importlib.import_module(path)


def _public_names(module: ModuleType) -> list[str]:
    """Return the names of ``__all__``, or all that a module without it defines, as they stand."""
    own = [
        name for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]  # fmt: skip
    names = getattr(module, "__all__", own)
    position = {name: k for k, name in enumerate(vars(module))}
    names = sorted(names, key=lambda name: position.get(name, len(position)))
    return [name for name in names if not isinstance(getattr(module, name), ModuleType)]


def _constant(module: ModuleType, name: str) -> list[str]:
    """Return the comment above a constant and its value, of a mapping the keys."""
    comment = re.search(_CONSTANT.format(name=name), inspect.getsource(module), re.MULTILINE)
    blocks = []
    if comment:
        blocks = _markdown(comment[1].replace("#: ", ""))
    value = getattr(module, name)
    if isinstance(value, dict):
        return [*blocks, "Keys: " + ", ".join(f"`{key!r}`" for key in value) + "."]
    return [*blocks, f"```text\n{name} = {value!r}\n```"]


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members that rankine defines, in the order of the source, bases last."""
    seen = set()
    for base in cls.__mro__:
        for name, value in vars(base).items():
            ours = base.__module__.partition(".")[0] == "rankine"
            if ours and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, value


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class."""
    for name, value in _members(cls):
        method = getattr(value, "__func__", value)
        method = getattr(method, "fn", method)  # a method that depends on the parameters
        if inspect.isfunction(method) and method.__doc__:
            yield name, method


def _properties(cls: type) -> Iterator[str]:
    """Yield one line for each documented property of a class."""
    for name, value in _members(cls):
        if isinstance(value, _PROPERTIES) and value.__doc__:
            getter = getattr(value, "fget", None) or value.func  # type: ignore[union-attr]
            kind = getter.__annotations__.get("return", "")
            yield _entry(f"{name} : ``{kind}``", " ".join(inspect.cleandoc(value.__doc__).split()))


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
            blocks += ["**Example**", *_example(text)]
        else:
            blocks += [f"**{title}**", *_markdown(text)]
    return blocks


def _example(text: str) -> list[str]:
    if text.startswith(">>>"):
        return [f"```python-console\n{text}\n```"]
    return _markdown(text)


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
    signature = inspect.signature(subject)
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            keyword = True
            parameters.append("*")
        text = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text += parameter.name
        kind = _type(parameter.annotation)
        if kind:
            text += f": {kind}"
        if parameter.default is not parameter.empty:
            equals = " = " if kind else "="
            text += f"{equals}{_default(parameter.default)}"
        parameters.append(text)
    returned = "" if inspect.isclass(subject) else _type(signature.return_annotation)
    if returned:
        returned = f" -> {returned}"
    line = f"{subject.__name__}({', '.join(parameters)}){returned}"
    if len(line) <= 88:
        return line
    return f"{subject.__name__}(\n    " + ",\n    ".join(parameters) + f",\n){returned}"


def _type(annotation: Any) -> str:
    """Return an annotation as it is written; nothing where it says nothing."""
    annotation = getattr(annotation, "__forward_arg__", annotation)  # of a NamedTuple
    if annotation in (inspect.Signature.empty, "Any"):
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


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
        elif paragraph.lstrip().startswith((">>>", "|")):
            blocks.append(inspect.cleandoc(paragraph))
        elif paragraph.lstrip().startswith(("* ", "- ")):
            items = re.split(r"^[*-] ", inspect.cleandoc(paragraph), flags=re.MULTILINE)[1:]
            blocks.append("\n".join(f"- {_inline(' '.join(item.split()))}" for item in items))
        elif all(line.startswith("    ") for line in paragraph.splitlines()):
            blocks.append(f"```text\n{inspect.cleandoc(paragraph)}\n```")
        elif paragraph.strip():
            blocks.append(_inline(re.sub("::$", ":", " ".join(paragraph.split()))))
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
