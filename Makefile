# The verbs of the project. CI calls these and nothing of its own; `make` alone explains them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
READY := $(VENV)/.installed
# Tests start hundreds of processes: none has to compile anew what another one has.
unexport PYTHONDONTWRITEBYTECODE
# Small networks gain nothing from more threads and lose much when tests run side by side.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint type format docs bench attack clean

help:  ## show this help
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

setup: $(READY)  ## make .venv with argosy and every extra, in exact versions

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "argosy needs Python >= 3.11; $(PYTHON) is older: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV) (once, a few minutes) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# torch first: its pinned build must be there before another package asks for any
	@$(PIP) torch
	@$(PIP) --editable '.[all]'
	@touch $@

demo: $(READY)  ## watch DQN learn CartPole-v1, about a minute, ends with a picture of the learning curve
	@$(BIN)/argosy train dqn --task CartPole-v1 --seed 1

test: $(READY)  ## run the tests (minutes)
	@# in the order of their names: files of few tests, which are long ones, would come last, one after the other
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-all: $(READY)  ## run all tests, learning and load tests included (an hour)
	@$(BIN)/python -m pytest -m 'slow or not slow' --timeout 3600

lint: $(READY)  ## check style and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

type: $(READY)  ## check types, strictly
	@$(BIN)/mypy

format: $(READY)  ## format the code, mend what can be mended, write the README's table of algorithms
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/python tools/docs.py

docs: $(READY)  ## build the documentation into site/ (strict)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "documentation: site/index.html"

bench: $(READY)  ## measure speed against the floor and peers, update docs/benchmarks.md
	@$(BIN)/python benchmarks/speed.py

attack: $(READY)  ## run the attacks that are missing (hours; says how long first), update docs/reliability.md
	@$(BIN)/python benchmarks/attack/run.py

clean:  ## remove what the other verbs made, .venv and runs excepted
	rm -rf site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
