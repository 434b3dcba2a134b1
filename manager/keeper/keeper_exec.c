/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command policy in a keeper, where every client comes through.  The file
 * is looked at before each command, so that a rule counts as soon as it is
 * written; while the file is wrong the last rules stay.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/keeper/keeper_state.h"

/* ---- the command policy ---- */

static int is_same_policy_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static const struct policy *current(struct keeper *k)
{
	const char *path = secure_getenv("BERTH_CONFIG");
	autofree struct config *c = NULL;
	struct policy *fresh;
	struct stat st = { 0 };
	struct err ignored;

	if (stat(path ? path : CONFIG_PATH, &st) < 0)
		st = (struct stat){ 0 };
	if (k->policy && is_same_policy_file(&st, &k->policy_file))
		return k->policy;
	c = malloc(sizeof(*c));
	if (c && config_load(c, &ignored) == 0)
		fresh = policy_new(c->deny, &ignored);
	else
		fresh = k->policy ? NULL : policy_new(k->registry->config->deny, &ignored);
	if (fresh) {
		policy_free(k->policy);
		k->policy = fresh;
	}
	k->policy_file = st;
	return k->policy;
}

int keeper_policy_argv(struct keeper *k, const char *const *argv, size_t argc, struct err *e)
{
	return policy_check_argv(current(k), argv, argc, e);
}

int keeper_policy_text(struct keeper *k, const char *text, size_t n, struct err *e)
{
	return policy_check_text(current(k), text, n, e);
}

/* ---- requests ---- */

/* Turns a request into a command: its descriptors, limits, environment and words. */

#define ARGS_MAX 262144	/* as many arguments of two bytes as the kernel takes with a stack of 8 MiB */
#define ENV_MAX 65536	/* each is looked for among those before it */
#define DEFAULT_TERM "TERM=xterm-256color"

struct strings {
	const char **v;
	size_t n;
};

static int add_string(struct strings *l, const char *s, struct err *e)
{
	const char **v;

	if (l->n >= ARGS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d strings", ARGS_MAX);
	if (!(l->n & (l->n - 1))) {	/* full at each power of two */
		v = reallocarray(l->v, l->n ? 2 * l->n : 1, sizeof(*v));
		if (!v)
			return err_nomem(e);
		l->v = v;
	}
	l->v[l->n++] = s;
	return 0;
}

/* The place of the variable that text (NAME=...) sets; l->n when it is not there. */
static size_t find_variable(const struct strings *l, const char *text)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (!strncmp(l->v[i], text, strcspn(text, "=") + 1))
			break;
	return i;
}

static int add_array(struct strings *l, const json_t *rq, const char *key, int is_env, struct err *e)
{
	json_t *a = json_object_get(rq, key), *s;
	size_t i, at;

	json_array_foreach(a, i, s) {
		const char *text = json_string_value(s);

		if (!text || strlen(text) != json_string_length(s) || (is_env && !strchr(text, '=')))
			return err_set(e, ERR_INVALID, "\"%s\" holds something else than %s", key,
				       is_env ? "NAME=VALUE" : "strings");
		if (is_env && i >= ENV_MAX)
			return err_set(e, ERR_LIMIT, "more than %d variables", ENV_MAX);
		at = is_env ? find_variable(l, text) : l->n;
		if (at < l->n)
			l->v[at] = text;
		else if (add_string(l, text, e) < 0)
			return -1;
	}
	return 0;
}

static int get_limits(const struct keeper *k, const json_t *rq, struct cgroup_limits *l, struct err *e)
{
	const struct cgroup_limits *all = k->limits_changed ? &k->limits : &k->spec->limits;

	*l = (struct cgroup_limits){
		.swap_bytes = CGROUP_UNLIMITED, .oom_group = 1, .memory_bytes = request_memory_bytes(rq, CGROUP_UNLIMITED),
		.cpu_milli = request_cpu_milli(rq, CGROUP_UNLIMITED), .pids = request_pids(rq, CGROUP_UNLIMITED),
	};
	if (l->memory_bytes != CGROUP_UNLIMITED)
		l->swap_bytes = 0;
	/* v1 refuses it without a reason (EINVAL), v2 takes it and gives no more than the sandbox has */
	if (l->cpu_milli != CGROUP_UNLIMITED && l->cpu_milli > all->cpu_milli)
		return err_set(e, ERR_INVALID, "a command cannot have more CPUs than its sandbox, which has %g; hint: berth update --cpus",
			       (double)all->cpu_milli / 1000);
	return 0;
}

static int get_rlimits(const json_t *rq, struct rlimits *r, struct err *e)
{
	json_t *a = request_ulimits(rq), *s;
	struct rlimits one;
	size_t i;
	int j;

	json_array_foreach(a, i, s) {
		memset(&one, 0, sizeof(one));
		if (rlimits_parse(&one, json_string_value(s), e) < 0)
			return -1;
		for (j = 0; j < RLIMITS_COUNT; j++)
			if (one.set & 1u << j)
				r->v[j] = one.v[j];
		r->set |= one.set;
		if (rlimits_fit(r, one.set, e) < 0)
			return -1;
	}
	return 0;
}

int keeper_own_pipes(const struct keeper *k, const int std[3], struct err *e)
{
	int i;

	for (i = 0; i < 3; i++)
		if (fchown(std[i], k->spec->id_base, k->spec->id_base) < 0)
			return err_sys(e, "give a pipe to the sandbox");
	return 0;
}

/* Pipes for a detached command; ours are non-blocking. */
static int make_command_pipes(const struct keeper *k, struct keeper_command *c, int std[3], struct err *e)
{
	int in[2], out[2], err[2] = { -1, -1 };

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	std[0] = in[0];
	c->in_fd = in[1];
	if (pipe2(out, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	c->out_fd[0] = out[0];
	std[1] = out[1];
	if (c->merged ? (err[1] = dup(out[1])) < 0 : pipe2(err, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	c->out_fd[1] = err[0];
	std[2] = err[1];
	if (fcntl(c->in_fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(out[0], F_SETFL, O_NONBLOCK) < 0 ||
	    (!c->merged && fcntl(err[0], F_SETFL, O_NONBLOCK) < 0))
		return err_sys(e, "set up a pipe");
	return keeper_own_pipes(k, std, e);
}

/*
 * Outputs that are pipes are berth's own: a program of berth never hands over its caller's, which it
 * relays (cli/live/relay.c).  A FIFO that has a name is somebody else's.
 */
static int own_output_pipes(const struct keeper *k, const int std[3], struct err *e)
{
	struct statfs fs;
	int i;

	for (i = 1; i < 3; i++)
		if (fstatfs(std[i], &fs) == 0 && fs.f_type == PIPEFS_MAGIC && fchown(std[i], k->spec->id_base, k->spec->id_base) < 0)
			return err_sys(e, "give a pipe to the sandbox");
	return 0;
}

/* The descriptors of the command: the client's own, a terminal, or pipes of ours. */
static int arrange_stdio(struct keeper *k, struct keeper_command *c, int tty, const int *fds, size_t count,
			 int std[3], int *ret_master, struct err *e)
{
	int slave;

	if (tty) {
		if (sandbox_tty(&k->sandbox, ret_master, &slave, e) < 0)
			return -1;
		std[0] = slave;
		std[1] = dup(slave);
		std[2] = dup(slave);
		return 0;
	}
	if (c->detached)
		return make_command_pipes(k, c, std, e);
	if (count != 3)
		return err_set(e, ERR_INVALID, "exec takes three descriptors, not %zu", count);
	for (int i = 0; i < 3; i++)
		std[i] = dup(fds[i]);
	return own_output_pipes(k, std, e);
}

/*
 * A terminal that clients join and leave: the keeper holds its master side and remembers the end
 * of its output.
 */
static int keep_terminal(struct keeper *k, struct keeper_command *c, const json_t *rq, int *master, struct err *e)
{
	c->tty = 1;
	c->out_fd[0] = take_fd(master);
	c->in_fd = fcntl(c->out_fd[0], F_DUPFD_CLOEXEC, 3);
	ring_init(&c->out[0], 0, k->head_max + k->tail_max);
	if (c->in_fd < 0 || fcntl(c->in_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up the terminal");
	return keeper_resize(c->in_fd, rq, e);
}

static char *command_text(const struct strings *argv)
{
	autobuf struct buf b = BUF_INIT(256);
	struct err ignored;
	size_t i;

	for (i = 0; i < argv->n; i++)
		if (buf_addf(&b, &ignored, "%s%.80s", i ? " " : "", argv->v[i]) < 0)
			break;
	return b.data ? strdup(b.data) : NULL;
}

static int launch_command(struct keeper *k, struct keeper_command *c, const struct keeper_request *q, int *ret_master,
			  struct err *e)
{
	struct strings argv = { 0 }, env = { 0 };
	const json_t *rq = q->json;
	const char *user = request_user(rq, k->spec->user), *workdir = request_workdir(rq, k->spec->workdir);
	struct job job = { .rlimits = k->spec->rlimits, .leaf = &c->leaf };
	int std[3] = { -1, -1, -1 }, tty = request_tty(rq), result = -1, i;
	size_t j;

	c->grace_ms = request_grace_ms(rq, k->spec->grace_ms);
	if (get_rlimits(rq, &job.rlimits, e) < 0 || add_array(&argv, rq, "argv", 0, e) < 0)
		goto out;
	/* the rules are for who types: not for what the sandbox was made for, its checks, and other systems' doors */
	if (argv.n && q->client >= 0 && !request_unruled(rq) && keeper_policy_argv(k, argv.v, argv.n, e) < 0)
		goto out;
	for (j = 0; j < k->spec->env_count; j++)
		if (add_string(&env, k->spec->env[j], e) < 0)
			goto out;
	/* the sandbox's own TERM stands: of two, programs differ in the one that they read */
	if (tty && find_variable(&env, DEFAULT_TERM) == env.n && add_string(&env, DEFAULT_TERM, e) < 0)
		goto out;
	if (add_array(&env, rq, "env", 1, e) < 0)
		goto out;
	if (!argv.n || !strchr("/~", workdir[0]) || !workdir[0]) {
		err_set(e, ERR_INVALID, argv.n ? "the working directory must be absolute" : "no command given");
		goto out;
	}
	if (arrange_stdio(k, c, tty, q->fds, q->count, std, ret_master, e) < 0 ||
	    keeper_silence_begin(k, c, tty, std, e) < 0)
		goto out;
	if (tty && c->detached && keep_terminal(k, c, rq, ret_master, e) < 0)
		goto out;
	c->text = command_text(&argv);
	c->workdir = strdup(workdir);
	if (q->client != -1)
		keeper_checkpoint_ran(k, c->text ? c->text : "",
				      c->text ? strlen(c->text) : 0);
	job.argv = argv.v;
	job.argc = argv.n;
	job.env = env.v;
	job.env_count = env.n;
	job.user = user;
	job.workdir = workdir;
	job.flags = INIT_MAKE_CWD | (tty ? INIT_TTY : 0) | (c->silent ? INIT_LATE_START : 0);
	layerguard_look(&k->sandbox.guard);
	result = sandbox_exec(&k->sandbox, c->seq, &job, std, e);
out:
	for (i = 0; i < 3; i++)
		fd_close(&std[i]);
	free(argv.v);
	free(env.v);
	return result;
}

/* A name is one command's as long as it runs. */
static int check_command_name(struct keeper *k, const json_t *rq, const char **ret, struct err *e)
{
	int i;

	*ret = request_name(rq, "");
	if ((*ret)[0] && !path_is_name(*ret))
		return err_set(e, ERR_INVALID, "name '%.40s' is malformed; hint: a-z 0-9 _ . -", *ret);
	for (i = 0; (*ret)[0] && i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && !k->commands[i]->ended && !strcmp(k->commands[i]->name, *ret))
			return err_set(e, ERR_EXISTS, "command c%u is named %s already", k->commands[i]->seq, *ret);
	return 0;
}

uint64_t keeper_timeout(const struct keeper *k, int is_text)
{
	return is_text || k->spec->timeout_given ? k->spec->timeout_ms : 0;
}

int keeper_op_exec(struct keeper *k, const struct keeper_request *q, struct err *e)
{
	const json_t *rq = q->json;
	struct cgroup_limits limits;
	struct keeper_command *c;
	const uint64_t timeout_ms = request_timeout_ms(rq, keeper_timeout(k, request_is_text(rq)));
	autoclose int master = -1;
	const char *name;
	json_t *answer;

	if (get_limits(k, rq, &limits, e) < 0 || check_command_name(k, rq, &name, e) < 0)
		return -1;
	c = keeper_command_new(k, q->client == -1, &limits, e);
	if (!c)
		return -1;
	c->detached = request_detach(rq);
	c->held_until_ms = c->detached && request_hold(rq) ? clock_ms() + KEEPER_AWAITED_MS : 0;
	c->silent = request_silent(rq) && !c->detached;
	c->wait_children = request_wait_children(rq);
	c->merged = c->detached && request_merge(rq);
	c->client = q->client < 0 ? -1 : q->client;
	c->max_silent_ms = keeper_silence_limit(k, rq);
	snprintf(c->name, sizeof(c->name), "%s", name);
	if (launch_command(k, c, q, &master, e) < 0) {
		keeper_command_remove(k, c);
		return -1;
	}
	c->started_ms = c->spoke_ms = clock_ms();
	keeper_network_begin(k, &c->facts);
	if (timeout_ms)
		c->deadline_ms = c->started_ms + timeout_ms;
	if (master >= 0) {
		/* the terminal goes straight to the client: no proxy in the data path */
		answer = json_pack("{s:b,s:I}", "terminal", 1, "max_silent_ms",
				   (json_int_t)c->max_silent_ms);
		keeper_answer(k, q->client, answer, &master, 1);
	}
	return 0;
}
