# Each target makes $(VENV) if there is none, installs what it needs when pyproject.toml or
# constraints.txt changed, and runs.
#     make demo        train, translate, evaluate, save and reload on generated English-German
#     make test        the default tests: offline, on the CPU, in minutes
#     make test-slow   the tests that take longer
#     make bench       speed and memory beside others, as a Markdown table
#     make lint        ruff check, ruff format, mypy
#     make clean       remove $(VENV), caches and built files

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=

BIN := $(VENV)/bin
SETTINGS := pyproject.toml constraints.txt
FIND_PYTHON = for name in $(PYTHON) python3.13 python3.12 python3.11; do \
	  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo $$name; break; fi; done
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet \
	-c constraints.txt torch==2.13.0
# Two workers of one thread each: two threads in each of them would wait for one another.
PARALLEL := OMP_NUM_THREADS=1

.PHONY: demo test test-slow bench lint clean
.DELETE_ON_ERROR:

demo: $(VENV)/.installed-demo
	$(BIN)/vaswani demo $(DEMO_ARGS)

test: $(VENV)/.installed-dev
	$(PARALLEL) $(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

test-slow: $(VENV)/.installed-dev $(VENV)/torchao
	$(PARALLEL) $(BIN)/python -m pytest -n 2 -m "slow and not gpu" \
	  --ignore tests/test_quantization.py $(PYTEST_ARGS)
	$(PARALLEL) PYTHONPATH=$(VENV)/torchao $(BIN)/python -m pytest -m slow tests/test_quantization.py

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/report.py $(BENCH_ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find vaswani scripts examples tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The development environment holds all that the demo needs, so one of them is enough.
$(VENV)/.installed-demo: $(SETTINGS) | $(BIN)/python
	@echo "Installing vaswani[demo] into $(VENV) (a minute or two the first time) ..."
	@$(INSTALL) -e ".[demo]"
	@touch $@

$(VENV)/.installed-dev: $(SETTINGS) | $(BIN)/python
	@echo "Installing vaswani[dev] into $(VENV) (a minute or two the first time) ..."
	@$(INSTALL) -e ".[dev]"
	@touch $@ $(VENV)/.installed-demo

# Apart, since transformers imports it wherever it is installed, and it then prints a page.
$(VENV)/torchao: $(SETTINGS) | $(VENV)/.installed-dev
	@rm -rf $@
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --target $@ \
	  -c constraints.txt torchao
	@touch $@

$(BIN)/python:
	@found=$$($(FIND_PYTHON)); \
	if [ -z "$$found" ]; then \
	  echo "\`PYTHON\` must be Python 3.11 or later, got $(PYTHON):" \
	    "$$($(PYTHON) --version 2>&1 | head -n 1)." \
	    "Install one and name it: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; fi; \
	$$found -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$$found -m venv $(VENV) failed. Debian and Ubuntu keep it in the package python3-venv." >&2; \
	  exit 2; }
