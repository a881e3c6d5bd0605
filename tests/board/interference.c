/* A task of the virtual board's table of interference: walks its own memory and its buffer, and
 * prints the times of a step of each in ns.
 *
 *   interference OWN_KIB OWN BUFFER_KIB BUFFER CPU ROUNDS
 *
 * OWN and BUFFER are ranges of colours, as 0-7. `solocore exec --colors OWN` starts the program,
 * and so its own memory lies there; the buffer is of frames.h. It prints four medians of ROUNDS
 * walks: own memory and buffer as they lie in the caches after a first walk, and both from memory,
 * after their lines were flushed. The model is on only while it walks. Exit code 6: a page lies in
 * other colours.
 */
#include "frames.h"

static struct line *volatile keep;

#define ROUNDS 16

/* Time of a step through the lines, ns. */
static double walk(struct line *at, size_t bytes)
{
	size_t steps = bytes / LINE;
	unsigned long long begin = now();
	for (size_t i = 0; i < steps; i++)
		at = at->next;
	unsigned long long end = now();
	keep = at;
	return (double)(end - begin) / (double)steps;
}

int main(int argc, char **argv)
{
	if (argc != 7)
		return 2;
	size_t bytes[2] = {strtoul(argv[1], 0, 0) * 1024, strtoul(argv[3], 0, 0) * 1024};
	struct colours wanted[2] = {colours_of(argv[2]), colours_of(argv[4])};
	unsigned long rounds = strtoul(argv[6], 0, 0);
	double times[4][ROUNDS + 1];
	struct line *memory[2];
	if (rounds < 1 || rounds > ROUNDS)
		return 2;
	pin(atoi(argv[5]), 1);
	void *own = mmap(0, bytes[0], PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (own == MAP_FAILED)
		return 4;
	memory[0] = circle(own, bytes[0]);
	memory[1] = circle(frames(bytes[1], wanted[1]), bytes[1]);
	model(1);
	/* The first walk fills the caches. */
	for (unsigned long r = 0; r <= rounds; r++)
		for (int i = 0; i < 2; i++)
			times[i][r ? r - 1 : rounds] = walk(memory[i], bytes[i]);
	for (unsigned long r = 0; r < rounds; r++)
		for (int i = 0; i < 2; i++) {
			flush(memory[i], bytes[i]);
			times[2 + i][r] = walk(memory[i], bytes[i]);
		}
	model(0);
	if (moved(memory[0], bytes[0], wanted[0]) + moved(memory[1], bytes[1], wanted[1]))
		return 6;
	for (int i = 0; i < 4; i++) {
		qsort(times[i], rounds, sizeof(double), by_size);
		printf("%.2f%c", times[i][rounds / 2], i < 3 ? ' ' : '\n');
	}
	return 0;
}
