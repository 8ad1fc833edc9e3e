# `make` lists what can be made; demo and test are all that a fresh machine needs.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable
# Keep the installation current: reinstall when what it depends on changes.
PACKAGE := .venv/.installed
DEV := .venv/.dev

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint bench models members map clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(PACKAGE): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

$(DEV): $(PACKAGE)
	$(INSTALL) '.[dev]'
	touch $@

demo: $(PACKAGE) ## train, probe and compare on generated data; tables here, pictures in demo/
	$(BIN)/python examples/demo.py

test: lint ## lint, types, contracts and the fast tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

test-slow: $(DEV) ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

lint: $(DEV) ## formatting, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEV) ## speed and memory, as ratios from one run
	$(BIN)/python -m benchmarks

models: $(DEV) ## which Hugging Face types can be probed: checks all and writes docs/models.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.models

members: $(DEV) ## the tables of optional members in docs/plugins.md, from capabilities.py
	$(BIN)/python -m benchmarks.members

map: $(DEV) ## draw the packages and their imports from the code: docs/figures/packages.png
	$(BIN)/python -m benchmarks.map

clean: ## remove what make made
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
