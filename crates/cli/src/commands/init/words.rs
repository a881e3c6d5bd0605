//! A command line as words, by the rules of a shell.
//!
//! Problem: a task's command is a list of words, and users have command lines.
//! Rule: quotes and backslashes are a shell's. Words that a shell would expand or redirect are
//! refused, because no shell runs the command later.
//! Source: POSIX.1-2024, Shell Command Language, sections 2.2 (Quoting) and 2.6 (Word Expansions).
//! Does not cover: aliases and key words; they are programs that are not found.

/// The words of a command line.
///
/// # Errors
/// The line asks for something that only a shell does; the message names it and its replacement.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    if let Some(what) = active(line) {
        let what = what.escape_debug();
        return Err(format!(
            "no shell runs a task, and `{what}` asks for one; quote it as '{what}', or leave it out"
        ));
    }
    let words = shlex::split(line).ok_or("a quote or a backslash has no end; close it")?;
    match words.first() {
        None => Err("there is no command in it; give a program and its arguments".to_owned()),
        Some(first) if first.is_empty() => {
            Err("the name of its program is empty; give a program and its arguments".to_owned())
        }
        Some(first) if is_assignment(line, first) => Err(format!(
            "no shell runs a task, and `{first}` sets a variable; set it for solocore itself"
        )),
        Some(_) => Ok(words),
    }
}

/// The first character with a special meaning for a shell.
fn active(line: &str) -> Option<char> {
    let mut quote = None;
    let mut before = ' ';
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('"') | None, '\\') => drop(chars.next()),
            (Some(q), c) if c == q => quote = None,
            (Some('"') | None, '$' | '`') => return Some(c),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '*' | '?' | '[' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '\n') => {
                return Some(c);
            }
            (None, '~' | '#') if before.is_whitespace() => return Some(c),
            // `{}` alone is a word like any other.
            (None, '{') if chars.peek() != Some(&'}') => return Some(c),
            (None, _) => {}
        }
        before = c;
    }
    None
}

/// Whether `first` is an assignment `NAME=value` before the program.
fn is_assignment(line: &str, first: &str) -> bool {
    let name = first.split_once('=').map_or("", |(name, _)| name);
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(word)
        && line.trim_start().starts_with(&format!("{name}="))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, words) in [
            ("xz -k -c file", &["xz", "-k", "-c", "file"][..]),
            ("  a\t b ", &["a", "b"]),
            ("a 'b c' \"d e\" f\\ g", &["a", "b c", "d e", "f g"]),
            ("a '$x' '*' '~' \\$y \"\\$z\" \\|", &["a", "$x", "*", "~", "$y", "$z", "|"]),
            ("a '' b#c d~ e=f", &["a", "", "b#c", "d~", "e=f"]),
            ("find . -exec echo {} +", &["find", ".", "-exec", "echo", "{}", "+"]),
            ("a '\"' \"'\" '*\\'", &["a", "\"", "'", "*\\"]),
            ("a 'two\nlines' ü", &["a", "two\nlines", "ü"]),
            ("'A=b' c", &["A=b", "c"]),
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(split(line), Ok(words), "{line}");
        }
    }

    #[test]
    fn what_a_shell_would_do_is_refused() {
        for (line, word) in [
            ("a $x", "`$`"),
            ("a \"$x\"", "`$`"),
            ("a `b`", "``"),
            ("a *.c", "`*`"),
            ("a [bc]", "`[`"),
            ("a b?", "`?`"),
            ("a | b", "`|`"),
            ("a > b", "`>`"),
            ("a < b", "`<`"),
            ("a; b", "`;`"),
            ("a & b", "`&`"),
            ("(a)", "`(`"),
            ("a ~/b", "`~`"),
            ("a # b", "`#`"),
            ("a {b,c}", "`{`"),
            ("a\nb", "`\\n`"),
            ("X=1 a", "`X=1`"),
            ("a 'b", "no end"),
            ("a \"b", "no end"),
            ("a b\\", "no end"),
            ("", "no command"),
            (" \t", "no command"),
            ("'' a", "empty"),
        ] {
            let error = split(line).expect_err(line);
            assert!(error.contains(word) && error.contains("; "), "{line}: {error}");
        }
    }
}
