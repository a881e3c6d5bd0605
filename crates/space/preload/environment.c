/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the programs that the program starts must be coloured too, and some cannot be. Rule:
 * every program that it becomes or starts gets this library, and the names of the message queues,
 * in its environment, for any given environment. A program into which the loader would not preload
 * it is reported before it starts (solocore says so, and counts it). Does not cover: starting
 * programs by a system call without libc.
 */
#include "hooks.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

char preload_text[128], space_text[192], queues_text[1024];

static void append(char *text, size_t size, const char *more)
{
	size_t n = text_length(text);
	while (*more && n + 1 < size)
		text[n++] = *more++;
	text[n] = 0;
}

static const char *elf_problem(long fd, const Elf64_Ehdr *head)
{
	if (head->e_ident[EI_CLASS] != ELFCLASS64)
		return "is a 32-bit program";
	for (unsigned i = 0; i < head->e_phnum && i < 64; i++) {
		Elf64_Phdr part;
		if (raw(SYS_pread64, fd, &part, sizeof part, head->e_phoff + i * sizeof part) !=
		    sizeof part)
			break;
		if (part.p_type == PT_INTERP)
			return 0;
	}
	return "is linked statically";
}

/* Does the loader leave this library out of the program? For a script, its interpreter is checked.
 * */
int why_uncoloured(const char *path, char *reason, size_t size)
{
	char interpreter[128];
	for (int depth = 0; depth < 3; depth++) {
		union {
			Elf64_Ehdr elf;
			char text[128];
		} head;
		struct stat status;
		const char *problem = 0;
		long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
		if (failed(fd))
			return 0;
		long got = raw(SYS_pread64, fd, &head, sizeof head, 0);
		raw(SYS_fstat, fd, &status);
		if (got >= (long)sizeof head.elf && starts_with(head.text, ELFMAG)) {
			problem = elf_problem(fd, &head.elf);
			if (!problem && status.st_mode & (S_ISUID | S_ISGID) &&
			    status.st_uid != (uid_t)raw(SYS_geteuid, 0))
				problem = "is set-user-ID or set-group-ID";
		}
		raw(SYS_close, fd);
		if (problem) {
			reason[0] = 0;
			append(reason, size, path);
			append(reason, size, " ");
			append(reason, size, problem);
			return 1;
		}
		if (got < 3 || head.text[0] != '#' || head.text[1] != '!')
			return 0;
		size_t from = 2, n = 0;
		while (from < (size_t)got && head.text[from] == ' ')
			from++;
		while (from + n < (size_t)got && head.text[from + n] > ' ')
			n++;
		copy_bytes(interpreter, head.text + from, n);
		interpreter[n < sizeof interpreter ? n : sizeof interpreter - 1] = 0;
		path = interpreter;
	}
	return 0;
}

/* The environment with this library in it. `with` has room for three more variables, `preload` for
 * both lists. */
void colour_environment(char *const *environment, char **with, char *preload)
{
	const char *library = preload_text + sizeof "LD_PRELOAD=" - 1;
	size_t n = 0, length = text_length(library);
	copy_bytes(preload, preload_text, text_length(preload_text) + 1);
	for (size_t i = 0; environment && environment[i]; i++) {
		const char *entry = environment[i];
		if (starts_with(entry, "SOLOCORE_SPACE=") || starts_with(entry, "SOLOCORE_QUEUES="))
			continue;
		if (starts_with(entry, "LD_PRELOAD=")) {
			const char *others = entry + sizeof "LD_PRELOAD=" - 1;
			if (starts_with(others, library))
				others += length + (others[length] == ':' || others[length] == ' ');
			size_t end = text_length(preload);
			if (*others) {
				preload[end] = ':';
				copy_bytes(preload + end + 1, others, text_length(others) + 1);
			}
			continue;
		}
		with[n++] = environment[i];
	}
	with[n++] = preload;
	with[n++] = space_text;
	if (queues_text[0])
		with[n++] = queues_text;
	with[n] = 0;
}
