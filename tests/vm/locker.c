/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client of the bandwidth lock, for tests and measurements.
 *
 * `locker CPU hold MS` holds the lock for so many milliseconds of computing; says "held", and at
 * the end what sc_check() says.
 *
 * `locker CPU latency HOG N [rt]`, N times: takes the lock while a hog of its own makes faults on
 * CPU HOG, and prints how long that went on, and how long after the release it began again:
 * nanoseconds, median, 99th percentile, most. With rt as a real-time thread.
 *
 * `locker CPU turns MS N`, N times: holds for half of MS milliseconds, and not for the other half.
 *
 * `locker CPU preempted MS` holds, and prints in how many of its milliseconds it ran.
 *
 * `locker CPU spin MS` computes for so many milliseconds, and is not a client.
 *
 * `locker CPU faults PID MS` prints how many page faults another process makes per second, as seen
 * in so many milliseconds. Takes no lock.
 *
 * `locker CPU jobs TASK HOG N` signals N jobs of the plan's task TASK, 40 ms each and 40 ms apart,
 * beside a hog of its own, and prints the most faults that the hog made in one of them, and between
 * two at the median.
 *
 * CPU -1 is any. A program that cannot attach says why, and ends with 3.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <solocore.h>

#define PAGE 4096
#define PAGES 64
#define RING 8192u
/* A pause of the hog: longer than all times between two faults of one that is free, which are
 * printed.
 */
#define PAUSE_NS 150000
#define PERIOD_NS 1000000
/* A turn of the emulator's other CPUs, at most: shorter than the time between two looks of a CPU.
 * */
#define TURN_NS 20000
/* What is looked at after a lock: at most two periods begin in it. */
#define WINDOW_NS 1500000
/*
 * A round counts if the hog had used a period's budget up within RECENT_NS of the lock, if the lock
 * was taken within AT_ONCE_NS, and if the look ended within LATE_NS of its end; else another of the
 * emulator's CPUs had its turn there. Then two budgets and a sample are the most that may be seen:
 * in the second half of a period the hog has nothing left of it, and in the first half one more
 * period begins in the window, not two.
 */
#define BUDGET 20
#define RECENT_NS 300000
#define AT_ONCE_NS 5000
#define LATE_NS 100000
/* For how long a free hog is waited for. */
#define PATIENCE_NS 20000000
/* So close to the end of a period the next one's budget follows the stop at once, and hides it. */
#define HIDDEN_NS 300000

/* When the hog made its last faults. */
struct trace {
	volatile uint64_t made;
	volatile uint64_t at[RING];
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void bind_to(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		exit(1);
}

/*
 * Lets the emulator's other CPUs have a turn, without a rest. QEMU's single thread with icount
 * gives a CPU a turn up to the next timer of any CPU, and ends it early when the CPU sets its own
 * timer. Who sleeps sets one on waking, so whoever computes without ever setting one takes nearly
 * all turns: beside such a loop a hog on another CPU makes an eighth of its faults, with nothing
 * regulated.
 */
static void pass_turn(void)
{
	static int timer = -1;
	struct itimerspec soon = {.it_value.tv_nsec = TURN_NS};

	if (timer < 0)
		timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timerfd_settime(timer, 0, &soon, NULL);
}

/* Called by its name in probes (guest/lock.sh), so there must be one. */
static __attribute__((noinline)) void spin_until(uint64_t end)
{
	while (now_ns() < end)
		pass_turn();
}

static void hog(struct trace *trace)
{
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	for (;;) {
		for (long i = 0; i < PAGES; i++) {
			(void)((volatile char *)memory)[i * PAGE];
			trace->at[trace->made % RING] = now_ns();
			__atomic_thread_fence(__ATOMIC_RELEASE);
			trace->made++;
		}
		madvise(memory, PAGES * PAGE, MADV_DONTNEED);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print(const char *what, uint64_t *of, long count)
{
	qsort(of, count, sizeof(*of), compare);
	printf("%s: median %llu, 99th %llu, most %llu ns, of %ld\n", what,
	       (unsigned long long)of[count / 2], (unsigned long long)of[(count * 99) / 100],
	       (unsigned long long)of[count - 1], count);
}

/*
 * How long after t0 the hog went on, until it first paused; what it had made before is `first`. -1:
 * the period ended so soon that the next one's budget hides it. Periods begin where a long pause
 * ends.
 */
static int64_t went_on(const struct trace *trace, uint64_t first, uint64_t t0)
{
	uint64_t last = t0, end = trace->made, begin = 0, i, at;
	int64_t effect = -1;

	for (i = first; i < end; i++) {
		at = trace->at[i % RING];
		if (at <= t0)
			continue;
		if (at - last > PAUSE_NS && effect < 0)
			effect = last - t0;
		if (at - last > PERIOD_NS / 3)
			begin = at;
		last = at;
	}
	if (effect < 0)
		effect = last - t0;
	return begin != 0 && (begin - t0) % PERIOD_NS < HIDDEN_NS ? -1 : effect;
}

/*
 * Takes the lock while the hog runs freely; *first is how many faults it had made then. Says when,
 * or 0 if another CPU had its turn meanwhile, or the hog none for long.
 */
static uint64_t lock_beside(const struct trace *trace, uint64_t *first)
{
	uint64_t before, t0, end = now_ns() + PATIENCE_NS;

	do {
		pass_turn();
		*first = trace->made;
		before = now_ns();
		if (before > end)
			return 0;
	} while (*first < RING || before - trace->at[(*first - BUDGET) % RING] > RECENT_NS);
	bw_lock();
	t0 = now_ns();
	if (t0 - before <= AT_ONCE_NS)
		return t0;
	bw_unlock();
	return 0;
}

static int latency(int hog_cpu, long rounds)
{
	struct trace *trace = mmap(NULL, sizeof(*trace), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t *effect = calloc(rounds, sizeof(*effect)),
		 *release = calloc(rounds, sizeof(*release));
	uint64_t *free_gap = calloc(rounds, sizeof(*free_gap));
	uint64_t *before = calloc(rounds, sizeof(*before)), *after = calloc(rounds, sizeof(*after));
	long i = 0, missed = 0, released = 0, seen = 0, again = 0;
	pid_t child;

	if (trace == MAP_FAILED || !effect || !release || !free_gap || !before || !after)
		return 1;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Where others work, too, it should run most of the time. */
		if (nice(-20) == -1)
			perror("nice");
		bind_to(hog_cpu);
		hog(trace);
	}
	spin_until(now_ns() + 100000000);
	srandom(1);
	while (i < rounds && again <= 3 * rounds) {
		uint64_t t0, first;
		int64_t went;

		/* At any phase of the period, and from a hog that is free. */
		spin_until(now_ns() + 3000000 + random() % 1000000);
		before[i] = trace->made;
		spin_until(now_ns() + WINDOW_NS);
		before[i] = trace->made - before[i];
		t0 = lock_beside(trace, &first);
		if (t0 == 0) {
			again++;
			continue;
		}
		spin_until(t0 + WINDOW_NS);
		after[i] = trace->made - first;
		if (now_ns() - t0 > WINDOW_NS + LATE_NS) {
			bw_unlock();
			again++;
			continue;
		}
		went = went_on(trace, first, t0);
		free_gap[i] = trace->at[(first - 1) % RING] - trace->at[(first - 2) % RING];
		i++;
		if (went >= 0)
			effect[seen++] = went;
		if (went >= PERIOD_NS)
			missed++;
		/* In the middle of a pause, or the release shows nothing. */
		first = trace->made;
		spin_until(now_ns() + 100000 + random() % 400000);
		if (trace->made != first) {
			bw_unlock();
			continue;
		}
		bw_unlock();
		t0 = now_ns();
		while (trace->made == first && now_ns() - t0 < 5000000)
			pass_turn();
		release[released++] = now_ns() - t0;
	}
	kill(child, SIGKILL);
	if (i < rounds) {
		printf("only %ld of %ld locks beside a hog that runs freely\n", i, rounds);
		return 1;
	}
	qsort(before, rounds, sizeof(*before), compare);
	qsort(after, rounds, sizeof(*after), compare);
	printf("faults in %d us: before a lock median %llu; after it median %llu, 99th %llu, most "
	       "%llu\n",
	       WINDOW_NS / 1000, (unsigned long long)before[rounds / 2],
	       (unsigned long long)after[rounds / 2], (unsigned long long)after[rounds * 99 / 100],
	       (unsigned long long)after[rounds - 1]);
	print("between two faults of a free hog", free_gap, rounds);
	if (seen > 0)
		print("lock to effect", effect, seen);
	if (released > 0)
		print("release to effect", release, released);
	printf("without effect: %ld; rounds repeated: %ld\n", missed, again);
	return 0;
}

/* Time in which this thread ran. */
static uint64_t ran_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Minor faults of a process so far. */
static long faults_of(long pid)
{
	char path[64], line[1024] = "", *at;
	long faults = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	file = fopen(path, "r");
	if (!file)
		exit(1);
	at = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %ld", &faults) != 1)
		exit(1);
	return faults;
}

static int faults(long pid, long ms)
{
	struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	uint64_t start = now_ns();
	long before = faults_of(pid);

	nanosleep(&rest, NULL);
	printf("%.0f\n", (faults_of(pid) - before) * 1e9 / (now_ns() - start));
	return 0;
}

static int jobs(const char *task, int hog_cpu, long count)
{
	struct trace *trace = mmap(NULL, sizeof(*trace), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t *in = calloc(count, sizeof(*in)), *between = calloc(count, sizeof(*between));
	int status = sc_attach_task(task);
	pid_t child;
	long i;

	if (trace == MAP_FAILED || !in || !between || count < 1)
		return 1;
	if (status != SC_OK) {
		printf("not attached: %s\n", sc_strstatus(status));
		return 3;
	}
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bind_to(hog_cpu);
		hog(trace);
	}
	spin_until(now_ns() + 100000000);
	for (i = 0; i < count; i++) {
		uint64_t before = trace->made;

		sc_job_begin();
		spin_until(now_ns() + 40000000);
		in[i] = trace->made - before;
		sc_job_end();
		before = trace->made;
		spin_until(now_ns() + 40000000);
		between[i] = trace->made - before;
	}
	kill(child, SIGKILL);
	qsort(in, count, sizeof(*in), compare);
	qsort(between, count, sizeof(*between), compare);
	printf("faults in a job: most %llu; between two: median %llu\n",
	       (unsigned long long)in[count - 1], (unsigned long long)between[count / 2]);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	long number = argc > 3 ? atol(argv[3]) : 0;
	uint64_t start;
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	bind_to(argc > 1 ? atoi(argv[1]) : -1);
	if (strcmp(what, "faults") == 0)
		return faults(number, argc > 4 ? atol(argv[4]) : 100);
	if (strcmp(what, "spin") == 0) {
		spin_until(now_ns() + number * 1000000);
		return 0;
	}
	if (strcmp(what, "jobs") == 0)
		return jobs(argv[3], argc > 4 ? atoi(argv[4]) : 1, argc > 5 ? atol(argv[5]) : 20);
	status = sc_attach();
	if (status != SC_OK) {
		printf("not attached: %s\n", sc_strstatus(status));
		return 3;
	}
	if (argc > 5 && strcmp(argv[5], "rt") == 0) {
		struct sched_param parameters = {.sched_priority = 1};

		if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters) != 0)
			return 1;
	}
	if (strcmp(what, "latency") == 0)
		return latency((int)number, argc > 4 ? atol(argv[4]) : 100);
	if (strcmp(what, "turns") == 0) {
		for (long i = argc > 4 ? atol(argv[4]) : 1; i > 0; i--) {
			bw_lock();
			spin_until(now_ns() + number * 500000);
			bw_unlock();
			spin_until(now_ns() + number * 500000);
		}
		return 0;
	}
	if (bw_lock() != SC_OK)
		return 1;
	printf("held\n");
	start = now_ns();
	spin_until(start + number * 1000000);
	if (strcmp(what, "preempted") == 0)
		printf("ran %llu of %ld ms\n", (unsigned long long)(ran_ns() / 1000000), number);
	bw_unlock();
	printf("%s\n", sc_strstatus(sc_check()));
	return 0;
}
