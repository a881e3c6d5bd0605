//! `solocore bench camera`: frames of a V4L2 device straight into pinned buffers of a list (MC2's
//! frame buffers, section 4.3).
//!
//! Rule: the device gets the buffers as user pointers; each frame is looked at and its buffer
//! handed over again. With --coloured the buffers' pages come from two lists of a coloured pool, as
//! those of `bench io-load`, and their frames are looked up again while the device has them. A page
//! in a wrong frame is a failure.
//! Does not cover: the use of the picture. Devices that only use their own buffers are refused.

use super::io_load::ColouredFrames;
use super::output::{Output, Place, UNPLACED, show};
use crate::args::space::MapArgs;
use crate::fail::Failure;
use crate::progress::stopped;
use serde::Serialize;
use solocore_buffers::v4l2::{Camera, frame_bytes};
use solocore_buffers::{AnyFrames, Frames, List, Mapping, PAGE};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device, like /dev/video0.
    device: PathBuf,
    /// Frames to take.
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    frames: u32,
    /// Number of buffers.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=32))]
    buffers: u32,
    /// Per cent of the buffers in level C's pages; the rest is in the core's own.
    #[arg(long, default_value_t = 100, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    level_c: u32,
    /// Take the buffers' pages from lists of their own cache colours; needs root.
    #[arg(long = "colored", alias = "coloured")]
    coloured: bool,
    #[command(flatten)]
    map: MapArgs,
    #[command(flatten)]
    place: Place,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

#[derive(Serialize)]
struct Outcome {
    format: &'static str,
    frame_bytes: usize,
    buffers: u32,
    level_c_buffers: u32,
    /// Whether the pages lie where the lists say.
    placed: bool,
    frames: u32,
    frames_per_s: f64,
    /// Numbers of the pages of all buffers, of the pages that the device wrote to, and of those
    /// that lay in wrong frames while it had them.
    pages: usize,
    written_pages: usize,
    wrong_pages: usize,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    args.place.take()?;
    let frame_bytes = frame_bytes(&args.device)?;
    let level_c_buffers = (args.buffers * args.level_c + 50) / 100;
    let core = List::Core(args.place.cpu.unwrap_or(0));
    let lists: Vec<List> =
        (0..args.buffers).map(|i| if i < level_c_buffers { List::LevelC } else { core }).collect();
    let coloured = args
        .coloured
        .then(|| ColouredFrames::new(&args.map, None, frame_bytes.saturating_mul(lists.len())))
        .transpose()?;
    let frames: &dyn Frames = coloured.as_ref().map_or(&AnyFrames, |c| c as &dyn Frames);
    let buffers = lists
        .iter()
        .map(|&list| frames.frames(list, frame_bytes))
        .collect::<Result<Vec<_>, _>>()?;
    let mut camera = Camera::open(&args.device, buffers)?;
    let mut outcome = Outcome {
        format: "solocore-bench-camera/1",
        frame_bytes,
        buffers: args.buffers,
        level_c_buffers,
        placed: frames.placed(),
        frames: 0,
        frames_per_s: 0.0,
        pages: camera.buffers().iter().map(|b| b.len() / PAGE).sum(),
        written_pages: 0,
        wrong_pages: 0,
    };
    let begun = Instant::now();
    while outcome.frames < args.frames && !stopped() {
        let (index, _) = camera.frame()?;
        outcome.frames += 1;
        camera.give(index)?;
    }
    outcome.frames_per_s = f64::from(outcome.frames) / begun.elapsed().as_secs_f64().max(1e-9);
    outcome.written_pages = camera.buffers().iter().map(written).sum();
    if let Some(coloured) = &coloured {
        for (&list, buffer) in lists.iter().zip(camera.buffers()) {
            outcome.wrong_pages += coloured.wrong(list, buffer)?;
        }
    }
    report(args, &outcome)
}

/// Number of pages with other contents than the initial zeroes.
fn written(buffer: &Mapping) -> usize {
    buffer.chunks(PAGE).filter(|page| page.iter().any(|&b| b != 0)).count()
}

fn report(args: &Args, o: &Outcome) -> Result<ExitCode, Failure> {
    let head = [
        "frames",
        "bytes a frame",
        "frames/s",
        "buffers",
        "in level C",
        "pages",
        "written",
        "wrong",
    ];
    let row = vec![
        o.frames.to_string(),
        o.frame_bytes.to_string(),
        format!("{:.1}", o.frames_per_s),
        o.buffers.to_string(),
        o.level_c_buffers.to_string(),
        o.pages.to_string(),
        o.written_pages.to_string(),
        o.wrong_pages.to_string(),
    ];
    let below = if o.placed { "" } else { UNPLACED };
    show(args.format, o, &[head.map(str::to_owned).to_vec(), row], below)?;
    Ok(ExitCode::from(u8::from(o.wrong_pages > 0)))
}
