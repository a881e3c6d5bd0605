//! `solocore analyze`: a test on every task set of a corpus, in constant memory, on all cores, in
//! order.
//!
//! Problem: corpora have millions of lines, more than memory holds, and the answers must come in
//! the order of the lines.
//! Rule: one thread cuts the corpus into batches of lines, one per core answers batches, and the
//! main thread prints them in order. Each batch brings a channel for its answer; the channels queue
//! up in order, and both queues are bounded. A line that has no answer gets a reason in its place.

mod verdict;

use crate::args::{AnalyzeArgs, Format};
use crate::fail::{Failure, note_printed};
use crate::progress::stopped;
use solocore_analysis::TaskSet;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use verdict::{Lines, Style};

/// A batch ends with the line that reaches this many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Longest line, in bytes: without a limit, a file without line ends would have to fit in memory.
const LINE_BYTES: usize = 16 << 20;
/// A line that goes on beyond this many bytes is not searched for its end: a device has none.
const ENDLESS_BYTES: usize = 256 << 20;
/// Interval between two checks for an interrupt.
const POLL: Duration = Duration::from_millis(50);

/// Some lines of the corpus.
struct Batch {
    /// The text of all lines, without their ends.
    text: Vec<u8>,
    lines: Vec<Line>,
}

struct Line {
    number: u64,
    /// End of the line in the text; it begins at the end of the one before.
    end: usize,
    /// Whether it is longer than allowed, and left out.
    long: bool,
}

/// Outcome of a batch.
struct Done {
    out: Vec<u8>,
    lines: u64,
    refused: u64,
    /// Number of sets tested repeatedly, and the time that this took.
    sets: u64,
    spent: Duration,
}

/// Batches to be answered, each with the channel for its answer.
type Work = (Batch, SyncSender<Done>);

/// Answers all lines; exit code 2 if one was refused.
pub fn run(args: &AnalyzeArgs) -> Result<ExitCode, Failure> {
    let input = open(&args.corpus)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Times taken beside other threads would not be those of one thread.
    let threads = if args.repeat.is_some() { 1 } else { cores };
    let (give, take) = sync_channel::<Work>(2 * threads);
    let (queue, queued) = sync_channel::<Result<Receiver<Done>, io::Error>>(4 * threads);
    // The threads are not joined: a reader that waits for a terminal could not be.
    std::thread::spawn(move || read(input, &give, &queue));
    let take = Arc::new(Mutex::new(take));
    let style = Style { explain: args.explain, text: args.format == Format::Text };
    for _ in 0..threads {
        let (take, test, repeat) = (Arc::clone(&take), args.test, args.repeat);
        std::thread::spawn(move || work(&take, Lines::new(test), style, repeat));
    }
    let total = print_all(&queued, &args.corpus)?;
    if total.lines == 0 {
        eprintln!(
            "solocore: note: {}: it has no task sets, so there are no answers",
            args.corpus.display()
        );
    }
    if let Some(repeat) = args.repeat {
        let rate = (total.sets.saturating_mul(repeat)) as f64 / total.spent.as_secs_f64().max(1e-9);
        eprintln!("{} task sets, {repeat} times on one thread: {rate:.0} task sets/s", total.sets);
    }
    if total.refused > 0 {
        eprintln!(
            "solocore: {} lines have no answer; their reasons are in the output",
            total.refused
        );
    }
    Ok(ExitCode::from(if total.refused > 0 { 2 } else { 0 }))
}

fn open(corpus: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if corpus == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let refused = |e: io::Error| {
        Failure::Input(format!(
            "{}: cannot read: {e}; give a file with one task set per line",
            corpus.display()
        ))
    };
    let file = File::open(corpus).map_err(refused)?;
    if file.metadata().map_err(refused)?.is_dir() {
        return Err(refused(io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(file))
}

/// Cuts the corpus into batches. Stops at its end, at an error, or when no thread takes batches any
/// more.
fn read(
    input: Box<dyn Read + Send>,
    give: &SyncSender<Work>,
    queue: &SyncSender<Result<Receiver<Done>, io::Error>>,
) {
    let mut input = BufReader::with_capacity(BATCH_BYTES, input);
    let mut number = 0;
    loop {
        let batch = match batch(&mut input, &mut number) {
            Ok(batch) if batch.lines.is_empty() => return,
            Ok(batch) => batch,
            Err(error) => {
                let _ = queue.send(Err(error));
                return;
            }
        };
        let (answer, answered) = sync_channel(1);
        if queue.send(Ok(answered)).is_err() || give.send((batch, answer)).is_err() {
            return;
        }
    }
}

/// The next lines; none at the end. Blank lines are counted and left out.
fn batch(input: &mut BufReader<Box<dyn Read + Send>>, number: &mut u64) -> io::Result<Batch> {
    let mut batch = Batch { text: Vec::with_capacity(BATCH_BYTES), lines: Vec::new() };
    while batch.text.len() < BATCH_BYTES {
        let begin = batch.text.len();
        let Some(long) = line(input, &mut batch.text)? else { break };
        *number += 1;
        if long {
            batch.text.truncate(begin);
        } else if batch.text[begin..].iter().all(u8::is_ascii_whitespace) {
            batch.text.truncate(begin);
            continue;
        }
        batch.lines.push(Line { number: *number, end: batch.text.len(), long });
        // The next read may have to wait for the writer of the corpus: answer the lines so far.
        if input.buffer().is_empty() {
            break;
        }
    }
    Ok(batch)
}

/// Appends a line without its end. `None` at the end of the input; `Some(true)` if it is too long,
/// and cut short. Fails if it goes on and on.
fn line(input: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let (begin, mut any, mut bytes_of_line) = (text.len(), false, 0);
    loop {
        let bytes = match input.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(any.then_some(text.len() - begin > LINE_BYTES));
        }
        any = true;
        let end = bytes.iter().position(|b| *b == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        // One byte more than allowed shows that it was too long.
        text.extend_from_slice(&part[..part.len().min(LINE_BYTES + 1 - (text.len() - begin))]);
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(text.len() - begin > LINE_BYTES));
        }
        bytes_of_line += used;
        if bytes_of_line > ENDLESS_BYTES {
            return Err(io::Error::other("a line goes on beyond 256 MiB"));
        }
    }
}

/// Answers batches until there are no more.
fn work(take: &Mutex<Receiver<Work>>, mut analyst: Lines, style: Style, repeat: Option<u64>) {
    loop {
        // A thread that panicked has ended the process: the lock is never poisoned.
        let next = take.lock().map(|queue| queue.recv());
        let Ok(Ok((batch, answer))) = next else { return };
        let _ = answer.send(answer_batch(&batch, &mut analyst, style, repeat));
    }
}

fn answer_batch(batch: &Batch, analyst: &mut Lines, style: Style, repeat: Option<u64>) -> Done {
    let lines = batch.lines.len() as u64;
    let mut done = Done { out: Vec::new(), lines, refused: 0, sets: 0, spent: Duration::ZERO };
    let (mut begin, mut sets) = (0, Vec::new());
    for line in &batch.lines {
        let text = &batch.text[begin..line.end];
        begin = line.end;
        let answered = if line.long {
            verdict::refuse(
                "longer than 16 MiB; give one task set per line",
                line.number,
                style,
                &mut done.out,
            );
            false
        } else {
            analyst.answer(text, line.number, style, &mut done.out)
        };
        done.refused += u64::from(!answered);
        if answered && repeat.is_some() {
            sets.extend(verdict::parse(text));
        }
    }
    if let Some(repeat) = repeat {
        done.sets = sets.len() as u64;
        done.spent = time(analyst, &sets, repeat);
    }
    done
}

/// Time to test all sets `repeat` times; less if interrupted, but then it is not reported.
fn time(analyst: &mut Lines, sets: &[TaskSet], repeat: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..repeat {
        for set in sets {
            let _ = black_box(analyst.decide(black_box(set)));
        }
        if stopped() {
            break;
        }
    }
    start.elapsed()
}

/// Prints the answers in order; returns their sum.
fn print_all(
    queued: &Receiver<Result<Receiver<Done>, io::Error>>,
    corpus: &Path,
) -> Result<Done, Failure> {
    let mut out = io::stdout().lock();
    let mut total = Done { out: Vec::new(), lines: 0, refused: 0, sets: 0, spent: Duration::ZERO };
    while let Some(answered) = receive(queued)? {
        let answered = answered.map_err(|e| {
            Failure::Input(format!(
                "{}: cannot read: {e}; the answers so far are complete",
                corpus.display()
            ))
        })?;
        let Some(done) = receive(&answered)? else {
            return Err(Failure::Machine(
                "a thread ended before its answers; report the corpus".to_owned(),
            ));
        };
        total.lines += done.lines;
        note_printed();
        match out.write_all(&done.out).and_then(|()| out.flush()) {
            // `| head`: no program reads the rest.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => break,
            Err(e) => {
                let why = format!(
                    "standard output: cannot write: {e}; free some space or print elsewhere"
                );
                return Err(Failure::Machine(why));
            }
            Ok(()) => {}
        }
        total.refused += done.refused;
        total.sets += done.sets;
        total.spent += done.spent;
    }
    Ok(total)
}

/// The next message; `None` when all senders have ended. Fails when interrupted.
fn receive<T>(from: &Receiver<T>) -> Result<Option<T>, Failure> {
    loop {
        if stopped() {
            return Err(Failure::Interrupted);
        }
        match from.recv_timeout(POLL) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => {
                return if stopped() { Err(Failure::Interrupted) } else { Ok(None) };
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
