"""Aggregates over sliding windows. One file per way; `naive` is the specification."""
