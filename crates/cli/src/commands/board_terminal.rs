//! The stages of a board, its speed and its program's output, on this terminal.

use crate::args::Format;
use crate::progress::stopped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use solocore_board::{Stream, Watch};
use solocore_model::output;
use std::io::{IsTerminal, Write};

/// Shows stages and speed on stderr, and passes the program's output on.
pub struct Terminal {
    bar: Option<ProgressBar>,
    format: Format,
}

impl Terminal {
    pub fn new(format: Format) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, format }
    }

    /// Writes with the bar removed.
    fn beside_bar(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Watch for Terminal {
    fn stage(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(what.to_owned());
                bar.set_position(0);
                bar.tick();
            }
            None => eprintln!("{what}"),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    fn share(&mut self, done: f64) {
        if let Some(bar) = &self.bar {
            let text = bar.message();
            let what = text.rsplit_once(" [").map_or(text.as_str(), |(what, _)| what);
            bar.set_message(format!("{what} [{} %]", (done.clamp(0.0, 1.0) * 100.0) as u64));
        }
    }

    fn note(&mut self, text: &str) {
        self.beside_bar(|| eprintln!("solocore: note: {text}"));
    }

    fn speed(&mut self, simulated_ns: u64, wall_ns: u64) {
        if let Some(bar) = &self.bar {
            let (simulated, wall) = (simulated_ns as f64 / 1e9, wall_ns as f64 / 1e9);
            bar.set_message(format!(
                "the board's clock: {simulated:.3} s after {wall:.0} s ({:.0} ms a second)",
                1e3 * simulated / wall.max(1e-9)
            ));
        }
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let to_stdout = stream == Stream::Out && self.format == Format::Text;
        self.beside_bar(|| {
            // A closed pipe (`| head`) is not an error of the program's.
            if to_stdout {
                let _ = output::to_stdout(bytes);
            } else {
                let _ = std::io::stderr().write_all(bytes);
            }
        });
    }

    fn hand_over(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn stopped(&self) -> bool {
        stopped()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
