/*
 * Stereo disparity by block matching: how far each pixel of the left picture has moved in the right
 * one.
 *
 * Problem: for every pixel find the shift d, 0 <= d < LEVELS, whose WINDOW x WINDOW neighbourhood
 * differs least. Rule: for each candidate d, over the whole picture, diff(x, y) = |left(x, y) -
 * right(max(x - d, 0), y)|, sad = sum of diff over the window, the smallest sad wins; equal sads
 * keep the smaller d. The window is cut off at the picture's border. Sums come from an integral
 * image, so their cost does not grow with the window.
 * Source: the disparity program of SD-VBS (Venkata et al., IISWC 2009), which also makes one pass
 * over full-size arrays per step and candidate; that is what makes it hungry for memory: seven
 * arrays of four bytes per pixel. Not covered: sub-pixel shifts, left-right consistency,
 * occlusions, texture checks.
 *
 * All arithmetic is on integers, so every machine gives the same bytes.
 * Output: a PGM whose samples are d in pixels.
 */
#include "image.h"

#include <stdio.h>
#include <stdlib.h>

#define LEVELS 24
#define WINDOW 9
#define HALF (WINDOW / 2)
#define SIDE_MIN (LEVELS + WINDOW)

/*
 * Full-size arrays, width * height, but for `integral`: it has one more row, zero, above, and its
 * rows have HALF + 1 zeros before the first column and HALF copies of the last sum after the last,
 * so that a window may hang over either side.
 */
struct matcher {
	int width;
	int height;
	int32_t *left;
	int32_t *right;
	int32_t *diff;
	uint32_t *integral;
	int32_t *sad;
	int32_t *best_sad;
	int32_t *best_level;
};

static void matcher_free(struct matcher *m)
{
	free(m->left);
	free(m->right);
	free(m->diff);
	free(m->integral);
	free(m->sad);
	free(m->best_sad);
	free(m->best_level);
}

static int matcher_new(struct matcher *m, const struct image *left, const struct image *right,
		       struct fault *fault)
{
	size_t count = (size_t)left->width * (size_t)left->height;
	size_t padded = ((size_t)left->width + WINDOW) * ((size_t)left->height + 1);

	*m = (struct matcher){.width = left->width, .height = left->height};
	if (!(m->left = array_new(count, sizeof *m->left, fault)) ||
	    !(m->right = array_new(count, sizeof *m->right, fault)) ||
	    !(m->diff = array_new(count, sizeof *m->diff, fault)) ||
	    !(m->integral = array_new(padded, sizeof *m->integral, fault)) ||
	    !(m->sad = array_new(count, sizeof *m->sad, fault)) ||
	    !(m->best_sad = array_new(count, sizeof *m->best_sad, fault)) ||
	    !(m->best_level = array_new(count, sizeof *m->best_level, fault))) {
		matcher_free(m);
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		m->left[i] = left->pixels[i];
		m->right[i] = right->pixels[i];
		m->best_sad[i] = INT32_MAX;
	}
	return 0;
}

static void diff_compute(struct matcher *m, int level)
{
	for (int y = 0; y < m->height; y++) {
		const int32_t *left = m->left + (size_t)y * m->width;
		const int32_t *right = m->right + (size_t)y * m->width;
		int32_t *diff = m->diff + (size_t)y * m->width;

		for (int x = 0; x < level; x++)
			diff[x] = abs(left[x] - right[0]);
		for (int x = level; x < m->width; x++)
			diff[x] = abs(left[x] - right[x - level]);
	}
}

/* Entry (x + HALF, y) is the sum of diff left of x and above y, by a pass along rows and a pass
 * down columns.
 */
static void integral_compute(struct matcher *m)
{
	size_t stride = (size_t)m->width + WINDOW;

	for (int y = 0; y < m->height; y++) {
		const int32_t *diff = m->diff + (size_t)y * m->width;
		uint32_t *row = m->integral + ((size_t)y + 1) * stride;
		uint32_t sum = 0;

		for (int x = 0; x < m->width; x++) {
			sum += (uint32_t)diff[x];
			row[x + HALF + 1] = sum;
		}
		for (int x = m->width; x < m->width + HALF; x++)
			row[x + HALF + 1] = sum;
	}
	for (int y = 1; y < m->height; y++) {
		const uint32_t *above = m->integral + (size_t)y * stride;
		uint32_t *row = m->integral + ((size_t)y + 1) * stride;

		for (size_t x = HALF + 1; x < stride; x++)
			row[x] += above[x];
	}
}

static void sad_compute(struct matcher *m)
{
	size_t stride = (size_t)m->width + WINDOW;

	for (int y = 0; y < m->height; y++) {
		int top = y > HALF ? y - HALF : 0;
		int bottom = y + HALF + 1 < m->height ? y + HALF + 1 : m->height;
		const uint32_t *upper = m->integral + (size_t)top * stride;
		const uint32_t *lower = m->integral + (size_t)bottom * stride;
		int32_t *sad = m->sad + (size_t)y * m->width;

		for (int x = 0; x < m->width; x++)
			sad[x] = (int32_t)(lower[x + WINDOW] - lower[x] - upper[x + WINDOW] +
					   upper[x]);
	}
}

static void best_update(struct matcher *m, int level)
{
	size_t count = (size_t)m->width * (size_t)m->height;

	for (size_t i = 0; i < count; i++)
		if (m->sad[i] < m->best_sad[i]) {
			m->best_sad[i] = m->sad[i];
			m->best_level[i] = level;
		}
}

/* Computes and reports one pair; 0, or -1 with the fault filled. `pixels` has room for the result.
 * */
static int pair_match(struct matcher *m, uint8_t *pixels, const char *out, struct fault *fault)
{
	size_t count = (size_t)m->width * (size_t)m->height;
	double sum = 0;

	for (int level = 0; level < LEVELS; level++) {
		diff_compute(m, level);
		integral_compute(m);
		sad_compute(m);
		best_update(m, level);
	}
	for (size_t i = 0; i < count; i++) {
		pixels[i] = (uint8_t)m->best_level[i];
		sum += m->best_level[i];
	}
	if (out && pgm_write(out, pixels, m->width, m->height, fault))
		return -1;
	printf("disparity %dx%d levels=%d window=%d mean=%.3f checksum=%08lx\n", m->width,
	       m->height, LEVELS, WINDOW, sum / (double)count,
	       (unsigned long)bytes_checksum(pixels, count));
	return stdout_finish(fault);
}

int main(int argc, char **argv)
{
	struct image left, right;
	struct matcher m;
	struct fault fault;
	int code = EXIT_DONE;

	if (argc < 3 || argc > 4) {
		fault_set(&fault,
			  "needs 2 or 3 arguments; usage: disparity LEFT.pgm RIGHT.pgm [OUT.pgm]");
		return fault_print("disparity", &fault, EXIT_BAD_INPUT);
	}
	if (image_read(&left, argv[1], 1, SIDE_MIN, &fault))
		return fault_print("disparity", &fault, EXIT_BAD_INPUT);
	if (image_read(&right, argv[2], 1, SIDE_MIN, &fault)) {
		image_free(&left);
		return fault_print("disparity", &fault, EXIT_BAD_INPUT);
	}
	if (left.width != right.width || left.height != right.height) {
		fault_set(&fault,
			  "%.200s is %dx%d but %.200s is %dx%d; give two pictures of one size",
			  argv[1], left.width, left.height, argv[2], right.width, right.height);
		code = EXIT_BAD_INPUT;
	} else if (matcher_new(&m, &left, &right, &fault)) {
		code = EXIT_FAILED;
	} else {
		/* The left picture's bytes are copied by now, so they take the result. */
		if (pair_match(&m, left.pixels, argc == 4 ? argv[3] : NULL, &fault))
			code = EXIT_FAILED;
		matcher_free(&m);
	}
	image_free(&left);
	image_free(&right);
	return code ? fault_print("disparity", &fault, code) : EXIT_DONE;
}
