"""The command-line reference, written from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import typer

from rankine.cli._choices import fill_lists
from rankine.cli.main import app, find_commands

__all__ = ["cli_reference", "commands"]

_WORDS = {int: "INTEGER", float: "NUMBER", str: "TEXT"}
_SENTENCE = re.compile(r" *[A-Z][a-z]* ")
_MARKUP = re.compile(r"\[/?[a-z]+\]")


def commands() -> dict[str, Any]:
    """Every command by name, in alphabetical order."""
    find_commands()
    group: Any = typer.main.get_command(app)
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found |= {f"{name} {k}": c for k, c in inner.items()} if inner else {name: command}
    for command in found.values():
        fill_lists(command)
    return dict(sorted(found.items()))


def cli_reference() -> str:
    """Markdown: one section for each command, with usage, arguments, options and examples."""
    found = commands()
    parts = ["| command | what it does |\n|---|---|"]
    parts += [
        f"| [`{name}`](#{_anchor(name)}) | {_first_line(command)} |"
        for name, command in found.items()
    ]
    parts += [_section(name, command) for name, command in found.items()]
    return "\n".join(parts)


def _anchor(name: str) -> str:
    return f"rankine-{name.replace(' ', '-')}"


def _first_line(command: Any) -> str:
    return (command.help or "").strip().splitlines()[0]


def _section(name: str, command: Any) -> str:
    text, examples = _words_and_examples(command.help or "")
    more, further = _words_and_examples(command.epilog or "")
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    options = [p for p in command.params if p.opts[0].startswith("-") and p.name != "help"]
    lines = [
        f"\n## rankine {name} {{ #{_anchor(name)} }}\n",
        text,
        f"\n```text\n{' '.join(['rankine', name, *map(_place, arguments), '[OPTIONS]'])}\n```\n",
        *([f"```sh\n{block}\n```\n"] if (block := "\n".join(examples + further)) else []),
        more,
    ]
    if arguments:
        lines += ["\n| argument | meaning |\n|---|---|"]
        lines += [f"| `{_place(p).strip('[]')}` | {_cell(p.help or '')} |" for p in arguments]
    # Since Python 3.14 a wrapper does not copy the annotations of what it wraps.
    hints = get_type_hints(inspect.unwrap(command.callback))
    for title, members in _panels(options).items():
        lines += [f"\n| {title} | meaning | default |\n|---|---|---|"]
        lines += [_option(option, hints.get(option.name)) for option in members]
    return "\n".join(lines) + "\n"


def _words_and_examples(text: str) -> tuple[str, list[str]]:
    """A help text apart from its indented command lines; Rich's markup is dropped."""
    words: list[str] = []
    examples: list[str] = []
    for line in text.strip("\n").splitlines():
        plain = _MARKUP.sub("", line)
        if plain.startswith("  ") and not _SENTENCE.match(plain):
            examples.append(plain[2:])
        elif plain.strip() not in {"Examples", "Examples:"}:
            words.append(plain.strip())
    return "\n".join(words).strip(), examples


def _place(parameter: Any) -> str:
    word = parameter.metavar or parameter.name.upper().rstrip("_")
    many = "..." if parameter.nargs == -1 and "..." not in word else ""
    return f"{word}{many}" if parameter.required else f"[{word}{many}]"


def _panels(options: list[Any]) -> dict[str, list[Any]]:
    """Options by the heading that ``--help`` shows them under, in the order of the command."""
    found: dict[str, list[Any]] = {}
    for option in options:
        found.setdefault(option.rich_help_panel or "Options", []).append(option)
    return found


def _option(option: Any, kind: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    if option.secondary_opts:
        names += f", `{option.secondary_opts[0]}`"
    if not option.is_flag:
        names += f" {_cell(option.metavar or _word(kind))}"
    meaning = _cell(option.help or "") + (" (required)" if option.required else "")
    return f"| {names} | {meaning} | {_default(option)} |"


def _word(kind: Any) -> str:
    for part in (kind, *_leaves(kind)):
        if part in _WORDS:
            return _WORDS[part]
    return "VALUE"


def _leaves(kind: Any) -> Iterator[Any]:
    for part in get_args(kind):
        yield part
        yield from _leaves(part)


def _default(option: Any) -> str:
    if option.default is None or option.required or callable(option.default):
        return ""
    if option.is_flag:
        return "on" if option.default else "off"
    return f"`{option.default}`"


def _cell(text: str) -> str:
    """Text inside a table: a bar, an angle or an asterisk stays what it is."""
    return re.sub(r"([|<*_])", r"\\\1", " ".join(text.split()))
