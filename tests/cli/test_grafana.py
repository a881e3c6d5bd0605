"""The dashboard in packaging/grafana.json: each expression is PromQL, and reads what the exporter names.

That the names and labels are exported is a test of `crates/linux/src/daemon/metrics.rs`, which finds names by their
prefix; here a parser of PromQL says that it finds all of them.
Not covered: how Grafana draws it.
"""

import json
import re
from pathlib import Path

import promql_parser
import pytest

DASHBOARD = Path(__file__).resolve().parents[2] / "packaging/grafana.json"


def panels():
    return [p for p in json.loads(DASHBOARD.read_text())["panels"] if p["type"] != "row"]


def selectors(node):
    """All selectors of an expression."""
    if isinstance(node, promql_parser.VectorSelector):
        return [node]
    if isinstance(node, promql_parser.MatrixSelector):
        return selectors(node.vector_selector)
    if isinstance(node, promql_parser.Call):
        return [s for argument in node.args for s in selectors(argument)]
    if isinstance(node, promql_parser.BinaryExpr):
        return selectors(node.lhs) + selectors(node.rhs)
    if isinstance(node, promql_parser.NumberLiteral):
        return []
    raise AssertionError(f"the test does not know {type(node).__name__}")


def parsed(expr):
    # Grafana puts these in before Prometheus reads it.
    return promql_parser.parse(expr.replace("$__rate_interval", "1m").replace("$cpu", "0|1"))


@pytest.mark.parametrize("panel", panels(), ids=lambda p: p["title"])
def test_expressions_are_promql(panel):
    assert panel["title"] and panel["description"].endswith(".") and panel["targets"]
    for target in panel["targets"]:
        expr = target["expr"]
        found = selectors(parsed(expr))
        assert found and sorted(s.name for s in found) == sorted(re.findall(r"\bsolocore_\w+", expr)), expr
        counters = {s.name for s in found if s.name.endswith("_total")}
        assert not counters or re.match(r"(rate|increase)\(", expr), f"a counter only rises: {expr}"
        assert re.search(r"\{\{\w+\}\}", target["legendFormat"]), "lines need names"


def test_panels_do_not_overlap():
    taken = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        g = panel["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert g["x"] + g["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    ids = [p["id"] for p in json.loads(DASHBOARD.read_text())["panels"]]
    assert len(ids) == len(set(ids))


def test_the_parser_refuses_what_is_wrong():
    for wrong in ("rate(solocore_periods_total[1m]", "solocore_periods_total{cpu=}", "rate(solocore_periods_total)"):
        with pytest.raises(ValueError):
            parsed(wrong)
