#!/usr/bin/env bash
# Installs the pinned llama-cpp-python into an environment, showing how far the compiler is.
#   tools/install-llama.sh PYTHON "llama-cpp-python==X"
set -euo pipefail
python=$1
requirement=$2
log=$(dirname "$(dirname "$python")")/llama-build.log

if "$python" - "$requirement" <<'PY'
import importlib.metadata, sys
name, _, version = sys.argv[1].partition("==")
try:
    sys.exit(importlib.metadata.version(name) != version)
except importlib.metadata.PackageNotFoundError:
    sys.exit(1)
PY
then
    exit 0
fi

if ! command -v cc >/dev/null && ! command -v gcc >/dev/null && ! command -v clang >/dev/null; then
    echo "A C and C++ compiler is needed (Debian: apt-get install build-essential)." >&2
    exit 2
fi

echo "Installing $requirement. Unless a built wheel is at hand, llama.cpp is compiled now:"
echo "about ten minutes on two cores, once. Everything it prints goes to $log."
"$python" -m pip install -v "$requirement" 2>&1 | tee "$log" | awk '
    match($0, /\[[0-9]+\/[0-9]+\]/) {
        step = substr($0, RSTART + 1, RLENGTH - 2)
        split(step, n, "/")
        if (n[1] % 10 == 0 || n[1] == n[2]) { print "  compiled " n[1] " of " n[2]; fflush() }
    }' || { tail -n 30 "$log" >&2; echo "The installation failed; the whole log: $log" >&2; exit 1; }
