# All commands for development. Needs only Python 3.11 to 3.13 and the package registries; uses uv if installed.

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PLOTS  := $(VENV)/.bench
PAGE   := $(VENV)/.page
RAY    := $(VENV)/.ray
SUPPLY := build/supply
BANK   := build/bank
LOCKS  := tests/requirements.lock tests/models.lock
SYSTEM := $(shell uname -s)
EXTRA  := $(if $(filter Linux,$(SYSTEM)),[cpu])
# One BLAS thread in tests: two on a busy machine wait for each other. Bytecode is always written, whatever the shell
# says: without it each process of a test would take a second more.
QUIET  := OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false \
          PYTHONDONTWRITEBYTECODE=
# Each run of the tests is the same, down to the order of sets; `make soak` is another one each time.
SAME   := $(QUIET) PYTHONHASHSEED=0

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-budget test-slow attack test-page test-bank test-ray check fix bench bench-quick docs lock audit screenshots screenshots-page nano adapters reader soak clean

help:  ## Show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{ printf "  make %-16s %s\n", $$1, $$2 }'

setup: $(READY)  ## Create .venv with everything pkb needs, from the lock (LOCKED=no: newest that fit the ranges)

$(READY): pyproject.toml Makefile $(LOCKS)
	@echo "pkb: setting up $(VENV); the first time this fetches about 500 MB and takes a few minutes"
	@LOCKED=$(LOCKED) ./tests/setup.sh $(VENV) '$(EXTRA)'
	@touch $@

demo: $(READY)  ## Ingest the bundled mail and meetings, ask, ask again, show the time saved
	@$(QUIET) $(BIN)/python -m tests.demo

test: $(READY)  ## Run the tests (under five minutes on two cores)
	@echo "pkb: running the tests"
	@$(SAME) $(BIN)/python -m pytest -m "not slow and not soak" -n 2 --dist worksteal

test-budget: $(READY)  ## Measure what the tests of `make test` cost: at most 480 processor seconds, 2 a test
	@$(SAME) $(BIN)/python -m pytest -m "not slow and not soak" -p tests.budget -n 2 --dist worksteal

# The property tests run again, with ten times as many examples.
test-slow: $(READY)  ## Run the slow tests (under thirty minutes on two cores)
	@echo "pkb: running the slow tests"
	@$(SAME) $(BIN)/python -m pytest -m "(slow or hypothesis) and not soak" --hypothesis-profile=thorough -n 2 --dist worksteal

attack: $(READY)  ## Run all attacks on cache, clock, senders, parsers and terminal (about ten minutes)
	@$(SAME) $(BIN)/python -m pytest -m "attack and not soak" -n 2 --dist worksteal

$(PAGE): $(READY)
	@./tests/setup.sh $(VENV) '$(EXTRA)' page
	@touch $@

test-page: $(PAGE)  ## Run the tests of the page in a browser (needs Chromium)
	@$(QUIET) $(BIN)/python -m pytest tests/page

# An environment of its own: the server's packages would hold back ours.
$(BANK)/.ready: pyproject.toml
	@./tests/setup.sh $(BANK) '' bank
	@touch $@

test-bank: $(READY) $(BANK)/.ready  ## Run the tests of tables in an object store, on a local S3 server
	@$(SAME) $(BIN)/python -m pytest tests/cli/test_object_store.py

$(RAY): $(READY)
	@./tests/setup.sh $(VENV) '$(EXTRA)' ray
	@touch $@

test-ray: $(RAY)  ## Run the tests of `pkb ingest --engine ray` on a cluster of two workers (fetches 92 MB)
	@$(QUIET) $(BIN)/python -m pytest -m "slow or not slow" tests/engine/ingest/test_cluster.py

check: $(READY)  ## Format, lint, types and tests: must pass
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(MAKE) --no-print-directory test

fix: $(READY)  ## Format the code and apply automatic fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

$(PLOTS): $(READY)
	@./tests/setup.sh $(VENV) '$(EXTRA)' bench
	@touch $@

bench: $(PLOTS)  ## Run the evaluation into docs/benchmarks.md (planned for an hour; resumes after an interruption)
	@$(BIN)/python -m tests.bench.experiments whole --minutes 50 --to docs

bench-quick: $(PLOTS)  ## Run a short form of it into build/bench/quick
	@$(BIN)/python -m tests.bench.experiments quick --minutes 4

docs: $(READY)  ## Generate docs/reference.md, the man page docs/pkb.1 and docs/licences.md
	@$(QUIET) $(BIN)/python -m tests.reference
	@$(QUIET) $(BIN)/python -m tests.dependencies

$(SUPPLY)/.ready: pyproject.toml
	@./tests/setup.sh $(SUPPLY) '' supply
	@touch $@

# Keeps the versions that are pinned already and still fit; MORE=--upgrade takes the newest.
PIN = $(SUPPLY)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
      --custom-compile-command "make lock" $(MORE)

lock: $(SUPPLY)/.ready  ## Pin every package of setup with its hashes, for all systems (MORE=--upgrade: to the newest)
	@$(PIN) pyproject.toml --extra cpu --group dev --group build \
	  --output-file tests/requirements.lock
	@$(PIN) --no-deps --group models --output-file tests/models.lock

audit: $(SUPPLY)/.ready  ## Look up known vulnerabilities of the pinned packages (asks the database of the Python index)
	@$(SUPPLY)/bin/pip-audit --strict --require-hashes --disable-pip --requirement tests/requirements.lock

screenshots: $(READY)  ## Render the terminal pictures of README and guide into docs/images, from real runs
	@$(QUIET) $(BIN)/python -m tests.screenshots

screenshots-page: $(PAGE)  ## Render the pictures of the page into docs/images (needs Chromium)
	@$(QUIET) $(BIN)/python -m tests.page.screenshots

nano:  ## Train the tiny demo model again into build/nano (an hour; options: MORE="--minutes 5")
	@test -x .venv-nano/bin/python || python3 -m venv .venv-nano
	@.venv-nano/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@.venv-nano/bin/python -m pip install --quiet --group nano
	@.venv-nano/bin/python -m tests.nano $(MORE)

adapters:  ## Train the role adapters of SmolLM2 into build/adapters (hours; needs DATA=FILE, see docs/adapters.md)
	@test -n "$(DATA)" || { echo "pkb: name the training questions: make adapters DATA=reading.jsonl.gz (docs/adapters.md)"; exit 2; }
	@test -x .venv-nano/bin/python || python3 -m venv .venv-nano
	@.venv-nano/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@.venv-nano/bin/python -m pip install --quiet --group adapters
	@.venv-nano/bin/python -m tests.adapters "$(or $(MODEL),gguf/SmolLM2-135M-Instruct.Q4_1)" --data "$(DATA)" --legs 2 $(MORE)

reader:  ## Train the reader of quotes into build/reader (hours on a CPU; DATA=FILE adds reading sets, see docs/reader.md)
	@test -x .venv-nano/bin/python || python3 -m venv .venv-nano
	@.venv-nano/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@.venv-nano/bin/python -m pip install --quiet --group nano
	@PKB_MINILM=$$($(BIN)/python -c 'from engine.models.lookup import find_weights; print(find_weights())') \
		.venv-nano/bin/python -m tests.reader $(if $(DATA),--data "$(DATA)") $(MORE)

soak: $(READY)  ## Explore for hours: repeated kills, new random examples of every property, long fuzzing
	@$(QUIET) $(BIN)/python -m pytest -m soak -o faulthandler_timeout=0 --hypothesis-profile=soak -s
	@$(QUIET) $(BIN)/python -m pytest -m "hypothesis and not soak" -o faulthandler_timeout=0 --hypothesis-profile=soak -n 2 --dist worksteal
	@$(QUIET) $(BIN)/python -m tests.fuzz --runs 300000

clean:  ## Remove .venv and caches
	rm -rf $(VENV) .venv-nano .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
