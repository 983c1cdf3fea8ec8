.DEFAULT_GOAL := test
bin := .venv/bin
install := $(bin)/pip install --quiet --disable-pip-version-check --editable

.PHONY: setup test pareto bench
setup: .venv/dev

test: setup
	$(bin)/ruff format --check
	$(bin)/ruff check
	$(bin)/mypy
	$(bin)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

pareto: .venv/lab
	$(bin)/gradsurgery sweep lipschitz

bench: setup
	$(bin)/python -m benchmarks

.venv/dev .venv/lab: pyproject.toml
	python3 -m venv .venv
	$(install) '.[$(@F)]'
	touch $@
