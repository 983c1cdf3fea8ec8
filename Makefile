.DEFAULT_GOAL := test
bin := .venv/bin

.PHONY: setup test
setup: .venv/dev

test: setup
	$(bin)/ruff format --check
	$(bin)/ruff check
	$(bin)/mypy
	$(bin)/pytest

.venv/dev: pyproject.toml
	python3 -m venv .venv
	$(bin)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
