# `make demo` and `make test` set up everything they need by themselves, once.
# The slow part is compiling llama.cpp (about ten minutes on two cores); it is done when the
# environment is made and not again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo
# The multimodal library is not used. For a GPU build see README, "GPU build".
export CMAKE_ARGS ?= -DLLAVA_BUILD=OFF
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

LLAMA := $(shell sed -n 's/^ *"\(llama-cpp-python==[^"]*\)",$$/\1/p' pyproject.toml)

.PHONY: help setup demo test lint bench clean

help:
	@echo "make demo   set up, then register, run and score a real model (README)"
	@echo "make test   set up, then run every test"
	@echo "make lint   set up, then style, types and import rules"
	@echo "make bench  set up, then measure against the usual loop and the reading limit"

setup: $(VENV)/.ready

$(VENV)/.python: tools/check-python.py
	@$(PYTHON) tools/check-python.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	@touch $@

$(VENV)/.llama: $(VENV)/.python tools/install-llama.sh
	@bash tools/install-llama.sh $(BIN)/python "$(LLAMA)"
	@touch $@

$(VENV)/.ready: $(VENV)/.llama pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[demo,dev]"
	@touch $@

demo: setup
	@PREREG=$(BIN)/prereg bash tools/demo.sh $(DEMO)

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadgroup --durations=20

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python bench/run.py
	$(BIN)/python bench/resampling.py

clean:
	rm -rf $(VENV) $(DEMO) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
