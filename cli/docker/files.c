/* SPDX-License-Identifier: Apache-2.0 */
/* docker cp and export. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/docker/verbs.h"
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

/* As berth cp takes it: its id for its name, and a path from the root; to be freed. */
static char *settle(const char *text, struct err *e)
{
	const char *colon = colon_of(text);
	autofree char *name = colon ? strndup(text, (size_t)(colon - text)) : NULL;
	struct sandbox_ref s;
	char *made = NULL;
	int r;

	if (!colon)
		return strdup(text);
	sandbox_ref_init(&s);
	r = door_find(&s, name ? name : "", e);
	if (r == 0 && asprintf(&made, "%s:%s%s", s.id, colon[1] == '/' ? "" : "/", colon + 1) < 0) {
		made = NULL;
		err_nomem(e);
	}
	sandbox_ref_close(&s);
	return made;
}

static int cp_failed(const struct command *self, const struct err *why)
{
	struct err e = *why;

	(void)self;
	if (why->code == ERR_NOT_FOUND)
		err_set(&e, ERR_NOT_FOUND, "Could not find the file %.400s", why->msg);
	return door_error(&e);
}

static int copy(const struct door_args *a, struct err *e)
{
	autofree char *from = settle(a->words[0], e), *to = from ? settle(a->words[1], e) : NULL;
	const char *argv[8] = { "cp", "--quiet" };
	struct command cp = cmd_cp;
	int n = 2;

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
	cp.fail = cp_failed;
	return cp.run(&cp, n, (char **)(size_t)argv);
}

static int cp_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	struct err e;
	int status;

	if (!door_parse(&a, self, argc, argv, 2, 2)) {
		status = a.status;
	} else {
		status = copy(&a, &e);
		status = status < 0 ? door_error(&e) : status;
	}
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
	.run = cp_main,
};

/* ---- export ---------------------------------------------------------------------------------- */

/* One mount only: volumes, /proc, /sys and /dev are empty directories in it. */
static int export(const struct door_args *a, int to, struct err *e)
{
	static const char *const argv[] = { "pack", "x", "/.", NULL };
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
		else if (export(&a, to ? fd : STDOUT_FILENO, &e) < 0)
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
