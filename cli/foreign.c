/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/foreign.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

struct row {
	/* option NULL: every unknown option of that command */
	const char *command, *option, *hint;
};


static const struct row commands[] = {
	{ "clone", NULL, "berth fork makes a new sandbox with the files of another" },
	{ "container", NULL, "berth ps lists sandboxes; other commands take no such word before them" },
	{ "containers", NULL, "berth ps -a" },
	{ "copy", NULL, "berth cp copies files into and out of a sandbox" },
	{ "delete", NULL, "berth rm removes sandboxes, berth image rm images" },
	{ "df", NULL, "berth system df shows the disk space of images, sandboxes and volumes" },
	{ "enter", NULL, "berth shell opens a shell in a sandbox, berth exec runs one command there" },
	{ "export", NULL, "berth commit makes an image of a sandbox, berth image export writes it" },
	{ "history", NULL, "berth image history" },
	{ "images", NULL, "berth image ls" },
	{ "import", NULL, "berth image import" },
	{ "info", NULL, "berth doctor shows what this host offers, berth config show what is configured" },
	{ "list", NULL, "berth ps lists sandboxes, berth image ls images" },
	{ "ls", NULL, "berth ps lists sandboxes, berth image ls images" },
	{ "port-forward", NULL, "berth run and berth create --publish 8080:80 publish a port of a sandbox, berth port shows those that are" },
	{ "remove", NULL, "berth rm removes sandboxes, berth image rm images" },
	{ "restore", NULL, "berth undo takes a sandbox back to a checkpoint, berth checkpoint restore makes one of a stored checkpoint" },
	{ "rmi", NULL, "berth image rm" },
	{ "search", NULL, "registries are not searched; berth pull fetches an image by its name" },
	{ "serve", NULL, "berthd serves sandboxes over HTTP" },
	{ "snapshot", NULL, "berth checkpoint keeps the files of a sandbox as they are now, berth undo goes back to them" },
	{ "snapshots", NULL, "berth checkpoints" },
	{ "state", NULL, "berth inspect" },
	{ "status", NULL, "berth ps lists sandboxes with their status, berth inspect shows all of one" },
	{ "tag", NULL, "berth image tag" },
	{ "unpause", NULL, "berth resume" },
};

static const struct row options[] = {
	{ "create", "-d", "a sandbox of berth create lives in the background; berth run --detach starts one with a command" },
	{ "kill", NULL, "berth kill ends every process at once; berth signal sends a signal to a command" },
	{ "restart", "-t", "--grace TIME" },
	{ "restart", "--time", "--grace TIME" },
	{ "restart", "--timeout", "--grace TIME" },
	{ "rm", "-v", "a sandbox's files go with it; directories of the host stay" },
	{ "run", "--privileged", "--cap-add CAP, --seccomp PROFILE and --network host give single rights; berth-oci runs what an engine asks for" },
	{ "stop", "-t", "--grace TIME" },
	{ "stop", "--time", "--grace TIME" },
	{ "stop", "--timeout", "--grace TIME" },
};

static const char *find_foreign_hint(const struct row *rows, size_t n, const char *command, const char *option)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(rows[i].command, command) && (!rows[i].option || !strcmp(rows[i].option, option)))
			return rows[i].hint;
	return NULL;
}

const char *foreign_command(const char *word)
{
	return find_foreign_hint(commands, ARRAY_LEN(commands), word, "");
}

const char *foreign_option(const char *command, const char *option)
{
	return find_foreign_hint(options, ARRAY_LEN(options), command, option);
}
