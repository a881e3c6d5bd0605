/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Definitions that the preloaded library's parts share, also with `solocore exec --colors`
 * (crates/space/src/wire.rs has the same).
 */
#ifndef SOLOCORE_PRELOAD_SPACE_H
#define SOLOCORE_PRELOAD_SPACE_H

#include "raw.h"

#define CONFIG_MAGIC 0x31657061u /* "ape1" */
#define MAX_FUNCTIONS 16

/* An entry of /proc/self/pagemap: the frame, and whether there is one. */
#define FRAME_MASK ((1ul << 55) - 1)
#define PRESENT (1ul << 63)

/* The configuration file: the frames of the program. Bit i of a frame's class is the parity of
 * its address under masks[i]; a class is allowed if its bit of `classes` is set. */
struct config {
	uint32_t magic;
	uint32_t functions;
	uint64_t masks[MAX_FUNCTIONS];
	uint64_t allowed_classes; /* number of bits set in `classes` */
	uint64_t prefill;	  /* pages that are ready before the program starts */
	uint64_t reserve;	  /* bytes of free memory that are left to others */
	uint64_t lends; /* not 0: solocore has frames for the program (`solocore reserve`) */
	/* Bits of a class that are its colour, and a colour that is allowed. Locked pages get
	 * frames of other colours, whose remaining bits are allowed. 0: no page is locked. */
	uint64_t lock_mask, lock_rest;
	uint8_t classes[(1u << MAX_FUNCTIONS) / 8];
};

/* A locked page; behind the configuration, the file has those of one process. */
struct locked {
	uint64_t where;	 /* its address; or, of a numbered mapping, its offset in bytes */
	uint32_t number; /* of an anonymous mapping of the program, from 1; 0: it has an address */
	uint32_t colour;
};

/* One packet between the library and solocore. */
struct packet {
	uint32_t kind;
	uint32_t pages;	  /* HELLO: 1 if it is held until a release; RECOLOURED: moved; EXIT: moved
			     back, as the kernel had moved them; NEED: pages */
	uint64_t stuck;	  /* RECOLOURED: pages that could not be moved; NEED: this CPU */
	uint64_t move_ns; /* RECOLOURED: time of taking out, copying and putting back; MAPPED: the
			     first address */
	uint64_t all_ns;  /* RECOLOURED: with finding the new pages; MAPPED: the end; EXIT: locked
			     pages that were put into frames of their colours */
	uint64_t request; /* RECOLOUR: the number of the request; RECOLOURED: the newest that it
			     answers; MAPPED: the number of the mapping; NEED, and its GO: the
			     number of the question, from FIRST_QUESTION */
	char text[216];	  /* FAILED, UNCOLOURED, NOTE: the reason, ends with 0 */
};

#define FIRST_QUESTION (1ul << 32)

/* The reserve's socket (client/c/solocore_reserve.h), and what a process tells it of frames that go
 * back (crates/space/src/back.rs). The answer is the number of frames that it has taken, 8 bytes.
 */
#define RESERVE_NAME "solocore-reserve"
#define GIVE_BACK 0x6b636162u /* "back" */
#define MOST_BACK 2048
struct give_back {
	uint32_t kind;
	uint32_t pages; /* that are free; at most MOST_BACK */
	uint32_t cpu;	/* the CPU that has them on its list */
	uint32_t last;	/* not 0: they are free once the connection ends; no answer */
};

enum packet_kind {
	PACKET_HELLO = 1, /* to solocore: this process is coloured from here on */
	PACKET_EXIT,	  /* to solocore: check the pages now, the process is about to end */
	PACKET_GO, /* from solocore: go on, after HELLO, EXIT, RECOLOURED and NEED; after NEED,
		      `pages` is the number of frames that a reserve has freed; after HELLO,
		      the number of locked pages in the file */
	PACKET_RECOLOUR,   /* from solocore: the configuration has changed */
	PACKET_RECOLOURED, /* to solocore: the answer */
	PACKET_FAILED, /* to solocore: the process ends, as it would have to go on in wrong colours
			*/
	PACKET_UNCOLOURED, /* to solocore: a program is started that cannot be coloured */
	PACKET_NEED,	   /* to solocore: this process is about to look for pages */
	PACKET_NOTE,	   /* to solocore: a text that it tells once */
	PACKET_MAPPED,	   /* to solocore: a mapping has, or had, locked pages */
	PACKET_PLACED,	   /* to solocore: the pages that it began with are in its frames */
};

/* Requests of a thread of the program to the handler. */
enum request_kind {
	REQUEST_REGISTER = 1, /* a new anonymous mapping */
	REQUEST_ADOPT,	      /* all areas of a range */
	REQUEST_WRITABLE,     /* a range is about to become writable */
	REQUEST_LOADED,	      /* the loader has mapped objects */
	REQUEST_HELD,	      /* it waits for a release; frames for its job are to be ready */
	REQUEST_FORKED,	      /* this process has a child that shares its pages */
	REQUEST_EXIT,
	REQUEST_UNCOLOURED,
	REQUEST_PLACE,	/* a range of a new shared mapping gets pages */
	REQUEST_NOTE,	/* solocore tells a text */
	REQUEST_SHRUNK, /* a mapping is shorter: its pages may be other locked ones now */
};

/* The page that threads and handler share. It is not copied by fork. */
struct shared {
	volatile int lock; /* 0 free, 1 taken, 2 taken and waited for */
	volatile int ready;
	int pid;
	volatile int plain_files; /* private mappings of files that are not writable (yet) */
	uint64_t doorbell;	  /* reading this address calls the handler */
	uint64_t base, end;	  /* the pool's addresses, which the program must not map over */
	uint32_t mappings;	  /* anonymous ones that the program has made */
	volatile uint64_t held_pages; /* that are to be ready while it waits for its release */
	volatile uint32_t kind, number;
	volatile uint64_t start, length;
	char text[224];
};

#define HANDLER_STACK (16 * PAGE)
#define HEIR_STACK (4 * PAGE)
/* Raw pages are examined in groups of this size: pages that the kernel has just zeroed are then
 * still in the second-level cache when they are used. */
#define PIECE 512
/* Pages that are not allowed are held while the pool is filled repeatedly: at most this number, or
 * as many as may still be taken, for this time. */
#define HOLD_MOST 262144
#define HOLD_NS 100000000ul
#define STREAMS 4
/* Most pages that a fault gets, and zero pages that direct.c copies from. */
#define WIDEST 256
#define ZEROES_PAGES 64
/* Most locked pages of a process (crates/space/src/wire.rs). */
#define MOST_LOCKED 2048

/* A locked page, and its frame. */
struct lock {
	struct locked page;
	uint64_t address; /* 0: its mapping is not made yet, or has gone */
	enum {
		LOCK_WAITS,  /* a frame is to be found */
		LOCK_READY,  /* its frame lies in the stash */
		LOCK_PLACED, /* the program has it */
		LOCK_OVER,   /* its mapping has gone */
	} state;
	int had; /* the program has had it in its frame */
};

/* State of the handler alone. It lies in the pool's own first pages, so in the program's colours,
 * too. */
struct state {
	struct shared *shared;
	int uffd, pagemap, memory, socket, kpageflags, chosen;
	int reserve;	      /* the connection with the reserve, -1: none */
	volatile int handler; /* the handler's thread; the kernel writes 0 at its end */
	int forked;
	int held;	      /* it was started before its release, which it waits for */
	int told_placed;      /* solocore knows that the first pages are in its frames */
	uint64_t request;     /* the newest request that has no answer yet, 0: there is none */
	uint64_t asked;	      /* questions for frames so far */
	uint64_t base, limit; /* all of the pool's addresses */
	uint64_t outside,
		out; /* pages that were taken out: their start, and the end of the held ones */
	uint64_t end, raw; /* raw pages: their start, and the end of the held ones */
	uint64_t zeroes;   /* pages without data, and whether they are mapped */
	int zeroes_there;
	int direct;	 /* the kernel is likely to give right frames next */
	uint64_t credit; /* number of pages for which this holds, and for which there is room */
	uint64_t credit_until;	/* until this time */
	uint32_t credit_cpu;	/* on this CPU, if a reserve has freed them */
	uint64_t hold;		/* most held pages of each kind */
	uint64_t looked, found; /* raw pages since the pool was last filled, or had to give back
				   what it held */
	uint64_t release_at;	/* time at which they are given back */
	uint64_t stash;		/* a frame for each locked page */
	uint64_t floor;		/* the first address of the queue of free pages */
	uint64_t head, tail;	/* the queue of free pages */
	uint64_t grow;		/* pages to get when the queue is empty */
	uint64_t next[STREAMS]; /* next faults of threads that touch page after page */
	uint32_t width[STREAMS];
	uint32_t victim;
	uint64_t moved, stuck, move_ns;
	uint64_t repaired, next_look; /* pages that the kernel had moved; time of the next search */
	struct config config;
	uint64_t entries[512];
	struct {
		uint64_t start, end, categories;
	} regions[64];
	const char *why;	/* reason for which the pool could not be filled */
	uint64_t objects[1024]; /* inodes of files that are mapped for execution */
	uint32_t object_count;
	uint32_t lock_count, lock_known; /* locked pages, and those with an address */
	uint64_t lock_placed;		 /* locked pages that the program has had */
	struct lock locks[MOST_LOCKED];
	uint16_t lock_order[MOST_LOCKED]; /* those with an address, by it */
	char stack[HANDLER_STACK] __attribute__((aligned(64)));
	char launch_stack[HEIR_STACK] __attribute__((aligned(64)));
	char heir_stack[HEIR_STACK] __attribute__((aligned(64)));
};

#define STATE_PAGES ((sizeof(struct state) + PAGE - 1) / PAGE)

/* A line of /proc/self/maps. */
struct area {
	uint64_t start, end, inode;
	int protection; /* PROT_* */
	int private_, anonymous, kernel, hugetlb;
};

/* Each file calls only the files that are listed before it. */

/* packets.c */
int connect_to(const char *name, size_t length);
int tell_reserve(const struct state *s, uint64_t pages, uint32_t cpu, uint32_t last);
int send_packet(struct state *s, uint32_t kind, const char *text);
long wait_for_go(struct state *s, uint64_t question);
uint64_t ask_for_pages(struct state *s, uint64_t pages);
void give_up(struct state *s, const char *why) __attribute__((noreturn));

/* areas.c */
int each_area(struct state *s, void (*act)(struct state *, const struct area *, void *),
	      void *argument);
void each_area_or_end(struct state *s, void (*act)(struct state *, const struct area *, void *),
		      void *argument);
int area_at(struct state *s, uint64_t address, struct area *area);

/* locked.c */
long lock_at(const struct state *s, uint64_t page);
uint64_t lock_run(const struct state *s, uint64_t page, uint64_t pages);
int lock_read(struct state *s, long pages);
int lock_mapped(struct state *s, uint64_t start, uint64_t end, uint32_t number);

/* memory.c */
uint64_t number_at(const char *text, uint64_t none);
uint64_t memory_room(uint64_t need, uint64_t reserve);

/* pool.c */
#define MOST_CPUS 8192
long stay_on(const uint32_t *cpu, unsigned long *cpus, size_t size);
int frame_allowed(const struct config *config, uint64_t frame);
int page_right(const struct state *s, uint64_t page, uint64_t frame);
int config_read(struct config *config, int fd);
int register_range(const struct state *s, uint64_t start, uint64_t end);
long move_pages(const struct state *s, uint64_t to, uint64_t from, uint64_t pages);
int pool_fill(struct state *s, uint64_t pages);
void pool_need(struct state *s, uint64_t pages);
uint64_t pool_ahead(struct state *s, uint64_t pages);
int pool_has(const struct state *s, uint64_t pages);
void pool_expect(struct state *s, uint64_t pages);
void pool_release(struct state *s, uint64_t most);
int pool_holds(const struct state *s);
int pool_fill_locked(struct state *s);
void pool_check_locked(struct state *s);

/* place.c */
uint64_t pool_frame(struct state *s, uint64_t page);
void pool_drop(struct state *s, uint64_t frame);
long pool_place_for(struct state *s, uint64_t to, uint64_t page, uint64_t pages);
long pool_place(struct state *s, uint64_t to, uint64_t pages);

/* shared.c */
void place_shared(struct state *s, uint64_t start, uint64_t end);

/* adopt.c */
void replace_run(struct state *s, uint64_t page, const uint64_t *entries, uint64_t pages);
int adopt_range(struct state *s, uint64_t start, uint64_t end, int only_objects);
int has_wrong_page(struct state *s, uint64_t start, uint64_t end);
void adopt_new(struct state *s, uint64_t start, uint64_t end);
int sweep_range(struct state *s, uint64_t start, uint64_t end);
void protect_all(struct state *s);
void write_fault(struct state *s, uint64_t page);

/* direct.c */
void credit_back(struct state *s);
long direct_place(struct state *s, uint64_t page, uint64_t pages);

/* privileges.c */
void drop_privileges(struct state *s);

/* heir.c */
int heir_connect(const struct state *s);
void heir_start(struct state *s);

/* handler.c */
int handler_main(void *state);
/* The library's own descriptors; -1: it has none of a kind. */
#define OWN_DESCRIPTORS 7
void own_descriptors(const struct state *s, int *own);
/* Closes all descriptors of this process's table but these. */
void close_all_but(const int *own, unsigned count);

#endif
