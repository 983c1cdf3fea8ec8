.DEFAULT_GOAL := test
bin := .venv/bin
parallel := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
install := $(bin)/pip install --quiet --disable-pip-version-check --editable

.PHONY: setup check test quick docs package oldest pareto bench accelerator
setup: .venv/dev

check: setup
	$(bin)/ruff format --check
	$(bin)/ruff check
	$(bin)/mypy

test: check
	$(bin)/pytest $(parallel)

quick: check
	$(bin)/pytest $(parallel) -m "not slow"

docs: setup
	$(bin)/sphinx-build -q -W --keep-going --fresh-env docs docs/_build/html
	@echo docs/_build/html/index.html

package oldest:
	.ci/$@

pareto: .venv/paper
	$(bin)/gradsurgery sweep lipschitz

bench: setup
	$(bin)/python -m benchmarks

accelerator: setup
	$(bin)/python -m benchmarks.accelerator

.venv/dev .venv/paper: pyproject.toml
	python3 -m venv .venv
	$(install) '.[$(@F)]'
	touch $@
