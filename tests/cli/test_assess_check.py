"""`solocore assess --check`: answers for a merge, as text, JUnit's XML and SARIF."""

import json
import xml.etree.ElementTree as xml

import pytest
from conftest import refused

SYSTEM = """platform = "p4080"
[[task]]
name = "holds"
core = 0
period = "100 ms"
wcet = "5 ms"
misses = 1000
[[task]]
name = "<tight> & ü"
core = 1
period = "100 ms"
deadline = "{deadline}"
wcet = "5 ms"
misses = 1000
[[task]]
name = "rest"
core = 2
criticality = "D"
wcet = "1 ms"
misses = 1
"""
QUICK = ("--duration", "300 ms")


def check(solocore, deadline, name="system.toml", code=0):
    solocore.write(name, SYSTEM.format(deadline=deadline))
    done = solocore("assess", name, "--check", *QUICK, "--junit", "junit.xml", "--sarif", "out.sarif")
    assert done.code == code, done.err
    suite = xml.parse(solocore.dir / "junit.xml").getroot().find("testsuite")
    return done.out.decode(), suite, json.loads((solocore.dir / "out.sarif").read_text())


def test_what_holds(solocore):
    text, suite, sarif = check(solocore, "100 ms")
    assert "all 2 analysed tasks hold" in text and "holds: bound" in text
    assert [c.get("name") for c in suite.iter("testcase")] == ["holds", "<tight> & ü"], "best effort is promised nothing"
    assert suite.get("tests") == "2" and suite.get("failures") == "0"
    assert sarif["version"] == "2.1.0" and sarif["runs"][0]["results"] == []
    assert solocore.files() == {"system.toml", "junit.xml", "out.sarif"}, "no results are written"


@pytest.mark.parametrize("deadline, rules", [("5.2 ms", ["may-miss"]), ("4.5 ms", ["may-miss", "missed"])])
def test_what_does_not_hold_has_its_line(solocore, deadline, rules):
    text, suite, sarif = check(solocore, deadline, "my system.toml", code=1)
    assert "1 of 2 analysed tasks do not hold" in text
    failures = {c.get("name"): c.find("failure") for c in suite.iter("testcase")}
    assert failures["holds"] is None and failures["<tight> & ü"].get("type") == rules[0]
    assert "deadline" in failures["<tight> & ü"].get("message")
    [run] = sarif["runs"]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert [r["ruleId"] for r in run["results"]] == rules and set(rules) <= known
    line = SYSTEM.splitlines().index('name = "<tight> & ü"')
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "my%20system.toml"
        assert place["region"]["startLine"] == line, "the line of its [[task]]"
        assert f"my system.toml:{line}: <tight> & ü: {result['ruleId']}:" in text


def test_a_check_without_answers_replaces_older_ones_by_an_error(solocore):
    check(solocore, "100 ms")
    solocore.write("system.toml", "platform = 1\n")
    done = solocore("assess", "system.toml", "--check", *QUICK, "--junit", "junit.xml", "--sarif", "out.sarif")
    refused(done, "system.toml", codes=(2,))
    suite = xml.parse(solocore.dir / "junit.xml").getroot().find("testsuite")
    [case] = suite.iter("testcase")
    assert suite.get("errors") == "1" and case.find("error").get("message") in done.err
    [run] = json.loads((solocore.dir / "out.sarif").read_text())["runs"]
    [invocation] = run["invocations"]
    assert run["results"] == [] and invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] in done.err


def test_the_files_belong_to_the_check(solocore):
    solocore.write("system.toml", SYSTEM.format(deadline="100 ms"))
    for options in (("--junit", "junit.xml"), ("--check", "-o", "out")):
        done = solocore("assess", "system.toml", *options)
        assert done.code == 2 and "--check" in done.err and not done.out
    done = solocore("assess", "system.toml", "--check", *QUICK, "--sarif", "none/out.sarif", "--junit", "junit.xml")
    refused(done, "none/out.sarif", one_line=False)
    assert solocore.files() == {"system.toml"}, "both files or none"


def test_every_missing_key_is_named(solocore):
    solocore.write("system.toml", '[[task]]\nname = "a"\n[[partition]]\nname = "p"\n')
    refused(solocore("plan", "system.toml"), "missing fields `platform`, `partition[1].period`", "add them", codes=(2,))
