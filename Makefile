# All targets set themselves up in .venv. Outside the checkout only the caches of pip and rankine change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.installed-for-the-demo
CHECK := import sys; sys.exit("rankine needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)
WORKERS ?= 2

.PHONY: engines mutants wheel demo test test-full reliability soak test-lowest test-python dist lock lint format types contracts docs bench bench-full results clean setup

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c '$(CHECK)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[all]' --group dev
	@touch $@ $(DEMO)

# The demo needs the package with the report extra, but no development tools.
$(DEMO): pyproject.toml
	@$(PYTHON) -c '$(CHECK)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[report]'
	@touch $@

demo: $(DEMO)
	$(BIN)/rankine demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/rumdl check --quiet .
	$(BIN)/zizmor --offline --quiet .github

format: $(STAMP)
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

test: $(STAMP)
	@$(BIN)/python tests/run.py

test-full: $(STAMP)
	@$(BIN)/python tests/run.py --full

# Run the tests with the oldest versions that pyproject.toml allows.
test-lowest: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv venv --quiet --clear .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[all]' \
	    'pytest>=8.3' 'pytest-timeout>=2.3' 'pytest-xdist>=3.6' 'hypothesis>=6.120' 'pandas>=2.2' 'polars>=1.20' 'duckdb>=1.1' 'ir-measures>=0.3.7' 'onnxruntime>=1.20'
	RANKINE_CACHE_DIR=$(CURDIR)/.venv-lowest/cache .venv-lowest/bin/python -m pytest -q -n $(WORKERS) -p no:cacheprovider \
	    -W ignore::DeprecationWarning -W ignore::FutureWarning \
	    -m 'not packaging and not browser and not docs and not full and not reliability and not dask and not estimators' \
	    tests/unit tests/contracts tests/properties

# Build a wheel for this platform that includes compiled kernels.
wheel: $(STAMP)
	$(BIN)/python -m tools.platform_wheel

# Run the tests with another Python: make test-python PYTHON=python3.13
test-python:
	$(PYTHON) -m venv .venv-python
	.venv-python/bin/pip install --quiet --disable-pip-version-check --upgrade pip
	.venv-python/bin/pip install --quiet --disable-pip-version-check --editable '.[all]' --group test
	RANKINE_CACHE_DIR=$(CURDIR)/.venv-python/cache .venv-python/bin/python -m pytest -q -n $(WORKERS) -p no:cacheprovider \
	    -m 'not packaging and not browser and not docs and not full and not reliability' tests/unit tests/contracts tests/properties

# Build wheel and source archive twice and compare them byte by byte.
dist: $(STAMP)
	rm -rf dist build/again
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m build --no-isolation --outdir build/again .
	cd dist && for file in *; do cmp "$$file" "../build/again/$$file" || exit 1; done
	@ls -l dist

# Write the exact versions, with hashes, that developers and continuous integration can install.
lock: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 --extra all --group dev \
	    --custom-compile-command 'make lock' pyproject.toml -o requirements/dev.lock

# Run fuzzing, kills, faults and determinism in full; results go to tests/reliability/results. Then run
# the valid problems and the unit tests again with every index checked.
CHECKED := RANKINE_BOUNDS_CHECK=1
reliability: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m reliability --workers $(WORKERS) --out tests/reliability/results/standard.json
	$(CHECKED) PYTHONPATH=tests $(BIN)/python -m reliability --only agreement --workers $(WORKERS) --out tests/reliability/results/checked.json
	$(CHECKED) $(BIN)/python -m pytest -q -n $(WORKERS) -p no:cacheprovider --timeout 600 -m 'not full and not packaging and not dask' tests/unit
	PYTHONPATH=tests $(BIN)/python -m reliability.page

soak: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m reliability --size soak --seed fresh --workers $(WORKERS) --out tests/reliability/results/soak.json
	PYTHONPATH=tests $(BIN)/python -m reliability.page

# Change the source in one place at a time (mutants) and check that the tests of the package notice.
mutants: $(STAMP)
	$(BIN)/python -m tools.mutants --trace
	$(BIN)/python -m tools.mutants --workers $(WORKERS) --seed $(or $(SEED),1)

# Fetch the search engines that tests/engines runs, from Maven Central.
engines:
	tests/engines/fetch.sh build/engines

docs: $(STAMP)
	$(BIN)/python -m tools.docs.generate
	$(BIN)/python -m tools.docs.site_pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

bench: $(STAMP)
	status=0; $(BIN)/python -m benchmarks || status=1; $(BIN)/python -m papers || status=1; exit $$status

bench-full: $(STAMP)
	status=0; $(BIN)/python -m benchmarks --full || status=1; $(BIN)/python -m papers --full || status=1; exit $$status

# Write docs/results.md, docs/results/ with their figures, and the figures in other pages from the stored results
results: $(STAMP)
	$(BIN)/python -m papers.page
	$(BIN)/python -m tools.docs.figures

clean:
	rm -rf $(VENV) dist build site demo-output .mypy_cache .ruff_cache .pytest_cache
