/* SPDX-License-Identifier: Apache-2.0 */
/* berth-image as a child of berth commit and berth checkpoint export and import. */
#include "cli/image/imagechild.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/run/imageprog.h"
#include "runtime/sandbox/spec.h"

struct child {
	const struct command *self;
	int json;
	char **argv;
	const int *fds;
	size_t count;
	int out_fd;
	pid_t parent;
};

static void become_berth_image(const struct child *c) __attribute__((noreturn));
static void become_berth_image(const struct child *c)
{
	struct err e = { 0 };
	size_t i;

	/* if we are killed, a sandbox that stood still goes on: nobody may read it any more */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		err_sys(&e, "end berth-image with us");
	else if (c->out_fd >= 0 && dup2(c->out_fd, STDOUT_FILENO) < 0)
		err_sys(&e, "take what berth-image tells");
	if (e.code != ERR_NONE || getppid() != c->parent)
		_exit(command_fail(c->self, &e, c->json));
	for (i = 0; i < c->count; i++)
		fcntl(c->fds[i], F_SETFD, 0);
	imageprog_exec(c->argv, &e);
	_exit(command_fail(c->self, &e, c->json));
}

int imagechild_run(const struct command *self, int json, char **argv, const int *fds, size_t n,
		   int out_fd, int *ret_status, struct err *e)
{
	const struct child c = { self, json, argv, fds, n, out_fd, getpid() };
	int status;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (!pid)
		become_berth_image(&c);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for berth-image");
	if (!WIFEXITED(status))
		return err_set(e, ERR_INTERNAL, "berth-image was killed by signal %d",
			       WTERMSIG(status));
	*ret_status = WEXITSTATUS(status);
	return 0;
}

/* ---- the layer that it reads ---- */

int layersource_open(int dir_fd, const char *word, struct layersource *ret, struct err *e)
{
	struct layersource l = LAYERSOURCE_NONE;
	autobuf struct buf range = BUF_INIT(32);
	uint64_t base;

	if (io_read_file(dir_fd, "range", &range, e) < 0 || buf_add(&range, "", 1, e) < 0 ||
	    num_u64(range.data, "range", SPEC_IDS, UINT32_MAX, &base, e) < 0)
		return err_wrap(e, "the ids of the sandbox");
	l.id_base = (uint32_t)base;
	l.base_fd = checkpoint_mount(dir_fd, word, l.id, e);
	if (l.base_fd < 0)
		return -1;
	l.upper_fd = openat(l.base_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l.upper_fd < 0) {
		err_sys(e, "open the layer of the checkpoint");
		layersource_close(&l);
		return -1;
	}
	*ret = l;
	return 0;
}

void layersource_close(struct layersource *l)
{
	fd_close(&l->upper_fd);
	fd_close(&l->base_fd);
}

/* An option of its creation; the last one counts. */
void layersource_workdir(struct sandbox_ref *s, char *out, size_t n)
{
	struct err ignored;
	autojson json_t *spec = registry_load(&s->registry, s->id, "spec.json", &ignored);
	json_t *pair;
	size_t i;

	snprintf(out, n, "%s", s->config.work_dir);
	json_array_foreach (json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (name && value && !strcmp(name, "workdir"))
			snprintf(out, n, "%s", value);
	}
}
