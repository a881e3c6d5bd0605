"""The programs of examples/buffers: their plan, messages and exit codes, against a reserve and a camera that are this test.

The imitated camera is a library that answers for a V4L2 device in the place of the kernel. Frames of a real reserve, the kernel's own imitated camera
and a disk are in tests/vm/camera.sh.
"""

import os
import re
import shlex
import shutil
import subprocess

import pytest

from conftest import ROOT
from test_buffers import FEW, NONE, OK, UNKNOWN, library, reserve  # noqa: F401

EXAMPLE = ROOT / "examples/buffers"
BLOCK = 400 << 10

# Fills each buffer but for what FAKE asks; a frame has two and a half pages.
CAMERA = r"""
#include <errno.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#define BYTES 10240
static struct v4l2_buffer given[8];
static unsigned next, end, frames;
static int fake(const char *what)
{
	const char *asked = getenv("FAKE");
	return asked && strcmp(asked, what) == 0;
}
static int refuse(int error)
{
	errno = error;
	return -1;
}
int poll(struct pollfd *files, nfds_t count, int limit)
{
	(void)files, (void)count, (void)limit;
	return !fake("silent");
}
int ioctl(int file, unsigned long request, ...)
{
	va_list list;
	va_start(list, request);
	void *argument = va_arg(list, void *);
	va_end(list);
	(void)file;
	if (request == VIDIOC_G_FMT)
		((struct v4l2_format *)argument)->fmt.pix.sizeimage = fake("empty") ? 0 : BYTES;
	if (request == VIDIOC_REQBUFS) {
		struct v4l2_requestbuffers *asked = argument;
		if (fake("own") || asked->memory != V4L2_MEMORY_USERPTR)
			return refuse(EINVAL);
		if (fake("busy"))
			return refuse(EBUSY);
		if (fake("two"))
			asked->count = 2;
	}
	if (request == VIDIOC_QBUF)
		given[end++ % 8] = *(struct v4l2_buffer *)argument;
	if (request == VIDIOC_DQBUF) {
		struct v4l2_buffer *frame = argument;
		*frame = given[next++ % 8];
		frame->bytesused = fake("long") ? 12289 : BYTES;
		if (fake("damaged") && frames++ % 2)
			frame->flags |= V4L2_BUF_FLAG_ERROR;
		else
			memset((char *)frame->m.userptr, 7, fake("short") ? 4096 : BYTES);
	}
	return 0;
}
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    out = tmp_path_factory.mktemp("examples")
    subprocess.run(["make", "-s", "-C", EXAMPLE, f"OUT={out}", "CFLAGS=-O1 -g -Werror -fsanitize=undefined -fno-sanitize-recover"], check=True)
    (out / "fake.c").write_text(CAMERA)
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", out / "fake.c", "-o", out / "fake.so"], check=True)
    return out


def run(program, *arguments, name="nobody", **more):
    env = {**os.environ, "SOLOCORE_RESERVE": f"solocore-test-{os.getpid()}-nobody" if name == "nobody" else name, "LC_ALL": "C", **more}
    return subprocess.run([program, *arguments], env=env, text=True, capture_output=True, timeout=20)


def fake(programs, what, *arguments, **more):
    return run(programs / "camera", "/dev/null", *arguments, LD_PRELOAD=str(programs / "fake.so"), FAKE=what, **more)


def test_the_plan_leaves_cores_and_colours_to_others(solocore):
    done = solocore("plan", EXAMPLE / "system.toml", "-o", "plan.json", "--format", "json")
    assert done.code == 0, done.err
    plan = done.json()
    assert {task["name"]: plan["cores"][task["core"]]["colours"] for task in plan["tasks"]} == {"video": [0, 8], "recorder": [8, 8]}
    assert plan["schedulable"] and len(plan["cores"]) == 4


def test_without_a_reserve_the_message_names_the_command(programs, tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 5000)
    for done in (run(programs / "disk", tmp_path / "file"), fake(programs, "")):
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (10 + NONE, "", 1)
        assert "no reserve with a plan runs" in done.stderr and "start `solocore reserve --plan PLAN`" in done.stderr


@pytest.mark.parametrize("program, arguments, code, said", [
    ("disk", [], 2, "usage: disk FILE"),
    ("disk", ["f", "t", "5"], 2, "KIB is a multiple of 4"),
    ("disk", ["f", "t", "-4"], 2, "usage"),
    ("disk", ["f", "t", "4", "7-0/32"], 2, "usage"),
    ("disk", ["f", "t", "4", "0-32/32"], 2, "usage"),
    ("disk", ["f", "t", "4", "0-7/32x"], 2, "usage"),
    ("disk", ["/nonexistent/file"], 3, "/nonexistent/file: No such file or directory; name a file or a block device"),
    ("camera", [], 2, "usage: camera DEVICE"),
    ("camera", ["/dev/null", "video", "0"], 2, "usage"),
    ("camera", ["/dev/null", "video", "1", "x"], 2, "usage"),
    ("camera", ["/dev/nonexistent"], 3, "/dev/nonexistent: No such file or directory; name a device like /dev/video0"),
    ("camera", ["/dev/null"], 3, "name a V4L2 capture device"),
])
def test_what_is_no_argument_or_no_device_is_said(programs, program, arguments, code, said):
    done = run(programs / program, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1) and said in done.stderr, done


@pytest.mark.parametrize("reserve", [{"status": UNKNOWN}, {"status": FEW}, {"status": OK}], indirect=True, ids=str)
def test_each_refusal_has_its_exit_code(programs, reserve, tmp_path):  # noqa: F811
    (tmp_path / "file").write_bytes(b"x" * 5000)
    code = 10 + (reserve.answer["status"] or 6)
    for done in (run(programs / "disk", tmp_path / "file", name=reserve.name), fake(programs, "", name=reserve.name)):
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1) and done.stderr.startswith("no buffer of "), done
    assert f"\n| {code} |" in (EXAMPLE / "README.md").read_text()


@pytest.mark.parametrize("last", [BLOCK, 1234])
def test_disk_reads_a_file_into_the_reserves_buffer(programs, reserve, tmp_path, last):  # noqa: F811
    content = os.urandom(2 * BLOCK + last)
    (tmp_path / "file").write_bytes(content)
    done = run(programs / "disk", tmp_path / "file", name=reserve.name)
    assert done.returncode == 0, done.stderr
    blocks, place = done.stdout.splitlines()
    assert re.fullmatch(rf"3 blocks of at most {BLOCK} bytes, {len(content)} bytes, [0-9.]+ MB/s, sum {sum(content)}", blocks), blocks
    assert place == "1 buffer of 100 pages (reserved)"
    assert reserve.ended.wait(10) and reserve.requests[0][2:4] == (BLOCK, b"recorder")
    # The last read went into the reserve's file. Behind a part of a block the kernel may have put zeroes.
    assert os.pread(reserve.files[0], last, 0) == content[-last:]


def test_camera_fills_the_reserves_buffers(programs, reserve):  # noqa: F811
    done = fake(programs, "", "video", "10", name=reserve.name)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["10 frames, 102400 bytes, into 4 buffers of 3 pages (reserved)", "30 pages of frames, 0 not written"]), done
    assert [request[2:4] for request in reserve.requests] == [(12288, b"video")] * 4


@pytest.mark.parametrize("what, code, said", [
    ("short", 1, "30 pages of frames, 20 not written"),
    ("damaged", 0, "15 pages of frames, 0 not written\n5 frames that the device calls damaged were not judged"),
    ("own", 3, "its driver does not take user pointers"),
    ("busy", 3, "end the program that uses the device"),
    ("two", 3, "it takes 2 buffers of 4"),
    ("empty", 3, "its frames have no bytes; set a format (v4l2-ctl)"),
    ("silent", 3, "no frame came within 5 s; does it have a signal?"),
    ("long", 3, "its driver names a buffer that it did not get"),
])
def test_what_a_camera_does_wrong_is_said(programs, reserve, what, code, said):  # noqa: F811
    done = fake(programs, what, "video", "10", name=reserve.name)
    assert done.returncode == code and said in (done.stderr if code == 3 else done.stdout), done
    assert code != 3 or (done.stdout, done.stderr.count("\n")) == ("", 1)


def test_a_copy_builds_with_the_installed_library(tmp_path):
    prefix = tmp_path / "prefix"
    subprocess.run(["make", "-s", "-C", ROOT / "client/c", f"OUT={tmp_path / 'client'}", f"PREFIX={prefix}", "install"], check=True)
    for source in EXAMPLE.glob("*.[ch]"):
        shutil.copy(source, tmp_path)
    command = re.search(r"^    (cc .* camera.c .*)$", (EXAMPLE / "README.md").read_text(), re.M)[1]
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(prefix / "lib")}
    for one in (command, command.replace("camera", "disk")):
        subprocess.run(["sh", "-c", one], cwd=tmp_path, env=env, check=True)
        program = shlex.split(one)[-1]
        assert subprocess.run([tmp_path / program], env=env, capture_output=True).returncode == 2
