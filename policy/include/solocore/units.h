/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Bandwidth in bytes per second, and budgets in accesses per period.
 *
 * Problem: people and papers state bandwidth (1 GB/s); counters count cache lines in a period
 * (single-core-equivalence, section 2.2: the bandwidth that is guaranteed is divided among the
 * cores).
 * Rule: events = floor(bytes_per_s * period_ns / (10^9 * line)), and back: bytes_per_s =
 * floor(events * line * 10^9 / period_ns). Both are exact for every 64-bit operand: products have
 * 128 bits, made of 32-bit halves. A result that does not fit 64 bits is SC_UNLIMITED; a period or
 * line of 0 gives 0.
 * Invariants: converting to events and back never yields more bandwidth than was asked for. Known
 * limits: rounding down, a budget can be 0 (refused by the regulators): the period is too short for
 * that bandwidth.
 * Cost: 128 steps of a division, about 400 ns; for configuration, not for the overflow path.
 */
#ifndef SOLOCORE_UNITS_H
#define SOLOCORE_UNITS_H

#include "types.h"

#define SC_NS_PER_S 1000000000ull
#define SC_BYTES_PER_MB 1000000ull

/* 128 bits. */
struct sc_wide {
	sc_u64 high;
	sc_u64 low;
};

SC_FN void sc_wide_multiply(struct sc_wide *product, sc_u64 a, sc_u64 b)
{
	sc_u64 a0 = a & 0xffffffffull, a1 = a >> 32, b0 = b & 0xffffffffull, b1 = b >> 32;
	sc_u64 low = a0 * b0, middle = a1 * b0 + (low >> 32),
	       other = a0 * b1 + (middle & 0xffffffffull);

	product->low = other << 32 | (low & 0xffffffffull);
	product->high = a1 * b1 + (middle >> 32) + (other >> 32);
}

/* 1 if a < b. It has no branches, so that the BPF verifier has one path through the division. */
SC_FN sc_u64 sc_wide_borrow(sc_u64 a, sc_u64 b)
{
	return ((~a & b) | ((~a | b) & (a - b))) >> 63;
}

/* floor(dividend / divisor), SC_UNLIMITED if it does not fit (or the divisor is 0). */
SC_FN sc_u64 sc_wide_divide(const struct sc_wide *dividend, sc_u64 divisor)
{
	sc_u64 rest = dividend->high, low = dividend->low, enough;
	sc_u32 bit;

	if (rest >= divisor)
		return SC_UNLIMITED;
	/* The quotient's bits come in from below as the dividend's leave; rest < divisor
	 * throughout. */
	for (bit = 0; bit < 64; bit++) {
		enough = rest >> 63;
		rest = rest << 1 | low >> 63;
		enough |= 1 ^ sc_wide_borrow(rest, divisor);
		rest -= divisor & (0 - enough);
		low = low << 1 | enough;
	}
	return low;
}

/* Accesses of `line` bytes in `period_ns` at a number of bytes per second. */
SC_FN sc_u64 sc_units_events(sc_u64 bytes_per_s, sc_u64 line, sc_u64 period_ns)
{
	struct sc_wide bytes, rest;

	if (line == 0 || period_ns == 0)
		return 0;
	sc_wide_multiply(&bytes, bytes_per_s, period_ns);
	/* Divided by 10^9 first, then by the line: the floor of a floor is the floor of the whole.
	 * */
	rest.high = bytes.high % SC_NS_PER_S;
	rest.low = bytes.low;
	bytes.high = bytes.high / SC_NS_PER_S;
	bytes.low = sc_wide_divide(&rest, SC_NS_PER_S);
	return sc_wide_divide(&bytes, line);
}

/* Bytes per second of a number of accesses of `line` bytes in `period_ns`. */
SC_FN sc_u64 sc_units_bandwidth(sc_u64 events, sc_u64 line, sc_u64 period_ns)
{
	struct sc_wide bytes, scaled;

	if (line == 0 || period_ns == 0)
		return 0;
	sc_wide_multiply(&bytes, events, line);
	sc_wide_multiply(&scaled, bytes.low, SC_NS_PER_S);
	/* A product of more than 128 bits has a quotient of more than 64. */
	if (bytes.high > (SC_UNLIMITED - scaled.high) / SC_NS_PER_S)
		return SC_UNLIMITED;
	scaled.high += bytes.high * SC_NS_PER_S;
	return sc_wide_divide(&scaled, period_ns);
}

/* The same in MB/s (10^6 bytes), rounded down. */
SC_FN sc_u64 sc_units_megabytes(sc_u64 events, sc_u64 line, sc_u64 period_ns)
{
	return sc_units_bandwidth(events, line, period_ns) / SC_BYTES_PER_MB;
}

#endif
