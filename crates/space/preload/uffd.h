/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The kernel's interfaces that this uses, from the manual pages userfaultfd(2),
 * UFFDIO_COPY(2const), UFFDIO_MOVE(2const), UFFDIO_WRITEPROTECT(2const), PAGEMAP_SCAN(2const):
 * headers of Linux 6.1 lack some.
 */
#ifndef SOLOCORE_PRELOAD_UFFD_H
#define SOLOCORE_PRELOAD_UFFD_H

#include <stdint.h>
#include <sys/ioctl.h>

struct uffd_range {
	uint64_t start, length;
};
struct uffdio_register {
	struct uffd_range range;
	uint64_t mode, ioctls;
};
struct uffdio_api_ {
	uint64_t api, features, ioctls;
};
struct uffdio_move_ {
	uint64_t to, from, length, mode;
	int64_t moved;
};
struct uffdio_copy_ {
	uint64_t to, from, length, mode;
	int64_t copied;
};
struct uffdio_zeropage_ {
	struct uffd_range range;
	uint64_t mode;
	int64_t zeroed;
};
struct uffdio_protect_ {
	struct uffd_range range;
	uint64_t mode;
};
struct uffd_event {
	uint8_t event, unused1;
	uint16_t unused2;
	uint32_t unused3;
	uint64_t flags, address, thread;
};

#define UFFDIO_API_ _IOWR(0xAA, 0x3F, struct uffdio_api_)
#define UFFDIO_REGISTER_ _IOWR(0xAA, 0x00, struct uffdio_register)
#define UFFDIO_WAKE_ _IOR(0xAA, 0x02, struct uffd_range)
#define UFFDIO_COPY_ _IOWR(0xAA, 0x03, struct uffdio_copy_)
#define UFFDIO_ZEROPAGE_ _IOWR(0xAA, 0x04, struct uffdio_zeropage_)
#define UFFDIO_MOVE_ _IOWR(0xAA, 0x05, struct uffdio_move_)
#define UFFDIO_PROTECT_ _IOWR(0xAA, 0x06, struct uffdio_protect_)
#define UFFD_API_VERSION 0xAA
#define FEATURE_FAULT_FLAG_WP 1ul
#define FEATURE_MOVE (1ul << 16)
#define REGISTER_MISSING 1
#define REGISTER_WP 2
#define PROTECT_WP 1
#define COPY_DONTWAKE 1
#define EVENT_PAGEFAULT 0x12
#define FAULT_WP 2

struct pagemap_scan {
	uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages;
	uint64_t inverted, mask, any_of, wanted;
};
#define PAGEMAP_SCAN_ _IOWR('f', 16, struct pagemap_scan)
#define SCAN_PRESENT (1ul << 3)
#define SCAN_ZERO (1ul << 5)

#define MADV_POPULATE_READ_ 22
#define MADV_POPULATE_WRITE_ 23
#define MADV_DONTNEED_LOCKED_ 24

/* <errno.h> would bring the thread's own errno. */
#define ENOENT_ 2
#define EINTR_ 4
#define EAGAIN_ 11
#define EBUSY_ 16
#define EEXIST_ 17
#define EINVAL_ 22
#define ENOSYS_ 38

#endif
