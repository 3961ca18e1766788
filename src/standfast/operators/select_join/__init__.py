"""`select_join`: which queries select an arriving row and some stored row with the same key."""
