/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-image - the program behind `berth image`, for the less frequent commands on images.
 *
 * The table of commands below feeds dispatch and help. All work is in rootfs/; imagecmd_*.c only
 * turn words into calls and results into text.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "cli/foreign.h"
#include "cli/image/imagecmd.h"
#include "rootfs/store/image.h"

static const struct imagecmd *const commands[] = {
	&imagecmd_import,
	&imagecmd_bootstrap,
	&imagecmd_export,
	&imagecmd_save,
	&imagecmd_load,
	&imagecmd_ls,
	&imagecmd_inspect,
	&imagecmd_history,
	&imagecmd_tag,
	&imagecmd_rm,
	&imagecmd_prune,
	&imagecmd_pin,
	&imagecmd_unpin,
	&imagecmd_df,
	&imagecmd_gc,
	&imagecmd_fsck,
	&imagecmd_copy,
	/* of berth itself */
	&imagecmd_pull,
	&imagecmd_push,
	&imagecmd_login,
	&imagecmd_logout,
	&imagecmd_ensure,
	&imagecmd_commit,
	&imagecmd_pack_layer,
	&imagecmd_unpack_layer,
};

static void print_imagecmd_help(const struct imagecmd *c)
{
	size_t i;

	if (c) {
		printf("Usage: %s %s [options]%s%s\n\n%c%s.\n", imagecmd_program(c), c->name, *c->args ? " " : "", c->args,
		       c->summary[0] - 'a' + 'A', c->summary + 1);
		if (c->detail)
			printf("\n%s", c->detail);
		imagecmd_print_options(c);
		return;
	}
	printf("Usage: berth image COMMAND [options] [arguments]\n\nKeeps the images that sandboxes start from.\n\nCommands:\n");
	for (i = 0; i < ARRAY_LEN(commands); i++)
		if (!commands[i]->hidden && !commands[i]->top)
			printf("  %-16s  %s\n", commands[i]->name, commands[i]->summary);
	printf("\n'berth image COMMAND --help' lists the options of a command.\n");
}

/* ---- the program ---- */

static int fail_imagecmd(const struct imagecmd *c, const struct err *e, int as_json)
{
	char prog[40];

	if (as_json) {
		char clean[sizeof(e->msg) + 8];
		autojson json_t *j = NULL;
		autofree char *text = NULL;

		log_clean(clean, sizeof(clean), e->msg, 0);
		j = json_pack("{s:{s:s, s:s, s:i}}", "error", "code", err_name(e->code), "message", clean,
			      "exit_status", err_exit_status(e->code));
		text = j ? json_dumps(j, JSON_COMPACT) : NULL;
		fflush(stdout);
		fprintf(stderr, "%s\n", text ? text : "{\"error\":{\"code\":\"internal\"}}");
		return err_exit_status(e->code);
	}
	fflush(stdout);
	snprintf(prog, sizeof(prog), "%s%s%s", imagecmd_program(c), c ? " " : "", c ? c->name : "");
	log_error(prog, e);
	return err_exit_status(e->code);
}

static const struct imagecmd *find_imagecmd(const char *word, struct err *e)
{
	struct suggest s = SUGGEST_INIT(word);
	size_t i;

	for (i = 0; i < ARRAY_LEN(commands); i++) {
		if (!strcmp(commands[i]->name, word))
			return commands[i];
		if (!commands[i]->hidden)
			suggest_offer(&s, commands[i]->name);
	}
	err_set(e, ERR_USAGE, "unknown command '%.60s'", word);
	if (!strcmp(word, "commit")) {
		err_hint(e, "berth commit SANDBOX NAME makes an image of what a sandbox changed");
		return NULL;
	}
	if (foreign_command(word))
		err_hint(e, "%s", foreign_command(word));
	else if (s.best)
		err_hint(e, "did you mean '%s'?", s.best);
	else
		err_hint(e, "berth image --help lists the commands");
	return NULL;
}

static int open_imagecmd_store(const struct imagecmd_args *a, struct err *e)
{
	const char *state = secure_getenv("BERTH_STATE_DIR");
	const char *store = imagecmd_value(a, IMG_STORE);
	char path[4096];

	snprintf(path, sizeof(path), "%s", STORE_DEFAULT_PATH);
	if (store)
		snprintf(path, sizeof(path), "%s", store);
	else if (state && *state)
		snprintf(path, sizeof(path), "%.4000s/store", state);
	if (geteuid())
		return err_set(e, ERR_DENIED, "images are kept by root; hint: sudo berth image ...");
	return store_open(path, e);
}

static int execute_imagecmd(const struct imagecmd *c, struct imagecmd_args *a, struct err *e)
{
	autoclose int store_fd = c->no_store ? -1 : open_imagecmd_store(a, e);

	if ((store_fd < 0 && !c->no_store) || c->run(store_fd, a, e) < 0)
		return -1;
	if (fflush(stdout) || ferror(stdout))
		return err_sys(e, "write to standard output");
	return 0;
}

/* A file opened later must never become descriptor 0, 1 or 2. */
static int make_sane(struct err *e)
{
	int fd;

	for (fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return err_sys(e, "open /dev/null as descriptor %d", fd);
	umask(077);
	/* a child that ended early is an error we report, not our death */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	return 0;
}

/* --store and --json may also stand before the command.  Returns the index of the command. */
static int leading_options(int argc, char **argv, struct imagecmd_args *a, struct err *e)
{
	int i, r = 0;

	for (i = 1; i < argc && r == 0 && argv[i][0] == '-' && argv[i][1]; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			a->help = 1;
		else if (!strcmp(argv[i], "--json"))
			r = imagecmd_add(a, IMG_JSON, NULL, e);
		else if (!strncmp(argv[i], "--store=", 8))
			r = imagecmd_add(a, IMG_STORE, argv[i] + 8, e);
		else if (!strcmp(argv[i], "--store") && i + 1 < argc)
			r = imagecmd_add(a, IMG_STORE, argv[++i], e);
		else
			r = err_set(e, ERR_USAGE, "unknown option %.60s; hint: berth image --help", argv[i]);
	}
	return r < 0 ? -1 : i;
}

static int image_main(int argc, char **argv, struct imagecmd_args *a)
{
	const struct imagecmd *c = NULL;
	struct err e = { 0 };
	int at, as_json = 0, i;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i++)
		as_json |= !strcmp(argv[i], "--json");
	if (make_sane(&e) < 0)
		return fail_imagecmd(NULL, &e, as_json);
	at = leading_options(argc, argv, a, &e);
	if (at < 0)
		return fail_imagecmd(NULL, &e, as_json);
	if (a->help || (at < argc && !strcmp(argv[at], "help"))) {
		print_imagecmd_help(at + 1 < argc && !a->help ? find_imagecmd(argv[at + 1], &e) : NULL);
		return e.code ? fail_imagecmd(NULL, &e, as_json) : 0;
	}
	if (at == argc) {
		err_set(&e, ERR_USAGE, "no command given; hint: berth image --help lists them");
		return fail_imagecmd(NULL, &e, as_json);
	}
	c = find_imagecmd(argv[at], &e);
	if (!c || imagecmd_parse(c, argc - at, argv + at, a, &e) < 0)
		return fail_imagecmd(c, &e, as_json);
	if (a->help) {
		print_imagecmd_help(c);
		return 0;
	}
	return execute_imagecmd(c, a, &e) < 0 ? fail_imagecmd(c, &e, as_json) : 0;
}

int main(int argc, char **argv)
{
	struct imagecmd_args a = { 0 };
	int status = image_main(argc, argv, &a);

	imagecmd_release(&a);
	return status;
}
