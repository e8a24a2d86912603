# make lab: install and test Captum's Integrated Gradients. make test: lint, types, tests.
# make long: tests of more than half a second each. make notebooks: the course.
# make quick: in a minute, what most mistakes break. make pages: the generated tables of docs/.
# make site: the documentation as a site, site/index.html. make pictures: those of README.md.
PYTHON ?= python3
BIN := .venv/bin
export MPLBACKEND := Agg

LAB := $(BIN)/attributionlab test captum.attr:IntegratedGradients --n 13
# Exit statuses 1 and 3 are verdicts (fail, inconclusive), not errors.
OR_VERDICT := || case $$? in 1|3) ;; *) exit 1 ;; esac

.PHONY: lab quick test long notebooks pages site pictures
lab: .venv/installed
	mkdir -p lab
	$(LAB) --html lab/integrated-gradients.html --json lab/integrated-gradients.json \
		--figure lab/integrated-gradients.png $(OR_VERDICT)
	@echo "written: lab/integrated-gradients.html, .json and .png"

# Neither methods, metrics nor papers, and no notebook or wheel.
QUICK := $(addprefix tests/,ranking images nets environment/test_catalog.py \
	test_ci.py test_dyadic.py test_files.py test_repository_layout.py test_validation.py)

# One torch thread each: two test processes share two cores.
quick test long notebooks: export OMP_NUM_THREADS := 1
quick: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/python -m pytest -n 2 $(QUICK)
	$(BIN)/python tests/house.py

test: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

long: .venv/installed-dev
	$(BIN)/python -m pytest -n 2 -m "long and not slow" --durations=25

notebooks: .venv/installed-dev
	$(BIN)/python -m pytest -m "notebooks and not slow" tests/test_notebooks.py

# Pages of docs/ with tables from the code.
pages: .venv/installed-dev
	$(BIN)/python tests/pages.py

# Material for MkDocs announces its successor at each start.
site: export NO_MKDOCS_2_WARNING := 1
site: .venv/installed-dev
	$(BIN)/python -m mkdocs build --strict

# The pictures of README.md; one of them needs Chrome.
pictures: .venv/installed-dev
	$(BIN)/python docs/pictures.py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@
