"""`window_join`: select-joins of rows that lie close to each other in time."""
