//! Least distances between commands that share a rank, a bank group or the data bus, derived from a
//! timing set.
//!
//! Classes: one for each kind of command and bank group of the channel (kinds ACT, RD, WR), one for
//! PRE of each rank. A class has one earliest time; a command moves the times of the classes it
//! restricts. Restrictions within a bank (tRCD, tRAS, tRP, tRTP, tWR) live with the bank.

use crate::spec::{MAX_GROUPS, Spec};

/// Most classes: three kinds for each bank group, and PRE for each rank.
pub(crate) const CLASSES: usize = 128;
const GROUPS: usize = MAX_GROUPS as usize;

/// Class of ACT, RD or WR in bank group 0 of the channel; bank group `g` is `g` further.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes {
    pub act: usize,
    pub rd: usize,
    pub wr: usize,
    pub pre: usize,
}

/// Distances, in cycles.
#[derive(Clone, Debug)]
pub(crate) struct Gaps {
    pub classes: Classes,
    pub groups: usize,
    /// Distances from a RD in a bank group to RD and WR in every one: `groups` of each.
    pub after_rd: Vec<[u64; 2 * GROUPS]>,
    /// The same from a WR.
    pub after_wr: Vec<[u64; 2 * GROUPS]>,
    /// Distances from an ACT to ACT in every bank group.
    pub after_act: Vec<[u64; GROUPS]>,
    /// RD to PRE of its bank.
    pub rd_to_pre: u64,
    /// WR to PRE of its bank.
    pub wr_to_pre: u64,
    /// RD to the end of its data.
    pub rd_data: u64,
    /// WR to the end of its data.
    pub wr_data: u64,
    pub rcd: u64,
    pub rp: u64,
    pub ras: u64,
    pub faw: u64,
    pub rfc: u64,
    pub refi: u64,
    pub ppd: u64,
    /// Cycles of ACT, RD and WR on the command bus.
    pub command: u64,
}

impl Gaps {
    pub fn new(spec: &Spec) -> Self {
        let (o, t) = (&spec.organisation, &spec.timing);
        let groups = o.channel_groups() as usize;
        let c = |v: u32| u64::from(v);
        let burst = c(o.burst / 2);
        let (cl, cwl) = (c(t.cl), c(t.cwl));
        let write_l = if t.t_ccd_l_write > 0 { c(t.t_ccd_l_write) } else { c(t.t_ccd_l) };
        // The data bus rests when its driver changes: rank to rank, rank to controller. Where a
        // rule of the data bus gives less than one cycle, the command bus decides.
        let rank_switch = burst + c(t.t_rtrs);
        let rd_to_wr = (cl + rank_switch).saturating_sub(cwl);
        let wr_to_rd_other = (cwl + rank_switch).saturating_sub(cl);
        let rank_of = |g: usize| g / o.bank_groups as usize;
        let column = |read: bool| {
            let from = |a: usize| {
                let mut row = [0; 2 * GROUPS];
                for b in 0..groups {
                    let (same_group, same_rank) = (a == b, rank_of(a) == rank_of(b));
                    let ccd = if same_group { c(t.t_ccd_l) } else { c(t.t_ccd_s) }.max(burst);
                    let wtr = if same_group { c(t.t_wtr_l) } else { c(t.t_wtr_s) };
                    let (to_rd, to_wr) = match (read, same_rank) {
                        (true, true) => (ccd, rd_to_wr),
                        (true, false) => (rank_switch, rd_to_wr),
                        (false, true) => {
                            (cwl + burst + wtr, if same_group { ccd.max(write_l) } else { ccd })
                        }
                        // The controller drives the bus for both.
                        (false, false) => (wr_to_rd_other, burst),
                    };
                    row[b] = to_rd;
                    row[groups + b] = to_wr;
                }
                row
            };
            (0..groups).map(from).collect()
        };
        let activate = |a: usize| {
            let mut row = [0; GROUPS];
            for (b, gap) in row.iter_mut().enumerate().take(groups) {
                *gap = match (a == b, rank_of(a) == rank_of(b)) {
                    (true, _) => c(t.t_rrd_l),
                    (false, true) => c(t.t_rrd_s),
                    (false, false) => 0,
                };
            }
            row
        };
        Self {
            classes: Classes { act: 0, rd: groups, wr: 2 * groups, pre: 3 * groups },
            groups,
            after_rd: column(true),
            after_wr: column(false),
            after_act: (0..groups).map(activate).collect(),
            rd_to_pre: c(t.t_rtp),
            wr_to_pre: cwl + burst + c(t.t_wr),
            rd_data: cl + burst,
            wr_data: cwl + burst,
            rcd: c(t.t_rcd),
            rp: c(t.t_rp),
            ras: c(t.t_ras),
            faw: c(t.t_faw),
            rfc: c(t.t_rfc),
            refi: c(t.t_refi),
            ppd: c(t.t_ppd),
            command: c(t.command_cycles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distances of JESD79-3F for DDR3-1333H, worked out by hand.
    #[test]
    fn ddr3_1333_distances() {
        let gaps = Gaps::new(&Spec::find("ddr3-1333").unwrap());
        assert_eq!(gaps.after_rd[0][..4], [4, 6, 8, 8]);
        assert_eq!(gaps.after_wr[0][..4], [16, 4, 4, 4]);
        assert_eq!(gaps.after_act[1][..2], [0, 4]);
        assert_eq!((gaps.rd_data, gaps.wr_to_pre), (13, 21));
    }
}
