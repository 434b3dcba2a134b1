/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs, and the words that lead to them: "container ls" is "ps". */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"

const struct command *const door_verbs[] = {
	&door_run,
	&door_exec,
	&door_ps,
	&door_create,
	&door_start,
	&door_stop,
	&door_kill,
	&door_rm,
	&door_logs,
	&door_inspect,
	&door_wait,
	&door_attach,
	&door_restart,
	&door_pause,
	&door_unpause,
	&door_rename,
	&door_update,
	&door_stats,
	&door_top,
	&door_port,
	&door_cp,
	&door_diff,
	&door_export,
	&door_commit,
	&door_images,
	&door_pull,
	&door_push,
	&door_tag,
	&door_rmi,
	&door_history,
	&door_save,
	&door_load_verb,
	&door_import,
	&door_search,
	&door_login,
	&door_logout,
	&door_build,
	&door_compose,
	&door_events,
	&door_info,
	&door_version,
	&door_container_prune,
	&door_image_inspect,
	&door_image_prune,
	&door_network_connect,
	&door_network_create,
	&door_network_disconnect,
	&door_network_inspect,
	&door_network_ls,
	&door_network_prune,
	&door_network_rm,
	&door_volume_create,
	&door_volume_inspect,
	&door_volume_ls,
	&door_volume_prune,
	&door_volume_rm,
	&door_system_df,
	&door_system_prune,
	&door_context_ls,
	&door_context_show,
	&door_context_use,
	&door_buildx,
	&door_builder,
	&door_completion_verb,
	NULL,
};

/* Groups: the second word is a verb by another name, or by its own. */
static const struct {
	const char *group, *word, *verb;
} ways[] = {
	{ "container", "ls", "ps" },
	{ "container", "list", "ps" },
	{ "container", "ps", "ps" },
	{ "container", "remove", "rm" },
	{ "container", "attach", NULL },
	{ "container", "commit", NULL },
	{ "container", "cp", NULL },
	{ "container", "create", NULL },
	{ "container", "diff", NULL },
	{ "container", "exec", NULL },
	{ "container", "export", NULL },
	{ "container", "inspect", NULL },
	{ "container", "kill", NULL },
	{ "container", "logs", NULL },
	{ "container", "pause", NULL },
	{ "container", "port", NULL },
	{ "container", "rename", NULL },
	{ "container", "restart", NULL },
	{ "container", "rm", NULL },
	{ "container", "run", NULL },
	{ "container", "start", NULL },
	{ "container", "stats", NULL },
	{ "container", "stop", NULL },
	{ "container", "top", NULL },
	{ "container", "unpause", NULL },
	{ "container", "update", NULL },
	{ "container", "wait", NULL },
	{ "image", "ls", "images" },
	{ "image", "list", "images" },
	{ "image", "rm", "rmi" },
	{ "image", "remove", "rmi" },
	{ "image", "build", NULL },
	{ "image", "history", NULL },
	{ "image", "import", NULL },
	{ "image", "load", NULL },
	{ "image", "pull", NULL },
	{ "image", "push", NULL },
	{ "image", "save", NULL },
	{ "image", "tag", NULL },
	{ "system", "events", NULL },
	{ "system", "info", NULL },
	{ "network", "list", "network ls" },
	{ "network", "remove", "network rm" },
	{ "volume", "list", "volume ls" },
	{ "volume", "remove", "volume rm" },
	{ "builder", "build", "build" },
};

static const struct command *find(const char *name)
{
	size_t i;

	for (i = 0; door_verbs[i]; i++)
		if (!strcmp(door_verbs[i]->name, name))
			return door_verbs[i];
	return NULL;
}

const struct command *door_find_verb(int argc, char **argv, int *ret_words)
{
	const struct command *verb;
	char both[80];
	size_t i;

	*ret_words = 1;
	verb = find(argv[0]);
	if (verb || argc < 2) {
		if (!verb)
			*ret_words = 0;
		return verb;
	}
	*ret_words = 2;
	snprintf(both, sizeof(both), "%.38s %.38s", argv[0], argv[1]);
	verb = find(both);
	for (i = 0; i < ARRAY_LEN(ways) && !verb; i++)
		if (!strcmp(ways[i].group, argv[0]) && !strcmp(ways[i].word, argv[1]))
			return find(ways[i].verb ? ways[i].verb : ways[i].word);
	return verb;
}
