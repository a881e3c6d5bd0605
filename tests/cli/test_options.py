"""An option acts, or the command refuses it: none is ignored silently."""

import pytest

UNUSED = [
    (("profile", "--jobs", 3, "--", "true"), "--jobs", "--engine perf"),
    (("profile", "--cpu", 0, "--", "true"), "--cpu", "--engine perf"),
    (("profile", "--event", "llc-misses", "--", "true"), "--event", "--engine perf"),
    (("profile", "--write-event", "r8e7", "--", "true"), "--write-event", "--engine perf"),
    (("profile", "--base", "a.json", "--", "true"), "--base", "--engine perf"),
    (("profile", "--warm", "--", "true"), "--warm", "--engine perf"),
    # As typed, even if it is the default.
    (("profile", "--job", "process", "--", "true"), "--job", "--engine perf"),
    (("profile", "--engine", "perf", "--base", "a.json", "--trace-limit", 5, "--", "true"), "--trace-limit", "--base"),
    (("profile", "--from", "run.json", "--plan", "p.json", "--task", "t", "--platform", "p4080"), "--platform", "--from"),
    (("profile", "--from", "run.json", "--plan", "p.json", "--task", "t", "--input", "x"), "--input", "--from"),
    (("profile", "--from", "run.json", "--plan", "p.json", "--task", "t", "--timeout", "1 s"), "--timeout", "--from"),
    (("profile", "--from", "run.json", "--plan", "p.json", "--task", "t", "--warm"), "--warm", "--from"),
    (("exec", "--pool", "4 MiB", "--", "true"), "--pool", "--colors"),
    (("exec", "--pages", "p.json", "--core", 0, "--", "true"), "--pages", "--colors"),
    (("exec", "--queues", "all", "--core", 0, "--", "true"), "--queues", "--colors"),
    (("run", "plan.json", "--queues", "all"), "--queues", "--colors"),
    (("exec", "--map", "map.txt", "--", "true"), "--map", "--colors"),
    (("exec", "--platform", "p4080", "--", "true"), "--platform", "--colors"),
    (("exec", "--lock-bandwidth", "50 MB/s", "--core", 0, "--budget", "5 MB/s", "--", "true"), "--lock-bandwidth", "--lock-function"),
    (("exec", "--lock-bandwidth", "50 MB/s", "--", "true"), "--lock-bandwidth", "--lock"),
    (("exec", "--event", "page-faults", "--core", 0, "--", "true"), "--event", "--budget"),
    (("exec", "--engine", "helper", "--ways", 2, "--", "true"), "--engine", "--budget"),
    (("exec", "--colors", "0-3", "--engine", "helper", "--", "true"), "--engine", "--budget"),
    (("vcpu", "serve", "--memory-period", "1 s"), "--threshold", ""),
    (("vcpu", "serve", "--idle", 0.5), "--threshold", ""),
    (("vcpu", "serve", "--monitor", "2ms/20ms"), "--threshold", ""),
    (("dram", "--pattern", "chase", "--load", "1 GB/s"), "--load", "random"),
    (("dram", "--pattern", "attack", "--writes", 0.5), "--writes", "random"),
    (("dram", "--pattern", "random", "--attackers", 2), "--attackers", "attack"),
    (("dram", "--pattern", "chase", "--outstanding", 2), "--outstanding", "attack"),
    (("dram", "--pattern", "stream4", "--same-bank"), "--same-bank", "attack"),
    (("dram", "--pattern", "chase-stream", "--random-rows"), "--random-rows", "attack"),
]


@pytest.mark.parametrize(("arguments", "option", "instead"), UNUSED, ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "")
def test_an_option_without_an_effect_is_refused(solocore, tmp_path, arguments, option, instead):
    done = solocore(*arguments)
    assert done.code == 2 and option in done.err and instead in done.err, done.err
    assert [path.name for path in tmp_path.iterdir()] == ["cache-home"], "nothing was written"


NEGATIVE = [
    ("sim", "--duration", "-1ms", "negative"),
    ("plan", "--time-limit", "-5 s", "negative"),
    ("dram", "--load", "-5GB/s", "negative"),
    ("exec", "--pool", "-1MiB", "negative"),
    ("vcpu serve", "--balance", "-1ms", "negative"),
    ("dram", "--writes", "-0.5", "--writes -0.5 is not a share"),
    ("sim", "--seed", "-1", "invalid value '-1' for '--seed"),
    ("exec", "--core", "-1", "invalid value '-1' for '--core"),
]


@pytest.mark.parametrize(("command", "option", "value", "words"), NEGATIVE)
def test_a_negative_quantity_is_named(solocore, command, option, value, words):
    more = {"exec": ["--", "true"], "dram": ["--pattern", "random"], "vcpu serve": []}.get(command, ["x.toml"])
    done = solocore(*command.split(), option, value, *more)
    assert done.code == 2 and option in done.err and words in done.err, done.err
