"""Pure statistics on numbers and arrays; knows nothing of judges or files."""
