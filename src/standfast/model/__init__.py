"""WHAT is asked: inputs, questions, templates, numbers. No numba, no Spark."""
