//! The pages of VCPUs that move to another core: which VCPU waits, what it has, and that it may go.
//!
//! Problem: a VCPU that moves leaves its pages in the colours of its old core, and their moving
//! takes time. Rule: the kernel's side keeps a VCPU that is to move on its core. It goes when
//! solocore says that its pages are in the colours of the other one (`vcpu_go` of
//! bpf/vcpu_control.h). One VCPU waits at a time. The threads that copy pages are those of the
//! programs (crates/space/preload), which a VCPU of its own holds meanwhile, as it holds the thread
//! that asks them. A VCPU that cannot take its pages along stays where it is. Source: maracas,
//! section V (one migration thread is active, on a VCPU of its own) and V-B (recolouring). Does not
//! cover: the threads of this process that serve programs.

use super::shared::{self, Request};
use super::{Vcpus, Wanted, answer, threads};
use crate::contract::SC_NONE;
use crate::error::LinuxError;
use libbpf_rs::Object;
use solocore_model::vcpus::{MIGRATION, Migration};
use solocore_space::audit::own_pages;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Name of the thread of a program that moves its pages (crates/space/preload/handler.c).
const HANDLER: &str = "solocore-pages";

impl Wanted {
    /// A request for the VCPU in which pages are moved.
    #[must_use]
    pub fn migration(stated: &Migration) -> Self {
        Self::own(MIGRATION, (stated.capacity, stated.period, stated.core))
    }
}

impl Vcpus {
    /// Number of the VCPU in which pages are moved; `None`: there is none.
    #[must_use]
    pub fn migration(&self) -> Option<u32> {
        self.book.iter().find(|e| e.name == MIGRATION).map(|e| e.claim.id)
    }

    /// Names of the VCPUs, by their number and generation.
    #[must_use]
    pub fn names(&self) -> BTreeMap<(u32, u32), String> {
        let of = |e: &super::Entry| {
            let info = threads::info(&self.object, e.claim.id)?;
            Some(((e.claim.id, info.generation), e.name.clone()))
        };
        self.book.iter().filter_map(of).collect()
    }

    /// The VCPUs that wait for their pages, for the thread that moves these.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        Waiting { object: Arc::clone(&self.object) }
    }
}

/// A VCPU that waits for its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its number.
    pub id: u32,
    /// Its core.
    pub from: u32,
    /// The core to which it will go.
    pub to: u32,
    /// The number of owners of its number so far.
    pub generation: u32,
}

/// A process of a VCPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its private pages.
    pub pages: u64,
    /// The threads that move its pages.
    pub handlers: Vec<u32>,
}

/// CPU time of a thread so far, ns, by `/proc/PID/task/TID/schedstat`; 0: it has ended.
#[must_use]
pub fn ran_ns(pid: &str, tid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"));
    text.unwrap_or_default().split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// The VCPUs that wait for their pages.
pub struct Waiting {
    object: Arc<Object>,
}

impl Waiting {
    /// The VCPU that waits.
    ///
    /// # Errors
    /// The kernel does not run the request.
    pub fn next(&self) -> Result<Option<Move>, LinuxError> {
        let asked = self.ask(&Request { id: SC_NONE, ..shared::nothing() })?;
        let found = (asked.done == 1).then(|| threads::info(&self.object, asked.id)).flatten();
        Ok(found.map(|info| Move {
            id: asked.id,
            from: info.core,
            to: asked.cpu,
            generation: info.generation,
        }))
    }

    /// It goes, as its pages have moved. `false`: it no longer waits to go there.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn go(&self, moved: Move) -> Result<bool, LinuxError> {
        let request = Request { id: moved.id, cpu: moved.to, ..shared::nothing() };
        Ok(self.is_same(moved) && self.ask(&request)?.done == 1)
    }

    /// It stays on its core until [`Self::release`]. `false`: it does not wait.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn stay(&self, moved: Move) -> Result<bool, LinuxError> {
        let request = Request { id: moved.id, cpu: SC_NONE, ..shared::nothing() };
        Ok(self.is_same(moved) && self.ask(&request)?.done == 1)
    }

    /// Lets the balancing move a VCPU again that stayed.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn release(&self, stayed: Move) -> Result<(), LinuxError> {
        if !self.is_same(stayed) {
            return Ok(());
        }
        self.ask(&Request { id: stayed.id, limit: 1, ..shared::nothing() }).map(drop)
    }

    /// Has the number no new owner?
    fn is_same(&self, of: Move) -> bool {
        threads::info(&self.object, of.id).is_some_and(|info| info.generation == of.generation)
    }

    /// Another request, or the balancing, may have its turn at the moment: a few tries.
    fn ask(&self, request: &Request) -> Result<Request, LinuxError> {
        let mut asked = answer(&self.object, "vcpu_go", request)?;
        for _ in 0..100 {
            if asked.done != 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            asked = answer(&self.object, "vcpu_go", request)?;
        }
        Ok(asked)
    }

    /// The processes whose first thread is in this VCPU. Kernel threads, ended processes, and jobs
    /// that do not run their program yet have no pages to move.
    #[must_use]
    pub fn processes(&self, id: u32) -> Vec<Process> {
        let own = fs::read_link("/proc/self/exe").ok();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let runs = |&pid: &u32| program(pid).is_some_and(|exe| Some(exe) != own);
        let within = numbers.filter(|&pid| threads::is_in(&self.object, pid, id));
        within.filter(runs).map(process).collect()
    }

    /// Has a VCPU of solocore's own hold threads.
    pub fn hold(&self, tids: &[u32], own: u32) {
        self.put(tids, Some(own));
    }

    /// Puts threads back into their VCPU; if it is gone, they are best effort.
    pub fn give_back(&self, tids: &[u32], of: Move) {
        self.put(tids, Some(of.id).filter(|_| self.is_same(of)));
    }

    fn put(&self, tids: &[u32], id: Option<u32>) {
        for &tid in tids {
            // One that has ended needs no VCPU.
            let _ = threads::put_in(&self.object, tid, id, 0);
        }
    }
}

/// The program of a process; `None`: it has ended, or is the kernel's.
#[must_use]
pub fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

fn process(pid: u32) -> Process {
    let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tids = tasks.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let handles = |tid: &u32| text(&format!("task/{tid}/comm")).trim_end() == HANDLER;
    let pages = own_pages(pid).unwrap_or_else(|_| private(&text("status")));
    Process { pid, pages, handlers: tids.filter(handles).collect() }
}

/// Private pages by `/proc/PID/status`, where its mappings cannot be looked at.
fn private(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_pages_are_counted() {
        assert_eq!(private("VmRSS:\t 900 kB\nRssAnon:\t     410 kB\nRssFile: 4 kB\n"), 103);
        assert_eq!(private(""), 0, "a kernel thread");
        let own = process(std::process::id());
        assert!(own.pages > 10 && own.handlers.is_empty(), "{own:?}");
    }

    /// Fails when the VCPU of the moves may be moved, or gets other times than the stated ones.
    #[test]
    fn its_vcpu_is_as_stated_and_stays() {
        let stated = r#"{"capacity": "2 ms", "period": "50 ms", "core": 3}"#;
        let wanted = Wanted::migration(&serde_json::from_str(stated).unwrap());
        assert_eq!((wanted.capacity_ns, wanted.period_ns), (2_000_000, 50_000_000));
        assert!(wanted.fixed && wanted.core == Some(3) && wanted.name == MIGRATION);
    }
}
