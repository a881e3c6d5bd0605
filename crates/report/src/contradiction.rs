//! An observation that contradicts the plan.
//!
//! Problem: a name may be the beginning of another one (`a`, and `a: b`), so the words of a
//! sentence do not tell its task. Rule: the task stands beside the sentence.

use maud::{Markup, Render, html};

/// One observation: simulated, or of a machine.
pub struct Contradiction {
    /// The task for which nothing is guaranteed then; `None`: it is about no task.
    task: Option<String>,
    /// Without its full stop.
    sentence: String,
}

impl Contradiction {
    /// About the task called `task`; its name is put before the sentence.
    pub fn of_task(task: &str, sentence: &str) -> Self {
        Self { task: Some(task.to_owned()), sentence: format!("{task}: {sentence}") }
    }

    /// About a CPU, a promise or a transfer, which the sentence names.
    pub fn of_other(sentence: String) -> Self {
        Self { task: None, sentence }
    }

    /// Is it about the task called `name`?
    pub fn is_about(&self, name: &str) -> bool {
        self.task.as_deref() == Some(name)
    }
}

impl Render for Contradiction {
    fn render(&self) -> Markup {
        html! { (self.sentence) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_is_about_its_task_alone() {
        let of = |task| Contradiction::of_task(task, "2 of 4 jobs missed the deadline");
        assert!(of("a: b").is_about("a: b") && !of("a: b").is_about("a"));
        assert_eq!(of("a").render().into_string(), "a: 2 of 4 jobs missed the deadline");
        assert!(!Contradiction::of_other("CPU 1: 2 jobs".to_owned()).is_about("CPU 1"));
    }
}
