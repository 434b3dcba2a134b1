/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oldkernel - runs a command as if on a kernel without some system calls
 *
 *   oldkernel CALL[,CALL...] COMMAND [ARG...]
 *
 * Each CALL answers ENOSYS to the command and all that it starts.  "optional" stands for
 * those that berth says it does without.  Compiled with ALWAYS, the path of a program, it runs that without the
 * optional ones, and its words are all for that.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct call {
	const char *name;
	unsigned nr;
	int optional;
} calls[] = {
	{ "clone3", 435, 0 },
	{ "close_range", 436, 0 },
	{ "openat2", 437, 0 },
	{ "open_tree", 428, 0 },
	{ "move_mount", 429, 0 },
	{ "fsopen", 430, 0 },
	{ "fsconfig", 431, 0 },
	{ "fsmount", 432, 0 },
	{ "mount_setattr", 442, 0 },
	{ "memfd_create", 319, 0 },
	{ "execveat", 322, 0 },
	{ "fspick", 433, 1 },
	{ "statx", 332, 1 },
	{ "copy_file_range", 326, 1 },
	{ "preadv2", 327, 1 },
	{ "pidfd_send_signal", 424, 1 },
	{ "pidfd_open", 434, 1 },
	{ "pidfd_getfd", 438, 1 },
	{ "faccessat2", 439, 1 },
	{ "epoll_pwait2", 441, 1 },
	{ "quotactl_fd", 443, 1 },
	{ "landlock_create_ruleset", 444, 1 },
	{ "process_mrelease", 448, 1 },
	{ "fchmodat2", 452, 1 },
	{ "statmount", 457, 1 },
	{ "listmount", 458, 1 },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static int wanted(const struct call *c, const char *list)
{
	const char *group = c->optional ? "optional" : "required";
	size_t n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if ((n == strlen(c->name) && !memcmp(list, c->name, n)) || (n == strlen(group) && !memcmp(list, group, n)))
			return 1;
	}
	return 0;
}

/* Only when it cannot. */
static int run(const char *hide, const char *program_path, char **argv)
{
	struct sock_filter filter[4 + 2 * CALLS];
	struct sock_fprog program = { .filter = filter };
	unsigned short n = 0;
	size_t hidden = 0;

	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < CALLS; i++) {
		if (!wanted(&calls[i], hide))
			continue;
		hidden++;
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].nr, 0, 1);
		filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
	}
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	if (!hidden) {
		fprintf(stderr, "oldkernel: %s: no such call in the list\n", hide);
		return 2;
	}
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) {
		perror("oldkernel: seccomp");
		return 125;
	}
	execvp(program_path, argv);
	perror("oldkernel: exec");
	return 127;
}

int main(int argc, char **argv)
{
#ifdef ALWAYS
	(void)argc;
	return run("optional", ALWAYS, argv);
#else
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (size_t i = 0; i < CALLS; i++)
			printf("%s %s\n", calls[i].name, calls[i].optional ? "optional" : "required");
		return 0;
	}
	if (argc < 3) {
		fputs("usage: oldkernel CALL[,CALL...]|optional|required COMMAND [ARG...], oldkernel --list\n", stderr);
		return 2;
	}
	return run(argv[1], argv[2], argv + 2);
#endif
}
