"""Other allocators of cores, cache and bandwidth, rebuilt from their papers, for comparison with the planner.

`lp` is the joint 0-1 linear program, `cam` the heuristic of CaM. Both read the tables of `shares ... tables`
(crates/study/examples/shares.rs), and answer with allotments that `shares ... judge` takes.
"""
