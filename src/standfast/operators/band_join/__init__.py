"""`band_join`: which bands hold the difference of an arriving row and some stored row."""
