"""CONTRIBUTING's list of words is kept, and comments of public items, C headers and docstrings have no sentence over 35 words.

words      documents, help, messages of the crates, comments of public items in Rust, comments of C headers, Python's docstrings
sentences  the same texts: no clause with "who", "what" or "of which" that stands for a noun, no "is no job" for "is not a job", no "as" for
           "because" before a word that hides its subject, no "somebody" or "whatever" in the place of a subject, and no word of WORN

Not covered: words with a second, proper meaning (a request to a daemon, a process of Linux, interference); names and code.
"""

import ast
import re

import pytest
from conftest import ROOT
from test_docs import LAB, LONGEST, PAGES, every_help, messages, too_long  # noqa: F401

DOCS = dict.fromkeys([*PAGES, *LAB, *(ROOT / name for name in ("CAVEATS.md", "CHANGES.md", "ARCHITECTURE.md", "SECURITY.md"))])
# What is not written, and what is written in its place. CONTRIBUTING.md, "Words", explains each.
WORDS = {
    r"\b(?:late|Late)\sjobs?\b|\bjobs?(?: is| are|,)? (?:\w+ )?late\b(?! part)|\btasks?(?: is| are)? late\b": "missed, tardy",
    r"(?<!Fair )(?<!largest )\blateness\b": "tardiness, or how late",
    r"\bviolated\b": "broken",
    r"(?<!\| )\b[Tt]ransactions?\b(?! queue)": "access",
    r"\bquotas?\b|\bbudgets?(?: \w+)? refill\w*|\brefill\w*(?: \w+)? budgets?\b": "budget, replenishment",
    r"(?<![-/])\b(?:processors?|Processor time)\b(?![- ]demand| graphics)": "core, CPU, CPU time",
    r"(?<!-)(?<!bench )\bcolor(?!-start)\w*": "colour",
    r"\bactivations?\b": "job",
    r"\bso many\b": "the number",
    r"(?<!times )(?<!times\n)(?<!twice )\bas long\b(?!\sas)": "the time",
}
# "what" and "who" in place of a noun: at the start of a statement, and after words that want a noun. "says what is missing" is a question and stays.
HEADLESS = (r"(?:^|[.;(]\s+)(?:[Ww]hat|[Ww]ho)(?: \S+){2,}? (?:is|are|was|were|has|have|does|did|comes|goes|stays)\b(?!\?)"
            r"|\b(?:of|by|from|for|than|with|beyond|beside|within|against|is|are|was|end|stop|ended|on|to|keeps?|leaves?(?: out)?|counts?|limits|loses?) (?:what|who)\b")
WANTS_A_NOUN = ("about|above|after|as|at|before|behind|below|besides|between|in|into|over|through|under|without"
                "|changes?|charges?|contains?|does|fits?|frees?|gets?|gives?|holds?|ignores?|lacks?|makes?|measures?|meets?|moves?|needs?|protects?|repeats?|replaces?"
                "|sees?|started|stops?|stores?|takes?|uses?|wants?")
WORN = r"\banew\b|\bwould do\b(?=[.,;:)]|$)|\bif need be\b|\b(?:cannot|can|could|is|are) (?:to )?be had\b|\btold apart\b|\bso many\b"
# Sentences that a reader must read twice, and the remedy. CONTRIBUTING.md, "Words", has the rule.
SENTENCES = {
    HEADLESS: "name the noun",
    rf"\b(?:{WANTS_A_NOUN}) (?:what|who)\b|(?:^|[.;]\s+)(?:Who|Whose|Whom|Of which)\b|, of which\b|\ball of which\b": "name the noun",
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!(?:longer|more|other|less|better|worse|larger|smaller|higher|lower|later|earlier|faster|slower|harder|shorter|such|distance)\b)\w+": "is not a ...",
    r", as (?:there|no|nothing|nobody|each|every|only)\b": "because",
    r"\b(?:[Ss]ome|[Aa]ny)body\b|\b(?:[Ww]ho|[Ww]hat|[Ww]hich)ever\b(?! reason)|\b[Hh]owever (?:it|they)\b": "name the subject",
    WORN: "again, suffice, if necessary, be obtained, distinguish, a number",
}
SKIPPED = {"CONTRIBUTING.md"}  # It has the list itself.
HISTORY = {"CHANGES.md"}  # What was written of older versions stays; no headless clause may come.


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
    if len(text.split()) <= LONGEST:
        return []
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
                    # Indented lines are code, and each argument begins a sentence.
                    yield path, re.sub(r"(?<=\.)\s+(?=[a-z_, ]+: )", "\n\n", re.sub(r"^    .*$", "", text, flags=re.M))


COMMENTS = {"rust": rust_comments, "c": c_comments, "python": docstrings}
LEAST = {"rust": 9000, "c": 300, "python": 80}


def wrong_words(text):
    return [f"{m[0]!r}: write {better}: ...{' '.join(text[max(m.start() - 40, 0):m.end() + 30].split())}" for word, better in WORDS.items() for m in re.finditer(word, text)]


@pytest.mark.parametrize("language", COMMENTS)
def test_comments_sentences_are_short(language):
    found = list(COMMENTS[language]())
    assert len(found) > LEAST[language]
    assert [f"{path.relative_to(ROOT)}: {long}" for path, text in found for long in lengths(text)] == []


def clumsy(text, rules=SENTENCES):
    """Sentences to write again. Headings, table rows and titles of at most six words may be questions."""
    text = re.sub(r"^(?:#|\||\* \*\w+\*:).*$", "", text, flags=re.M)
    if len(text.split()) <= 6:
        return []
    around = lambda m: " ".join(text[max(m.start() - 40, 0):m.end() + 40].split())  # noqa: E731
    return [f"{better}: ...{around(m)}" for rule, better in rules.items() for m in re.finditer(rule, text)]


@pytest.mark.parametrize("page", [d for d in DOCS if d.name not in SKIPPED], ids=lambda p: p.name)
def test_the_list_of_words_is_kept_in_documents(page):
    text = prose(page.read_text())
    rules = {HEADLESS: SENTENCES[HEADLESS]} if page.name in HISTORY else SENTENCES
    assert wrong_words(text) + clumsy(text, rules) == []


def test_the_list_of_words_is_kept_in_messages():
    assert [f"{path.relative_to(ROOT)}: {wrong}" for path, text in messages() for wrong in wrong_words(prose(text)) + clumsy(prose(text))] == []


def test_the_list_of_words_is_kept_in_helps(every_help):  # noqa: F811
    found = ((command, re.sub(r"^  [\w-]+  +", "  ", text, flags=re.M)) for command, text in every_help.items())  # Names in a list of commands are code.
    assert [f"{' '.join(command)}: {wrong}" for command, text in found for wrong in wrong_words(prose(text)) + clumsy(prose(text))] == []


@pytest.mark.parametrize("language", COMMENTS)
def test_the_list_of_words_is_kept_in_comments(language):
    found = ((path, prose(text)) for path, text in COMMENTS[language]())
    assert [f"{path.relative_to(ROOT)}: {wrong}" for path, text in found for wrong in wrong_words(text) + clumsy(text)] == []


def test_wrong_words_are_found():
    wrong = ("2 late jobs", "46 jobs, none late", "the lateness", "a rule is violated", "DRAM transactions", "a budget is refilled", "CPU quota",
             "5 s of processor time", "a color", "give so many accesses", "waits as long.")
    assert [text for text in wrong if len(wrong_words(text)) != 1] == []
    right = "The timer is late. It takes 3.2 times as long as alone. `transaction` and --colors; a processor-demand test; the transaction queue."
    assert wrong_words(prose(right)) == []


def test_clumsy_sentences_are_found():
    wrong = ("The event leaves out what the kernel does for programs.", "Run as root, and end what else samples in the kernel.",
             "What an earlier run left in the directory is kept for long.", "The plan is kept; what does not fit is refused by the command.",
             "The command needs what the map of the machine has.", "A test had 136 faults, of which 131 were on pages.", "The run ends. Whose job it was, the trace says.",
             "Give a number; the text `x` is no number of a process.", "Sizes are never assumed, as no side of them is safe.", "The lock works while somebody holds it on a core.",
             "The machine is put back, however it ends, by the keeper.", "The settings of the run are written anew each time.", "A plan names a smaller budget that would do.")
    assert [text for text in wrong if len(clumsy(text)) != 1] == []
    right = ("The reasons say what does not fit. `run` prints who keeps each promise. There is no budget, and the core is no longer regulated. Each row stands as a "
             "line of its own. When the run ends, for whatever reason, it is put back. That would do no harm.\n# Events: what a budget counts\n| what it is | who keeps it |")
    assert clumsy(right) == []
    assert clumsy("What it is", SENTENCES) == [], "a title"


def test_long_comments_are_found():
    words = " ".join(["word"] * 35)
    assert lengths(f"# Rule\n{words[5:]}.\n  name    {words[5:]}\n  other   {words[5:]}") == []
    assert len(lengths(f"# Rule\nOne {words}. Short.\n  name    {words}")) == 2
