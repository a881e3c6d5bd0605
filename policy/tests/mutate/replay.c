/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Replays a recording (tests/policy-check/examples/record.rs) through mutant.c and compares the
 * answers, word for word. Argument: the file. Exit: 0 all equal, 1 a difference, 2 no such file; a
 * mutant that does not come to an end is killed by its limit of CPU time.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../driver.h"

#define SECONDS 3

struct record {
	struct sc_event event;
	struct sc_answer answer;
};

extern const sc_u64 replay_world_size;
void replay_drive(void *world, const struct sc_event *event, struct sc_answer *answer);

/* Replays this number of events on a zeroed world. Returns 0 if an answer differs. */
static int replay(const struct record *record, sc_u64 count)
{
	void *world = mmap(0, replay_world_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sc_answer answer;
	int equal = world != MAP_FAILED;

	for (sc_u64 i = 0; i < count && equal; i++) {
		memset(&answer, 0xff, sizeof(answer));
		replay_drive(world, &record[i].event, &answer);
		equal = memcmp(&answer, &record[i].answer, sizeof(answer)) == 0;
	}
	munmap(world, replay_world_size);
	return equal;
}

int main(int argc, char **argv)
{
	struct rlimit limit = {SECONDS, SECONDS};
	struct stat status;
	int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	const unsigned char *data, *end;

	setrlimit(RLIMIT_CPU, &limit);
	if (file < 0 || fstat(file, &status) != 0)
		return 2;
	data = mmap(0, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (data == MAP_FAILED)
		return 2;
	for (end = data + status.st_size; data < end;) {
		sc_u64 count;

		memcpy(&count, data, sizeof(count));
		data += sizeof(count);
		if (!replay((const struct record *)data, count))
			return 1;
		data += count * sizeof(struct record);
	}
	return 0;
}
