/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: a program must lie in its frames before its first instruction, and a child of fork
 * again.
 * Rule: this library is initialised before all others. It gets the pool, puts its own state into
 * pool pages, starts the handler, and has it move the pages that are mapped already. A process that
 * cannot be coloured ends here, with a message of the reason.
 */
#define _GNU_SOURCE
#include "hooks.h"
#include "pipes.h"
#include "uffd.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

static void refuse(const char *why)
{
	static const char name[] = "solocore: the program was not started in its colours: ";
	raw(SYS_write, 2, name, sizeof name - 1);
	raw(SYS_write, 2, why, text_length(why));
	raw(SYS_write, 2, "\n", 1);
	for (;;)
		raw(SYS_exit_group, 3);
}

/* SOLOCORE_SPACE is NAME:PATH, an abstract socket and the configuration. */
static void open_all(struct state *s, const char *space)
{
	struct uffdio_api_ api = {UFFD_API_VERSION, FEATURE_FAULT_FLAG_WP | FEATURE_MOVE, 0};
	uint64_t probe = 1, entry = 0;
	size_t n = 0;
	while (space[n] && space[n] != ':')
		n++;
	s->socket = connect_to(space, n);
	if (s->socket < 0)
		refuse("the solocore that started it does not answer; start it again with solocore "
		       "exec "
		       "--colors");
	/* It stays open: the handler may not open what is root's. */
	s->chosen =
		space[n] ? (int)raw(SYS_openat, AT_FDCWD, space + n + 1, O_RDONLY | O_CLOEXEC) : -1;
	if (s->chosen < 0 || config_read(&s->config, s->chosen))
		refuse("its configuration cannot be read; start it again with solocore exec "
		       "--colors");
	s->reserve = heir_connect(s);
	s->uffd = (int)raw(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (s->uffd < 0 || failed(raw(SYS_ioctl, s->uffd, UFFDIO_API_, &api)))
		refuse("userfaultfd cannot move pages here; Linux 6.8 or newer and CAP_SYS_PTRACE "
		       "are "
		       "needed");
	s->pagemap = (int)raw(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	s->memory = (int)raw(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
	s->kpageflags = (int)raw(SYS_openat, AT_FDCWD, "/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	if (s->pagemap < 0 || s->memory < 0)
		refuse("/proc/self/pagemap cannot be opened; mount /proc");
	raw(SYS_pread64, s->pagemap, &entry, 8, (uint64_t)&probe / PAGE * 8);
	if (!(entry & FRAME_MASK))
		refuse("/proc/self/pagemap hides the frames; CAP_SYS_ADMIN is needed");
}

static uint64_t memory_bytes(void)
{
	struct {
		long uptime;
		unsigned long loads[3], total, rest[20];
	} info;
	return failed(raw(SYS_sysinfo, &info)) ? 1ul << 34 : info.total;
}

/* The pool's addresses: the shared page, the state, the doorbell, the stash, the queue; then pages
 * that were taken out, and raw pages that are examined; only these may not wait for this thread to
 * serve their faults. */
static void lay_out(struct state *s)
{
	uint64_t size = (memory_bytes() + (1ul << 30)) & ~((2ul << 20) - 1);
	uint64_t all = 3 * size + ZEROES_PAGES * PAGE;
	long base = raw(SYS_mmap, 0, all, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(base))
		refuse("there is no room for the pool's addresses; raise the limit on addresses "
		       "(ulimit -v)");
	s->base = (uint64_t)base;
	s->stash = s->base + (2 + STATE_PAGES) * PAGE;
	s->floor = s->head = s->tail = s->stash + MOST_LOCKED * PAGE;
	s->outside = s->out = s->base + size;
	s->end = s->raw = s->outside + size;
	s->zeroes = s->end + size;
	s->limit = s->base + all;
	raw(SYS_madvise, s->base, all, MADV_DONTFORK);
	raw(SYS_madvise, s->end, s->limit - s->end, MADV_NOHUGEPAGE);
	/* For processes that count the program's pages meanwhile (crates/space/src/audit.rs): these
	 * are not its own. */
	name_memory(s->outside, s->limit - s->outside, "solocore-looks");
	name_memory(s->stash, MOST_LOCKED * PAGE, "solocore-looks");
	name_memory(s->floor, s->outside - s->floor, "solocore-pool");
	if (register_range(s, s->base, s->end))
		refuse("userfaultfd does not take the pool");
}

static struct state *settle(struct state *early)
{
	struct state *s = (struct state *)(early->base + PAGE);
	if (pool_fill(early, early->config.prefill + STATE_PAGES + 1))
		refuse(early->why);
	for (uint64_t done = 0; done < STATE_PAGES + 1;) {
		long n = pool_place(early, early->base + done * PAGE, STATE_PAGES + 1 - done);
		if (n <= 0)
			refuse("the pool's first pages cannot be placed");
		done += (uint64_t)n;
	}
	early->grow = 512;
	early->next_look = now_ns() + 1000000000;
	copy_bytes(s, early, sizeof *s);
	raw(SYS_munmap, early, STATE_PAGES * PAGE);
	s->shared = (struct shared *)s->base;
	s->shared->pid = (int)raw(SYS_getpid, 0);
	s->shared->doorbell = s->base + (1 + STATE_PAGES) * PAGE;
	s->shared->base = s->base;
	s->shared->end = s->limit;
	return s;
}

static void begin(int forked, int held)
{
	uint64_t all = ~0ul, before;
	long early = raw(SYS_mmap, 0, STATE_PAGES * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(early))
		refuse("no memory is free");
	struct state *s = (struct state *)early;
	s->held = held;
	open_all(s, space_text + sizeof "SOLOCORE_SPACE=" - 1);
	lay_out(s);
	s = settle(s);
	long locked = send_packet(s, PACKET_HELLO, 0) ? -1 : wait_for_go(s, 0);
	if (locked < 0)
		refuse("the solocore that started it does not answer; start it again with solocore "
		       "exec "
		       "--colors");
	if (lock_read(s, locked))
		refuse("its locked pages cannot be read; start it again");
	if (pool_fill_locked(s))
		refuse(s->why);
	if (!forked && install_hooks())
		refuse("it does not use the GNU C library");
	raw(SYS_rt_sigprocmask, 2, &all, &before, 8);
	int thread = clone(handler_main, s->stack + HANDLER_STACK,
			   CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
				   CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
			   s, &s->handler, 0, &s->handler);
	if (thread >= 0)
		heir_start(s);
	raw(SYS_rt_sigprocmask, 2, &before, 0, 8);
	if (thread < 0)
		refuse("its handler of faults cannot be started; raise the limit on threads "
		       "(ulimit -u)");
	/* The handler has descriptors of its own. */
	int own[OWN_DESCRIPTORS];
	own_descriptors(s, own);
	for (unsigned i = 0; i < OWN_DESCRIPTORS; i++)
		if (own[i] >= 0)
			raw(SYS_close, own[i]);
	self = s->shared;
	self->ready = 1;
	call_handler(forked ? REQUEST_FORKED : REQUEST_LOADED, 0, 0, 0);
}

static void after_fork_in_parent(void)
{
	call_handler(REQUEST_FORKED, 0, 0, 0);
}

static void after_fork_in_child(void)
{
	self = 0;
	hold_forget();
	streams_forked();
	begin(1, 0);
}

static void keep(char *to, size_t size, const char *text)
{
	size_t n = text_length(text);
	if (n + 1 > size)
		refuse("LD_PRELOAD, SOLOCORE_SPACE or SOLOCORE_QUEUES is too long");
	copy_bytes(to, text, n + 1);
}

__attribute__((constructor)) static void start(int count, char **arguments, char **environment)
{
	(void)count;
	(void)arguments;
	for (char **entry = environment; entry && *entry; entry++) {
		if (starts_with(*entry, "SOLOCORE_SPACE="))
			keep(space_text, sizeof space_text, *entry);
		if (starts_with(*entry, "SOLOCORE_QUEUES="))
			keep(queues_text, sizeof queues_text, *entry);
		if (starts_with(*entry, "LD_PRELOAD=")) {
			/* The first of the list is this library. */
			char first[sizeof preload_text];
			size_t n = 0;
			while ((*entry)[n] &&
			       (n < 11 || ((*entry)[n] != ':' && (*entry)[n] != ' ')) &&
			       n + 1 < sizeof first)
				first[n] = (*entry)[n], n++;
			first[n] = 0;
			keep(preload_text, sizeof preload_text, first);
		}
	}
	if (!space_text[0])
		return;
	begin(0, hold_asked(environment));
	if (pipe_hooks())
		refuse("it does not use the GNU C library");
	pthread_atfork(0, after_fork_in_parent, after_fork_in_child);
	hold_until_release(environment);
}
