"""Filters: which standing boxes hold each event. One file per way; `naive` is the specification."""
