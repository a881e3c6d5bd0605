"""The keeper, a child process that puts settings back when solocore has ended: with files in the place of the kernel's settings."""

import os
import subprocess

import pytest


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "unheard"])
def test_what_cannot_be_put_back_keeps_nothing_else_from_it(solocore, heard):
    first, last, broken = (solocore.dir / name for name in ("first", "last", "broken"))
    first.write_text("2")
    last.write_text("2")
    broken.mkdir()
    ours, theirs = os.pipe()
    process = subprocess.Popen([solocore.program, "keep-settings"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    if not heard:
        # A closed terminal, or a pipe to a program that has ended.
        os.close(ours)
    process.communicate(f"{first}\t1\n{broken}\t1\n{last}\t1\n".encode(), timeout=20)
    assert (first.read_text(), last.read_text()) == ("1", "1")
    assert process.returncode == 1
    if heard:
        with os.fdopen(ours) as said:
            assert f"{broken} cannot be put back to 1" in said.read()
