/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door - docker's command line over berth, without a daemon: berth-docker.
 *
 * A verb reads docker's flags, makes Docker's documents of them, and lets manager/engine say what
 * that is in berth.  What only berth's own verbs can do runs in a child that calls them
 * (door_call()); what an agent does at each step (run, exec, start) runs in this process.  Errors
 * are told in docker's words and end in docker's exit statuses.
 */
#ifndef BERTH_CLI_DOCKER_DOOR_H
#define BERTH_CLI_DOCKER_DOOR_H

#include "base/json.h"
#include "cli/command.h"
#include "cli/live/sandbox_open.h"
#include "manager/engine/containers.h"

#define DOOR_USAGE 125 /* the exit status of a wrong flag, and of a run that failed */

/* Of struct command, beside COMMAND_ANY_USER and COMMAND_HIDDEN: flags end at the first word. */
#define DOOR_FLAGS_FIRST 16U
/* Of struct opt, its id: what becomes of the flag. */
enum door_flag_class { DOOR_TAKEN, DOOR_IGNORED, DOOR_REFUSED };

extern const struct command *const door_verbs[]; /* ends with NULL */
/* The verb that argv names, as "container run" or "run"; *ret_words of them.  NULL: none. */
const struct command *door_find_verb(int argc, char **argv, int *ret_words);

/* ---- flags (verbs.c) ---- */

struct door_args {
	const struct command *verb;
	json_t *o;    /* flag: true or false, a string, or for a list an array of strings */
	char **words; /* what is not a flag; ends with NULL */
	int count;
	int status; /* the verb's exit status, when it ends here */
};

/*
 * As docker's pflag reads them.  1: go on.  0: help was asked for, or an error has been told, and
 * status is the exit status.  most -1: any number of words.  door_release() in either case.
 */
int door_parse(struct door_args *a, const struct command *verb, int argc, char **argv, int least,
	       int most);
void door_release(struct door_args *a);
int door_on(const struct door_args *a, const char *flag);
/* NULL when it was not given. */
const char *door_value(const struct door_args *a, const char *flag);
/* A text of a document, or "". */
static inline const char *door_text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}
/* An array, borrowed; NULL when it was not given. */
const json_t *door_list(const struct door_args *a, const char *flag);

/* ---- which engine (foreign.c) ---- */

/* Whether a value of DOCKER_HOST is the socket that [docker] of berth.toml names, by whatever path: /var/run is a link to /run. */
int door_is_own_socket(const char *host);

/* ---- what is told (verbs.c) ---- */

/* Prints it as docker's client would say an error of its daemon; always 1. */
int door_error(const struct err *e);
/* A text on stderr as it is, with a newline; returns status. */
int door_say(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A verb's page, and the list of verbs. */
void door_help(const struct command *verb, int on_stderr);
void door_overview(void);
int door_completion(const char *shell);

/* ---- berth's own verbs (call.c) ---- */

/*
 * Carries out a call (manager/ops/call.h), which it consumes, in a child without stdin: its answer, a
 * new reference, {} where it says nothing; NULL with its error.
 */
json_t *door_ask(json_t *call, struct err *e);
#define DOOR_STDIN 1U  /* it reads our stdin */
#define DOOR_STDOUT 2U /* it writes to our stdout, and there is no answer but {} */
json_t *door_ask_with(json_t *call, unsigned passes, struct err *e);
/*
 * How the operations of manager/engine are carried out here: by door_ask().  config: for those on
 * networks; NULL: none of them is.
 */
struct engine_berth door_berth(const struct config *config);
/* {"berth", "login", ..., NULL} with our own stdin, stdout and stderr: its exit status. */
int door_pass(const char *const *argv);

/* ---- containers (ps.c) ---- */

/* s->id and s->kept of what name calls a container: ERR_NOT_FOUND in docker's words. */
int door_find(struct sandbox_ref *s, const char *name, struct err *e);
/* And connects to its keeper: ERR_BUSY when it does not run. */
int door_connect(struct sandbox_ref *s, const char *name, struct err *e);
/* door_find(), for the operations of manager/engine/containers.h; ret borrows s and name. */
int door_container(struct engine_container *ret, struct sandbox_ref *s, const char *name, struct err *e);
int door_load(struct engine_loaded *l, struct sandbox_ref *s, int live, struct err *e);
/* Whether what door_find() found stands still; its connection is closed then. */
int door_is_paused(struct sandbox_ref *s);
/* Calls fn for each word; what went well is printed by its name. */
typedef int door_fn(void *ctx, const struct engine_container *c, struct err *e);
int door_each(const struct door_args *a, door_fn *fn, void *ctx);

/* ---- lists (rows.c) ---- */

struct door_column {
	const char *field, *head;
};
/*
 * Objects of rows as --format says: NULL or "table", a table of the first n columns; "table ...";
 * "json"; a template.  columns ends with a NULL field; those behind n only have heads.
 */
int door_rows(const char *format, const json_t *rows, const struct door_column *columns, size_t n,
	      struct err *e);
/* One document: an indented array of all for format NULL or "", else what the template makes. */
int door_documents(const char *format, const json_t *list, struct err *e);
/* Whether door_documents() could print them: -1 with e if not. */
int door_format_fits(const char *format, const json_t *list, struct err *e);

#endif
