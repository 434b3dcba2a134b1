/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth checkpoint store, stored, restore, discard: checkpoints in the storage of berthd.
 *
 * The storage, its bounds and the note of what is in it are berthd's ([storage] in berth.toml), so
 * these commands are always done by a berthd: without --host by that of this host, over the socket
 * for root.
 */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/localdaemon.h"

enum { OPT_JSON = 1, OPT_NAME, OPT_TENANT, OPT_TRUST, OPT_DROP, OPT_NO_START };

#define JSON_OPTION { "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON }
#define TENANT_OPTION { "tenant", 0, OPT_VALUE, "NAME", "those of this tenant", OPT_TENANT }

static const struct opt store_options[] = {
	{ "name", 0, OPT_VALUE, "NAME", "its name there (default: SANDBOX-CHECKPOINT)", OPT_NAME },
	TENANT_OPTION,
	JSON_OPTION,
};

static const struct opt list_options[] = { TENANT_OPTION, JSON_OPTION };

static const struct opt restore_options[] = {
	{ "name", 0, OPT_VALUE, "NAME", "a name for the sandbox, beside its id", OPT_NAME },
	{ "trust", 0, OPT_FLAG, NULL, "take options that reach the host, too", OPT_TRUST },
	{ "drop", 0, OPT_FLAG, NULL, "leave such options out", OPT_DROP },
	{ "no-start", 0, OPT_FLAG, NULL, "make it, and leave the start to berth start",
	  OPT_NO_START },
	TENANT_OPTION,
	JSON_OPTION,
};

static int note_json(void *ctx, int id, const char *value, struct err *e)
{
	(void)value, (void)e;
	if (id == OPT_JSON)
		*(int *)ctx = 1;
	return 0;
}

static int stored_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, help = 0, json = 0;
	int r = command_options(self, argc, argv, note_json, &json, &rest, &help, &e);

	if (r == 0 && help)
		return 0;
	if (r == 0)
		r = localdaemon_become(self, argc, argv, "which has the storage for checkpoints, ",
				       "berth checkpoint export writes one to a file", &e);
	return command_fail(self, &e, json);
}

const struct command cmd_checkpoint_store = {
	.name = "checkpoint store",
	.args = "SANDBOX@CHECKPOINT",
	.summary = "put a checkpoint into berthd's storage",
	.opts = store_options,
	.opt_count = ARRAY_LEN(store_options),
	.complete = COMPLETE_SANDBOX,
	.run = stored_main,
};

const struct command cmd_checkpoint_stored = {
	.name = "checkpoint stored",
	.args = "",
	.summary = "list the checkpoints in berthd's storage",
	.opts = list_options,
	.opt_count = ARRAY_LEN(list_options),
	.run = stored_main,
};

const struct command cmd_checkpoint_restore = {
	.name = "checkpoint restore",
	.args = "NAME",
	.summary = "make a sandbox of a checkpoint in berthd's storage",
	.opts = restore_options,
	.opt_count = ARRAY_LEN(restore_options),
	.run = stored_main,
};

const struct command cmd_checkpoint_discard = {
	.name = "checkpoint discard",
	.args = "NAME...",
	.summary = "remove checkpoints from berthd's storage",
	.opts = list_options,
	.opt_count = ARRAY_LEN(list_options),
	.run = stored_main,
};
