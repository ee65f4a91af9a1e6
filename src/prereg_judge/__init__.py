"""Pre-registered reliability checks for local LLM judges.

Register what you expect, run the judge, score the run against what was registered.
The package's parts and their direction are described in `docs/architecture.md`.
"""

__version__ = "0.1.0"
