//! Directory of kept profiles: no other user can write to it.
//!
//! Problem: a plan trusts a kept profile, so a writer of profiles decides verdicts. Rule: the
//! directory belongs to this user, is not a symbolic link, and lets nobody else write; so does each
//! directory above it, or it is root's, or sticky as `/tmp` is. A named directory that breaks this
//! rule is refused with the command that repairs it. Without a name the first of these is taken
//! that is this user's: `$XDG_CACHE_HOME`, `$HOME/.cache`, `/run/user/UID`, and a directory of this
//! user's own in `/tmp`. (Under `sudo`, `HOME` may belong to another user.)
//! Not covered: access control lists, and root, who may write anywhere.

use crate::error::ProfileError;
use solocore_model::ModelError;
use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Finds or makes the directory.
///
/// # Errors
/// [`ProfileError::Input`] for a directory that others may write to.
pub fn find(named: Option<&Path>) -> Result<PathBuf, ProfileError> {
    if let Some(dir) = named {
        return private(dir);
    }
    let uid = user();
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = variable("HOME").map(|home| home.join(".cache"));
    let places = [variable("XDG_CACHE_HOME"), home, Some(format!("/run/user/{uid}").into())];
    for base in places.into_iter().flatten().filter(|base| base.is_absolute()) {
        // A directory of another user is not used, and nothing is made in it.
        let there = base.ancestors().find(|dir| dir.exists());
        let theirs = there.and_then(|dir| fs::metadata(dir).ok());
        if theirs.is_some_and(|meta| meta.uid() == uid) {
            return private(&base.join("solocore/profiles"));
        }
    }
    private(&std::env::temp_dir().join(format!("solocore-{uid}/profiles")))
}

/// The directory, made if it is missing, unless others may write to it.
fn private(dir: &Path) -> Result<PathBuf, ProfileError> {
    let unmade = |source| ModelError::Write { path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(unmade)?;
    let own = fs::symlink_metadata(dir).map_err(unmade)?;
    if own.is_symlink() {
        return Err(refused(dir, "is a symbolic link", "name the directory that it points to"));
    }
    let dir = dir.canonicalize().map_err(unmade)?;
    let uid = user();
    let name = dir.display();
    if own.uid() != uid {
        let whose = format!("belongs to user {}", own.uid());
        let mend = format!("name another, or: chown {uid} {name}");
        return Err(refused(&dir, &whose, &mend));
    }
    if own.mode() & 0o022 != 0 {
        let mend = format!(
            "another user may have changed its profiles: empty it, then: chmod go-w {name}"
        );
        return Err(refused(&dir, "lets others write", &mend));
    }
    for above in dir.ancestors().skip(1) {
        let meta = fs::metadata(above).map_err(unmade)?;
        if let Some(why) = replaceable(&meta, uid) {
            let why = format!("lies in {}, which {why}", above.display());
            let mend = format!("name another, or: chmod go-w {}", above.display());
            return Err(refused(&dir, &why, &mend));
        }
    }
    Ok(dir)
}

/// Reason why another user could replace a directory in here.
fn replaceable(meta: &Metadata, uid: u32) -> Option<String> {
    const STICKY: u32 = 0o1000;
    if meta.uid() != uid && meta.uid() != 0 {
        return Some(format!("belongs to user {}", meta.uid()));
    }
    let others = meta.mode() & 0o022 != 0 && meta.mode() & STICKY == 0;
    others.then(|| "lets others write".to_owned())
}

fn refused(dir: &Path, why: &str, mend: &str) -> ProfileError {
    ProfileError::Input(format!(
        "{}: {why}, and the writer of a profile decides a verdict; {mend}",
        dir.display()
    ))
}

/// This process's effective user.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn why(dir: &Path) -> String {
        private(dir).expect_err("it is refused").to_string()
    }

    #[test]
    fn only_a_private_directory_is_taken() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("a/b");
        assert_eq!(private(&dir).unwrap(), dir.canonicalize().unwrap());
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        mode(&dir, 0o770).unwrap();
        assert!(why(&dir).contains("chmod go-w"), "{}", why(&dir));
        mode(&dir, 0o755).unwrap();
        private(&dir).unwrap();
        mode(&top.path().join("a"), 0o777).unwrap();
        assert!(why(&dir).contains("lies in"), "{}", why(&dir));
        mode(&top.path().join("a"), 0o1777).unwrap();
        private(&dir).unwrap();
        let link = top.path().join("link");
        symlink(&dir, &link).unwrap();
        assert!(why(&link).contains("symbolic link"), "{}", why(&link));
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("theirs");
        private(&dir).unwrap();
        // Only root can give a directory away.
        if std::os::unix::fs::chown(&dir, Some(12345), None).is_ok() {
            assert!(why(&dir).contains("belongs to user 12345"), "{}", why(&dir));
        }
    }
}
