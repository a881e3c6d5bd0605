/*
 * Canny edges: thin, connected lines where the grey level changes fast.
 *
 * Problem: mark edge pixels one pixel wide, and keep faint pieces only where they continue a strong
 * edge.
 * Rule: 1. smooth with the 7 x 7 Gaussian of sigma 1.4 in 1/64ths (KERNEL), rounded to integers,
 * border mirrored;
 *       2. Sobel gradients dx, dy, border repeated; strength m = dx^2 + dy^2;
 *       3. keep m > LOW^2 that is a maximum across its edge, the direction rounded to one of four;
 *       4. keep what is m > HIGH^2 or 8-connected to such a pixel through kept ones.
 * Source: J. Canny, IEEE PAMI 8(6), 1986; step 3's four sectors and ties follow OpenCV's Canny, so
 * that equal edges can be asked of both. Not covered: automatic thresholds, interpolated
 * suppression, sub-pixel edges.
 *
 * All arithmetic is on integers, so every machine gives the same bytes.
 * Output: a PGM, 255 on edges and 0 elsewhere.
 */
#include "image.h"

#include <stdio.h>
#include <stdlib.h>

#define LOW 40
#define HIGH 90
#define RADIUS 3
#define SIDE_MIN 16
/* tan(22.5 degrees) in 1/32768ths, and the shift that goes with it. */
#define TAN_22 13573
#define TAN_SHIFT 15

static const int32_t KERNEL[2 * RADIUS + 1] = {2, 7, 14, 18, 14, 7, 2};

enum { EDGE_NONE = 0, EDGE_WEAK = 1, EDGE_STRONG = 255 };

/*
 * Full-size arrays. `plane` and `work` change meaning from step to step: plane is the input, then
 * the smoothed picture; work is the half-smoothed picture, then the gradient strength, then the
 * stack of the last step.
 */
struct canny {
	int width;
	int height;
	int32_t *plane;
	int32_t *work;
	int32_t *dx;
	int32_t *dy;
	uint8_t *edges;
};

static void canny_free(struct canny *c)
{
	free(c->plane);
	free(c->work);
	free(c->dx);
	free(c->dy);
}

/* `edges` starts as the picture's own bytes, which are copied to `plane`. */
static int canny_new(struct canny *c, struct image *image, struct fault *fault)
{
	size_t count = (size_t)image->width * (size_t)image->height;

	*c = (struct canny){.width = image->width, .height = image->height, .edges = image->pixels};
	if (!(c->plane = array_new(count, sizeof *c->plane, fault)) ||
	    !(c->work = array_new(count, sizeof *c->work, fault)) ||
	    !(c->dx = array_new(count, sizeof *c->dx, fault)) ||
	    !(c->dy = array_new(count, sizeof *c->dy, fault))) {
		canny_free(c);
		return -1;
	}
	for (size_t i = 0; i < count; i++)
		c->plane[i] = image->pixels[i];
	return 0;
}

static void rows_smooth(const struct canny *c)
{
	for (int y = 0; y < c->height; y++) {
		const int32_t *in = c->plane + (size_t)y * c->width;
		int32_t *out = c->work + (size_t)y * c->width;

		for (int x = 0; x < c->width; x++) {
			int32_t sum = 0;

			for (int k = -RADIUS; k <= RADIUS; k++)
				sum += KERNEL[k + RADIUS] * in[index_mirror(x + k, c->width)];
			out[x] = sum;
		}
	}
}

static void columns_smooth(const struct canny *c)
{
	for (int y = 0; y < c->height; y++) {
		const int32_t *in[2 * RADIUS + 1];
		int32_t *out = c->plane + (size_t)y * c->width;

		for (int k = -RADIUS; k <= RADIUS; k++)
			in[k + RADIUS] =
				c->work + (size_t)index_mirror(y + k, c->height) * c->width;
		for (int x = 0; x < c->width; x++) {
			int32_t sum = 1 << 11;

			for (int k = 0; k <= 2 * RADIUS; k++)
				sum += KERNEL[k] * in[k][x];
			out[x] = sum >> 12;
		}
	}
}

static void gradient_compute(const struct canny *c)
{
	for (int y = 0; y < c->height; y++) {
		const int32_t *up = c->plane + (size_t)index_clamp(y - 1, c->height) * c->width;
		const int32_t *at = c->plane + (size_t)y * c->width;
		const int32_t *down = c->plane + (size_t)index_clamp(y + 1, c->height) * c->width;
		size_t row = (size_t)y * c->width;

		for (int x = 0; x < c->width; x++) {
			int w = index_clamp(x - 1, c->width);
			int e = index_clamp(x + 1, c->width);

			c->dx[row + x] = up[e] - up[w] + 2 * (at[e] - at[w]) + down[e] - down[w];
			c->dy[row + x] =
				down[w] + 2 * down[x] + down[e] - up[w] - 2 * up[x] - up[e];
		}
	}
}

static void strength_compute(const struct canny *c)
{
	size_t count = (size_t)c->width * (size_t)c->height;

	for (size_t i = 0; i < count; i++)
		c->work[i] = c->dx[i] * c->dx[i] + c->dy[i] * c->dy[i];
}

/* Strength outside the picture is zero. */
static int32_t strength_at(const struct canny *c, int x, int y)
{
	if (x < 0 || y < 0 || x >= c->width || y >= c->height)
		return 0;
	return c->work[(size_t)y * c->width + x];
}

/* Whether the pixel's strength is a maximum across its edge. */
static int is_ridge(const struct canny *c, int x, int y)
{
	size_t i = (size_t)y * c->width + x;
	int32_t m = c->work[i];
	int32_t run = abs(c->dx[i]);
	int32_t rise = abs(c->dy[i]) * (1 << TAN_SHIFT);
	int32_t tan22 = run * TAN_22;
	int32_t tan67 = tan22 + run * (1 << (TAN_SHIFT + 1));
	int slant;

	if (rise < tan22)
		return m > strength_at(c, x - 1, y) && m >= strength_at(c, x + 1, y);
	if (rise > tan67)
		return m > strength_at(c, x, y - 1) && m >= strength_at(c, x, y + 1);
	slant = (c->dx[i] < 0) != (c->dy[i] < 0) ? -1 : 1;
	return m > strength_at(c, x - slant, y - 1) && m > strength_at(c, x + slant, y + 1);
}

static void ridges_mark(const struct canny *c)
{
	for (int y = 0; y < c->height; y++)
		for (int x = 0; x < c->width; x++) {
			size_t i = (size_t)y * c->width + x;
			int32_t m = c->work[i];

			c->edges[i] = EDGE_NONE;
			if (m > LOW * LOW && is_ridge(c, x, y))
				c->edges[i] = m > HIGH * HIGH ? EDGE_STRONG : EDGE_WEAK;
		}
}

/* Turns weak neighbours of pixel i strong and stacks them; returns the new depth. */
static size_t weak_push(const struct canny *c, int32_t i, int32_t *stack, size_t depth)
{
	int x0 = i % c->width;
	int y0 = i / c->width;

	for (int y = y0 ? y0 - 1 : 0; y <= y0 + 1 && y < c->height; y++)
		for (int x = x0 ? x0 - 1 : 0; x <= x0 + 1 && x < c->width; x++) {
			int32_t j = y * c->width + x;

			if (c->edges[j] == EDGE_WEAK) {
				c->edges[j] = EDGE_STRONG;
				stack[depth++] = j;
			}
		}
	return depth;
}

/* Each pixel is stacked at most once, so a full-size array holds the stack. Returns the number of
 * edge pixels. */
static size_t edges_link(const struct canny *c)
{
	size_t count = (size_t)c->width * (size_t)c->height;
	size_t depth = 0, kept = 0;
	int32_t *stack = c->work;

	for (size_t i = 0; i < count; i++)
		if (c->edges[i] == EDGE_STRONG)
			stack[depth++] = (int32_t)i;
	while (depth) {
		int32_t i = stack[--depth];

		depth = weak_push(c, i, stack, depth);
	}
	for (size_t i = 0; i < count; i++) {
		if (c->edges[i] == EDGE_STRONG)
			kept++;
		else
			c->edges[i] = EDGE_NONE;
	}
	return kept;
}

int main(int argc, char **argv)
{
	struct image image;
	struct canny c;
	struct fault fault;
	size_t count, kept;
	int code = EXIT_DONE;

	if (argc < 2 || argc > 3) {
		fault_set(&fault, "needs 1 or 2 arguments; usage: canny IN.pgm [OUT.pgm]");
		return fault_print("canny", &fault, EXIT_BAD_INPUT);
	}
	if (image_read(&image, argv[1], 1, SIDE_MIN, &fault))
		return fault_print("canny", &fault, EXIT_BAD_INPUT);
	if (canny_new(&c, &image, &fault)) {
		image_free(&image);
		return fault_print("canny", &fault, EXIT_FAILED);
	}
	count = (size_t)c.width * (size_t)c.height;
	rows_smooth(&c);
	columns_smooth(&c);
	gradient_compute(&c);
	strength_compute(&c);
	ridges_mark(&c);
	kept = edges_link(&c);
	if (argc == 3 && pgm_write(argv[2], c.edges, c.width, c.height, &fault))
		code = EXIT_FAILED;
	if (!code) {
		printf("canny %dx%d low=%d high=%d edges=%lu checksum=%08lx\n", c.width, c.height,
		       LOW, HIGH, (unsigned long)kept,
		       (unsigned long)bytes_checksum(c.edges, count));
		code = stdout_finish(&fault) ? EXIT_FAILED : EXIT_DONE;
	}
	canny_free(&c);
	image_free(&image);
	return code ? fault_print("canny", &fault, code) : EXIT_DONE;
}
