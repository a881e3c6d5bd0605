//! The state of the screen: looks, throttle history, view, and the keys that change them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use solocore_model::run::RunResult;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::seen::{self, Bar};

/// Looks of which the throttle history is kept.
const KEPT: usize = 512;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Bars, tasks, locks.
    Overview,
    /// The tables that a pipe gets.
    Tables,
    /// The plan's promises, each with the part that keeps it.
    Promises,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The plan's.
    Plan,
    /// Longest response by deadline, the nearest to 1 first.
    Urgency,
}

pub struct State {
    pub before: RunResult,
    pub now: RunResult,
    /// Throttled part of the time for each bar, a number a look, the latest last.
    pub history: BTreeMap<String, VecDeque<f64>>,
    pub every: Duration,
    pub view: View,
    pub order: Order,
    pub paused: bool,
    pub help: bool,
    /// First line of the tables, or first task.
    pub scroll: usize,
    pub ended: bool,
}

impl State {
    pub fn new(first: RunResult, every: Duration) -> Self {
        Self {
            before: first.clone(),
            now: first,
            history: BTreeMap::new(),
            every,
            view: View::Overview,
            order: Order::Plan,
            paused: false,
            help: false,
            scroll: 0,
            ended: false,
        }
    }

    /// Takes the next look; all that happened counts where another daemon answers now.
    pub fn push(&mut self, next: RunResult) {
        let other = next.duration_ns < self.now.duration_ns;
        self.before = if other {
            self.history.clear();
            RunResult::default()
        } else {
            std::mem::take(&mut self.now)
        };
        self.now = next;
        for bar in self.bars() {
            let Some(throttled) = bar.throttled else { continue };
            let of = self.history.entry(bar.name).or_default();
            of.push_back(throttled);
            if of.len() > KEPT {
                of.pop_front();
            }
        }
    }

    pub fn bars(&self) -> Vec<Bar> {
        seen::bars(&self.before, &self.now)
    }

    pub fn tasks(&self) -> Vec<seen::SeenTask> {
        let mut tasks = seen::tasks(&self.before, &self.now);
        if self.order == Order::Urgency {
            let urgency = |t: &seen::SeenTask| match (t.longest_ns, t.deadline_ns) {
                (Some(longest), Some(deadline)) => longest as f64 / deadline.max(1) as f64,
                _ => -1.0,
            };
            tasks.sort_by(|a, b| urgency(b).total_cmp(&urgency(a)));
        }
        tasks
    }

    /// Acts on a key.
    pub fn key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.ended = true,
            KeyCode::Esc | KeyCode::Char('q') if self.help => self.help = false,
            KeyCode::Esc | KeyCode::Char('q') => self.ended = true,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('+') => self.every = (self.every * 2).min(LONGEST.max(self.every)),
            KeyCode::Char('-') => self.every = (self.every / 2).max(SHORTEST.min(self.every)),
            KeyCode::Tab | KeyCode::BackTab => {
                self.view = match self.view {
                    View::Overview => View::Tables,
                    View::Tables if !self.now.promises.is_empty() => View::Promises,
                    View::Tables | View::Promises => View::Overview,
                };
                self.scroll = 0;
            }
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Plan => Order::Urgency,
                    Order::Urgency => Order::Plan,
                };
            }
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll = usize::MAX,
            _ => {}
        }
    }
}
