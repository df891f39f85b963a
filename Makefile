# One set-up, then one command per task. PYTHON chooses the interpreter of .venv (3.10 to 3.12).
PYTHON ?= python3
RUN := .venv/bin/python

.PHONY: help demo test hostile learn bench docs lint environment full clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: environment  ## train Mask R-CNN with SwiftFormer-XS on generated shapes, on the CPU
	$(RUN) tools/demo.py

test: full  ## run all tests, in two processes of one thread each
	$(RUN) -m mmeffvit doctor
	OMP_NUM_THREADS=1 $(RUN) -m pytest --numprocesses 2 --dist worksteal

hostile: full  ## try thousands of hostile inputs and faults, and count the outcomes
	$(RUN) -m tests.hostile

learn: full  ## overfit a few images with every head, and print the metrics
	$(RUN) -m tests.learning

bench: full  ## time our models and timm's, and write benchmarks/results
	$(RUN) -m benchmarks

docs: full  ## build the documentation into site/, strictly
	$(RUN) -m mkdocs build --strict

lint: full  ## check style and formatting
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

environment:  ## create .venv with the packages for training, unless it exists
	@$(PYTHON) tools/environment/set_up.py

full:  ## also install what tests, exporters, runtimes and the documentation need
	@$(PYTHON) tools/environment/set_up.py --full

clean:  ## remove .venv; the built mmcv wheel stays in its cache
	@$(PYTHON) tools/environment/set_up.py --remove
