/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events with an effect, for any mechanism, from a stream of bytes: the fuzzer's (fuzz.c) or a
 * random one (sanitize.c).
 *
 * Numbers that are drawn evenly from 64 bits are refused nearly always. Here a sequence has a
 * scale, and most numbers are of its size, or small, or stand in relation to the one before:
 * budgets, uses and steps of time meet. The rest are the ends of ranges, or arbitrary.
 */
#ifndef SOLOCORE_TESTS_EVENTS_H
#define SOLOCORE_TESTS_EVENTS_H

#include "driver.h"

struct sc_stream {
	sc_u32 (*next)(void *source); /* a byte, or SC_NONE at the end */
	void *source;
	sc_u32 ended;
	sc_u64 scale;
	sc_u64 clock;
	sc_u64 cursor; /* of consecutive ranges: slots of a time table */
	sc_u64 last;   /* number that was drawn last */
	sc_u32 step;   /* between the tasks of a sequence */
};

static const sc_u64 sc_scales[] = {8, 10, 16, 100, 1000, 1000000, 1ull << 32, 1ull << 42};

static const sc_u64 sc_ends[] = {
	SC_NONE,     SC_UNLIMITED, SC_MAX_TIME, SC_MAX_SPAN, SC_MAX_SAMPLE, SC_MAX_TASKS,
	SC_MAX_CPUS, 1ull << 63,   1ull << 53,	64,	     1000,	    0,
};

static inline sc_u32 sc_stream_byte(struct sc_stream *s)
{
	sc_u32 byte = s->ended ? SC_NONE : s->next(s->source);

	if (byte != SC_NONE)
		return byte;
	s->ended = 1;
	return 0;
}

static inline sc_u64 sc_stream_word(struct sc_stream *s)
{
	sc_u64 word = 0;
	sc_u32 i;

	for (i = 0; i < 8; i++)
		word = word << 8 | sc_stream_byte(s);
	return word;
}

/* 0 to the scale, in steps that two bytes can tell apart. */
static inline sc_u64 sc_stream_part(struct sc_stream *s)
{
	sc_u64 part = sc_stream_byte(s);

	if (s->scale <= 255)
		return part % (s->scale + 1);
	part = part << 8 | sc_stream_byte(s);
	return s->scale <= 65535 ? part % (s->scale + 1) : s->scale / 65535 * part;
}

static inline sc_u64 sc_stream_number(struct sc_stream *s)
{
	sc_u32 kind = sc_stream_byte(s), detail = kind >> 4;
	sc_u64 number;

	switch (kind & 15u) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		number = sc_stream_part(s);
		break;
	case 5:
	case 6:
	case 7:
		number = detail & 7u;
		break;
	case 8:
		number = s->scale / (detail + 1);
		break;
	case 9:
		number = s->last;
		break;
	case 10:
		number = sc_add(s->last, sc_stream_part(s));
		break;
	case 11:
		number = sc_sub(s->last, detail + 1);
		break;
	case 12:
		number = s->cursor;
		s->cursor += s->scale / 16 + (detail & 3u);
		if (s->cursor > s->scale)
			s->cursor = 0;
		break;
	case 13:
		number = sc_ends[detail % (sizeof(sc_ends) / sizeof(sc_ends[0]))] - 1 +
			 sc_stream_byte(s) % 3;
		break;
	case 14:
		number = sc_stream_word(s) >> (4 * detail);
		break;
	default:
		number = s->scale * (detail + 1);
		break;
	}
	s->last = number;
	return number;
}

/*
 * Mostly one of a few ids: several events for the same core or task reach deeper states. Cores are
 * numbered from 0; tasks are also spread over their range, by a step that belongs to the sequence.
 */
static inline sc_u32 sc_stream_id(struct sc_stream *s)
{
	sc_u32 byte = sc_stream_byte(s);

	if (byte < 96)
		return byte % 8;
	if (byte < 208)
		return byte % 8 * s->step % SC_MAX_TASKS;
	if (byte < 240)
		return byte % 48;
	if (byte < 252)
		return SC_MAX_TASKS - 8 + byte % 12;
	return byte == 252 ? SC_NONE : (sc_u32)sc_stream_word(s);
}

static inline void sc_stream_start(struct sc_stream *s)
{
	sc_u32 byte = sc_stream_byte(s);

	s->scale = sc_scales[byte % 8];
	s->step = 1 + sc_stream_byte(s) % 128;
	s->clock = byte < 224 ? 0 : sc_stream_word(s);
	s->cursor = 0;
	s->last = 0;
}

/*
 * An operand of an event. For a configuring event it is more often a scale, a small number or a
 * flag.
 */
static inline sc_u64 sc_stream_operand(struct sc_stream *s, sc_u32 configure)
{
	sc_u32 byte;

	if (!configure)
		return sc_stream_number(s);
	byte = sc_stream_byte(s);
	if (byte >= 192)
		return sc_stream_number(s);
	s->last = byte < 96 ? s->scale : byte % 8;
	return s->last;
}

/* The next event. The first ones should configure the world: `configure` makes such events. */
static inline void sc_stream_event(struct sc_stream *s, sc_u32 configure, struct sc_event *event)
{
	sc_u32 byte = sc_stream_byte(s);

	event->op = configure ? 0 : byte % 64 == 0 ? byte / 64 * 7 : 1 + byte % 8;
	event->id = sc_stream_id(s);
	byte = sc_stream_byte(s);
	if (byte < 160)
		s->clock = sc_add(s->clock, s->scale * (byte % 32) / 16);
	else if (byte < 192)
		s->clock = sc_add(s->clock, byte % 4);
	else if (byte == 255)
		s->clock = sc_stream_number(s);
	event->now = s->clock;
	event->a = sc_stream_operand(s, configure);
	event->b = sc_stream_operand(s, configure);
	event->c = sc_stream_operand(s, configure);
	event->d = sc_stream_operand(s, configure);
}

#endif
