/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: crates/space/preload is to be tested where there is no solocore for the processor.
 * Rule: starts a program with the library, in the lower half of 32 colours, as
 * `solocore exec --colors` does; moves it to the upper half after a second if that is asked for;
 * or holds frames as `solocore reserve` does, and lends them to a program that gets no others;
 * or also takes them back when the program's processes end, as the reserve does;
 * or has pages of its heap and of its first mapping locked in two colours that its other pages do
 * not get;
 * counts its private pages by /proc/PID/pagemap when it says that it has moved, and before it ends.
 * Exit code 0: the program's was, and no page was wrong. Does not cover: more than that one process
 * tree, and options.
 *
 *   colours LIBRARY stay|move|lend|back|lock PROGRAM [ARGUMENTS]
 *   colours - plain PROGRAM [ARGUMENTS]            without it; exit code 0 if pages are wrong
 */
#define _GNU_SOURCE
#include "../../crates/space/preload/space.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PEERS 65
#define LISTENERS 2
/* Seconds that heirs of processes may take after the program's end. */
#define PATIENCE 10
/* Pages from which frames are held that are lent. */
#define HELD 81920

static struct config config;
static int config_file, failures, moved;
static char *held, *settled;
static unsigned left, lent, asked; /* pages that may hold a frame; frames given; requests */
static unsigned told, back; /* frames that were said to be free, and those of them that came back */
/* Locked pages of the process `locker`: four of the heap, eight of a mapping. */
#define LOCKED 12
#define HEAP_PAGES 4
#define FIRST_LOCKED 14 /* of two colours */
static struct locked locked[LOCKED];
static unsigned long mapping; /* address of the mapping, as the library says */
static int locker, checked;

static void choose(int upper)
{
	config.magic = CONFIG_MAGIC;
	config.functions = 5;
	for (int i = 0; i < 5; i++)
		config.masks[i] = 1ul << (12 + i);
	config.allowed_classes = 16;
	config.prefill = 256;
	config.reserve = 64ul << 20;
	memset(config.classes, 0, sizeof config.classes);
	config.classes[upper ? 2 : 0] = config.classes[upper ? 3 : 1] = 0xff;
	if (pwrite(config_file, &config, sizeof config, 0) != sizeof config)
		exit(2);
}

/* Keeps two of its colours for locked pages. */
static void keep_colours(void)
{
	config.lock_mask = 31;
	config.lock_rest = 0;
	config.allowed_classes -= 2;
	config.classes[FIRST_LOCKED / 8] &= (uint8_t) ~(3 << FIRST_LOCKED % 8);
	if (pwrite(config_file, &config, sizeof config, 0) != sizeof config)
		exit(2);
}

/* Where the heap of a process begins. */
static unsigned long heap_of(int pid)
{
	char path[64], text[2048], *at;
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *file = fopen(path, "r");
	if (!file || !fgets(text, sizeof text, file) || !(at = strrchr(text, ')')))
		exit(2);
	fclose(file);
	for (int field = 2; field < 47; field++)
		at = strchr(at + 1, ' ');
	return (strtoul(at, 0, 10) + PAGE - 1) & ~(PAGE - 1);
}

/* The locked pages of the first process; the others have none. Returns their number. */
static unsigned lock(int pid)
{
	if (!config.lock_mask || (locker && locker != pid))
		return 0;
	locker = pid;
	for (unsigned i = 0; i < LOCKED; i++) {
		locked[i].colour = FIRST_LOCKED + i % 2;
		locked[i].number = i < HEAP_PAGES ? 0 : 1;
		locked[i].where =
			i < HEAP_PAGES ? heap_of(pid) + i * PAGE : (i - HEAP_PAGES) * PAGE;
	}
	if (pwrite(config_file, locked, sizeof locked, sizeof config) != sizeof locked)
		exit(2);
	return LOCKED;
}

/* The locked page at an address of the process; null: none is. */
static const struct locked *locked_at(int pid, unsigned long address)
{
	for (unsigned i = 0; pid == locker && i < LOCKED; i++)
		if (address == (locked[i].number ? mapping : 0) + locked[i].where)
			return &locked[i];
	return 0;
}

static int is_wrong(uint64_t entry)
{
	uint64_t frame = entry & ((1ul << 55) - 1);
	/* Present, and neither of a file nor of a shared mapping. */
	return entry >> 63 && !(entry >> 61 & 1) &&
	       !(config.classes[(frame & 31) / 8] >> (frame & 7) & 1);
}

/* Private pages of a process that are in wrong frames. */
static void count(int pid, const char *when)
{
	char path[64], line[4096];
	unsigned long start, end, present = 0, wrong = 0, right = 0;
	snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
	int pagemap = open(path, O_RDONLY);
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "r");
	if (pagemap < 0 || !maps)
		exit(2);
	while (fgets(line, sizeof line, maps)) {
		char rights[8] = "";
		/* Not [vvar] and [vdso], which are the kernel's, and not frames that wait for
		 * locked pages. */
		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) != 3 || rights[3] != 'p' ||
		    strstr(line, " [v") || (config.lock_mask && strstr(line, "solocore-looks")))
			continue;
		static uint64_t entries[4096];
		for (unsigned long at = start / PAGE; at < end / PAGE;) {
			unsigned long n = end / PAGE - at < 4096 ? end / PAGE - at : 4096;
			if (pread(pagemap, entries, n * 8, (long)(at * 8)) != (long)(n * 8)) {
				printf("%s: process %d: pages at %lx cannot be read\n", when, pid,
				       at * PAGE);
				failures++;
				break;
			}
			for (unsigned long i = 0; i < n; i++) {
				const struct locked *page = locked_at(pid, (at + i) * PAGE);
				present += entries[i] >> 63;
				if (!page)
					wrong += (unsigned long)is_wrong(entries[i]);
				else if (entries[i] >> 63)
					right += (entries[i] & 31) == page->colour;
			}
			at += n;
		}
	}
	fclose(maps);
	close(pagemap);
	printf("%s: process %d has %lu pages, %lu wrong\n", when, pid, present, wrong);
	failures += wrong > 0 || present < 100;
	if (pid == locker) {
		printf("%lu of %u locked pages lie in their colours\n", right, LOCKED);
		failures += right < LOCKED;
		checked++;
	}
}

static uint64_t entry_of(const char *page)
{
	uint64_t entry = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	if (pread(pagemap, &entry, 8, (long)((uint64_t)page / PAGE * 8)) != 8)
		exit(2);
	close(pagemap);
	return entry;
}

/* Holds frames of the colours, of small pages. A program asks for these first. If others were
 * quicker, it looks for frames by itself, as beside a reserve. */
static void hold(void)
{
	held = mmap(0, (HELD + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	settled = held + HELD * PAGE;
	if (held == MAP_FAILED || madvise(held, (HELD + 1) * PAGE, MADV_NOHUGEPAGE) ||
	    madvise(held, (HELD + 1) * PAGE, MADV_DONTFORK))
		exit(2);
	memset(held, 1, (HELD + 1) * PAGE);
	for (unsigned i = 0; i < HELD; i++)
		if (is_wrong(entry_of(held + i * PAGE)))
			madvise(held + i * PAGE, PAGE, MADV_DONTNEED);
	left = HELD;
	config.lends = 1;
	if (pwrite(config_file, &config, sizeof config, 0) != sizeof config)
		exit(2);
}

/* Goes to a CPU; returns where this process might run before. */
static cpu_set_t go_to(unsigned cpu)
{
	cpu_set_t before, one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_getaffinity(0, sizeof before, &before);
	if (cpu >= CPU_SETSIZE || sched_setaffinity(0, sizeof one, &one))
		exit(2);
	return before;
}

/* Frees frames on a CPU; returns their number. */
static unsigned lend(unsigned pages, unsigned cpu)
{
	cpu_set_t before = go_to(cpu);
	unsigned given = 0;
	for (; given < pages && left > 0; left--) {
		if (entry_of(held + (left - 1) * PAGE) >> 63) {
			madvise(held + (left - 1) * PAGE, PAGE, MADV_DONTNEED);
			given++;
		}
	}
	/* Pages that this CPU still has on lists of its own. */
	madvise(settled, PAGE, MADV_COLD);
	sched_setaffinity(0, sizeof before, &before);
	lent += given;
	asked++;
	return given;
}

/* Takes this number of free pages on a CPU, and keeps those of its colours. Returns their number.
 */
static uint64_t take_back(unsigned pages, unsigned cpu)
{
	cpu_set_t before = go_to(cpu);
	uint64_t found = 0;
	char *taken =
		mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (taken == MAP_FAILED || madvise(taken, pages * PAGE, MADV_NOHUGEPAGE))
		exit(2);
	memset(taken, 1, pages * PAGE);
	for (unsigned i = 0; i < pages; i++) {
		int wrong = is_wrong(entry_of(taken + i * PAGE));
		found += !wrong;
		if (wrong)
			munmap(taken + i * PAGE, PAGE);
	}
	sched_setaffinity(0, sizeof before, &before);
	told += pages;
	back += (unsigned)found;
	return found;
}

/* What a process says as to a reserve, and has not ended with yet. -1: it has gone. */
static int answer_heir(int peer, struct give_back *last)
{
	struct give_back message;
	if (recv(peer, &message, sizeof message, 0) != sizeof message ||
	    message.kind != GIVE_BACK || message.pages > MOST_BACK) {
		if (last->pages)
			take_back(last->pages, last->cpu);
		close(peer);
		return -1;
	}
	if (message.last) {
		*last = message;
		return peer;
	}
	uint64_t taken = take_back(message.pages, message.cpu);
	send(peer, &taken, sizeof taken, MSG_NOSIGNAL);
	return peer;
}

/* -1: it has gone. */
static int answer(int peer)
{
	struct packet packet;
	struct ucred who;
	socklen_t length = sizeof who;
	if (recv(peer, &packet, sizeof packet, 0) != sizeof packet) {
		close(peer);
		return -1;
	}
	getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &length);
	if (packet.kind == PACKET_FAILED) {
		printf("process %d was stopped: %s\n", who.pid, packet.text);
		failures++;
	}
	if (packet.kind == PACKET_RECOLOURED) {
		moved = 1;
		printf("moved %u pages, %lu stuck\n", packet.pages, (unsigned long)packet.stuck);
		failures += packet.stuck > 0 || packet.pages < 100;
		count(who.pid, "moved");
	}
	if (packet.kind == PACKET_MAPPED)
		mapping = packet.move_ns;
	if (packet.kind == PACKET_EXIT)
		count(who.pid, "at the end");
	if (packet.kind == PACKET_HELLO)
		packet.pages = lock(who.pid);
	if (packet.kind == PACKET_NEED)
		packet.pages = lend(packet.pages, (unsigned)packet.stuck);
	if (packet.kind == PACKET_HELLO || packet.kind == PACKET_EXIT ||
	    packet.kind == PACKET_RECOLOURED || packet.kind == PACKET_NEED) {
		int asks = packet.kind == PACKET_NEED;
		packet.kind = PACKET_GO;
		send(peer, &packet, sizeof packet, MSG_NOSIGNAL);
		/* As a late answer: it must not count as the one to HELLO, whose pages are locked
		 * ones. */
		packet.pages = ~0u;
		if (asks)
			send(peer, &packet, sizeof packet, MSG_NOSIGNAL);
	}
	return peer;
}

static int listen_as(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	strcpy(address.sun_path + 1, name);
	socklen_t length = (socklen_t)(sizeof address.sun_family + 1 + strlen(name));
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, PEERS))
		exit(2);
	return listener;
}

/* Takes a connection of a listener into the first free place. With all of them in use, the next one
 * waits. Returns the place; 0: none is free. */
static int take_peer(struct pollfd *fds, int listener, int *peers)
{
	int at = LISTENERS;
	while (at < *peers && fds[at].fd >= 0)
		at++;
	if (at == PEERS) {
		fds[listener].events = 0;
		return 0;
	}
	fds[at] = (struct pollfd){accept4(fds[listener].fd, 0, 0, SOCK_CLOEXEC), POLLIN, 0};
	*peers += at == *peers;
	return at;
}

/* A program without the library, a second after its start: its pages must be wrong ones, too. */
static int count_plain(int child)
{
	int status, before = failures;
	sleep(1);
	count(child, "plain");
	waitpid(child, &status, 0);
	return failures > before && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

/* Answers those that have something to say. */
static void answer_all(struct pollfd *fds, int peers, const int *heir, struct give_back *last)
{
	for (int i = LISTENERS; i < peers; i++)
		if (fds[i].fd >= 0 && fds[i].revents) {
			fds[i].fd = heir[i] ? answer_heir(fds[i].fd, &last[i]) : answer(fds[i].fd);
			fds[0].events = fds[1].events = POLLIN;
		}
}

static int serve(int child, int listener, int reserve, int move)
{
	struct pollfd fds[PEERS] = {{listener, POLLIN, 0}, {reserve, POLLIN, 0}};
	struct give_back last[PEERS];
	int heir[PEERS], heirs = 0, peers = LISTENERS, status = 1;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	time_t begun = now.tv_sec, ended = 0;
	while (!ended || (heirs && now.tv_sec < ended + PATIENCE)) {
		poll(fds, (nfds_t)peers, 10);
		answer_all(fds, peers, heir, last);
		for (int i = 0; i < LISTENERS; i++) {
			int at = fds[i].fd >= 0 && fds[i].revents ? take_peer(fds, i, &peers) : 0;
			heir[at] = i;
			last[at] = (struct give_back){0};
		}
		heirs = 0;
		for (int i = LISTENERS; i < peers; i++)
			heirs += fds[i].fd >= 0 && heir[i];
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (move && peers > LISTENERS && now.tv_sec > begun) {
			struct packet packet = {.kind = PACKET_RECOLOUR, .request = 1};
			choose(1);
			for (int i = LISTENERS; i < peers; i++)
				if (fds[i].fd >= 0)
					send(fds[i].fd, &packet, sizeof packet, MSG_NOSIGNAL);
			move = 0;
		}
		if (!ended && waitpid(child, &status, WNOHANG) == child)
			ended = now.tv_sec;
	}
	failures += heirs > 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

int main(int argc, char **argv)
{
	char space[128], name[32];
	if (argc < 4)
		return 2;
	config_file = memfd_create("colours", 0);
	choose(0);
	int takes = strcmp(argv[2], "back") == 0;
	if (takes || strcmp(argv[2], "lend") == 0)
		hold();
	if (strcmp(argv[2], "lock") == 0)
		keep_colours();
	snprintf(name, sizeof name, "colours-%d", getpid());
	snprintf(space, sizeof space, "%s:/proc/%d/fd/%d", name, getpid(), config_file);
	int listener = listen_as(name), reserve = takes ? listen_as(RESERVE_NAME) : -1;
	fflush(stdout);
	int child = fork(), plain = strcmp(argv[2], "plain") == 0;
	if (child == 0) {
		if (!plain) {
			setenv("LD_PRELOAD", argv[1], 1);
			setenv("SOLOCORE_SPACE", space, 1);
		}
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	if (plain)
		return count_plain(child);
	int move = strcmp(argv[2], "move") == 0, code = serve(child, listener, reserve, move);
	failures += (move && !moved) || (config.lock_mask && !checked);
	/* Pages that the library makes where they are needed are no faults. */
	struct rusage used = {0};
	getrusage(RUSAGE_CHILDREN, &used);
	if (held)
		printf("lent %u frames in answer to %u requests, %ld faults, %ld us of CPU time\n",
		       lent, asked, used.ru_minflt,
		       used.ru_stime.tv_sec * 1000000 + used.ru_stime.tv_usec +
			       used.ru_utime.tv_sec * 1000000 + used.ru_utime.tv_usec);
	if (takes)
		printf("%u of %u frames came back\n", back, told);
	printf("exit code %d, %d failures\n", code, failures);
	return code || failures;
}
