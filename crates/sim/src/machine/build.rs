//! Puts a machine together, and checks that programs and devices fit it.

use super::config::{Own, config_error, sets};
use super::core::{CoreShape, MachineCore};
use super::key::{DIRECT_KIND, ORDERED};
use super::loaded::Loaded;
use super::translation::{check_tables, entries};
use super::{
    Clock, Controller, Counters, Device, DmaSpec, Kinds, Layout, Machine, MachineConfig,
    MachineError, NEVER, Resting, Seat, Shared, State,
};
use crate::program::{PageKind, Program, Space};
use solocore_cache::private::Private;
use solocore_cache::shared::Slices;
use std::collections::VecDeque;

/// A use of a frame: frame, kind of page (as in its key), user.
type Use = (u64, u64, usize);

impl Machine {
    /// A machine at time 0 with empty caches and closed rows; nothing is dispatched.
    ///
    /// # Errors
    /// [`MachineError`]: a value of `config` is impossible, or a program or device does not fit the
    /// machine.
    pub fn new(
        config: MachineConfig,
        programs: Vec<(Box<dyn Program>, Space)>,
        devices: Vec<DmaSpec>,
    ) -> Result<Self, MachineError> {
        config.check()?;
        let layout = config.layout()?;
        let lines_per_page = config.page / config.llc.line.0;
        let kinds = Kinds::new(config.line_bits());
        programs.iter().enumerate().try_for_each(|(i, p)| check_program(&config, &layout, i, p))?;
        devices.iter().try_for_each(|d| check_device(&layout, d))?;
        check_tables(&config, &layout, &programs, &devices)?;
        let uses = shared_frames(kinds, &programs, &devices)?;
        let programs = programs.into_iter().map(|(program, space)| {
            let pages = page_keys(kinds, &space, lines_per_page, &uses);
            let entries = entries(&config, kinds, (program.as_ref(), &space));
            Resting {
                loaded: Some(Box::new(Loaded::new(program, pages, entries, space.ways))),
                past: Counters::default(),
                on: None,
                abandon: false,
                has_run: false,
                recovered_ps: 0,
            }
        });
        let way_ps = Clock::new(config.frequency).ps(config.llc.latency.0) + config.overhead_ps;
        let count = |n: usize| u16::try_from(n).ok().filter(|&n| n < 1 << 14);
        let (cores, engines) = (count(config.cores as usize).unwrap_or(1), count(devices.len()));
        let engines =
            engines.ok_or_else(|| config_error("devices", "more than 16383; give fewer"))?;
        let memory =
            Controller::new(&config.memory, config.row_hit_cap, config.llc.line.0, cores, engines)?;
        Ok(Self {
            seats: (0..usize::from(cores)).map(|core| seat(&config, core, kinds)).collect(),
            next: vec![NEVER; usize::from(cores)],
            programs: programs.collect(),
            shared: shared_cache(&config),
            controller: memory,
            devices: devices
                .into_iter()
                .map(|d| Device::new(d, lines_per_page, config.llc.line.0))
                .collect(),
            notices: VecDeque::new(),
            answers: Vec::new(),
            kinds,
            now: 0,
            way_ps,
            overhead_ps: config.overhead_ps,
            translates: config.translation.is_some(),
            layout,
        })
    }
}

fn seat(config: &MachineConfig, core: usize, kinds: Kinds) -> Seat {
    let line = config.llc.line.0;
    let clock = Clock::new(config.clock_of(core));
    let look_up_ps = Clock::new(config.frequency).ps(config.llc.latency.0);
    let private = |size: u64, ways: u32| Private::new(sets(size, ways, line), ways);
    let Own { caches, pipeline } = config.own_of(core);
    let shape = CoreShape {
        window: pipeline.window.0,
        mshrs: pipeline.mshrs,
        l2_latency: caches.l2.as_ref().map_or(0, |c| c.latency.0),
        page_shift: (config.page / line).trailing_zeros(),
        kinds,
        prefetcher: config.prefetcher,
        translation: config.translation,
    };
    let l2 = caches.l2.as_ref().map(|c| private(c.size.0, c.ways));
    Seat {
        core: MachineCore::new(
            shape,
            private(caches.l1i.size.0, caches.l1i.ways),
            private(caches.l1d.size.0, caches.l1d.ways),
            l2,
        ),
        clock,
        until: 0,
        quantum: clock.at_or_before(config.quantum_ps),
        // Rounded down, so that no hit takes longer than the plan's.
        llc_latency: clock.at_or_before(look_up_ps),
        state: State::Idle,
        event: 0,
        loaded: None,
        running: None,
        switch: None,
        last: None,
        since_ps: 0,
        recovers_since_ps: NEVER,
        computed_since: 0,
        past: Counters::default(),
        transactions: 0,
        armed_at: NEVER,
        interrupted: false,
        writes_waiting: 0,
    }
}

fn shared_cache(config: &MachineConfig) -> Shared {
    let llc = &config.llc;
    let sets = sets(llc.size.0, llc.ways, llc.line.0) / u64::from(llc.slices);
    let functions = &llc.slice_functions;
    let slices = Slices { count: llc.slices, functions, line: llc.line.0 };
    Shared::new(sets, slices, llc.ways, llc.replacement, config.seed)
}

fn check_program(
    config: &MachineConfig,
    layout: &Layout,
    index: usize,
    (program, space): &(Box<dyn Program>, Space),
) -> Result<(), MachineError> {
    let fail = |message: String| Err(MachineError::Program { program: index, message });
    let (pages, frames) = (program.pages() as usize, space.frames.len());
    if frames < pages || frames == 0 {
        return fail(format!(
            "{frames} page frames for {pages} pages; give one for each, and at least one"
        ));
    }
    if space.kinds.len() > frames {
        return fail(format!(
            "{} kinds of pages for {frames} frames; give at most as many",
            space.kinds.len()
        ));
    }
    if let Some(frame) = space.frames.iter().find(|&&f| f >= layout.frames()) {
        return fail(format!(
            "page frame {frame}; the memory has the frames 0 to {}",
            layout.frames() - 1
        ));
    }
    let ways = config.llc.ways;
    if space.ways & !(u64::MAX >> (64 - ways)) != 0 {
        return fail(format!(
            "the way mask {:#x}; the shared cache has the ways 0 to {}",
            space.ways,
            ways - 1
        ));
    }
    Ok(())
}

fn check_device(layout: &Layout, spec: &DmaSpec) -> Result<(), MachineError> {
    let fail = |message: String| Err(MachineError::Device { name: spec.name.clone(), message });
    if spec.frames.is_empty() || spec.frames.iter().any(|&f| f >= layout.frames()) {
        return fail(format!(
            "its buffer needs at least one page frame, all from 0 to {}",
            layout.frames() - 1
        ));
    }
    if spec.block_lines == 0 || spec.outstanding == 0 || spec.outstanding > 1024 {
        return fail(format!(
            "block_lines = {}, outstanding = {}; give at least 1, and at most 1024 lines \
                outstanding",
            spec.block_lines, spec.outstanding
        ));
    }
    if spec.autonomous.is_some_and(|s| s.bytes_per_s == Some(0)) {
        return fail("a stream of 0 bytes per second; leave it out instead".to_owned());
    }
    Ok(())
}

fn kind_of(space: &Space, page: usize) -> PageKind {
    space.kinds.get(page).copied().unwrap_or_default()
}

/// The frames that more than one program or device uses, in order.
fn shared_frames(
    kinds: Kinds,
    programs: &[(Box<dyn Program>, Space)],
    devices: &[DmaSpec],
) -> Result<Vec<u64>, MachineError> {
    let mut uses: Vec<Use> = Vec::new();
    for (user, (_, space)) in programs.iter().enumerate() {
        let each = space.frames.iter().enumerate();
        uses.extend(each.map(|(page, &frame)| (frame, kinds.key(0, kind_of(space, page)), user)));
    }
    uses.sort_unstable();
    uses.dedup();
    for pair in uses.windows(2) {
        if pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1 {
            return Err(MachineError::Program {
                program: pair[1].2,
                message: format!(
                    "page frame {} is of another kind for program {}; give one kind",
                    pair[0].0, pair[0].2
                ),
            });
        }
    }
    let both = |pair: &&[Use]| pair[0].0 == pair[1].0;
    let mut shared: Vec<u64> = uses.windows(2).filter(both).map(|pair| pair[0].0).collect();
    shared.extend(devices.iter().flat_map(|d| &d.frames));
    shared.sort_unstable();
    shared.dedup();
    Ok(shared)
}

/// The key of the first line of each page, with its flags.
fn page_keys(kinds: Kinds, space: &Space, lines_per_page: u64, shared: &[u64]) -> Vec<u64> {
    let key = |(page, &frame): (usize, &u64)| {
        let kind = kind_of(space, page);
        let key = kinds.key(frame * lines_per_page, kind);
        if shared.binary_search(&frame).is_ok() {
            return key | ORDERED | DIRECT_KIND;
        }
        if kind == PageKind::Uncached { key | DIRECT_KIND } else { key }
    };
    space.frames.iter().enumerate().map(key).collect()
}
