/* Runs a program on a CPU and measures it from outside, from its start to its end.
 *
 *   took CPU PROGRAM ARGUMENTS...        prints the time in us; its output goes to /dev/null
 *
 * It prints nothing if the program fails.
 */
#include "cpu.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	bind_to(atoi(argv[1]));
	uint64_t begin = now();
	pid_t program = fork();
	if (program < 0)
		return 4;
	if (program == 0) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(5);
		execvp(argv[2], argv + 2);
		_exit(6);
	}
	int status;
	if (waitpid(program, &status, 0) != program)
		return 7;
	uint64_t end = now();
	if (status != 0)
		return 8;
	printf("%.2f\n", (end - begin) / 1e3);
	return 0;
}
