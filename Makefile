# make demo   sets everything up and shows the device at work
# make test   sets everything up and runs all tests
# make help   lists the rest
SHELL := /usr/bin/env bash -euo pipefail
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
PYTHON ?= python3
OPENREG := third_party/openreg
JOBS ?= $(shell nproc)
export PATH := $(BIN):$(PATH)

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

.PHONY: demo
demo: build-release ## build the library and run its example
	@$(OPENREG)/build/release/example/openreg_example

.PHONY: test
test: lint test-openreg test-python ## all tests

.PHONY: test-openreg
test-openreg: gtest build-dev ## the device's own tests, under every schedule
	cd $(OPENREG) && ctest --preset dev -j $(JOBS) --progress

.PHONY: test-python
test-python: $(VENV)/ready ## tests of the docs and the tree
	$(BIN)/python -m pytest -q tests

.PHONY: asan tsan
asan tsan: gtest ## the device's tests under AddressSanitizer / ThreadSanitizer
	@$(MAKE) --no-print-directory build-$@
	cd $(OPENREG) && ctest --preset $@ -j $(JOBS) --progress

.PHONY: soak
soak: gtest build-dev build-asan build-tsan ## every test of the device twenty times in three builds
	cd $(OPENREG) && for preset in dev asan tsan; do \
	  ctest --preset $$preset -j $(JOBS) --repeat until-fail:20 --progress; done

.PHONY: bench
bench: build-release ## what the device costs
	@$(OPENREG)/build/release/benchmarks/openreg_launch_benchmark
	@$(OPENREG)/build/release/benchmarks/openreg_runtime_benchmark

.PHONY: lint format
CXX_FILES = $$(git ls-files --cached --others --exclude-standard '*.cpp' '*.h' '*.inl' '*.c')
lint: $(VENV)/ready ## check the format of all sources
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
format: $(VENV)/ready ## format all sources
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff format -q .

.PHONY: docs
docs: $(VENV)/docs-ready ## build the guide to docs/_build/html
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# --- set-up ---------------------------------------------------------------------

.PHONY: build-%
build-%: $(VENV)/ready
	@cd $(OPENREG) && cmake --preset $* --log-level=STATUS > /dev/null && cmake --build --preset $* -j $(JOBS)

.PHONY: gtest
gtest:
	@[ -f /usr/include/gtest/gtest.h ] || { echo "installing libgtest-dev"; \
	  $$([ "$$(id -u)" = 0 ] || echo sudo) sh -c 'apt-get update -qq && apt-get install -y -qq libgtest-dev'; } \
	  || { echo "GoogleTest is needed for the tests: apt-get install libgtest-dev" >&2; exit 1; }

$(VENV)/ready: requirements.txt
	@command -v g++ > /dev/null || { echo "no C++ compiler: apt-get install g++" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed, but $(PYTHON) is $$($(PYTHON) --version 2>&1); set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/docs-ready: $(VENV)/ready docs/requirements.txt
	$(BIN)/pip install -q --disable-pip-version-check -r docs/requirements.txt
	@touch $@
