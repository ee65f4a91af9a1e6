"""Results as text and files; sees results, never raw records."""
