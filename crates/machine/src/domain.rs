//! The CPUs that a platform file describes.
//!
//! Problem: a platform file has one shared cache, and types of cores. Machines have several shared
//! caches, types of cores, and threads of a core. Rule: a domain is the CPUs behind one last-level
//! cache; those of one type have equal caches. The one with most CPUs is described, the first of
//! several; `--cpus` names others. A core counts once, for any number of its threads. Does not
//! cover: a description of several domains; each can be written to a file of its own.

use crate::cpus::Cpu;
use crate::error::MachineError;
use crate::lists;
use std::collections::BTreeSet;

/// CPUs behind one last-level cache.
#[derive(Clone, Debug)]
pub struct Domain<'a> {
    /// At least one.
    pub first: &'a Cpu,
    /// All of the CPUs, in order.
    pub cpus: Vec<&'a Cpu>,
}

/// The CPUs of one type.
#[derive(Clone, Debug)]
pub struct Kind<'a> {
    /// The first of them.
    pub first: &'a Cpu,
    /// All of them, in order.
    pub cpus: Vec<&'a Cpu>,
    /// Numbers of their cores in the platform file.
    pub cores: Vec<usize>,
    /// The first CPU of each of these cores.
    pub heads: Vec<u32>,
    /// All CPUs of these cores, in order.
    pub threads: Vec<u32>,
}

impl<'a> Domain<'a> {
    /// Their numbers.
    pub fn ids(&self) -> Vec<u32> {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// Number of cores of these CPUs, which may be threads of one core.
    pub fn cores(&self) -> usize {
        self.cpus.iter().map(|cpu| &cpu.siblings).collect::<BTreeSet<_>>().len()
    }

    /// The types of these CPUs, in the order of their first CPUs; one where all are alike. A core
    /// has the type of its first thread.
    pub fn kinds(&self) -> Vec<Kind<'a>> {
        let cores: BTreeSet<&Vec<u32>> = self.cpus.iter().map(|cpu| &cpu.siblings).collect();
        let mut kinds: Vec<Kind> = Vec::new();
        for &cpu in &self.cpus {
            match kinds.iter_mut().find(|kind| kind.first.kind == cpu.kind) {
                Some(kind) => kind.cpus.push(cpu),
                None => kinds.push(Kind {
                    first: cpu,
                    cpus: vec![cpu],
                    cores: Vec::new(),
                    heads: Vec::new(),
                    threads: Vec::new(),
                }),
            }
        }
        for (core, siblings) in cores.into_iter().enumerate() {
            let mut threads = self.cpus.iter().filter(|cpu| cpu.siblings == *siblings);
            let first = threads.next();
            let own =
                kinds.iter_mut().find(|kind| first.is_some_and(|f| f.kind == kind.first.kind));
            if let (Some(kind), Some(first)) = (own, first) {
                kind.cores.push(core);
                kind.heads.push(first.id);
                kind.threads.push(first.id);
                kind.threads.extend(threads.map(|cpu| cpu.id));
            }
        }
        kinds.iter_mut().for_each(|kind| kind.threads.sort_unstable());
        kinds.retain(|kind| !kind.cores.is_empty());
        kinds
    }

    /// Does another CPU belong to this domain?
    fn takes(&self, cpu: &Cpu) -> bool {
        let last = |cpu: &Cpu| cpu.last().map(|c| (c.level, c.shared.value.clone(), c.shape()));
        let shapes = |cpu: &Cpu| cpu.caches.iter().map(|c| c.shape()).collect::<Vec<_>>();
        let alike = |&own: &&Cpu| own.kind != cpu.kind || shapes(own) == shapes(cpu);
        last(self.first) == last(cpu) && self.cpus.iter().all(alike)
    }
}

/// All domains, in the order of their first CPUs.
pub fn domains(cpus: &[Cpu]) -> Vec<Domain<'_>> {
    let mut all: Vec<Domain> = Vec::new();
    for cpu in cpus {
        match all.iter_mut().find(|domain| domain.takes(cpu)) {
            Some(domain) => domain.cpus.push(cpu),
            None => all.push(Domain { first: cpu, cpus: vec![cpu] }),
        }
    }
    all
}

/// The domain to describe, restricted to the requested CPUs.
///
/// # Errors
/// Some of the requested CPUs are offline, or they are in different domains.
pub fn choose<'a>(cpus: &'a [Cpu], asked: Option<&[u32]>) -> Result<Domain<'a>, MachineError> {
    let all = domains(cpus);
    let Some(asked) = asked else {
        let most = all.into_iter().reduce(|a, b| if b.cpus.len() > a.cpus.len() { b } else { a });
        return most.ok_or_else(|| MachineError::Machine("cores: no CPU is online".to_owned()));
    };
    let shown = lists::show(asked);
    let online: Vec<u32> = cpus.iter().map(|cpu| cpu.id).collect();
    if let Some(missing) = asked.iter().find(|id| !online.contains(id)) {
        return Err(MachineError::Input(format!(
            "--cpus {shown}: there is no CPU {missing} online; choose among {}",
            lists::show(&online)
        )));
    }
    let inside = |domain: &Domain| asked.iter().all(|id| domain.ids().contains(id));
    let Some(mut domain) = all.iter().find(|domain| inside(domain)).cloned() else {
        let choices: Vec<String> = all.iter().map(|domain| lists::show(&domain.ids())).collect();
        return Err(MachineError::Input(format!(
            "--cpus {shown}: they do not share a last-level cache; choose within one of {}",
            choices.join(" or ")
        )));
    };
    domain.cpus.retain(|cpu| asked.contains(&cpu.id));
    match domain.cpus.first() {
        Some(first) => Ok(Domain { first, ..domain }),
        None => Err(MachineError::Input("--cpus: the list is empty; give one like 0-3".to_owned())),
    }
}
