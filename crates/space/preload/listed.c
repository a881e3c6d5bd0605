/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The list of messages that lie in the program's frames (solocore exec --queues), as the
 * environment has it in SOLOCORE_QUEUES: /NAME of POSIX queues, keys like 0x4d2 of System V, `all`
 * of both, `pipes`, `sockets`, and fifo:/PATH.
 */
#include "hooks.h"
#include "queue.h"

#include <string.h>

#define FIFO "fifo:"

/* The next item of the list; its length, 0: there is none. */
static size_t next_item(const char **list)
{
	size_t length = 0;
	*list += **list == ',';
	while ((*list)[length] && (*list)[length] != ',')
		length++;
	return length;
}

static const char *whole_list(void)
{
	return queues_text[0] ? queues_text + sizeof "SOLOCORE_QUEUES=" - 1 : "";
}

static int has(const char *name)
{
	const char *list = whole_list();
	for (size_t length; (length = next_item(&list)) > 0; list += length)
		if (text_length(name) == length && !strncmp(name, list, length))
			return 1;
	return 0;
}

/* Is this name listed? Without a program's colours, no name is. */
int queue_is_listed(const char *name)
{
	int is_queue = name[0] == '/' || starts_with(name, "0x");
	return self && (has(name) || (is_queue && has("all")));
}

/* The path of a named pipe of the list, by number; 0: there are not so many. */
int queue_fifo(unsigned number, char *path, size_t room)
{
	const char *list = whole_list();
	for (size_t length; (length = next_item(&list)) > 0; list += length) {
		if (!starts_with(list, FIFO) || number-- > 0)
			continue;
		size_t start = sizeof FIFO - 1, bytes = length - start;
		if (bytes >= room)
			return 0;
		copy_bytes(path, list + start, bytes);
		path[bytes] = 0;
		return 1;
	}
	return 0;
}
