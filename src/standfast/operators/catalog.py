"""Every way to answer every question: the one table that engine, laws, figures and docs read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from standfast.errors import UnsupportedQuery
from standfast.model.query import (
    BandJoin,
    Filter,
    KeyThreshold,
    Question,
    SelectJoin,
    WindowAggregate,
    WindowJoin,
)
from standfast.operators.aggregates import Class, UserAggregate, class_of, serves
from standfast.operators.band_join.groups import ByGroups
from standfast.operators.band_join.hotspot import Hotspot
from standfast.operators.band_join.merge import Merge
from standfast.operators.band_join.naive import Naive as NaiveBand
from standfast.operators.band_join.per_query import PerQuery
from standfast.operators.band_join.per_tuple import PerTuple
from standfast.operators.band_join.refined_groups import ByRefinedGroups
from standfast.operators.band_join.routed import Routed as RoutedBand
from standfast.operators.base import (
    AggregateStrategy,
    BandStrategy,
    FilterStrategy,
    SelectStrategy,
    Strategy,
    ThresholdStrategy,
    WindowStrategy,
)
from standfast.operators.filter.boxes import Boxes
from standfast.operators.filter.interval_tree import IntervalTree
from standfast.operators.filter.naive import Naive as NaiveFilter
from standfast.operators.key_threshold.collective_index import ByCollectiveIndex
from standfast.operators.key_threshold.naive import Naive as NaiveThreshold
from standfast.operators.select_join.groups import ByGroups as ByRectangleGroups
from standfast.operators.select_join.hotspot import Hotspot as HotspotSelect
from standfast.operators.select_join.join_first import JoinFirst
from standfast.operators.select_join.naive import Naive as NaiveSelect
from standfast.operators.select_join.routed import Routed as RoutedSelect
from standfast.operators.select_join.select_first import SelectFirst
from standfast.operators.select_join.vanilla import Vanilla
from standfast.operators.window_aggregate.augmented_tree import AugmentedTree
from standfast.operators.window_aggregate.base_interval_quantiles import BaseIntervalQuantiles
from standfast.operators.window_aggregate.base_intervals import BaseIntervals
from standfast.operators.window_aggregate.landmark_intervals import LandmarkIntervals
from standfast.operators.window_aggregate.materialise_all import MaterialiseAll
from standfast.operators.window_aggregate.naive import Naive as NaiveAggregate
from standfast.operators.window_aggregate.routed import Routed as RoutedAggregate
from standfast.operators.window_aggregate.running_intervals import RunningIntervals
from standfast.operators.window_join.groups import ByGroups as BySkylines
from standfast.operators.window_join.hotspot import Hotspot as WindowHotspot
from standfast.operators.window_join.join_first import JoinFirst as WindowJoinFirst
from standfast.operators.window_join.naive import Naive as NaiveWindow
from standfast.operators.window_join.routed import Routed as RoutedWindow
from standfast.operators.window_join.select_first import SelectFirst as WindowSelectFirst

QuestionName = Literal[
    "filter", "band_join", "select_join", "window_join", "window_aggregate", "key_threshold"
]

FILTERS: dict[str, type[FilterStrategy]] = {
    "naive": NaiveFilter,
    "interval_tree": IntervalTree,
    "boxes": Boxes,
}

BAND_JOINS: dict[str, type[BandStrategy]] = {
    "naive": NaiveBand,
    "per_query": PerQuery,
    "per_tuple": PerTuple,
    "merge": Merge,
    "groups": ByGroups,
    "refined_groups": ByRefinedGroups,
    "hotspot": Hotspot,
    "routed": RoutedBand,
}

SELECT_JOINS: dict[str, type[SelectStrategy]] = {
    "naive": NaiveSelect,
    "vanilla": Vanilla,
    "join_first": JoinFirst,
    "select_first": SelectFirst,
    "groups": ByRectangleGroups,
    "hotspot": HotspotSelect,
    "routed": RoutedSelect,
}

WINDOW_JOINS: dict[str, type[WindowStrategy]] = {
    "naive": NaiveWindow,
    "join_first": WindowJoinFirst,
    "select_first": WindowSelectFirst,
    "groups": BySkylines,
    "hotspot": WindowHotspot,
    "routed": RoutedWindow,
}

WINDOW_AGGREGATES: dict[str, type[AggregateStrategy]] = {
    "naive": NaiveAggregate,
    "materialise_all": MaterialiseAll,
    "augmented_tree": AugmentedTree,
    "base_intervals": BaseIntervals,
    "landmark_intervals": LandmarkIntervals,
    "running_intervals": RunningIntervals,
    "base_interval_quantiles": BaseIntervalQuantiles,
    "routed": RoutedAggregate,
}

KEY_THRESHOLDS: dict[str, type[ThresholdStrategy]] = {
    "naive": NaiveThreshold,
    "collective_index": ByCollectiveIndex,
}

CATALOG: dict[QuestionName, Mapping[str, type[Strategy]]] = {
    "filter": FILTERS,
    "band_join": BAND_JOINS,
    "select_join": SELECT_JOINS,
    "window_join": WINDOW_JOINS,
    "window_aggregate": WINDOW_AGGREGATES,
    "key_threshold": KEY_THRESHOLDS,
}

_NAMES: dict[type[Question], QuestionName] = {
    Filter: "filter",
    BandJoin: "band_join",
    SelectJoin: "select_join",
    WindowJoin: "window_join",
    WindowAggregate: "window_aggregate",
    KeyThreshold: "key_threshold",
}


def question_name(question: Question) -> QuestionName:
    """What the catalogue calls this question."""
    return _NAMES[type(question)]


def choose(
    question: Question, wanted: str, users: Mapping[str, UserAggregate] | None = None
) -> str:
    """The way for this question: the wanted one, or the best known one for "auto".

    `users` are the aggregates that users brought.
    """
    ways = CATALOG[question_name(question)]
    if wanted == "auto":
        return _best(question)
    if type(wanted) is not str or wanted not in ways:
        raise UnsupportedQuery(
            f"strategy {wanted!r} does not answer {question_name(question)}",
            hint=f"one of auto, {', '.join(ways)}",
        )
    most = ways[wanted].spec.max_attributes
    if isinstance(question, Filter) and len(question.ranges) > most:
        raise UnsupportedQuery(
            f"strategy {wanted!r} takes up to {most} attributes, "
            f"the template has {len(question.ranges)}",
            hint='pass strategy="auto"',
        )
    if isinstance(question, WindowAggregate):
        needs, found = ways[wanted].spec.needs, class_of(question.function, users or {})
        if not serves(needs, found):
            raise UnsupportedQuery(
                f"strategy {wanted!r} takes {needs} aggregates, {question.function} is {found}",
                hint=f"one of auto, {', '.join(_serving(found))}",
            )
    return wanted


def _serving(found: Class) -> list[str]:
    """The ways that answer aggregates of this class."""
    return [way for way, made in WINDOW_AGGREGATES.items() if serves(made.spec.needs, found)]


def _best(question: Question) -> str:
    if isinstance(question, Filter):
        return "interval_tree" if len(question.ranges) == 1 else "boxes"
    if isinstance(question, KeyThreshold):
        return "collective_index"
    return "routed"
