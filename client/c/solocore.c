/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libsolocore (solocore.h describes its purpose): attaching to the daemon, and the two words of the
 * page.
 *
 * Rule: the state of a thread is thread-local, so the calls need no lock. All attached threads are
 * in a list, for the child of a fork, which must close their connections: the daemon takes an open
 * connection for a living client. The page is not inherited by children at all (MADV_DONTFORK).
 */
#define _GNU_SOURCE
#include "solocore.h"
#include "solocore_page.h"
#include "solocore_receive.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The daemon answers at once, unless it is stopped. */
#define PATIENCE_S 2

struct client {
	struct sc_page *page; /* 0: not attached, or `yields` */
	int yields;	      /* 1: attached without a page, and a yield ends a job */
	int tried;	      /* 1: do not attach by itself any more */
	int status;	      /* why it is not attached */
	int socket;
	unsigned long long max_hold_ns;
	struct client *next, *before; /* in the list of attached threads */
};

static __thread struct client self;
static struct client attached = {.next = &attached, .before = &attached};
static pthread_mutex_t attached_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;

static void unlink_client(struct client *c)
{
	c->next->before = c->before;
	c->before->next = c->next;
	c->next = c->before = NULL;
}

static void detach(struct client *c)
{
	if (!c->page && !c->yields)
		return;
	if (c->page) {
		__atomic_store_n(&c->page->sections, 0, __ATOMIC_RELAXED);
		munmap(c->page, SC_PAGE_BYTES);
	}
	c->page = NULL;
	c->yields = 0;
	pthread_mutex_lock(&attached_mutex);
	unlink_client(c);
	pthread_mutex_unlock(&attached_mutex);
	close(c->socket);
}

static void thread_ends(void *c)
{
	detach(c);
	/* Calls that run after this in the ending thread do not attach it again. */
	((struct client *)c)->tried = 1;
	((struct client *)c)->status = SC_NO_DAEMON;
}

static void before_fork(void)
{
	pthread_mutex_lock(&attached_mutex);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&attached_mutex);
}

/* Only the thread that forked is left, and the pages are not there. */
static void in_child(void)
{
	while (attached.next != &attached) {
		struct client *c = attached.next;

		close(c->socket);
		unlink_client(c);
		c->page = NULL;
		c->yields = 0;
		c->tried = 0;
	}
	pthread_mutex_unlock(&attached_mutex);
}

static void prepare(void)
{
	pthread_key_create(&at_thread_end, thread_ends);
	pthread_atfork(before_fork, after_fork, in_child);
}

static int connect_daemon(int flags)
{
	const char *path = secure_getenv("SOLOCORE_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd;

	if (!path)
		path = SC_CLIENT_SOCKET;
	if (strlen(path) >= sizeof(address.sun_path))
		return -SC_NO_DAEMON;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | flags, 0);
	if (fd < 0)
		return -SC_SYSTEM;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		int denied = errno == EACCES || errno == EPERM;

		close(fd);
		return denied ? -SC_DENIED : -SC_NO_DAEMON;
	}
	return fd;
}

/* Receives the answer; the descriptor that came with it, any number for SC_BY_YIELD, or a negative
 * status. */
static int receive(int socket, struct sc_answer *answer)
{
	static const int meanings[] = {SC_REFUSED, SC_DENIED,  SC_FULL,
				       SC_UNKNOWN, SC_REFUSED, SC_NO_DAEMON};
	int fd = -SC_REFUSED;
	ssize_t got = receive_with_file(socket, answer, sizeof(*answer), &fd);

	if (got != (ssize_t)sizeof(*answer))
		return -SC_NO_DAEMON;
	if (answer->verdict != SC_GRANTED && fd >= 0)
		close(fd);
	if (answer->verdict == SC_BY_YIELD)
		return 0;
	if (answer->verdict != SC_GRANTED)
		return -meanings[answer->verdict <= SC_NOT_SERVED ? answer->verdict : 0];
	return fd;
}

/* Gets a page, or none (SC_BY_YIELD). On success the connection is left in *socket. */
static int ask(uint32_t scope, const char *task, int flags, int *socket, struct sc_page **page,
	       struct sc_answer *answer)
{
	struct sc_request request = {.protocol = SC_PROTOCOL, .scope = scope};
	int fd, map;

	if (strlen(task) >= sizeof(request.task))
		return SC_UNKNOWN;
	request.thread = (uint32_t)syscall(SYS_gettid);
	strcpy(request.task, task);
	fd = connect_daemon(flags);
	if (fd < 0)
		return -fd;
	if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) != (ssize_t)sizeof(request)) {
		close(fd);
		return SC_NO_DAEMON;
	}
	map = receive(fd, answer);
	if (map < 0) {
		close(fd);
		return -map;
	}
	*socket = fd;
	if (answer->verdict == SC_BY_YIELD)
		return SC_OK;
	*page = mmap(NULL, SC_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	close(map);
	if (*page == MAP_FAILED) {
		close(fd);
		return SC_SYSTEM;
	}
	madvise(*page, SC_PAGE_BYTES, MADV_DONTFORK);
	return SC_OK;
}

static int attach(struct client *c, uint32_t scope, const char *task)
{
	struct sc_answer answer = {0};
	struct sc_page *page = NULL;
	int saved = errno;

	pthread_once(&prepared, prepare);
	c->tried = 1;
	c->status = ask(scope, task, SOCK_CLOEXEC, &c->socket, &page, &answer);
	errno = saved;
	if (c->status != SC_OK)
		return c->status;
	c->max_hold_ns = answer.max_hold_ns;
	pthread_mutex_lock(&attached_mutex);
	c->next = attached.next;
	c->before = &attached;
	c->next->before = c;
	attached.next = c;
	pthread_mutex_unlock(&attached_mutex);
	pthread_setspecific(at_thread_end, c);
	c->page = page;
	c->yields = !page;
	/* A caller that wants a page learns that there is none. */
	if (!page)
		c->status = SC_NO_DAEMON;
	return SC_OK;
}

/* The calling thread's page; 0 if it has none, with the reason in *status. */
static inline struct sc_page *my_page(int *status)
{
	struct client *c = &self;

	if (__builtin_expect(!c->page, 0)) {
		if (!c->tried)
			attach(c, SC_SCOPE_THREAD, "");
		*status = c->status;
	}
	return c->page;
}

int bw_lock(void)
{
	int status = SC_OK;
	struct sc_page *page = my_page(&status);
	uint64_t word;

	if (!page)
		return status;
	word = __atomic_load_n(&page->sections, __ATOMIC_RELAXED);
	if ((uint32_t)word == 0xffffffffu)
		return SC_UNMATCHED;
	word = (uint32_t)word == 0 ? ((word >> 32) + 1) << 32 | 1 : word + 1;
	__atomic_store_n(&page->sections, word, __ATOMIC_RELAXED);
	/* The section stays behind it; the CPU keeps stores in order or makes them visible
	 * soon enough.
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return SC_OK;
}

int bw_unlock(void)
{
	struct sc_page *page = self.page;
	uint64_t word;

	if (!page)
		return self.tried ? self.status : SC_UNMATCHED;
	word = __atomic_load_n(&page->sections, __ATOMIC_RELAXED);
	if ((uint32_t)word == 0)
		return SC_UNMATCHED;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&page->sections, word - 1, __ATOMIC_RELAXED);
	return SC_OK;
}

int sc_job_begin(void)
{
	int status = SC_OK;
	struct sc_page *page = my_page(&status);
	uint64_t word;

	if (!page)
		return self.yields ? SC_OK : status;
	word = __atomic_load_n(&page->jobs, __ATOMIC_RELAXED);
	if (word & 1)
		return SC_UNMATCHED;
	__atomic_store_n(&page->jobs, (word + 2) | 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return SC_OK;
}

int sc_job_end(void)
{
	int status = SC_OK;
	struct sc_page *page = my_page(&status);
	uint64_t word;

	if (self.yields) {
		sched_yield();
		return SC_OK;
	}
	if (!page)
		return status;
	word = __atomic_load_n(&page->jobs, __ATOMIC_RELAXED);
	if (!(word & 1))
		return SC_UNMATCHED;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&page->jobs, word & ~1ull, __ATOMIC_RELAXED);
	return SC_OK;
}

int sc_attach(void)
{
	return self.page || self.yields ? SC_OK : attach(&self, SC_SCOPE_THREAD, "");
}

int sc_attach_task(const char *task)
{
	if (!task || !*task)
		return SC_UNKNOWN;
	detach(&self);
	return attach(&self, SC_SCOPE_THREAD, task);
}

int sc_attach_slot(const char *slot)
{
	if (!slot || !*slot)
		return SC_UNKNOWN;
	detach(&self);
	return attach(&self, SC_SCOPE_SLOT, slot);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Only the thread writes these words: single stores, so that the daemon never reads halves. */
static void put(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static void put_longest(uint64_t *word, uint64_t ns)
{
	if (ns > *word)
		put(word, ns);
}

static void begin_transfer(struct sc_slot *slot, uint64_t number, uint64_t now)
{
	struct sc_transfer *t = &slot->latest[(slot->begun >> 1) % SC_SLOTS_KEPT];

	put_longest(&slot->start_late_ns, now - slot->first_ns - number * slot->period_ns);
	put(&t->begun_ns, now);
	put(&t->ended_ns, 0);
	put(&slot->next, number + 1);
	__atomic_store_n(&slot->begun, (slot->begun + 2) | 1, __ATOMIC_RELEASE);
}

static void end_transfer(struct sc_slot *slot)
{
	struct sc_transfer *t = &slot->latest[((slot->begun >> 1) - 1) % SC_SLOTS_KEPT];
	uint64_t end = slot->first_ns + (slot->next - 1) * slot->period_ns + slot->length_ns,
		 now = now_ns();

	if (now > end) {
		put(&slot->late, slot->late + 1);
		put_longest(&slot->end_late_ns, now - end);
	}
	put(&t->ended_ns, now);
	__atomic_store_n(&slot->begun, slot->begun & ~1ull, __ATOMIC_RELEASE);
}

/* The calling thread's slots; 0 if it has none, with the reason in *status. */
static struct sc_slot *my_slot(int *status)
{
	struct sc_page *page = self.page;

	*status = SC_UNMATCHED;
	if (!page) {
		*status = self.tried ? self.status : SC_UNMATCHED;
		return NULL;
	}
	return page->slot.period_ns != 0 ? &page->slot : NULL;
}

/* Number of the first slot that begins at this time or later. */
static uint64_t slot_at(const struct sc_slot *slot, uint64_t now)
{
	return now <= slot->first_ns ? 0 : (now - slot->first_ns - 1) / slot->period_ns + 1;
}

int sc_wait_slot(unsigned long long *missed)
{
	int status;
	struct sc_slot *slot = my_slot(&status);
	uint64_t due, number, start, now;
	struct timespec at;

	if (!slot)
		return status;
	if (slot->begun & 1)
		end_transfer(slot);
	due = slot->next ? slot->next : slot->from;
	do {
		number = slot_at(slot, now_ns());
		if (number < due)
			number = due;
		start = slot->first_ns + number * slot->period_ns;
		at.tv_sec = (time_t)(start / 1000000000u);
		at.tv_nsec = (long)(start % 1000000000u);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
			;
		now = now_ns();
		/*
		 * A thread that wakes after its slot's end would be in the slot of another
		 * transfer.
		 */
	} while (now - start >= slot->length_ns);
	if (sc_check() != SC_OK)
		return SC_NO_DAEMON;
	if (missed)
		*missed = number - due;
	begin_transfer(slot, number, now);
	return SC_OK;
}

int sc_slot_end(void)
{
	int status;
	struct sc_slot *slot = my_slot(&status);

	if (!slot)
		return status;
	if (!(slot->begun & 1))
		return SC_UNMATCHED;
	end_transfer(slot);
	return SC_OK;
}

void sc_detach(void)
{
	detach(&self);
	self.tried = 0;
}

int sc_check(void)
{
	struct pollfd connection = {.fd = self.socket, .events = POLLIN};

	if (!self.page && !self.yields)
		return self.tried ? self.status : SC_NO_DAEMON;
	/* The daemon sends nothing more: readable data means its end. */
	return poll(&connection, 1, 0) > 0 ? SC_NO_DAEMON : SC_OK;
}

int sc_hold_program(void)
{
	struct sc_answer answer = {0};
	struct sc_page *page = NULL;
	int socket, status;

	/* Open across execve(): the open connection holds the lock. */
	status = ask(SC_SCOPE_PROGRAM, "", 0, &socket, &page, &answer);
	if (status != SC_OK)
		return status;
	if (!page) {
		close(socket);
		return SC_NO_DAEMON;
	}
	self.max_hold_ns = answer.max_hold_ns;
	__atomic_store_n(&page->sections, 1ull << 32 | 1, __ATOMIC_RELAXED);
	munmap(page, SC_PAGE_BYTES);
	return SC_OK;
}

unsigned long long sc_max_hold_ns(void)
{
	return self.max_hold_ns;
}

const char *sc_strstatus(int status)
{
	static const char *const texts[] = {
		[SC_OK] = "success",
		[SC_NO_DAEMON] =
			"no solocore serves clients here (solocore run, with a plan that has some: "
			"bwlock, dynamic, transfers, levels)",
		[SC_DENIED] =
			"the user may not: not in the group that `solocore run --group` names",
		[SC_FULL] = "too many clients",
		[SC_UNKNOWN] =
			"the running plan has no such task or slot, or somebody has it already",
		[SC_REFUSED] = "the daemon is of another version, or does not know the thread (a "
			       "container)",
		[SC_SYSTEM] = "a system call failed: no memory or no descriptors",
		[SC_UNMATCHED] = "an end without a beginning, a job that began twice, or a wait "
				 "without a slot",
	};

	return status >= 0 && status <= SC_UNMATCHED ? texts[status] : "no status of solocore";
}
