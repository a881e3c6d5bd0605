"""An independent cache model for test_profile.py: three levels of LRU with write-back, written for clearness, not speed.

A miss fills every level on its way; a dirty line that leaves a level is written to the next, which takes it without a
read. At the end everything dirty is written back. Pages get frames in order of first touch.
"""

from collections import OrderedDict


class Level:
    def __init__(self, size, ways, line, below):
        self.sets = [OrderedDict() for _ in range(size // (ways * line))]
        self.ways, self.below = ways, below
        self.reads = self.misses = self.writebacks = 0

    def access(self, line, write, fill=True):
        """`fill`: the data must come from below on a miss; a line written back from above is whole."""
        self.reads += fill
        lines = self.sets[line % len(self.sets)]
        dirty = lines.pop(line, None)
        hit = dirty is not None
        if not hit and fill:
            self.misses += 1
            self.below.access(line, False)
        lines[line] = write or bool(dirty)
        if len(lines) > self.ways:
            victim, dirty = lines.popitem(last=False)
            self.give_back(victim, dirty)

    def give_back(self, line, dirty):
        if dirty:
            self.writebacks += 1
            self.below.access(line, True, fill=False)

    def flush(self):
        for lines in self.sets:
            for line, dirty in lines.items():
                self.give_back(line, dirty)
            lines.clear()


class Memory:
    def __init__(self):
        self.transactions = 0

    def access(self, line, write, fill=True):
        self.transactions += 1


class Machine:
    """`l1`, `l2` (or None), `llc`: (bytes, ways)."""

    def __init__(self, l1, l2, llc, line):
        self.memory = Memory()
        self.llc = Level(*llc, line, self.memory)
        self.l2 = Level(*l2, line, self.llc) if l2 else None
        self.l1 = Level(*l1, line, self.l2 or self.llc)
        self.line, self.frames = line, {}

    def run(self, references):
        """References are (byte offset in the buffer, is a store)."""
        for at, write in references:
            page, within = divmod(at, 4096)
            frame = self.frames.setdefault(page, len(self.frames))
            self.l1.access((frame * 4096 + within) // self.line, write)
        for level in (self.l1, self.l2, self.llc):
            if level:
                level.flush()
        return self
