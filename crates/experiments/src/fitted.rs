//! The parameters that follow from the papers' numbers, and the numbers that test them.
//!
//! Problem: a number that a parameter was fitted to agrees by itself. Rule: [`ALL`] lists each such
//! parameter, the numbers that it is fitted to, and those that are held out. The first are not
//! claims: the page says that they cannot be tested. Parameters that a paper states are in the
//! words of each experiment, and so are those that are assumed without a number.

/// A parameter, or several that are fitted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// Paper, as in the names of its experiments.
    pub paper: &'static str,
    /// What it is, and its value.
    pub parameter: &'static str,
    /// The numbers that it is fitted to, or follows from.
    pub to: &'static str,
    /// Experiments whose claims it enters without having been fitted to them, and what is tested.
    pub tested: &'static [(&'static str, &'static str)],
}

/// Claims that test a parameter of SCE's benchmarks.
const BENCHMARKS: &[(&str, &str)] = &[
    ("sce-table1", "all ratios"),
    ("sce-table2", "the times under MemGuard"),
    ("sce-fig12", "all claims"),
];

/// All of them.
pub const ALL: &[Fitted] = &[
    Fitted {
        paper: "sce",
        parameter: "the way of a request to the memory of the P4080 (the platform's file)",
        to: "`L_max` of section 4",
        tested: &[
            ("sce-fig1", "all claims"),
            ("sce-fig2", "the claims of this board"),
            ("sce-fig6", "all claims"),
            ("sce-fig10", "all claims"),
        ],
    },
    Fitted {
        paper: "sce",
        parameter: "an access alone takes 49.6 ns: idle rows are closed, the shared cache is \
            looked up in 12 cycles",
        to: "`L_max` of section 4",
        tested: BENCHMARKS,
    },
    Fitted {
        paper: "sce",
        parameter: "misses and computation of seven benchmarks",
        to: "Table 2: `Solo` and `C_sce`, by eq. (1)",
        tested: BENCHMARKS,
    },
    Fitted {
        paper: "sce",
        parameter: "half of the pages have 75 % of the accesses",
        to: "section 4 and Fig. 11",
        tested: &[("sce-table1", "all ratios"), ("sce-fig12", "all claims")],
    },
    Fitted {
        paper: "dynamic",
        parameter: "accesses take 32.5 % of canrdr's time; a program's banks are among 3",
        to: "the odd rows of Table I. The even rows decided that programs are loaded again for \
            each pairing",
        tested: &[
            ("dynamic-table1", "the even rows, the co-runners"),
            ("dynamic-fig3", "all claims"),
            ("dynamic-fig4", "all claims"),
        ],
    },
    Fitted {
        paper: "maracas",
        parameter: "the way of a request to the memory",
        to: "Table II: the latency at E3",
        tested: &[
            ("maracas-fig2", "all claims"),
            ("maracas-fig5", "all but the latency at E3"),
            ("maracas-fig6", "all claims"),
            ("maracas-fig7", "all claims"),
        ],
    },
    Fitted {
        paper: "maracas",
        parameter: "m_jump has one request under way; delays of 25 to 600 cycles",
        to: "Table II: traffic times latency, and the progress of task3, at E1 and E3",
        tested: &[
            ("maracas-fig5", "the growth of the latency, E2. Its traffic is not free of this"),
            ("maracas-fig6", "all claims"),
            ("maracas-fig7", "all claims"),
        ],
    },
    Fitted {
        paper: "maracas",
        parameter: "mwalk writes each 40 cycles",
        to: "section VI-D: with 2 MB it may use up its 6 ms",
        tested: &[("maracas-fig9", "all claims"), ("maracas-fig10", "all claims")],
    },
    Fitted {
        paper: "mc2",
        parameter: "300 cycles of a function beside its copy",
        to: "Fig. 8: the four numbers of load_msg",
        tested: &[("mc2-fig8", "the four numbers of do_msg_fill, the order of CE and CL")],
    },
    Fitted {
        paper: "mc2",
        parameter: "four line fills under way for a core",
        to: "assumed; Observation 2 refuted two, which Fig. 8 speaks for",
        tested: &[
            ("mc2-fig12", "all claims"),
            ("mc2-fig13", "all claims"),
            ("mc2-fig14", "all claims"),
            ("mc2-table1", "all claims"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_tested_by_experiments_of_its_paper() {
        for f in ALL {
            assert!(!f.tested.is_empty(), "{}", f.parameter);
            for (id, _) in f.tested {
                assert!(crate::find(id).is_some() && id.starts_with(f.paper), "{id}");
            }
        }
    }
}
