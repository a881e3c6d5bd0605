#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Would the tests notice an error in a policy?

Changes one thing at a time in policy/include/solocore (an operator, a constant, a statement that goes), and replays
through each mutant what the tests of policy-check compare: the vectors and random events, with the answers on which the C
and the reference models agree. A mutant is killed if it does not build, answers differently, crashes, does not end, or is
found by the random events of sanitize.c with their invariants (or, with --prove, no longer proved by prove.sh). What is left is a survivor: a gap in the tests, or a
change without effect. A mutant of which the compiler makes the same code as of the original is not counted.

The recording is made first (`cargo run --example record`, some seconds once policy-check is built).
mutants-equivalent.txt lists survivors that change nothing that the drivers can see, with reasons. Results go to
build/mutants.json.
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent.parent
HEADERS = ROOT / "policy" / "include" / "solocore"
BUILD = ROOT / "build" / "mutants"
EQUIVALENT = TESTS / "mutants-equivalent.txt"

# Undefined where the policies are tested on the host.
UNDEFINED = {"__BPF__", "SC_SINGLE", "__VMLINUX_H__"}
# What a mutant does outside of arrays, or by shifting too far, stops it at once.
TRAPS = ["-fsanitize=bounds,bounds-strict,shift,integer-divide-by-zero", "-fsanitize-undefined-trap-on-error"]
WARNINGS = ["-w", "-Werror=implicit-function-declaration", "-Werror=int-conversion"]

# Events of sanitize.c for a mutant that the recording does not kill.
RANDOM_EVENTS = 100000
# Proofs that take more than some seconds are not tried on every survivor.
SLOW_PROOFS = {"dynamic_budget", "levels", "memguard", "vcpu"}

OPERATORS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"],
    "^": ["|"], "&&": ["||"], "||": ["&&"], "++": ["--"], "--": ["++"], "+=": ["-="], "-=": ["+="], "|=": ["&="],
    "&=": ["|="], "!": [""], "~": [""],
}
UNARY_TOO = {"+", "-", "*", "&"}
TOKEN = re.compile(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||"
                   r"[-+*/%&|^]=|[^\s\w]")
KEYWORDS = {"if", "for", "while", "do", "switch", "case", "default", "return", "break", "continue", "else", "goto",
            "const", "static", "struct", "volatile", "unsigned", "void", "char", "int", "long", "sizeof"}
TYPES = {"sc_u64", "sc_u32", "void", "char", "int", "long", "unsigned"}


@dataclass
class Token:
    text: str
    start: int
    function: str = ""  # the function whose body it is in
    skipped: bool = False

    @property
    def end(self):
        return self.start + len(self.text)


@dataclass
class Mutant:
    header: str
    line: int
    function: str
    kind: str
    label: str  # the changed line, with {old -> new}
    edits: list = field(default_factory=list)  # (start, end, text)
    status: str = ""
    by: str = ""

    @property
    def key(self):
        return f"{self.header} {self.function}: {self.label}"


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def active_code(text):
    """The text with comments, preprocessor lines and what the host does not compile blanked; offsets stay."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: blank(m.group()), text, flags=re.S)
    lines, stack, out, continued = text.split("\n"), [], [], False
    for line in lines:
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line) if not continued else None
        if directive:
            word, rest = directive.groups()
            if word in ("ifdef", "ifndef"):
                defined = rest.strip() not in UNDEFINED and not rest.strip().endswith("_H")
                stack.append(defined if word == "ifdef" else True)
            elif word == "if":
                stack.append(True)
            elif word == "else":
                stack[-1] = not stack[-1]
            elif word == "endif":
                stack.pop()
        hidden = continued or directive or not all(stack)
        continued = (continued or bool(directive)) and line.rstrip().endswith("\\")
        out.append(blank(line) if hidden else line)
    return "\n".join(out)


def tokens_of(code):
    tokens = [Token(m.group(), m.start()) for m in TOKEN.finditer(code)]
    depth, function, opened = 0, "", []
    for i, token in enumerate(tokens):
        if token.text == "(":
            opened.append(i)
        elif token.text == ")":
            closed = opened.pop()
        if token.text == "{":
            if depth == 0 and i and tokens[i - 1].text == ")":
                function = tokens[closed - 1].text
            depth += 1
        elif token.text == "}":
            depth -= 1
            if depth == 0:
                function = ""
        token.function = function if depth else ""
    skip_masks(tokens)
    skip_zeros(tokens)
    return tokens


def skip_masks(tokens):
    """The limit in SC_MASKED(i, limit) has no effect on the host."""
    for i, token in enumerate(tokens):
        if token.text != "SC_MASKED":
            continue
        depth, comma = 0, False
        for other in tokens[i + 1:]:
            depth += {"(": 1, ")": -1}.get(other.text, 0)
            comma = comma or (depth == 1 and other.text == ",")
            other.skipped = other.skipped or comma
            if depth == 0:
                break


def skip_zeros(tokens):
    """`x += s->zero` and `x + s->zero` hide x from the BPF verifier; they have no effect on the host."""
    for i, token in enumerate(tokens):
        if token.text == "zero" and tokens[i - 1].text == "->" and tokens[i + 1].text == ";":
            j = i - 1
            while tokens[j].text not in ("+", "+=", "|", "|=", ";"):
                j -= 1
            tokens[j].skipped = True
            if tokens[j].text in ("+=", "|="):
                while tokens[j - 1].text not in (";", "{", "}"):
                    j -= 1
                    tokens[j].skipped = True


def is_operand(token):
    return token.text in (")", "]") or (re.match(r"\w", token.text) and token.text not in KEYWORDS)


def is_binary(tokens, i):
    before = tokens[i - 1]
    if not is_operand(before) or before.text in TYPES:
        return False
    return tokens[i - 2].text != "struct"


def constants(text):
    number = re.match(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$", text)
    if not number:
        return []
    digits, suffix = number.groups()
    value = int(digits, 0)
    written = (lambda v: f"{v:#x}{suffix}") if digits[:2].lower() == "0x" else (lambda v: f"{v}{suffix}")
    others = [value + 1] if value == 0 else [value - 1, value + 1]
    return [written(v) for v in others if v < 1 << 64]


class Mutator:
    def __init__(self, path):
        self.header = path.name
        self.text = path.read_text()
        self.tokens = tokens_of(active_code(self.text))
        self.mutants = []

    def add(self, kind, start, end, new, function, edits=None):
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", end)
        old = " ".join(self.text[start:end].split())
        label = f"{self.text[first:start]}{{{old} -> {new}}}{self.text[end:last]}"
        self.mutants.append(Mutant(self.header, self.text.count("\n", 0, start) + 1, function, kind,
                                   " ".join(label.split()), edits or [(start, end, new)]))

    def all(self):
        for i, token in enumerate(self.tokens):
            if token.function and not token.skipped:
                self.token(i, token)
        seen = {}
        for mutant in self.mutants:
            # Lines that occur again in a function are told apart.
            seen[mutant.key] = seen.get(mutant.key, 0) + 1
            if seen[mutant.key] > 1:
                mutant.label += f" #{seen[mutant.key]}"
        return self.mutants

    def token(self, i, token):
        if token.text in OPERATORS:
            if token.text not in UNARY_TOO or is_binary(self.tokens, i):
                for new in OPERATORS[token.text]:
                    self.add("operator", token.start, token.end, new, token.function)
        for new in constants(token.text):
            self.add("constant", token.start, token.end, new, token.function)
        if token.text == "return":
            self.flip(i)
        if token.text in ("if", "while"):
            self.negate(i)
        if self.starts_statement(i):
            self.remove(i)

    def semicolon(self, i):
        depth = 0
        while i < len(self.tokens):
            depth += {"(": 1, ")": -1, "{": 1, "}": -1}.get(self.tokens[i].text, 0)
            if self.tokens[i].text == ";" and depth == 0:
                return i
            if depth < 0:
                return None
            i += 1
        return None

    def closing(self, i):
        depth = 0
        for j in range(i, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[j].text, 0)
            if depth == 0:
                return j
        return None

    def flip(self, i):
        end = self.semicolon(i)
        if end is None or end <= i + 1 or (end == i + 2 and constants(self.tokens[i + 1].text)):
            return
        start, stop = self.tokens[i + 1].start, self.tokens[end - 1].end
        self.add("return", start, stop, "!(...)", self.tokens[i].function, [(start, start, "!("), (stop, stop, ")")])

    def negate(self, i):
        """A condition without an operator that is mutated anyway."""
        close = self.closing(i + 1)
        inside = self.tokens[i + 2:close]
        if any(t.text in ("<", ">", "<=", ">=", "==", "!=", "&&", "||", "!") for t in inside):
            return
        start, stop = inside[0].start, inside[-1].end
        self.add("condition", start, stop, "!(...)", self.tokens[i].function, [(start, start, "!("), (stop, stop, ")")])

    def starts_statement(self, i):
        token, before = self.tokens[i], self.tokens[i - 1]
        if token.text in ("break", "continue"):
            return True
        if token.text in KEYWORDS - {"return"} or token.text in TYPES or not re.match(r"[A-Za-z_*]", token.text):
            return False
        if before.text == ")":
            opened, depth = i - 1, 0
            while True:
                depth += {")": 1, "(": -1}.get(self.tokens[opened].text, 0)
                if depth == 0:
                    break
                opened -= 1
            return self.tokens[opened - 1].text in ("if", "for", "while") and token.text != "*"
        if before.text not in (";", "{", "}", "else", ":"):
            return False
        # Not between the semicolons of a for, and no label of the ?: operator.
        depth = sum({"(": 1, ")": -1}.get(t.text, 0) for t in self.tokens[:i])
        if before.text == ":":
            j = i - 2
            while self.tokens[j].text not in (";", "{", "}", "case", "default", "?"):
                j -= 1
            return depth == 0 and self.tokens[j].text in ("case", "default")
        return depth == 0

    def remove(self, i):
        end = self.semicolon(i)
        if end is None or (self.tokens[i].text == "return" and end > i + 1):
            return
        # `type name;` is no statement; neither is a macro that is a label.
        if end > i + 1 and re.match(r"[A-Za-z_]", self.tokens[i + 1].text):
            return
        self.add("statement", self.tokens[i].start, self.tokens[end - 1].end, "", self.tokens[i].function)


def includes(path, headers, seen=None):
    """Names of the solocore headers that a file includes, itself or through others."""
    seen = set() if seen is None else seen
    for name in re.findall(r'#include\s*[<"](?:solocore/)?(\w+\.h)[>"]', path.read_text()):
        if name not in seen and (headers / name).exists():
            seen.add(name)
            includes(headers / name, headers, seen)
    return seen


class Bench:
    """Builds and runs mutants, of a copy of policy/: what is edited meanwhile does not matter."""

    def __init__(self, directory):
        self.directory = directory
        self.tests = directory / "policy" / "tests"
        self.include = directory / "policy" / "include"
        self.headers = self.include / "solocore"
        shutil.copytree(TESTS, self.tests)
        shutil.copytree(HEADERS, self.headers)
        drivers = {p.stem: includes(p, self.headers) for p in sorted((self.tests / "drive").glob("*.h"))}
        size = {m: (BUILD / f"{m}.bin").stat().st_size if (BUILD / f"{m}.bin").exists() else 0 for m in drivers}
        self.without = [m for m in drivers if size[m] == 0]
        self.users = {}
        for header in sorted(p.name for p in self.headers.glob("*.h")):
            using = [m for m in drivers if header in drivers[m]]
            self.users[header] = sorted(using, key=lambda m: (m + ".h" != header, m))
        self.baseline = {}
        self.provable = set()
        self.replay = directory / "replay.o"
        self.compile(["-O2", "-c", self.tests / "mutate" / "replay.c", "-o", self.replay])

    def compile(self, arguments):
        command = ["gcc", "-std=c99", *WARNINGS, *map(str, arguments), f"-I{self.include}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.returncode == 0

    def driver(self, mechanism, include, flags, output):
        """Compiles a mechanism; headers in `include` come before the true ones."""
        defines = [f"-DMECHANISM={mechanism}", f'-DDRIVER="{self.tests}/drive/{mechanism}.h"']
        return self.compile([f"-I{include}", *flags, *defines, "-c", self.tests / "mutate" / "mutant.c", "-o", output])

    def same_code(self, mechanism, include, output):
        """Is the optimised object that of the original?"""
        flags = ["-O2"]
        if mechanism not in self.baseline:
            original = self.directory / f"{mechanism}.original.o"
            self.driver(mechanism, self.include, flags, original)
            self.baseline[mechanism] = original.read_bytes()
        return self.driver(mechanism, include, flags, output) and output.read_bytes() == self.baseline[mechanism]

    def run(self, command):
        try:
            result = subprocess.run(command, capture_output=True, check=False, timeout=60)
        except subprocess.TimeoutExpired:
            return "time"
        if result.returncode == 0:
            return ""
        if result.returncode in (-9, -24):
            return "time"
        return "crash" if result.returncode < 0 else "difference"

    def replays(self, mechanism, include, work):
        """Why the mutant is killed by the recording, or ''."""
        if mechanism in self.without:
            return ""
        target, program = work / "mutant.o", work / "mutant"
        if not self.driver(mechanism, include, ["-O1", *TRAPS], target):
            return "build"
        if not self.compile([target, self.replay, "-o", program]):
            return "build"
        return self.run([program, BUILD / f"{mechanism}.bin"])

    def sanitizes(self, mechanism, include, work):
        """Why the mutant is killed by sanitize.c, or ''. Small limits are reached, larger ones need several words."""
        program = work / "sanitize"
        defines = [f"-DMECHANISM={mechanism}", f'-DDRIVER="{self.tests}/drive/{mechanism}.h"', "-DSC_MAX_CORE_VCPUS=3u"]
        if (self.tests / "invariants" / f"{mechanism}.h").exists():
            defines.append(f'-DINVARIANTS="{self.tests}/invariants/{mechanism}.h"')
        for tasks in (192, 3):
            limits = [*defines, f"-DSC_MAX_TASKS={tasks}u"]
            if not self.compile([f"-I{include}", "-O1", *TRAPS, *limits, self.tests / "sanitize.c", "-o", program]):
                return "build"
            why = self.run(["bash", "-c", f"ulimit -t 20; exec {program} {RANDOM_EVENTS}"])
            if why:
                return why
        return ""

    def proves(self, mechanism, include, work):
        """Why the proof of a mechanism fails, or ''."""
        environment = dict(os.environ, POLICY_INCLUDE=str(include), POLICY_PROOFS=str(work / "prove"))
        result = subprocess.run([self.tests / "prove.sh", mechanism], env=environment, capture_output=True, check=False)
        return "not proved" if result.returncode == 1 else ""

    def judge(self, mutant):
        with tempfile.TemporaryDirectory(dir=self.directory) as name:
            work = Path(name)
            include = work / "include"
            shutil.copytree(self.headers, include / "solocore")
            text = (self.headers / mutant.header).read_text()
            for start, end, new in sorted(mutant.edits, reverse=True):
                text = text[:start] + new + text[end:]
            (include / "solocore" / mutant.header).write_text(text)
            users = self.users[mutant.header]
            for mechanism in users:
                why = self.replays(mechanism, include, work)
                if why:
                    return "killed", f"{why}: {mechanism}"
            if all(self.same_code(m, include, work / "same.o") for m in users):
                return "same code", ""
            for mechanism in users:
                why = self.sanitizes(mechanism, include, work)
                if why:
                    return "killed", f"sanitize, {why}: {mechanism}"
            if users[0] in self.provable and self.proves(users[0], include, work):
                return "killed", f"not proved: {users[0]}"
        return "survived", ""


def read_equivalent():
    """Keys with reasons: lines with a key each, then their reason, indented."""
    entries, keys, told = {}, [], True
    if not EQUIVALENT.exists():
        return entries
    for number, line in enumerate(EQUIVALENT.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not keys:
                sys.exit(f"{EQUIVALENT}:{number}: a reason without a mutant")
            for key in keys:
                entries[key] = f"{entries[key]} {line.strip()}".strip()
            told = True
        else:
            keys = [line.strip()] if told else [*keys, line.strip()]
            entries[keys[-1]], told = "", False
    bare = [key for key, reason in entries.items() if not reason]
    if bare:
        sys.exit(f"{EQUIVALENT}: no reason given for: {bare[0]}")
    return entries


def record(events):
    """Makes the recording: what the C and the models agree on."""
    program = [ROOT / "target/debug/examples/record"] if os.environ.get("BUILT") else [
        "cargo", "run", "--quiet", "--locked", "-p", "solocore-policy-check", "--example", "record", "--"]
    command = [*map(str, program), str(BUILD), str(events)]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"mutate: no recording: {' '.join(command)}\n{result.stderr}")
    for line in result.stdout.splitlines():
        if not line.endswith(" 0 sequences left out"):
            print(f"mutate: recording: {line}: the C and the model differ there")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--header", action="append", metavar="NAME", help="mutate only this one, e.g. heap.h")
    parser.add_argument("--sample", type=int, metavar="N", help="try only N mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=1, help="chooses the sample (1)")
    parser.add_argument("--events", type=int, default=40000, help="random events per mechanism (40000)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument("--prove", action="store_true", help="let prove.sh look at what survives, where that is quick")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT", help="exit 1 if fewer are killed")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a survivor is not in mutants-equivalent.txt")
    parser.add_argument("--no-record", action="store_true", help="use the recording that is in build/mutants")
    return parser.parse_args()


def choose(arguments, bench):
    mutants = []
    for header, users in bench.users.items():
        if arguments.header and header not in arguments.header:
            continue
        if not users:
            print(f"mutate: {header}: no driver includes it, not mutated")
            continue
        mutants += Mutator(bench.headers / header).all()
    if arguments.sample and arguments.sample < len(mutants):
        chosen = sorted(random.Random(arguments.seed).sample(range(len(mutants)), arguments.sample))
        mutants = [mutants[i] for i in chosen]
    return mutants


def summarise(mutants, equivalent):
    for header in sorted({m.header for m in mutants}):
        of = [m for m in mutants if m.header == header]
        counted = [m for m in of if m.status in ("killed", "survived")]
        listed = sum(m.status == "listed" for m in of)
        same = sum(m.status == "same code" for m in of)
        killed = sum(m.status == "killed" for m in counted)
        print(f"{header}: killed {killed} of {len(counted)} mutants ({len(counted) - killed} survivors; "
              f"{listed} listed as equivalent, {same} the same code)")
    survivors = [m for m in mutants if m.status == "survived"]
    for m in survivors:
        print(f"survivor: {m.header}:{m.line}: {m.function}: {m.label}")
    tried = {m.key for m in mutants if m.status == "killed"}
    dead = [key for key in equivalent if key in tried]
    for key in dead:
        print(f"mutants-equivalent.txt: killed, so not equivalent: {key}")
    return survivors, dead


def main():
    arguments = parse_arguments()
    BUILD.mkdir(parents=True, exist_ok=True)
    if not arguments.no_record:
        record(arguments.events)
    start = time.monotonic()
    equivalent = read_equivalent()
    with tempfile.TemporaryDirectory(dir=BUILD) as directory:
        bench = Bench(Path(directory))
        for mechanism in bench.without:
            print(f"mutate: no recording of {mechanism}")
        for mechanism in sorted({m for users in bench.users.values() for m in users}):
            work = Path(directory) / mechanism
            work.mkdir()
            why = bench.replays(mechanism, bench.include, work) or bench.sanitizes(mechanism, bench.include, work)
            if why:
                sys.exit(f"mutate: {mechanism} fails unmutated ({why}): fix that first")
            if arguments.prove and mechanism not in SLOW_PROOFS and not bench.proves(mechanism, bench.include, work):
                bench.provable.add(mechanism)
        mutants = choose(arguments, bench)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for mutant, (status, by) in zip(mutants, pool.map(bench.judge, mutants)):
                listed = status == "survived" and mutant.key in equivalent
                mutant.status, mutant.by = "listed" if listed else status, by
    survivors, dead = summarise(mutants, equivalent)
    known = {m.key for m in mutants}
    if not arguments.sample and not arguments.header:
        for key in sorted(set(equivalent) - known):
            print(f"mutants-equivalent.txt: no such mutant any more: {key}")
            dead.append(key)
    (ROOT / "build" / "mutants.json").write_text(json.dumps(
        [{k: getattr(m, k) for k in ("header", "line", "function", "kind", "label", "status", "by")} for m in mutants],
        indent=1) + "\n")
    counted = [m for m in mutants if m.status in ("killed", "survived")]
    print(f"mutate: killed {len(counted) - len(survivors)} of {len(counted)} mutants ({len(survivors)} survivors), "
          f"{time.monotonic() - start:.0f} s; all in build/mutants.json")
    few = len(counted) - len(survivors) < len(counted) * arguments.least / 100
    return 1 if few or dead or (arguments.strict and survivors) else 0


if __name__ == "__main__":
    sys.exit(main())
