# Everything a developer types. Needs nothing but Python 3.11 to 3.13 and the package registries; uv is used when there.

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PLOTS  := $(VENV)/.bench
SYSTEM := $(shell uname -s)
EXTRA  := $(if $(filter Linux,$(SYSTEM)),[cpu])
# One BLAS thread in tests: two of them on a busy machine wait for each other. Their processes read what the first one
# compiled, whatever the shell says: each would take a second more.
QUIET  := OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false \
          PYTHONDONTWRITEBYTECODE=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fix bench bench-quick screenshots nano soak clean

help:  ## Show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'

setup: $(READY)  ## Make .venv with all that pkb needs

$(READY): pyproject.toml Makefile
	@echo "pkb: setting up $(VENV); the first time this fetches about 400 MB and takes a few minutes"
	@./tests/setup.sh $(VENV) '$(EXTRA)'
	@touch $@

demo: $(READY)  ## Ingest the bundled mail and meetings, ask, ask again, show what that saved
	@$(QUIET) $(BIN)/python -m tests.demo

test: $(READY)  ## Run the tests (under ten minutes on two cores)
	@echo "pkb: running the tests"
	@$(QUIET) $(BIN)/python -m pytest -m "not soak" -n 2

check: $(READY)  ## Format, lint, types, tests: what must pass
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(MAKE) --no-print-directory test

fix: $(READY)  ## Format and mend what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

$(PLOTS): $(READY)
	@./tests/setup.sh $(VENV) '$(EXTRA)' bench
	@touch $@

bench: $(PLOTS)  ## PerCache's evaluation, into docs/benchmarks.md (about 50 minutes; goes on where it was broken off)
	@$(BIN)/python -m tests.bench.experiments whole --minutes 50 --to docs

bench-quick: $(PLOTS)  ## A short form of it, into build/bench/quick (3 minutes)
	@$(BIN)/python -m tests.bench.experiments quick --minutes 4

screenshots: $(READY)  ## Render the terminal pictures of README and guide into docs/images, from real runs
	@$(QUIET) $(BIN)/python -m tests.screenshots

nano:  ## Train the tiny model of demo and tests anew, into build/nano (an hour; MORE="--minutes 5" and the like)
	@test -x .venv-nano/bin/python || python3 -m venv .venv-nano
	@.venv-nano/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@.venv-nano/bin/python -m pip install --quiet --group nano
	@.venv-nano/bin/python -m tests.nano $(MORE)

soak: $(READY)  ## The long tests: kills by the dozen, fuzzing at length
	@$(QUIET) $(BIN)/python -m pytest -m soak -s

clean:  ## Remove .venv and caches
	rm -rf $(VENV) .venv-nano .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
