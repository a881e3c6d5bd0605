"""CONTRIBUTING's list of words is kept, and comments of public items, C headers and docstrings have no sentence over 35 words.

words      documents, help, messages of the crates, comments of public items in Rust, comments of C headers, Python's docstrings
headless   help and messages: no clause with "who", "what" or "of which" that stands for a noun

Not covered: words with a second, proper meaning (a request to a daemon, a process of Linux, interference); names and code.
"""

import ast
import re

import pytest
from conftest import ROOT
from test_docs import LAB, PAGES, every_help, messages, too_long  # noqa: F401

DOCS = dict.fromkeys([*PAGES, *LAB, *(ROOT / name for name in ("CAVEATS.md", "CHANGES.md", "ARCHITECTURE.md", "SECURITY.md"))])
# What is not written, and what is written in its place. CONTRIBUTING.md, "Words", explains each.
WORDS = {
    r"\blate jobs?\b|\bjobs?(?: is| are|,)? (?:\w+ )?late\b(?! part)|\btasks?(?: is| are)? late\b|\blateness\b|\bLATE\b|\bMISSES\b": "missed, tardiness",
    r"\bviolat\w*": "broken, or the rule's name and the fault",
    r"\btransactions?\b": "access",
    r"\b(?:quotas?|refill\w*)\b": "budget, replenishment",
    r"(?<![-/])\b[Pp]rocessors?\b(?!-demand)": "core, CPU, CPU time",
    r"\bcolor\w*": "colour",
    r"\bactivations?\b": "job",
    r"\bso many\b": "the number",
    r"(?<!times )(?<!twice )(?<!twenty )\bas long\b(?! as)": "the time",
}
SKIPPED = {"CONTRIBUTING.md"}  # It has the list itself.


def prose(text):
    """Text without code: fenced blocks, what is between back ticks, addresses of links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "Code", text))


def paragraphs(lines):
    """Texts of runs of lines that follow one another; `lines` has (number, text)."""
    run, last = [], None
    for number, text in lines:
        if last is not None and number != last + 1:
            yield "\n".join(run)
            run = []
        run.append(text)
        last = number
    if run:
        yield "\n".join(run)


def lengths(text):
    """Sentences of a comment that are too long. A heading is none of them, and each item of a list of names stands for itself."""
    text = re.sub(r"^(#+ .*)$", r"\n\1\n", text, flags=re.M)
    return too_long(re.sub(r"^(?= +\S+(?: \S+)?  +\S)", r"\n", text, flags=re.M))


def rust_comments():
    for path in sorted([*(ROOT / "crates").glob("*/src/**/*.rs"), *(ROOT / "policy/rust/src").glob("**/*.rs")]):
        found = [(n, m[1]) for n, line in enumerate(path.read_text().splitlines()) if (m := re.match(r"\s*//[/!] ?(.*)", line))]
        yield from ((path, text) for text in paragraphs(found))


def c_comments():
    for path in sorted([*(ROOT / "policy/include").glob("**/*.h"), *(ROOT / "bpf").glob("*.h"), *(ROOT / "client").glob("**/*.h")]):
        for comment in re.findall(r"/\*(.*?)\*/", path.read_text(), re.S):
            yield path, re.sub(r"^[ \t]*\*(?: |$)", "", comment, flags=re.M)


def docstrings():
    for path in sorted([*(ROOT / "python/solocore").glob("**/*.py*"), *(ROOT / "client").glob("**/*.py")]):
        if path.suffix in (".py", ".pyi"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (text := ast.get_docstring(node)):
                    yield path, text


COMMENTS = {"rust": rust_comments, "c": c_comments, "python": docstrings}
LEAST = {"rust": 9000, "c": 300, "python": 200}


def wrong_words(text):
    return [f"{m[0]!r}: write {better}: ...{' '.join(text[max(m.start() - 40, 0):m.end() + 30].split())}" for word, better in WORDS.items() for m in re.finditer(word, text)]
