//! A thread for the replay, so that it takes no time of the vCPUs if the host has a second
//! CPU.
//!
//! Rule: the replay is handed to the thread and back, so only one of the two has it. A small number
//! of records is run at once, as the hand-over would take longer.

use crate::replay::Replay;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Number of records below which a hand-over takes too long.
const FEW: usize = 64;

/// A replay, and the end of its run.
type Job = (Box<Replay>, u64);

/// The thread of the replay.
#[derive(Debug)]
pub struct Worker {
    /// The replay, if the thread does not have it.
    replay: Option<Box<Replay>>,
    to: SyncSender<Job>,
    from: Receiver<Box<Replay>>,
}

impl Worker {
    /// Starts the thread; it ends when this is dropped.
    pub fn new(replay: Replay) -> Self {
        let (to, jobs) = sync_channel::<Job>(1);
        let (done, from) = sync_channel(1);
        std::thread::spawn(move || {
            while let Ok((mut replay, horizon)) = jobs.recv() {
                replay.run(horizon);
                if done.send(replay).is_err() {
                    return;
                }
            }
        });
        Self { replay: Some(Box::new(replay)), to, from }
    }

    /// The replay, once its run is over.
    ///
    /// # Panics
    /// The thread has died.
    pub fn replay(&mut self) -> &mut Replay {
        let Self { replay, from, .. } = self;
        replay.get_or_insert_with(|| {
            from.recv().expect("the replay's thread lives as long as the board")
        })
    }

    /// Runs the replay up to `horizon`.
    pub fn run(&mut self, horizon: u64) {
        if self.replay().waiting() <= FEW {
            self.replay().run(horizon);
        } else if let Some(replay) = self.replay.take()
            && let Err(unsent) = self.to.send((replay, horizon))
        {
            // Without the thread it runs here.
            let (mut replay, horizon) = unsent.0;
            replay.run(horizon);
            self.replay = Some(replay);
        }
    }
}
