/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command - the table of commands, and the options each takes.
 *
 * One table feeds parsing, --help, shell completion and the man-page check: an option exists
 * exactly when it has a row.  The options of a sandbox have theirs in manager/ops/params.def.
 */
#ifndef BERTH_CLI_COMMAND_H
#define BERTH_CLI_COMMAND_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/ops/params.h"

/*
 * Called once per option, in order.  Returns 0, or -1 with e set (the caller
 * adds "option --NAME: " before it).
 */
typedef int opt_fn(void *ctx, int id, const char *value, struct err *e);

struct command {
	const char *name;	/* "run", or "image import" for a two-word command */
	const char *args;	/* "IMAGE [COMMAND...]" */
	const char *summary;	/* one line */
	const char *detail;	/* more lines for --help, or NULL */
	unsigned params;	/* the options of a sandbox that it has: PARAM_OF_*; 0: none */
	const struct opt *opts;	/* its own; their ids start at PARAM_END when it has params, else at 1 */
	size_t opt_count;
	enum opt_complete complete;	/* of the positional arguments */
	/* argv[0] is the command's name; returns the exit status */
	int (*run)(const struct command *self, int argc, char **argv);
	/* NULL, or prints the answer, which --json shows as it is, for people: here and from afar */
	void (*print)(const json_t *answer);
	unsigned flags;			/* COMMAND_* */
	const char *words;		/* for complete == COMPLETE_WORDS */
	/* NULL, or in whose words command_fail() tells an error; its exit status */
	int (*fail)(const struct command *self, const struct err *e);
};

#define COMMAND_ANY_USER 1U	/* does not need root */
#define COMMAND_EXTERNAL 2U	/* another program, which has its own --help and options */
#define COMMAND_HIDDEN 4U	/* an internal verb: in no list and no completion */

/* The options of c in the order of help: after NULL the first one, after the last one NULL. */
const struct opt *command_next_option(const struct command *c, const struct opt *after);
#define COMMAND_EACH_OPTION(c, o) \
	for ((o) = command_next_option(c, NULL); (o); (o) = command_next_option(c, o))

/* Whether o, an option of c, is not for people. */
int command_hides(const struct command *c, const struct opt *o);
/* The option of c that has this id; NULL without one. */
const struct opt *command_option(const struct command *c, int id);

/* The table, in the order `berth help` lists it; ends with NULL. */
extern const struct command *const commands[];

/* A group of `berth help` and of berth(1): the rows of commands from first to the next group's; ends with a NULL title. */
struct command_group {
	const char *title;
	const struct command *first;
};

extern const struct command_group command_groups[];

/*
 * Parses argv from argv[1] on (options end at the first operand or "--").  Sets *ret_rest to
 * the index of the first operand.  "--help" (and -h, where the table has no -h)
 * prints help, sets *ret_help and ends the parse.  Long names are never
 * abbreviated.
 * Unknown options and missing values are ERR_USAGE and name the remedy.
 */
int command_options(const struct command *c, int argc, char **argv, opt_fn *fn, void *ctx,
		    int *ret_rest, int *ret_help, struct err *e);
/* Prints e on stderr (as JSON when the command was given --json) and returns its exit status. */
int command_fail(const struct command *c, const struct err *e, int as_json);
/* One JSON document as a line (or more, by jansson's flags) on stdout, flushed: 0, or -1 with ERR_NOMEM or ERR_SYS. */
int command_print_json(const json_t *j, size_t flags, struct err *e);
void command_help(const struct command *c);
/* Prints text word by word between the column indent and the last one, and ends the line; at is where the cursor is. */
void command_print_filled(const char *text, int indent, int at, int columns);
/* Every command with its summary, in groups; for `berth help`. */
void command_overview(void);
/* The same as a document, a new reference: of all commands in groups, or of c with its options.  NULL without memory. */
json_t *command_overview_json(void);
json_t *command_json(const struct command *c);
/* The commands of two words that begin with this one; returns how many there are, nothing printed for none. */
int command_group_help(const char *word);
/*
 * The command named by argv[0] (and argv[1]), and in *ret_words how many of them. NULL with
 * ERR_USAGE and a suggestion if there is none.
 */
const struct command *command_find(int argc, char **argv, int *ret_words, struct err *e);

/* ---- A call as the words of its command ---- */

/* Runs the call; returns the exit status of its command.  Errors are JSON on stderr. */
int callwords_run(const json_t *call);

#endif
