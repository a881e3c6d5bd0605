/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: libc maps memory for itself (malloc, thread stacks) through functions of its own that
 * cannot be interposed. Rule: the first instructions of libc's mmap, brk, mremap, mprotect,
 * madvise, mlockall, execve and _exit become a jump to the functions below, which do the whole work
 * of those they replace and tell the handler; so does the loader's hook for debuggers, which runs
 * whenever objects have been mapped. pipe_calls.c has write, pipe and pipe2 replaced in this way
 * for programs whose pipes or sockets are listed. Fork is followed by pthread_atfork. Does not
 * cover: programs that make system calls without libc: their new mappings are found at the next
 * load, fork or recolour, and are seen by the audit.
 */
#define _GNU_SOURCE
#include "calls.h"
#include "hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>

#define MAP_KIND 0x0f
#define MCL_ONFAULT_ 4
/* A new mapping that is not anonymous: no locked page lies in it. */
#define NO_NUMBER (~0u)

extern void *__curbrk;

struct shared *self;

static void take_lock(struct shared *s)
{
	int seen = __sync_val_compare_and_swap(&s->lock, 0, 1);
	while (seen) {
		if (seen == 2 || __sync_val_compare_and_swap(&s->lock, 1, 2))
			raw(SYS_futex, &s->lock, 128 /* FUTEX_WAIT | FUTEX_PRIVATE_FLAG */, 2, 0);
		seen = __sync_val_compare_and_swap(&s->lock, 0, 2);
	}
}

static void free_lock(struct shared *s)
{
	if (__atomic_exchange_n(&s->lock, 0, __ATOMIC_RELEASE) == 2)
		raw(SYS_futex, &s->lock, 129, 1);
}

/* Signals are blocked: a handler that maps memory would wait for its own thread. */
static void call_for(uint32_t kind, const void *start, size_t length, const char *text,
		     uint32_t number)
{
	uint64_t all = ~0ul, before;
	struct shared *s = self;
	if (!s || !s->ready)
		return;
	raw(SYS_rt_sigprocmask, 0, &all, &before, 8);
	take_lock(s);
	s->kind = kind;
	s->number = number;
	s->start = (uint64_t)start & ~(PAGE - 1);
	s->length = (length + ((uint64_t)start & (PAGE - 1)) + PAGE - 1) & ~(PAGE - 1);
	for (size_t i = 0; text && i < sizeof s->text; i++) {
		s->text[i] = i + 1 < sizeof s->text ? text[i] : 0;
		if (!text[i])
			break;
	}
	(void)*(volatile char *)s->doorbell;
	raw(SYS_madvise, s->doorbell, PAGE, MADV_DONTNEED);
	free_lock(s);
	raw(SYS_rt_sigprocmask, 2, &before, 0, 8);
}

void call_handler(uint32_t kind, const void *start, size_t length, const char *text)
{
	call_for(kind, start, length, text, 0);
}

/* The number of a new anonymous mapping, by the order in which they are made, as in a profile. */
static uint32_t next_mapping(void)
{
	return self ? __sync_add_and_fetch(&self->mappings, 1) : 0;
}

static int overlaps_pool(const void *start, size_t length)
{
	return self && (uint64_t)start < self->end && (uint64_t)start + length > self->base;
}

static void *hook_mmap(void *start, size_t length, int protection, int flags, int fd, long offset)
{
	int private = (flags & MAP_KIND) == MAP_PRIVATE && !(flags & MAP_HUGETLB);
	int early = private ? flags & ~(MAP_POPULATE | MAP_LOCKED) : flags;
	if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) && overlaps_pool(start, length)) {
		/* An address for which the program was linked; the kernel chose the pool's
		 * addresses. */
		errno = flags & MAP_FIXED_NOREPLACE ? EEXIST : ENOMEM;
		return MAP_FAILED;
	}
	long at = raw(SYS_mmap, start, length, protection, early, fd, offset);
	uint32_t number = !failed(at) && flags & MAP_ANONYMOUS ? next_mapping() : 0;
	if (failed(at) || !private)
		return (void *)answer(at);
	if (flags & MAP_ANONYMOUS)
		call_for(REQUEST_REGISTER, (void *)at, length, 0, number);
	else if (protection & PROT_WRITE)
		call_for(REQUEST_WRITABLE, (void *)at, length, 0, NO_NUMBER);
	else if (self)
		__sync_fetch_and_add(&self->plain_files, 1);
	if (flags & MAP_LOCKED)
		raw(SYS_mlock, at, length);
	else if (flags & MAP_POPULATE)
		raw(SYS_madvise, at, length, protection & PROT_WRITE ? 23 : 22);
	return (void *)at;
}

static void *hook_mremap(void *old, size_t old_size, size_t size, int flags, void *target)
{
	if ((flags & MREMAP_FIXED && overlaps_pool(target, size)) || overlaps_pool(old, old_size)) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	long at = raw(SYS_mremap, old, old_size, size, flags, target);
	int shrunk = (void *)at == old && size <= old_size;
	if (!failed(at))
		call_for(shrunk ? REQUEST_SHRUNK : REQUEST_ADOPT, (void *)at, size, 0,
			 next_mapping());
	return (void *)answer(at);
}

static int hook_mprotect(void *start, size_t length, int protection)
{
	/* Before it may be written to: copies that the kernel makes then would be lost. */
	if (protection & PROT_WRITE && self && self->plain_files > 0)
		call_handler(REQUEST_WRITABLE, start, length, 0);
	return (int)answer(raw(SYS_mprotect, start, length, protection));
}

static int hook_madvise(void *start, size_t length, int advice)
{
	/* Huge pages span all colours, and merged pages belong to others. Advice may be ignored. */
	if (advice == MADV_HUGEPAGE || advice == MADV_MERGEABLE || advice == 25 /* MADV_COLLAPSE */)
		return 0;
	return (int)answer(raw(SYS_madvise, start, length, advice));
}

static void lock_area(struct state *unused, const struct area *area, void *argument)
{
	(void)unused;
	if (!area->kernel && !overlaps_pool((void *)area->start, area->end - area->start))
		raw(SYS_mlock2, area->start, area->end - area->start, *(const int *)argument);
}

/* The pool's addresses are more than there is memory: of them, only pages that the program has are
 * locked. A mapping that cannot be locked (without rights) is left out, as the kernel does. */
static int hook_mlockall(int flags)
{
	int on_fault = (flags & MCL_ONFAULT_) != 0;
	if (!self || !(flags & MCL_CURRENT) || flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT_))
		return (int)answer(raw(SYS_mlockall, flags));
	if (flags & MCL_FUTURE) {
		long result = raw(SYS_mlockall, flags & ~MCL_CURRENT);
		if (failed(result))
			return (int)answer(result);
	}
	return each_area(0, lock_area, &on_fault) ? (int)answer(-ENOMEM) : 0;
}

static int hook_brk(void *end)
{
	uint64_t before = (uint64_t)raw(SYS_brk, 0), after;
	__curbrk = (void *)raw(SYS_brk, end);
	after = (uint64_t)__curbrk;
	if (after < (uint64_t)end) {
		errno = ENOMEM;
		return -1;
	}
	before = (before + PAGE - 1) & ~(PAGE - 1);
	if (after > before)
		call_handler(REQUEST_REGISTER, (void *)before, after - before, 0);
	return 0;
}

static void hook_exit(int status)
{
	/* A child of vfork ends without its parent. */
	if (self && raw(SYS_getpid, 0) == self->pid) {
		hold_end();
		call_handler(REQUEST_EXIT, 0, 0, 0);
	}
	for (;;)
		raw(SYS_exit_group, status);
}

static int hook_execve(const char *path, char *const *arguments, char *const *environment)
{
	char reason[224];
	size_t count = 0, room = 0;
	if (!self)
		return (int)answer(raw(SYS_execve, path, arguments, environment));
	if (why_uncoloured(path, reason, sizeof reason))
		call_handler(REQUEST_UNCOLOURED, 0, 0, reason);
	for (; environment && environment[count]; count++)
		if (starts_with(environment[count], "LD_PRELOAD="))
			room = text_length(environment[count]);
	char *with[count + 4];
	char preload[room + sizeof preload_text + 2];
	colour_environment(environment, with, preload);
	return (int)answer(raw(SYS_execve, path, arguments, with));
}

static void hook_loaded(void)
{
	if (_r_debug.r_state == RT_CONSISTENT)
		call_handler(REQUEST_LOADED, 0, 0, 0);
}

/* Writes a jump over the start of a function. It may lie across two pages. */
static void patch(void *function, void *target)
{
	uint64_t start = (uint64_t)function & ~(PAGE - 1), address = (uint64_t)target;
	raw(SYS_mprotect, start, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
#if defined(__x86_64__)
	/* mov $target, %r11; jmp *%r11 */
	unsigned char *code = function;
	code[0] = 0x49;
	code[1] = 0xbb;
	copy_bytes(code + 2, &address, 8);
	code[10] = 0x41;
	code[11] = 0xff;
	code[12] = 0xe3;
#else
	/* ldr x16, 8; br x16; target */
	uint32_t *code = function;
	code[0] = 0x58000050;
	code[1] = 0xd61f0200;
	copy_bytes(code + 2, &address, 8);
	__builtin___clear_cache((char *)code, (char *)code + 16);
#endif
	raw(SYS_mprotect, start, 2 * PAGE, PROT_READ | PROT_EXEC);
}

/* A function of libc itself, not of another library in front of it. */
static void *in_libc(const char *name)
{
	Dl_info found, libc;
	void *function = dlsym(RTLD_NEXT, name),
	     *version = dlsym(RTLD_NEXT, "gnu_get_libc_version");
	if (!function || !version || !dladdr(function, &found) || !dladdr(version, &libc))
		return 0;
	return found.dli_fbase == libc.dli_fbase ? function : 0;
}

/* The loader's empty function, which is one return; on x86-64, nothing else lies before the next
 * multiple of 16. */
static int is_empty_function(const void *function)
{
#if defined(__x86_64__)
	/* ret, perhaps after endbr64 */
	const unsigned char *code = function;
	return code[0] == 0xc3 || (code[0] == 0xf3 && code[4] == 0xc3);
#else
	/* ret, perhaps after bti c */
	const uint32_t *code = function;
	return code[0] == 0xd65f03c0 || (code[0] == 0xd503245f && code[1] == 0xd65f03c0);
#endif
}

static void patch_loader(void)
{
	void *function = (void *)_r_debug.r_brk;
	if (!function || !is_empty_function(function))
		return;
#if defined(__x86_64__)
	if ((uint64_t)function % 16 == 0)
		patch(function, (void *)hook_loaded);
#else
	/* The next function begins after four bytes: there is room for one branch. */
	int64_t distance = (int64_t)hook_loaded - (int64_t)function;
	uint64_t page = (uint64_t)function & ~(PAGE - 1);
	if (distance < -(1l << 27) || distance >= 1l << 27)
		return;
	raw(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	*(volatile uint32_t *)function = 0x14000000u | ((uint32_t)(distance >> 2) & 0x3ffffffu);
	__builtin___clear_cache((char *)function, (char *)function + 4);
	raw(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC);
#endif
}

/* -1: libc has no such function, or another library is in front of it. */
int hook_function(const char *name, void *hook)
{
	void *function = in_libc(name);
	if (!function)
		return -1;
	patch(function, hook);
	return 0;
}

int install_hooks(void)
{
	static const struct {
		const char *name;
		void *hook;
	} hooks[] = {{"mmap", (void *)hook_mmap},	{"brk", (void *)hook_brk},
		     {"mremap", (void *)hook_mremap},	{"mprotect", (void *)hook_mprotect},
		     {"madvise", (void *)hook_madvise}, {"execve", (void *)hook_execve},
		     {"_exit", (void *)hook_exit},	{"mlockall", (void *)hook_mlockall}};
	enum { HOOKS = sizeof hooks / sizeof hooks[0] };
	void *found[HOOKS];
	for (unsigned i = 0; i < HOOKS; i++)
		if (!(found[i] = in_libc(hooks[i].name)))
			return -1;
	for (unsigned i = 0; i < HOOKS; i++)
		patch(found[i], hooks[i].hook);
	patch_loader();
	return 0;
}
