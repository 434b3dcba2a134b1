/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs that are other programs' work: compose is its plug-in's, which speaks with berthd's socket;
 * building is an engine's; contexts name engines, of which there is one here.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/build.h"
#include "manager/host/conf.h"

/* ---- compose --------------------------------------------------------------------------------- */

static const char *const plugin_dirs[] = {
	"/usr/local/lib/docker/cli-plugins",
	"/usr/local/libexec/docker/cli-plugins",
	"/usr/lib/docker/cli-plugins",
	"/usr/libexec/docker/cli-plugins",
};

int door_is_own_socket(const char *host)
{
	autofree struct conf *conf = calloc(1, sizeof(*conf));
	struct stat a, b;
	struct config c;
	struct err e;

	return conf && !strncmp(host, "unix://", 7) && config_load(&c, &e) == 0 && conf_load(conf, &c, &e) == 0 && conf->docker_socket[0] &&
	       !stat(host + 7, &a) && !stat(conf->docker_socket, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * Where the client's own engine listens: DOCKER_HOST, else [docker] socket of berth.toml.  That engine
 * serves no BuildKit, which compose would take before its classic builder, asked for or not.
 */
static int set_host(struct err *e)
{
	autofree struct conf *conf = calloc(1, sizeof(*conf));
	char url[sizeof(conf->docker_socket) + 8];
	const char *host = getenv("DOCKER_HOST");
	struct config c;

	if (!conf || setenv("DOCKER_BUILDKIT", "0", 1) < 0)
		return err_nomem(e);
	if (host && host[0]) /* one of ours: berth-docker refuses the others */
		return 0;
	if (config_load(&c, e) < 0 || conf_load(conf, &c, e) < 0)
		return -1;
	if (!conf->docker_socket[0] || access(conf->docker_socket, F_OK) < 0)
		return err_set(e, ERR_NOT_FOUND,
			       "compose speaks with an engine over a socket, "
			       "and none is there; hint: [docker] socket in berth.toml, and "
			       "start berthd");
	snprintf(url, sizeof(url), "unix://%s", conf->docker_socket);
	return setenv("DOCKER_HOST", url, 1) < 0 ? err_nomem(e) : 0;
}

/* Becomes the plug-in in a folder of plug-ins, unless it is not there. */
static void become_plugin(const char *dir, const char *below, char **words)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.3900s%s/docker-compose", dir, below);
	execv(path, words);
}

/*
 * The plug-in of version 2 is handed its own name as the first word; that of 1 is a program.  A
 * plug-in that docker starts finds docker's own name in the variable, else it takes "compose" for
 * a word of its user.
 */
static int become_compose(int argc, char **argv, struct err *e)
{
	autofree char **words = calloc((size_t)argc + 2, sizeof(*words));
	const char *home = getenv("HOME"), *config = getenv("DOCKER_CONFIG");
	static char plugin[] = "docker-compose", verb[] = "compose";
	size_t i;

	if (!words || setenv("DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND", "docker", 1) < 0)
		return err_nomem(e);
	words[0] = plugin;
	words[1] = verb;
	memcpy(words + 2, argv + 1, (size_t)argc * sizeof(*words)); /* with its NULL */
	fflush(stdout);
	if (config && config[0] == '/')
		become_plugin(config, "/cli-plugins", words);
	else if (home && home[0] == '/')
		become_plugin(home, "/.docker/cli-plugins", words);
	for (i = 0; i < ARRAY_LEN(plugin_dirs); i++)
		become_plugin(plugin_dirs[i], "", words);
	unsetenv("DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND");
	words[1] = plugin;
	execvp(plugin, words + 1);
	return err_set(e, ERR_NOT_FOUND,
		       "docker: 'compose' is not a docker command: neither the "
		       "plug-in nor docker-compose is installed; hint: apt install docker-compose");
}

static int compose_main(const struct command *self, int argc, char **argv)
{
	struct err e;

	(void)self;
	/* what it is needs no engine */
	if ((argc > 1 && (!strcmp(argv[1], "version") || !strcmp(argv[1], "config"))) ||
	    set_host(&e) == 0)
		become_compose(argc, argv, &e);
	return door_say(1, "%s", e.msg);
}

const struct command door_compose = {
	.name = "compose",
	.args = "[OPTIONS] COMMAND",
	.summary = "Docker Compose, by its plug-in over berthd's socket",
	.run = compose_main,
};

/* ---- build ----------------------------------------------------------------------------------- */

#define BUILD_WORDS_MAX 500
#define BUILD_WORDS_SPARE 40 /* for the options that come once */

/* Where berth has no build of its own it says what has. */
static int cannot(const struct command *self)
{
	return door_say(1,
			"docker %s: images are not built here: buildah build --runtime berth-oci "
			"makes one, and docker load takes it",
			self->name);
}

/* option: "--NAME", of docker's command line and of berth's. */
static size_t add_build_list(const struct door_args *a, const char *option, const char **argv, size_t n)
{
	const json_t *one;
	size_t i;

	if (!n)
		return 0;
	json_array_foreach ((json_t *)(size_t)door_list(a, option + 2), i, one) {
		if (n + BUILD_WORDS_SPARE > BUILD_WORDS_MAX)
			return 0;
		argv[n++] = option;
		argv[n++] = json_string_value(one);
	}
	return n;
}

static size_t add_value(const struct door_args *a, const char *flag, const char *option,
			const char **argv, size_t n)
{
	const char *v = door_value(a, flag);

	if (!v || !v[0])
		return n;
	argv[n++] = option;
	argv[n++] = v;
	return n;
}

/* Beside a directory, docker's --file counts from the working directory; beside an archive, from its top. */
static size_t add_build_file(const struct door_args *a, char *place, size_t size, const char **argv, size_t n)
{
	const char *file = door_value(a, "file");
	autofree char *cwd = getcwd(NULL, 0);

	if (!file || !file[0] || !cwd || file[0] == '/' || !strcmp(file, "-") || !strcmp(a->words[0], "-"))
		return add_value(a, "file", "--file", argv, n);
	snprintf(place, size, "%s/%s", cwd, file);
	argv[n++] = "--file";
	argv[n++] = place;
	return n;
}

/* docker's RUN has a network; "default" and none said are its bridge. */
static const char *build_network(const struct door_args *a)
{
	const char *v = door_value(a, "network");

	return !v || !v[0] || !strcmp(v, "default") ? "bridge" : v;
}

static int docker_build_main(const struct command *self, int argc, char **argv)
{
	const char *words[BUILD_WORDS_MAX] = { "berth", "build" };
	char verb[] = "build", *find[] = { verb, NULL };
	char place[PATH_MAX];
	static const char *const options[] = { "--tag", "--build-arg", "--label", "--add-host", "--ulimit", "--secret", "--output" };
	struct door_args a;
	int used, status;
	struct err e;
	size_t n = 2, i;

	if (!door_parse(&a, self, argc, argv, 1, 1)) {
		status = a.status;
	} else if (!command_find(1, find, &used, &e)) {
		status = cannot(self);
	} else {
		if (door_list(&a, "cache-from"))
			door_say(0, "%s", ENGINE_BUILD_CACHE_FROM);
		for (i = 0; i < ARRAY_LEN(options); i++)
			n = add_build_list(&a, options[i], words, n);
		if (!n) {
			door_release(&a);
			return door_say(1, "docker build: more than %d options of a build", (BUILD_WORDS_MAX - BUILD_WORDS_SPARE) / 2);
		}
		n = add_build_file(&a, place, sizeof(place), words, n);
		n = add_value(&a, "target", "--target", words, n);
		n = add_value(&a, "platform", "--platform", words, n);
		n = add_value(&a, "memory", "--memory", words, n);
		n = add_value(&a, "shm-size", "--shm-size", words, n);
		n = add_value(&a, "cpuset-cpus", "--cpuset", words, n);
		n = add_value(&a, "iidfile", "--iidfile", words, n);
		words[n++] = "--network";
		words[n++] = build_network(&a);
		if (door_on(&a, "pull"))
			words[n++] = "--pull=always";
		if (door_on(&a, "no-cache"))
			words[n++] = "--no-cache";
		words[n++] = "--json";
		words[n++] = "--";
		words[n++] = a.words[0];
		status = door_run_build(words, door_on(&a, "quiet"));
	}
	door_release(&a);
	return status;
}

static int buildx_main(const struct command *self, int argc, char **argv)
{
	if (argc > 1 && (!strcmp(argv[1], "build") || !strcmp(argv[1], "b")))
		return docker_build_main(&door_build, argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "prune"))
		return door_builder_prune.run(&door_builder_prune, argc - 1, argv + 1);
	return cannot(self);
}

#define NO_BUILD_LIMIT "RUN has the limits of [sandbox] in berth.toml; --memory is its memory"
static const struct opt build_options[] = {
	{ "add-host", 0, OPT_LIST, "list", "Add a custom host-to-IP mapping", DOOR_TAKEN },
	{ "build-arg", 0, OPT_LIST, "list", "Set build-time variables", DOOR_TAKEN },
	{ "build-context", 0, OPT_LIST, "stringArray", "Additional build contexts (e.g., name=path)", DOOR_REFUSED, COMPLETE_NONE,
	  "put its files below the context, or name an image of the store with COPY --from" },
	{ "cache-from", 0, OPT_LIST, "strings", "Images to consider as cache sources",
	  DOOR_IGNORED },
	{ "cache-to", 0, OPT_LIST, "stringArray", "Cache export destinations", DOOR_REFUSED, COMPLETE_NONE,
	  "steps stay on this host, see [build] cache in berth.toml" },
	{ "cgroup-parent", 0, OPT_VALUE, "string", "Parent cgroup for the RUN instructions",
	  DOOR_REFUSED, COMPLETE_NONE, "[cgroup] parent in berth.toml names it for all" },
	{ "compress", 0, OPT_FLAG, NULL, "Compress the build context using gzip", DOOR_IGNORED },
	{ "cpu-period", 0, OPT_VALUE, "int", "Limit CPU CFS period", DOOR_REFUSED, COMPLETE_NONE,
	  NO_BUILD_LIMIT },
	{ "cpu-quota", 0, OPT_VALUE, "int", "Limit CPU CFS quota", DOOR_REFUSED, COMPLETE_NONE,
	  NO_BUILD_LIMIT },
	{ "cpu-shares", 'c', OPT_VALUE, "int", "CPU shares (relative weight)", DOOR_REFUSED,
	  COMPLETE_NONE, NO_BUILD_LIMIT },
	{ "cpuset-cpus", 0, OPT_VALUE, "string", "CPUs in which to allow execution", DOOR_TAKEN },
	{ "cpuset-mems", 0, OPT_VALUE, "string", "MEMs in which to allow execution", DOOR_REFUSED,
	  COMPLETE_NONE, NO_BUILD_LIMIT },
	{ "disable-content-trust", 0, OPT_FLAG, NULL, "Skip image verification", DOOR_IGNORED },
	{ "file", 'f', OPT_VALUE, "string", "Name of the Dockerfile", DOOR_TAKEN, COMPLETE_FILE },
	{ "force-rm", 0, OPT_FLAG, NULL, "Always remove intermediate containers", DOOR_IGNORED },
	{ "iidfile", 0, OPT_VALUE, "string", "Write the image ID to the file", DOOR_TAKEN, COMPLETE_FILE },
	{ "isolation", 0, OPT_VALUE, "string", "Container isolation technology (Windows only)",
	  DOOR_IGNORED },
	{ "label", 0, OPT_LIST, "list", "Set metadata for an image", DOOR_TAKEN },
	{ "load", 0, OPT_FLAG, NULL, "The image is in the store anyway", DOOR_IGNORED },
	{ "memory", 'm', OPT_VALUE, "bytes", "Memory limit", DOOR_TAKEN },
	{ "memory-swap", 0, OPT_VALUE, "bytes", "Swap limit equal to memory plus swap",
	  DOOR_REFUSED, COMPLETE_NONE, NO_BUILD_LIMIT },
	{ "network", 0, OPT_VALUE, "string", "Set the networking mode for the RUN instructions",
	  DOOR_TAKEN },
	{ "no-cache", 0, OPT_FLAG, NULL, "Do not use cache when building the image", DOOR_TAKEN },
	{ "output", 'o', OPT_LIST, "stringArray", "Output destination (format: \"type=local,dest=path\")", DOOR_TAKEN },
	{ "platform", 0, OPT_VALUE, "string", "Set platform", DOOR_TAKEN },
	{ "progress", 0, OPT_VALUE, "string", "Set type of progress output", DOOR_IGNORED },
	{ "pull", 0, OPT_FLAG, NULL, "Always attempt to pull a newer version of the image",
	  DOOR_TAKEN },
	{ "push", 0, OPT_FLAG, NULL, "Shorthand for \"--output=type=registry\"", DOOR_REFUSED, COMPLETE_NONE, "docker push sends the image" },
	{ "quiet", 'q', OPT_FLAG, NULL, "Print the image ID only", DOOR_TAKEN },
	{ "rm", 0, OPT_FLAG, NULL, "Remove intermediate containers", DOOR_IGNORED },
	{ "secret", 0, OPT_LIST, "stringArray", "Secret to expose to the build (format: \"id=mysecret[,src=/local/secret]\")", DOOR_TAKEN },
	{ "security-opt", 0, OPT_LIST, "strings", "Security options", DOOR_REFUSED, COMPLETE_NONE,
	  "RUN is always confined as a sandbox is" },
	{ "shm-size", 0, OPT_VALUE, "bytes", "Size of /dev/shm", DOOR_TAKEN },
	{ "squash", 0, OPT_FLAG, NULL, "Squash newly built layers into a single new layer",
	  DOOR_REFUSED, COMPLETE_NONE, "layers stay as the Dockerfile makes them" },
	{ "ssh", 0, OPT_LIST, "stringArray", "SSH agent socket or keys to expose to the build", DOOR_REFUSED, COMPLETE_NONE,
	  "no agent is reached from a build: give a key with --secret" },
	{ "tag", 't', OPT_LIST, "list", "Name and optionally a tag in the \"name:tag\" format",
	  DOOR_TAKEN },
	{ "target", 0, OPT_VALUE, "string", "Set the target build stage to build", DOOR_TAKEN },
	{ "ulimit", 0, OPT_LIST, "ulimit", "Ulimit options", DOOR_TAKEN },
};

const struct command door_build = {
	.name = "build",
	.args = "[OPTIONS] PATH | -",
	.summary = "Build an image from a Dockerfile, by buildah",
	.opts = build_options,
	.opt_count = ARRAY_LEN(build_options),
	.complete = COMPLETE_DIR,
	.run = docker_build_main,
};

const struct command door_buildx = {
	.name = "buildx",
	.args = "build [OPTIONS] PATH | - | prune",
	.summary = "Docker Buildx: its build is docker build",
	.complete = COMPLETE_WORDS,
	.words = "build prune",
	.run = buildx_main,
};

const struct command door_builder = {
	.name = "builder",
	.args = "build [OPTIONS] PATH | -",
	.summary = "Manage builds: its build is docker build",
	.complete = COMPLETE_WORDS,
	.words = "build prune",
	.run = buildx_main,
};

/* ---- context --------------------------------------------------------------------------------- */

static json_t *context(void)
{
	return json_pack("{s:b,s:s,s:s,s:s,s:s}", "Current", 1, "Description", "berth on this host",
			 "DockerEndpoint", "(none: berth-docker)", "Error", "", "Name", "default");
}

static int context_main(const struct command *self, int argc, char **argv)
{
	static const struct door_column heads[] = {
		{ "Name", "NAME" },
		{ "Description", "DESCRIPTION" },
		{ "DockerEndpoint", "DOCKER ENDPOINT" },
		{ "Error", "ERROR" },
		{ NULL, NULL },
	};
	autojson json_t *rows = json_pack("[o]", context());
	const int use = !strcmp(self->name, "context use");
	struct door_args a;
	int status = 0;
	struct err e;

	if (!door_parse(&a, self, argc, argv, use, use))
		status = a.status;
	else if (use && strcmp(a.words[0], "default"))
		status = door_say(1,
				  "context \"%.60s\": not found: another engine is the real "
				  "client's business",
				  a.words[0]);
	else if (use || !strcmp(self->name, "context show") || door_on(&a, "quiet"))
		printf("default\n");
	else if (door_rows(door_value(&a, "format"), rows, heads, 4, &e) < 0)
		status = door_error(&e);
	door_release(&a);
	return status;
}

static const struct opt ls_options[] = {
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Only show context names", DOOR_TAKEN },
};

#define CONTEXT(sym, verb, words, text, table, count)                                              \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = words,                                                                     \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = count,                                                                \
		.run = context_main,                                                               \
		.flags = COMMAND_ANY_USER,                                                         \
	}

CONTEXT(context_ls, "context ls", "[OPTIONS]", "List contexts: there is one", ls_options,
	ARRAY_LEN(ls_options));
CONTEXT(context_show, "context show", "", "Print the name of the current context", NULL, 0);
CONTEXT(context_use, "context use", "CONTEXT", "Set the current docker context", NULL, 0);

/* ---- completion ------------------------------------------------------------------------------ */

static int completion_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	int status =
		door_parse(&a, self, argc, argv, 1, 1) ? door_completion(a.words[0]) : a.status;

	door_release(&a);
	return status;
}

const struct command door_completion_verb = {
	.name = "completion",
	.args = "SHELL",
	.summary = "Generate the autocompletion script for the specified shell (bash|zsh)",
	.complete = COMPLETE_WORDS,
	.words = "bash zsh",
	.run = completion_main,
	.flags = COMMAND_ANY_USER,
};
