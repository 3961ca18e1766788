"""Ways to answer `key_threshold`: which keys have an aggregate in a range, by sliding windows."""
