# One set-up, then one command per task. PYTHON chooses the interpreter of .venv (3.10 to 3.14), TORCH
# another version of torch, TORCH_INDEX its package index: tools/environment/set_up.py.
PYTHON ?= python3
RUN := .venv/bin/python
SELECTION := $(addprefix tests/,models train/engine train/distillation cli/test_demo.py)

.PHONY: help demo test variants selection hostile gpu learn bench docs lint types release environment full clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: environment  ## train Mask R-CNN with SwiftFormer-XS on generated shapes, on the CPU
	$(RUN) -m mmeffvit demo

test: full  ## run all tests, in two processes of one thread each
	$(RUN) -m mmeffvit doctor
	OMP_NUM_THREADS=1 $(RUN) -m pytest --numprocesses 2 --dist worksteal

variants: full  ## run the tests of all variants and configs that `make test` leaves out
	OMP_NUM_THREADS=1 $(RUN) -m pytest --numprocesses 2 --dist worksteal --all-variants -m variant

selection: full  ## run the tests that do not depend on exporters: for other versions of Python and torch
	OMP_NUM_THREADS=1 $(RUN) -m pytest --numprocesses 2 --dist worksteal $(SELECTION)

hostile: full  ## try thousands of hostile inputs and faults, and count the outcomes
	$(RUN) -m tests.hostile $(addprefix --more ,$(MORE))

gpu: full  ## run the tests that need a GPU, and print a table; without one it says so
	$(RUN) -m tests.gpu

learn: full  ## overfit a few images with every head, and print the metrics
	$(RUN) -m tests.learning

bench: full  ## time our models and timm's, and write benchmarks/results
	$(RUN) -m benchmarks

docs: full  ## build the documentation into site/, strictly
	$(RUN) -m mkdocs build --strict

lint: full  ## check style and formatting
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: full  ## check the types of the public API as a program that uses it sees them
	$(RUN) -m mypy

release: full  ## build wheel and sdist, install them into an empty environment and try them there
	rm -rf dist
	$(RUN) -m build --no-isolation --outdir dist .
	$(RUN) tools/environment/try_release.py dist

environment:  ## create .venv with the packages for training, unless it exists
	@$(PYTHON) tools/environment/set_up.py

full:  ## also install what tests, exporters, runtimes and the documentation need
	@$(PYTHON) tools/environment/set_up.py --full

clean:  ## remove .venv
	@$(PYTHON) tools/environment/set_up.py --remove
