# `make test` and `make demo` need Python 3.11 or newer and make, nothing else: they build
# .venv themselves, from a lock file whose every line is checked by hash.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet --quiet
UV := $(VENV)/uv/bin/uv

# An explicit PYTHON is tried first. Each candidate is run, not just looked up: a version
# manager may have put a name on the path that starts nothing.
PYTHON ?=
CANDIDATES := $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3 python

# --universal: one lock for every platform and Python. No header and no index lines, so that
# the locks name no host; tests/architecture checks it.
COMPILE := $(UV) pip compile --quiet pyproject.toml --group build \
	--universal --python-version 3.11 --generate-hashes --no-header

# For the demo and the benches: make demo ARGS="--kill-every 5", make bench ARGS="five_steps --json"
ARGS ?=

# What chance decides in the crash tests. Each run prints its own; one that is given is taken again.
SEED ?=

# Most tests wait for a disk or a deadline more than they compute; more workers than cores would make
# deadlines of them that the machine misses, not the code.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format lock bench growth chaos failures picture diagrams reference clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/dev.stamp ## create .venv with everything needed for development

demo: $(VENV)/run.stamp ## drone delivery in the terminal: six services, load, outages, reconciled
	@$(VENV)/bin/backstay demo $(ARGS)

test: setup ## run every test; installs Chromium for those of the console, where it can
	@$(PY) tools/chromium.py
	@$(PY) tools/every_test.py --workers $(WORKERS)

check: setup ## format, lint, types, contracts, unit tests: under a minute
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo
	@$(PY) -m pytest tests/unit tests/architecture -q

format: setup ## rewrite the code in the project's format
	@$(VENV)/bin/ruff check --quiet --fix-only .
	@$(VENV)/bin/ruff format .

lock: $(UV) ## compile the lock files anew, with the newest versions allowed
	@echo "Compiling requirements/run.lock and requirements/dev.lock"
	@$(COMPILE) --upgrade --output-file requirements/run.lock >/dev/null
	@$(COMPILE) --upgrade --all-extras --constraints requirements/run.lock \
		--output-file requirements/dev.lock >/dev/null

bench: setup ## measure throughput, latency, memory and idle cost, beside other libraries as well
	@$(PY) -m bench $(ARGS)

growth: setup ## measure a store with ten million finished tasks beside an empty one
	@$(PY) -m bench growth $(ARGS)

chaos: setup ## run the failure matrix and the crash tests at full length; again in the same order: make chaos SEED=…
	@BACKSTAY_TEST_CHAOS=full BACKSTAY_TEST_SEED=$(SEED) $(PY) -m pytest -m "chaos or failure" \
		--numprocesses $(WORKERS) --dist worksteal $(ARGS)

failures: setup ## write the failure matrix into docs/failure-modes.md, from the tests that are its rows
	@$(PY) tools/failure_modes.py

picture: setup ## draw docs/architecture.svg and docs/demo.svg, and take the pictures of the console, which needs Chromium
	@$(PY) tools/picture.py
	@$(PY) tools/demo_picture.py
	@$(PY) tools/chromium.py
	@$(PY) -m tools.console_pictures

diagrams: setup ## draw the state machines in docs/state-machines.md
	@$(PY) tools/state_machines.py

reference: setup ## write docs/reference from docstrings, the OpenAPI document and the commands
	@$(PY) -m tools.reference

clean: ## remove .venv, caches and build output
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps live inside .venv, so they vanish with it. A changed lock or pyproject installs again.
# The development set contains the run set in the same versions: it satisfies both stamps.

$(VENV)/run.stamp: requirements/run.lock pyproject.toml | $(PY)
	@echo "Installing Backstay and its dependencies into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/run.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.lock pyproject.toml | $(PY)
	@echo "Installing Backstay and its development tools into $(VENV) (a minute the first time)"
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(VENV)/run.stamp $@

$(PY):
	@for candidate in $(CANDIDATES); do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "Creating $(VENV) with $$("$$candidate" --version)"; \
			"$$candidate" -m venv --clear $(VENV) && exit 0; \
			rm -rf $(VENV); \
			echo "error: '$$candidate -m venv' failed; does this Python come without its venv package?" >&2; \
			exit 1; \
		fi; \
	done; \
	echo "error: Backstay needs Python 3.11 or newer; name one with: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
	exit 1

# uv only compiles locks; it has an environment of its own, so that it is in none of them.
$(UV): | $(PY)
	@echo "Installing uv into $(VENV)/uv"
	@$(PY) -m venv $(VENV)/uv
	@$(VENV)/uv/bin/python -m pip --disable-pip-version-check --quiet --quiet install uv
