"""The search space of one ranker, or of several at once.

Parameters of a single ranker keep their names; with several (``--ranker auto``) the choice of the
ranker is a parameter too, and the others are called ``spd.l2``, ``elastic.eta0`` ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankine.core.checks import reject_sets
from rankine.core.errors import ParameterError
from rankine.core.strict_json import parse_value
from rankine.rankers.registry import Choice, Number
from rankine.tuning import import_optuna

#: Name of the parameter that chooses the ranker.
RANKER = "ranker"


def read_dimension(text: str, declared: Choice | Number | None = None) -> Choice | Number:
    """``"1e-6..1e-1:log"`` or ``"a,b,c"``; the axis is the declared one unless it says otherwise.

    Examples
    --------
    >>> read_dimension("1e-6..1e-1:log")
    Number(low=1e-06, high=0.1, log=True, integer=False, when={}, unless={})
    >>> read_dimension("hinge, logistic").values
    ('hinge', 'logistic')
    """
    if ".." not in text:
        values = [parse_value(part.strip()) for part in text.split(",") if part.strip()]
        if not values:
            raise ParameterError(f"{text!r} holds no value", fix="Write a,b,c or low..high")
        return Choice(tuple(values))
    bounds, colon, axis = text.partition(":")
    low, _, high = bounds.partition("..")
    ends = [parse_value(low.strip()), parse_value(high.strip())]
    bad_end = any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in ends)
    if bad_end or axis.strip() not in {"", "log", "linear"} or (colon and not axis.strip()):
        raise ParameterError(
            f"cannot read the range {text!r}", fix="Write low..high, low..high:log or :linear"
        )
    known = declared if isinstance(declared, Number) else None
    log = axis.strip() == "log" if axis else known is not None and known.log
    whole = known.integer if known is not None else all(isinstance(end, int) for end in ends)
    return Number(ends[0], ends[1], log=log, integer=whole)


class Space:
    """What is searched, and what it means for the rankers (name -> unfitted ranker).

    ``changes`` (parameter -> ``Number``, ``Choice``, text for ``read_dimension``, (low, high) or a
    list of values) narrow, replace or add what the rankers declare; ``fixed`` parameters are not
    searched.
    """

    def __init__(
        self,
        rankers: Mapping[str, Any],
        changes: Mapping[str, Any] | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        self.rankers = dict(rankers)
        self._several = len(self.rankers) > 1
        self.dimensions: dict[str, Choice | Number] = {}
        if self._several:
            self.dimensions[RANKER] = Choice(tuple(self.rankers))
        for name, ranker in self.rankers.items():
            for parameter, dimension in getattr(ranker, "search_space", {}).items():
                self.dimensions[self._full(name, parameter)] = self._prefixed(name, dimension)
        self.fixed: dict[str, Any] = {}
        for name, given in (changes or {}).items():
            self._check_name(name, "space")
            self.dimensions[name] = self._changed(name, given)
        for name, value in (fixed or {}).items():
            self._check_name(name, "parameters")
            self.fixed[name] = _word(value, self.dimensions.pop(name, None))
        self._fix_single_choices()
        if not self.dimensions:
            raise ParameterError(
                "there is nothing to search", fix="Leave a parameter free, or add one with space"
            )

    def distributions(self) -> dict[str, Any]:
        """Every searched parameter as an Optuna distribution."""
        kinds = import_optuna().distributions
        made = (kinds.CategoricalDistribution, kinds.IntDistribution, kinds.FloatDistribution)
        return {name: _asked(one, *made)() for name, one in self.dimensions.items()}

    def active(self, setting: Mapping[str, Any]) -> set[str]:
        """Names of the parameters that a setting reads."""
        return {name for name in self.dimensions if self._read(name, setting)}

    def suggest(self, trial: Any) -> dict[str, Any]:
        """Ask a trial for the parameters that its own setting reads."""
        setting: dict[str, Any] = {}
        # a parameter comes after those that its condition names
        for name in sorted(self.dimensions, key=self._depth):
            if self._read(name, setting):
                asked = (trial.suggest_categorical, trial.suggest_int, trial.suggest_float)
                setting[name] = _asked(self.dimensions[name], *asked)(name)
        return setting

    def ranker(self, setting: Mapping[str, Any]) -> Any:
        """An unfitted ranker with these parameters and the fixed ones."""
        from sklearn.base import clone

        whole = {**self.fixed, **setting}
        chosen = str(whole[RANKER]) if self._several else next(iter(self.rankers))
        mine = {
            name.removeprefix(f"{chosen}.") if self._several else name: value
            for name, value in whole.items()
            if name != RANKER and (not self._several or name.startswith(f"{chosen}."))
        }
        return clone(self.rankers[chosen]).set_params(**mine)

    def describe(self) -> dict[str, Any]:
        """The space as plain data; two spaces are alike when these are equal."""
        searched = {
            name: list(dimension.values)
            if isinstance(dimension, Choice)
            else [dimension.low, dimension.high, dimension.log, dimension.integer]
            for name, dimension in self.dimensions.items()
        }
        return {"searched": searched, "fixed": {k: repr(v) for k, v in self.fixed.items()}}

    # ------------------------------------------------------------------ names and conditions
    def _full(self, ranker: str, parameter: str) -> str:
        return f"{ranker}.{parameter}" if self._several else parameter

    def _prefixed(self, ranker: str, dimension: Choice | Number) -> Choice | Number:
        if isinstance(dimension, Choice):
            dimension = replace(dimension, options=dimension.values)
        if not self._several:
            return dimension
        when = {self._full(ranker, name): values for name, values in dimension.when.items()}
        unless = {self._full(ranker, name): values for name, values in dimension.unless.items()}
        return replace(dimension, when={RANKER: (ranker,), **when}, unless=unless)

    def _changed(self, name: str, given: Any) -> Choice | Number:
        declared = self.dimensions.get(name)
        reject_sets(**{name: given})
        found: Choice | Number
        if isinstance(given, (Choice, Number)):
            found = given
        elif isinstance(given, str):
            found = read_dimension(given, declared)
        elif isinstance(given, tuple) and len(given) == 2 and isinstance(declared, Number):
            found = replace(declared, low=given[0], high=given[1])
        elif isinstance(given, (list, tuple)):
            found = Choice(tuple(given))
        else:
            found = Choice((given,))
        if isinstance(found, Choice):
            found = replace(found, options=tuple(_word(v, declared) for v in found.values))
        if declared is not None and not (found.when or found.unless):
            found = replace(found, when=declared.when, unless=declared.unless)
        elif declared is None and self._several and name != RANKER:
            found = replace(found, when={RANKER: (name.partition(".")[0],), **found.when})
        return found

    def _check_name(self, name: str, where: str) -> None:
        known = {
            self._full(key, parameter)
            for key, ranker in self.rankers.items()
            for parameter in ranker.get_params(deep=False)
        }
        if name not in known and name not in self.dimensions:
            raise ParameterError(
                f"{where}: there is no parameter {name!r}",
                fix=f"Choose among {', '.join(sorted(known))}",
            )

    def _fix_single_choices(self) -> None:
        for name, dimension in list(self.dimensions.items()):
            if isinstance(dimension, Choice) and len(dimension.values) == 1:
                self.fixed[name] = dimension.values[0]
                del self.dimensions[name]

    def _read(self, name: str, setting: Mapping[str, Any]) -> bool:
        dimension = self.dimensions[name]

        def holds(condition: tuple[str, Any]) -> bool:
            return self._holds(*condition, setting)

        return all(map(holds, dimension.when.items())) and not any(
            map(holds, dimension.unless.items())
        )

    def _holds(self, name: str, values: Any, setting: Mapping[str, Any]) -> bool:
        """Whether a parameter is read and has one of the values."""
        if name in setting:
            return setting[name] in values
        if name in self.dimensions:
            return False
        return self._default(name) in values

    def _default(self, name: str) -> Any:
        """The value of a parameter that is not searched."""
        if name in self.fixed:
            return self.fixed[name]
        key, _, parameter = name.partition(".") if self._several else ("", "", name)
        ranker = self.rankers[key] if self._several else next(iter(self.rankers.values()))
        return ranker.get_params(deep=False).get(parameter)

    def _depth(self, name: str) -> int:
        dimension = self.dimensions[name]
        others = [k for k in (*dimension.when, *dimension.unless) if k in self.dimensions]
        return 1 + max((self._depth(other) for other in others), default=-1)


def _word(value: Any, declared: Choice | Number | None) -> Any:
    """The value; None is the word "none" where that is one of the declared words."""
    named = isinstance(declared, Choice) and "none" in declared.values
    return "none" if value is None and named else value


def _asked(dimension: Choice | Number, choice: Any, whole: Any, real: Any) -> Any:
    """One of Optuna's functions for choices, whole and real numbers, with values or bounds."""
    if isinstance(dimension, Choice):
        return lambda *name: choice(*name, dimension.values)
    kind, number = (whole, int) if dimension.integer else (real, float)
    ends = number(dimension.low), number(dimension.high)
    return lambda *name: kind(*name, *ends, log=dimension.log)
