/*
 * Colour clustering: the K colours that stand best for a picture, and which of them each pixel
 * takes.
 *
 * Problem: minimise the summed squared distance of each pixel's (red, green, blue) to its nearest
 * centre.
 * Rule: Lloyd's iteration (S. Lloyd, IEEE Trans. Information Theory 28(2), 1982), ROUNDS_MAX rounds
 * or until no label changes: label every pixel with its nearest centre (equal distances keep the
 * lower label), then move each centre to the mean of its pixels; a centre without pixels stays.
 * Initial centre k is the pixel at raster position (2k + 1) * count / (2K), rounded down, so a run
 * has no randomness. Sums are exact integers and distances are computed in double, so centres do
 * not depend on the order of summation. Not covered: choosing K, restarts, perceptual colour
 * spaces.
 *
 * Output: a PGM whose samples are labels 0..K-1, those of the last round. Prints "centre k red
 * green blue pixels" lines.
 */
#include "image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CLUSTERS_DEFAULT 8
#define CLUSTERS_MAX 64
#define ROUNDS_MAX 8
#define SIDE_MIN 8

struct centre {
	double red;
	double green;
	double blue;
	int64_t pixels;
};

/* Full-size arrays, one per colour plane, plus the label and squared distance of each pixel. */
struct clusters {
	size_t count;
	int k;
	struct centre centres[CLUSTERS_MAX];
	float *red;
	float *green;
	float *blue;
	int32_t *labels;
	float *distance;
};

static void clusters_free(struct clusters *c)
{
	free(c->red);
	free(c->green);
	free(c->blue);
	free(c->labels);
	free(c->distance);
}

static int clusters_new(struct clusters *c, const struct image *image, int k, struct fault *fault)
{
	size_t count = (size_t)image->width * (size_t)image->height;

	*c = (struct clusters){.count = count, .k = k};
	if (!(c->red = array_new(count, sizeof *c->red, fault)) ||
	    !(c->green = array_new(count, sizeof *c->green, fault)) ||
	    !(c->blue = array_new(count, sizeof *c->blue, fault)) ||
	    !(c->labels = array_new(count, sizeof *c->labels, fault)) ||
	    !(c->distance = array_new(count, sizeof *c->distance, fault))) {
		clusters_free(c);
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		c->red[i] = image->pixels[3 * i];
		c->green[i] = image->pixels[3 * i + 1];
		c->blue[i] = image->pixels[3 * i + 2];
		c->labels[i] = -1;
	}
	for (int j = 0; j < k; j++) {
		size_t i = (size_t)((uint64_t)(2 * j + 1) * count / (uint64_t)(2 * k));

		c->centres[j] = (struct centre){c->red[i], c->green[i], c->blue[i], 0};
	}
	return 0;
}

/* Labels every pixel; returns how many labels changed. */
static size_t labels_update(struct clusters *c)
{
	size_t changed = 0;

	for (size_t i = 0; i < c->count; i++) {
		double nearest = 0;
		int32_t label = -1;

		for (int j = 0; j < c->k; j++) {
			double r = c->red[i] - c->centres[j].red;
			double g = c->green[i] - c->centres[j].green;
			double b = c->blue[i] - c->centres[j].blue;
			double distance = r * r + g * g + b * b;

			if (label < 0 || distance < nearest) {
				nearest = distance;
				label = j;
			}
		}
		changed += label != c->labels[i];
		c->labels[i] = label;
		c->distance[i] = (float)nearest;
	}
	return changed;
}

static void centres_update(struct clusters *c)
{
	int64_t sums[CLUSTERS_MAX][4] = {{0}};

	for (size_t i = 0; i < c->count; i++) {
		int64_t *sum = sums[c->labels[i]];

		sum[0] += (int32_t)c->red[i];
		sum[1] += (int32_t)c->green[i];
		sum[2] += (int32_t)c->blue[i];
		sum[3]++;
	}
	for (int j = 0; j < c->k; j++) {
		struct centre *centre = &c->centres[j];

		centre->pixels = sums[j][3];
		if (!centre->pixels)
			continue;
		centre->red = (double)sums[j][0] / (double)centre->pixels;
		centre->green = (double)sums[j][1] / (double)centre->pixels;
		centre->blue = (double)sums[j][2] / (double)centre->pixels;
	}
}

/* Computes and reports one picture; 0, or -1 with the fault filled. `pixels` has room for one label
 * per pixel. */
static int picture_cluster(struct clusters *c, uint8_t *pixels, const struct image *image,
			   const char *out, struct fault *fault)
{
	double error = 0;
	int rounds = 0;

	while (rounds < ROUNDS_MAX && labels_update(c)) {
		centres_update(c);
		rounds++;
	}
	for (size_t i = 0; i < c->count; i++) {
		pixels[i] = (uint8_t)c->labels[i];
		error += c->distance[i];
	}
	if (out && pgm_write(out, pixels, image->width, image->height, fault))
		return -1;
	for (int j = 0; j < c->k; j++)
		printf("centre %d %.4f %.4f %.4f %ld\n", j, c->centres[j].red, c->centres[j].green,
		       c->centres[j].blue, (long)c->centres[j].pixels);
	printf("kmeans %dx%d k=%d rounds=%d error=%.3f checksum=%08lx\n", image->width,
	       image->height, c->k, rounds, error / (double)c->count,
	       (unsigned long)bytes_checksum(pixels, c->count));
	return stdout_finish(fault);
}

static int k_parse(const char *text, int *k, struct fault *fault)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (end == text || *end || errno || value < 1 || value > CLUSTERS_MAX)
		return fault_set(fault, "K is '%.40s'; give an integer from 1 to %d", text,
				 CLUSTERS_MAX);
	*k = (int)value;
	return 0;
}

int main(int argc, char **argv)
{
	struct image image;
	struct clusters c;
	struct fault fault;
	int k = CLUSTERS_DEFAULT;
	int code = EXIT_DONE;

	if (argc < 2 || argc > 4) {
		fault_set(&fault, "needs 1 to 3 arguments; usage: kmeans IN.ppm [K] [OUT.pgm]");
		return fault_print("kmeans", &fault, EXIT_BAD_INPUT);
	}
	if ((argc > 2 && k_parse(argv[2], &k, &fault)) ||
	    image_read(&image, argv[1], 3, SIDE_MIN, &fault))
		return fault_print("kmeans", &fault, EXIT_BAD_INPUT);
	if (clusters_new(&c, &image, k, &fault)) {
		image_free(&image);
		return fault_print("kmeans", &fault, EXIT_FAILED);
	}
	/* The picture's bytes are copied by now, so they take the labels. */
	if (picture_cluster(&c, image.pixels, &image, argc == 4 ? argv[3] : NULL, &fault))
		code = EXIT_FAILED;
	clusters_free(&c);
	image_free(&image);
	return code ? fault_print("kmeans", &fault, code) : EXIT_DONE;
}
