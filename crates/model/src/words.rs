//! The words of a parser's error, for people who write TOML and JSON.
//!
//! Problem: serde names the types of Rust (`expected u32`, `expected struct Regulation`). Rule:
//! these become what a file would have there. Does not cover: the values that were found.

/// The message with the names of types in the user's words.
pub fn plain(message: &str) -> String {
    const FORMS: &str = "data did not match any variant of untagged enum";
    if message == "wanted string or table" {
        return "invalid type, expected a name in quotes".to_owned();
    }
    if message.starts_with(FORMS) {
        return "it has none of the allowed forms; see docs/reference.md".to_owned();
    }
    let Some((found, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    if !found.starts_with("invalid ") {
        return message.to_owned();
    }
    let found = match found.strip_prefix("invalid type: ") {
        Some("map") => "invalid type: a table",
        Some("sequence") => "invalid type: a list",
        _ => found,
    };
    format!("{found}, expected {}", of_type(expected))
}

/// The words of a file for a type.
fn of_type(name: &str) -> String {
    let most = match name {
        "u8" => Some(u64::from(u8::MAX)),
        "u16" => Some(u64::from(u16::MAX)),
        "u32" => Some(u64::from(u32::MAX)),
        _ => None,
    };
    if let Some(most) = most {
        return format!("a whole number from 0 to {most}");
    }
    let first = name.split(' ').next().unwrap_or(name);
    let words = match (name, first) {
        ("u64" | "u128" | "usize", _) => "a whole number, zero or more",
        ("i8" | "i16" | "i32" | "i64" | "i128" | "isize", _) => "a whole number",
        ("f32" | "f64", _) => "a number",
        ("a string" | "string", _) => "a text in quotes",
        ("a sequence", _) => "a list",
        ("a map", _) | (_, "struct" | "internally" | "adjacently") => "a table",
        ("variant identifier", _) | (_, "enum") => "a name in quotes",
        (_, "tuple") => "a list",
        _ => name,
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn types_of_rust_become_words() {
        for (said, words) in [
            ("invalid type: map, expected u64", "a table, expected a whole number, zero or more"),
            ("invalid type: integer `3`, expected struct Regulation", "`3`, expected a table"),
            ("invalid type: integer `3`, expected a sequence", "`3`, expected a list"),
            ("invalid type: integer `3`, expected a string", "`3`, expected a text in quotes"),
            (
                "invalid value: integer `-8`, expected u8",
                "`-8`, expected a whole number from 0 to 255",
            ),
            ("invalid length 0, expected struct Platform with 13 elements", "0, expected a table"),
            ("wanted string or table", "expected a name in quotes"),
        ] {
            assert!(plain(said).ends_with(words), "{}", plain(said));
        }
        let others = [
            "invalid type: integer `100`, expected a time with its unit, like \"10 ms\"",
            "unknown variant `E`, expected one of `A`, `B`",
            "missing field `name`",
        ];
        others.into_iter().for_each(|said| assert_eq!(plain(said), said));
    }
}
