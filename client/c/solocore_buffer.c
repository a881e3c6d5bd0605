/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Buffers in frames of a task (solocore_buffer.h describes their purpose).
 *
 * Rule: the reserve is asked first; only where none with a plan serves this program do the
 * program's own colours decide. A reserve is believed if it runs as root, or as the same user: any
 * program may listen under its name.
 */
#define _GNU_SOURCE
#include "solocore_buffer.h"
#include "solocore_receive.h"
#include "solocore_reserve.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* The reserve may be in the middle of a pass. */
#define PATIENCE_S 10
#define PAGE 4096u
/* Largest buffer: far above any memory, and far below an overflow. */
#define LARGEST ((size_t)1 << 46)

static void empty(struct sc_memory *memory)
{
	*memory = (struct sc_memory){.file = -1, .connection = -1};
}

static int is_believed(int socket)
{
	struct ucred who;
	socklen_t length = sizeof(who);

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 &&
	       (who.uid == 0 || who.uid == geteuid());
}

/* The connection, or a negative status. */
static int connect_reserve(void)
{
	const char *name = secure_getenv("SOLOCORE_RESERVE");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = PATIENCE_S};
	size_t length;
	int fd;

	if (!name)
		name = SC_RESERVE_SOCKET;
	length = strlen(name);
	if (length + 1 > sizeof(address.sun_path))
		return -SC_BUFFER_NONE;
	memcpy(address.sun_path + 1, name, length);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -SC_BUFFER_SYSTEM;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	length += offsetof(struct sockaddr_un, sun_path) + 1;
	if (connect(fd, (struct sockaddr *)&address, (socklen_t)length) != 0 || !is_believed(fd)) {
		close(fd);
		return -SC_BUFFER_NONE;
	}
	return fd;
}

/* The file that comes with the answer, or a negative status. */
static int receive(int socket, struct sc_buffer_answer *answer)
{
	int fd = -1;
	ssize_t got = receive_with_file(socket, answer, sizeof(*answer), &fd);

	/* It closes the connection of others without an answer. */
	if (got <= 0 && (got == 0 || errno == ECONNRESET) && geteuid() != 0)
		return -SC_BUFFER_DENIED;
	if (got == (ssize_t)sizeof(*answer) && answer->protocol == SC_RESERVE_PROTOCOL) {
		if (answer->status == SC_BUFFER_OK && fd >= 0)
			return fd;
		if (answer->status > SC_BUFFER_OK && answer->status <= SC_BUFFER_SYSTEM) {
			if (fd >= 0)
				close(fd);
			return -(int)answer->status;
		}
	}
	if (fd >= 0)
		close(fd);
	return -SC_BUFFER_REFUSED;
}

static int ask(int socket, const char *task, size_t bytes, struct sc_buffer_answer *answer)
{
	struct sc_buffer_request request = {
		.request = SC_RESERVE_REQUEST, .protocol = SC_RESERVE_PROTOCOL, .bytes = bytes};

	memcpy(request.task, task, strlen(task));
	/* A connection that the reserve has closed already fails in recvmsg(), which tells why. */
	(void)send(socket, &request, sizeof(request), MSG_NOSIGNAL);
	return receive(socket, answer);
}

/* Memory of a reserve. */
static int reserved(struct sc_memory *memory, const char *task, size_t bytes)
{
	struct sc_buffer_answer answer = {0};
	struct stat status;
	int file, connection = connect_reserve();

	if (connection < 0)
		return -connection;
	file = ask(connection, task, bytes, &answer);
	if (file < 0) {
		close(connection);
		return -file;
	}
	/* Beyond a file's end there is memory only to look at. */
	if (fstat(file, &status) != 0 || answer.bytes < bytes ||
	    (uint64_t)status.st_size < answer.bytes) {
		close(file);
		close(connection);
		return SC_BUFFER_REFUSED;
	}
	memory->bytes = (size_t)answer.bytes;
	memory->at = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			  file, 0);
	if (memory->at == MAP_FAILED) {
		close(file);
		close(connection);
		return SC_BUFFER_SYSTEM;
	}
	/* The kernel moves pages to other frames when it makes a huge page of them. */
	(void)madvise(memory->at, memory->bytes, MADV_NOHUGEPAGE);
	memory->file = file;
	memory->connection = connection;
	return SC_BUFFER_OK;
}

static int is_library(struct dl_phdr_info *loaded, size_t size, void *path)
{
	(void)size;
	return strcmp(loaded->dlpi_name, path) == 0;
}

/*
 * Is the library that places pages in this program? It is the first of LD_PRELOAD. A static program
 * has the environment of the one that started it, and not the library.
 */
static int is_coloured(void)
{
	const char *list = secure_getenv("LD_PRELOAD");
	char path[128];
	size_t length = list ? strcspn(list, ": ") : 0;

	if (length == 0 || length >= sizeof(path))
		return 0;
	memcpy(path, list, length);
	path[length] = 0;
	return dl_iterate_phdr(is_library, path);
}

/*
 * Does this program run in colours as this task? SOLOCORE_SPACE begins with the name of the socket
 * that serves it, which ends with the task's: solocore-space-PID/TASK.
 */
static int runs_as(const char *task)
{
	const char *space = secure_getenv("SOLOCORE_SPACE"), *name, *end;

	if (!space || !is_coloured())
		return 0;
	end = strchr(space, ':');
	name = strchr(space, '/');
	if (!end || !name || name > end)
		return 0;
	name++;
	return (size_t)(end - name) == strlen(task) && memcmp(name, task, strlen(task)) == 0;
}

/* Memory that the library in this program places. */
static int coloured(struct sc_memory *memory, size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return SC_BUFFER_SYSTEM;
	/* A page gets its frame when it is first written to. */
	for (size_t page = 0; page < bytes; page += PAGE)
		*(volatile char *)(at + page) = 0;
	memory->at = at;
	memory->bytes = bytes;
	return SC_BUFFER_OK;
}

int sc_buffer(struct sc_memory *memory, const char *task, size_t bytes)
{
	int status, saved = errno;

	empty(memory);
	if (!task || !*task || strlen(task) >= SC_TASK_BYTES || bytes == 0 || bytes > LARGEST)
		return SC_BUFFER_ARGUMENT;
	bytes = (bytes + PAGE - 1) / PAGE * PAGE;
	status = reserved(memory, task, bytes);
	if ((status == SC_BUFFER_NONE || status == SC_BUFFER_DENIED) && runs_as(task))
		status = coloured(memory, bytes);
	if (status != SC_BUFFER_OK)
		empty(memory);
	errno = saved;
	return status;
}

void sc_buffer_free(struct sc_memory *memory)
{
	int saved = errno;

	if (memory->at)
		munmap(memory->at, memory->bytes);
	if (memory->file >= 0)
		close(memory->file);
	/* Last: the reserve gives the frames back to the kernel now. */
	if (memory->connection >= 0)
		close(memory->connection);
	empty(memory);
	errno = saved;
}

const char *sc_strbuffer(int status)
{
	static const char *const texts[] = {
		[SC_BUFFER_OK] = "success",
		[SC_BUFFER_NONE] =
			"no reserve with a plan runs, and this program does not run in colours as "
			"that task; start `solocore reserve --plan PLAN`, or the program by "
			"`solocore exec --plan PLAN --task TASK`",
		[SC_BUFFER_DENIED] = "the reserve gives frames to root alone; run as root",
		[SC_BUFFER_UNKNOWN] =
			"the reserve's plan has no such task, or gives it no colours and banks; "
			"correct the name, or plan with colours",
		[SC_BUFFER_FEW] =
			"the reserve holds too few frames of this task; ask for less, free other "
			"buffers, or start the reserve earlier",
		[SC_BUFFER_ARGUMENT] = "a buffer needs a task's name of 1 to 63 bytes and a "
				       "possible size; correct "
				       "them",
		[SC_BUFFER_REFUSED] =
			"the reserve does not answer in time, or not as it should; ask again, or "
			"use solocore and libsolocore of one version",
		[SC_BUFFER_SYSTEM] =
			"a system call failed, or other frames came than the freed ones; "
			"ask again, free memory, or raise the limit on descriptors (ulimit -n)",
	};

	return status >= 0 && status <= SC_BUFFER_SYSTEM ? texts[status] : "no status of a buffer";
}
