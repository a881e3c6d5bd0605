# SPDX-License-Identifier: MIT OR Apache-2.0
"""The look of solocore's report for charts of Altair: `solocore.style.altair()` once, then every chart has it."""

# Okabe and Ito's colours, which the report uses for tasks: people with any colour vision can distinguish them.
COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#0072b2", "#999999"]
INK, MUTED, LINE = "#1a1f26", "#57606a", "#d0d7de"


def altair():
    """Makes the report's colours and lines the theme of Altair's charts. Raises ImportError without Altair."""
    import altair as alt

    @alt.theme.register("solocore", enable=True)
    def theme():
        return alt.theme.ThemeConfig({"config": {
            "range": {"category": COLOURS}, "line": {"strokeWidth": 2}, "view": {"stroke": None},
            "axis": {"labelColor": MUTED, "titleColor": INK, "gridColor": LINE, "domainColor": MUTED, "titleFontWeight": "normal"},
            "legend": {"labelColor": INK, "titleColor": MUTED, "titleFontWeight": "normal"}, "title": {"color": INK, "anchor": "start"}}})
