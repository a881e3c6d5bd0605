//! The locked pages of a program, which get frames of colours that its other pages do not get.
//!
//! Problem: a plan names locked pages by region and offset, and each process has them elsewhere.
//! Rule: when a process of the program begins, its mappings are read before the library moves
//! pages, because moved ones no longer have the name of their file. The addresses go to the
//! library, which puts each of these pages into a frame of the colour that it was given
//! (crates/space/preload, locked.c). The library says where a numbered mapping lies. Pages are then
//! counted from outside, by /proc/PID/pagemap: found are those with an address, present those that
//! the process has used, verified those in frames of their colours. One process at a time has the
//! locked pages of its program, the first that begins. Source: single-core-equivalence, section 2.3
//! (Colored Lockdown). Does not cover: other processes of the program; the cache itself, whose
//! lines no program can see.

use crate::audit::Audit;
use crate::map::{Choice, Map, PAGE, PAGE_BITS};
use crate::named::{Mappings, mapping_number};
use crate::sys::frame_of;
use crate::wire::{Locked, MOST_LOCKED, Packet};
use solocore_model::profile::PageName;
use std::fs::File;
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;

/// Pages to lock, and the frames of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The map by which these are colours: of a sliced cache whose hash is known,
    /// [`Map::with_slices`].
    pub map: Map,
    /// The pages, each with its colour.
    pub pages: Vec<(PageName, u32)>,
    /// Number of anonymous mappings that the loader makes before the program; `None`: unknown, so
    /// that numbered mappings cannot be found.
    pub loader: Option<u32>,
    /// Frames of the other pages; its first functions are those of the colours.
    pub ordinary: Choice,
    /// A colour of the other pages.
    pub rest: u32,
}

/// The locked pages of a process at a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub pid: u32,
    /// Pages that are to be locked.
    pub planned: u64,
    /// Those with an address.
    pub found: u64,
    /// Those that this process will never have: no region of it has them, or another mapping took
    /// their place.
    pub lost: u64,
    /// Addresses of those that the process has used.
    pub present: Vec<u64>,
    /// Those in frames of their colours.
    pub verified: u64,
    /// Those that the library put into frames of their colours; known at the end of the process.
    pub moved: Option<u64>,
    /// Other pages in the colours of locked ones; counted at the end of the process.
    pub strays: u64,
}

/// The process that has the locked pages.
#[derive(Debug)]
struct Holder {
    socket: RawFd,
    pid: u32,
    /// Of each page of [`Wanted`], its address.
    addresses: Vec<Option<u64>>,
}

/// Locked pages of a program, and the process that has them.
#[derive(Debug)]
pub(crate) struct Lockdown {
    wanted: Wanted,
    holder: Option<Holder>,
}

impl Lockdown {
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, holder: None }
    }

    /// A process begins. It gets these locked pages, if no other process has them.
    pub fn begin(&mut self, socket: RawFd, pid: u32) -> Vec<Locked> {
        if self.holder.is_some() {
            return Vec::new();
        }
        let mappings = Mappings::of(pid).unwrap_or_default();
        let place = |page: &PageName| mappings.place(page);
        let addresses: Vec<Option<u64>> =
            self.wanted.pages.iter().map(|(page, _)| place(page)).collect();
        let pages = self.wanted.pages.iter().zip(&addresses);
        let locked = pages.filter_map(|((page, colour), address)| {
            let (at, mapping) = match address {
                Some(address) => (*address, 0),
                None => (page.offset.checked_mul(PAGE)?, self.wanted.number(page)?),
            };
            Some(Locked { at, mapping, colour: *colour })
        });
        let locked = locked.take(MOST_LOCKED).collect();
        self.holder = Some(Holder { socket, pid, addresses });
        locked
    }

    /// A process has made a mapping: pages that were there have gone, and those of its number have
    /// come.
    pub fn mapped(&mut self, socket: RawFd, packet: &Packet) {
        let Some(holder) = self.holder.as_mut().filter(|h| h.socket == socket) else { return };
        let range = packet.move_ns..packet.all_ns;
        for ((page, _), address) in self.wanted.pages.iter().zip(&mut holder.addresses) {
            if address.is_some_and(|at| range.contains(&at)) {
                *address = None;
            }
            let number = self.wanted.number(page).map(u64::from);
            if number == Some(packet.request) {
                let at = page.offset.checked_mul(PAGE).and_then(|at| at.checked_add(range.start));
                *address = at.filter(|at| range.contains(at));
            }
        }
    }

    /// A process has gone, or is about to end.
    pub fn gone(&mut self, socket: RawFd) {
        self.holder = self.holder.take().filter(|h| h.socket != socket);
    }

    /// The pages of the process that has them, if there is one; of this socket, if it is given.
    pub fn look(&self, socket: Option<RawFd>) -> Option<Found> {
        let holder = self.holder.as_ref().filter(|h| socket.is_none_or(|s| s == h.socket))?;
        let pagemap = File::open(format!("/proc/{}/pagemap", holder.pid)).ok()?;
        let mut found =
            Found { pid: holder.pid, planned: self.wanted.pages.len() as u64, ..Found::default() };
        for ((page, colour), address) in self.wanted.pages.iter().zip(&holder.addresses) {
            let Some(address) = *address else {
                // A numbered mapping may still come.
                found.lost += u64::from(self.wanted.number(page).is_none());
                continue;
            };
            found.found += 1;
            let mut entry = [0; 8];
            let read = pagemap.read_exact_at(&mut entry, address / PAGE * 8);
            let frame = read.ok().and_then(|()| frame_of(u64::from_ne_bytes(entry)));
            if let Some(frame) = frame {
                found.present.push(address);
                let right = self.wanted.map.colour(frame << PAGE_BITS) == *colour;
                found.verified += u64::from(right);
            }
        }
        Some(found)
    }

    /// The pages of a process that is about to end, if it has them; `moved` of them were put into
    /// frames of their colours. `wrong` of its private pages lie in no colour of the program.
    pub fn end(&mut self, socket: RawFd, moved: u64, wrong: u64) -> Option<Found> {
        let found = self.look(Some(socket))?;
        self.gone(socket);
        let audit = Audit::of(found.pid, &self.wanted.ordinary).unwrap_or_default();
        let strays = audit.anonymous.wrong.saturating_sub(found.verified.saturating_add(wrong));
        Some(Found { moved: Some(moved), strays, ..found })
    }

    /// The configuration's words for it: bits of the colour, and a colour of other pages.
    pub fn words(&self) -> (u64, u64) {
        ((1 << self.wanted.map.colours.len()) - 1, u64::from(self.wanted.rest))
    }
}

impl Wanted {
    /// The number of a page's mapping, by the order in which the program makes them, from 1.
    fn number(&self, page: &PageName) -> Option<u32> {
        let number = mapping_number(&page.region)?.checked_sub(self.loader?)?;
        (number > 0).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(region: &str, offset: u64) -> PageName {
        PageName { region: region.to_owned(), offset }
    }

    /// Frames have colour 0 or 1; colour 1 is for locked pages.
    fn lockdown(pages: Vec<(PageName, u32)>, loader: Option<u32>) -> Lockdown {
        let map = Map { colours: vec![1 << 12], banks: vec![], slices: Vec::new() };
        let ordinary = Choice::new(&map, Some(&[0]), None).unwrap();
        Lockdown::new(Wanted { map, pages, loader, ordinary, rest: 0 })
    }

    #[test]
    fn numbered_mappings_follow_those_of_the_loader() {
        let pages = vec![(page("mmap#3", 2), 1), (page("mmap#2", 0), 1), (page("mmap#4", 1), 1)];
        let mut two = lockdown(pages.clone(), Some(2));
        let locked = two.begin(5, std::process::id());
        let of = |mapping, at| Locked { at, mapping, colour: 1 };
        assert_eq!(locked, [of(1, 0x2000), of(2, 0x1000)], "the loader's own are not found");
        assert!(two.begin(6, std::process::id()).is_empty(), "another process has them");
        let mapped = |request, move_ns, all_ns| Packet {
            request,
            move_ns,
            all_ns,
            ..Packet::new(crate::wire::kind::MAPPED, "")
        };
        two.mapped(5, &mapped(1, 0x10_0000, 0x10_4000));
        two.mapped(6, &mapped(2, 0x20_0000, 0x20_4000));
        let addresses = |l: &Lockdown| l.holder.as_ref().unwrap().addresses.clone();
        assert_eq!(addresses(&two), [Some(0x10_2000), None, None]);
        assert_eq!(two.look(None).unwrap().lost, 1, "the loader's; the third may come");
        two.mapped(5, &mapped(2, 0x20_0000, 0x20_1000));
        assert_eq!(addresses(&two), [Some(0x10_2000), None, None], "it is shorter than planned");
        two.mapped(5, &mapped(9, 0x10_2000, 0x10_3000));
        assert_eq!(addresses(&two), [None; 3], "another mapping took its place");
        assert_eq!(two.look(Some(6)), None);
        two.gone(6);
        assert!(two.holder.is_some());
        two.gone(5);
        assert!(two.holder.is_none() && two.look(None).is_none());
        let mut unknown = lockdown(pages, None);
        assert!(unknown.begin(5, std::process::id()).is_empty());
    }

    /// A page of this process lies in a frame of one of two colours.
    #[test]
    fn pages_are_counted_by_their_frames() {
        let pages = |colour| vec![(page("stack", 0), colour), (page("no such file", 0), 1)];
        let verified: Vec<u64> = [0, 1]
            .into_iter()
            .map(|colour| {
                let mut lockdown = lockdown(pages(colour), Some(0));
                assert_eq!(lockdown.begin(5, std::process::id()).len(), 1);
                let found = lockdown.look(None).unwrap();
                assert_eq!((found.planned, found.found, found.lost), (2, 1, 1));
                assert_eq!(found.present.len(), 1);
                found.verified
            })
            .collect();
        assert_eq!(verified.iter().sum::<u64>(), 1, "{verified:?}");
    }
}
