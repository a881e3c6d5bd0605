/*
 * Pictures in and results out for the vision tasks.
 *
 * Problem: a task that reads a damaged picture must say so and stop, never compute on rubbish or
 * leave half an output. Rule: every check comes before any work; output goes to a temporary name
 * beside the target and is renamed when whole. Format: netpbm binary PGM (P5) and PPM (P6), one
 * picture per file, 8 bits per sample (netpbm pgm(5), ppm(5)). Not covered: text formats P2/P3,
 * 16-bit samples, several pictures in one file.
 *
 * Nothing here prints or exits: functions return 0, or -1 with one line of explanation in
 * `struct fault`.
 */
#ifndef VISION_IMAGE_H
#define VISION_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Longest side accepted, in pixels. 4096 * 4096 * 255 still fits a uint32_t, which the integral
 * images rely on. */
#define IMAGE_SIDE_MAX 4096

/* Exit codes shared by the programs. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2 };

/* One line: what was wrong, where, what to do. No trailing newline. */
struct fault {
	char text[640];
};

/* Samples in raster order, `channels` interleaved per pixel; owned, release with image_free. */
struct image {
	int width;
	int height;
	int channels;
	uint8_t *pixels;
};

/* Fills `fault` from a printf format; control characters become '?' so that the text stays one
 * line. Returns -1. */
int fault_set(struct fault *fault, const char *format, ...)
#ifdef __GNUC__
	__attribute__((format(printf, 2, 3)))
#endif
	;

/* Prints "program: text" to stderr and returns `code`, for `return fault_print(...)` in main. */
int fault_print(const char *program, const struct fault *fault, int code);

/*
 * Reads a PGM (channels 1) or PPM (channels 3) whose sides lie between side_min and IMAGE_SIDE_MAX
 * pixels. On failure nothing is held.
 */
int image_read(struct image *image, const char *path, int channels, int side_min,
	       struct fault *fault);
void image_free(struct image *image);

/* Writes 8-bit samples as a PGM. On failure neither `path` nor the temporary is left changed. */
int pgm_write(const char *path, const uint8_t *pixels, int width, int height, struct fault *fault);

/* Writes bytes to `path` by temporary file and rename. */
int file_write(const char *path, const void *head, size_t head_size, const void *body,
	       size_t body_size, struct fault *fault);

/* Zeroed array of count * size bytes, or NULL with the fault filled. */
void *array_new(size_t count, size_t size, struct fault *fault);

/* FNV-1a, 32 bits, over bytes: the fingerprint in each summary line. */
uint32_t bytes_checksum(const void *bytes, size_t size);

/* Index of sample i of a line of n >= 2, mirrored about the end samples (…2 1 | 0 1 2…), for -n < i
 * < 2n - 1.
 */
static inline int index_mirror(int i, int n)
{
	if (i < 0)
		return -i;
	return i < n ? i : 2 * n - 2 - i;
}

/* Index of sample i of a line of n >= 1, end samples repeated. */
static inline int index_clamp(int i, int n)
{
	if (i < 0)
		return 0;
	return i < n ? i : n - 1;
}

/* Flushes stdout; -1 with the fault filled when the summary did not reach its reader. */
int stdout_finish(struct fault *fault);

#endif
