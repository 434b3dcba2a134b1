/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth build: an image from a Dockerfile, by buildah.
 *
 * A build has a sandbox, whose ids and network it uses, and a volume, which bounds what it writes;
 * both go with it, and the next build removes what one that was killed has left.  Base images come
 * from the store, or are pulled into it first; buildah itself reaches no registry.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/image/build.h"
#include "manager/ops/runopts.h"

enum {
	OPT_TAG = 1,
	OPT_FILE,
	OPT_ARG,
	OPT_LABEL,
	OPT_TARGET,
	OPT_NETWORK,
	OPT_PULL,
	OPT_DISK,
	OPT_MEMORY,
	OPT_PLATFORM,
	OPT_ADD_HOST,
	OPT_SHM_SIZE,
	OPT_ULIMIT,
	OPT_SWAP,
	OPT_CPUS,
	OPT_CPU_WEIGHT,
	OPT_CPUSET,
	OPT_IIDFILE,
	OPT_OUTPUT,
	OPT_NO_CACHE,
	OPT_SECRET,
	OPT_QUIET,
	OPT_JSON,
};

static const struct opt options[] = {
	{"tag", 't', OPT_LIST, "NAME", "a name of the image (default: build:DIGEST)", OPT_TAG},
	{"file", 'f', OPT_VALUE, "PATH", "the Dockerfile, in CONTEXT (default: Dockerfile)",
	 OPT_FILE},
	{"build-arg", 0, OPT_LIST, "NAME=VALUE", "a value for an ARG of the Dockerfile", OPT_ARG},
	{"label", 'l', OPT_LIST, "NAME=VALUE", "a label of the image", OPT_LABEL},
	{"target", 0, OPT_VALUE, "STAGE", "build as far as this stage", OPT_TARGET},
	{"network", 0, OPT_VALUE, "MODE|NAME",
	 "of RUN and ADD, as berth run has it (default: none)", OPT_NETWORK, COMPLETE_WORDS,
	 "none bridge egress"},
	{"pull", 0, OPT_VALUE, "WHEN",
	 "fetch base images: missing, always or never (default: missing)", OPT_PULL, COMPLETE_WORDS,
	 "missing always never"},
	{"disk", 0, OPT_VALUE, "SIZE", "most that the build may write (default: [build] disk)",
	 OPT_DISK},
	{"memory", 'm', OPT_VALUE, "SIZE", "most memory of the build (default: [build] memory_max)",
	 OPT_MEMORY},
	{"platform", 0, OPT_VALUE, "OS/ARCH", "of the image (default: our own)", OPT_PLATFORM},
	{"add-host", 0, OPT_LIST, "NAME:IP", "a line of /etc/hosts for RUN", OPT_ADD_HOST},
	{"shm-size", 0, OPT_VALUE, "SIZE", "/dev/shm of RUN (default: 64m)", OPT_SHM_SIZE},
	{"ulimit", 0, OPT_LIST, "TYPE=SOFT[:HARD]", "a limit of the processes of RUN", OPT_ULIMIT},
	{"swap", 0, OPT_VALUE, "SIZE", "swap on top of the memory of the build (default: 0)", OPT_SWAP},
	{"cpus", 0, OPT_VALUE, "N", "CPUs of the build, such as 0.5 (default: 1)", OPT_CPUS},
	{"cpu-weight", 0, OPT_VALUE, "N", "share of a busy CPU, 1 to 10000 (default: 100)", OPT_CPU_WEIGHT},
	{"cpuset", 0, OPT_VALUE, "LIST", "CPUs that the build may run on, such as 0-1,3", OPT_CPUSET},
	{"iidfile", 0, OPT_VALUE, "FILE", "a file to write the image's digest to", OPT_IIDFILE, COMPLETE_FILE},
	{"output", 'o', OPT_VALUE, "type=tar,dest=FILE", "also write the files of the image as a tar archive", OPT_OUTPUT},
	{"no-cache", 0, OPT_FLAG, NULL, "run each step, also those that an earlier build has run", OPT_NO_CACHE},
	{"secret", 0, OPT_LIST, "id=ID[,src=FILE|,env=NAME]", "what RUN --mount=type=secret shows to its step alone", OPT_SECRET},
	{"quiet", 'q', OPT_FLAG, NULL, "print the digest only", OPT_QUIET},
	{"json", 0, OPT_FLAG, NULL, "print JSON lines, errors too", OPT_JSON},
};

/* buildah takes a number with a unit. */
static int set_shm(struct build *b, const char *value, struct err *e)
{
	uint64_t bytes;
	char text[32];

	if (num_size(value, "shm-size", 4096, 1ULL << 50, &bytes, e) < 0)
		return -1;
	snprintf(text, sizeof(text), "%lluk", (unsigned long long)(bytes + 1023) / 1024);
	return build_add_word(b, "--shm-size", text, e);
}

/* Docker's words for where the result goes: "type=tar,dest=FILE"; the store has it anyway. */
static int set_output(struct build *b, const char *text, struct err *e)
{
	const char *dest = NULL, *word;
	size_t n;
	int is_tar = 0;

	for (word = text; *word; word += n + (word[n] == ',')) {
		n = strcspn(word, ",");
		if (n == 8 && !strncmp(word, "type=tar", n))
			is_tar = 1;
		else if (n > 5 && !strncmp(word, "dest=", 5) && !word[n])
			dest = word + 5;
		else
			break;
	}
	if (*word || !is_tar || !dest || !strcmp(dest, "-"))
		return err_set(e, ERR_UNSUPPORTED, "--output %.100s: a build writes type=tar,dest=FILE, besides the image in the store; "
			       "hint: --output type=tar,dest=out.tar, and tar -xf out.tar -C DIR for its files", text);
	b->output = dest;
	return 0;
}

static int set_build_option(void *ctx, int id, const char *value, struct err *e)
{
	struct build *b = ctx;

	switch (id) {
	case OPT_TAG:
		return build_add_tag(b, value, e);
	case OPT_FILE:
		return b->file = value, 0;
	case OPT_ARG:
		return build_add_word(b, "--build-arg", value, e);
	case OPT_LABEL:
		return build_add_word(b, "--label", value, e);
	case OPT_TARGET:
		return b->target = value, 0;
	case OPT_PLATFORM:
		return build_add_word(b, "--platform", value, e);
	case OPT_ADD_HOST:
		return build_add_word(b, "--add-host", value, e);
	case OPT_SHM_SIZE:
		return set_shm(b, value, e);
	case OPT_ULIMIT:
		return build_add_word(b, "--ulimit", value, e);
	case OPT_SWAP:
		return build_add_limit(b, "swap", value, e);
	case OPT_CPUS:
		return build_add_limit(b, "cpus", value, e);
	case OPT_CPU_WEIGHT:
		return build_add_limit(b, "cpu-weight", value, e);
	case OPT_CPUSET:
		return build_add_limit(b, "cpuset", value, e);
	case OPT_IIDFILE:
		return b->iidfile = value, 0;
	case OPT_OUTPUT:
		return set_output(b, value, e);
	case OPT_NETWORK:
		if (!strcmp(value, "host"))
			return err_set(e, ERR_DENIED,
				       "a build has no network of the host; hint: "
				       "--network bridge");
		return b->network = value, 0;
	case OPT_PULL:
		return imageuse_policy(value, &b->pull, e);
	case OPT_DISK:
		return num_size(value, "disk", VOLUME_SIZE_MIN, VOLUME_SIZE_MAX, &b->disk_bytes, e);
	case OPT_MEMORY:
		return num_size(value, "memory", 1 << 20, 1ULL << 50, &b->memory_bytes, e);
	case OPT_SECRET:
		return build_add_secret(b, value, e);
	case OPT_NO_CACHE:
		return b->no_cache = 1, 0;
	default:
		return *(id == OPT_QUIET ? &b->quiet : &b->json) = 1, 0;
	}
}

static void print_build_done(const struct build *b)
{
	autojson json_t *j =
		json_pack("{s:s,s:O,s:s}", "event", "done", "names", b->tags, "digest", b->digest);
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	puts(b->json ? text ? text : "" : b->digest);
}

static int write_iidfile(const struct build *b, struct err *e)
{
	autoclose int fd = b->iidfile ? open(b->iidfile, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0644) : -1;

	if (!b->iidfile)
		return 0;
	return fd < 0 || io_write_all(fd, b->digest, strlen(b->digest)) < 0 ? err_sys(e, "write %.200s", b->iidfile) : 0;
}

static int write_output(const struct build *b, struct err *e)
{
	const char *const argv[] = { "berth", "image", "export", "--quiet", "--format", "rootfs", b->digest, b->output, NULL };

	return b->output ? build_berth(argv, -1, -1, e) : 0;
}

static int berth_build_main(const struct command *self, int argc, char **argv)
{
	struct build b = BUILD_INIT;
	struct err e = {0};
	int rest, help = 0, status = 0;
	int r;

	sandbox_ref_init(&b.ref);
	r = command_options(self, argc, argv, set_build_option, &b, &rest, &help, &e);

	if (r == 0 && !help) {
		b.context = argc - rest == 1 ? argv[rest] : NULL;
		r = b.context ?
			    build_run(&b, &e) < 0 || write_output(&b, &e) < 0 || write_iidfile(&b, &e) < 0 ? -1 : 0 :
			    err_set(&e, ERR_USAGE, "one context is wanted; hint: berth build .");
		if (r == 0)
			print_build_done(&b);
	}
	if (r < 0)
		status = command_fail(self, &e, b.json);
	build_release(&b);
	return status;
}

const struct command cmd_build = {
	.name = "build",
	.args = "CONTEXT",
	.summary = "make an image as a Dockerfile says, by buildah",
	.detail = "CONTEXT is a directory, or - for a tar archive of one, or a Dockerfile alone, "
		  "on stdin.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_DIR,
	.run = berth_build_main,
};
