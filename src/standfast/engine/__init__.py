"""WHO answers and WHEN: the engine, its groups of queries, its stores of rows."""
