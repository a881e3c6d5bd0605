//! The least change that suffices.
//!
//! Problem: a planning answers for one value only, and may refuse a value. Rule ([`least`]): values
//! are numbered from 0, the smallest change; the value of the file, which does not suffice, stands
//! before them. If the largest change and those at a quarter, half and three quarters of it do not
//! suffice, no value is taken to suffice. Else steps of doubling length find the first value that
//! suffices or is refused, and bisection the edge before it. The found value suffices, and the one
//! before it does not. The planner's choices are not monotone in every value: a smaller change may
//! suffice where its neighbours do not. So the values before the edge are tried one by one as well
//! ([`nearer`]), while plannings are left. Does not cover: values that suffice where none of the
//! four does.

/// Result of a planning with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Every analysed task meets its deadline.
    Meets,
    /// Some task may miss its deadline.
    Misses,
    /// The system file cannot have the value, or the planner refuses it.
    Refused,
}

/// The error that no more plannings are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

/// The number of the least change of `count` that suffices; `None` if there is none.
pub fn least(
    count: u64,
    mut ask: impl FnMut(u64) -> Result<Answer, Cut>,
) -> Result<Option<u64>, Cut> {
    let mut far = None;
    for quarters in (1..=4).rev() {
        let at = (count.saturating_mul(quarters) / 4).saturating_sub(1);
        if count > 0 && ask(at)? != Answer::Misses {
            far = Some(at);
            break;
        }
    }
    // Everything below `from` misses, and `to` meets.
    let Some(far) = far else { return Ok(None) };
    let (mut from, mut to, mut stride) = (0, far, 1);
    let mut at_end = Answer::Meets;
    while from < to {
        let at = (from + stride - 1).min(to - 1);
        match ask(at)? {
            Answer::Misses => from = at + 1,
            other => {
                (to, at_end) = (at, other);
                break;
            }
        }
        stride *= 2;
    }
    while from < to {
        let middle = from + (to - from) / 2;
        match ask(middle)? {
            Answer::Misses => from = middle + 1,
            other => (to, at_end) = (middle, other),
        }
    }
    // The far one was tried first; a caller that counts plannings remembers it.
    let found = if to == far { ask(to)? } else { at_end };
    Ok((found == Answer::Meets).then_some(to))
}

/// The first value before `edge` that suffices, else the edge.
pub fn nearer(edge: u64, mut ask: impl FnMut(u64) -> Result<Answer, Cut>) -> Result<u64, Cut> {
    for at in 0..edge {
        if ask(at)? == Answer::Meets {
            return Ok(at);
        }
    }
    Ok(edge)
}

/// The distance of neighbours with three digits or fewer beside those of `from`.
pub fn step_of(from: u64) -> u64 {
    10u64.pow(from.max(1).ilog10().saturating_sub(2))
}

/// Whole multiples of `step`, from the first above `from` to `to`.
pub fn above(from: u64, to: u64, step: u64) -> impl Fn(u64) -> Option<u64> {
    let first = from / step + 1;
    move |at| first.checked_add(at)?.checked_mul(step).filter(|&v| v <= to)
}

/// The same from the first below `from` down to `step`.
pub fn below(from: u64, step: u64) -> impl Fn(u64) -> Option<u64> {
    let count = from.saturating_sub(1) / step;
    move |at| count.checked_sub(at).filter(|&n| n > 0).map(|n| n * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Values that miss up to an edge, then meet, then are refused: the edge is found with few
        /// plannings.
        #[test]
        fn the_edge_is_found(count in 0u64..100_000, meets in 0u64..100_000, does in 0u64..100_000) {
            let mut asked = 0;
            let found = least(count, |at| {
                asked += 1;
                assert!(at < count);
                Ok(match at {
                    at if at < meets => Answer::Misses,
                    at if at < meets + does => Answer::Meets,
                    _ => Answer::Refused,
                })
            });
            prop_assert_eq!(found, Ok(Some(meets).filter(|&m| m < count && does > 0)));
            prop_assert!(asked <= 2 * 17 + 5, "{}", asked);
        }

        #[test]
        fn values_are_multiples_beyond_the_files(from in 1u64..10_000_000) {
            let step = step_of(from);
            prop_assert!(from / step < 1000 && (step == 1 || from / step >= 100));
            let (up, down) = (above(from, 3 * from, step), below(from, step));
            prop_assert!(up(0).unwrap_or(3 * from) > from && down(0).unwrap_or(0) < from);
            prop_assert!(up(0).is_none_or(|v| v - from <= step) && down(0).is_none_or(|v| from - v <= step));
            prop_assert!(up(2000).is_none() && down(1000).is_none());
        }
    }

    #[test]
    fn a_cut_is_passed_on() {
        let mut left = 3;
        let answer = least(1000, |at| {
            left -= 1;
            if left == 0 {
                Err(Cut)
            } else {
                Ok(if at == 999 { Answer::Meets } else { Answer::Misses })
            }
        });
        assert_eq!(answer, Err(Cut));
    }

    #[test]
    fn an_island_before_the_edge_is_found() {
        let ask = |at: u64| Ok(if at >= 90 || at == 70 { Answer::Meets } else { Answer::Misses });
        assert_eq!(least(1000, ask), Ok(Some(90)));
        assert_eq!(nearer(90, ask), Ok(70));
        assert_eq!(nearer(70, ask), Ok(70));
        assert_eq!(nearer(90, |at| if at < 50 { Ok(Answer::Misses) } else { Err(Cut) }), Err(Cut));
    }
}
