//! The signals of a task's program, and the user that runs it: keys of `[[task]]` that only a run
//! on Linux reads.
//!
//! Problem: dynamic budgets, the bandwidth lock and statistics must know the begin of a job or a
//! section; a program that was not written for them gives no signals. Rule: one run of the command
//! is a job, unless the file says that the program goes on and its jobs are its wakeups or calls of
//! a function. Calls of functions may hold the bandwidth lock; the file names them, or the planner
//! chooses them for a wanted slowdown. Source: bwlock, section 4.2; dynamic-budgeting, section IV
//! (the signals). Does not cover: functions of libraries.

use super::regulation::Policy;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Prefix of the name of a function.
const FUNCTION: &str = "function:";

/// Kind of job of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Job {
    /// One run of its command.
    #[default]
    Process,
    /// The time from waking of its process until it goes to sleep.
    Wakeup,
    /// A call of this function.
    Function(String),
}

impl Job {
    /// The kind of job from a word of the file.
    ///
    /// # Errors
    /// The fault in it.
    pub fn of(word: &str) -> Result<Self, String> {
        match word {
            "process" => Ok(Self::Process),
            "wakeup" => Ok(Self::Wakeup),
            word => function(word).map(|name| Self::Function(name.to_owned())).map_err(|()| {
                format!(
                    "\"{word}\" is not a job; give \"process\", \"wakeup\" or \"function:NAME\""
                )
            }),
        }
    }

    /// Is it one run of the command?
    pub fn is_process(&self) -> bool {
        *self == Self::Process
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("process"),
            Self::Wakeup => f.write_str("wakeup"),
            Self::Function(name) => write!(f, "{FUNCTION}{name}"),
        }
    }
}

impl JsonSchema for Job {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Job".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": r"^(process|wakeup|function:\S+)$"})
    }
}

impl Serialize for Job {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Job {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The name after `function:`.
fn function(word: &str) -> Result<&str, ()> {
    let name = word.strip_prefix(FUNCTION).ok_or(())?;
    if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(());
    }
    Ok(name)
}

/// Functions whose calls hold the bandwidth lock, as a file gives them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LockKey {
    /// `"auto"`: the planner chooses them.
    Named(String),
    /// Functions, each as `"function:NAME"`.
    Functions(Vec<String>),
}

impl LockKey {
    /// The stated functions.
    pub(super) fn functions(&self) -> Option<&[String]> {
        match self {
            Self::Functions(functions) => Some(functions),
            Self::Named(_) => None,
        }
    }
}

/// The slowdown for which the planner is to choose the locked functions of a task, in thousandths;
/// `None`: it chooses none.
///
/// # Errors
/// The fault in the two keys and its remedy.
pub(super) fn wanted_slowdown(
    lock: Option<&LockKey>,
    slowdown_permille: Option<u64>,
    policy: Policy,
    best_effort: bool,
) -> Result<Option<u64>, String> {
    match (lock, slowdown_permille) {
        (Some(LockKey::Named(word)), _) if word != "auto" => Err(format!(
            "lock = \"{word}\" is not a choice; give \"auto\" with a slowdown, or a list like \
                [\"function:NAME\"]"
        )),
        (Some(LockKey::Named(_)), None) => Err(
            "lock = \"auto\" lacks the slowdown to plan for; add slowdown = 1.5, the longest time \
                of a job beside the other cores over its time alone"
                .to_owned(),
        ),
        (Some(LockKey::Named(_)), _) if policy != Policy::Bwlock => {
            Err("lock: only [regulation] policy = \"bwlock\" has a bandwidth lock; set that, or \
                remove it"
                .to_owned())
        }
        (Some(LockKey::Named(_)), _) if best_effort => {
            Err("lock = \"auto\" is for analysed tasks, because best effort has no bound; set \
                criticality, or name functions"
                .to_owned())
        }
        (Some(LockKey::Named(_)), permille) => Ok(permille),
        (_, Some(_)) => {
            Err("slowdown of a task needs lock = \"auto\"; add that, or remove slowdown".to_owned())
        }
        (_, None) => Ok(None),
    }
}

/// The signals of a task's program, and the user that runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskProgram {
    /// Kind of job: `process`, `wakeup` or `function:NAME`.
    #[serde(default, skip_serializing_if = "Job::is_process")]
    pub job: Job,
    /// Names of functions. Their calls hold the bandwidth lock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lock: Vec<String>,
    /// Name of the user that runs the program; `null`: the user that started solocore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl TaskProgram {
    /// Are all keys at their defaults?
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The keys of a task, checked; `windows`: its jobs begin in windows of a partition.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub(super) fn checked(
        (job, lock, user): (Option<&str>, Option<&[String]>, Option<String>),
        policy: Policy,
        windows: bool,
    ) -> Result<Self, String> {
        let job = job.map_or(Ok(Job::Process), Job::of).map_err(|e| format!("job = {e}"))?;
        if windows && !job.is_process() {
            return Err(format!(
                "job = \"{job}\": in the windows of a partition a job is one run of the command (or \
                    ends with sc_job_end()); leave it out"
            ));
        }
        let lock = lock.unwrap_or_default();
        if !lock.is_empty() && policy != Policy::Bwlock {
            return Err(
                "lock: only [regulation] policy = \"bwlock\" has a bandwidth lock; set that, or \
                    remove it"
                    .to_owned(),
            );
        }
        let named = |word: &String| {
            function(word).map(str::to_owned).map_err(|()| {
                format!("lock = [\"{word}\"] does not name a function; give [\"function:NAME\"]")
            })
        };
        let lock = lock.iter().map(named).collect::<Result<Vec<String>, String>>()?;
        if user.as_deref().is_some_and(|u| u.is_empty() || u.contains([':', '\n', '\0'])) {
            return Err("user is not the name of a user; give user = \"camera\"".to_owned());
        }
        Ok(Self { job, lock, user })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_and_written_alike() {
        for (word, job) in [
            ("process", Job::Process),
            ("wakeup", Job::Wakeup),
            ("function:filter_image", Job::Function("filter_image".to_owned())),
        ] {
            assert_eq!(Job::of(word), Ok(job.clone()));
            assert_eq!(job.to_string(), word);
        }
        for word in ["", "thread", "function:", "function:a b", "Function:a", "function:a\n"] {
            assert!(Job::of(word).is_err(), "{word:?}");
        }
    }

    #[test]
    fn a_chosen_lock_needs_a_slowdown_and_a_policy_that_locks() {
        let named = |word: &str| Some(LockKey::Named(word.to_owned()));
        let of = |lock: &Option<LockKey>, permille, policy, best_effort| {
            wanted_slowdown(lock.as_ref(), permille, policy, best_effort)
        };
        let auto = named("auto");
        assert_eq!(of(&auto, Some(1200), Policy::Bwlock, false), Ok(Some(1200)));
        assert_eq!(of(&None, None, Policy::Memguard, true), Ok(None));
        let listed = Some(LockKey::Functions(vec!["function:f".to_owned()]));
        assert_eq!(of(&listed, None, Policy::Bwlock, false), Ok(None));
        for (lock, permille, policy, best_effort, said) in [
            (&named("most"), Some(1200), Policy::Bwlock, false, "\"auto\""),
            (&auto, None, Policy::Bwlock, false, "add slowdown"),
            (&auto, Some(1200), Policy::Memguard, false, "bwlock"),
            (&auto, Some(1200), Policy::Bwlock, true, "best effort"),
            (&listed, Some(1200), Policy::Bwlock, false, "remove slowdown"),
            (&None, Some(1200), Policy::Bwlock, false, "remove slowdown"),
        ] {
            let error = of(lock, permille, policy, best_effort).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn keys_are_checked() {
        let of = |job, lock: &[&str], user: Option<&str>, policy, windows| {
            let lock: Vec<String> = lock.iter().map(|&l| l.to_owned()).collect();
            TaskProgram::checked((job, Some(&lock), user.map(str::to_owned)), policy, windows)
        };
        assert_eq!(of(None, &[], None, Policy::Memguard, true), Ok(TaskProgram::default()));
        let program = of(Some("wakeup"), &["function:f"], Some("camera"), Policy::Bwlock, false);
        let text = serde_json::to_string(&program.clone().unwrap()).unwrap();
        assert_eq!(text, r#"{"job":"wakeup","lock":["f"],"user":"camera"}"#);
        assert_eq!(serde_json::from_str::<TaskProgram>(&text).unwrap(), program.unwrap());
        for (job, lock, user, policy, windows, said) in [
            (Some("wakeup"), &[][..], None, Policy::Memguard, true, "windows"),
            (Some("sleep"), &[], None, Policy::Memguard, false, "\"function:NAME\""),
            (None, &["function:f"], None, Policy::Memguard, false, "bwlock"),
            (None, &["f"], None, Policy::Bwlock, false, "[\"function:NAME\"]"),
            (None, &[], Some(""), Policy::Bwlock, false, "user"),
            (None, &[], Some("a:b"), Policy::Bwlock, false, "user"),
        ] {
            let error = of(job, lock, user, policy, windows).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
