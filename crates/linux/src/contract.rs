//! The contracts with the BPF programs (`bpf/*_intf.h`) and with their clients
//! (`client/c/solocore_page.h`).
//!
//! Problem: two languages share memory; a field that moves must not go unnoticed. Rule: the structs
//! and numbers here are made of the C headers when this crate is built (`build.rs`), under their
//! names there. A test compares them with the type information in the compiled programs.
//! Does not cover: the kernel's own structs; the programs find their offsets by themselves.

#![allow(missing_docs, non_camel_case_types, dead_code, reason = "as in C")]

use libbpf_rs::{MapCore, MapFlags};
use zerocopy::{FromBytes, Immutable, IntoBytes};

include!(concat!(env!("OUT_DIR"), "/contract.rs"));

/// The struct in these bytes; all zero where their length differs.
pub(crate) fn read<T: FromBytes>(bytes: &[u8]) -> T {
    T::read_from_bytes(bytes).unwrap_or_else(|_| T::new_zeroed())
}

/// The value of a map at a key: a number or a descriptor.
pub(crate) fn look_up<T: FromBytes>(map: &impl MapCore, key: u32) -> libbpf_rs::Result<Option<T>> {
    Ok(map.lookup(key.as_bytes(), MapFlags::ANY)?.map(|bytes| read(&bytes)))
}

/// Puts a value into a map.
pub(crate) fn put(
    map: &impl MapCore,
    key: u32,
    value: &(impl IntoBytes + Immutable),
) -> libbpf_rs::Result<()> {
    map.update(key.as_bytes(), value.as_bytes(), MapFlags::ANY)
}

/// Text in an array that ends with a zero or fills the array.
pub(crate) fn text(of: &(impl IntoBytes + Immutable)) -> String {
    let bytes = of.as_bytes();
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Writes a text into an array, cut to its length.
#[cfg(test)]
pub(crate) fn set_text(place: &mut (impl IntoBytes + FromBytes), text: &str) {
    for (place, byte) in place.as_mut_bytes().iter_mut().zip(text.bytes()) {
        *place = byte;
    }
}

#[cfg(test)]
mod tests {
    use crate::regulate::bpf::{FUNCTIONS, HELPER, LEVELS, SCHED_EXT, VCPU};
    use libbpf_rs::HasSize;
    use libbpf_rs::btf::{Btf, types::MemberAttr, types::Struct};
    use std::collections::BTreeSet;

    const MADE: &str = include_str!(concat!(env!("OUT_DIR"), "/contract.rs"));

    /// The sizes that bindgen asserts after these words: a name and its number of bytes.
    fn asserted(what: &'static str) -> impl Iterator<Item = (&'static str, usize)> {
        MADE.split(what).skip(1).map(|rest| {
            let (name, rest) = rest.split_once('"').unwrap();
            let number = rest.split_once("usize]").unwrap().0.rsplit_once("- ").unwrap().1;
            (name, number.parse().unwrap())
        })
    }

    /// Every struct of the contracts has the same layout here as in the compiled programs that use
    /// it.
    #[test]
    fn the_layouts_are_those_of_the_objects() {
        let mut seen = BTreeSet::new();
        for object in [SCHED_EXT, HELPER, LEVELS, VCPU, FUNCTIONS] {
            let btf = Btf::from_raw("object", object).unwrap().expect("compiled with -g");
            for (name, size) in asserted("[\"Size of ") {
                let Some(whole) = btf.type_by_name::<Struct<'_>>(name) else { continue };
                assert_eq!(whole.size(), size, "{name}");
                seen.insert(name);
            }
            for (path, offset) in asserted("[\"Offset of field: ") {
                let (name, field) = path.split_once("::").unwrap();
                let Some(whole) = btf.type_by_name::<Struct<'_>>(name) else { continue };
                let member = whole.iter().find(|m| m.name.is_some_and(|n| n == field));
                let place = member.unwrap_or_else(|| panic!("no {path}")).attr;
                assert!(
                    matches!(place, MemberAttr::Normal { offset: bits } if bits as usize == 8 * offset),
                    "{path}"
                );
            }
        }
        // Structs that only cross a socket, a ring or a client's memory are in no program's types.
        let all: BTreeSet<&str> = asserted("[\"Size of ").map(|(name, _)| name).collect();
        let unseen: Vec<&&str> = all.difference(&seen).collect();
        let untyped =
            ["run_ended_job", "sc_answer", "sc_page", "sc_request", "sc_slot", "sc_transfer"];
        assert_eq!(unseen, untyped.iter().collect::<Vec<_>>());
    }
}
