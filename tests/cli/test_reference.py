"""The reference of every key (docs/reference-*.md): as the types have it, whole, and led to from the guide."""

import copy
import json
import re
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import reference  # noqa: E402


@pytest.fixture(scope="module")
def schemas(program):
    return {name: reference.schema_of(program, name) for name in reference.FILES}


def keys(schema):
    """All keys of a schema, with the name of their type."""
    for of, part in {"the top": schema, **schema.get("$defs", {})}.items():
        for variant in [part, *part.get("oneOf", [])]:
            for key, value in variant.get("properties", {}).items():
                # The key that tells variants apart has the words of the variants, and so has the one key of a variant.
                yield of, key, {"description": variant.get("description", ""), **value} if isinstance(value, dict) and variant is not part else value


def rows(page):
    """Rows of a page's tables: the words of each cell."""
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in page.splitlines() if line.startswith("| `")]


def test_pages_are_up_to_date(program):
    assert reference.stale(program) == [], f"run scripts/reference.py {program}"


def test_a_page_that_differs_or_is_not_there_is_named(program, tmp_path):
    for name in reference.FILES:
        path = tmp_path / f"reference-{name}.md"
        path.write_text((ROOT / "docs" / path.name).read_text())
    (tmp_path / "reference-plan.md").write_text((ROOT / "docs/reference-plan.md").read_text().replace("deadline", "deadlines", 1))
    (tmp_path / "reference-sim.md").unlink()
    assert reference.stale(program, tmp_path) == ["reference-plan.md", "reference-sim.md"]


def test_every_file_that_has_a_schema_has_a_page(program):
    said = subprocess.run([program, "schema", "--help"], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^ +- ([\w-]+):", said, re.M)) == set(reference.FILES)
    overview = (ROOT / "docs/reference.md").read_text()
    nav = (ROOT / "mkdocs.yml").read_text()
    for name in reference.FILES:
        assert f"(reference-{name}.md)" in overview and f"reference-{name}.md" in nav, name


@pytest.mark.parametrize("name", reference.FILES)
def test_every_key_has_a_description_and_a_row(schemas, name):
    without = [f"{of}.{key}" for of, key, value in keys(schemas[name]) if not (isinstance(value, dict) and value.get("description", "").strip())]
    assert without == [], "write the doc comment of the field, in crates/model/src"
    page = reference.Page(name, schemas[name]).write()
    shown = {row[0] for row in rows(page)}
    others = {PAGE for PAGE, file in reference.PAGES.items() if file != name}
    for of, key, _ in keys(schemas[name]):
        # Types with a page of their own are there, with what only they use.
        assert f"`{key}`" in shown or of in others or not used(schemas[name], of, others), f"{of}.{key} has no row"
    for row in rows(page):
        if len(row) == 6:
            assert all(row[at] for at in (1, 3, 4, 5)), f"a cell of {row[0]} is empty"


def used(schema, of, without):
    """Is a type reached from the top by other ways than the types `without`?"""
    seen, waiting = set(), [{k: v for k, v in schema.items() if k != "$defs"}]
    while waiting:
        for found in re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(waiting.pop())):
            if found not in seen and found not in without:
                seen.add(found)
                waiting.append(schema["$defs"][found])
    return of in seen | {"the top"}


def test_a_key_without_a_description_is_an_error(schemas):
    for of, key, _ in keys(schemas["system"]):
        mute = copy.deepcopy(schemas["system"])
        part = mute if of == "the top" else mute["$defs"][of]
        assert "oneOf" not in part
        del part["properties"][key]["description"]
        with pytest.raises(reference.Missing, match=key):
            reference.Page("system", mute).write()


@pytest.mark.parametrize("name", ["system", "platform"])
def test_the_guide_names_the_keys_that_lead_to_it(schemas, name):
    wrong = []
    for row in rows(reference.Page(name, schemas[name]).write()):
        if len(row) == 6:
            key, page = row[0].strip("`"), re.search(r"\((.*\.md)\)", row[5])[1]
            if not re.search(rf"\b{re.escape(key)}\b", (ROOT / "docs" / page).read_text()):
                wrong.append(f"docs/{page} does not name `{key}`")
    assert wrong == []


def test_defaults_are_those_of_the_types(schemas):
    def of(name):
        return {row[0]: row for row in rows(reference.Page(name, schemas[name]).write()) if len(row) == 6}

    page = of("platform")
    assert page["`row_hit_cap`"][3] == "`4`" and page["`replacement`"][3] == "`lru`" and page["`slices`"][3] == "`1`"
    assert page["`counts_writes`"][3] == "`false`" and page["`cores`"][3] == "required"
    page = of("system")
    assert page["`criticality`"][3] == "`B`" and page["`skid`"][3] == "`0`" and page["`best_effort`"][3] == '`{capacity = "5 ms", period = "100 ms"}`'
    assert page["`deadline`"][3] == "see meaning" and page["`soft_budget`"][3] == "none"
    assert page["`slowdown`"][2] == "from 1 up to 1000" and "`memguard`" in page["`policy`"][2]
    page = of("profile")
    assert page["`is`"][1] == "word" and "`directory`" in page["`is`"][2] and page["`is`"][3] == "always there"
    assert "`status`" in page["`mode`"][4] and "`file`" not in page["`mode`"][4] and page["`sha256`"][3] == "may be absent"
