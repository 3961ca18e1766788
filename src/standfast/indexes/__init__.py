"""WHERE things are kept: arrays and ids. An index has never heard of a query."""
