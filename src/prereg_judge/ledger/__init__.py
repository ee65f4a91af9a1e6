"""The append-only, hash-chained log of what happened to registrations and runs."""
