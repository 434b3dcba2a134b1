/* SPDX-License-Identifier: Apache-2.0 */
/* docker cp and export. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/docker/verbs.h"
#include "manager/host/record.h"
#include "manager/keeper/fileclient.h"

/* "CONTAINER:PATH": its colon, where no slash or dot says that it is a path of ours. */
static const char *colon_of(const char *text)
{
	const char *colon = strchr(text, ':');

	return text[0] == '/' || text[0] == '.' || !colon ||
			       (strchr(text, '/') && strchr(text, '/') < colon) ?
		       NULL :
		       colon;
}

/* berth cp, and which container it is for. */
struct copying {
	struct command command; /* first: cp_failed() gets this */
	struct sandbox_ref s;
	const char *name;
	const char *source, *dest; /* as they were given */
};

/* As berth cp takes it: its id for its name, and a path from the root; to be freed. */
static char *settle_copy_side(struct copying *c, const char *text, struct err *e)
{
	const char *colon = colon_of(text);
	autofree char *name = colon ? strndup(text, (size_t)(colon - text)) : NULL;
	char *made = NULL;

	if (!colon)
		return strdup(text);
	if (door_find(&c->s, name ? name : "", e) < 0)
		return NULL;
	c->name = text;
	if (asprintf(&made, "%s:%s%s", c->s.id, colon[1] == '/' ? "" : "/", colon + 1) >= 0)
		return made;
	err_nomem(e);
	return NULL;
}

/* What docker says of a copy that met what is there already, or no directory; 0 if it is neither. */
static int explain_place(const struct copying *c, const struct err *why, struct err *e)
{
	const size_t n = strlen(c->dest);
	const int local = !colon_of(c->dest), found = local ? access(c->dest, F_OK) == 0 : access(c->source, F_OK) != 0;

	if (strstr(why->msg, strerror(EROFS)))
		return err_set(e, ERR_DENIED, "%.200s: container rootfs or mounted volume is marked read-only", c->dest);
	if (why->code == ERR_EXISTS && strstr(why->msg, "is not a directory"))
		return err_set(e, ERR_EXISTS, "cannot copy directory: %.400s", why->msg);
	if (why->code == ERR_NOT_FOUND && n && c->dest[n - 1] == '/' && !found)
		return err_set(e, ERR_NOT_FOUND, "no such directory: %.400s", c->dest);
	return 0;
}

static int cp_failed(const struct command *self, const struct err *why)
{
	struct copying *c = (struct copying *)(size_t)self;
	const char *colon = c->name ? colon_of(c->name) : NULL;
	autofree char *name = colon ? strndup(c->name, (size_t)(colon - c->name)) : NULL;
	struct err e = *why;

	if (name && record_is_gone(&c->s.registry, c->s.id))
		engine_container_explain(&c->s.registry, c->s.id, name, &e);
	/* started again since: it is neither gone nor kept */
	else if (why->code == ERR_NOT_FOUND && why->os_errno == ESRCH)
		engine_not_running(c->s.id, &e);
	else if (explain_place(c, why, &e) < 0 || why->code != ERR_NOT_FOUND)
		return door_error(&e);
	else if (name && c->name == c->source)
		err_set(&e, ERR_NOT_FOUND, "Could not find the file %.200s in container %.200s", colon + 1, name);
	else
		err_set(&e, ERR_NOT_FOUND, "Could not find the file %.400s", why->msg);
	return door_error(&e);
}

static int copy_by_berth_cp(struct copying *c, const struct door_args *a, struct err *e)
{
	autofree char *from = settle_copy_side(c, a->words[0], e),
		      *to = from ? settle_copy_side(c, a->words[1], e) : NULL;
	const char *argv[8] = { "cp", "--quiet" };
	int n = 2;

	c->source = a->words[0];
	c->dest = a->words[1];
	if (!from || !to)
		return -1;
	if (!colon_of(a->words[0]) == !colon_of(a->words[1]))
		return err_set(e, ERR_INVALID, "Error: %s",
			       colon_of(a->words[0]) ?
				       "copying between containers is not supported" :
				       "must specify at least one container source");
	if (door_on(a, "follow-link"))
		argv[n++] = "--follow-link";
	if (door_on(a, "archive"))
		argv[n++] = "--archive";
	argv[n++] = "--";
	argv[n++] = from;
	argv[n++] = to;
	return cmd_cp.run(&c->command, n, (char **)(size_t)argv);
}

static int docker_cp_main(const struct command *self, int argc, char **argv)
{
	struct copying c = { .command = cmd_cp };
	struct door_args a;
	struct err e;
	int status;

	c.command.fail = cp_failed;
	sandbox_ref_init(&c.s);
	if (!door_parse(&a, self, argc, argv, 2, 2)) {
		status = a.status;
	} else {
		status = copy_by_berth_cp(&c, &a, &e);
		status = status < 0 ? door_error(&e) : status;
	}
	sandbox_ref_close(&c.s);
	door_release(&a);
	return status;
}

static const struct opt cp_options[] = {
	{ "archive", 'a', OPT_FLAG, NULL, "Archive mode (copy all uid/gid information)",
	  DOOR_TAKEN },
	{ "follow-link", 'L', OPT_FLAG, NULL, "Always follow symbol link in SRC_PATH", DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Suppress progress output during copy", DOOR_IGNORED },
};

const struct command door_cp = {
	.name = "cp",
	.args = "[OPTIONS] CONTAINER:SRC_PATH DEST_PATH|-, or SRC_PATH|- CONTAINER:DEST_PATH",
	.summary = "Copy files/folders between a container and the local filesystem",
	.opts = cp_options,
	.opt_count = ARRAY_LEN(cp_options),
	.complete = COMPLETE_FILE,
	.run = docker_cp_main,
};

/* ---- export ---------------------------------------------------------------------------------- */

/* One mount only: volumes, /proc, /sys and /dev are empty directories in it. */
static int export_root_tree(const struct door_args *a, int to, struct err *e)
{
	static const char *const argv[] = { "pack", "xb", "/.", NULL };
	struct filecounts unused;
	struct sandbox_ref s;
	struct fileclient f;
	int r;

	sandbox_ref_init(&s);
	r = door_find(&s, a->words[0], e);
	if (r == 0)
		r = sandbox_ref_connect_files(&s, s.id, 0, e);
	if (r == 0)
		r = fileclient_start(&f, s.sock, argv, NULL, 0, -1, to, e);
	if (r == 0)
		r = fileclient_end(&f, &unused, e);
	sandbox_ref_close(&s);
	return r;
}

static int export_main(const struct command *self, int argc, char **argv)
{
	autoclose int fd = -1;
	struct door_args a;
	struct err e;
	int status = 0;
	const char *to;

	if (!door_parse(&a, self, argc, argv, 1, 1)) {
		status = a.status;
	} else {
		to = door_value(&a, "output");
		if (to)
			fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
		if (to && fd < 0)
			status = door_say(1, "open %.300s: it cannot be written", to);
		else if (!to && isatty(STDOUT_FILENO))
			status = door_say(1, "cowardly refusing to save to a terminal. Use the -o "
					     "flag or redirect");
		else if (export_root_tree(&a, to ? fd : STDOUT_FILENO, &e) < 0)
			status = door_error(&e);
	}
	door_release(&a);
	return status;
}

static const struct opt export_options[] = {
	{ "output", 'o', OPT_VALUE, "string", "Write to a file, instead of STDOUT", DOOR_TAKEN,
	  COMPLETE_FILE },
};

const struct command door_export = {
	.name = "export",
	.args = "[OPTIONS] CONTAINER",
	.summary = "Export a container's filesystem as a tar archive",
	.opts = export_options,
	.opt_count = ARRAY_LEN(export_options),
	.complete = COMPLETE_SANDBOX,
	.run = export_main,
};
