"""What a ranker supports, and the error for what it does not."""

from __future__ import annotations

from dataclasses import dataclass

from rankine.core.errors import ParameterError

#: Kinds of sources: a description, and how a user gets one.
SOURCE_KINDS = {
    "memory": ("rows in memory", "rankine.load(...)"),
    "stream": ("a stream", "rankine.scan(...)"),
    "partitions": ("partitions", "rankine.distributed.scan(...)"),
}
#: Ends of "the ranker cannot ..." for each capability.
_ACTIONS = {
    "fit": "be fitted to {}",
    "path": "compute a path of models over {}",
    "checkpoint": "write checkpoints of a fit to {}",
    "query_weight": "weigh queries of {} by this option",
    "record_at": "record the weights at steps of a fit to {}",
}
#: Capabilities that are options of ``fit`` or of the ranker.
_OPTIONS = ("checkpoint", "query_weight", "record_at")


@dataclass(frozen=True)
class Capabilities:
    """What a ranker supports, and for which sources ("memory", "stream", "partitions").

    Attributes
    ----------
    fit, path
        Sources that these methods accept.
    checkpoint
        Sources for which checkpoints can be written.
    query_weight, record_at
        Sources for which these options are available.
    journal
        Whether checkpoints record the result of every finished step of the search, to be replayed
        on resume, instead of the state of one long run. Partitions always keep a journal.
    partial
        Whether ``partial_fit`` learns from one block after another.
    path_options
        Further options of ``path``.
    comparisons
        How it learns from ``Dataset.from_pairs``, as the end of "it ...".
    """

    fit: tuple[str, ...] = ("memory",)
    path: tuple[str, ...] = ()
    checkpoint: tuple[str, ...] = ()
    query_weight: tuple[str, ...] = ("memory",)
    record_at: tuple[str, ...] = ()
    journal: bool = False
    partial: bool = False
    path_options: tuple[str, ...] = ()
    comparisons: str = "learns from comparisons as lists of two, and refuses weights and ties"

    def require(self, action: str, kind: str, ranker: str) -> None:
        """Raise unless ``action`` is supported for sources of this kind."""
        supported: tuple[str, ...] = getattr(self, action)
        if kind in supported:
            return
        alternatives = [
            f"{description} ({how})"
            for name, (description, how) in SOURCE_KINDS.items()
            if name in supported
        ]
        fix = "Leave it out, or use another ranker"
        if alternatives:
            fix = f"Use {' or '.join(alternatives)}"
        raise ParameterError(
            f"{ranker} cannot {_ACTIONS[action].format(SOURCE_KINDS[kind][0])}",
            parameter=action if action in _OPTIONS else None,
            fix=fix,
        )
