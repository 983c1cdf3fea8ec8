"""The pages of the recipes show whole scripts, and say how to install and run them. Other tests run the scripts."""

import re
from difflib import ndiff

import pytest

from tests.example_scripts import EXAMPLES, ROOT

PAGES = sorted(path for path in (ROOT / "docs" / "recipes").glob("*.md") if path.stem != "index")
INCLUDE = re.compile(
    r"```\{literalinclude\} \.\./\.\./examples/(.*?)\n:language: python\n:caption: examples/\1\n:start-at: (.*?)\n```"
)
STANDARD = {"collections", "copy", "functools", "math", "os", "pathlib", "random", "tempfile", "typing", "gradsurgery"}
COMES_WITH = {
    "torch": STANDARD | {"torch"},
    "jax": STANDARD | {"jax", "optax", "numpy"},
    "transformers": STANDARD | {"torch", "tokenizers", "transformers"},
}
"""What each extra of gradsurgery installs, and the standard library."""


def test_every_script_is_on_one_page():
    shown = [script for page in PAGES for script, _ in INCLUDE.findall(page.read_text())]
    scripts = [path for room in COMES_WITH for path in EXAMPLES.glob(f"{room}/*.py") if path.stem != "plain"]
    assert sorted(shown) == sorted(str(path.relative_to(EXAMPLES)) for path in scripts)


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "recipes" / "index.md").read_text()
    assert [page.name for page in PAGES if f"({page.name})" not in index or f"\n{page.stem}\n" not in index] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_all_that_a_reader_needs(page):
    text = page.read_text()
    includes = INCLUDE.findall(text)
    assert includes[0][0] == f"{includes[0][0].split('/')[0]}/{page.stem}.py"
    for script, start in includes:
        room, source = script.split("/")[0], (EXAMPLES / script).read_text()
        before, after = source[: source.index(start)], source[source.index(start) :]
        assert before.endswith('\n"""\n\n')  # all but the docstring is shown
        assert compile(after, script, "exec")
        name = script.split("/")[1]
        assert re.search(
            rf'^pip install "gradsurgery\[{room}\]".*\n(python|torchrun --nproc-per-node=2) {name}$', text, re.M
        )
        for module in re.findall(r"^(?:from|import) (\w+)", after, re.MULTILINE):
            package = {"sklearn": "scikit-learn", "haiku": "dm-haiku"}.get(module, module)
            assert re.search(rf"^pip install.*{package}", text, re.M) or package in COMES_WITH[room], (
                f"{module} is not installed"
            )
    assert "**Watch out**" in text
    assert "It prints\n\n```text" in text


@pytest.mark.parametrize(("room", "stem"), [("torch", "regulariser"), ("transformers", "trainer")])
def test_a_page_shows_the_difference_from_a_plain_script(room, stem):
    plain, script = (
        [line for line in (EXAMPLES / room / f"{name}.py").read_text().split('"""', 2)[2].splitlines() if line]
        for name in ("plain", stem)
    )
    (shown,) = re.findall(r"^```diff\n(.*?)^```", (ROOT / "docs/recipes" / f"{stem}.md").read_text(), re.DOTALL | re.M)
    assert shown.splitlines() == [line[0] + line[2:] for line in ndiff(plain, script) if line[0] in "+-"]
