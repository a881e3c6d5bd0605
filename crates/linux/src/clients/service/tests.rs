//! An owner exists as long as the thread with its number and its start time.

use super::*;

#[test]
fn a_thread_is_a_number_and_a_start() {
    let me = std::process::id();
    let mine = start_of(me, me).expect("this process lives");
    assert!(lives(
        me,
        Owner {
            scope: Scope::Thread,
            number: me,
            started: mine,
            endless: false,
            task: None,
            slot: None
        }
    ));
    assert!(!lives(
        me,
        Owner {
            scope: Scope::Thread,
            number: me,
            started: mine + 1,
            endless: false,
            task: None,
            slot: None
        }
    ));
}
