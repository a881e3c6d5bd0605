//! Impossible descriptions are refused, with the key that is wrong.

use super::*;

#[test]
fn impossible_values_name_their_key() {
    for (toml, key) in [
        ("kind = \"latency\"\nsize = \"0 B\"", "size"),
        ("kind = \"latency\"\nsize = \"100 B\"", "size"),
        ("kind = \"latency\"\nsize = 4096", "with its unit"),
        ("kind = \"latency\"\nsize = \"16777216 GiB\"", "size"),
        ("kind = \"latency\"\ngap = \"0 cycles\"", "gap"),
        ("kind = \"latency\"\nsiez = \"4 KiB\"", "siez"),
        ("kind = \"latency\"\njob = { passes = 0 }", "job.passes"),
        ("kind = \"latency\"\njob = { turns = 1 }", "turns"),
        ("kind = \"m_jump\"\ndelay = \"2000000 cycles\"", "delay"),
        ("kind = \"m_jump\"\njump = \"100 MiB\"", "jump"),
        ("kind = \"bandwidth\"\nrate = \"0 B/s\"", "rate"),
        ("kind = \"bandwidth\"\naccess = \"copy\"", "copy"),
        ("kind = \"matrix\"\ndimension = 0", "dimension"),
        ("kind = \"message-sender\"\nsize = \"3 B\"", "size"),
        ("kind = \"message-sender\"\nword = \"3 B\"", "word"),
        ("kind = \"framecopy\"\nframes = 0", "frames"),
        ("kind = \"ssd-load\"\ninterval = \"0 s\"", "interval"),
        ("kind = \"phases\"", "sections"),
        ("kind = \"phases\"\nsections = [{ accesses = 5 }]", "sections[0].size"),
        (
            "kind = \"phases\"\nsections = [{ cycles = \"5 cycles\", writes = 2.0 }]",
            "sections[0].writes",
        ),
        (
            "kind = \"phases\"\nsections = [{ cycles = \"5 cycles\", writes = nan }]",
            "sections[0].writes",
        ),
        (
            "kind = \"phases\"\nsections = [{ cycles = \"5 cycles\" }]\njob = { accesses = 3 }",
            "job.accesses",
        ),
        ("kind = \"cortex\"\nlock = \"1\"\njob = { accesses = 3 }", "job.accesses"),
        ("kind = \"spread\"\nmisses = 3", "wcet"),
        ("kind = \"profile-like\"\nmisses = 3", "wcet"),
        ("kind = \"eembc\"\nmemory = 0.9\nbenchmark = \"pntrch\"", "memory"),
        ("kind = \"trace\"", "file"),
        ("kind = \"trace\"\nfile = \"no/such/file\"", "no/such/file"),
        ("kind = \"profile\"\nfile = \"no/such/file\"", "no/such/file"),
    ] {
        let message = refusal(toml);
        assert!(message.contains(key) && message.lines().count() == 1, "{toml}: {message}");
    }
}
