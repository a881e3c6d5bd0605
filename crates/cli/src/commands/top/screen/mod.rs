//! `solocore top` on a terminal.
//!
//! Rule: a look gives figures (`seen`), keys change the state (`state`), and the state is drawn
//! (`draw`). The terminal is put back at each kind of end: by a key, a signal, an error, or a
//! panic.

mod draw;
mod seen;
mod state;

#[cfg(test)]
mod tests;

use crate::fail::Failure;
use crate::progress::{computing, stopped};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use solocore_model::run::RunResult;
use state::State;
use std::io;
use std::time::{Duration, Instant};

/// Longest time until a signal is seen.
const PATIENCE: Duration = Duration::from_millis(50);

/// Asks the daemon.
type Look = fn() -> Result<RunResult, Failure>;

/// Shows the run until a key or a signal ends it, or the daemon does.
///
/// # Errors
/// The terminal does not answer; the daemon has ended.
pub fn run(look: Look, first: RunResult, every: Duration) -> Result<(), Failure> {
    let mut terminal = ratatui::try_init().map_err(|e| broken(&e))?;
    let done = until_left(&mut terminal, look, State::new(first, every));
    ratatui::restore();
    done
}

fn broken(e: &io::Error) -> Failure {
    Failure::Machine(format!("the terminal cannot be drawn on: {e}; give --plain"))
}

/// The next event within this time. A terminal that has gone away keeps crossterm in its loop, and
/// a process that ignores the hangup (`nohup`) does not end by it: so the terminal is asked first.
fn next(wait: Duration) -> io::Result<Option<Event>> {
    let stdout = io::stdout();
    let mut terminal = [PollFd::new(&stdout, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match rustix::event::poll(&mut terminal, Some(&wait)) {
        // A signal, as of another size of the window.
        Ok(_) | Err(Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    if terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "it has gone away"));
    }
    if event::poll(Duration::ZERO)? { event::read().map(Some) } else { Ok(None) }
}

fn until_left(terminal: &mut DefaultTerminal, look: Look, mut state: State) -> Result<(), Failure> {
    let (mut looked, mut changed) = (Instant::now(), true);
    while !state.ended && !stopped() {
        if changed {
            terminal.draw(|frame| draw::draw(frame, &mut state)).map_err(|e| broken(&e))?;
            changed = false;
        }
        let due = state.every.saturating_sub(looked.elapsed());
        let wait = if state.paused { PATIENCE } else { due.min(PATIENCE) };
        if let Some(event) = computing(|| next(wait)).map_err(|e| broken(&e))? {
            changed = true;
            if let Event::Key(key) = event {
                state.key(key);
            }
        }
        if !state.paused && looked.elapsed() >= state.every {
            looked = Instant::now();
            state.push(look()?);
            changed = true;
        }
    }
    Ok(())
}
