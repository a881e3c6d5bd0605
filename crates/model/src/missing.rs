//! All keys that a file lacks, at once.
//!
//! Problem: a parser stops at the first key that is missing, and a platform file has forty. Rule:
//! the file's schema has the required keys of each table. Those that the text lacks are named
//! together, as `llc.ways`, and by number in lists, as `task[2].name`. Does not cover: keys that
//! are required by other keys; the checks report these.

use crate::ModelError;
use crate::kind::Kind;
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::path::Path;

/// Parses a TOML file of this type and kind.
///
/// # Errors
/// [`ModelError::Parse`], with every key that is missing; [`ModelError::Invalid`] if it is of
/// another kind.
pub fn parsed<T: DeserializeOwned + JsonSchema>(
    path: &Path,
    text: &str,
    kind: Kind,
) -> Result<T, ModelError> {
    let named = |error| match error {
        ModelError::Parse { path, line, column, message }
            if message.starts_with("missing field") =>
        {
            let message = all_named(message, &keys(&schema_for!(T), text));
            ModelError::Parse { path, line, column, message }
        }
        other => other,
    };
    toml::from_str(text)
        .map_err(|e| kind.explains(path, text, named(ModelError::from_toml(path, text, &e))))
}

/// The message with all keys, where several are missing.
fn all_named(message: String, keys: &[String]) -> String {
    if keys.len() < 2 {
        return message;
    }
    let names: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    format!("missing fields {}; add them", names.join(", "))
}

/// Required keys that the text lacks; none if the text is not TOML.
fn keys(schema: &Schema, text: &str) -> Vec<String> {
    let file = toml::from_str::<toml::Table>(text).ok();
    let Some(file) = file.and_then(|file| serde_json::to_value(file).ok()) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let root = schema.as_value();
    walk((root, root), &file, "", &mut out);
    out
}

/// Adds the required keys of the schema `node` that `value` lacks; references of `node` are in
/// `root`.
fn walk((root, node): (&Value, &Value), value: &Value, place: &str, out: &mut Vec<String>) {
    let Some(node) = resolved(root, node) else { return };
    if let (Value::Array(all), Some(items)) = (value, node.get("items")) {
        for (at, one) in (1..).zip(all) {
            let place = format!("{}[{at}].", place.trim_end_matches('.'));
            walk((root, items), one, &place, out);
        }
    }
    let Value::Object(table) = value else { return };
    let required = node.get("required").and_then(Value::as_array);
    let lacking = required.into_iter().flatten().filter_map(Value::as_str);
    out.extend(lacking.filter(|key| !table.contains_key(*key)).map(|key| format!("{place}{key}")));
    let Some(Value::Object(properties)) = node.get("properties") else { return };
    for (key, inner) in properties {
        if let Some(value) = table.get(key) {
            walk((root, inner), value, &format!("{place}{key}."), out);
        }
    }
}

/// The target of a reference; of several forms, the one of a table or a list.
fn resolved<'a>(root: &'a Value, node: &'a Value) -> Option<&'a Map<String, Value>> {
    let node = node.as_object()?;
    if let Some(place) = node.get("$ref").and_then(Value::as_str) {
        return resolved(root, root.pointer(place.strip_prefix('#')?)?);
    }
    let forms = ["anyOf", "oneOf", "allOf"].iter().find_map(|name| node.get(*name)?.as_array());
    let whole =
        |form: &&Map<String, Value>| form.contains_key("properties") || form.contains_key("items");
    let Some(forms) = forms else { return Some(node) };
    let found = forms.iter().filter_map(|form| resolved(root, form)).find(whole);
    Some(found.unwrap_or(node))
}
