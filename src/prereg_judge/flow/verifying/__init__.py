"""`prereg verify`: everything re-derived from bytes; proved, not proved, violated."""
