# The one door. Each goal does its own set-up in .venv, so that it works on a fresh machine with Python 3.11+ and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test lint types proof proof-quick sbom audit setup clean

demo: setup                  ## play recorded server logs with a regression in them, and watch it
	$(BIN)/logwatch demo

test: lint types             ## linter, type checker and every test
	tests/packages
	$(BIN)/pytest -q

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

proof-quick: setup           ## fuzz, load, break, soak and compare with mtail, in under ten minutes
	tests/packages
	$(BIN)/python benchmarks/proof.py quick

proof: setup                 ## the same in an hour: ten minutes of load, a week of soak, an hour of fuzzing
	tests/packages
	$(BIN)/python benchmarks/proof.py long

sbom: setup                  ## bill of materials of what users install, in dist/sbom.cdx.json
	$(PYTHON) -m venv --clear dist/runtime
	dist/runtime/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt .
	$(BIN)/cyclonedx-py environment --of JSON -o dist/sbom.cdx.json dist/runtime/bin/python

audit: sbom                  ## known weaknesses of what users install; fails, and says so, where nobody can be asked
	$(BIN)/python tests/audit.py $$(dist/runtime/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .work dist
