/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Message queues in shared memory whose buffers lie where the plan wants them.
 *
 * Problem: tasks on different cores that send each other messages meet in the buffers: what one
 * leaves in the shared cache evicts the lines of others, and the kernel's queues put buffers
 * anywhere. Rule: a queue lies in memory that the caller gives, so the caller decides on its pages;
 * what is done with lines is the queue's place:
 *   SC_PLACE_CACHED   ordinary loads and stores: buffers of level C, or, where both tasks are on
 *                     one core, pages of that core's list (concurrency elimination, CE);
 *   SC_PLACE_BYPASS   stores go past the caches and lines that were read are flushed (selective
 *                     bypass, SBP);
 *   SC_PLACE_LOCKED   ordinary loads and stores to pages that somebody locked in the cache (CL).
 * Sending and receiving are wait-free: a bounded number of steps, whatever others do or wherever
 * they are killed. A queue has one receiver and as many lanes as it may have senders at a time;
 * messages of a sender arrive in their order, those of different senders in turn. A message counts
 * from when its number is published, which is the last store of a send: what was published is never
 * lost, and what was not is not there. A receiver that looks at a message, deals with it and then
 * says that it is done loses none either; if it is killed before it says so, its successor gets the
 * message again. Source: mc2-os-isolation, sections 4.2 and 5.1.
 *
 *	struct sc_queue q;
 *	sc_queue_create(memory, bytes, 1, 128, 4096, SC_PLACE_BYPASS);   // one of them
 *	sc_queue_open_sender(&q, memory, bytes);
 *	sc_queue_send(&q, frame, size);
 *
 * Does not cover: waiting (poll, or send a signal beside it); several receivers; sides in different
 * PID namespaces, which cannot see whether the other lives; a sender that writes where it should
 * not: lengths and numbers are checked, contents are the sender's. Bypassing covers the message,
 * not the two counters of a lane, which both sides share. The prefetchers may bring lines in that
 * nobody asked for.
 */
#ifndef SOLOCORE_IPC_H
#define SOLOCORE_IPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the calls return. */
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
		7, /* this processor lets programs flush no cache lines, so none are bypassed */
};

/* What is done with the lines of a message. */
enum sc_queue_place {
	SC_PLACE_CACHED = 0,
	SC_PLACE_BYPASS = 1,
	SC_PLACE_LOCKED = 2,
};

/* One side of a queue, of the thread that opened it, or of one that it is handed to while that one
 * lives. After fork() the child opens its own. The members are private. */
struct sc_queue {
	unsigned char *memory;
	uint32_t lanes, slots, message_bytes, slot_bytes, place;
	uint32_t lane;	 /* a sender's; the receiver's next */
	uint32_t sender; /* or receiver */
	uint32_t peeked; /* there is a message to be done with */
	uint64_t owner;
	uint64_t other; /* what was last seen of the other side's counter */
};

/* How much memory a queue needs; 0 if there can be none: up to 256 lanes of 2^k slots, k from 0 to
 * 20, of messages of 1 byte to 16 MiB. */
size_t sc_queue_bytes(unsigned lanes, unsigned slots, size_t message_bytes);

/* Makes an empty queue. The memory begins a page, is shared between the processes that use it, and
 * nobody uses it yet. */
int sc_queue_create(void *memory, size_t bytes, unsigned lanes, unsigned slots,
		    size_t message_bytes, enum sc_queue_place place);

/* Takes a free lane, or one whose sender has ended. */
int sc_queue_open_sender(struct sc_queue *queue, void *memory, size_t bytes);

/* Becomes the receiver, if there is none or it has ended. */
int sc_queue_open_receiver(struct sc_queue *queue, void *memory, size_t bytes);

/* Sends a message of at most the queue's size; 0 bytes are a message as well. */
int sc_queue_send(struct sc_queue *queue, const void *data, size_t length);

/* Copies the next message, which stays: until sc_queue_done() it comes again, also to the
 * receiver's successor. With SC_QUEUE_TOO_LONG, *length says what it needs. */
int sc_queue_peek(struct sc_queue *queue, void *data, size_t capacity, size_t *length);

/* Takes the message that was looked at last, which has been dealt with. */
int sc_queue_done(struct sc_queue *queue);

/* Both at once: a receiver that is killed before it deals with the message has lost it. */
int sc_queue_receive(struct sc_queue *queue, void *data, size_t capacity, size_t *length);

/* How many messages were published in a sender's lane, by it and those before it; of a receiver,
 * how many were taken in all lanes. So the successor of a killed process knows where to go
 * on. */
uint64_t sc_queue_count(const struct sc_queue *queue);

/* Gives the lane, or the receiver's place, back. */
void sc_queue_close(struct sc_queue *queue);

/* What a status means, in English. Never fails. */
const char *sc_strqueue(int status);

#ifdef __cplusplus
}
#endif

#endif
