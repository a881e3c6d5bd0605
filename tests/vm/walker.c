/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that may run on one CPU only, and is in the midst of the kernel's work most of the
 * time.
 *
 *   walker CPU
 *
 * It looks for a file with a long path: the kernel walks along it in a section that reads by RCU,
 * and a task that waits there keeps others waiting. The kernel lets a task whose CPU goes offline
 * run elsewhere, so it binds itself again and again.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

int main(int arguments, char **argument)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(arguments > 1 ? atoi(argument[1]) : 0, &only);
	for (;;) {
		sched_setaffinity(0, sizeof(only), &only);
		for (int looked = 0; looked < 100; looked++)
			access("/sys/devices/system/cpu/cpu0/../cpu0/../cpu0/../cpu0/../cpu0/../"
			       "cpu0/uevent",
			       F_OK);
	}
}
