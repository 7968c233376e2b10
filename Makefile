# `make demo` and `make test` are all it takes, on a machine with python3 >= 3.11 and make.
# Everything goes into .venv; a second run installs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test browser crash fuzz load conformance bundle lint format readme reference screenshots clean
.PHONY: bench bench-context bench-recall bench-peers

demo: $(VENV)/.installed
	@$(BIN)/lcm-mcp demo

test: lint browser
	$(BIN)/python -m pytest

# A browser for the tests of the inspector, where none is found; without npm they are left out and say so.
browser: $(VENV)/.installed-dev
	@$(BIN)/python tests/browser.py

# The kill -9 rounds of the tests, 300 of them, and every call to the disk failed in turn (half an hour).
crash: $(VENV)/.installed-dev
	LCM_CRASH_ROUNDS=55 $(BIN)/python -m pytest tests/test_durability.py tests/test_faults.py

# Ten thousand spoilt files of every format into one store (a quarter of an hour); the tests import some of them.
fuzz: $(VENV)/.installed-dev
	$(BIN)/python tests/fuzzing.py

# The protocol's own scenarios and the clients of others; they come from npm and PyPI, and what cannot be had
# from there is named and left out.
conformance: $(VENV)/.installed
	$(BIN)/python tests/conformance.py $(VENV)/conformance

# Stores of ten thousand to a million rows beside their floors, requests in sessions as long, a file of 100 MB.
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.store --json benchmarks.json
	$(BIN)/python -m benchmarks.prepare
	$(BIN)/python -m benchmarks.importing

# What a provider's cache would keep of real sessions: those under LCM_BENCH_DATA, ../shared/data, or the demo's.
bench-context: $(VENV)/.installed
	$(BIN)/python -m benchmarks.context

# What search finds in real meetings and sessions: those under LCM_BENCH_DATA, ../shared/data, or the demo's.
bench-recall: $(VENV)/.installed
	$(BIN)/python -m benchmarks.recall

# Other memory libraries beside ours, each in an environment of its own out of the package registry (ten minutes);
# those that cannot be had are left out and said so. LCM_PEERS_PYTHON may name a Python for those that want a newer one.
bench-peers: $(VENV)/.installed
	$(BIN)/python -m benchmarks.peers --json peers.json

# Fifty-four clients on one file for ten minutes; it fails where a call does, or a row is lost.
load: $(VENV)/.installed
	$(BIN)/python -m benchmarks.load --json load.json

# The wheel, a bundle for Claude Desktop and the MCP registry's server.json, in dist/; tests hold their rules, and
# uv and the bundle's own check try them, where those can be had.
bundle: $(VENV)/.installed-dev
	$(BIN)/python -m release.bundle
	$(BIN)/python -m pytest tests/test_bundle.py
	$(BIN)/python tests/bundled.py dist $(VENV)/guests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Puts what commands print now into the README and docs/how-it-works.md, which tests compare.
readme: $(VENV)/.installed
	$(BIN)/python tests/refresh_readme.py
	$(BIN)/python tests/figures.py

# The pictures of docs/inspector.md, of real sessions in ../shared/data.
screenshots: browser
	$(BIN)/python tests/screenshots.py

# Writes docs/tools.md and docs/configuration.md, which a test compares with the code.
reference: $(VENV)/.installed-dev
	$(BIN)/python tests/reference.py

clean:
	rm -rf $(VENV)

# Installed editable, so that the tree as it is runs; pyproject.toml alone asks for a new install.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("python3 >= 3.11 is needed, this is " + sys.version.split()[0] + ": make PYTHON=python3.12 …")'
	@echo "Installing into $(VENV) (the first time takes a minute) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install 'pip>=25.1'
	@$(PIP) install --editable .
	@touch $@

# Dependency groups need the pip of the step before.
$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what the tests need …"
	@$(PIP) install --group dev
	@touch $@
