/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Message queues in shared memory, with buffers in the places that the plan wants.
 *
 * Problem: tasks on different cores that send each other messages share the buffers: lines of the
 * buffers in the shared cache evict the lines of other tasks, and the kernel's queues put buffers
 * anywhere. Rule: a queue lies in memory that the caller gives, so the caller decides on its pages;
 * the queue's place is the treatment of its lines:
 *   SC_PLACE_CACHED   ordinary loads and stores: buffers of level C, or, where both tasks are on
 *                     one core, pages of that core's list (concurrency elimination, CE);
 *   SC_PLACE_BYPASS   stores go past the caches and lines that were read are flushed (selective
 *                     bypass, SBP);
 *   SC_PLACE_LOCKED   ordinary loads and stores to pages that are locked in the cache (CL).
 * Sending and receiving are wait-free: a bounded number of steps, for all actions of others and at
 * any point of a kill. A queue has one receiver and as many lanes as it may have senders at a time;
 * messages of a sender arrive in their order, those of different senders in turn. A message counts
 * once its number is published, which is the last store of a send: published messages are never
 * lost, and others do not exist. A receiver that looks at a message, handles it and then calls
 * sc_queue_done loses none either; if it is killed before that call, its successor gets the message
 * again. Source: mc2-os-isolation, sections 4.2 and 5.1.
 *
 *	struct sc_queue q;
 *	sc_queue_create(memory, bytes, 1, 128, 4096, SC_PLACE_BYPASS);   // one of them
 *	sc_queue_open_sender(&q, memory, bytes);
 *	sc_queue_send(&q, frame, size);
 *
 * Does not cover: waiting (poll, or send a signal beside it); several receivers; sides in different
 * PID namespaces, which cannot see whether the other lives. A sender that writes outside its slots
 * is not noticed: lengths and numbers are checked, contents are not. Bypassing covers the message,
 * not the two counters of a lane, which both sides share. The prefetchers may bring in lines that
 * no side asked for.
 */
#ifndef SOLOCORE_IPC_H
#define SOLOCORE_IPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results of the calls. */
enum sc_queue_status {
	SC_QUEUE_OK = 0,
	SC_QUEUE_EMPTY = 1,    /* there is no message */
	SC_QUEUE_FULL = 2,     /* the receiver has to take some first */
	SC_QUEUE_TOO_LONG = 3, /* the message is longer than the queue's messages, or than the
				  receiver's memory; it stays */
	SC_QUEUE_BAD =
		4, /* the memory holds no queue of this version, or its counters are impossible */
	SC_QUEUE_BUSY = 5,     /* every lane has a living sender, or there is a living receiver */
	SC_QUEUE_ARGUMENT = 6, /* memory that is too small or not at a page's beginning, or sizes
				  that are impossible */
	SC_QUEUE_UNSUPPORTED =
		7, /* this CPU does not let programs flush cache lines, so no lines are bypassed */
};

/* Treatment of the lines of a message. */
enum sc_queue_place {
	SC_PLACE_CACHED = 0,
	SC_PLACE_BYPASS = 1,
	SC_PLACE_LOCKED = 2,
};

/*
 * One side of a queue. It belongs to the thread that opened it, or to one that it is handed to
 * while that thread lives. After fork() the child opens its own. The members are private.
 */
struct sc_queue {
	unsigned char *memory;
	uint32_t lanes, slots, message_bytes, slot_bytes, place;
	uint32_t lane;	 /* a sender's; the receiver's next */
	uint32_t sender; /* or receiver */
	uint32_t peeked; /* there is a message to be done with */
	uint64_t owner;
	uint64_t other; /* last value seen of the other side's counter */
};

/*
 * Size of a queue's memory in bytes; 0 if such a queue is impossible: up to 256 lanes of 2^k slots,
 * k from 0 to 20, of messages of 1 byte to 16 MiB.
 */
size_t sc_queue_bytes(unsigned lanes, unsigned slots, size_t message_bytes);

/*
 * Makes an empty queue. The memory begins a page, is shared between the processes that use it, and
 * is not in use yet.
 */
int sc_queue_create(void *memory, size_t bytes, unsigned lanes, unsigned slots,
		    size_t message_bytes, enum sc_queue_place place);

/* Takes a free lane, or one whose sender has ended. */
int sc_queue_open_sender(struct sc_queue *queue, void *memory, size_t bytes);

/* Becomes the receiver, if there is none or the old one has ended. */
int sc_queue_open_receiver(struct sc_queue *queue, void *memory, size_t bytes);

/* Sends a message of at most the queue's size; 0 bytes are a message as well. */
int sc_queue_send(struct sc_queue *queue, const void *data, size_t length);

/*
 * Copies the next message, which stays: until sc_queue_done() it comes again, also to the
 * receiver's successor. With SC_QUEUE_TOO_LONG, *length is the capacity that it needs.
 */
int sc_queue_peek(struct sc_queue *queue, void *data, size_t capacity, size_t *length);

/* Takes the message of the last sc_queue_peek(), which has been handled. */
int sc_queue_done(struct sc_queue *queue);

/* Both at once: a receiver that is killed before it deals with the message has lost it. */
int sc_queue_receive(struct sc_queue *queue, void *data, size_t capacity, size_t *length);

/*
 * Number of messages published in a sender's lane, by it and its predecessors; for a receiver,
 * number of messages taken in all lanes. With it the successor of a killed process can go on.
 */
uint64_t sc_queue_count(const struct sc_queue *queue);

/* Gives the lane, or the receiver's place, back. */
void sc_queue_close(struct sc_queue *queue);

/* Text of a status, in English. Never fails. */
const char *sc_strqueue(int status);

#ifdef __cplusplus
}
#endif

#endif
