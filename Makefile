# make lab: install and test Captum's Integrated Gradients. make test: lint, types, tests.
PYTHON ?= python3
BIN := .venv/bin
export MPLBACKEND := Agg

.PHONY: lab test
lab: .venv/installed
	mkdir -p lab
	@# Exit statuses 1 and 3 are verdicts (fail, inconclusive), no errors.
	$(BIN)/attributionlab test captum.attr:IntegratedGradients --set internal_batch_size=5 --n 4 \
		--html lab/integrated-gradients.html --json lab/integrated-gradients.json \
		--figure lab/integrated-gradients.png || [ $$? -eq 1 ] || [ $$? -eq 3 ]
	@echo "written: lab/integrated-gradients.html, .json and .png"

# One torch thread each: two test processes share two cores.
test: export OMP_NUM_THREADS := 1
test: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@
