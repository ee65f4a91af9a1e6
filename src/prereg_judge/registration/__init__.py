"""Registrations: schema, loading, claims, lint and lock."""
