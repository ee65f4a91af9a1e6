"""Says in one line when this Python is too old for the project."""

import sys

if sys.version_info < (3, 11):
    sys.exit(
        f"Python 3.11 or newer is needed; {sys.executable} is {sys.version.split()[0]}. "
        "Use: make PYTHON=/path/to/python3.11"
    )
