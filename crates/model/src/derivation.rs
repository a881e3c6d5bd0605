//! The derivation of a bound as data: printed by `--explain` and in reports.
//!
//! Problem: a number that cannot be followed cannot be trusted. Rule: the code that computes a
//! bound also gives the rule, its source, its inputs and the values on the way. No other code
//! computes the bound a second time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A value in a derivation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// A verdict.
    Bool(bool),
    /// A count or a time in the unit that the derivation names.
    Int(u64),
    /// A ratio, for reading only: verdicts are never computed from it.
    Ratio(f64),
    /// Anything else.
    Text(Cow<'static, str>),
    /// No bound.
    None,
}

/// One named value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Term {
    /// Its symbol in the rule, for example `R_i` or `budget`.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: Value,
}

/// A bound with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Derivation {
    /// The rule in one line, as a formula over the names of `inputs` and `steps`.
    pub rule: Cow<'static, str>,
    /// Paper and section, or the file that derives it.
    pub source: Cow<'static, str>,
    /// Values that the rule takes.
    pub inputs: Vec<Term>,
    /// Intermediate values, in the order of computation.
    pub steps: Vec<Term>,
    /// Value that the rule gives.
    pub result: Value,
    /// Derivations that this one rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Derivation>,
}

impl Derivation {
    /// A derivation that has no values yet.
    #[must_use]
    pub fn new(rule: &'static str, source: &'static str) -> Self {
        let (rule, source) = (Cow::Borrowed(rule), Cow::Borrowed(source));
        Self {
            rule,
            source,
            inputs: Vec::new(),
            steps: Vec::new(),
            result: Value::None,
            because: Vec::new(),
        }
    }

    /// Adds an input.
    #[must_use]
    pub fn input(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.inputs.push(Term { name: name.into(), value: value.into() });
        self
    }

    /// Adds an intermediate value.
    #[must_use]
    pub fn step(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.steps.push(Term { name: name.into(), value: value.into() });
        self
    }

    /// Adds a derivation that this one rests on.
    #[must_use]
    pub fn because(mut self, reason: Derivation) -> Self {
        self.because.push(reason);
        self
    }

    /// Sets the result.
    #[must_use]
    pub fn result(mut self, value: impl Into<Value>) -> Self {
        self.result = value.into();
        self
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Ratio(value)
    }
}

impl From<&'static str> for Value {
    fn from(value: &'static str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(v) => write!(f, "{}", if *v { "yes" } else { "no" }),
            Self::Int(v) => write!(f, "{v}"),
            Self::Ratio(v) => write!(f, "{v:.6}"),
            Self::Text(v) => f.write_str(v),
            Self::None => f.write_str("no bound"),
        }
    }
}

/// Indented text, one line a value.
impl std::fmt::Display for Derivation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.write(f, 0)
    }
}

impl Derivation {
    fn write(&self, f: &mut std::fmt::Formatter<'_>, depth: usize) -> std::fmt::Result {
        let pad = "  ".repeat(depth);
        writeln!(f, "{pad}{} [{}]", self.rule, self.source)?;
        for term in &self.inputs {
            writeln!(f, "{pad}  given {} = {}", term.name, term.value)?;
        }
        for term in &self.steps {
            writeln!(f, "{pad}  {} = {}", term.name, term.value)?;
        }
        for reason in &self.because {
            reason.write(f, depth + 1)?;
        }
        writeln!(f, "{pad}  result: {}", self.result)
    }
}
