/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Takes frames of a V4L2 camera into buffers of a task, by user pointers.
 *
 *	camera DEVICE [TASK [FRAMES [COLOURS]]]       default: camera DEVICE video 30
 *
 * Problem: a driver allocates its buffers in frames of any colour, so each picture evicts the cache
 * lines of other tasks. Rule: the program hands its own buffers over (V4L2_MEMORY_USERPTR), and
 * each of them has frames of the task. Prints the frames, their bytes, the pages that the device
 * left unwritten, and where the buffers lie. With COLOURS, like 0-7/32, it looks up all pages that
 * the device has (root) each time a frame is ready, and counts those in other colours. Source:
 * mc2-os-isolation, section 4.3 (frame buffers); linux/videodev2.h.
 *
 * Does not cover: the format (the device's as it is set; v4l2-ctl changes it), several planes,
 * drivers that take only buffers of their own.
 */
#include "task_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BUFFERS 4
/* Longest wait for a frame. */
#define PATIENCE_MS 5000
/* In each word of a buffer until the device writes to it, with the word's place. */
#define UNWRITTEN UINT64_C(0x5ca1ab1e00000000)

struct camera {
	const char *name;
	int file;
	size_t frame_bytes;
	struct sc_memory buffers[BUFFERS];
	int is_given[BUFFERS]; /* the device has it */
	unsigned taken;	       /* buffers that there are */
};

struct outcome {
	unsigned frames, damaged;
	uint64_t bytes, pages, unwritten, looks, wrong;
};

/* Calls the driver; -1 and errno after a failure. */
static int call(const struct camera *camera, unsigned long request, void *argument)
{
	int result;

	do
		result = ioctl(camera->file, request, argument);
	while (result < 0 && errno == EINTR);
	return result;
}

static int failed(const struct camera *camera, const char *remedy)
{
	fprintf(stderr, "%s: %s; %s\n", camera->name, strerror(errno), remedy);
	return EXIT_DEVICE;
}

/* Opens the device, and asks for its size of frames and for user pointers. */
static int open_device(struct camera *camera)
{
	struct v4l2_format format = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
	struct v4l2_requestbuffers request = {.count = BUFFERS,
					      .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
					      .memory = V4L2_MEMORY_USERPTR};

	camera->file = open(camera->name, O_RDWR | O_CLOEXEC);
	if (camera->file < 0)
		return failed(camera, "name a device like /dev/video0");
	if (call(camera, VIDIOC_G_FMT, &format) != 0)
		return failed(camera, "name a V4L2 capture device");
	camera->frame_bytes = format.fmt.pix.sizeimage;
	if (camera->frame_bytes == 0) {
		fprintf(stderr, "%s: its frames have no bytes; set a format (v4l2-ctl)\n",
			camera->name);
		return EXIT_DEVICE;
	}
	if (call(camera, VIDIOC_REQBUFS, &request) != 0)
		return failed(camera, errno == EBUSY ? "end the program that uses the device"
						     : "its driver does not take user pointers");
	if (request.count < BUFFERS) {
		fprintf(stderr, "%s: it takes %u buffers of %d; use another device\n", camera->name,
			request.count, BUFFERS);
		return EXIT_DEVICE;
	}
	return 0;
}

/* Hands a buffer over to the device, with a mark in each word. */
static int give(struct camera *camera, unsigned index)
{
	struct sc_memory *memory = &camera->buffers[index];
	struct v4l2_buffer buffer = {.index = index,
				     .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
				     .memory = V4L2_MEMORY_USERPTR,
				     .m.userptr = (unsigned long)memory->at,
				     .length = (uint32_t)memory->bytes};

	for (size_t word = 0; word < memory->bytes / sizeof(uint64_t); word++)
		((uint64_t *)memory->at)[word] = UNWRITTEN + word;
	if (call(camera, VIDIOC_QBUF, &buffer) != 0)
		return failed(camera, "its driver does not take pages of this buffer");
	camera->is_given[index] = 1;
	return 0;
}

/* Number of pages of a frame in which no word has changed. */
static uint64_t unwritten(const struct sc_memory *memory, size_t bytes)
{
	const uint64_t *words = memory->at;
	size_t count = bytes / sizeof(uint64_t), per_page = page_bytes() / sizeof(uint64_t);
	uint64_t pages = 0;

	for (size_t page = 0; page < count; page += per_page) {
		size_t word = page, end = page + per_page < count ? page + per_page : count;

		while (word < end && words[word] == UNWRITTEN + word)
			word++;
		pages += word == end;
	}
	return pages;
}

/* Looks up the pages of all buffers that the device has. */
static int look(const struct camera *camera, const struct colours *colours, struct outcome *outcome)
{
	for (unsigned index = 0; colours->all && index < BUFFERS; index++) {
		const struct sc_memory *memory = &camera->buffers[index];
		long wrong = camera->is_given[index] ? buffer_wrong(memory, colours) : 0;

		if (wrong < 0) {
			fprintf(stderr,
				"the kernel does not show the frames of pages; run as root\n");
			return EXIT_DEVICE;
		}
		outcome->looks += camera->is_given[index] ? memory->bytes / page_bytes() : 0;
		outcome->wrong += (uint64_t)wrong;
	}
	return 0;
}

/* Waits for a frame, judges it, and hands its buffer over again. */
static int frame(struct camera *camera, const struct colours *colours, struct outcome *outcome)
{
	struct pollfd ready = {.fd = camera->file, .events = POLLIN};
	struct v4l2_buffer buffer = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
				     .memory = V4L2_MEMORY_USERPTR};
	int code;

	if (poll(&ready, 1, PATIENCE_MS) == 0) {
		fprintf(stderr, "%s: no frame came within %d s; does it have a signal?\n",
			camera->name, PATIENCE_MS / 1000);
		return EXIT_DEVICE;
	}
	code = look(camera, colours, outcome);
	if (code != 0)
		return code;
	if (call(camera, VIDIOC_DQBUF, &buffer) != 0)
		return failed(camera, "check that it is still connected");
	if (buffer.index >= BUFFERS || buffer.bytesused > camera->buffers[buffer.index].bytes) {
		fprintf(stderr, "%s: its driver names a buffer that it did not get\n",
			camera->name);
		return EXIT_DEVICE;
	}
	camera->is_given[buffer.index] = 0;
	outcome->frames++;
	if (buffer.flags & V4L2_BUF_FLAG_ERROR) {
		outcome->damaged++;
	} else {
		outcome->bytes += buffer.bytesused;
		outcome->pages += (buffer.bytesused + page_bytes() - 1) / page_bytes();
		outcome->unwritten += unwritten(&camera->buffers[buffer.index], buffer.bytesused);
	}
	return give(camera, buffer.index);
}

/* Takes the frames. The device writes into the buffers until the end of this function. */
static int capture(struct camera *camera, unsigned frames, const struct colours *colours,
		   struct outcome *outcome)
{
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE, code = 0;

	for (unsigned index = 0; index < BUFFERS && code == 0; index++)
		code = give(camera, index);
	if (code == 0 && call(camera, VIDIOC_STREAMON, &type) != 0)
		code = failed(camera, "end the program that uses the device");
	while (code == 0 && outcome->frames < frames)
		code = frame(camera, colours, outcome);
	(void)call(camera, VIDIOC_STREAMOFF, &type);
	return code;
}

static int report(const struct camera *camera, const struct colours *colours,
		  const struct outcome *outcome)
{
	printf("%u frames, %llu bytes, into %d buffers of %zu pages (%s)\n", outcome->frames,
	       (unsigned long long)outcome->bytes, BUFFERS, camera->buffers[0].bytes / page_bytes(),
	       buffer_place(&camera->buffers[0]));
	printf("%llu pages of frames, %llu not written\n", (unsigned long long)outcome->pages,
	       (unsigned long long)outcome->unwritten);
	if (outcome->damaged)
		printf("%u frames that the device calls damaged were not judged\n",
		       outcome->damaged);
	if (colours->all)
		printf("%llu looks at pages while the device had them, %llu in other colours\n",
		       (unsigned long long)outcome->looks, (unsigned long long)outcome->wrong);
	return outcome->pages == 0 || outcome->unwritten || outcome->wrong ? EXIT_WRONG : EXIT_DONE;
}

int main(int count, char **arguments)
{
	const char *task = count > 2 ? arguments[2] : "video";
	long frames = count > 3 ? number_read(arguments[3], 1000000) : 30;
	struct colours colours = {0};
	struct outcome outcome = {0};
	struct camera camera = {.file = -1};
	int code;

	if (count < 2 || count > 5 || frames < 0 ||
	    (count > 4 && colours_read(&colours, arguments[4]) != 0)) {
		fprintf(stderr, "usage: camera DEVICE [TASK [FRAMES [COLOURS]]]; COLOURS are like "
				"0-7/32\n");
		return EXIT_USAGE;
	}
	camera.name = arguments[1];
	code = open_device(&camera);
	while (code == 0 && camera.taken < BUFFERS) {
		code = buffer_take(&camera.buffers[camera.taken], task, camera.frame_bytes);
		camera.taken += code == 0;
	}
	if (code == 0)
		code = capture(&camera, (unsigned)frames, &colours, &outcome);
	if (code == 0)
		code = report(&camera, &colours, &outcome);
	/* The driver lets go of the pages as the device is closed; the frames go back after that.
	 */
	if (camera.file >= 0)
		close(camera.file);
	while (camera.taken > 0)
		sc_buffer_free(&camera.buffers[--camera.taken]);
	return code;
}
