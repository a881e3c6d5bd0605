/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program for tests of pipes and UNIX sockets: says what each call answers, so that those of the
 * kernel and those of crates/space/preload can be compared.
 *
 *   streams random KIND SEED CALLS  random calls and their answers; KIND: pipe, fifo or socket
 *   streams waits KIND              blocking, signals, end of file, SIGPIPE, atomic writes
 *   streams many KIND WRITERS       writers, of which some are killed; each record is whole
 *   streams threads KIND            threads that write short messages; each is whole
 *   streams frames KIND             does a message lie in pages of the lower half of 32 colours?
 *   streams write FD TEXT           for the other modes: writes and ends
 */
#include "answers.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { MOST = 9000, MOST_UNREAD = 28000, MOST_MESSAGES = 100, MANY = 65536 };

static int ends[2], is_socket, is_fifo, unread, messages;
static unsigned seed, next_byte;
static volatile int signals;
static char data[1 << 20], got[1 << 20];
static const char *fifo, *self;

static void caught(int signal)
{
	(void)signal;
	signals++;
}

static unsigned chance(unsigned below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % below;
}

/* A pair of ends: ends[1] is written to. */
static void open_ends(const char *kind)
{
	is_socket = !strcmp(kind, "socket");
	is_fifo = !strcmp(kind, "fifo");
	unread = messages = 0;
	if (is_socket) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
			exit(2);
	} else if (is_fifo) {
		ends[0] = open(fifo, O_RDONLY | O_NONBLOCK);
		ends[1] = open(fifo, O_WRONLY);
		fcntl(ends[0], F_SETFL, 0);
		if (ends[0] < 0 || ends[1] < 0)
			exit(2);
	} else if (pipe(ends)) {
		exit(2);
	}
}

static void prepare(size_t length)
{
	for (size_t i = 0; i < length; i++)
		data[i] = (char)(next_byte++ * 167 >> 3);
}

static unsigned long hash(const char *bytes, long length)
{
	unsigned long h = 5381;
	for (long i = 0; i < length; i++)
		h = h * 33 + (unsigned char)bytes[i];
	return h;
}

static void say_read(const char *what, long result)
{
	say(what, result);
	if (result > 0) {
		printf("  %lx\n", hash(got, result));
		unread -= (int)result;
	}
}

static size_t a_length(void)
{
	static const unsigned most[] = {8, 100, 2100, 4200, MOST};
	size_t length = chance(most[chance(5)]) + 1;
	if (chance(6) == 0)
		length = 4096 + chance(3) - 1;
	return length;
}

static void pass_descriptor(void)
{
	int pair[2], other = -1;
	char room[CMSG_SPACE(sizeof(int))], byte = 'd';
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = room,
			   .msg_controllen = sizeof room};
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		exit(2);
	memset(room, 0, sizeof room);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &ends[1], sizeof(int));
	say("pass", sendmsg(pair[0], &m, 0));
	say("get", recvmsg(pair[1], &m, 0));
	memcpy(&other, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	prepare(50);
	say("write there", write(other, data, 50));
	unread += 50;
	close(other);
	close(pair[0]);
	close(pair[1]);
}

static void child(void)
{
	size_t length = a_length();
	prepare(length);
	fflush(stdout);
	pid_t process = fork();
	int status;
	if (!process) {
		if (chance(3) == 0) {
			char number[16], text[64];
			snprintf(number, sizeof number, "%d", ends[1]);
			snprintf(text, sizeof text, "%063u", next_byte);
			execl(self, self, "write", number, text, NULL);
		}
		_exit(write(ends[1], data, length) != (long)length);
	}
	waitpid(process, &status, 0);
	say("child", WIFEXITED(status) ? WEXITSTATUS(status) : -99);
	int now = 0;
	ioctl(ends[0], FIONREAD, &now);
	say("child's bytes", now - unread);
	unread = now;
}

static void by_stream(void)
{
	FILE *file = fdopen(dup(ends[1]), "w");
	int length = fprintf(file, "%u and %d", next_byte++, 12345);
	say("printed", length);
	say("flushed", fclose(file));
	unread += length;
}

/* Takes pages themselves out, and reads them only after others were written. */
static void take_pages(void)
{
	int other[2], copies = (int)chance(2), now = 0, taken = 0;
	/* A named pipe keeps its mark. */
	if (is_socket || is_fifo || !unread || pipe(other))
		return;
	if (copies)
		tee(ends[0], other[1], MOST, SPLICE_F_NONBLOCK);
	else
		splice(ends[0], NULL, other[1], NULL, MOST, SPLICE_F_NONBLOCK);
	/* How many bytes a slot has is said nowhere. */
	ioctl(ends[0], FIONREAD, &now);
	ioctl(other[0], FIONREAD, &taken);
	say("taken", taken > 0);
	if (copies)
		while (now > 0)
			now -= (int)read(ends[0], got, sizeof got);
	for (int i = 0; copies && i < 100; i++) {
		memset(data, 'x', 3000);
		if (write(ends[1], data, 3000) != 3000 || read(ends[0], got, 3000) != 3000)
			exit(2);
	}
	long length = read(other[0], got, sizeof got);
	while (now > 0) {
		long more = read(ends[0], got + length, sizeof got - (size_t)length);
		length += more;
		now -= (int)more;
	}
	printf("  %lx\n", hash(got, copies ? 1 : length));
	unread = 0;
	if (copies && (length != taken || memchr(got, 'x', (size_t)length) == got + length - 1))
		exit(5);
	close(other[0]);
	close(other[1]);
}

static void look(void)
{
	struct pollfd p[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}};
	struct epoll_event event = {.events = EPOLLIN};
	int now = -1, queue = epoll_create1(0);
	struct stat file;
	say("unread", ioctl(ends[0], FIONREAD, &now) * 1000000 + now);
	say("poll", poll(p, 2, 0));
	printf("  %x %x\n", p[0].revents, p[1].revents);
	epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &event);
	say("epoll", epoll_wait(queue, &event, 1, 0));
	close(queue);
	say("mode", !fstat(ends[1], &file) && S_ISFIFO(file.st_mode));
	if (!is_socket)
		say("size", fcntl(ends[1], F_GETPIPE_SZ));
}

static void write_parts(void)
{
	size_t a = chance(100), b = a_length() % 4000, c = chance(3000) + 1;
	prepare(a + b + c);
	struct iovec parts[3] = {{data, a}, {data + a, b}, {data + a + b, c}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = 3};
	long result = is_socket && chance(2) ? sendmsg(ends[1], &m, MSG_NOSIGNAL)
					     : writev(ends[1], parts, 3);
	say("parts", result);
	unread += (int)result;
}

static void write_one(void)
{
	size_t length = a_length();
	prepare(length);
	long result;
	if (is_socket && chance(2))
		result = send(ends[1], data, length, chance(2) ? MSG_NOSIGNAL : MSG_DONTWAIT);
	else
		result = write(ends[1], data, length);
	/* The buffer may be used again at once. */
	memset(data, 'y', length);
	say("write", result);
	unread += (int)result;
}

static void read_some(void)
{
	size_t a = a_length(), b = chance(2) ? a_length() : 1;
	struct iovec parts[2] = {{got, a}, {got + a, b}};
	int flags = fcntl(ends[0], F_GETFL);
	fcntl(ends[0], F_SETFL, flags | O_NONBLOCK);
	/* Short reads of a socket end at a message, so as much as is wanted is read. */
	if (is_socket && chance(3) == 0) {
		long peeked = recv(ends[0], got, a, MSG_PEEK);
		say("peek", peeked < 0 ? peeked : 1);
		say_read("receive", recv(ends[0], got, a, 0));
	} else {
		say_read("read", chance(2) ? read(ends[0], got, a) : readv(ends[0], parts, 2));
	}
	fcntl(ends[0], F_SETFL, flags);
}

static void last_words(const char *kind)
{
	int before = signals, closed = (int)chance(2);
	close(ends[closed]);
	if (closed) {
		long result;
		while ((result = read(ends[0], got, sizeof got)) > 0)
			unread -= (int)result;
		say("end", result);
		say("all", unread);
		close(ends[0]);
	} else {
		prepare(10);
		say("nobody", write(ends[1], data, 10));
		if (is_socket)
			say("quietly", send(ends[1], data, 10, MSG_NOSIGNAL));
		say("signals", signals - before);
		close(ends[1]);
	}
	open_ends(kind);
}

static void one_call(const char *kind)
{
	unsigned which = chance(200);
	messages++;
	if (which < 70 && unread < MOST_UNREAD - 2 * MOST && messages < MOST_MESSAGES)
		write_one();
	else if (which < 90 && unread < MOST_UNREAD - 2 * MOST && messages < MOST_MESSAGES)
		write_parts();
	else if (which < 96 && unread < MOST_UNREAD - 2 * MOST)
		by_stream();
	else if (which < 98 && unread < MOST_UNREAD - 2 * MOST)
		pass_descriptor();
	else if (which < 100 && unread < MOST_UNREAD - 2 * MOST)
		child();
	else if (which < 120)
		look();
	else if (which < 121) {
		int copy = dup(ends[1]);
		close(ends[1]);
		say("copied", dup2(copy, ends[1]) == ends[1]);
		close(copy);
	} else if (which < 122) {
		take_pages();
		last_words(kind);
	} else if (which < 124)
		last_words(kind);
	else if (which < 125)
		say("nothing", write(ends[1], data, 0));
	else
		read_some();
	if (unread == 0)
		messages = 0;
}

static int random_calls(const char *kind, unsigned from, long calls)
{
	seed = from;
	open_ends(kind);
	for (long i = 0; i < calls; i++)
		one_call(kind);
	return 0;
}

/* A full pipe or socket: holds at least half of what the kernel's hold, and all of it comes out. */
static void fill(size_t length)
{
	long result, written = 0, taken = 0;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	for (;;) {
		prepare(length);
		result = write(ends[1], data, length);
		if (result <= 0)
			break;
		written += result;
	}
	int error = errno;
	say("full", error == EAGAIN);
	struct pollfd p = {ends[1], POLLOUT, 0};
	say("full poll", poll(&p, 1, 0));
	say("holds enough", written >= (is_socket ? (length < 64 ? 256 : 16384) : 32768));
	while ((result = read(ends[0], got, length)) > 0)
		taken += result;
	say("all out", written - taken);
	fcntl(ends[1], F_SETFL, 0);
	fcntl(ends[0], F_SETFL, 0);
}

static void drain(void)
{
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	while (read(ends[0], got, sizeof got) > 0)
		;
	fcntl(ends[0], F_SETFL, 0);
}

/* A blocking write of more than there is room for returns what it has written when a signal comes,
 * whatever the handler's flags. */
static void blocked(int flags)
{
	struct sigaction action = {.sa_handler = caught, .sa_flags = flags};
	long count = 600000;
	int status;
	sigaction(SIGUSR1, &action, 0);
	signals = 0;
	fflush(stdout);
	pid_t process = fork();
	if (!process) {
		memset(data, 'z', (size_t)count);
		long result = write(ends[1], data, (size_t)count);
		_exit(result > 0 && result < count ? signals : 9);
	}
	await_sleep(process);
	kill(process, SIGUSR1);
	waitpid(process, &status, 0);
	say("part", WEXITSTATUS(status));
	drain();
}

/* A short write to what is full waits; a signal ends it, or it goes on waiting after the handler.
 */
static void interrupted(int flags)
{
	struct sigaction action = {.sa_handler = caught, .sa_flags = flags};
	int status;
	sigaction(SIGUSR1, &action, 0);
	signals = 0;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], data, 4096) > 0)
		;
	while (write(ends[1], data, 1) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
	fflush(stdout);
	pid_t process = fork();
	if (!process) {
		long result = write(ends[1], data, 100);
		_exit(result < 0 ? errno : (int)result + signals);
	}
	await_sleep(process);
	kill(process, SIGUSR1);
	if (flags) {
		await_sleep(process);
		drain();
	}
	waitpid(process, &status, 0);
	say(flags ? "goes on" : "ends", flags ? WEXITSTATUS(status) : WEXITSTATUS(status) == EINTR);
	drain();
}

/* A writer that is killed while its reader waits: the end of file comes. */
static void killed(const char *kind)
{
	open_ends(kind);
	fflush(stdout);
	pid_t process = fork();
	if (!process) {
		close(ends[0]);
		if (write(ends[1], "last", 4) != 4)
			_exit(2);
		pause();
	}
	close(ends[1]);
	say("before", read(ends[0], got, 4));
	kill(process, SIGKILL);
	say("after", read(ends[0], got, 4));
	waitpid(process, 0, 0);
	/* Its message stays when it is gone. */
	close(ends[0]);
	open_ends(kind);
	process = fork();
	if (!process) {
		memset(data, 'k', 5000);
		if (write(ends[1], data, 5000) != 5000)
			_exit(2);
		raise(SIGKILL);
	}
	waitpid(process, 0, 0);
	/* Its frames are others' by now, if it does not keep them. */
	for (int i = 0; i < 50; i++)
		free(memset(malloc(1 << 20), 'w', 1 << 20));
	long result = read(ends[0], got, 5000), more = 0;
	if (result > 0 && result < 5000)
		more = read(ends[0], got + result, (size_t)(5000 - result));
	memset(data, 'k', 5000);
	say("left", result + more);
	say("same", memcmp(got, data, 5000));
	close(ends[0]);
	close(ends[1]);
}

static int waits(const char *kind)
{
	static const size_t lengths[] = {1, 100, 2000, 4096, 5000, 70000};
	open_ends(kind);
	for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
		fill(lengths[i]);
	if (!is_socket)
		blocked(SA_RESTART);
	blocked(0);
	interrupted(SA_RESTART);
	interrupted(0);
	close(ends[0]);
	close(ends[1]);
	for (int i = 0; i < 3; i++)
		killed(kind);
	if (!is_socket) {
		open_ends(kind);
		say("other size", fcntl(ends[1], F_SETPIPE_SZ, 8192));
		say("that size", fcntl(ends[1], F_GETPIPE_SZ));
		fcntl(ends[1], F_SETFL, O_NONBLOCK);
		say("fits", write(ends[1], data, 20000));
		say("packets", pipe2(ends, O_DIRECT));
		say("a", write(ends[1], "a", 1));
		say("b", write(ends[1], "bb", 2));
		say("first", read(ends[0], got, 100));
	}
	return 0;
}

struct record {
	unsigned writer, number;
	unsigned length;
	unsigned char text[];
};

static void write_records(unsigned writer, long count)
{
	struct record *r = (struct record *)data;
	for (unsigned i = 0; i < count; i++) {
		seed = writer * 1000003u + i;
		r->writer = writer;
		r->number = i;
		r->length = chance(8) ? chance(200) : chance(4000);
		memset(r->text, (int)(writer + i), r->length);
		size_t bytes = sizeof *r + r->length;
		if (write(ends[1], r, bytes) != (long)bytes)
			_exit(1);
	}
	_exit(0);
}

static void whole(void *to, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		long result = read(ends[0], (char *)to + done, bytes - done);
		if (result <= 0)
			exit(result == 0 && done == 0 ? 0 : 3);
		done += (size_t)result;
	}
}

/* Writers beside each other; one in four is killed in the middle. Up to PIPE_BUF, a record is
 * whole, and those of a writer come in order. */
static int many(const char *kind, unsigned writers)
{
	static unsigned next[1000];
	pid_t processes[1000];
	open_ends(kind);
	setvbuf(stdout, 0, _IONBF, 0);
	for (unsigned i = 0; i < writers; i++)
		if (!(processes[i] = fork()))
			write_records(i, i % 4 == 3 ? 1000000 : 2000);
	close(ends[1]);
	unsigned running = writers, complete = 0;
	struct record *r = (struct record *)got;
	for (long n = 0; running; n++) {
		whole(r, sizeof *r);
		if (r->writer >= writers || r->number != next[r->writer] || r->length > 4000) {
			printf("BAD record %u of %u\n", r->number, r->writer);
			return 4;
		}
		whole(r->text, r->length);
		for (unsigned i = 0; i < r->length; i++)
			if (r->text[i] != (unsigned char)(r->writer + r->number)) {
				printf("BAD text in %u of %u\n", r->number, r->writer);
				return 4;
			}
		next[r->writer]++;
		if (r->writer % 4 == 3 && r->number == 500)
			kill(processes[r->writer], SIGKILL);
		if (r->writer % 4 != 3 && r->number == 1999) {
			complete++;
			running--;
		}
		if (r->writer % 4 == 3 && r->number == 500)
			running--;
	}
	printf("complete: %u\n", complete);
	return 0;
}

enum { THREADS = 4, TEXT = 256, EACH = 5000 };

static void *write_texts(void *number)
{
	char text[TEXT];
	memset(text, 'a' + (int)(long)number, TEXT);
	for (int i = 0; i < EACH; i++)
		if (write(ends[1], text, TEXT) != TEXT)
			return text;
	return 0;
}

static int threads(const char *kind)
{
	pthread_t running[THREADS];
	long found[256] = {0}, torn = 0;
	open_ends(kind);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&running[i], 0, write_texts, (void *)i);
	for (int i = 0; i < THREADS * EACH; i++) {
		for (long done = 0, n; done < TEXT; done += n)
			if ((n = read(ends[0], got + done, (size_t)(TEXT - done))) <= 0)
				return 3;
		found[(unsigned char)got[0]]++;
		torn += memcmp(got, got + 1, TEXT - 1) != 0;
	}
	for (int i = 0; i < THREADS; i++)
		say("of a thread", found['a' + i]);
	say("torn", torn);
	return 0;
}

/* The copy of an unread message that the library has: is its page right, and is it what is read? */
static int frames(const char *kind)
{
	char line[4096];
	unsigned long start, end;
	int copies = 0, wrong = 0, pagemap = open("/proc/self/pagemap", O_RDONLY);
	static uint64_t table[MANY];
	static char text[] = "where is this message of a pipe or a socket?";
	open_ends(kind);
	if (write(ends[1], text, sizeof text) != sizeof text)
		return 2;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || !strstr(line, " rw-p ") ||
		    strchr(line, '/') || strstr(line, "[stack]"))
			continue;
		long entries = 0;
		for (; start < end; start += 4096) {
			/* Most of the library's addresses have no pages. */
			if (start % (MANY * 4096) == 0 || entries == 0)
				entries = pread(pagemap, table, sizeof table,
						(long)(start / (MANY * 4096) * sizeof table));
			if (entries != sizeof table)
				exit(2);
			uint64_t entry = table[start / 4096 % MANY];
			char *page = (char *)start;
			if (!(entry >> 63) || (text >= page && text < page + 4096))
				continue;
			char *found = memmem(page, 4096, text, sizeof text);
			if (!found)
				continue;
			copies++;
			wrong += (entry & 31) >= 16;
			memset(found, '!', 5);
		}
	}
	long result = read(ends[0], got, sizeof got);
	printf("%s: %d of %d pages wrong, `%s` of %ld\n", kind, wrong, copies, got, result);
	return 0;
}

static void *nothing(void *unused)
{
	return unused;
}

/* Calls with other answers than a plain copy would give: a full socket, memory that is not mapped,
 * a message of no bytes in a program with threads. */
static int edges(const char *kind)
{
	pthread_t thread;
	char *nowhere = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct msghdr none = {.msg_iov = 0, .msg_iovlen = 1};
	int pair[2], left = 0;
	munmap(nowhere + 4096, 4096);
	open_ends(kind);
	say("one byte of nowhere", write(ends[1], nowhere + 4096, 1));
	say("no address", write(ends[1], (void *)1, 1));
	say("parts of nowhere", writev(ends[1], 0, 1));
	say("half", write(ends[1], nowhere, 8192));
	if (is_socket) {
		say("no parts", sendmsg(ends[1], &none, 0));
		while (send(ends[1], nowhere, 4000, MSG_DONTWAIT) > 0)
			left++;
		say("full", -1);
		say("was full", left > 10);
	}
	if (pthread_create(&thread, 0, nothing, 0) || pthread_join(thread, 0) ||
	    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
		return 2;
	say("empty message", write(pair[0], "", 0));
	say("it comes", recv(pair[1], data, sizeof data, MSG_DONTWAIT));
	return 0;
}

int main(int count, char **arguments)
{
	char path[64];
	struct sigaction action = {.sa_handler = caught, .sa_flags = SA_RESTART};
	if (count == 4 && !strcmp(arguments[1], "write"))
		return write(atoi(arguments[2]), arguments[3], strlen(arguments[3])) < 0;
	if (count < 3)
		return 2;
	self = arguments[0];
	sigaction(SIGPIPE, &action, 0);
	snprintf(path, sizeof path, "/tmp/solocore-streams-%d", getppid());
	fifo = getenv("STREAMS_FIFO") ? getenv("STREAMS_FIFO") : path;
	if (!strcmp(arguments[2], "fifo"))
		mkfifo(fifo, 0600);
	int status = 2;
	if (!strcmp(arguments[1], "random") && count == 5)
		status = random_calls(arguments[2], (unsigned)atol(arguments[3]),
				      atol(arguments[4]));
	else if (!strcmp(arguments[1], "waits"))
		status = waits(arguments[2]);
	else if (!strcmp(arguments[1], "many") && count == 4)
		status = many(arguments[2], (unsigned)atoi(arguments[3]));
	else if (!strcmp(arguments[1], "threads"))
		status = threads(arguments[2]);
	else if (!strcmp(arguments[1], "edges"))
		status = edges(arguments[2]);
	else if (!strcmp(arguments[1], "frames"))
		status = frames(arguments[2]);
	return status;
}
