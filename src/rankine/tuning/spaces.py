"""The search space of one ranker, or of several at once.

Parameters of a single ranker keep their names. With several (``--ranker auto``) the choice of the
ranker is a parameter too, and the others are called ``spd.l2``, ``elastic.l1`` ...
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
    """Parse ``"1e-6..1e-1:log"`` or ``"a,b,c"``; the axis is the declared one unless given.

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
            raise ParameterError(
                f"{text!r} contains no value", fix="Write a,b,c or low..high", parameter="space"
            )
        return Choice(tuple(values))
    bounds, colon, axis = text.partition(":")
    axis = axis.strip()
    low, _, high = bounds.partition("..")
    ends = [parse_value(low.strip()), parse_value(high.strip())]
    bad_end = any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in ends)
    if bad_end or axis not in {"", "log", "linear"} or (colon and not axis):
        raise ParameterError(
            f"cannot read the range {text!r}",
            fix="Write low..high, low..high:log or low..high:linear",
            parameter="space",
        )
    if isinstance(declared, Number):
        log, integer = declared.log, declared.integer
    else:
        log, integer = False, all(isinstance(end, int) for end in ends)
    if axis:
        log = axis == "log"
    return Number(ends[0], ends[1], log=log, integer=integer)


class Space:
    """The searched parameters of rankers (name -> unfitted ranker), and their conditions.

    ``changes`` (parameter -> ``Number``, ``Choice``, text for ``read_dimension``, (low, high) or a
    list of values) narrow, replace or add to what the rankers declare. ``fixed`` parameters are not
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
            for given, searched in getattr(ranker, "search_instead", {}).items():
                if {self._full(name, given)} & {*(changes or {}), *(fixed or {})}:
                    self.dimensions.pop(self._full(name, searched), None)
        self.fixed: dict[str, Any] = {}
        for name, change in (changes or {}).items():
            self._check_name(name, "space")
            self.dimensions[name] = self._changed(name, change)
        for name, value in (fixed or {}).items():
            self._check_name(name, "parameters")
            self.fixed[name] = _none_as_word(value, self.dimensions.pop(name, None))
        self._fix_single_choices()
        if not self.dimensions:
            raise ParameterError(
                "there is nothing to search",
                fix="Leave a parameter free, or add one",
                parameter="space",
            )

    def distributions(self) -> dict[str, Any]:
        """Return every searched parameter as an Optuna distribution."""
        optuna_kinds = import_optuna().distributions
        distributions: dict[str, Any] = {}
        for name, dimension in self.dimensions.items():
            if isinstance(dimension, Choice):
                distributions[name] = optuna_kinds.CategoricalDistribution(dimension.values)
            else:
                numeric = optuna_kinds.FloatDistribution
                if dimension.integer:
                    numeric = optuna_kinds.IntDistribution
                distributions[name] = numeric(*_bounds(dimension), log=dimension.log)
        return distributions

    def active(self, setting: Mapping[str, Any]) -> set[str]:
        """Return the names of the parameters that a setting uses."""
        return {name for name in self.dimensions if self._is_active(name, setting)}

    def suggest(self, trial: Any) -> dict[str, Any]:
        """Draw from a trial the parameters that are used together."""
        setting: dict[str, Any] = {}
        # A parameter must come after those that its condition names.
        for name in sorted(self.dimensions, key=self._depth):
            if not self._is_active(name, setting):
                continue
            dimension = self.dimensions[name]
            if isinstance(dimension, Choice):
                setting[name] = trial.suggest_categorical(name, dimension.values)
            else:
                suggest = trial.suggest_int if dimension.integer else trial.suggest_float
                setting[name] = suggest(name, *_bounds(dimension), log=dimension.log)
        return setting

    def defaults(self) -> list[dict[str, Any]]:
        """Return the rankers' own settings, of those whose parameters are all in the space."""
        settings: list[dict[str, Any]] = []
        for name in self.rankers:
            setting: dict[str, Any] = {}
            if RANKER in self.dimensions:
                setting[RANKER] = name
            for parameter in sorted(self.dimensions, key=self._depth):
                if parameter != RANKER and self._is_active(parameter, setting):
                    setting[parameter] = self._default(parameter)
            is_complete = all(_holds(self.dimensions[key], setting[key]) for key in setting)
            if is_complete and setting not in settings:
                settings.append(setting)
        return settings

    def ranker(self, setting: Mapping[str, Any]) -> Any:
        """Create an unfitted ranker with the parameters of a setting and the fixed ones."""
        from sklearn.base import clone

        parameters = {**self.fixed, **setting}
        if not self._several:
            parameters.pop(RANKER, None)
            (ranker,) = self.rankers.values()
            return clone(ranker).set_params(**parameters)
        system = str(parameters[RANKER])
        prefix = f"{system}."
        return clone(self.rankers[system]).set_params(
            **{
                name.removeprefix(prefix): value
                for name, value in parameters.items()
                if name.startswith(prefix)
            }
        )

    def describe(self) -> dict[str, Any]:
        """Return the space as plain data; equal spaces have equal descriptions."""
        searched = {}
        for name, dimension in self.dimensions.items():
            if isinstance(dimension, Choice):
                searched[name] = list(dimension.values)
            else:
                ends = [dimension.low, dimension.high]
                searched[name] = [*ends, dimension.log, dimension.integer]
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

    def _changed(self, name: str, change: Any) -> Choice | Number:
        """Return the dimension that a change describes, with the declared conditions."""
        declared = self.dimensions.get(name)
        reject_sets(**{name: change})
        dimension: Choice | Number
        if isinstance(change, (Choice, Number)):
            dimension = change
        elif isinstance(change, str):
            dimension = read_dimension(change, declared)
        elif isinstance(change, tuple) and len(change) == 2 and isinstance(declared, Number):
            dimension = replace(declared, low=change[0], high=change[1])
        elif isinstance(change, (list, tuple)):
            dimension = Choice(tuple(change))
        else:
            dimension = Choice((change,))
        if isinstance(dimension, Choice):
            options = tuple(_none_as_word(value, declared) for value in dimension.values)
            dimension = replace(dimension, options=options)
        if declared is not None and not (dimension.when or dimension.unless):
            return replace(dimension, when=declared.when, unless=declared.unless)
        if declared is None and self._several and name != RANKER:
            ranker = name.partition(".")[0]
            return replace(dimension, when={RANKER: (ranker,), **dimension.when})
        return dimension

    def _check_name(self, name: str, argument: str) -> None:
        names = {
            self._full(ranker_name, parameter)
            for ranker_name, ranker in self.rankers.items()
            for parameter in ranker.get_params(deep=False)
        }
        if name not in names and name not in self.dimensions:
            raise ParameterError(
                f"the ranker has no parameter {name!r}",
                fix=f"Choose among {', '.join(sorted(names))}",
                parameter=argument,
            )

    def _fix_single_choices(self) -> None:
        for name, dimension in list(self.dimensions.items()):
            if isinstance(dimension, Choice) and len(dimension.values) == 1:
                self.fixed[name] = dimension.values[0]
                del self.dimensions[name]

    def _is_active(self, name: str, setting: Mapping[str, Any]) -> bool:
        dimension = self.dimensions[name]
        if any(self._has_value(*condition, setting) for condition in dimension.unless.items()):
            return False
        return all(self._has_value(*condition, setting) for condition in dimension.when.items())

    def _has_value(self, name: str, values: Any, setting: Mapping[str, Any]) -> bool:
        """Return whether a parameter is used and has one of the values."""
        if name in setting:
            return setting[name] in values
        if name in self.dimensions:
            return False
        return self._default(name) in values

    def _default(self, name: str) -> Any:
        """Return the value of a parameter that is not searched."""
        if name in self.fixed:
            return self.fixed[name]
        if self._several:
            system, _, parameter = name.partition(".")
            ranker = self.rankers[system]
        else:
            parameter = name
            (ranker,) = self.rankers.values()
        return ranker.get_params(deep=False).get(parameter)

    def _depth(self, name: str) -> int:
        """Return the length of the longest chain of conditions that leads to a parameter."""
        dimension = self.dimensions[name]
        conditions = [k for k in (*dimension.when, *dimension.unless) if k in self.dimensions]
        return 1 + max((self._depth(condition) for condition in conditions), default=-1)


def _holds(dimension: Choice | Number, value: Any) -> bool:
    """Return whether a dimension has a value."""
    if isinstance(dimension, Choice):
        return value in dimension.values
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and dimension.low <= value <= dimension.high


def _none_as_word(value: Any, declared: Choice | Number | None) -> Any:
    """Return the value; None becomes "none" if that is one of the declared choices."""
    if value is None and isinstance(declared, Choice) and "none" in declared.values:
        return "none"
    return value


def _bounds(dimension: Number) -> tuple[float, float]:
    if dimension.integer:
        return int(dimension.low), int(dimension.high)
    return float(dimension.low), float(dimension.high)
