//! A simulated system under construction: programs and where their pages lie, devices, tasks.
//!
//! Problem: an experiment, a scenario file and a plan all need programs with pages in chosen banks
//! and colours on one machine under one kernel. Rule: a [`Board`] hands out page frames: each once,
//! at random from the seed among those allowed, as a bank-aware allocator does (PALLOC, SCE section
//! 2.1). At the end it becomes a [`Kernel`] over the request-level [`Machine`] or over
//! [`Fluid`](crate::fluid::Fluid) (`fluid`). The order of the calls and the seed decide everything.

mod fluid;

use crate::fluid::FluidError;
use crate::hardware::{DeviceId, ProgramId};
use crate::kernel::{Kernel, KernelConfig, KernelError, TaskSpec};
use crate::machine::{DmaSpec, Machine, MachineConfig, MachineError};
use crate::placement::{Allocator, Full};
use crate::program::{Entry, PageKind, Program, Space};
use crate::workload::{BuildContext, Workload, WorkloadError, WorkloadSpec};
use solocore_model::Platform;
use std::path::Path;

/// Faults of a board that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The workload is impossible.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The machine's configuration is impossible.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The kernel refuses the system.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The interval machine, or the measurements that it is made of.
    #[error(transparent)]
    Fluid(FluidError),
    /// Pages of the wanted kind are short.
    #[error("`{name}`: {full}")]
    Memory {
        /// Name of the program or device.
        name: String,
        /// The scarce part.
        full: Full,
    },
    /// The program has no such region.
    #[error("`{name}` has no region `{region}`; it has {known}")]
    Region {
        /// Name of the program.
        name: String,
        /// Region that was asked for.
        region: String,
        /// Regions that the program has.
        known: String,
    },
}

/// Banks, colours and frames of pages, and their kind of caching.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// DRAM banks, counted over channels and ranks; `None`: any.
    pub banks: Option<Vec<u32>>,
    /// Page colours of the shared cache; `None`: any.
    pub colours: Option<Vec<u32>>,
    /// These frames and no others, one for each page, for memory that two programs, or a program
    /// and a device, share.
    pub frames: Option<Vec<u64>>,
    /// Kind of caching.
    pub kind: PageKind,
}

impl Place {
    /// Anywhere in these banks.
    #[must_use]
    pub fn banks(banks: &[u32]) -> Self {
        Self { banks: Some(banks.to_vec()), ..Self::default() }
    }

    /// Only in pages of these colours.
    #[must_use]
    pub fn colours(mut self, colours: &[u32]) -> Self {
        self.colours = Some(colours.to_vec());
        self
    }

    /// Cached in this way.
    #[must_use]
    pub fn kind(mut self, kind: PageKind) -> Self {
        self.kind = kind;
        self
    }

    /// In these frames.
    #[must_use]
    pub fn frames(frames: &[u64]) -> Self {
        Self { frames: Some(frames.to_vec()), ..Self::default() }
    }
}

/// A system under construction.
pub struct Board {
    /// The machine, open to changes until the first program is added.
    pub config: MachineConfig,
    platform: Platform,
    seed: u64,
    /// Made with the first pages, so that it follows changes of `config`.
    allocator: Option<Allocator>,
    programs: Vec<Placed>,
    devices: Vec<DmaSpec>,
    tasks: Vec<TaskSpec>,
}

/// A program and its places in memory.
struct Placed {
    program: Box<dyn Program>,
    space: Space,
    /// Its pages by name.
    regions: Vec<(String, std::ops::Range<u32>)>,
    /// The place that was asked for each of the regions.
    places: Vec<Place>,
    /// Colours of the pages outside placed regions, if colours were asked for.
    colours: Option<Vec<u32>>,
    /// Description from which the program is made again.
    recipe: Option<(WorkloadSpec, BuildContext)>,
}

impl Board {
    /// An empty board.
    ///
    /// # Errors
    /// When the platform cannot be simulated.
    pub fn new(platform: &Platform, seed: u64) -> Result<Self, BoardError> {
        let config = MachineConfig::of(platform, seed)?;
        Ok(Self {
            config,
            platform: platform.clone(),
            seed,
            allocator: None,
            programs: Vec::new(),
            devices: Vec::new(),
            tasks: Vec::new(),
        })
    }

    /// The board's platform.
    #[must_use]
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The context in which a workload is built, with a seed of its own for the next program.
    #[must_use]
    pub fn context(&self, base_dir: &Path) -> BuildContext {
        let own = self
            .seed
            .wrapping_add((self.programs.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        BuildContext::new(&self.platform, own, base_dir)
    }

    /// Adds a task that runs a workload, its pages anywhere, in all ways; returns the task's index.
    ///
    /// # Errors
    /// When the workload is impossible or memory is short.
    pub fn add(&mut self, name: &str, spec: &WorkloadSpec) -> Result<usize, BoardError> {
        self.add_at(name, spec, &Place::default())
    }

    /// Adds a task that runs a workload, all its pages at one place.
    ///
    /// # Errors
    /// As [`Board::add`].
    pub fn add_at(
        &mut self,
        name: &str,
        spec: &WorkloadSpec,
        place: &Place,
    ) -> Result<usize, BoardError> {
        self.add_regions(name, spec, place, &[])
    }

    /// Adds a task whose named regions lie elsewhere than the rest.
    ///
    /// # Errors
    /// As [`Board::add`]; also when the program has no such region.
    pub fn add_regions(
        &mut self,
        name: &str,
        spec: &WorkloadSpec,
        place: &Place,
        regions: &[(&str, Place)],
    ) -> Result<usize, BoardError> {
        self.add_spec(name, spec, Path::new("."), place, regions)
    }

    /// As [`Board::add_regions`], with the directory that file names in the workload are relative
    /// to.
    ///
    /// # Errors
    /// As [`Board::add_regions`].
    pub fn add_spec(
        &mut self,
        name: &str,
        spec: &WorkloadSpec,
        base_dir: &Path,
        place: &Place,
        regions: &[(&str, Place)],
    ) -> Result<usize, BoardError> {
        let context = self.context(base_dir);
        self.add_in(name, spec, context, place, regions)
    }

    /// As [`Board::add_regions`], for a workload that is built in this context.
    ///
    /// # Errors
    /// As [`Board::add_regions`].
    pub fn add_in(
        &mut self,
        name: &str,
        spec: &WorkloadSpec,
        context: BuildContext,
        place: &Place,
        regions: &[(&str, Place)],
    ) -> Result<usize, BoardError> {
        let index = self.add_workload(name, spec.build(&context)?, place, regions)?;
        if let Some(last) = self.programs.last_mut() {
            last.recipe = Some((spec.clone(), context));
        }
        Ok(index)
    }

    /// As [`Board::add_regions`], for a workload that is built already. [`Board::fluid`] cannot
    /// measure it: it has no way to make it again.
    ///
    /// # Errors
    /// As [`Board::add_regions`].
    pub fn add_workload(
        &mut self,
        name: &str,
        workload: Workload,
        place: &Place,
        regions: &[(&str, Place)],
    ) -> Result<usize, BoardError> {
        let known = workload.regions();
        for (region, _) in regions {
            if known.iter().all(|(n, _)| n != region) {
                let names: Vec<&str> = known.iter().map(|(n, _)| n.as_str()).collect();
                return Err(BoardError::Region {
                    name: name.to_owned(),
                    region: (*region).to_owned(),
                    known: names.join(", "),
                });
            }
        }
        let mut space = Space {
            ways: u64::MAX >> (64 - self.platform.llc.ways.clamp(1, 64)),
            ..Space::default()
        };
        let mut places = Vec::with_capacity(known.len());
        for (region, pages) in &known {
            let at = regions.iter().find(|(n, _)| n == region).map_or(place, |(_, p)| p);
            let frames = self.take(name, pages.end - pages.start, at)?;
            space.kinds.resize(space.frames.len() + frames.len(), at.kind);
            space.frames.extend(frames);
            places.push(at.clone());
        }
        if let Some(translation) = self.config.translation
            && workload.program.entry() == Entry::Private
        {
            let tables = translation.tables(workload.program.pages(), self.config.page);
            let place = Place { frames: None, ..place.clone() };
            space.tables = self.take(name, tables, &place)?;
        }
        let id = ProgramId(u32::try_from(self.programs.len()).unwrap_or(u32::MAX));
        let colours = place.colours.clone();
        self.programs.push(Placed {
            program: workload.program,
            space,
            regions: known,
            places,
            colours,
            recipe: None,
        });
        self.tasks.push(TaskSpec::new(name, id));
        Ok(self.tasks.len() - 1)
    }

    fn take(&mut self, name: &str, pages: u32, place: &Place) -> Result<Vec<u64>, BoardError> {
        let memory = |full| BoardError::Memory { name: name.to_owned(), full };
        if let Some(frames) = &place.frames {
            return match frames.get(..pages as usize) {
                Some(frames) => Ok(frames.to_vec()),
                None => Err(memory(Full {
                    wanted: pages,
                    banks: None,
                    colours: None,
                    had: frames.len() as u64,
                })),
            };
        }
        let allocator = match &mut self.allocator {
            Some(allocator) => allocator,
            none => none.insert(Allocator::new(self.config.layout()?, self.seed)),
        };
        allocator.take(pages, place.banks.as_deref(), place.colours.as_deref()).map_err(memory)
    }

    /// A task, to be changed.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn task(&mut self, index: usize) -> &mut TaskSpec {
        &mut self.tasks[index]
    }

    /// The page frames of a task and their caching, to be changed.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn space(&mut self, index: usize) -> &mut Space {
        let program = self.tasks[index].program;
        &mut self.programs[program.0 as usize].space
    }

    /// The frames of a task's region; empty when it has no such region.
    #[must_use]
    pub fn frames(&self, index: usize, region: &str) -> Vec<u64> {
        let program = &self.programs[self.tasks[index].program.0 as usize];
        let pages = program.regions.iter().find(|(n, _)| n == region).map(|(_, p)| p.clone());
        let frames = pages.and_then(|p| program.space.frames.get(p.start as usize..p.end as usize));
        frames.map_or_else(Vec::new, <[u64]>::to_vec)
    }

    /// Number of tasks so far.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Page frames for a device's buffer.
    ///
    /// # Errors
    /// When memory is short.
    pub fn pages(&mut self, name: &str, pages: u32, place: &Place) -> Result<Vec<u64>, BoardError> {
        self.take(name, pages, place)
    }

    /// Adds a DMA engine.
    pub fn device(&mut self, spec: DmaSpec) -> DeviceId {
        self.devices.push(spec);
        DeviceId(u32::try_from(self.devices.len() - 1).unwrap_or(u32::MAX))
    }

    /// The DMA engines, to be changed.
    pub fn devices(&mut self) -> &mut [DmaSpec] {
        &mut self.devices
    }

    /// The system, every request simulated.
    ///
    /// # Errors
    /// When the machine or the kernel refuses its configuration.
    pub fn requests(self, kernel: KernelConfig) -> Result<Kernel<Machine>, BoardError> {
        let programs = self.programs.into_iter().map(|p| (p.program, p.space)).collect();
        let machine = Machine::new(self.config, programs, self.devices)?;
        Ok(Kernel::new(machine, kernel, self.tasks)?)
    }
}
