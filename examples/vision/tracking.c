/*
 * KLT feature tracking: where the corners of frame A have gone in frame B.
 *
 * Problem: pick points whose neighbourhood is distinctive in every direction, and find each again
 * in the next frame. Rule, corners: smallest eigenvalue of the 3 x 3 sum of Sobel gradient products
 * (Shi and Tomasi, CVPR 1994); keep local maxima above QUALITY times the largest, strongest first,
 * none closer than SPACING pixels to a kept one. Rule, tracking: from the coarsest level of a 5 x 5
 * Gaussian pyramid to the finest, repeat
 *       step = G^-1 * sum over the window of (A - B shifted) * gradient of A
 *   until the step is below STEP_MIN or ROUNDS_MAX is reached (Lucas and Kanade, IJCAI 1981; the
 *   pyramid is
 * Bouguet's, Intel 2000). A point is lost when its window has no texture or leaves the picture. The
 * details that sources leave open (rounded pyramid levels, Scharr gradients, mirrored borders,
 * thresholds, the halved step on oscillation) follow OpenCV's goodFeaturesToTrack and
 * calcOpticalFlowPyrLK, so that equal tracks can be asked of both. SD-VBS `tracking` is the same
 * algorithm. Not covered: affine windows, checks by tracking back, more than two frames.
 *
 * Output: one line "x0 y0 x1 y1" per tracked corner, in pixels, strongest corner first.
 */
#include "image.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CORNERS_MAX 200
#define QUALITY 0.01
#define SPACING 8
#define WINDOW 21
#define LEVELS_MAX 4
#define ROUNDS_MAX 30
#define STEP_MIN 0.01
#define EIGEN_MIN 1e-4
#define SIDE_MIN 32
/* One line of output: four numbers of at most 4 + 1 + 3 characters and a sign, separators, end. */
#define LINE_SIZE 48

/* A full-size float array with WINDOW extra samples on every side, so that a window may hang over
 * the border.
 */
struct plane {
	int width;
	int height;
	int stride;
	float *samples;
};

/* Frame A with its gradients, and frame B, on one pyramid level. */
struct level {
	struct plane a;
	struct plane b;
	struct plane gx;
	struct plane gy;
};

struct pyramid {
	int levels;
	struct level level[LEVELS_MAX];
};

struct point {
	double x;
	double y;
};

struct corner {
	float strength;
	int32_t at;
};

/* What one window of frame A contributes: its samples, gradients, and the entries of G. */
struct window {
	float a[WINDOW * WINDOW];
	float gx[WINDOW * WINDOW];
	float gy[WINDOW * WINDOW];
	double gxx;
	double gxy;
	double gyy;
};

/* ---- planes and pyramid ---- */

static int plane_new(struct plane *p, int width, int height, struct fault *fault)
{
	int stride = width + 2 * WINDOW;

	*p = (struct plane){.width = width, .height = height, .stride = stride};
	p->samples = array_new((size_t)stride * ((size_t)height + 2 * WINDOW), sizeof *p->samples,
			       fault);
	return p->samples ? 0 : -1;
}

/* Sample (x, y), -WINDOW <= x < width + WINDOW and so for y. */
static float *plane_at(const struct plane *p, int x, int y)
{
	return p->samples + (ptrdiff_t)(y + WINDOW) * p->stride + x + WINDOW;
}

/* Fills the extra samples from the picture, mirrored. */
static void plane_mirror(struct plane *p)
{
	for (int y = -WINDOW; y < p->height + WINDOW; y++)
		for (int x = -WINDOW; x < p->width + WINDOW; x++) {
			if (x == 0 && y >= 0 && y < p->height)
				x = p->width; /* the picture itself is in place: go on behind it */
			*plane_at(p, x, y) =
				*plane_at(p, index_mirror(x, p->width), index_mirror(y, p->height));
		}
}

static int plane_load(struct plane *p, const struct image *image, struct fault *fault)
{
	if (plane_new(p, image->width, image->height, fault))
		return -1;
	for (int y = 0; y < p->height; y++)
		for (int x = 0; x < p->width; x++)
			*plane_at(p, x, y) = image->pixels[(size_t)y * image->width + x];
	plane_mirror(p);
	return 0;
}

/* Halves `from` into a new plane: 1 4 6 4 1 smoothing both ways, rounded to integers (exact in
 * float until then). */
static int plane_halve(struct plane *p, const struct plane *from, struct fault *fault)
{
	if (plane_new(p, (from->width + 1) / 2, (from->height + 1) / 2, fault))
		return -1;
	for (int y = 0; y < p->height; y++)
		for (int x = 0; x < p->width; x++) {
			float rows[5];

			for (int k = 0; k < 5; k++) {
				const float *in = plane_at(from, 2 * x, 2 * y + k - 2);

				rows[k] = in[-2] + 4 * in[-1] + 6 * in[0] + 4 * in[1] + in[2];
			}
			*plane_at(p, x, y) = floorf((rows[0] + 4 * rows[1] + 6 * rows[2] +
						     4 * rows[3] + rows[4] + 128) /
						    256);
		}
	plane_mirror(p);
	return 0;
}

/* Scharr gradients of l->a per 1/32 pixel; zero outside the picture. */
static int gradient_new(struct level *l, struct fault *fault)
{
	const int s = l->a.stride;

	if (plane_new(&l->gx, l->a.width, l->a.height, fault) ||
	    plane_new(&l->gy, l->a.width, l->a.height, fault))
		return -1;
	for (int y = 0; y < l->a.height; y++)
		for (int x = 0; x < l->a.width; x++) {
			const float *a = plane_at(&l->a, x, y);

			*plane_at(&l->gx, x, y) = 3 * (a[1 - s] - a[-1 - s]) + 10 * (a[1] - a[-1]) +
						  3 * (a[1 + s] - a[-1 + s]);
			*plane_at(&l->gy, x, y) = 3 * (a[s - 1] - a[-s - 1]) + 10 * (a[s] - a[-s]) +
						  3 * (a[s + 1] - a[1 - s]);
		}
	return 0;
}

static void pyramid_free(struct pyramid *p)
{
	for (int i = 0; i < LEVELS_MAX; i++) {
		free(p->level[i].a.samples);
		free(p->level[i].b.samples);
		free(p->level[i].gx.samples);
		free(p->level[i].gy.samples);
	}
}

/* Levels end before a side would be no longer than the window. */
static int pyramid_new(struct pyramid *p, const struct image *a, const struct image *b,
		       struct fault *fault)
{
	*p = (struct pyramid){.levels = 0};
	for (int i = 0; i < LEVELS_MAX; i++) {
		struct level *l = &p->level[i];
		const struct level *finer = i ? l - 1 : l;

		if (i &&
		    ((finer->a.width + 1) / 2 <= WINDOW || (finer->a.height + 1) / 2 <= WINDOW))
			break;
		if ((i ? plane_halve(&l->a, &finer->a, fault) : plane_load(&l->a, a, fault)) ||
		    (i ? plane_halve(&l->b, &finer->b, fault) : plane_load(&l->b, b, fault)) ||
		    gradient_new(l, fault)) {
			pyramid_free(p);
			return -1;
		}
		p->levels++;
	}
	return 0;
}

/* ---- corners ---- */

/* Products of Sobel gradients of `a`, as full-size integer arrays of width * height. */
static void products_compute(const struct plane *a, int32_t *xx, int32_t *xy, int32_t *yy)
{
	const int s = a->stride;

	for (int y = 0; y < a->height; y++)
		for (int x = 0; x < a->width; x++) {
			const float *p = plane_at(a, x, y);
			size_t i = (size_t)y * a->width + x;
			int32_t gx = (int32_t)(p[1 - s] - p[-1 - s] + 2 * (p[1] - p[-1]) +
					       p[1 + s] - p[-1 + s]);
			int32_t gy = (int32_t)(p[s - 1] - p[-s - 1] + 2 * (p[s] - p[-s]) +
					       p[s + 1] - p[1 - s]);

			xx[i] = gx * gx;
			xy[i] = gx * gy;
			yy[i] = gy * gy;
		}
}

/* 3 x 3 sum around (x, y), mirrored at the border. */
static int32_t box_sum(const int32_t *plane, int width, int height, int x, int y)
{
	int w = index_mirror(x - 1, width);
	int e = index_mirror(x + 1, width);
	int32_t sum = 0;

	for (int k = -1; k <= 1; k++) {
		const int32_t *row = plane + (size_t)index_mirror(y + k, height) * width;

		sum += row[w] + row[x] + row[e];
	}
	return sum;
}

/* Fills `strength` with smallest eigenvalues; returns the largest of them. */
static float strength_compute(float *strength, const int32_t *xx, const int32_t *xy,
			      const int32_t *yy, int width, int height)
{
	float largest = 0;

	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++) {
			float half_xx = (float)box_sum(xx, width, height, x, y) * 0.5f;
			float half_yy = (float)box_sum(yy, width, height, x, y) * 0.5f;
			float cross = (float)box_sum(xy, width, height, x, y);
			float gap = half_xx - half_yy;
			float eigen = half_xx + half_yy - sqrtf(gap * gap + cross * cross);

			strength[(size_t)y * width + x] = eigen;
			if (eigen > largest)
				largest = eigen;
		}
	return largest;
}

static int is_local_maximum(const float *strength, int width, size_t at)
{
	for (int y = -1; y <= 1; y++)
		for (int x = -1; x <= 1; x++)
			if (strength[(ptrdiff_t)at + (ptrdiff_t)y * width + x] > strength[at])
				return 0;
	return 1;
}

/* Strongest first; equal ones by later position first. */
static int corner_compare(const void *left, const void *right)
{
	const struct corner *a = left, *b = right;

	if (a->strength != b->strength)
		return a->strength > b->strength ? -1 : 1;
	return a->at > b->at ? -1 : a->at < b->at;
}

/* Lists local maxima above `floor` off the border; returns how many. `found` has room for width *
 * height. */
static size_t maxima_list(struct corner *found, const float *strength, int width, int height,
			  float floor)
{
	size_t count = 0;

	for (int y = 1; y < height - 1; y++)
		for (int x = 1; x < width - 1; x++) {
			size_t at = (size_t)y * width + x;

			if (strength[at] > floor && is_local_maximum(strength, width, at))
				found[count++] = (struct corner){strength[at], (int32_t)at};
		}
	qsort(found, count, sizeof *found, corner_compare);
	return count;
}

static int corners_space(struct point *points, const struct corner *found, size_t count, int width)
{
	int kept = 0;

	for (size_t i = 0; i < count && kept < CORNERS_MAX; i++) {
		double x = found[i].at % width;
		double y = found[i].at / width;
		int clear = 1;

		for (int j = 0; j < kept && clear; j++) {
			double dx = x - points[j].x, dy = y - points[j].y;

			clear = dx * dx + dy * dy >= SPACING * SPACING;
		}
		if (clear)
			points[kept++] = (struct point){x, y};
	}
	return kept;
}

/* Finds up to CORNERS_MAX corners; their number, or -1 with the fault filled. */
static int corners_find(struct point *points, const struct plane *a, struct fault *fault)
{
	size_t count = (size_t)a->width * (size_t)a->height;
	int32_t *products = array_new(3 * count, sizeof *products, fault);
	float *strength = array_new(count, sizeof *strength, fault);
	struct corner *found = array_new(count, sizeof *found, fault);
	int kept = -1;

	if (products && strength && found) {
		int32_t *xx = products, *xy = products + count, *yy = products + 2 * count;
		float largest;

		products_compute(a, xx, xy, yy);
		largest = strength_compute(strength, xx, xy, yy, a->width, a->height);
		count = maxima_list(found, strength, a->width, a->height,
				    (float)(largest * QUALITY));
		kept = corners_space(points, found, count, a->width);
	}
	free(products);
	free(strength);
	free(found);
	return kept;
}

/* ---- tracking ---- */

/* Splits a window's corner into whole and fractional pixels; 0 when the window lies outside the
 * plane's extra border. */
static int window_place(const struct plane *p, struct point corner, int *x, int *y, double *fx,
			double *fy)
{
	double wx = floor(corner.x), wy = floor(corner.y);

	if (!(wx >= -WINDOW && wx < p->width && wy >= -WINDOW && wy < p->height))
		return 0;
	*x = (int)wx;
	*y = (int)wy;
	*fx = corner.x - wx;
	*fy = corner.y - wy;
	return 1;
}

/* The four bilinear weights of a window at fraction (fx, fy): here, right, below, below right. */
static void weights_compute(float w[4], double fx, double fy)
{
	w[0] = (float)((1 - fx) * (1 - fy));
	w[1] = (float)(fx * (1 - fy));
	w[2] = (float)((1 - fx) * fy);
	w[3] = (float)(fx * fy);
}

static float sample_mix(const float *s, int stride, const float w[4])
{
	return s[0] * w[0] + s[1] * w[1] + s[stride] * w[2] + s[stride + 1] * w[3];
}

/* Reads a window of frame A; 0 when it lies outside or has too little texture. */
static int window_read(struct window *win, const struct level *l, struct point corner)
{
	int x, y, n = 0;
	double fx, fy, eigen;
	float w[4];

	if (!window_place(&l->a, corner, &x, &y, &fx, &fy))
		return 0;
	weights_compute(w, fx, fy);
	win->gxx = win->gxy = win->gyy = 0;
	for (int j = 0; j < WINDOW; j++)
		for (int i = 0; i < WINDOW; i++, n++) {
			win->a[n] = sample_mix(plane_at(&l->a, x + i, y + j), l->a.stride, w);
			win->gx[n] = sample_mix(plane_at(&l->gx, x + i, y + j), l->gx.stride, w);
			win->gy[n] = sample_mix(plane_at(&l->gy, x + i, y + j), l->gy.stride, w);
			win->gxx += win->gx[n] * win->gx[n];
			win->gxy += win->gx[n] * win->gy[n];
			win->gyy += win->gy[n] * win->gy[n];
		}
	/* Gradients carry a factor 32 and EIGEN_MIN is meant for G / 1024^2 of them: OpenCV's
	 * fixed-point scale. */
	eigen = (win->gxx + win->gyy -
		 sqrt((win->gxx - win->gyy) * (win->gxx - win->gyy) + 4 * win->gxy * win->gxy)) /
		(2.0 * WINDOW * WINDOW) / (1024.0 * 1024.0);
	return eigen >= EIGEN_MIN && win->gxx * win->gyy - win->gxy * win->gxy > DBL_EPSILON;
}

/* One Lucas-Kanade step of the window at `corner` of frame B; 0 when it lies outside. */
static int step_compute(struct point *step, const struct window *win, const struct plane *b,
			struct point corner)
{
	int x, y, n = 0;
	double fx, fy, ex = 0, ey = 0;
	double det = win->gxx * win->gyy - win->gxy * win->gxy;
	float w[4];

	if (!window_place(b, corner, &x, &y, &fx, &fy))
		return 0;
	weights_compute(w, fx, fy);
	for (int j = 0; j < WINDOW; j++)
		for (int i = 0; i < WINDOW; i++, n++) {
			float gap = win->a[n] - sample_mix(plane_at(b, x + i, y + j), b->stride, w);

			ex += gap * win->gx[n];
			ey += gap * win->gy[n];
		}
	/* The gradients' factor 32 appears twice below the line and once above it. */
	step->x = 32 * (win->gyy * ex - win->gxy * ey) / det;
	step->y = 32 * (win->gxx * ey - win->gxy * ex) / det;
	return 1;
}

/* Refines the window corner `to` on one level; 0 when it left the picture. */
static int level_refine(struct point *to, const struct window *win, const struct plane *b)
{
	struct point last = {0, 0}, step;

	for (int round = 0; round < ROUNDS_MAX; round++) {
		if (!step_compute(&step, win, b, *to))
			return 0;
		to->x += step.x;
		to->y += step.y;
		if (step.x * step.x + step.y * step.y <= STEP_MIN * STEP_MIN)
			break;
		if (round && fabs(step.x + last.x) < 0.01 && fabs(step.y + last.y) < 0.01) {
			/* It swings between two places: take the middle. */
			to->x -= step.x / 2;
			to->y -= step.y / 2;
			break;
		}
		last = step;
	}
	return 1;
}

/* Follows one point from frame A to frame B; 0 when it is lost. A failure on a coarse level only
 * skips that level. */
static int point_track(struct point *to, const struct pyramid *p, struct point from,
		       struct window *win)
{
	const double half = (WINDOW - 1) / 2;
	int found = 0;

	*to = from;
	for (int i = p->levels - 1; i >= 0; i--) {
		const struct level *l = &p->level[i];
		double scale = 1.0 / (1 << i);
		struct point source = {from.x * scale - half, from.y * scale - half};
		struct point target;

		if (i == p->levels - 1)
			*to = (struct point){from.x * scale, from.y * scale};
		else
			*to = (struct point){to->x * 2, to->y * 2};
		target = (struct point){to->x - half, to->y - half};
		found = window_read(win, l, source) && level_refine(&target, win, &l->b);
		if (found || i > 0)
			*to = (struct point){target.x + half, target.y + half};
	}
	/* A track may end a little outside through the last step; such a place is not in the
	 * picture. */
	return found && to->x >= 0 && to->y >= 0 && to->x <= p->level[0].a.width - 1 &&
	       to->y <= p->level[0].a.height - 1;
}

/* Tracks and reports one pair; 0, or -1 with the fault filled. */
static int pair_track(const struct pyramid *p, const char *out, struct fault *fault)
{
	static struct point points[CORNERS_MAX];
	static struct window win;
	static char text[CORNERS_MAX * LINE_SIZE + 1];
	int corners = corners_find(points, &p->level[0].a, fault);
	int tracked = 0;
	size_t size = 0;

	if (corners < 0)
		return -1;
	for (int i = 0; i < corners; i++) {
		struct point to;

		if (!point_track(&to, p, points[i], &win))
			continue;
		size += (size_t)snprintf(text + size, LINE_SIZE, "%.0f %.0f %.3f %.3f\n",
					 points[i].x, points[i].y, to.x, to.y);
		tracked++;
	}
	if (out && file_write(out, text, size, "", 0, fault))
		return -1;
	printf("tracking %dx%d corners=%d tracked=%d checksum=%08lx\n", p->level[0].a.width,
	       p->level[0].a.height, corners, tracked, (unsigned long)bytes_checksum(text, size));
	return stdout_finish(fault);
}

int main(int argc, char **argv)
{
	struct image a, b;
	struct pyramid p;
	struct fault fault;
	int code = EXIT_DONE;

	if (argc < 3 || argc > 4) {
		fault_set(&fault, "needs 2 or 3 arguments; usage: tracking A.pgm B.pgm [OUT.txt]");
		return fault_print("tracking", &fault, EXIT_BAD_INPUT);
	}
	if (image_read(&a, argv[1], 1, SIDE_MIN, &fault))
		return fault_print("tracking", &fault, EXIT_BAD_INPUT);
	if (image_read(&b, argv[2], 1, SIDE_MIN, &fault)) {
		image_free(&a);
		return fault_print("tracking", &fault, EXIT_BAD_INPUT);
	}
	if (a.width != b.width || a.height != b.height) {
		fault_set(&fault,
			  "%.200s is %dx%d but %.200s is %dx%d; give two frames of one size",
			  argv[1], a.width, a.height, argv[2], b.width, b.height);
		code = EXIT_BAD_INPUT;
	} else if (pyramid_new(&p, &a, &b, &fault)) {
		code = EXIT_FAILED;
	} else {
		if (pair_track(&p, argc == 4 ? argv[3] : NULL, &fault))
			code = EXIT_FAILED;
		pyramid_free(&p);
	}
	image_free(&a);
	image_free(&b);
	return code ? fault_print("tracking", &fault, code) : EXIT_DONE;
}
