//! The program of a run, as a part: the run ends with it.

use super::part::{Next, Part, Round};
use crate::error::LinuxError;
use crate::host::machine;
use crate::sys::seqpacket;
use std::cell::Cell;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

/// Interval between two checks for the program's end.
const LOOK: Duration = Duration::from_millis(20);

/// The part that runs a program.
pub struct Program {
    command: Command,
    child: Option<Child>,
    asked: fn() -> Option<i32>,
    told: bool,
    code: Rc<Cell<Option<u8>>>,
}

impl Program {
    /// The part that starts a command; `asked` returns the signal that asks this process to end.
    #[must_use]
    pub fn new(command: Command, asked: fn() -> Option<i32>) -> Self {
        Self { command, child: None, asked, told: false, code: Rc::default() }
    }

    /// The part for a program that runs already.
    #[must_use]
    fn running(child: Child, asked: fn() -> Option<i32>) -> Self {
        Self { child: Some(child), ..Self::new(Command::new(""), asked) }
    }

    /// Its exit code, once it has ended: 128 and the signal's number if a signal ended it.
    #[must_use]
    pub fn code(&self) -> Rc<Cell<Option<u8>>> {
        Rc::clone(&self.code)
    }
}

impl Part for Program {
    fn start(&mut self) -> Result<(), LinuxError> {
        let refused = |e| LinuxError::of_io("the program does not start", &e, "is /proc mounted?");
        self.child = Some(self.command.spawn().map_err(refused)?);
        Ok(())
    }

    fn look(&mut self, _: &mut Round) -> Result<Next, LinuxError> {
        let Some(child) = &mut self.child else { return Ok(Next::GoOn) };
        let lost = |e| LinuxError::of_io("the program cannot be waited for", &e, "start it again");
        Ok(match child.try_wait().map_err(lost)? {
            None => Next::GoOn,
            Some(status) => {
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                self.code.set(Some(u8::try_from(code).unwrap_or(1)));
                Next::Done("program".to_owned())
            }
        })
    }

    fn every(&self) -> Duration {
        LOOK
    }

    /// Passes the signal on, once.
    fn asked_to_end(&mut self) -> bool {
        if let (Some(child), false) = (&self.child, self.told) {
            self.told = true;
            machine::ask_to_end(child.id(), (self.asked)().unwrap_or(libc::SIGTERM));
        }
        false
    }

    fn outlives(&self) -> bool {
        true
    }

    fn end(&mut self) {
        self.child = None;
    }
}

/// Waits for the end of a program that runs without a daemon, and passes on the signal that asks
/// for it. Returns its exit code.
///
/// # Errors
/// The program cannot be waited for.
pub fn wait_for(child: Child, asked: fn() -> Option<i32>) -> Result<u8, LinuxError> {
    let mut program = Program::running(child, asked);
    let end = program.child.as_ref().and_then(|child| seqpacket::pidfd(child.id()).ok());
    while program.look(&mut Round::default())? == Next::GoOn {
        if asked().is_some() {
            program.asked_to_end();
        }
        // Returns at once at the end, where the kernel reports it.
        match &end {
            Some(end) => drop(seqpacket::wait(&[end.as_fd()], LOOK)),
            None => std::thread::sleep(LOOK),
        }
    }
    Ok(program.code.get().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_code_is_passed_on() {
        for (script, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
            let child = Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
            assert_eq!(wait_for(child, || None).unwrap(), code);
        }
        // A background job of a shell ignores SIGINT, and so would the child.
        let heeding = ["--default-signal=INT", "/bin/sleep", "100"];
        let sleep = || {
            let child = Command::new("env").args(heeding).spawn().unwrap();
            // Until `env` has become `sleep`, SIGINT may still be ignored.
            let name = format!("/proc/{}/comm", child.id());
            while std::fs::read_to_string(&name).unwrap() != "sleep\n" {
                std::thread::yield_now();
            }
            child
        };
        assert_eq!(wait_for(sleep(), || Some(15)).unwrap(), 128 + 15, "it is asked to end");
        assert_eq!(wait_for(sleep(), || Some(2)).unwrap(), 128 + 2, "as this process was");
    }
}
