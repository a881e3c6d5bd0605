//! Lists in sentences.

/// The items one after the other, with commas between them.
#[must_use]
pub fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn commas_lie_between_items() {
        assert_eq!(list([0, 2, 5]), "0, 2, 5");
        assert_eq!((list([7_u32]), list(Vec::<u32>::new())), ("7".to_owned(), String::new()));
    }
}
