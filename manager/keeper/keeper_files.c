/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a keeper on files.
 *
 * "file" runs our helper (runtime/fileop) in the sandbox as an ordinary
 * command, from a memfd: it has its cgroup, deadline, verdict, and ends with its
 * client like any other.  "layers" hands out the directories that berth diff
 * compares, which it reads without following anything.
 *
 * A keeper for files only (for_files) makes this possible while the sandbox does not run: it has
 * the sandbox's layer, mounts, ids and limits, but no network, no main command and no record
 * among those that run.  So everybody sees the sandbox as one that is stopped.  It ends with its
 * last client.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_state.h"

#define FILE_ARGS_MAX 4096
#define CLIENT_COMES_MS 10000	/* time for a client to come, after such a keeper was made */

static int take_args(const json_t *rq, const char ***ret, size_t *ret_n, struct err *e)
{
	json_t *a = request_argv(rq), *s;
	const char **v;
	size_t i;

	if (!json_array_size(a) || json_array_size(a) > FILE_ARGS_MAX)
		return err_set(e, ERR_LIMIT, "a file operation takes 1 to %d arguments", FILE_ARGS_MAX);
	v = calloc(json_array_size(a) + 2, sizeof(*v));
	if (!v)
		return err_nomem(e);
	v[0] = "berth-fileop";
	json_array_foreach(a, i, s) {
		const char *text = json_string_value(s);

		if (!text || strlen(text) != json_string_length(s)) {
			free(v);
			return err_set(e, ERR_INVALID, "\"argv\" holds something else than strings");
		}
		v[i + 1] = text;
	}
	*ret = v;
	*ret_n = i + 1;
	return 0;
}

static int launch_helper(struct keeper *k, struct keeper_command *c, const struct keeper_request *rq, struct err *e)
{
	static const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C" };
	struct job job = {
		.env = env, .env_count = ARRAY_LEN(env), .user = request_user(rq->json, ""), .workdir = k->spec->workdir, .rlimits = k->spec->rlimits,
		.flags = INIT_MAKE_CWD | INIT_EXEC_FD, .leaf = &c->leaf,
	};
	const char **argv = NULL;
	int r;

	if (k->fileop_fd < 0)
		k->fileop_fd = sandbox_file_program(e);
	if (k->fileop_fd < 0 || take_args(rq->json, &argv, &job.argc, e) < 0)
		return -1;
	job.program_fd = k->fileop_fd;
	job.argv = argv;
	keeper_checkpoint_ran(k, k->checkpoint.last, strlen(k->checkpoint.last));
	c->text = strdup(job.argc > 1 ? argv[1] : "file");
	layerguard_look(&k->sandbox.guard);
	r = sandbox_exec(&k->sandbox, c->seq, &job, rq->fds, e);
	free(argv);
	return r;
}

int keeper_op_file(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct cgroup_limits limits = {
		.memory_bytes = CGROUP_UNLIMITED, .swap_bytes = CGROUP_UNLIMITED, .cpu_milli = CGROUP_UNLIMITED,
		.pids = CGROUP_UNLIMITED, .oom_group = 1,
	};
	struct keeper_command *c;
	const uint64_t timeout_ms = request_timeout_ms(rq->json, 0);

	if (rq->count != 3)
		return err_set(e, ERR_INVALID, "a file operation takes three descriptors, not %zu", rq->count);
	c = keeper_command_new(k, 0, &limits, e);
	if (!c)
		return -1;
	c->client = rq->client;
	c->helper = 1;
	c->grace_ms = KEEPER_HELPER_GRACE_MS;
	if (launch_helper(k, c, rq, e) < 0) {
		keeper_command_remove(k, c);
		return -1;
	}
	c->started_ms = clock_ms();
	if (timeout_ms)
		c->deadline_ms = c->started_ms + timeout_ms;
	return 0;
}

/* Index 0 is what the sandbox wrote; 1 to count the image's layers, the top one first. */
int keeper_op_layers(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const struct spec *s = k->spec;
	const uint64_t index = request_index(rq->json, 0);
	autoclose int fd = -1;

	if (index > s->layer_count)
		return err_set(e, ERR_INVALID, "layer %llu of %zu", (unsigned long long)index, s->layer_count);
	if (index)
		fd = openat(s->layer_fd[s->layer_count - index], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	else
		fd = openat(k->sandbox.base_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open layer %llu", (unsigned long long)index);
	keeper_answer(k, rq->client, json_pack("{s:i,s:s,s:I}", "count", (int)s->layer_count, "workdir", s->workdir, "id_base",
					   (json_int_t)s->id_base), &fd, 1);
	return 0;
}

int keeper_files_allows(const struct keeper *k, enum protocol_op op, struct err *e)
{
	if (!k->for_files || op == OP_file || op == OP_ping || op == OP_layers)
		return 0;
	return err_set(e, ERR_BUSY, "sandbox %s does not run, and its files are in use; hint: "
		       "try again", k->claim.id);
}

int keeper_files_left(struct keeper *k, int i)
{
	int j;

	if (!k->for_files)
		return 0;
	for (j = 0; j < KEEPER_CLIENTS; j++)
		if (j != i && k->clients[j].fd >= 0)
			return 0;
	k->stopping = 1;
	return 1;
}

static uint64_t files_next(struct keeper *k)
{
	return k->for_files ? k->files_until_ms : 0;
}

static void files_check(struct keeper *k, uint64_t now)
{
	int i;

	if (!files_next(k))
		return;
	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0)
			k->files_until_ms = 0;
	if (k->files_until_ms && now >= k->files_until_ms)
		k->stopping = 1;
}

void keeper_files_begin(struct keeper *k)
{
	k->for_files = 1;
	k->files_until_ms = clock_ms() + CLIENT_COMES_MS;
}

const struct keeper_part keeper_part_files = { .next = files_next, .check = files_check };
