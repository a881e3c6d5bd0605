//! Whether a task's program is the one that was profiled.
//!
//! Problem: a demand holds for the program that was profiled, and a rebuilt one, or another
//! library, takes another time. Rule: the plan has the contents of program and libraries as SHA-256
//! (`PlanTask::program_files`). They are compared before anything is started; while the run goes
//! on, the files' identities are. A difference opens the promise of the demand. Does not cover:
//! inputs; programs that the program starts; libraries that it loads here and did not load as it
//! was profiled.

use super::placed::How;
use sha2::{Digest, Sha256};
use solocore_model::plan::{Answer, PlanTask, Promise};
use solocore_model::profile::{FileState, InputFile};
use std::fs::{File, metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Numbers of a file that change when its content does.
type Identity = (u64, u64, u64, i64, i64, i64, i64);

/// The program of a task, compared with its profile.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    /// Name of the task.
    pub task: String,
    /// The first difference.
    other: Option<String>,
    files: Vec<(PathBuf, Option<Identity>)>,
}

impl Compared {
    /// Compares the program that a task starts or is; `None` where the plan does not know the
    /// program's content, or nothing runs.
    pub fn of(task: &PlanTask, how: &How) -> Option<Self> {
        let (program, libraries) = task.program_files.split_first()?;
        let path = match how {
            How::Start(command) => PathBuf::from(command.first()?),
            How::Attach(pid) => PathBuf::from(format!("/proc/{pid}/exe")),
            How::Drive(_) | How::NotRun => return None,
        };
        let all: Vec<(&Path, &InputFile)> = std::iter::once((path.as_path(), program))
            .chain(libraries.iter().map(|l| (l.path.as_path(), l)))
            .collect();
        // Before the content is read: a change while it is read is seen later.
        let files = all.iter().map(|(path, _)| (path.to_path_buf(), identity(path))).collect();
        let other = all.iter().find_map(|(path, file)| difference(path, file));
        Some(Self { task: task.name.clone(), other, files })
    }

    /// The answer to the promise of its demand.
    pub fn answer(&self, promise: &Promise) -> Answer {
        let changed = || {
            let other = |(path, seen): &&(PathBuf, Option<Identity>)| identity(path) != *seen;
            let found = self.files.iter().find(other)?;
            Some(format!("{} has changed since the run began", found.0.display()))
        };
        match self.other.clone().or_else(changed) {
            Some(what) => Answer::open(
                promise,
                true,
                format!("{what}; profile it again and plan again, or give --vouch demand"),
            ),
            None => Answer::kept(
                promise,
                "profile",
                false,
                "as profiled, with the inputs that were profiled; program and libraries are the \
                    same (SHA-256)",
            ),
        }
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let m = metadata(path).ok()?;
    Some((m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()))
}

fn difference(path: &Path, file: &InputFile) -> Option<String> {
    let FileState::File { size, sha256 } = &file.state else { return None };
    let name = path.display();
    match content(path, *size) {
        Ok(Some(found)) if found == *sha256 => None,
        Ok(_) if file.is_library() => {
            Some(format!("the library {name} is not that of the profile"))
        }
        Ok(_) => Some(format!("{name} is not the program that was profiled")),
        Err(e) => Some(format!("{name}, which the profile rests on, cannot be read: {e}")),
    }
}

/// SHA-256 of a file in hexadecimal digits; `None` if it has another size.
fn content(path: &Path, size: u64) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    if file.metadata()?.size() != size {
        return Ok(None);
    }
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hash.update(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::Plan;
    use solocore_model::plan::Subject;

    /// A task with a program and a library, and their folder.
    fn profiled() -> (PlanTask, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let plan: Plan =
            serde_json::from_str(include_str!("../../tests/plan.json")).expect("a plan");
        let mut task = plan.tasks[0].clone();
        for (name, text) in [("program", "one"), ("libx.so.1", "two")] {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            let sha256 = content(&path, 3).unwrap().unwrap();
            task.program_files.push(InputFile { path, state: FileState::File { size: 3, sha256 } });
        }
        (task, dir)
    }

    fn start(path: &Path) -> How {
        How::Start(vec![path.display().to_string()])
    }

    fn promise() -> Promise {
        Promise::new(Subject::Demand, "task t", vec!["t".into()], String::new())
    }

    #[test]
    fn a_rebuilt_program_or_another_library_opens_the_demand() {
        let (task, dir) = profiled();
        let program = dir.path().join("program");
        let same = Compared::of(&task, &start(&program)).unwrap();
        assert!(same.answer(&promise()).kept_by.is_some());
        // A copy of it elsewhere is the same program.
        let copy = dir.path().join("copy");
        std::fs::copy(&program, &copy).unwrap();
        let answer = Compared::of(&task, &start(&copy)).unwrap().answer(&promise());
        assert!(answer.kept_by.is_some(), "{answer:?}");
        for (name, words) in
            [("program", "not the program"), ("libx.so.1", "not that of the profile")]
        {
            let (task, dir) = profiled();
            let before = Compared::of(&task, &start(&dir.path().join("program"))).unwrap();
            std::fs::write(dir.path().join(name), "oho").unwrap();
            let now = Compared::of(&task, &start(&dir.path().join("program"))).unwrap();
            let why = now.answer(&promise()).why;
            assert!(why.contains(words) && why.contains("--vouch demand"), "{why}");
            let why = before.answer(&promise()).why;
            assert!(why.contains("has changed since the run began"), "{why}");
            std::fs::remove_file(dir.path().join(name)).unwrap();
            let gone = Compared::of(&task, &start(&dir.path().join("program"))).unwrap();
            assert!(gone.answer(&promise()).why.contains("cannot be read"));
        }
        let (task, _dir) = profiled();
        let other = Compared::of(&task, &start(Path::new("/bin/true"))).unwrap();
        assert!(other.answer(&promise()).why.contains("not the program that was profiled"));
        assert!(Compared::of(&task, &How::NotRun).is_none());
    }
}
