//! Workloads as TOML describes them: `kind = "latency"`, `size = "16 MiB"`, ...
//!
//! One definition of each parameter gives its parsing, its default, and its line in
//! [`super::describe`]. Defaults are the papers' figures; where a paper gives none, the comment
//! says assumed. Long, as it is one table: every workload with its parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use solocore_model::{Bandwidth, Bytes, Cycles, Time};
use std::path::PathBuf;

/// Length of a job; without one, a program has no jobs and never ends (a recorded or stated task:
/// one pass).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Job {
    /// Never ends.
    Endless,
    /// A number of passes (a walk over the array, a message, a frame).
    Passes(u64),
    /// A number of accesses.
    Accesses(u64),
    /// An amount of computation, without stalls.
    Cycles(Cycles),
}

/// Form of a value in the table of workloads.
pub(super) trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_as_quoted {
    ($($type:ty),*) => { $(impl Shown for $type {
        fn shown(&self) -> String {
            format!("\"{self}\"")
        }
    })* };
}
macro_rules! shown_plain {
    ($($type:ty),*) => { $(impl Shown for $type {
        fn shown(&self) -> String {
            self.to_string()
        }
    })* };
}
shown_as_quoted!(Bytes, Bandwidth, Cycles, Time);
shown_plain!(u32, u64, bool, f64);

impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or_else(|| "-".to_owned(), Shown::shown)
    }
}

impl Shown for PathBuf {
    fn shown(&self) -> String {
        format!("\"{}\"", self.display())
    }
}

impl Shown for Vec<Section> {
    fn shown(&self) -> String {
        "-".to_owned()
    }
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$each])* #[serde(rename = $text)] $variant,)*
        }

        impl Shown for $name {
            fn shown(&self) -> String {
                match self {
                    $(Self::$variant => concat!("\"", $text, "\"").to_owned(),)*
                }
            }
        }
    };
}

choice! {
    /// Kind of access.
    Access {
        /// Loads.
        Read = "read",
        /// Stores.
        Write = "write",
    }
}

choice! {
    /// Order over an array.
    Pattern {
        /// Line after line.
        Sequential = "sequential",
        /// In jumps of `stride`, then again one line further.
        Stride = "stride",
        /// Every line once, in a random order; the core does not wait.
        Shuffled = "shuffled",
        /// The same order, each address from the load before: the core waits.
        Chase = "chase",
        /// Any line each time; the core does not wait.
        Random = "random",
    }
}

choice! {
    /// Small programs that live in the private caches (MARACAS Fig. 4, from the Mälardalen suite).
    Kernel {
        /// Run-length and dictionary compression.
        Compress = "compress",
        /// Adaptive differential pulse code modulation.
        Adpcm = "adpcm",
        /// Finite impulse response filter.
        Fir = "fir",
        /// Product of two matrices.
        Matmult = "matmult",
    }
}

choice! {
    /// Subjects in the manner of the six CortexSuite programs of BWLOCK Fig. 3. The text names
    /// clustering and liblinear; the others are assumed.
    Subject {
        /// Spectral clustering.
        Clustering = "clustering",
        /// Linear classification.
        Liblinear = "liblinear",
        /// Principal components.
        Pca = "pca",
        /// Singular values.
        Svd3 = "svd3",
        /// Super-resolution.
        Srr = "srr",
        /// Stereo disparity.
        Disparity = "disparity",
    }
}

choice! {
    /// Functions that hold the memory lock (BWLOCK Table 1).
    Lock {
        /// None.
        None = "none",
        /// The most memory-intensive one.
        One = "1",
        /// The two most memory-intensive.
        Two = "2",
        /// The three most memory-intensive.
        Three = "3",
        /// The whole program.
        Complete = "C",
    }
}

choice! {
    /// EEMBC AutoBench programs (dynamic budgeting Table I; the table lists aifftr twice, the
    /// second is taken for aiifft).
    Eembc {
        /// Angle to time conversion.
        A2time = "a2time",
        /// Fast Fourier transform.
        Aifftr = "aifftr",
        /// Finite impulse response filter.
        Aifirf = "aifirf",
        /// Inverse fast Fourier transform.
        Aiifft = "aiifft",
        /// Integer and floating point.
        Basefp = "basefp",
        /// Bit manipulation.
        Bitmnp = "bitmnp",
        /// Cache buster.
        Cacheb = "cacheb",
        /// CAN remote data request.
        Canrdr = "canrdr",
        /// Inverse discrete cosine transform.
        Idctrn = "idctrn",
        /// Infinite impulse response filter.
        Iirfft = "iirfft",
        /// Matrix arithmetic.
        Matrix = "matrix",
        /// Pointer chasing.
        Pntrch = "pntrch",
        /// Pulse width modulation.
        Puwmod = "puwmod",
        /// Road speed.
        Rspeed = "rspeed",
        /// Table look-up.
        Tblock = "tblock",
        /// Tooth to spark.
        Ttsprk = "ttsprk",
    }
}

choice! {
    /// Distribution of misses in a job.
    Distribution {
        /// At equal distances.
        Even = "even",
        /// One at a random point of each of equal slots.
        Random = "random",
        /// `burst` at once, at equal distances.
        Bursts = "bursts",
    }
}

choice! {
    /// Level at which the accesses of a text trace enter.
    EntryPoint {
        /// At the private caches.
        Private = "private",
        /// At the shared cache.
        Shared = "shared",
    }
}

macro_rules! params {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $each:literal])* $field:ident: $type:ty = $default:expr),* $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[doc = $each])* pub $field: $type,)*
            /// Length of a job.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub job: Option<Job>,
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* job: None }
            }
        }

        impl $name {
            /// Name, default and meaning of each parameter.
            pub(super) fn parameters() -> Vec<(&'static str, String, &'static str)> {
                let default = Self::default();
                vec![$((stringify!($field), default.$field.shown(), concat!($($each),*).trim_ascii())),*]
            }
        }
    };
}

const fn kib(n: u64) -> Bytes {
    Bytes(n << 10)
}

const fn mib(n: u64) -> Bytes {
    Bytes(n << 20)
}

params! {
    /// A pointer chase in random order.
    Latency {
        /// Array, chased line by line. The default is assumed: well beyond the caches.
        size: Bytes = mib(16),
        /// Cycles of an access.
        gap: Cycles = Cycles(2),
    }
}

params! {
    /// One access a line, in order, none waited for.
    BandwidthHog {
        /// Array. The default is assumed: well beyond the caches.
        size: Bytes = mib(16),
        /// "read" or "write".
        access: Access = Access::Read,
        /// Cycles of an access.
        gap: Cycles = Cycles(4),
        /// Most bytes of accessed lines a second; longer gaps keep this rate, also without stalls.
        rate: Option<Bandwidth> = None,
    }
}

params! {
    /// Writes 4 of every 64 bytes, 8 KB apart (MARACAS Code 1).
    MJump {
        /// Array.
        size: Bytes = mib(6),
        /// Jump after each write.
        jump: Bytes = kib(8),
        /// Computation put between accesses.
        delay: Cycles = Cycles(0),
        /// Cycles of the loop itself. Assumed.
        gap: Cycles = Cycles(4),
        /// Each write waits for the line of the one before: one request under way, as Table II
        /// implies.
        dependent: bool = false,
    }
}

params! {
    /// Writes an array in pseudo-random order.
    Mwalk {
        /// Array.
        size: Bytes = mib(1),
        /// Cycles of a write. Assumed.
        gap: Cycles = Cycles(8),
    }
}

params! {
    /// Scans an array of integers in order.
    Hog {
        /// Array.
        size: Bytes = mib(2),
        /// Cycles of an integer of 4 bytes; a line is one access after those of its integers.
        /// Assumed.
        gap: Cycles = Cycles(1),
    }
}

params! {
    /// Writes arbitrary data to random addresses.
    Synthetic {
        /// Array; a pass writes as many lines as it has.
        size: Bytes = kib(256),
        /// Cycles of a write. Assumed.
        gap: Cycles = Cycles(8),
    }
}

params! {
    /// Solves Ax = b by conjugate gradients, A sparse.
    Matrix {
        /// Rows and columns. Assumed: with `row`, 544 KiB.
        dimension: u64 = 4096,
        /// Non-zeros of a row. Assumed.
        row: u64 = 8,
        /// Iterations of a solution, which is a pass. Assumed.
        iterations: u64 = 10,
        /// Cycles of an access. Assumed.
        gap: Cycles = Cycles(3),
    }
}

params! {
    /// Sends or receives messages of one size; a pass is a message.
    Message {
        /// Message.
        size: Bytes = kib(1),
        /// Message buffers of region `buffer`, used in turn.
        messages: u64 = 100,
        /// Bytes that the kernel moves at once. Assumed.
        word: Bytes = Bytes(4),
        /// Cycles of a word. Assumed.
        gap: Cycles = Cycles(1),
        /// Cycles between messages. Assumed.
        between: Cycles = Cycles(2000),
        /// Marks 0 and 1 around `load_msg()` or `do_msg_fill()`.
        marks: bool = false,
    }
}

params! {
    /// Copies or converts video frames of 2 bytes a pixel; a pass is a frame.
    Video {
        /// Pixels of a row.
        width: u64 = 640,
        /// Rows.
        height: u64 = 480,
        /// Frame buffers of region `buffer`, used in turn. Assumed.
        frames: u64 = 4,
        /// Bytes of a load or store. Assumed.
        word: Bytes = Bytes(32),
        /// Cycles of a word loaded. Default: 8 to copy, 2 a pixel to convert. Assumed.
        gap: Option<Cycles> = None,
        /// Marks 0 and 1 around each frame.
        marks: bool = false,
    }
}

params! {
    /// The CPU's side of reading blocks from a disk; a pass is a block.
    SsdLoad {
        /// Block, in region `buffer`; the device writes it.
        block: Bytes = Bytes(400_000),
        /// Time from one request to the next, besides its computation.
        interval: Time = Time::from_ns(10_000_000),
        /// Kernel structures that a request touches. Assumed.
        size: Bytes = kib(16),
        /// Cycles of a request. Assumed.
        work: Cycles = Cycles(50_000),
        /// Number of the mark that starts the device.
        mark: u32 = 0,
    }
}

params! {
    /// The dependent accesses of the SCE measurements: every one opens another DRAM row.
    SceBenchmark {
        /// Array. Assumed.
        size: Bytes = mib(4),
        /// Distance of successive accesses; with 0, a random order.
        stride: Bytes = kib(8),
        /// "read" or "write".
        access: Access = Access::Read,
        /// Each read waits for the one before.
        dependent: bool = true,
        /// Cycles of an access. Assumed.
        gap: Cycles = Cycles(4),
    }
}

params! {
    /// A small program in the private caches; a pass is 10,000 accesses.
    Compute {
        /// "compress", "adpcm", "fir" or "matmult".
        program: Kernel = Kernel::Matmult,
        /// Working set. Default: 24, 6, 4 or 30 KiB. Assumed.
        size: Option<Bytes> = None,
        /// Cycles of an access. Default: 6, 12, 5 or 4. Assumed.
        gap: Option<Cycles> = None,
    }
}

params! {
    /// Sections in turn; a pass is all of them.
    Phases {
        /// (required) `[[sections]]`, each with: name, region ("data"), size, accesses, cycles (all
        /// of the section), pattern, stride, writes (share of the accesses, 0 to 1), update (loads
        /// and stores each line), lock.
        sections: Vec<Section> = Vec::new(),
    }
}

params! {
    /// A CortexSuite-like program in five functions, with memory locks.
    Cortex {
        /// "clustering", "liblinear", "pca", "svd3", "srr" or "disparity".
        subject: Subject = Subject::Clustering,
        /// "none", "1", "2", "3" or "C".
        lock: Lock = Lock::None,
        /// Accesses of a pass. Assumed.
        accesses: u64 = 200_000,
    }
}

params! {
    /// Canny edge detection of one image; a pass is an image.
    Canny {
        /// Pixels of a row.
        width: u64 = 720,
        /// Rows.
        height: u64 = 480,
    }
}

params! {
    /// Streaming read-modify-write in phases of different bandwidth; a pass is all phases.
    Libquantum {
        /// Array. Assumed.
        size: Bytes = mib(32),
        /// Cycles of a line in the fastest phase; others take 4 and 16 times as many. Assumed.
        gap: Cycles = Cycles(40),
        /// Lines of a phase. Assumed: some milliseconds.
        phase: u64 = 65536,
    }
}

params! {
    /// An EEMBC-like task by the miss rate of the paper's table; a pass is a job.
    EembcTask {
        /// AutoBench program.
        benchmark: Eembc = Eembc::Bitmnp,
        /// Execution time alone, misses included.
        wcet: Time = Time::from_ns(100_000_000),
        /// Share of `wcet` that misses take at miss rate 1 (canrdr), 0 to 1; others in proportion.
        /// Assumed.
        memory: f64 = 0.2,
    }
}

params! {
    /// A task by its time and misses; a pass is a job.
    ProfileLike {
        /// Execution time alone, misses included. This or `instructions` is required.
        wcet: Option<Time> = None,
        /// Instructions of a job, at the platform's cycles per instruction.
        instructions: Option<u64> = None,
        /// (required) Shared-cache misses of a job.
        misses: Option<u64> = None,
        /// "even", "random" or "bursts".
        spread: Distribution = Distribution::Even,
        /// Misses of a burst.
        burst: u64 = 64,
        /// Array that the misses walk over. Default: a line for each, at most 16 MiB.
        size: Option<Bytes> = None,
    }
}

params! {
    /// A task of a system file that states time and misses; a pass is a job.
    Spread {
        /// (required) Execution time alone, misses included.
        wcet: Option<Time> = None,
        /// (required) Shared-cache misses of a job.
        misses: Option<u64> = None,
    }
}

params! {
    /// A recorded stream; a pass is a job of it.
    Trace {
        /// (required) A trace of `solocore profile`, or text (plain, gzip or zstd), relative to the
        /// file that names it.
        file: PathBuf = PathBuf::new(),
        /// "private" or "shared". Default: private for text; a trace of `solocore profile` is
        /// always shared.
        entry: Option<EntryPoint> = None,
    }
}

params! {
    /// A profile and the trace it names; a pass is a job.
    Profile {
        /// (required) Profile of `solocore profile`, relative to the file that names it.
        file: PathBuf = PathBuf::new(),
        /// The core does not wait for reads that continue an array.
        streams: bool = false,
    }
}

/// A section of [`Phases`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Section {
    /// Name, for readers only.
    pub name: String,
    /// Region of its array; sections of one region share it.
    pub region: String,
    /// Array.
    pub size: Bytes,
    /// Accesses of the section; with `update`, lines.
    pub accesses: u64,
    /// Computation of the section, all of it.
    pub cycles: Cycles,
    /// Order over the array.
    pub pattern: Pattern,
    /// Jump of the pattern "stride".
    pub stride: Option<Bytes>,
    /// Share of the accesses that store, 0 to 1, to a ten-thousandth.
    pub writes: f64,
    /// Loads and stores every line.
    pub update: bool,
    /// Is a memory-performance critical section.
    pub lock: bool,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            name: String::new(),
            region: "data".to_owned(),
            size: Bytes(0),
            accesses: 0,
            cycles: Cycles(0),
            pattern: Pattern::Sequential,
            stride: None,
            writes: 0.0,
            update: false,
            lock: false,
        }
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $variant:ident($params:ident) = $kind:literal, $source:literal;)*) => {
        /// A workload by its kind.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind")]
        pub enum WorkloadSpec {
            $($(#[doc = $doc])* #[serde(rename = $kind)] $variant($params),)*
        }

        impl WorkloadSpec {
            /// The name of its kind (the value of `kind`).
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                }
            }

            pub(super) fn job(&self) -> Option<Job> {
                match self {
                    $(Self::$variant(params) => params.job,)*
                }
            }
        }

        /// All kinds, with their parameters and defaults.
        #[must_use]
        pub fn describe() -> Vec<Description> {
            vec![$(Description {
                kind: $kind,
                what: concat!($($doc),*).trim_ascii(),
                source: $source,
                parameters: $params::parameters()
                    .into_iter()
                    .map(|(name, default, meaning)| Parameter { name, default, meaning })
                    .collect(),
            }),*]
        }
    };
}

kinds! {
    /// A pointer chase in random order: one dependent load at a time.
    Latency(Latency) = "latency", "IsolBench; BWLOCK Fig. 1";
    /// Sequential loads or stores, one a line, none waited for.
    Bandwidth(BandwidthHog) = "bandwidth", "IsolBench; BWLOCK Fig. 1";
    /// Writes to every line, in jumps.
    MJump(MJump) = "m_jump", "MARACAS section VI-B, Code 1";
    /// Writes an array in pseudo-random order.
    Mwalk(Mwalk) = "mwalk", "MARACAS section VI-D";
    /// Scans an array in order, again and again.
    Hog(Hog) = "hog", "MARACAS section VI-D";
    /// Writes to random addresses.
    Synthetic(Synthetic) = "synthetic", "MC2 section 5.2, Table 2; size from 5.3";
    /// Conjugate gradients on a sparse matrix.
    Matrix(Matrix) = "matrix", "MC2 section 5.2, Table 2";
    /// Copies messages from region `data` to message buffers in `buffer`: `load_msg()`.
    MessageSender(Message) = "message-sender", "MC2 section 5.1, Fig. 8";
    /// Copies messages from `buffer` to `data`: `do_msg_fill()`.
    MessageReceiver(Message) = "message-receiver", "MC2 section 5.1, Fig. 8";
    /// Copies frames from `buffer` to `data`.
    Framecopy(Video) = "framecopy", "MC2 section 5.2, Table 2";
    /// Converts frames in `buffer` to grey in `data`.
    Yuv2gray(Video) = "yuv2gray", "MC2 section 5.2, Table 2";
    /// Asks a disk for blocks, and waits.
    SsdLoad(SsdLoad) = "ssd-load", "MC2 section 5.3";
    /// Dependent accesses that open another DRAM row each.
    SceBenchmark(SceBenchmark) = "sce-benchmark", "SCE sections 2.1 and 3.2, Figs. 1, 2, 6";
    /// A small program that lives in the private caches.
    Compute(Compute) = "compute", "MARACAS section VI-A, Fig. 4";
    /// A sequence of sections, described one by one.
    Phases(Phases) = "phases", "BWLOCK sections 2 and 5";
    /// A program in the manner of CortexSuite, with locks around its most memory-intensive
    /// functions.
    Cortex(Cortex) = "cortex", "BWLOCK section 5, Table 1, Fig. 3";
    /// Edge detection in five steps over an image.
    Canny(Canny) = "canny", "MARACAS section VI-B, Fig. 7";
    /// Streaming updates in phases of different bandwidth.
    Libquantum(Libquantum) = "libquantum", "SCE section 2.2, Figs. 3, 4";
    /// A task with the relative miss rate of an AutoBench program.
    Eembc(EembcTask) = "eembc", "dynamic budgeting section V, Tables I, II";
    /// A task by execution time, misses, and their distribution.
    ProfileLike(ProfileLike) = "profile-like", "dynamic budgeting section V, Table II";
    /// A task for which only execution time and misses are known.
    Spread(Spread) = "spread", "system files";
    /// A recorded trace.
    Trace(Trace) = "trace", "solocore profile; text traces";
    /// A profiled program.
    Profile(Profile) = "profile", "solocore profile; SCE section 2.3";
}

/// A kind of workload, for documents and listings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Value of `kind`.
    pub kind: &'static str,
    /// Description of the program.
    pub what: &'static str,
    /// Source: paper and section.
    pub source: &'static str,
    /// Its parameters; every kind also takes `job`.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Key.
    pub name: &'static str,
    /// As written in TOML; `-` where there is none.
    pub default: String,
    /// Meaning.
    pub meaning: &'static str,
}
