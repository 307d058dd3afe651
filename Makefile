# The targets set up what they need: a virtual environment in .venv, made once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: profile test docs mutants build clean
.DELETE_ON_ERROR:

profile: $(VENV)/.ready-notebook  ## train the digits MLP for a moment, then profile it
	@$(BIN)/tito profile
	@echo
	@echo "Next: source scripts/activate-tinytorch, then tito module start tensor"

test: $(VENV)/.ready-dev  ## run all tests
	@$(BIN)/python -m pytest tests -n auto --dist loadfile --no-loadscope-reorder

docs: $(VENV)/.ready-docs  ## build the site in build/docs, all its code run
	@echo "running all pages and chapters (some minutes) ..."
	@$(BIN)/python -m sphinx -W --keep-going --quiet -b html docs build/docs
	@echo "The site begins at $(CURDIR)/build/docs/index.html"

mutants: $(VENV)/.ready-dev  ## run every wrong and every right solution of the mutation matrix
	@$(BIN)/python tests/mutants/matrix.py

build: $(VENV)/.ready-dev  ## rebuild modules/ and tinytorch/ from src/
	@$(BIN)/tito build

clean:  ## remove the environment
	rm -rf $(VENV)

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "TinyTorch needs Python 3.10 or newer; say which with: make PYTHON=python3.12 ...")'
	@echo "making the environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.ready-notebook: pyproject.toml | $(VENV)/.made
	@echo "installing TinyTorch and what a learner needs (about a minute, once) ..."
	@$(PIP) install -e '.[notebook,viz]'
	@touch $@

$(VENV)/.ready-docs: pyproject.toml | $(VENV)/.made
	@echo "installing TinyTorch and what its site is built with (a minute or two, once) ..."
	@$(PIP) install -e '.[docs]'
	@touch $@ $(VENV)/.ready-notebook

$(VENV)/.ready-dev: pyproject.toml | $(VENV)/.made
	@echo "installing TinyTorch and what its tests need (a minute or two, once) ..."
	@$(PIP) install -e '.[dev]'
	@touch $@ $(VENV)/.ready-notebook $(VENV)/.ready-docs
