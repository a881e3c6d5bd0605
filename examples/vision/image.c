/* Pictures in and results out for the vision tasks; the contract is in image.h. */
#define _POSIX_C_SOURCE 200809L

#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fault_set(struct fault *fault, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (vsnprintf(fault->text, sizeof fault->text, format, args) < 0)
		fault->text[0] = '\0';
	va_end(args);
	for (char *c = fault->text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return -1;
}

int fault_print(const char *program, const struct fault *fault, int code)
{
	fprintf(stderr, "%s: %s\n", program, fault->text);
	return code;
}

static int is_space(int c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

/* Next header character; a comment runs from '#' to the end of its line and counts as that line
 * end. */
static int header_getc(FILE *file)
{
	int c = getc(file);

	if (c == '#')
		do
			c = getc(file);
		while (c != '\n' && c != '\r' && c != EOF);
	return c;
}

/*
 * Reads one decimal header field and the single separator after it.
 * Values past a million stop growing: they are refused by range, not by overflow.
 */
static int header_field(FILE *file, const char *path, const char *name, long *value,
			struct fault *fault)
{
	int c = header_getc(file);

	while (is_space(c))
		c = header_getc(file);
	if (c < '0' || c > '9')
		return fault_set(
			fault,
			"%.300s: header field '%s' is missing or not a decimal number; write it as "
			"a plain integer",
			path, name);
	for (*value = 0; c >= '0' && c <= '9'; c = header_getc(file))
		if (*value <= 1000000)
			*value = *value * 10 + (c - '0');
	if (!is_space(c))
		return fault_set(fault,
				 "%.300s: header field '%s' is not followed by white space; the "
				 "header is damaged",
				 path, name);
	return 0;
}

static int side_check(const char *path, const char *name, long side, int side_min,
		      struct fault *fault)
{
	if (side < side_min)
		return fault_set(fault, "%.300s: %s is %ld pixels; give a picture of at least %d",
				 path, name, side, side_min);
	if (side > IMAGE_SIDE_MAX)
		return fault_set(
			fault, "%.300s: %s is over the limit of %d pixels; scale the picture down",
			path, name, IMAGE_SIDE_MAX);
	return 0;
}

static int header_read(FILE *file, struct image *image, const char *path, int side_min,
		       struct fault *fault)
{
	const char kind = image->channels == 3 ? '6' : '5';
	const char *format = image->channels == 3 ? "binary PPM (P6)" : "binary PGM (P5)";
	long width, height, maxval;
	int first, second;

	errno = 0;
	first = getc(file);
	second = getc(file);
	if (ferror(file))
		return fault_set(fault, "%.300s: cannot be read: %s; give a regular file", path,
				 strerror(errno));
	if (first != 'P' || second != kind)
		return fault_set(fault,
				 "%.300s: does not start with 'P%c'; convert the picture to %s",
				 path, kind, format);
	if (!is_space(header_getc(file)))
		return fault_set(fault, "%.300s: no white space after 'P%c'; the header is damaged",
				 path, kind);
	if (header_field(file, path, "width", &width, fault) ||
	    header_field(file, path, "height", &height, fault) ||
	    header_field(file, path, "maxval", &maxval, fault) ||
	    side_check(path, "width", width, side_min, fault) ||
	    side_check(path, "height", height, side_min, fault))
		return -1;
	if (maxval != 255)
		return fault_set(
			fault, "%.300s: maxval is %ld; convert the picture to 8 bits (maxval 255)",
			path, maxval);
	image->width = (int)width;
	image->height = (int)height;
	return 0;
}

static int body_read(FILE *file, struct image *image, const char *path, struct fault *fault)
{
	size_t size = (size_t)image->width * (size_t)image->height * (size_t)image->channels;
	size_t got;

	image->pixels = array_new(size, 1, fault);
	if (!image->pixels)
		return -1;
	got = fread(image->pixels, 1, size, file);
	if (got == size && getc(file) == EOF && !ferror(file))
		return 0;
	image_free(image);
	if (got < size)
		return fault_set(fault,
				 "%.300s: holds %lu of the %lu pixel bytes its header announces; "
				 "copy the file again",
				 path, (unsigned long)got, (unsigned long)size);
	return fault_set(
		fault,
		"%.300s: has bytes after its %lu pixel bytes; give a file with exactly one picture",
		path, (unsigned long)size);
}

int image_read(struct image *image, const char *path, int channels, int side_min,
	       struct fault *fault)
{
	FILE *file;
	int rc;

	memset(image, 0, sizeof *image);
	image->channels = channels;
	file = fopen(path, "rb");
	if (!file)
		return fault_set(fault, "%.300s: cannot be opened: %s; check the path", path,
				 strerror(errno));
	rc = header_read(file, image, path, side_min, fault);
	if (!rc)
		rc = body_read(file, image, path, fault);
	fclose(file);
	return rc;
}

void image_free(struct image *image)
{
	free(image->pixels);
	image->pixels = NULL;
}

/* Writes both parts and closes; 0 only when every byte reached the file system. */
static int parts_write(FILE *file, const void *head, size_t head_size, const void *body,
		       size_t body_size)
{
	int ok = fwrite(head, 1, head_size, file) == head_size &&
		 fwrite(body, 1, body_size, file) == body_size;

	if (fclose(file))
		ok = 0;
	return ok ? 0 : -1;
}

int file_write(const char *path, const void *head, size_t head_size, const void *body,
	       size_t body_size, struct fault *fault)
{
	size_t room = strlen(path) + 32;
	char *temp = array_new(room, 1, fault);
	FILE *file;
	int fd, rc;

	if (!temp)
		return -1;
	snprintf(temp, room, "%s.%ld.tmp", path, (long)getpid());
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
	file = fd < 0 ? NULL : fdopen(fd, "wb");
	if (!file) {
		fault_set(fault,
			  "%.300s: cannot create the output beside it: %s; choose a directory you "
			  "may write to",
			  path, strerror(errno));
		if (fd >= 0) {
			close(fd);
			unlink(temp);
		}
		free(temp);
		return -1;
	}
	rc = parts_write(file, head, head_size, body, body_size);
	if (!rc)
		rc = rename(temp, path);
	if (rc) {
		fault_set(fault, "%.300s: cannot write the output: %s; check space and permissions",
			  path, strerror(errno));
		unlink(temp);
	}
	free(temp);
	return rc ? -1 : 0;
}

int pgm_write(const char *path, const uint8_t *pixels, int width, int height, struct fault *fault)
{
	char head[64];
	int size = snprintf(head, sizeof head, "P5\n%d %d\n255\n", width, height);

	return file_write(path, head, (size_t)size, pixels, (size_t)width * (size_t)height, fault);
}

void *array_new(size_t count, size_t size, struct fault *fault)
{
	void *array = calloc(count, size);

	if (!array)
		fault_set(fault,
			  "out of memory for %lu elements of %lu bytes; raise the memory limit or "
			  "use a "
			  "smaller picture",
			  (unsigned long)count, (unsigned long)size);
	return array;
}

uint32_t bytes_checksum(const void *bytes, size_t size)
{
	const uint8_t *byte = bytes;
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ byte[i]) * 16777619u;
	return sum;
}

int stdout_finish(struct fault *fault)
{
	if (fflush(stdout) || ferror(stdout))
		return fault_set(
			fault, "stdout: cannot write the summary: %s; check where it is redirected",
			strerror(errno));
	return 0;
}
