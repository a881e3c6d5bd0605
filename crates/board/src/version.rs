//! Versions as numbers, so that 7.0.13 comes after 7.0.4.

/// The numbers of a version, for comparison.
pub fn key(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

/// The upstream part of a Debian version: `11.1.3` of `1:11.1.3+ds-1~bpo13+1`.
pub fn upstream(debian: &str) -> &str {
    let without_epoch = debian.split_once(':').map_or(debian, |(_, v)| v);
    without_epoch.split(['+', '-', '~']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_as_numbers() {
        assert!(
            key("7.0.13") > key("7.0.4")
                && key("11.0") <= key("11.1.3")
                && key("10.0.13") < key("11.0")
        );
    }

    #[test]
    fn debian_adds_an_epoch_and_a_revision() {
        assert_eq!(upstream("1:11.1.3+ds-1~bpo13+1"), "11.1.3");
        assert_eq!(upstream("6.12.107-1"), "6.12.107");
    }
}
