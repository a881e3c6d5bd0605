# Targets: demo, test, docs, vm-quick, vm-test, build, install, uninstall, carried, deb, deb-arm64, install-test, client, python, lint, bench, fuzz, nightly, clean. `make demo` and `make test` install what they need.
# Targets of the policies' checks take EVENTS (random events), FUZZ (seconds a mechanism) and MUTANTS (0: all).
.PHONY: install uninstall plugins carried deb deb-arm64 install-test install-test-arm64 docs python python-test preload policy-test demo test vm-quick vm-test vm-test-aarch64 build client vision lint unit-test vision-test cli-test pages-test browser-test bench fuzz nightly setup-demo setup-lint setup-test clean

SOLOCORE := target/release/solocore
export SOLOCORE
PYTEST := build/venv/bin/pytest -q -p no:cacheprovider
# On both processors, the tests of a module in the same order, and modules as they were collected (tests/cli/conftest.py).
PYTESTS := $(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder
DEMO := build/demo

# Builds the command and its profiler, which is all that the demo runs.
demo: SOLOCORE = target/demo/solocore
demo: setup-demo vision
	$(if $(BUILT),,cargo build --profile demo --locked -p solocore-cli -p solocore-profile-plugin --no-default-features)
	$(SOLOCORE) assess examples/vision/system.toml -o $(DEMO) --duration "500 ms"

# One build for all tests, the one with checks of overflow. Nothing runs beside the tests of the crates, as some of them regulate
# the machine. Debian's packages come first: the Python packages of the tests arrive while the sources are checked.
test: setup-lint
	$(MAKE) --no-print-directory -j2 --output-sync=target setup-test lint
	cargo build --workspace --all-targets --locked --quiet
	$(MAKE) --no-print-directory unit-test
	$(MAKE) --no-print-directory -j2 --output-sync=target policy-test pages-test SOLOCORE=target/debug/solocore BUILT=1
	$(MAKE) --no-print-directory cli-test python-test vm-quick SOLOCORE=target/debug/solocore BUILT=1
	@echo "all tests passed"

setup-demo:
	@scripts/setup.sh demo

setup-lint:
	@scripts/setup.sh lint

setup-test:
	@scripts/setup.sh test

# The checks of the policies need more packages than the product does.
build:
	$(if $(BUILT),,cargo build --release --locked --workspace --exclude solocore-policy-check)

# The library for programs that hold the bandwidth lock, and its pkg-config file; `make -C client/c install PREFIX=...` installs.
client:
	@$(MAKE) --no-print-directory -s -C client/c OUT=$(CURDIR)/build/client

# The Python package, as a wheel in build/wheels; `pip install ./python` makes and installs the same.
python: setup-test
	build/venv/bin/python -m maturin build --locked -m python/Cargo.toml -o build/wheels

# The library that `solocore exec --colors` preloads, alone; the command carries its own copy.
preload:
	@$(MAKE) --no-print-directory -s -C crates/space/preload OUT=$(CURDIR)/build/preload

# What is handed out and put in its place: packaging/Makefile. `make install` takes what `make build` has made.
install uninstall plugins carried deb deb-arm64 install-test install-test-arm64:
	@$(MAKE) --no-print-directory -f packaging/Makefile $@

# The book, in build/docs.
docs: setup-test
	NO_MKDOCS_2_WARNING=1 build/venv/bin/mkdocs build --strict --quiet
	@echo "the book: build/docs/index.html"

vision:
	@$(MAKE) --no-print-directory -s -C examples/vision

# A header that compiles alone includes what it uses. The functions of engine.h are an engine's.
BPF_ALONE := $${CLANG:-clang} -target bpf -fsyntax-only -Wall -Werror -Wno-unused -Wno-undefined-internal -ffreestanding \
	-DSC_MAX_TASKS=1024u -Ipolicy/include -I/usr/include/$$(uname -m)-linux-gnu -x c

lint: setup-lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h')
	@for header in bpf/*.h; do $(BPF_ALONE) $$header || exit 1; done

# Examples in comments are tested where there are some: a search of each crate for them takes a second.
unit-test: setup-test
	cargo test --workspace --locked --quiet --lib --bins --tests
	cargo test --locked --quiet --doc -p solocore-client

EVENTS ?= 600000
FUZZ ?= 2
MUTANTS ?= 80

# The run-time decisions: the same events through the C, the kernel's BPF, the Rust binding and the reference
# models; sanitizers, fuzzing, proofs, and whether these tests would notice a mistake.
policy-test: setup-test
	policy/tests/all.sh $(EVENTS) $(FUZZ) $(MUTANTS)

vision-test: setup-test vision
	$(PYTESTS) tests/vision

cli-test: setup-test build
	$(if $(BUILT),SOLOCORE_STUDY_PROBLEMS=target/debug/examples/problems) $(PYTESTS) tests/cli tests/study

# The Python package, with the extension that the build of the command has made beside it.
python-test: setup-test build
	$(PYTESTS) tests/python

# Regulation in guests with Debian's kernels: one with sched_ext, one without. Needs the archive the first time.
VM_PERIODS ?= 2000
vm-test: setup-test build
	tests/vm/test.sh $(SOLOCORE) $(VM_PERIODS)

# The same in a guest of another architecture, by a counter that really interrupts.
vm-test-aarch64: setup-test build
	@scripts/setup.sh aarch64
	tests/vm/aarch64.sh $(SOLOCORE)
	tests/vm/colours.sh

# The shortest form of it: guests with each kernel, at the same time, and three faults of each kind under both engines.
# Skipped, and said to be, only if the kernels cannot be fetched.
vm-quick: setup-test build
	@mkdir -p build
	@export VM_SKIP=1 VM_SET="TIMES=3 ALONE=5"; \
	VM_PARTS="endure away" VM_KERNELS=6.19.14:sched-ext tests/vm/test.sh $(SOLOCORE) >build/vm-quick.log 2>&1 & first=$$!; \
	VM_PARTS=quick tests/vm/test.sh $(SOLOCORE); second=$$?; \
	wait $$first; first=$$?; cat build/vm-quick.log; [ $$first$$second = 00 ]

pages-test: vision-test
	$(MAKE) --no-print-directory browser-test

# The page that the demo makes is the one that is tested, with as many frames: its numbers are compared with docs/demo.md.
browser-test: setup-test build vision
	$(SOLOCORE) assess examples/vision/system.toml -o build/demo-test --duration "500 ms"
	SOLOCORE_REPORT=build/demo-test/report.html $(PYTESTS) tests/browser

bench: setup-test build vision
	python3 bench/profiler.py
	cargo build --release --locked --quiet -p solocore-policy-check
	target/release/policy-check --bench
	python3 bench/dram.py
	python3 bench/planning.py
	python3 bench/regulation.py || test $$? = 3
	python3 bench/changes.py || test $$? = 3
	build/venv/bin/python bench/study.py
	cargo run --release --locked --quiet -p solocore-sim --example speed 20
	cargo run --release --locked --quiet -p solocore-sim --example fluid_speed
	cargo bench --locked --quiet -p solocore-analysis
	python3 bench/lock.py
	build/venv/bin/python bench/python.py
	python3 bench/machine.py
	$(SOLOCORE) bench ipc --rounds 20
	$(SOLOCORE) bench lockdown || test $$? = 3
	$(SOLOCORE) bench function-lock || test $$? = 3
	python3 bench/queues.py || test $$? = 3

# A million mutated inputs: messages of clients, requests for metrics, plans, runs and journals, a fifth each.
fuzz: setup-test
	FUZZ_INPUTS=200000 cargo test --locked --quiet -p solocore-linux --lib -- any_ no_message no_request no_plan

# Stock kernels of Debian 13 and its backports, with the engine that must run by itself.
KERNELS := 6.12:helper 6.19.14:sched-ext 7.0.13:sched-ext 7.1.13:helper 7.2.12:helper 7.3.4:sched-ext

# What is too slow for every change: the demo for other seeds, long random tests, other allocators, packages, licences.
nightly: test bench
	$(MAKE) --no-print-directory policy-test EVENTS=10000000 FUZZ=60 MUTANTS=0
	for seed in 2 3 4 5; do $(SOLOCORE) assess examples/vision/system.toml -o build/nightly-$$seed --seed $$seed --duration "3 s" || exit 1; done
	PROPTEST_CASES=20000 BOUNDS_CASES=3000 ATTACKS=10000 SOLOCORE_SETS=100000 SOLOCORE_CASES=1000 SOLOCORE_STUDY_SYSTEMS=200 SOLOCORE_STUDY_ENUMERATE=20000 cargo test --workspace --locked --release --quiet
	$(MAKE) --no-print-directory fuzz
	SOLOCORE_STUDY_MILP=5000 $(PYTEST) -s tests/study
	cargo test --release --locked --quiet -p solocore-experiments -- --ignored
	build/venv/bin/python bench/shares.py --peers --count 3 --check
	build/venv/bin/python bench/proofs.py --least 70
	build/venv/bin/python bench/referee.py --count 20
	! build/venv/bin/python bench/referee.py --first 6 --count 8 --spoil 0.5
	build/venv/bin/pip install --quiet --disable-pip-version-check drs==2.0.1 pandas==3.1.1 polars==2.1.0
	SOLOCORE_PYTHON_SETS=100000 SOLOCORE_PYTHON_SWEEP=10000000 SOLOCORE_PYTHON_DRS=1 SOLOCORE_PYTHON_FRAMES=1 SOLOCORE_PYTHON_NETNS=1 \
		SOLOCORE_PYTHON_INSTALL=1 $(PYTEST) -s tests/python
	SOLOCORE_BOARD_CACHE=$(CURDIR)/build/board tests/board/model.sh
	BOARD_BOOTS=1 $(PYTEST) tests/cli/test_board.py tests/cli/test_board_figures.py tests/cli/test_board_messages.py tests/cli/test_board_measure.py tests/cli/test_sim_board.py tests/cli/test_profile_counted.py tests/cli/test_verify.py
	AXE_ALL=1 SOLOCORE_REPORT=build/demo-test/report.html $(PYTESTS) tests/browser
	VM_SECONDS=3600 VM_KERNELS="6.19.14:sched-ext 7.0.13:sched-ext 7.2.12:helper" $(MAKE) --no-print-directory vm-test VM_PERIODS=10000
	VM_SECONDS=3600 VM_KERNELS=6.19.14:sched-ext VM_PARTS="vcpu-cost vcpu-figures vcpu-drill" $(MAKE) --no-print-directory vm-test
	for kernel in 6.19.14:sched-ext 7.2.12:helper; do \
		rm -f build/endure && VM_KERNELS=$$kernel tests/vm/endure.sh $(SOLOCORE) build/endure 100 || exit 1; done
	VM_MEMORY=2G VM_KERNELS=6.19.14:sched-ext VM_PARTS=pages $(MAKE) --no-print-directory vm-test
	VM_SECONDS=14400 VM_PARTS=hours $(MAKE) --no-print-directory vm-test
	VM_SECONDS=3600 VM_KERNELS="$(KERNELS)" VM_PARTS=quick $(MAKE) --no-print-directory vm-test
	VM_SECONDS=3600 VM_MEMORY=4G VM_KERNELS=7.2.12:helper VM_PARTS=reserve $(MAKE) --no-print-directory vm-test
	VM_SECONDS=7200 VM_SET=COPY=3600 VM_MEMORY=4G VM_KERNELS=6.19.14:sched-ext VM_PARTS=reserve $(MAKE) --no-print-directory vm-test
	VM_SECONDS=3600 VM_KERNELS="7.0.13:sched-ext 7.3.4:sched-ext" VM_PARTS="servers groups away" $(MAKE) --no-print-directory vm-test
	VM_SECONDS=7200 VM_KERNELS=6.19.14-rt:sched-ext VM_PARTS="quick regulate servers groups away" $(MAKE) --no-print-directory vm-test VM_PERIODS=50000
	VM_SECONDS=3600 $(MAKE) --no-print-directory vm-test-aarch64
	VM_SECONDS=3600 tests/vm/camera.sh $(SOLOCORE)
	tests/vm/forks.sh 10000 || test $$? = 3
	$(MAKE) --no-print-directory install-test
	$(MAKE) --no-print-directory install-test-arm64
	BOOK=1 $(PYTEST) tests/cli/test_book_commands.py
	command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny
	cargo deny --offline check licenses bans sources

clean:
	cargo clean
	rm -rf build examples/buffers/build examples/vision/build
