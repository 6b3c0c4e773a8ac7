"""The command-line application object; commands attach themselves to it.

Command modules import only typer at the top and everything heavy inside the command, so that
``rankine --help`` stays fast.
"""

from __future__ import annotations

import typer

app = typer.Typer(
    name="rankine",
    help="Large-scale linear learning to rank: train, evaluate, explain and serve linear rankers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
