//! Probes in a test program that enters its function in every possible way, on the machine that
//! runs the tests. Needs root; without it, the tests say so and pass.

use super::*;
use crate::clients::table::Page;
use crate::host::threads::start_of;
use crate::sys::tasks::monotonic_ns;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Each letter that the program reads is a command. It answers with a line once it is inside the
/// function, or done.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
static jmp_buf back;
static void say(const char *what) { printf("%s\n", what); fflush(stdout); }
static int next(void) { int c; do c = getchar(); while (c == '\n'); return c; }
int __attribute__((noinline)) section(int how, int depth)
{
	volatile int mine = depth;
	if (depth > 0)
		return section(how, depth - 1) + mine;
	if (how == 'f') {
		pid_t child = fork();
		if (child == 0) {
			section('p', 0);
			_exit(0);
		}
		waitpid(child, 0, 0);
		return mine;
	}
	if (how != 'p')
		say("in");
	if (how != 'q' && how != 'p')
		next();
	if (how == 'j')
		longjmp(back, 1);
	if (how == 't')
		pthread_exit(0);
	if (how == 'x')
		execl("/bin/cat", "cat", (char *)0);
	return mine;
}
static void *thread(void *how) { section((int)(long)how, 0); return 0; }
int main(void)
{
	int c;
	say("ready");
	while ((c = next()) != EOF) {
		pthread_t t;
		if (c == 's') {
			usleep(1000);
		} else if (c == 't' || c == 'w') {
			pthread_create(&t, 0, thread, (void *)(long)c);
			pthread_join(t, 0);
		} else if (c != 'j' || setjmp(back) == 0) {
			section(c, c == 'r' ? 200 : 0);
		}
		say("out");
	}
	return 0;
}
"#;

struct Run {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Run {
    fn of(program: &Path) -> Self {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut run = Self { child, input, output };
        assert_eq!(run.line(), "ready");
        run
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }

    fn tell(&mut self, what: &str) {
        self.input
            .write_all(what.as_bytes())
            .and_then(|()| self.input.flush())
            .expect("it listens");
    }

    fn does(&mut self, what: &str) -> String {
        self.tell(what);
        self.line()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn may() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: probes need root");
    }
    root
}

fn built() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
    std::fs::write(&source, PROGRAM).expect("written");
    let mut cc = Command::new("cc");
    let made = cc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(made.expect("a compiler").success());
    (dir, program)
}

/// Watches the processes that this process starts; returns the watch and their page.
fn watched(program: &Path, call: Option<Call>) -> (Watch, Page) {
    let (me, page) = (std::process::id(), Page::new().expect("a page"));
    let mut watch = Watch::open(call.is_none()).expect("loaded");
    let start = start_of(me, me).expect("it lives");
    watch.add(3, page.descriptor(), (me, start), call.is_none()).expect("room");
    let tid = crate::sys::tasks::thread_number();
    if let Some(call) = call {
        let function = Function::find(program, "section").expect("there");
        watch.call(3, &function, call).expect("a probe");
    } else {
        // The thread of the test starts the program: wakeups count for its children.
        let start = start_of(me, tid).expect("it lives");
        watch.add(3, page.descriptor(), (tid, start), true).expect("room");
    }
    (watch, page)
}

#[test]
fn a_section_is_held_from_the_outermost_entry_to_its_return() {
    if !may() {
        return;
    }
    let (_dir, program) = built();
    let (watch, page) = watched(&program, Some(Call::Section));
    let mut run = Run::of(&program);
    assert_eq!(page.sections(), (0, 0));
    // A single call, and one 200 deep: the kernel has fewer return probes than that.
    for (n, how) in [(1, "e"), (2, "r")] {
        assert_eq!(run.does(how), "in");
        assert_eq!(page.sections(), (n, 1), "{how}");
        assert_eq!(run.does("-"), "out");
        assert_eq!(page.sections(), (n, 0), "{how}");
    }
    assert_eq!(watch.seen(3, Call::Section).nested, 200);
    // After longjmp() the lock stays held until the next call at most; that call is a section of
    // its own.
    assert_eq!(run.does("j"), "in");
    assert_eq!(run.does("-"), "out");
    assert_eq!(run.does("e"), "in");
    assert_eq!(page.sections().1, 1);
    assert_eq!(run.does("-"), "out");
    assert_eq!(page.sections().1, 0, "not held twice");
    // One thread ends within the function, and another returns.
    for how in ["t", "w"] {
        assert_eq!(run.does(how), "in");
        assert_eq!(page.sections().1, 1);
        assert_eq!(run.does("-"), "out");
        until(|| page.sections().1 == 0, how);
    }
    let before = page.sections().0;
    assert_eq!(run.does("f"), "out");
    assert_eq!(page.sections(), (before + 2, 0), "its own and its child's");
    // Another program in the middle of it.
    assert_eq!(run.does("x"), "in");
    assert_eq!(page.sections().1, 1);
    run.tell("-\n");
    until(|| page.sections().1 == 0, "execve() ended it");
    assert_eq!(run.does("hello\n"), "hello");
    let seen = watch.seen(3, Call::Section);
    assert!(seen.abandoned >= 2, "{seen:?}");
    assert_eq!(u64::from(page.sections().0), seen.made);
    assert!(seen.longest_ns <= seen.sum_ns);
}

#[test]
fn a_killed_holder_holds_nothing_and_strangers_do_not_count() {
    if !may() {
        return;
    }
    let (_dir, program) = built();
    let (watch, page) = watched(&program, Some(Call::Section));
    let mut run = Run::of(&program);
    assert_eq!(run.does("e"), "in");
    assert_eq!(page.sections(), (1, 1));
    drop(run);
    until(|| page.sections() == (1, 0), "killed");
    // A process that init has adopted is not a child of this process.
    let shell = format!("(setsid {} <{} >{} &)", program.display(), "\"$0\"", "\"$1\"");
    let (input, output) = (program.with_extension("in"), program.with_extension("out"));
    for pipe in [&input, &output] {
        assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo").success());
    }
    let started = Command::new("sh").args(["-c", &shell]).arg(&input).arg(&output).status();
    assert!(started.expect("a shell").success());
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&input).expect("it reads");
    let mut reader = BufReader::new(std::fs::File::open(&output).expect("it writes"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("ready");
    pipe.write_all(b"q\n").expect("it listens");
    reader.read_line(&mut line).expect("in");
    reader.read_line(&mut line).expect("out");
    assert_eq!(line, "ready\nin\nout\n");
    assert_eq!(page.sections(), (1, 0), "a stranger took the lock");
    assert_eq!(watch.seen(3, Call::Section).made, 1);
}

#[test]
fn calls_are_jobs_with_their_times() {
    if !may() {
        return;
    }
    let (_dir, program) = built();
    let (watch, page) = watched(&program, Some(Call::Job));
    let mut run = Run::of(&program);
    let begin = monotonic_ns();
    assert_eq!(run.does("e"), "in");
    assert_eq!(page.jobs(), (1, true));
    std::thread::sleep(Duration::from_millis(3));
    assert_eq!(run.does("-"), "out");
    assert_eq!(run.does("q"), "in");
    assert_eq!(run.line(), "out");
    let end = monotonic_ns();
    assert_eq!(page.jobs(), (2, false));
    let jobs = watch.ended();
    assert_eq!(jobs.len(), 2);
    assert!(jobs[0].ended_ns - jobs[0].begun_ns >= 3_000_000);
    assert!(begin <= jobs[0].begun_ns && jobs[0].ended_ns <= jobs[1].begun_ns);
    assert!(jobs[1].ended_ns <= end && jobs.iter().all(|j| j.program == 3));
    assert!(watch.ended().is_empty(), "each is said once");
}

#[test]
fn a_wakeup_begins_a_job_and_a_sleep_ends_it() {
    if !may() {
        return;
    }
    let (_dir, program) = built();
    let (watch, page) = watched(&program, None);
    let mut run = Run::of(&program);
    until(|| !page.jobs().1, "it waits for its input");
    let before = page.jobs().0;
    for _ in 0..5 {
        // Wakes to read, sleeps a millisecond, wakes to answer.
        assert_eq!(run.does("s"), "out");
        until(|| !page.jobs().1, "it sleeps");
    }
    let made = page.jobs().0 - before;
    // The lock of the pipe may have it sleep once more, beside other tests.
    assert!((10..15).contains(&made), "5 times, and each sleeps once in the middle: {made}");
    let ended = watch.ended();
    assert!(ended.iter().all(|j| j.ended_ns > j.begun_ns), "{ended:?}");
    assert_eq!(ended.len() as u64, page.jobs().0);
    run.child.kill().expect("it lives");
    run.child.wait().expect("it ends");
    until(|| !page.jobs().1, "its end is the job's");
}

fn until(what: impl Fn() -> bool, why: &str) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{why}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
