"""The figures, in the order of the report: one literal table."""

from __future__ import annotations

from importlib import import_module

from benchmarks.figure import Figure

NAMES = (
    "hotspot_fig2",
    "hotspot_fig7i",
    "hotspot_fig7ii",
    "hotspot_fig8i",
    "hotspot_fig8ii",
    "hotspot_fig9",
    "hotspot_fig10i",
    "hotspot_fig10ii",
    "hotspot_fig11",
    "hotspot_table2",
    "hotspot_fig12",
    "hotspot_fig15",
    "hotspot_fig18",
    "hotspot_fig25",
    "hotspot_tracking",
    "window_queries",
    "window_length",
    "window_rows",
    "window_groups",
    "shared_windows_fig9",
    "shared_windows_fig10",
    "shared_windows_fig11",
    "shared_windows_fig12",
    "bar_band_join",
    "bar_band_scaling",
    "bar_select_join",
    "bar_select_scaling",
    "bar_routing",
    "bar_routing_churn",
    "bar_window_join",
    "bar_window_memory",
    "bar_window_updates",
    "bar_window_push",
    "bar_window_aggregate",
    "bar_window_peers",
    "bar_window_single",
    "bar_window_suffixes",
    "bar_key_threshold",
    "bar_filter",
    "bar_register",
    "spark_queries",
    "spark_select",
    "spark_batch",
    "spark_shards",
    "spark_state",
    "spark_floor",
    "spark_restart",
)


def figures() -> list[Figure]:
    """All figures; each is the `FIGURE` of the module of its name."""
    return [import_module(f"benchmarks.figures.{name}").FIGURE for name in NAMES]
