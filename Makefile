# `make` lists the targets. The first one that needs it builds .venv.

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint types docs bench fuzz fuzzed mutants clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gpuprobe needs Python 3.11 or newer; '$(PYTHON)' is not. Try: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo "Making $(VENV) with all it needs: a minute or two, once."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(STAMP) ## Diagnose an example incident; no GPU needed
	@$(BIN)/gpuprobe diagnose examples/left-the-bus; code=$$?; \
	echo; echo "(exit code $$code: 79 is the code for a GPU that left the bus)"; \
	test $$code -eq 79
	@echo; echo "The same CUDA error on a healthy H200, recorded there (examples/healthy-trap):"
	@$(BIN)/gpuprobe diagnose -q examples/healthy-trap; test $$? -eq 1

# Where no byte code is kept, each worker and each program a test starts compiles everything anew.
test: $(STAMP) ## Run the tests; no GPU, root or network needed
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -q -n 4 --dist worksteal

lint: $(STAMP) ## Check style and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types
	$(BIN)/mypy

docs: $(STAMP) ## Make the generated pages anew
	$(BIN)/python docs/make_pages.py

bench: $(STAMP) ## Measure speed and memory on this machine
	$(BIN)/python -m benchmarks

fuzz: $(STAMP) ## Fuzz all, or TARGETS=…, for SECONDS=5 each; finds are in fuzz-findings/
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
	  $(BIN)/pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	@$(BIN)/python -m fuzz --seconds $(or $(SECONDS),5) --jobs 2 $(TARGETS)

# One target of each kind: a prefix, words, a database, a cache, a report, a child's messages.
fuzzed: ## The part of it that every change has to pass, half a minute
	@$(MAKE) --no-print-directory fuzz SECONDS=4 \
	  TARGETS='framings wording-nvrm recording-rows cache-triton report-json messages'

mutants: $(STAMP) ## Do the tests notice when a rule is wrong?
	$(BIN)/python -m fuzz.mutants

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
