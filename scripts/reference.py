"""Makes the reference of every key: docs/reference-*.md, from what `solocore schema NAME` prints.

    scripts/reference.py SOLOCORE            write the pages
    scripts/reference.py SOLOCORE --check    fail if a page is not what would be written

The pages lie in the repository, so that the book builds without the command; tests/cli/test_reference.py compares them.
Units follow from the endings of names and from types. GUIDE says where the guide explains a key.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"

# File, title of the page, what it is, and is it TOML.
FILES = {
    "system": ("Keys of system.toml", "The system file names the board, the regulation of memory traffic, and the tasks.", True),
    "platform": ("Keys of platform files", "A platform file describes a board. Presets lie in `platforms/`; each number there has its source in a comment.", True),
    "instance": ("Keys of instance.toml", "An instance has the partitions and devices of `solocore schedule-io`; you write it.", True),
    "scenario": ("Keys of scenario.toml", "A scenario describes a whole simulation of `solocore sim`; you write it. `solocore workloads` prints the programs that it may name.", True),
    "corpus": ("Keys of a corpus line", "Each line of a corpus is a JSON object, a task set for `solocore analyze`. All times of a line are in one integer unit of your choice.", False),
    "plan": ("Keys of a plan", "`solocore plan -o plan.json` writes a plan, and `--format json` prints it.", False),
    "profile": ("Keys of a profile", "`solocore profile -o profile.json` writes a profile.", False),
    "run": ("Keys of a run", "`solocore run -o run.json` writes what was seen; `--format json` and `solocore top --format json` print it.", False),
    "sim": ("Keys of a simulation", "`solocore sim -o sim.json` writes a result, and `--format json` prints it.", False),
    "scenario-result": ("Keys of a scenario's result", "`solocore sim scenario.toml -o result.json` writes a result, and `--format json` prints it.", False),
    "verify": ("Keys of a verification", "`solocore verify -o verify.json` writes what was measured under attack, and `--format json` prints it.", False),
    "table": ("Keys of a time table", "`solocore schedule-io -o table.json` writes a time table, and `solocore check-io` reads it.", False),
    "diff": ("Keys of `diff`", "`solocore diff --format json` prints two plans side by side.", False),
    "doctor": ("Keys of `doctor`", "`solocore doctor --format json` prints the findings on this machine.", False),
    "dry-run": ("Keys of a dry run", "`solocore run --dry-run --format json` prints the changes that a run would make.", False),
    "compare": ("Keys of `compare`", "`solocore compare -o FILE` writes the times of a program alone, disturbed and protected, and `--format json` prints them.", False),
    "latency": ("Keys of `latency`", "`solocore latency --format json` prints readings of the memory's latency.", False),
    "measure": ("Keys of `platform measure`", "`solocore platform measure --format json` prints each number with its interval.", False),
}

# Where the guide explains a key: the longest beginning of its path counts.
GUIDE = {
    "system": {
        "": "system-file.md",
        "platform": "machine.md",
        "regulation": "shares.md",
        "regulation.policy": "system-file.md",
        "regulation.period": "system-file.md",
        "regulation.active_cores": "system-file.md",
        "regulation.lock": "lock.md",
        "regulation.model": "system-file.md",
        "regulation.carry_in": "system-file.md",
        "regulation.skid": "linux-budgets.md",
        "regulation.lock_bandwidth": "lock.md",
        "regulation.objective": "shares.md",
        "core.write_bandwidth": "events.md",
        "task.command": "profiles.md",
        "task.inputs": "profiles.md",
        "task.profile": "profiles.md",
        "task.curve": "windows.md",
        "task.partition": "windows.md",
        "task.soft_budget": "lock.md",
        "task.job": "functions.md",
        "task.lock": "functions.md",
        "task.slowdown": "lock.md",
        "task.user": "functions.md",
        "task.wcet_by_ways": "levels.md",
        "task.misses_by_ways": "levels.md",
        "task.average": "levels.md",
        "task.reload": "levels.md",
        "sce": "windows.md",
        "base": "windows.md",
        "dma": "windows.md",
        "margin": "windows.md",
        "device": "windows.md",
        "partition": "windows.md",
        "levels": "levels.md",
        "ipc": "levels.md",
        "io": "levels.md",
        "maracas": "vcpus.md",
        "vcpu": "vcpus.md",
    },
    "platform": {"": "machine.md", "dram.row_hit_cap": "dram.md"},
    "plan": {
        "": "tutorial.md",
        "carried": "profiles.md",
        "certificate": "shares.md",
        "choices": "shares.md",
        "Choice": "shares.md",
        "cores": "shares.md",
        "inputs": "profiles.md",
        "lock": "lock.md",
        "platform": "machine.md",
        "promises": "promises.md",
        "tasks.assumes": "promises.md",
        "assumptions": "promises.md",
        "regulation": "system-file.md",
        "regulation.skid": "linux-budgets.md",
        "regulation.lock_budget_accesses": "lock.md",
        "regulation.lock_reaction_ns": "lock.md",
        "tasks.soft_budget": "lock.md",
        "tasks.derivation": "analysis.md",
        "tasks.waterfall": "advice.md",
        "tasks.profile": "profiles.md",
        "tasks.program": "functions.md",
        "repair": "advice.md",
        "what_if": "advice.md",
        "sce": "windows.md",
        "mc2": "levels.md",
        "maracas": "vcpus.md",
        "vcpus": "vcpus.md",
    },
    "profile": {"": "profiles.md", "functions": "functions.md"},
    "run": {
        "": "watching.md",
        "plan": "tutorial.md",
        "promises": "promises.md",
        "partial": "promises.md",
        "broken": "promises.md",
        "engine": "linux-budgets.md",
        "passed_over": "linux-budgets.md",
        "event": "events.md",
        "write_event": "events.md",
        "stands_in": "events.md",
        "handovers": "linux.md",
        "confined": "linux.md",
        "interrupts": "linux.md",
        "groups": "ways.md",
        "locked_pages": "ways.md",
        "levels": "linux-levels.md",
        "windows": "linux.md",
        "lock": "lock.md",
        "functions": "functions.md",
        "transfers": "slots.md",
        "drivers": "slots.md",
        "vcpus": "vcpus.md",
    },
    "sim": {"": "simulator.md", "io": "windows.md"},
    "verify": {"": "promises.md"},
    "instance": {"": "windows.md"},
    "scenario": {"": "simulator.md", "simulation.row_hit_cap": "dram.md", "vcpu": "vcpus.md"},
    "corpus": {"": "analysis.md"},
    "scenario-result": {"": "simulator.md"},
    "table": {"": "windows.md"},
    "diff": {"": "editors.md"},
    "doctor": {"": "conditions.md", "promises": "promises.md"},
    "dry-run": {"": "linux.md", "promises": "promises.md", "vcpus": "vcpus.md", "levels": "linux-levels.md", "tables": "linux-levels.md"},
    "compare": {"": "watching.md"},
    "latency": {"": "latency.md"},
    "measure": {"": "machine.md"},
}

# Types that have a page of their own, or are strings with a unit.
PAGES = {"Plan": "plan", "Platform": "platform"}
WITH_UNIT = {"Time": "time", "Bandwidth": "bandwidth", "Bytes": "size", "Frequency": "clock"}
UNITS = [("_bytes_per_s", "bytes per second"), ("_per_mille", "thousandths"), ("_permille", "thousandths"), ("_percent", "percent"),
         ("_bytes", "bytes"), ("_cycles", "cycles"), ("_pages", "pages"), ("_accesses", "accesses"), ("_ns", "ns"), ("_ps", "ps")]


class Missing(Exception):
    """A key without a description, or without a place in the guide."""


def text(schema, where):
    """The description on one line, without the links of rustdoc."""
    found = " ".join(schema.get("description", "").split())
    if not found:
        raise Missing(f"{where} has no description: write the doc comment of its field in crates/model/src")
    return re.sub(r"\[(`[^`]+`)\]", r"\1", found)


def slug(heading):
    """The anchor that mkdocs gives a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def number(value):
    """A limit, whole where it is."""
    return str(value) if isinstance(value, int) else f"{value:g}"


def escaped(words):
    """For a cell of a table."""
    return words.replace("|", "\\|")


class Page:
    """The page of one file."""

    def __init__(self, name, schema):
        self.name, self.schema, self.defs = name, schema, schema.get("$defs", {})
        self.toml = FILES[name][2]
        # Headings of types by name, in the order in which they are met; their properties wait to be written.
        self.sections, self.waiting, self.words, self.names = {}, [], {}, {}
        uses = re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(schema))
        self.shared = set() if self.toml else {of for of in uses if uses.count(of) > 1}

    def guide(self, path):
        """Where the guide explains a key, by its path without brackets."""
        places = GUIDE[self.name]
        while path not in places:
            path = path.rpartition(".")[0]
        return places[path]

    def named(self, path, listed):
        """How a table or object is called: as in the file."""
        if not self.toml:
            return path + "[]" if listed else path
        return f"[[{path}]]" if listed else f"[{path}]"

    def section(self, of, path, listed):
        """A link to the section of an object type, which is written once."""
        if of in PAGES and PAGES[of] != self.name:
            return f"[the {of.lower()}](reference-{PAGES[of]}.md)"
        if of not in self.sections:
            # In JSON a type of several keys has its own name; in TOML, its section has the names of all.
            self.sections[of] = of if of in self.shared else ", ".join(self.names.get(of, [self.named(path, listed)]))
            self.waiting.append((of, path, listed))
        self.names.setdefault(of, [])
        if (name := self.named(path, listed)) not in self.names[of]:
            self.names[of].append(name)
        return f"[`{name if self.toml else self.sections[of]}`](#{slug(self.sections[of])})"

    def choices(self, schema):
        """Words that a value may be, with their meanings; none where it is no choice of words."""
        found = {}
        for part in schema.get("oneOf", [schema]):
            if "const" in part:
                found[str(part["const"])] = part.get("description", "")
            elif "enum" in part:
                found |= {str(word): "" for word in part["enum"]}
            else:
                return {}
        return found

    def allowed(self, of, words, key, about):
        """A list of words; those with meanings get a section."""
        shown = ", ".join(f"`{w}`" for w in words)
        if any(words.values()):
            self.words.setdefault(of, (key, words, about))
            shown += f" ([meaning](#{slug('Words of ' + self.words[of][0])}))"
        return shown

    def kind(self, schema, path, key, listed=False):
        """Type and allowed values of a schema, as two cells."""
        if schema is True:
            return "any", ""
        if "$ref" in schema:
            of = schema["$ref"].rpartition("/")[2]
            target = self.defs[of]
            if of in WITH_UNIT:
                return WITH_UNIT[of], ""
            if words := self.choices(target):
                return "word", self.allowed(of, words, key, target.get("description", ""))
            if "properties" in target or self.variants(target):
                what = "each " if listed else "table " if self.toml else "object "
                words = [str(v["const"]) for v in target.get("oneOf", []) if "const" in v]
                return ("word or " if words else "") + what + self.section(of, path, listed), ", ".join(f"`{w}`" for w in words)
            return self.kind(target, path, key, listed)
        if words := self.choices(schema):
            null = " or `null`" if not self.toml and "null" in schema.get("type", "") else ""
            return "word" + null, self.allowed(key, words, key, schema.get("description", ""))
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if parts := schema.get("anyOf") or schema.get("oneOf"):
            both = [self.kind(p, path, key, listed) for p in parts if p.get("type") != "null"]
            null = " or `null`" if not self.toml and any(p.get("type") == "null" for p in parts) else ""
            return " or ".join(dict.fromkeys(b[0] for b in both)) + null, " or ".join(b[1] for b in both if b[1])
        null = " or `null`" if "null" in kinds and not self.toml else ""
        one = next((k for k in kinds if k != "null"), "object" if "properties" in schema else "any")
        if one == "array":
            if "prefixItems" in schema:
                return "list of " + str(len(schema["prefixItems"])) + " values" + null, ""
            inner, allowed = self.kind(schema.get("items", True), path, key, True)
            return (f"list, {inner}" if inner.startswith("each ") else f"list of {inner}") + null, allowed
        if one == "object" and isinstance(schema.get("additionalProperties"), dict):
            inner, allowed = self.kind(schema["additionalProperties"], path, key)
            return f"object: names and {inner}{null}", allowed
        limits = []
        if schema.get("minimum"):
            limits.append(f"from {number(schema['minimum'])}")
        if "maximum" in schema and schema["maximum"] < 2**31:
            limits.append(f"up to {number(schema['maximum'])}")
        if one == "integer" and schema.get("minimum") == 0 and not limits:
            limits.append("from 0")
        unit = next((f", {unit}" for ending, unit in UNITS if key.endswith(ending)), "") if one in ("integer", "number") else ""
        return one + unit + null, " ".join(limits)

    def default(self, schema, required, meaning):
        """The value that holds where the key is left out; the meaning may say it in words."""
        if required:
            return "required" if self.toml else "always there"
        found = schema.get("default") if isinstance(schema, dict) else None
        if found in (None, [], {}) or isinstance(found, dict) and not self.toml:
            said = re.search(r"\b[Dd]efault\b|Left out|If it is left out", meaning)
            return ("see meaning" if said else "none") if self.toml else "may be absent"
        if isinstance(found, dict):
            return "`{" + ", ".join(f"{k} = {json.dumps(v)}" for k, v in found.items()) + "}`"
        return f"`{found if isinstance(found, str) else json.dumps(found)}`"

    @staticmethod
    def variants(schema):
        """Forms of an object."""
        return [variant for variant in schema.get("oneOf", []) if "properties" in variant]

    def apart(self, schema):
        """The key that tells variants apart, where a key of theirs means different things; then each has a section of its own."""
        if "properties" in schema:
            return None
        seen, tags = {}, set()
        for variant in self.variants(schema):
            for key, value in variant["properties"].items():
                tags |= {key} if "const" in value else set()
                seen.setdefault(key, set()).add(json.dumps(value, sort_keys=True))
        differ = any(len(forms) > 1 for key, forms in seen.items() if key not in tags)
        return tags.pop() if differ and len(tags) == 1 else None

    def properties(self, schema):
        """Keys of an object with their schemas; those of variants, which a key tells apart, as well."""
        found = dict(schema.get("properties", {}))
        for variant in schema.get("oneOf", []):
            words = [value["const"] for value in variant.get("properties", {}).values() if "const" in value]
            for key, value in variant.get("properties", {}).items():
                value = value if "const" in value or "description" in value else {**value, "description": variant.get("description", "")}
                if "const" in value:
                    tag = found.setdefault(key, {"oneOf": [], "description": "Kind of the object; other keys depend on it."})
                    tag["oneOf"] = [*tag["oneOf"], {"const": value["const"], "description": variant.get("description", "")}]
                elif key in found:
                    found[key] = {**found[key], "of": [*found[key].get("of", []), *words]}
                else:
                    found[key] = {**value, "of": words}
        return found

    def table(self, schema, path):
        """Rows of the keys of an object."""
        last = "default" if self.toml else "presence"
        required = [*schema.get("required", [])]
        variants = [v.get("required", []) for v in schema.get("oneOf", []) if "properties" in v]
        required += [key for key in variants[0] if all(key in v for v in variants)] if variants else []
        if self.toml:
            # A key of some kinds only is required where each of them requires it.
            required += [key for v in self.variants(schema) for key in v["properties"] if all(key in o.get("required", []) for o in self.variants(schema) if key in o["properties"])]
        rows = [f"| key | type and unit | allowed | {last} | meaning | guide |", "|---|---|---|---|---|---|"]
        for key, value in self.properties(schema).items():
            below = f"{path}.{key}" if path else key
            meaning = text(value, f"{self.name}: {below}")
            if of := value.get("of"):
                meaning += f" Only of the kinds {', '.join(f'`{w}`' for w in of)}."
            kind, allowed = self.kind(value, below, key)
            place = self.guide(below)
            cells = (f"`{key}`", kind, allowed, self.default(value, key in required, meaning), meaning, f"[{place.removesuffix('.md')}]({place})")
            rows.append("| " + " | ".join(escaped(c) for c in cells) + " |")
        return rows

    def write(self):
        """The whole page. The first time finds the names of all tables."""
        self.made()
        self.sections, self.waiting, self.words = {}, [], {}
        return self.made()

    def made(self):
        """The page, with the names that are known."""
        title, what, _ = FILES[self.name]
        lines = [f"# {title}", "", what, f"This page is made from the types that read the file (`solocore schema {self.name}`); [the reference](reference.md) says how to read it.", ""]
        lines += ["## At the top", "", *self.table(self.schema, "")]
        while self.waiting:
            of, path, _ = self.waiting.pop(0)
            about = text(self.defs[of], f"{self.name}: the type {of}")
            lines += ["", f"## `{self.sections[of]}`", "", about, ""]
            if tag := self.apart(self.defs[of]):
                lines += self.table({"oneOf": [{**v, "properties": {tag: v["properties"][tag]}, "required": [tag]} for v in self.variants(self.defs[of])]}, path)
                for variant in self.variants(self.defs[of]):
                    own = {key: value for key, value in variant["properties"].items() if key != tag}
                    word = variant["properties"][tag]["const"]
                    lines += ["", f"## `{path}` of {tag} `{word}`", "", text(variant, f"{self.name}: {tag} {word} of {of}"), ""]
                    lines += self.table({**variant, "properties": own}, path) if own else []
            else:
                lines += self.table(self.defs[of], path)
        for of, (key, words, about) in self.words.items():
            lines += ["", f"## Words of `{key}`", "", text({"description": about}, f"{self.name}: the type {of}"), "", "| word | meaning |", "|---|---|"]
            lines += [f"| `{escaped(w)}` | {escaped(text({'description': m}, f'{self.name}: the word {w} of {of}'))} |" for w, m in words.items()]
        headings = [slug(line) for line in lines if line.startswith("#")]
        if len(set(headings)) < len(headings):
            raise Missing(f"{self.name}: two sections have one anchor: {sorted(h for h in headings if headings.count(h) > 1)}")
        return "\n".join(lines) + "\n"


def schema_of(solocore, name):
    """What `solocore schema NAME` prints."""
    return json.loads(subprocess.run([solocore, "schema", name], capture_output=True, check=True).stdout)


def pages(solocore):
    """The pages by name, as they should be."""
    return {f"reference-{name}.md": Page(name, schema_of(solocore, name)).write() for name in FILES}


def stale(solocore, folder=DOCS):
    """Names of pages that are not as they should be."""
    return [name for name, wanted in pages(solocore).items() if not (folder / name).exists() or (folder / name).read_text() != wanted]


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit("usage: scripts/reference.py SOLOCORE [--check]")
    try:
        if sys.argv[2:]:
            if old := stale(sys.argv[1]):
                sys.exit(f"out of date: {', '.join(old)}; run scripts/reference.py {sys.argv[1]}")
        else:
            for name, wanted in pages(sys.argv[1]).items():
                (DOCS / name).write_text(wanted)
    except Missing as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    main()
