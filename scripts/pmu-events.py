#!/usr/bin/env python3
"""Writes the table of events for traffic to memory, one row for each type of CPU, from a kernel's source.

    scripts/pmu-events.py LINUX                   # writes crates/linux/src/regulate/event/events.csv
    scripts/pmu-events.py LINUX --check           # compares, and fails where they differ

Problem: every microarchitecture has another event for it, and each misses another part of the traffic.
Rule: perf's own files (LINUX/tools/perf/pmu-events/arch) say which CPUs are of a type and which events a type has. The
first candidate of `INTEL`, `AMD` and `ARM` that a type has is its event. A budget is counted by one counter, so that a
candidate is one event; only units of the very same event are added (AMD's local and remote memory). What an event
counts is stated with the candidate, as yes, no, unknown, or none (CPUs of this type make no such traffic).
Source: names and codes are those of the kernel's files; what an event counts is what its vendor says of it there. Types
that the files lack, or whose event they lack, are in `BORROWED` and `FURTHER`, each with its source.
Does not cover: counters outside the cores (they know no core), and types without such an event, which it prints.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "crates/linux/src/regulate/event/events.csv"

KINDS = ("reads", "fetches", "stores", "l1_prefetch", "l2_prefetch", "llc_prefetch", "non_temporal", "write_backs",
         "cache_hits")
COLUMNS = ("arch", "vendor", "family", "model", "stepping", "pmu", "title", "event", "type", "config", "config1",
           *KINDS, "write_event", "write_config")
# The kernel's names for the counters of hybrid CPUs.
PMUS = ("cpu_core", "cpu_atom", "cpu_lowpower")
VALUES = {"y": "yes", "n": "no", "?": "unknown", "-": "none"}

# What an event counts, in the order of KINDS; `cache_hits`: also what a cache beyond it answers.
# Offcore: the mask has every request of a core. Whether a non-temporal store is answered as a miss is not said.
# Evictions to memory are made by the shared cache.
ALL_REQUESTS = "yyyyyy?nn"
# Nehalem and Westmere have no bit for prefetches into the last level alone.
ANY_REQUEST = "yyyyy??nn"
ALL_READS = "yyyyyynnn"
# LONGEST_LAT_CACHE.MISS counts cacheable requests, so no non-temporal stores. On prefetches the vendor says something
# else of each generation; where he says nothing, the architectural definition stands: they may be left out.
LONGEST = [
    (r"(skylake|skylakex|cascadelakex|icelake|icelakex|rocketlake|tigerlake)", "yyyyynnnn"),
    (r"(sapphirerapids|emeraldrapids|graniterapids)", "yyyyynnnn"),
    (r"(alderlake|arrowlake|lunarlake|meteorlake|pantherlake):cpu_core", "yyyyynnnn"),
    (r"(broadwell|broadwellde|broadwellx)", "yyyynnnnn"),
    (r"(sandybridge|jaketown)", "y?y?nnnnn"),
    (r".*", "y?y???nnn"),
]
# Of Atoms the vendor names no prefetches but those of the first level.
ATOM = "yyyy??nnn"
ATOMS = r"(alderlaken|clearwaterforest|elkhartlake|grandridge|sierraforest|snowridgex|.*:cpu_(atom|lowpower))"
# Fills of the second level: whatever a core reads, it reads through it. The third level has no prefetcher of its own.
L2_FILLS = "yyyyy-nnn"
# Fills of the first-level data cache: not what prefetchers bring to the second, not instructions.
ANY_FILLS = "ynyyn-nnn"
DEMAND_FILLS = "ynynn-nnn"
# Arm's cores write long runs of stores past their caches, as they do non-temporal ones.
L2_REFILL = "yyy??-nnn"
L2_REFILL_BEFORE_L3 = "yyy???nny"
LL_MISS_RD = "y?????nn?"
# Arm, Cortex-A76 TRM (100798), table of PMU events, and the kernel's files for Neoverse: reads are transactions, those
# that stores make (ReadUnique) among them.
READ_UNIQUE = r"cortex-(a76|a77|a78|x1)|neoverse-(n1|n2-v2|v1)"
L3_MISS_REFILL = "yyyyy?nnn"
UNKNOWN = "y????????"


@dataclass(frozen=True)
class Candidate:
    """An event, by its name or the names of its units; what it counts."""

    names: str
    counts: object
    write: str = ""


# An event of all requests is the widest, and covers prefetches into the last level. It needs an MSR that virtual machines
# lack, so the architectural event follows as a row of its own. Only events with every response are taken (ANY_RESPONSE,
# ANY_SNOOP, ANY_LLC_MISS): others leave out how some of the traffic is answered. OCR.READS_TO_CORE (from Ice Lake on) is
# no candidate: it counts what LONGEST_LAT_CACHE.MISS counts, and costs the MSR. Nor is OCR.MODIFIED_WRITE for
# write-backs: most of them end in the last level. Ivy Bridge's ALL_READS.LLC_MISS is left out, because its value has a
# bit for answers of an unknown source.
INTEL = [
    Candidate(r"OFFCORE_RESPONSE\.ALL_REQUESTS\.(L3|LLC)_MISS\.ANY_RESPONSE", ALL_REQUESTS),
    Candidate(r"OFFCORE_RESPONSE\.ANY_REQUEST\.ANY_LLC_MISS", ANY_REQUEST),
    Candidate(r"OCR\.ALL_READS\.L3_MISS\.ANY_SNOOP", ALL_READS),
    Candidate(r"LONGEST_LAT_CACHE\.MISS", None),
    Candidate(r"L2_REQUESTS\.MISS", "y?y???nnn"),
]
# Fills of the second level before those of the first, and these for any reason before those on demand; `dram_io_all` is
# the sum of `near` and `far`.
AMD = [
    Candidate(r"l2_fill_rsp_src\.dram_io_(near|far)", L2_FILLS),
    Candidate(r"ls_any_fills_from_sys\.dram_io_all", ANY_FILLS),
    Candidate(r"ls_any_fills_from_sys\.mem_io_(local|remote)", ANY_FILLS),
    Candidate(r"ls_dmnd_fills_from_sys\.mem_io_(local|remote)", DEMAND_FILLS),
    Candidate(r"ls_refills_from_sys\.ls_mabresp_(lcl|rmt)_dram", DEMAND_FILLS),
]
# The last level's misses before the second level's. LL_CACHE_MISS_RD follows what the machine's last level is, which
# L3D_CACHE_REFILL does not. Write-backs of the second level go to memory only where it is the last.
ARM = [
    Candidate(r"L2D_CACHE_REFILL_L3D_MISS", L3_MISS_REFILL),
    Candidate(r"LL_CACHE_MISS_RD", LL_MISS_RD),
    Candidate(r"L2D_CACHE_REFILL", L2_REFILL, "L2D_CACHE_WB"),
]
# A third level or a system's cache lies behind the second, and the core has no event for it.
BEFORE_L3 = ("ampereone", "ampereonex", "carmel", "emag")

# Types whose own file lacks an event that they have: the type, the event, and whose codes they are.
BORROWED = {
    # AMD, PPR 54945 (family 17h, models 00h to 0fh), PMCx043.
    "amdzen1": ("amdzen2", r"ls_refills_from_sys\.ls_mabresp_(lcl|rmt)_dram"),
    # Arm, Cortex-A53 TRM (DDI 0500), table of PMU events: 0x17 and 0x18.
    "cortex-a53": ("", r"L2D_CACHE_(REFILL|WB)"),
}


@dataclass(frozen=True)
class Cpu:
    """Which CPUs are of a type; numbers in lists of hexadecimal ranges, families decimal."""

    arch: str
    vendor: str
    family: str = ""
    model: str = ""
    stepping: str = ""


# CPUs that mapfile.csv lacks: which, their title, whose rows they have.
FURTHER = [
    # Linux, arch/x86/kernel/cpu/hygon.c and events/amd/core.c: Zen 1's cores and counters.
    (Cpu("x86", "HygonGenuine", "24", "0-ff"), "dhyana", "amdzen1"),
    # Linux, arch/arm64/include/asm/cputype.h, and the cores' TRMs: the same cores with lockstep (AE), and later ones with
    # the same event.
    (Cpu("arm", "41", model="d0e"), "cortex-a76ae", "cortex-a76"),
    (Cpu("arm", "41", model="d42"), "cortex-a78ae", "cortex-a78"),
    (Cpu("arm", "41", model="d43"), "cortex-a65ae", "cortex-a65-e1"),
    (Cpu("arm", "41", model="d80 d88"), "cortex-a520", "cortex-a510"),
    (Cpu("arm", "41", model="d4d d81 d87 d89"), "cortex-a715-a720-a725", "cortex-a710"),
    (Cpu("arm", "41", model="d4e d82 d85"), "cortex-x3-x4-x925", "cortex-x2"),
    # Linux, cputype.h: the part of Neoverse V3 is d84; mapfile.csv has that of V3AE (d83) alone.
    (Cpu("arm", "41", model="d84"), "neoverse-v3", "neoverse-v3"),
    # Linux, cputype.h (MIDR); events of Arm's architecture. A third level lies behind the second.
    (Cpu("arm", "4e", model="4"), "carmel", ""),
]
# Intel, SDM volume 3, architectural performance events: every Core since Nehalem has this one, and every Atom.
ARCHITECTURAL = [Cpu("x86", "GenuineIntel", "6", "1a-ff"), Cpu("x86", "GenuineIntel", "18-255", "0-ff")]


def fail(text):
    sys.exit(f"pmu-events.py: {text}")


def ranges(numbers, text="{:x}"):
    """Numbers as `0-3 7`."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(text.format(a) if a == b else f"{text.format(a)}-{text.format(b)}" for a, b in found)


@dataclass
class Tree:
    """The files of a kernel."""

    arch: Path
    version: str
    events: dict = field(default_factory=dict)

    @staticmethod
    def open(linux):
        arch = linux / "tools/perf/pmu-events/arch"
        try:
            makefile = (linux / "Makefile").read_text()
            head = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", makefile, re.M))
            version = ".".join(head[k] for k in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))
        except (OSError, KeyError) as error:
            fail(f"{linux} is no kernel source ({error}); give the directory that holds its Makefile")
        return Tree(arch, version)

    def of(self, directory):
        """The events of a directory: name and entry; those of other units than cores are left out."""
        if directory not in self.events:
            found = []
            for path in sorted((self.arch / directory).glob("*.json")):
                entries = json.loads(path.read_text())
                found += [e for e in entries if isinstance(e, dict) and name_of(e) and not e.get("Deprecated")] \
                    if isinstance(entries, list) else []
            self.events[directory] = found
        return self.events[directory]

    def mapfile(self, arch):
        """Lines of mapfile.csv: pattern and directory."""
        lines = (self.arch / arch / "mapfile.csv").read_text().splitlines()
        rows = [line.split(",") for line in lines[1:] if line.strip() and not line.startswith("#")]
        return [(row[0], row[2]) for row in rows if row[-1].strip() == "core"]

    def standard(self):
        """Codes of Arm's architecture, by name."""
        found = {}
        for name in ("common-and-microarch.json", "recommended.json"):
            for entry in json.loads((self.arch / "arm64" / name).read_text()):
                found[entry.get("EventName", "")] = entry
        return found


def name_of(entry):
    return entry.get("EventName") or entry.get("ArchStdEvent")


def number(text):
    """The first of a list of numbers."""
    return int(str(text).split(",")[0].strip(), 0)


def matching(entries, pattern, unit):
    """Entries whose whole name fits, of a unit of cores."""
    units = ("", unit) if unit else ("",)
    return [e for e in entries if re.fullmatch(pattern, name_of(e)) and e.get("Unit", "") in units]


def raw(entries):
    """Event and units of one event, or of several that differ in their units only: config and config1."""
    codes = {number(e.get("EventCode", "0")) for e in entries}
    if len(codes) != 1:
        fail(f"{[name_of(e) for e in entries]} are not of one event")
    code, unit = codes.pop(), 0
    for entry in entries:
        unit |= number(entry.get("UMask", "0"))
    # AMD's events have four more bits at 32.
    return (code & 0xFF) | unit << 8 | (code >> 8 & 0xF) << 32, number(entries[0].get("MSRValue", "0"))


def title_name(entries):
    return "+".join(dict.fromkeys(name_of(e) for e in entries))


def row(cpu, title, pmu, event, counts, write=None):
    """A line of the table, as a dictionary."""
    name, kind, config, config1 = event
    known = dict(zip(KINDS, (VALUES[c] for c in counts), strict=True))
    write_name, write_config = write or ("", "")
    return {"arch": cpu.arch, "vendor": cpu.vendor, "family": cpu.family, "model": cpu.model, "stepping": cpu.stepping,
            "pmu": pmu, "title": title, "event": name, "type": kind, "config": f"{config:x}",
            "config1": f"{config1:x}" if config1 else "", **known,
            "write_event": write_name, "write_config": write_config}


def longest(directory, pmu):
    """What LONGEST_LAT_CACHE.MISS counts on a type."""
    place = f"{directory}:{pmu}" if pmu else directory
    if re.fullmatch(ATOMS, place):
        return ATOM
    return next(counts for pattern, counts in LONGEST if re.fullmatch(pattern, place))


def intel(tree, cpu, directory):
    """Rows of a type of Intel's: for each of its units of cores, the widest event, and the one that guests have."""
    entries = tree.of(f"x86/{directory}")
    units = sorted({e["Unit"] for e in entries if e.get("Unit") in PMUS}, key=PMUS.index)
    rows = []
    for pmu in units or [""]:
        for candidate in INTEL:
            found = matching(entries, candidate.names, pmu)[:1]
            if not found:
                continue
            config, config1 = raw(found)
            counts = candidate.counts or longest(directory, pmu)
            rows.append(row(cpu, directory, pmu, (name_of(found[0]), "raw", config, config1), counts))
            if not config1:
                break
    return rows


def amd(tree, cpu, directory):
    """The row of a type of AMD's."""
    own, borrowed = tree.of(f"x86/{directory}"), BORROWED.get(directory)
    if borrowed:
        own = own + matching(tree.of(f"x86/{borrowed[0]}"), borrowed[1], "")
    for candidate in AMD:
        found = matching(own, candidate.names, "")
        if found:
            return [row(cpu, directory, "", (title_name(found), "raw", *raw(found)), candidate.counts)]
    return []


def x86(tree):
    """Rows of all types in the order of mapfile.csv: a CPU is of the first that fits."""
    taken, rows, left = set(), [], []
    for pattern, directory in tree.mapfile("x86"):
        vendor, family = pattern.split("-")[:2]
        wanted = re.compile(pattern.replace("[:xdigit:]", "0-9A-F"))
        by_stepping = len(re.sub(r"\[[^]]*\]", "", pattern).split("-")) > 3
        fits = {}
        for model in range(256):
            texts = {s: f"{vendor}-{family}-{model:X}" + (f"-{s:X}" if by_stepping else "") for s in range(16)}
            of_model = {s for s, text in texts.items() if wanted.fullmatch(text)}
            found = {s for s in of_model if (vendor, family, model, s) not in taken}
            taken |= {(vendor, family, model, s) for s in found}
            if found:
                fits.setdefault(frozenset(found), set()).add(model)
        for found, models in sorted(fits.items(), key=lambda f: min(f[1])):
            cpu = Cpu("x86", vendor, family, ranges(models), "" if len(found) == 16 else ranges(found))
            new = amd(tree, cpu, directory) if vendor == "AuthenticAMD" else intel(tree, cpu, directory)
            rows += new
            left += [] if new else [f"x86/{directory}"]
    return rows, left


def arm_row(tree, cpu, title, directory):
    """The row of a core of Arm's architecture."""
    standard, own = tree.standard(), [name_of(e) for e in tree.of(f"arm64/{directory}")]
    own += [name for name in standard if title in BORROWED and re.fullmatch(BORROWED[title][1], name)]
    codes = {name_of(e): e for e in tree.of(f"arm64/{directory}") if "EventCode" in e}
    for candidate in ARM:
        if candidate.names not in own:
            continue
        behind = title in BEFORE_L3 and candidate.write
        config = number({**standard, **codes}[candidate.names]["EventCode"])
        write = None
        if candidate.write in own and not behind:
            write = (candidate.write, f"{number(standard[candidate.write]['EventCode']):x}")
        counts = L2_REFILL_BEFORE_L3 if behind else candidate.counts
        if counts == LL_MISS_RD and re.fullmatch(READ_UNIQUE, title):
            counts = counts[:2] + "y" + counts[3:]
        return [row(cpu, title, "", (candidate.names, "raw", config, 0), counts, write)]
    return []


def arm(tree):
    """Rows of all cores of mapfile.csv: implementer and part of the MIDR."""
    of, left = {}, []
    for midr, directory in tree.mapfile("arm64"):
        value = number(midr)
        of.setdefault((value >> 24 & 0xFF, directory), set()).add(value >> 4 & 0xFFF)
    rows = []
    for (implementer, directory), parts in of.items():
        cpu = Cpu("arm", f"{implementer:x}", model=ranges(parts))
        new = arm_row(tree, cpu, directory.split("/")[-1], directory)
        rows += new
        left += [] if new else [f"arm64/{directory}"]
    return rows, left


def further(tree, rows):
    """Rows of CPUs that mapfile.csv lacks."""
    found = []
    for cpu, title, same in FURTHER:
        if title in BEFORE_L3:
            config = number(tree.standard()["L2D_CACHE_REFILL"]["EventCode"])
            found.append(row(cpu, title, "", ("L2D_CACHE_REFILL", "raw", config, 0), L2_REFILL_BEFORE_L3))
            continue
        # Of a type with several entries (numbers of models apart), one is enough.
        like = next((r for r in rows if r["title"] == same), None)
        if like:
            own = {"vendor": cpu.vendor, "family": cpu.family, "model": cpu.model, "stepping": "", "title": title}
            found.append({**like, **own})
    # Last: what the rows before do not know.
    event = ("LONGEST_LAT_CACHE.MISS", "raw", 0x412E, 0)
    found += [row(cpu, "intel", "", event, "y?y???nnn") for cpu in ARCHITECTURAL]
    # Linux, drivers/perf/riscv_pmu_sbi.c: the firmware knows the CPU's event for the kernel's cache-misses
    # (PERF_TYPE_HARDWARE, 3).
    event = ("SBI_PMU_HW_CACHE_MISSES", "hardware", 3, 0)
    found.append(row(Cpu("riscv", "sbi"), "sbi", "", event, UNKNOWN))
    return found


def table(tree):
    """The whole file, and the types without an event."""
    of_x86, left_x86 = x86(tree)
    of_arm, left_arm = arm(tree)
    rows = of_x86 + of_arm
    rows += further(tree, rows)
    head = f"# Made by scripts/pmu-events.py from tools/perf/pmu-events of Linux {tree.version}: do not edit.\n"
    lines = [",".join(COLUMNS)] + [",".join(r[c] for c in COLUMNS) for r in rows]
    return head + "\n".join(lines) + "\n", left_x86 + left_arm


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("linux", type=Path, help="directory of a kernel's source")
    parser.add_argument("--check", action="store_true", help="compare with the table, and write nothing")
    parser.add_argument("-o", "--output", type=Path, default=TABLE)
    args = parser.parse_args()
    text, left_out = table(Tree.open(args.linux))
    for directory in left_out:
        print(f"no event: {directory}", file=sys.stderr)
    if not args.check:
        args.output.write_text(text)
    elif not args.output.exists() or args.output.read_text() != text:
        fail(f"{args.output} is not what {args.linux} gives; run scripts/pmu-events.py {args.linux}")


if __name__ == "__main__":
    main()
