"""The stubs (*.pyi) name what the modules have, with the same parameters and defaults."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

STUBS = sorted((Path(__file__).resolve().parents[2] / "python/solocore").glob("*.pyi"))


def parameters(node):
    given = node.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def compare(node, found, where):
    if isinstance(node, ast.FunctionDef):
        if any(getattr(d, "id", "") in ("overload", "property") for d in node.decorator_list):
            return
        taken = inspect.signature(found).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in taken):
            return
        assert parameters(node) == [p.name for p in taken if p.name not in ("self", "cls")], where
    elif isinstance(node, ast.ClassDef) and not any(getattr(b, "id", "") == "TypedDict" for b in node.bases):
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef):
                compare(inner, getattr(found, inner.name), f"{where}.{inner.name}")


@pytest.mark.parametrize("stub", [s for s in STUBS if s.stem != "__init__"], ids=lambda s: s.stem)
def test_a_stub_is_its_module(stub):
    module = importlib.import_module(f"solocore.{stub.stem}")
    nodes = ast.parse(stub.read_text()).body
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not (node.name == "TaskSet"):
            compare(node, getattr(module, node.name), f"{stub.stem}.{node.name}")
    said = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    public = {name for name, value in vars(module).items() if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__}
    assert public <= said, public - said


def test_every_name_is_on_the_page_of_the_functions_and_says_what_it_raises():
    """`mkdocs build --strict` fails where the page names what is not there; here, what the page does not name."""
    import solocore
    page = (Path(__file__).resolve().parents[2] / "docs/python-api.md").read_text().splitlines()
    for name in solocore.__all__:
        # These load libsolocore, which need not be there.
        if name in ("buffers", "client", "queues"):
            assert f"::: solocore.{name}" in page, name
        elif callable(value := getattr(solocore, name)):
            assert f"::: {value.__module__}.{name}" in page, name
            assert not inspect.isfunction(value) or "Raises" in inspect.getdoc(value), f"{name} does not say what it raises"


def test_all_public_names_are_there_and_said():
    import solocore
    text = next(s for s in STUBS if s.stem == "__init__").read_text()
    for name in solocore.__all__:
        assert f"{name} as {name}" in text and (name in ("buffers", "client", "queues") or getattr(solocore, name) is not None)
        if name not in ("buffers", "client", "queues", "style", "TESTS"):
            assert inspect.getdoc(getattr(solocore, name)), f"{name} has no docstring"
    with pytest.raises(AttributeError):
        solocore.nothing
    assert solocore.__version__.count(".") == 2
