/* SPDX-License-Identifier: Apache-2.0 */
/* opt - an option of a command line, as parsing, help and completion see it. */
#ifndef BERTH_MANAGER_OPS_OPT_H
#define BERTH_MANAGER_OPS_OPT_H

enum opt_kind {
	OPT_FLAG,	/* takes no value; value is NULL */
	OPT_VALUE,	/* takes one value; the last one given counts */
	OPT_LIST,	/* takes one value; may be repeated, each is handed on */
};

/* How the shell completes a value. */
enum opt_complete {
	COMPLETE_NONE, COMPLETE_FILE, COMPLETE_DIR, COMPLETE_IMAGE, COMPLETE_SANDBOX,
	COMPLETE_VOLUME, COMPLETE_WORDS, COMPLETE_NETWORK, COMPLETE_ZYGOTE,
};

struct opt {
	const char *name;	/* long name without dashes */
	char letter;		/* or 0 */
	enum opt_kind kind;
	const char *arg;	/* placeholder of the value, e.g. "SIZE"; NULL for a flag */
	const char *help;	/* one line, lower case, no full stop */
	int id;			/* what the handler switches on; unique in the table */
	enum opt_complete complete;
	const char *words;	/* more words to complete a value from: "none host bridge" */
	const char *preset;	/* what holds without it, for help; NULL: help says it, or nothing does */
};

#endif
