/* Times of messages on the virtual board, by the place of their buffers (MC2 Fig. 8).
 *
 *   messages OWN CPU ROUNDS PLACE...
 *
 * OWN is a range of colours, as 0-7: those of the program, which `solocore exec --colors OWN`
 * starts. A PLACE is `kind` or `kind=COLOURS`:
 *   sbp, c, ce, cl   a queue of client/c/solocore_ipc.h with its slots in frames of COLOURS;
 *                    sbp goes past the caches
 *   sysv, pipe       a System V queue, and a pipe: the kernel's, unless --queues has the queue. A
 *                    batch for the queue has at most 64 KiB: 16 messages of 4 KiB, 8 of 8 KiB
 * In each round 100 messages are sent, then received. Then the program reads 512 KiB of its own
 * memory, as other work, and waits 2 ms, as for its next period. A line for each size: place,
 * bytes, the longest and the median time to send a message, and both to receive it, in ns. A time
 * is the mean of a batch. The board times misses by an estimate until it has computed their window
 * of 10 us, and a short batch would have the error of that. So the program rests before the clock
 * is read, in a loop without an access, whose own time is taken off (docs/board-model.md). The
 * first two rounds are not counted, and the model is on only while messages are timed. Exit code 6:
 * a page lies in other colours.
 *
 * Compiled with solocore_ipc.c, which takes flushed.h for its memory.
 */
#include "frames.h"
#include "solocore_ipc.h"
#include <sys/msg.h>

#define BATCH 100
#define SLOTS 128
#define LONGEST 8192
/* Few enough for a queue of 5 MiB in the frames of the program (docs/buffers.md). */
#define SYSV_BYTES 65536ul
#define ROUNDS 64
#define WORK (512ul << 10)
/* Between two rounds other CPUs go on: a task waits for its next period. */
#define PAUSE_NS 2000000
/* Turns of a loop that takes more than 30 us: 73 us, with two instructions a turn, a cycle each, at
 * 3.3 GHz. */
#define TURNS 120000ul
/* Rounds after which all slots have been used. */
#define WARM 2

/* A place of messages, and what it needs. */
struct place {
	const char *kind;
	struct colours colours;
	struct sc_queue sender, receiver;
	void *memory;
	size_t bytes;
	int id, ends[2];
};

static struct {
	long type;
	char data[LONGEST];
} message;
static char *work;
static double rest_ns; /* time of a rest */

static int is(const struct place *p, const char *kind)
{
	return strcmp(p->kind, kind) == 0;
}

static void open_queue(struct place *p, size_t size)
{
	enum sc_queue_place how = is(p, "sbp")	? SC_PLACE_BYPASS
				  : is(p, "cl") ? SC_PLACE_LOCKED
						: SC_PLACE_CACHED;
	p->bytes = sc_queue_bytes(1, SLOTS, size);
	p->memory = frames(p->bytes, p->colours);
	if (sc_queue_create(p->memory, p->bytes, 1, SLOTS, size, how) ||
	    sc_queue_open_sender(&p->sender, p->memory, p->bytes) ||
	    sc_queue_open_receiver(&p->receiver, p->memory, p->bytes))
		exit(7);
}

static void open_place(struct place *p, size_t size)
{
	if (is(p, "sysv")) {
		struct msqid_ds limits;
		p->id = msgget(IPC_PRIVATE, 0600);
		if (p->id < 0 || msgctl(p->id, IPC_STAT, &limits))
			exit(7);
		limits.msg_qbytes = SYSV_BYTES;
		if (msgctl(p->id, IPC_SET, &limits))
			exit(7);
	} else if (is(p, "pipe")) {
		if (pipe(p->ends) || fcntl(p->ends[1], F_SETPIPE_SZ, 1 << 20) < 0)
			exit(7);
	} else
		open_queue(p, size);
}

static size_t close_place(struct place *p)
{
	size_t wrong = 0;
	if (is(p, "sysv"))
		msgctl(p->id, IPC_RMID, 0);
	else if (is(p, "pipe")) {
		close(p->ends[0]);
		close(p->ends[1]);
	} else {
		wrong = moved(p->memory, p->bytes, p->colours);
		sc_queue_close(&p->sender);
		sc_queue_close(&p->receiver);
		munmap(p->memory, (p->bytes + PAGE - 1) / PAGE * PAGE);
	}
	return wrong;
}

static int send_one(struct place *p, size_t size)
{
	if (is(p, "sysv"))
		return msgsnd(p->id, &message, size, 0);
	if (is(p, "pipe"))
		return write(p->ends[1], message.data, size) != (ssize_t)size;
	return sc_queue_send(&p->sender, message.data, size);
}

static int receive_one(struct place *p, size_t size)
{
	if (is(p, "sysv"))
		return msgrcv(p->id, &message, size, 0, 0) != (ssize_t)size;
	if (is(p, "pipe"))
		return read(p->ends[0], message.data, size) != (ssize_t)size;
	size_t got = 0;
	return sc_queue_receive(&p->receiver, message.data, size, &got) || got != size;
}

/* Does nothing until the board has computed all windows before. */
static void rest(void)
{
	for (unsigned long i = 0; i < TURNS; i++)
		__asm__ volatile("");
}

/* Takes the time of a rest: the least, as interrupts only add to it. */
static void time_rest(void)
{
	model(1);
	for (int i = 0; i < 5; i++) {
		rest();
		unsigned long long begin = now();
		rest();
		double took = (double)(now() - begin);
		rest_ns = i == 0 || took < rest_ns ? took : rest_ns;
	}
	model(0);
}

/* Time of a message of a batch, ns. */
static double batch(struct place *p, size_t size, int (*one)(struct place *, size_t))
{
	unsigned long fit = is(p, "sysv") ? SYSV_BYTES / size : BATCH;
	unsigned long messages = fit < BATCH ? fit : BATCH;
	rest();
	unsigned long long begin = now();
	for (unsigned long i = 0; i < messages; i++)
		if (one(p, size))
			exit(8);
	rest();
	return ((double)(now() - begin) - rest_ns) / (double)messages;
}

static void other_work(void)
{
	for (size_t i = 0; i < WORK; i += LINE)
		((volatile char *)work)[i];
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, 0);
}

static void print(const char *text, size_t size, double times[2][ROUNDS], unsigned long rounds)
{
	printf("%s %zu", text, size);
	for (int way = 0; way < 2; way++) {
		qsort(times[way], rounds, sizeof(double), by_size);
		printf(" %.0f %.0f", times[way][rounds - 1], times[way][rounds / 2]);
	}
	putchar('\n');
}

/* Returns the number of the buffer's pages in other colours. */
static size_t measure(struct place *p, const char *text, size_t size, unsigned long rounds)
{
	double times[2][ROUNDS];
	open_place(p, size);
	model(1);
	for (unsigned long r = 0; r < rounds + WARM; r++) {
		double sent = batch(p, size, send_one), received = batch(p, size, receive_one);
		other_work();
		if (r >= WARM) {
			times[0][r - WARM] = sent;
			times[1][r - WARM] = received;
		}
	}
	model(0);
	print(text, size, times, rounds);
	return close_place(p);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	struct colours own = colours_of(argv[1]);
	unsigned long rounds = strtoul(argv[3], 0, 0);
	size_t wrong = 0;
	if (rounds < 1 || rounds > ROUNDS)
		return 2;
	pin(atoi(argv[2]), 1);
	work = mmap(0, WORK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
		    0);
	if (work == MAP_FAILED)
		return 4;
	memset(work, 1, WORK);
	memset(&message, 1, sizeof message);
	time_rest();
	for (int i = 4; i < argc; i++) {
		struct place place = {.kind = argv[i]};
		char *text = strdup(argv[i]), *colours = strchr(argv[i], '=');
		if (colours) {
			*colours++ = 0;
			place.colours = colours_of(colours);
		}
		for (size_t size = 64; size <= LONGEST; size *= 2)
			wrong += measure(&place, text, size, rounds);
		free(text);
	}
	return wrong || moved(work, WORK, own) ? 6 : 0;
}
