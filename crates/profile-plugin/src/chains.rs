//! A shadow of a thread's calls: the chain of calls behind each access, and the time within each
//! called function.
//!
//! Problem: a function that misses is often one of a library, and its caller is the one to know.
//! Rule: a block that ends with a call opens a frame, with the address after the call. A return to
//! the address of a frame closes it, and the frames above it (`longjmp`, exceptions). A context is
//! a chain of calls by their places. A call that repeats one of its own chain does not lengthen it,
//! so recursion adds few contexts. Accesses are counted by context and instruction. A function's
//! time is that from its outermost call to the return, alone on the machine. A signal may come
//! between a return and its target: the handler then seems to be the target. So the block after a
//! handler closes a call as a return does. All tables are bounded; what has no room counts for the
//! caller's context, or for none (`cut`). Tables that another thread reads at the end never move.
//! Not covered: a jump to a function in place of a call (its time counts for the function that was
//! called), and programs that switch between stacks of their own. Where a signal comes between a
//! call and its target, this call counts for the handler.

use crate::code::{Block, Code};
use rustc_hash::FxHashMap;
use solocore_cache::contract::{RawCalls, RawCode, RawContext};
use solocore_cache::{Ends, Geometry, Private};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maximum number of open calls of a thread; deeper ones are only counted.
const DEEPEST: usize = 4096;
/// Maximum number of frames in which a return looks for its call.
const SEARCHED: usize = 1024;
/// Maximum number of contexts, of all threads.
const MOST_CONTEXTS: usize = 1 << 16;
/// Maximum number of functions of a thread.
const MOST_FUNCTIONS: usize = 1 << 14;
/// Maximum number of pairs of context and instruction, of all threads.
const MOST_PAIRS: usize = 1 << 17;

static CONTEXTS: AtomicUsize = AtomicUsize::new(0);
static PAIRS: AtomicUsize = AtomicUsize::new(0);

static NOWHERE: Code = Code { region: u32::MAX, offset: 0 };
/// Comes before the block that a handler of a signal goes back to.
static RESUMED: Block = Block {
    start: 0,
    next: u64::MAX,
    first_line: 0,
    last_line: 0,
    instructions: 0,
    ends: Ends::Return,
    first: &NOWHERE,
    last: &NOWHERE,
};

/// A chain of calls: that of its parent, and one more.
#[derive(Clone, Copy, Debug)]
struct Context {
    parent: u32,
    site: &'static Code,
    /// Index of the called function.
    function: Option<u32>,
    entry: &'static Code,
}

/// An open call.
#[derive(Clone, Copy, Debug)]
struct Frame {
    back: u64,
    /// Context of the caller.
    outer: u32,
    function: Option<u32>,
    since: Clock,
}

/// Time of the thread alone on the machine, in 1/256 cycles, with its misses, reads and
/// write-backs.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    time_q: u64,
    misses: u64,
    reads: u64,
    writes: u64,
}

/// A function that was called.
#[derive(Clone, Copy, Debug)]
struct Function {
    entry: &'static Code,
    open: u32,
    calls: u64,
    spent: Clock,
    longest_q: u64,
}

/// Shared-cache reads of an instruction in a context.
#[derive(Clone, Copy, Debug)]
struct Reads {
    code: &'static Code,
    accesses: u64,
    misses: u64,
}

/// The calls of a thread.
#[derive(Debug)]
pub struct Chains {
    before: Option<&'static Block>,
    frames: Vec<Frame>,
    /// Open calls beyond the deepest frame.
    beyond: u64,
    /// Context at hand; 0: none.
    current: u32,
    /// Contexts from number 1 on.
    contexts: Vec<Context>,
    children: FxHashMap<(u32, usize, usize), u32>,
    functions: Vec<Function>,
    by_entry: FxHashMap<usize, u32>,
    reads: FxHashMap<(u32, usize), Reads>,
    accesses: u64,
    misses: u64,
    writes: u64,
    cut: bool,
}

impl Chains {
    pub fn new() -> Self {
        Self {
            before: None,
            frames: Vec::new(),
            beyond: 0,
            current: 0,
            contexts: Vec::new(),
            children: FxHashMap::default(),
            functions: Vec::new(),
            by_entry: FxHashMap::default(),
            reads: FxHashMap::default(),
            accesses: 0,
            misses: 0,
            writes: 0,
            cut: false,
        }
    }

    /// Notes that a block begins.
    #[inline(always)]
    pub fn begin(&mut self, block: &'static Block, private: &Private, geometry: &Geometry) {
        if let Some(before) = self.before.replace(block)
            && before.ends != Ends::Otherwise
            // The next address: a branch that was not taken, or a call that asks where it is.
            && before.next != block.start
        {
            self.pass(before, block, private, geometry);
        }
    }

    #[inline(never)]
    fn pass(
        &mut self,
        before: &'static Block,
        block: &'static Block,
        private: &Private,
        geometry: &Geometry,
    ) {
        let now = self.now(private, geometry);
        if before.ends == Ends::Call {
            self.enter(before, block, now);
        } else {
            self.leave(block.start, now);
        }
    }

    fn now(&self, private: &Private, geometry: &Geometry) -> Clock {
        Clock {
            time_q: geometry.time_alone_q(private, self.accesses, self.misses),
            misses: self.misses,
            reads: self.accesses,
            writes: self.writes,
        }
    }

    fn enter(&mut self, before: &'static Block, block: &'static Block, now: Clock) {
        if self.frames.len() >= DEEPEST {
            self.beyond += 1;
            self.cut = true;
            return;
        }
        let outer = self.current;
        let (context, function) = self.child(before.last, block.first);
        self.current = context;
        if let Some(called) = function.and_then(|at| self.functions.get_mut(at as usize)) {
            called.open += 1;
        }
        push(&mut self.frames, DEEPEST, Frame { back: before.next, outer, function, since: now });
    }

    fn leave(&mut self, to: u64, now: Clock) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        let open = self.frames.iter().rev().take(SEARCHED).position(|frame| frame.back == to);
        if let Some(above) = open {
            (0..=above).for_each(|_| self.close(now));
        }
    }

    /// Notes that a handler of a signal goes back to the program.
    pub fn resume(&mut self) {
        if self.beyond == 0 {
            self.before = Some(&RESUMED);
        }
    }

    /// Closes the innermost call.
    fn close(&mut self, now: Clock) {
        let Some(frame) = self.frames.pop() else { return };
        self.current = frame.outer;
        if let Some(at) = frame.function {
            left(&mut self.functions, at, frame.since, now);
        }
    }

    /// Context and function of a call from `site` to `entry`.
    fn child(&mut self, site: &'static Code, entry: &'static Code) -> (u32, Option<u32>) {
        let key = (self.current, address(site), address(entry));
        if let Some(&known) = self.children.get(&key) {
            return (known, self.context(known).and_then(|c| c.function));
        }
        let function = self.function(entry);
        if CONTEXTS.fetch_add(1, Relaxed) >= MOST_CONTEXTS {
            self.cut = true;
            return (self.current, function);
        }
        let child = self.repeated(site, entry).unwrap_or_else(|| {
            let context = Context { parent: self.current, site, function, entry };
            push(&mut self.contexts, MOST_CONTEXTS, context);
            number(self.contexts.len())
        });
        self.children.insert(key, child);
        (child, function)
    }

    fn context(&self, number: u32) -> Option<&Context> {
        self.contexts.get((number as usize).checked_sub(1)?)
    }

    /// The context in the chain at hand whose last call is this one.
    fn repeated(&self, site: &'static Code, entry: &'static Code) -> Option<u32> {
        let mut at = self.current;
        while let Some(context) = self.context(at) {
            if std::ptr::eq(context.site, site) && std::ptr::eq(context.entry, entry) {
                return Some(at);
            }
            at = context.parent;
        }
        None
    }

    fn function(&mut self, entry: &'static Code) -> Option<u32> {
        if let Some(&known) = self.by_entry.get(&address(entry)) {
            return Some(known);
        }
        if self.functions.len() >= MOST_FUNCTIONS {
            self.cut = true;
            return None;
        }
        let at = number(self.functions.len());
        let spent = Clock::default();
        let function = Function { entry, open: 0, calls: 0, spent, longest_q: 0 };
        push(&mut self.functions, MOST_FUNCTIONS, function);
        self.by_entry.insert(address(entry), at);
        Some(at)
    }

    /// Counts a shared-cache read of an instruction.
    pub fn read(&mut self, code: &'static Code, miss: bool) {
        self.accesses += 1;
        self.misses += u64::from(miss);
        let mut key = (self.current, address(code));
        if !self.reads.contains_key(&key) && PAIRS.fetch_add(1, Relaxed) >= MOST_PAIRS {
            self.cut = true;
            key.0 = 0;
        }
        let reads = self.reads.entry(key).or_insert(Reads { code, accesses: 0, misses: 0 });
        reads.accesses += 1;
        reads.misses += u64::from(miss);
    }

    /// Counts dirty lines that the thread has written back to the shared cache.
    pub fn wrote(&mut self, lines: u64) {
        self.writes += lines;
    }

    /// Another thread of the program takes this place: the calls of the one before it have ended.
    pub fn next_thread(&mut self, private: &Private, geometry: &Geometry) {
        let now = self.now(private, geometry);
        while !self.frames.is_empty() {
            self.close(now);
        }
        (self.before, self.beyond, self.current) = (None, 0, 0);
    }

    /// Starts over in a forked child, within the same calls; its clock starts at 0. It has no other
    /// threads, so all room is its own.
    pub fn start_over(&mut self) {
        self.reads.clear();
        PAIRS.store(0, Relaxed);
        CONTEXTS.store(self.children.len(), Relaxed);
        (self.accesses, self.misses, self.writes) = (0, 0, 0);
        for function in &mut self.functions {
            (function.calls, function.spent, function.longest_q) = (0, Clock::default(), 0);
        }
        self.frames.iter_mut().for_each(|frame| frame.since = Clock::default());
    }
}

/// Ends a call that began at `since`. Only the outermost one of a function counts.
fn left(functions: &mut [Function], at: u32, since: Clock, now: Clock) {
    let Some(function) = functions.get_mut(at as usize) else { return };
    function.open = function.open.saturating_sub(1);
    if function.open == 0 {
        let time_q = now.time_q.saturating_sub(since.time_q);
        function.calls += 1;
        function.spent.time_q += time_q;
        function.spent.misses += now.misses.saturating_sub(since.misses);
        function.spent.reads += now.reads.saturating_sub(since.reads);
        function.spent.writes += now.writes.saturating_sub(since.writes);
        function.longest_q = function.longest_q.max(time_q);
    }
}

/// Contexts, accesses and calls of all threads.
#[derive(Debug, Default)]
pub struct Gathered {
    pub contexts: Vec<RawContext>,
    pub code: Vec<RawCode>,
    pub calls: Vec<RawCalls>,
    pub cut: bool,
}

impl Gathered {
    /// Adds a thread, whose open calls end here; the thread itself is not changed.
    pub fn add(&mut self, chains: &Chains, private: &Private, geometry: &Geometry) {
        let base = number(self.contexts.len());
        let moved = |context: u32| if context == 0 { 0 } else { base + context };
        self.contexts.extend(chains.contexts.iter().map(|c| RawContext {
            parent: moved(c.parent),
            region: c.site.region,
            offset: c.site.offset,
        }));
        self.code.extend(chains.reads.iter().map(|(&(context, _), r)| RawCode {
            context: moved(context),
            region: r.code.region,
            offset: r.code.offset,
            accesses: r.accesses,
            misses: r.misses,
        }));
        let now = chains.now(private, geometry);
        let mut functions = chains.functions.clone();
        for frame in chains.frames.iter().rev() {
            if let Some(at) = frame.function {
                left(&mut functions, at, frame.since, now);
            }
        }
        self.calls.extend(functions.iter().filter(|f| f.calls > 0).map(|f| RawCalls {
            region: f.entry.region,
            offset: f.entry.offset,
            calls: f.calls,
            misses: f.spent.misses,
            reads: f.spent.reads,
            writes: f.spent.writes,
            held_ns: geometry.ns_of_q(f.spent.time_q),
            longest_ns: geometry.ns_of_q(f.longest_q),
        }));
        self.cut |= chains.cut;
    }
}

/// Appends to a table with room for `most`. The room is made at the first call, when the memory of
/// the program has been looked at, and it never moves.
fn push<T>(table: &mut Vec<T>, most: usize, item: T) {
    if table.capacity() == 0 {
        table.reserve_exact(most);
    }
    table.push(item);
}

/// An instruction's own number.
fn address(code: &'static Code) -> usize {
    std::ptr::from_ref(code).addr()
}

/// The tables are far below 2^32 elements.
fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
