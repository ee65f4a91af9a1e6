"""Time as it is written into records: RFC 3339, UTC, by this machine's clock."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """The present moment, to the millisecond, such as `2026-01-31T23:59:59.123Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
