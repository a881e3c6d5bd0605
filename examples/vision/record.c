/*
 * A recorder: keeps the latest frames of a camera in memory, the way a drone or a car does until
 * something happens.
 *
 * Problem: best-effort work that streams through memory as fast as it can is what hurts tasks
 * beside it most, and it is ordinary: every recorder, logger and copy does it. Rule: the camera's
 * frame, 1920 x 1080 samples of 16 bits, of which 12 count, is written as 8 bits a sample into a
 * ring of RING frames. The camera is simulated: each frame is the one before with one line changed,
 * so that a checksum tells whether all of it arrived. Not covered: compression, storage, a camera's
 * own traffic (DMA).
 *
 * Usage: record [FRAMES]      (default: 12). Prints the number of frames and the checksum of the
 *                             last.
 */
#include "image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define WIDTH 1920
#define HEIGHT 1080
#define RING 8
#define FRAMES_DEFAULT 12
#define FRAMES_MAX 1000000

/* What the camera sees: a slope, the same on every machine. */
static void expose(uint16_t *sensor)
{
	for (size_t y = 0; y < HEIGHT; y++)
		for (size_t x = 0; x < WIDTH; x++)
			sensor[y * WIDTH + x] = (uint16_t)((x + 3 * y) & 0xfff);
}

/* One line that differs from frame to frame. */
static void change(uint16_t *sensor, long frame)
{
	uint16_t *line = sensor + (size_t)(frame % HEIGHT) * WIDTH;

	for (size_t x = 0; x < WIDTH; x++)
		line[x] = (uint16_t)((x * 7 + (size_t)frame) & 0xfff);
}

/* The eight upper bits of each sample. A multiple of 16 samples, so that the compiler may take
 * several at once. */
static void keep(uint8_t *restrict to, const uint16_t *restrict from)
{
	for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++)
		to[i] = (uint8_t)(from[i] >> 4);
}

/* FNV-1a, 32 bits. */
static uint32_t checksum(const uint8_t *frame)
{
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i += 64)
		sum = (sum ^ frame[i]) * 16777619u;
	return sum;
}

int main(int argc, char **argv)
{
	long frames = FRAMES_DEFAULT;
	char *end = NULL;

	if (argc == 2) {
		errno = 0;
		frames = strtol(argv[1], &end, 10);
	}
	if (argc > 2 || (argc == 2 && (errno != 0 || end == argv[1] || *end != '\0')) ||
	    frames < 1 || frames > FRAMES_MAX) {
		fprintf(stderr, "record: usage: record [FRAMES], with 1 to %d frames\n",
			FRAMES_MAX);
		return EXIT_BAD_INPUT;
	}

	uint16_t *sensor = malloc(sizeof(*sensor) * WIDTH * HEIGHT);
	uint8_t *ring = malloc((size_t)RING * WIDTH * HEIGHT);

	if (sensor == NULL || ring == NULL) {
		fprintf(stderr, "record: no memory for %d frames\n", RING);
		free(sensor);
		free(ring);
		return EXIT_FAILED;
	}
	expose(sensor);
	for (long frame = 0; frame < frames; frame++) {
		change(sensor, frame);
		keep(ring + (size_t)(frame % RING) * WIDTH * HEIGHT, sensor);
	}
	printf("frames %ld checksum %08lx\n", frames,
	       (unsigned long)checksum(ring + (size_t)((frames - 1) % RING) * WIDTH * HEIGHT));
	free(sensor);
	free(ring);
	return EXIT_DONE;
}
