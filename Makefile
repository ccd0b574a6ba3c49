# make demo   sets everything up and shows the device at work
# make test   sets everything up and runs the tests
# make help   lists the rest
SHELL := /usr/bin/env bash -euo pipefail
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
PYTHON ?= python3
OPENREG := third_party/openreg
JOBS ?= $(shell nproc)
BUILD := build/python
LIBRARIES := build/libraries
# `make WERROR=OFF` for a compiler that knows more warnings than ours.
WERROR ?= ON
# Where pip also looks for torch: an index (a URL) or a folder with wheels.
TORCH_WHEELS ?=
PIP_TORCH = $(if $(TORCH_WHEELS),$(if $(findstring ://,$(TORCH_WHEELS)),--extra-index-url,--find-links) $(TORCH_WHEELS))
# pip leaves the bytecode to the first import: that halves the time of the set-up.
PIP_INSTALL := $(BIN)/pip install -q --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(BIN):$(PATH)

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

.PHONY: demo
demo: build ## build everything and train on the device
	@$(BIN)/python examples/quickstart.py
	@echo; echo "To use the device: source $(BIN)/activate"

.PHONY: demo-openreg
demo-openreg: build-release ## the example of the device alone, without torch
	@$(OPENREG)/build/release/example/openreg_example

.PHONY: build
build: $(BUILD)/installed $(VENV)/conformance-ready ## build and install into .venv, from here (pip install -e .)
	@cmake --build $(BUILD) --target _C -j $(JOBS)
	@cmake --install $(BUILD) --prefix torch_openreg > /dev/null

.PHONY: wheel
wheel: build ## a wheel and an sdist in dist/
	@rm -rf dist
	$(BIN)/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w dist .
	$(BIN)/python setup.py -q sdist -d dist
	@ls dist/*

.PHONY: test
test: lint test-openreg test-cpp test-python test-process-sample ## all tests but those marked slow

# A worker for each core; tests/conftest.py says who gets what.
PYTEST := $(BIN)/python -m pytest -n $(JOBS)

.PHONY: test-full
test-full: lint test-openreg test-cpp build $(VENV)/docs-ready ## all tests, the slow ones too
	$(PYTEST) -m ""

.PHONY: test-openreg
test-openreg: gtest build-dev ## the device's own tests, under every schedule
	cd $(OPENREG) && ctest --preset dev -j $(JOBS) --progress

.PHONY: test-cpp
test-cpp: gtest build ## the C++ tests of the integration
	@cmake $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error --progress

.PHONY: test-python
test-python: build $(VENV)/docs-ready ## the Python tests
	$(PYTEST)

.PHONY: test-process
test-process: build $(VENV)/docs-ready ## the Python tests with kernels in device processes
	OPENREG_EXECUTOR=process $(PYTEST)

PROCESS_SAMPLE := $(addprefix tests/test_,copy.py event.py executor.py fallback.py \
  operator_errors.py profiler.py recurrent.py rng.py stream.py tensor_layouts.py training.py)
.PHONY: test-process-sample
test-process-sample: build ## some of them
	OPENREG_EXECUTOR=process $(PYTEST) $(PROCESS_SAMPLE)

# What runs under either name of the device; libraries need no adapters for CUDA's.
CUDA_SUITES := tests/conformance tests/test_random_programs.py tests/test_graphs_programs.py
CUDA_LIBRARIES := $(addprefix tests/integration/test_,architectures.py compiled.py cuda.py \
  diffusion.py safetensors.py torchmetrics.py transformers.py triton.py vision.py)
.PHONY: test-cuda
test-cuda: build $(LIBRARIES)/ready ## programs for CUDA, and the suites with the device in its place
	$(PYTEST) -m "" $(wildcard tests/test_cuda*.py) tests/test_golden.py
	OPENREG_AS=cuda OPENREG_QUIET=1 $(PYTEST) $(CUDA_SUITES)
	OPENREG_AS=cuda OPENREG_QUIET=1 $(LIBRARIES)/bin/python -m pytest $(CUDA_LIBRARIES)

.PHONY: test-libraries
test-libraries: build $(LIBRARIES)/ready ## accelerate, transformers, Lightning and others on the device
	$(LIBRARIES)/bin/python -m pytest tests/integration

.PHONY: test-wheel
test-wheel: wheel ## the wheel in a clean environment without a compiler
	$(BIN)/python tests/clean_environment.py dist/*.whl

.PHONY: asan tsan
asan tsan: gtest ## what needs no torch under AddressSanitizer / ThreadSanitizer
	@$(MAKE) --no-print-directory build-$@
	cd $(OPENREG) && ctest --preset $@ -j $(JOBS) --progress
	@cmake --preset $@ > /dev/null && cmake --build --preset $@ -j $(JOBS)
	ctest --preset $@ -j $(JOBS) --progress

FUZZ_SECONDS ?= 60
.PHONY: fuzz
fuzz: ## what device processes and other ranks write, under libFuzzer (needs clang)
	@mkdir -p build/fuzz/corpus build/fuzz/board
	clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Icsrc \
	  tests/fuzz/wire_fuzz.cpp csrc/remote/Wire.cpp csrc/remote/WireParts.cpp -o build/fuzz/wire_fuzz
	clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Icsrc \
	  tests/fuzz/board_fuzz.cpp csrc/remote/Descriptor.cpp $(addprefix csrc/distributed/,Collective.cpp \
	  LargeCopy.cpp PeerFile.cpp Reduction.cpp SharedBoard.cpp SharedTransport.cpp) -o build/fuzz/board_fuzz
	build/fuzz/wire_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=4096 build/fuzz/corpus
	build/fuzz/board_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=200 build/fuzz/board

.PHONY: soak
soak: gtest build-dev build-asan build-tsan ## every test of the device twenty times in three builds
	cd $(OPENREG) && for preset in dev asan tsan; do \
	  ctest --preset $$preset -j $(JOBS) --repeat until-fail:20 --progress; done

ROUNDS ?= 1000
SEED ?= $(shell date +%s)
.PHONY: soak-programs
soak-programs: build ## ROUNDS random programs of several threads, from SEED, under every schedule
	@echo "make soak-programs SEED=$(SEED) ROUNDS=$(ROUNDS)"
	@for schedule in auto async adversarial; do \
	  PROGRAM_SEED=$(SEED) PROGRAM_ROUNDS=$(ROUNDS) OPENREG_SCHEDULE=$$schedule OPENREG_DEVICE_ASSERT=raise \
	  $(BIN)/python -m pytest -m slow -k several_threads tests/test_random_programs.py || exit; done

.PHONY: conformance
conformance: build ## run the conformance kit on every backend here, and write docs/conformance.md
	$(BIN)/python tools/conformance_matrix.py

.PHONY: bench
bench: build-release build ## what the device and the integration cost
	@$(OPENREG)/build/release/benchmarks/openreg_launch_benchmark
	@$(OPENREG)/build/release/benchmarks/openreg_runtime_benchmark
	@for file in $(wildcard benchmarks/*.py); do $(BIN)/python $$file; done

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
docs: build $(VENV)/docs-ready ## build the guide to docs/_build/html
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

.PHONY: docs-sync
docs-sync: build ## write quoted code and generated tables into the pages
	$(BIN)/python docs/_sync

# --- set-up ---------------------------------------------------------------------

.PHONY: build-%
build-%: $(VENV)/ready
	@cd $(OPENREG) && cmake --preset $* --log-level=STATUS > /dev/null && cmake --build --preset $* -j $(JOBS)

# Once, and again when the packaging or torch itself changed; setup.py says what
# is wrong with a torch of another version. `build` does the rest.
$(BUILD)/installed: setup.py pyproject.toml torch_openreg/__init__.py $(VENV)/ready \
    $(wildcard $(VENV)/lib/python3*/site-packages/torch/version.py)
	CMAKE_ARGS="-DOPENREG_WARNINGS_AS_ERRORS=$(WERROR) $${CMAKE_ARGS:-}" MAX_JOBS=$(JOBS) \
	  $(BIN)/python setup.py -q build_ext --inplace
	$(PIP_INSTALL) --no-build-isolation --no-deps -e .
	@touch $@

# The kit for backends, from here too.
$(VENV)/conformance-ready: conformance/pyproject.toml $(VENV)/ready
	$(PIP_INSTALL) --no-build-isolation --no-deps -e conformance
	@touch $@

.PHONY: gtest
gtest:
	@[ -f /usr/include/gtest/gtest.h ] || { echo "installing libgtest-dev"; \
	  $$([ "$$(id -u)" = 0 ] || echo sudo) sh -c 'apt-get update -qq && apt-get install -y -qq libgtest-dev'; } \
	  || { echo "GoogleTest is needed for the tests: apt-get install libgtest-dev" >&2; exit 1; }

$(VENV)/ready: requirements.txt
	@command -v g++ > /dev/null || { echo "no C++ compiler: apt-get install g++" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed, but $(PYTHON) is $$($(PYTHON) --version 2>&1); set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null \
	  || { echo "$(PYTHON) has no venv: apt-get install python3-venv, or your system's package for it" >&2; exit 1; }
	@[ -f "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] \
	  || { echo "$(PYTHON) has no headers (Python.h): apt-get install python3-dev, or your system's package for them" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@[ -n "$(TORCH_WHEELS)" ] || $(BIN)/python -c 'import torch' 2> /dev/null || { \
	  echo "installing torch from pip's default index; on Linux that may be the build for CUDA, several gigabytes."; \
	  echo "For the CPU build stop this, and give its index or a folder with its wheel: make demo TORCH_WHEELS=..."; }
	$(PIP_INSTALL) $(PIP_TORCH) -r requirements.txt
	@touch $@

$(VENV)/docs-ready: $(VENV)/ready docs/requirements.txt
	$(PIP_INSTALL) -r docs/requirements.txt
	@touch $@

# An environment of their own, so that `make test` gives the same with and without
# them. It sees what is in .venv, torch above all, and pip may not change that.
$(LIBRARIES)/ready: $(VENV)/ready tests/integration/requirements.txt
	$(BIN)/python -m venv --clear $(LIBRARIES)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(\"%s\")" % sysconfig.get_path("purelib"))' \
	  > $$($(LIBRARIES)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/venv.pth
	$(LIBRARIES)/bin/pip install -q --disable-pip-version-check -r tests/integration/requirements.txt -c requirements.txt
	@$(LIBRARIES)/bin/python -c 'import sys, torch; sys.exit("$(VENV)/" not in torch.__file__)' \
	  || { echo "torch was replaced in $(LIBRARIES)" >&2; exit 1; }
	@touch $@
