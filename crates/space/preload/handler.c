/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: a page that the program touches for the first time must be one of its colours, for any
 * maker of the mapping. Rule: all anonymous memory is registered with userfaultfd. One thread,
 * which shares the memory but not the descriptors (so that the program can neither see nor close
 * them), serves the faults: the first of a sequence with one page, the following with twice as many
 * each time. Threads call it by reading a page that is never there (the doorbell).
 */
#define _GNU_SOURCE
#include "space.h"
#include "uffd.h"

#include <poll.h>
#include <sys/mman.h>

#define LOOK_NS 1000000000ul

/* Number of pages that a fault gets: more, if it continues where the last of its kind ended. */
static uint32_t width_of(struct state *s, uint64_t page, uint32_t *stream)
{
	for (uint32_t i = 0; i < STREAMS; i++) {
		if (s->next[i] == page) {
			s->width[i] = s->width[i] * 2 < WIDEST ? s->width[i] * 2 : WIDEST;
			*stream = i;
			return s->width[i];
		}
	}
	*stream = s->victim++ % STREAMS;
	s->width[*stream] = 1;
	return 1;
}

static void missing_page(struct state *s, uint64_t page)
{
	uint32_t stream;
	uint32_t width = width_of(s, page, &stream);
	long placed = direct_place(s, page, width);
	if (!placed) {
		pool_expect(s, width);
		placed = pool_place(s, page, width);
	}
	if (placed <= 0) {
		/* Another thread's fault has been served already, or the mapping has gone. */
		struct uffd_range range = {page, PAGE};
		raw(SYS_ioctl, s->uffd, UFFDIO_WAKE_, &range);
		placed = 1;
	}
	s->next[stream] = page + (uint64_t)placed * PAGE;
}

/* Copies this thread's own memory, stack included, and moves the copy over it, without a write in
 * between. */
static long copy_and_remap(long at, uint64_t to, uint64_t bytes)
{
#if defined(__x86_64__)
	register long flags __asm__("r10") = MREMAP_MAYMOVE | MREMAP_FIXED;
	register long target __asm__("r8") = (long)to;
	long result;
	__asm__ volatile("mov %[to], %%rsi\n\tmov %[at], %%rdi\n\tmov %[n], %%rcx\n\trep movsb\n\t"
			 "mov %[at], %%rdi\n\tmov %[n], %%rsi\n\tmov %[n], %%rdx\n\tmov %[call], "
			 "%%eax\n\tsyscall"
			 : "=&a"(result)
			 : [at] "r"(at), [to] "r"(to), [n] "r"(bytes), [call] "i"(SYS_mremap),
			   "r"(flags), "r"(target)
			 : "rdi", "rsi", "rdx", "rcx", "r11", "memory");
	return result;
#else
	register long x0 __asm__("x0") = at;
	register long x1 __asm__("x1") = (long)bytes;
	register long x2 __asm__("x2") = (long)bytes;
	register long x3 __asm__("x3") = MREMAP_MAYMOVE | MREMAP_FIXED;
	register long x4 __asm__("x4") = (long)to;
	register long x8 __asm__("x8") = SYS_mremap;
	__asm__ volatile("mov x9, x4\n\tmov x10, x0\n\tadd x11, x0, x1\n"
			 "1:\tldp x12, x13, [x9], #16\n\tstp x12, x13, [x10], #16\n\tcmp x10, "
			 "x11\n\tb.lo 1b\n\t"
			 "svc 0"
			 : "+r"(x0)
			 : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x8)
			 : "x9", "x10", "x11", "x12", "x13", "cc", "memory");
	return x0;
#endif
}

/* The pool's own first pages, on which this runs. */
static void replace_own(struct state *s)
{
	uint64_t to = (uint64_t)s, bytes = STATE_PAGES * PAGE;
	long at = raw(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(at))
		return;
	register_range(s, (uint64_t)at, (uint64_t)at + bytes);
	raw(SYS_madvise, at, bytes, MADV_DONTFORK);
	for (uint64_t done = 0; done < STATE_PAGES;) {
		long moved = pool_place(s, (uint64_t)at + done * PAGE, STATE_PAGES - done);
		if (moved <= 0)
			give_up(s, "the pool's own pages cannot be moved; start the program again");
		done += (uint64_t)moved;
	}
	struct uffd_range range = {(uint64_t)at, bytes};
	raw(SYS_ioctl, s->uffd, _IOR(0xAA, 0x01, struct uffd_range), &range);
	if (failed(copy_and_remap(at, to, bytes)))
		raw(SYS_munmap, at, bytes);
}

/* The kernel moves pages to other frames when it makes room for large blocks: they are moved back,
 * and counted. The waiting pages of the queue are all given up when one of them has moved. */
static void keep_right(struct state *s)
{
	uint64_t before = s->moved;
	adopt_range(s, 0, ~0ul, 1);
	sweep_range(s, (uint64_t)s->shared, (uint64_t)s->shared + PAGE);
	if (has_wrong_page(s, s->head, s->tail)) {
		raw(SYS_madvise, s->floor, s->tail - s->floor, MADV_DONTNEED);
		s->head = s->tail = s->floor;
		s->moved++;
		pool_need(s, s->shared->held_pages);
	}
	pool_check_locked(s);
	if (has_wrong_page(s, (uint64_t)s, (uint64_t)s + STATE_PAGES * PAGE))
		replace_own(s);
	s->repaired += s->moved - before;
}

/* Checks pages from time to time, for at most a hundredth of the time. */
static void look_again(struct state *s)
{
	uint64_t now = now_ns();
	if (now < s->next_look)
		return;
	keep_right(s);
	uint64_t took = now_ns() - now;
	s->next_look = now + took + (took * 100 > LOOK_NS ? took * 100 : LOOK_NS);
}

/* Moves all pages to the colours of the newest configuration: one answer is for all requests so
 * far, also for those whose asker has gone. */
static void recolour(struct state *s)
{
	uint64_t began = now_ns();
	struct packet packet;
	zero_bytes(&packet, sizeof packet);
	packet.kind = PACKET_RECOLOURED;
	/* A later request may come meanwhile; it gets an answer of its own. */
	packet.request = s->request;
	s->request = 0;
	s->moved = s->stuck = s->move_ns = 0;
	if (config_read(&s->config, s->chosen))
		give_up(s, "the new configuration cannot be read");
	pool_release(s, 0);
	s->direct = 0;
	credit_back(s);
	/* Free pages are in the old colours. */
	raw(SYS_madvise, s->floor, s->tail - s->floor, MADV_DONTNEED);
	s->head = s->tail = s->floor;
	uint64_t repaired = s->repaired;
	keep_right(s);
	pool_release(s, 0);
	packet.pages = (uint32_t)s->moved;
	packet.stuck = s->stuck;
	packet.move_ns = s->move_ns;
	packet.all_ns = now_ns() - began;
	/* Pages that the kernel has moved under way. */
	keep_right(s);
	pool_release(s, 0);
	s->repaired = repaired;
	pool_need(s, s->shared->held_pages);
	/* Its pages are counted now: no other pages may be examined meanwhile. */
	if (!failed(raw(SYS_sendto, s->socket, &packet, sizeof packet, 0x4000, 0, 0)))
		wait_for_go(s, 0);
}

/* Locked pages of a mapping have their addresses before its first page is touched. Returns whether
 * it has, or had, some. */
static int know_mapping(struct state *s, uint64_t start, uint64_t end, uint32_t number)
{
	struct packet packet;
	if (!s->lock_count || !lock_mapped(s, start, end, number))
		return 0;
	zero_bytes(&packet, sizeof packet);
	packet.kind = PACKET_MAPPED;
	packet.request = number;
	packet.move_ns = start;
	packet.all_ns = end;
	raw(SYS_sendto, s->socket, &packet, sizeof packet, 0x4000, 0, 0);
	return 1;
}

/* Tells solocore that the pages that the process began with are in its frames. */
static void tell_placed(struct state *s)
{
	if (!s->told_placed)
		send_packet(s, PACKET_PLACED, 0);
	s->told_placed = 1;
}

static void serve_request(struct state *s)
{
	struct shared *shared = s->shared;
	uint64_t start = shared->start, end = shared->start + shared->length;
	char text[sizeof shared->text];
	int locked = know_mapping(s, start, end, shared->number);
	switch (shared->kind) {
	case REQUEST_REGISTER:
		adopt_new(s, start, end);
		break;
	case REQUEST_ADOPT:
		adopt_range(s, start, end, 1);
		break;
	case REQUEST_SHRUNK:
		if (locked)
			adopt_range(s, start, end, 1);
		break;
	case REQUEST_WRITABLE:
		adopt_range(s, start, end, 0);
		break;
	case REQUEST_LOADED:
		adopt_range(s, 0, ~0ul, 1);
		tell_placed(s);
		break;
	case REQUEST_HELD:
		/* The pages that it began with have taken frames of those that were ready. */
		pool_need(s, s->shared->held_pages);
		break;
	case REQUEST_FORKED:
		s->forked = 1;
		protect_all(s);
		adopt_range(s, 0, ~0ul, 1);
		tell_placed(s);
		break;
	case REQUEST_EXIT:
		keep_right(s);
		pool_release(s, 0);
		if (!send_packet(s, PACKET_EXIT, 0))
			wait_for_go(s, 0);
		break;
	case REQUEST_PLACE:
		place_shared(s, start, end);
		break;
	case REQUEST_UNCOLOURED:
		copy_bytes(text, shared->text, sizeof text);
		send_packet(s, PACKET_UNCOLOURED, text);
		break;
	case REQUEST_NOTE:
		copy_bytes(text, shared->text, sizeof text);
		send_packet(s, PACKET_NOTE, text);
		break;
	default:
		break;
	}
}

static void answer_doorbell(struct state *s)
{
	struct uffdio_zeropage_ zero = {{s->shared->doorbell, PAGE}, 0, 0};
	serve_request(s);
	if (failed(raw(SYS_ioctl, s->uffd, UFFDIO_ZEROPAGE_, &zero))) {
		struct uffd_range range = {s->shared->doorbell, PAGE};
		raw(SYS_ioctl, s->uffd, UFFDIO_WAKE_, &range);
	}
}

static void serve_socket(struct state *s)
{
	struct packet packet;
	long got;
	while ((got = raw(SYS_recvfrom, s->socket, &packet, sizeof packet, 0x40 /* MSG_DONTWAIT */,
			  0, 0)) == (long)sizeof packet)
		if (packet.kind == PACKET_RECOLOUR)
			s->request = packet.request;
	if (got == 0 || (failed(got) && got != -EAGAIN_)) {
		/* solocore has gone: the program stays in its colours, and gets no further
		 * requests. */
		raw(SYS_close, s->socket);
		s->socket = -1;
	}
}

void own_descriptors(const struct state *s, int *own)
{
	const int all[OWN_DESCRIPTORS] = {s->uffd,	 s->pagemap, s->memory, s->socket,
					  s->kpageflags, s->chosen,  s->reserve};
	for (unsigned i = 0; i < OWN_DESCRIPTORS; i++)
		own[i] = all[i];
}

void close_all_but(const int *own, unsigned count)
{
	unsigned first = 0;
	for (;;) {
		unsigned next = ~0u;
		for (unsigned i = 0; i < count; i++)
			if (own[i] >= 0 && (unsigned)own[i] >= first && (unsigned)own[i] < next)
				next = (unsigned)own[i];
		if (next > first)
			raw(SYS_close_range, first, next == ~0u ? ~0u : next - 1, 0);
		if (next == ~0u)
			return;
		first = next + 1;
	}
}

int handler_main(void *argument)
{
	struct state *s = argument;
	int own[OWN_DESCRIPTORS];
	raw(SYS_prctl, 15 /* PR_SET_NAME */, "solocore-pages");
	/* The program's descriptors must end when it closes them: only the library's are left in
	 * this thread's table. */
	own_descriptors(s, own);
	close_all_but(own, OWN_DESCRIPTORS);
	drop_privileges(s);
	for (;;) {
		struct uffd_event events[16];
		struct pollfd wait[2] = {{s->uffd, POLLIN, 0}, {s->socket, POLLIN, 0}};
		/* The pages that the pool holds are given back soon. */
		int holds = pool_holds(s) || s->credit;
		uint64_t patience = holds ? LOOK_NS / 10 : LOOK_NS;
		long limit[2] = {(long)(patience / 1000000000), (long)(patience % 1000000000)};
		raw(SYS_ppoll, wait, 2, limit, 0);
		if (holds && now_ns() >= s->release_at)
			pool_release(s, 0);
		if (s->credit && now_ns() >= s->credit_until)
			credit_back(s);
		if (wait[1].revents)
			serve_socket(s);
		while (s->request)
			recolour(s);
		look_again(s);
		long got = raw(SYS_read, s->uffd, events, sizeof events);
		for (long i = 0; i < got / (long)sizeof events[0]; i++) {
			uint64_t page = events[i].address & ~(PAGE - 1);
			if (events[i].event != EVENT_PAGEFAULT)
				continue;
			if (page == s->shared->doorbell)
				answer_doorbell(s);
			else if (events[i].flags & FAULT_WP)
				write_fault(s, page);
			else
				missing_page(s, page);
		}
	}
}
