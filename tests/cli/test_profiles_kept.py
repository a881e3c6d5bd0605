"""Profiles that are kept: what makes an old one stale, where they may lie, and two commands at the same time.

Each test of staleness changes one thing, and expects the plan to change with it; without the change the profile is from the cache.
"""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import refused

# Its work is proportional to the number in a file that no argument names.
READS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile char area[1 << 20];
int main(int c, char **v) {
    unsigned n = 1;
    FILE *f = fopen(getenv("CONFIG") ? getenv("CONFIG") : "data/config", "r");
    if (f) { if (fscanf(f, "%u", &n) != 1) return 1; fclose(f); }
    if (c > 1) n += atoi(v[1]);
    if (access("data/flag", F_OK) == 0) n += 8;
    for (unsigned r = 0; r < n; r++) for (unsigned i = 0; i < sizeof area; i += 64) area[i]++;
    f = fopen("data/result", "w");
    if (f) { fprintf(f, "%d", getpid()); fclose(f); }
    return 0;
}
"""
# As many walks as the directory has names.
LISTS = r"""
#include <dirent.h>
static volatile char area[1 << 20];
int main(void) {
    DIR *d = opendir("data");
    while (d && readdir(d)) for (unsigned i = 0; i < sizeof area; i += 64) area[i]++;
    return 0;
}
"""
# Writes a file and reads it back; the first number it finds there is its work.
OWN = r"""
#include <stdio.h>
#include <unistd.h>
int main(void) {
    FILE *f = fopen("scratch", "w+");
    int n = 0;
    fprintf(f, "%d", getpid());
    rewind(f);
    return fscanf(f, "%d", &n) != 1;
}
"""
MAPS = r"""
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
static volatile char area[1 << 16];
int main(void) {
    int fd = open("data/config", O_RDONLY);
    char *p = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    for (int r = 0; r < p[0] - '0'; r++) for (unsigned i = 0; i < sizeof area; i += 64) area[i]++;
    return 0;
}
"""


def system(path, *arguments, more=""):
    words = ", ".join(json.dumps(str(word)) for word in (path, *arguments))
    return f'platform = "p4080"\n[regulation]\nshare = "even"\n[[task]]\nname = "a"\nperiod = "10 s"\ncommand = [{words}]\n{more}'


def plan(solocore, *options, **env):
    """C of the task, and whether its profile was kept."""
    done = solocore("plan", "system.toml", "--format", "json", *options, **env)
    assert done.code == 0, done.err
    task = done.json()["tasks"][0]
    hit = "from cache" in done.err
    assert (task["profiled"]["from_cache"] is not None) == hit
    return task["wcet_ns"], hit


@pytest.fixture
def reads(solocore, compile_c):
    """A system whose program reads data/config."""
    (solocore.dir / "data").mkdir()
    solocore.write("data/config", "1")
    solocore.write("system.toml", system(compile_c(READS)))
    return solocore


def test_a_changed_data_file_changes_the_plan(reads):
    small, hit = plan(reads)
    assert not hit
    assert plan(reads) == (small, True)
    reads.write("data/config", "4")
    large, hit = plan(reads)
    assert not hit and large > 2 * small
    # Its time alone is not a change.
    os.utime(reads.dir / "data/config", (1, 1))
    assert plan(reads) == (large, True)


def test_a_hit_has_its_date(reads):
    plan(reads)
    done = reads("plan", "system.toml", "--format", "json")
    date = done.json()["tasks"][0]["profiled"]["from_cache"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", date) and f"a: profile from cache, {date}" in done.err


def test_what_changed_is_said(reads):
    plan(reads)
    reads.write("data/config", "2")
    done = reads("plan", "system.toml")
    assert "profiling a again: " in done.err and "data/config has changed" in done.err


def test_a_file_that_appears_changes_the_plan(reads):
    small, _ = plan(reads)
    reads.write("data/flag", "")
    large, hit = plan(reads)
    assert not hit and large > 2 * small
    (reads.dir / "data/flag").unlink()
    assert plan(reads) == (small, False)


def test_a_file_that_goes_away_changes_the_plan(reads):
    reads.write("data/config", "4")
    large, _ = plan(reads)
    (reads.dir / "data/config").unlink()
    small, hit = plan(reads)
    assert not hit and large > 2 * small


def test_what_the_program_writes_itself_is_no_input(solocore, compile_c):
    solocore.write("system.toml", system(compile_c(OWN)))
    first, _ = plan(solocore)
    assert (solocore.dir / "scratch").exists()
    assert plan(solocore) == (first, True)


def test_a_mapped_file_is_an_input(solocore, compile_c):
    (solocore.dir / "data").mkdir()
    solocore.write("data/config", "1")
    solocore.write("system.toml", system(compile_c(MAPS)))
    small, _ = plan(solocore)
    assert plan(solocore) == (small, True)
    solocore.write("data/config", "9")
    large, hit = plan(solocore)
    assert not hit and large > small


def test_a_listed_directory_is_an_input(solocore, compile_c):
    (solocore.dir / "data").mkdir()
    solocore.write("system.toml", system(compile_c(LISTS)))
    small, _ = plan(solocore)
    assert plan(solocore) == (small, True)
    for n in range(6):
        solocore.write(f"data/{n}", "")
    large, hit = plan(solocore)
    assert not hit and large > 2 * small


def test_a_file_of_a_child_is_an_input(reads, compile_c):
    program = compile_c(READS)
    reads.write("system.toml", system("sh", "-c", f"{program}; true"))
    small, _ = plan(reads)
    assert plan(reads) == (small, True)
    reads.write("data/config", "80")
    large, hit = plan(reads)
    assert not hit and large > 2 * small


def test_what_a_child_read_before_the_parent_wrote_it_is_an_input(solocore, compile_c):
    """The parent only asks for the status, its child reads, and then the parent replaces the file."""
    text = r"""
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    struct stat s;
    stat("data", &s);
    if (fork() == 0) { char c; _exit(read(open("data", O_RDONLY), &c, 1) != 1 || c == 'x'); }
    wait(0);
    close(open("data", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    int fd = open("data", O_WRONLY);
    return write(fd, "b", 1) != 1;
}
"""
    solocore.write("data", "a")
    assert solocore("profile", "-o", "p.json", "--", compile_c(text)).code == 0
    files = json.loads((solocore.dir / "p.json").read_text())["origin"]["rests_on"]["files"]
    data, = [f for f in files if f["path"] == str(solocore.dir / "data")]
    # Of "a".
    assert data["sha256"] == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"


def test_what_one_process_wrote_is_no_input_of_another(solocore):
    solocore.write("system.toml", system("sh", "-c", "rm -f out; date +%N >out; grep -c . out >/dev/null; date +%N >out"))
    plan(solocore)
    assert plan(solocore)[1] is False, "whether `out` is there is an input of rm"
    assert plan(solocore)[1] is True, "what is in it is none"


def test_the_environment_counts_and_the_terminal_does_not(reads):
    reads.write("data/other", "5")
    small, _ = plan(reads)
    assert plan(reads, TERM="vt100", SHLVL="7", SSH_CONNECTION="x") == (small, True)
    large, hit = plan(reads, CONFIG="data/other")
    assert not hit and large > 2 * small
    assert plan(reads) == (small, True)


def test_arguments_directory_and_program_count(reads, compile_c):
    small, _ = plan(reads)
    reads.write("system.toml", system(compile_c(READS), "5"))
    assert plan(reads)[0] > 2 * small
    program = reads.dir / "program"
    shutil.copy(compile_c(READS), program)
    reads.write("system.toml", system("./program"))
    assert plan(reads)[1] is False and plan(reads)[1] is True
    shutil.copy(compile_c(READS.replace("n = 1", "n = 2")), program)
    assert plan(reads)[1] is False
    (reads.dir / "elsewhere/data").mkdir(parents=True)
    shutil.copy(reads.dir / "data/config", reads.dir / "elsewhere/data/config")
    reads.write("elsewhere/system.toml", system(program))
    done = reads("plan", "elsewhere/system.toml")
    assert done.code == 0 and "from cache" not in done.err


def test_the_profile_names_its_files(reads, compile_c):
    done = reads("profile", "-o", "p.json", "--", compile_c(READS))
    assert done.code == 0, done.err
    rests_on = json.loads((reads.dir / "p.json").read_text())["origin"]["rests_on"]
    files = {f["path"]: f for f in rests_on["files"]}
    config = files[str(reads.dir / "data/config")]
    # Of one byte, "1".
    digest = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    assert (config["is"], config["size"], config["sha256"]) == ("file", 1, digest)
    assert files[str(reads.dir / "data/flag")]["is"] == "absent"
    assert str(reads.dir / "data/result") not in files
    assert any("libc.so" in path for path in files) and any("ld-linux" in path for path in files)


def test_what_no_file_tells_is_named(solocore, compile_c):
    text = ('#include <stdio.h>\n#include <time.h>\nint main(void) { char b[9]; FILE *f = fopen("/dev/urandom", "r");\n'
            'fread(b, 1, 9, f); fopen("/proc/self/status", "r"); fopen("/dev/null", "r"); return time(0) == 0; }\n')
    done = solocore("profile", "-o", "p.json", "--", compile_c(text, "-static"))
    assert done.code == 0, done.err
    names = json.loads((solocore.dir / "p.json").read_text())["origin"]["rests_on"]["not_covered"]
    assert {"/dev/urandom", "/proc/self/status", "time"} <= set(names) and "/dev/null" not in names
    assert "/dev/urandom" in done.err


@pytest.mark.parametrize("isa", ["x86_64", "aarch64", "powerpc"])
def test_files_are_seen_on_each_instruction_set(reads, compile_c, isa):
    reads.write("system.toml", system(compile_c(READS, "-static", isa=isa)))
    small, _ = plan(reads)
    assert plan(reads) == (small, True)
    reads.write("data/config", "4")
    large, hit = plan(reads)
    assert not hit and large > 2 * small
    reads.write("data/flag", "")
    assert plan(reads)[0] > large


def test_a_damaged_profile_is_made_again(reads):
    small, _ = plan(reads)
    kept = list((reads.cache / "solocore/profiles").iterdir())
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes()[:-40])
        assert plan(reads) == (small, False), path
        assert plan(reads) == (small, True)


# Where profiles lie.

def test_a_directory_that_others_may_write_is_refused(reads):
    (reads.dir / "kept").mkdir()
    os.chmod(reads.dir / "kept", 0o777)
    refused(reads("plan", "system.toml", "--profiles", "kept"), "kept", "chmod go-w", codes=(2,))
    assert not list((reads.dir / "kept").iterdir())
    os.chmod(reads.dir / "kept", 0o755)
    assert not plan(reads, "--profiles", "kept")[1] and plan(reads, "--profiles", "kept")[1]
    os.symlink("kept", reads.dir / "link")
    refused(reads("plan", "system.toml", "--profiles", "link"), "symbolic link", codes=(2,))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_a_directory_of_somebody_else_is_refused(reads):
    (reads.dir / "kept").mkdir(mode=0o755)
    os.chown(reads.dir / "kept", 12345, 12345)
    refused(reads("plan", "system.toml", "--profiles", "kept"), "belongs to user 12345", "chown", codes=(2,))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_the_home_of_somebody_else_is_not_used(reads):
    home = reads.dir / "home"
    home.mkdir(mode=0o755)
    os.chown(home, 12345, 12345)
    (reads.dir / "tmp").mkdir(mode=0o1777)
    os.chmod(reads.dir / "tmp", 0o1777)
    env = {"XDG_CACHE_HOME": "", "HOME": str(home), "TMPDIR": str(reads.dir / "tmp")}
    assert not plan(reads, **env)[1] and plan(reads, **env)[1]
    assert not list(home.iterdir())
    own = reads.dir / f"tmp/solocore-{os.geteuid()}"
    run = f"/run/user/{os.geteuid()}/solocore/profiles"
    if not os.path.isdir(run):
        assert os.stat(own).st_mode & 0o777 == 0o700 and os.stat(own / "profiles").st_mode & 0o777 == 0o700


def test_new_directories_are_private(reads):
    plan(reads)
    for path in (reads.cache / "solocore", reads.cache / "solocore/profiles"):
        assert os.stat(path).st_mode & 0o777 == 0o700


def test_two_commands_at_the_same_time(reads):
    alone, _ = plan(reads)
    shutil.rmtree(reads.cache / "solocore")
    both = [subprocess.Popen([reads.program, "plan", "system.toml", "--format", "json"], cwd=reads.dir, env=reads.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["tasks"][0]["wcet_ns"] == alone
    assert len(list((reads.cache / "solocore/profiles").iterdir())) == 2, "nothing temporary is left"
    assert plan(reads) == (alone, True)
