"""What the verbs do: checking, locking, running and scoring one registration.

The only place that knows registrations, engine, records and studies together.
"""
