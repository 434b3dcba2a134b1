/* SPDX-License-Identifier: Apache-2.0 */
/*
 * params - the table of every option that a sandbox can be given, and its two readers.
 *
 * params.def has the rows.  A command line reaches a row by params_read(); a JSON object of options,
 * from whichever face, becomes the same list of texts by params_from_json().  That list,
 * [["memory","256m"],["env","A=1"],...], is what spec.json keeps and what a start reads again.
 */
#ifndef BERTH_MANAGER_OPS_PARAMS_H
#define BERTH_MANAGER_OPS_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/ops/paramid.h"

/* ---- an option of a command line, as parsing, help and completion see it ---- */

enum opt_kind {
	OPT_FLAG,	/* takes no value; value is NULL */
	OPT_VALUE,	/* takes one value; the last one given counts */
	OPT_LIST,	/* takes one value; may be repeated, each one is passed on */
};

/* The way in which the shell completes a value. */
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
	int id;			/* the id for which the handler switches; unique in the table */
	enum opt_complete complete;
	const char *words;	/* more words to complete a value from: "none host bridge" */
	const char *preset;	/* the value without the option, for help; NULL: help says it, or there is
				 * none */
};

/* ---- the rows ---- */

struct runopts;
struct param;

/* The type of a value, in text and in JSON. */
enum param_type {
	PARAM_FLAG,	/* text: none; JSON: true. Its place is an int */
	PARAM_SIZE,	/* bytes: "512m"; a number. Its place is a uint64_t, as for the next three */
	PARAM_COUNT,	/* a whole number */
	PARAM_MILLI,	/* thousandths: "0.5"; a number */
	PARAM_TIME,	/* milliseconds: "1.5s", "10m"; a number of seconds */
	PARAM_TEXT,	/* a string, which is borrowed: a const char * */
	PARAM_LIST,	/* strings */
	PARAM_PAIRS,	/* strings NAME=VALUE; the clients also take a mapping */
};

/* The operations that take the option: the commands of these names, and their other faces. */
enum {
	PARAM_OF_RUN = 1U,
	PARAM_OF_CREATE = 2U,
	PARAM_OF_DETACHED = 4U,	/* run --detach */
	PARAM_OF_MCP = 8U,
	PARAM_OF_ZYGOTE = 16U,	/* zygote create */
	PARAM_OF_UPDATE = 32U,
	PARAM_OF_FORK = 64U,
	PARAM_OF_REQUEST = 128U,	/* it is about how the sandbox is made, and spec.json does not keep
					 * it */
	PARAM_FROM_AFAR = 256U,	/* flag beside these, for params_from_json(): our environment is not the
				 * client's */
};

/* Who may give the option besides an administrator, and where. */
enum {
	PARAM_BY_TENANT = 1U,		/* a tenant, with any value */
	PARAM_BY_TENANT_NAMED = 2U,	/* a tenant, naming a thing of its own */
	PARAM_BY_IMPORT = 4U,		/* the file of a checkpoint, whose author is not trusted */
	PARAM_WITH_ZYGOTE = 8U,		/* create --zygote, whose zygote has decided all others */
	PARAM_NOT_OF_ZYGOTE = 32U,	/* zygote create accepts it only to refuse it with a message */
	PARAM_HERE = 64U,		/* it names a process of the caller's machine: refused from another
					 * machine */
	PARAM_LOCAL = 16U,		/* it names a file of the caller, or is another spelling: not in the
					 * clients' types */
};

/* The options that a new one replaces, in update and in fork. */
enum param_group {
	PARAM_G_NONE,		/* the same option; for a list in fork: none */
	PARAM_G_RULE,		/* allow or deny. update: the opposite with the same value; fork: every
				 * rule */
	PARAM_G_NETWORK,	/* the network itself. fork: the options of the network, too */
	PARAM_G_OF_NETWORK,	/* belongs to the network */
	PARAM_G_LIFE,		/* restart and owner: the same option */
	PARAM_G_HEALTH,		/* times of the health check */
	PARAM_G_CHECK,		/* the check: replaces the other kind of check */
	PARAM_G_NO_CHECK,	/* no check: replaces all options of the health check */
};

typedef int param_read_fn(struct runopts *o, const struct param *p, const char *value, struct err *e);

struct param {
	struct opt opt;
	enum param_type type;
	uint64_t min, max;	/* bounds of a number; min: a text's least length; READ() functions use them
				 * as they like */
	size_t at;		/* offset of its place in struct runopts */
	param_read_fn *read;	/* instead of a place: reads a value with a grammar of its own */
	unsigned of, rights;
	enum param_group group;
	int unlimited;		/* takes "unlimited" */
	int number_too;		/* a text that may be a number in JSON */
	int hidden;		/* not for users: in no help, completion or document of a face */
	const char *docker;	/* the member of Docker's HostConfig that shows it; NULL: none, or set by
				 * hand */
	const char *live;	/* the member of the keeper's update with the number; NULL: none, or set by
				 * hand */
};

/* Returns the row of an id between PARAM_NONE and PARAM_END. */
const struct param *param_of(int id);
/* Returns the row of that name; NULL if there is none. */
const struct param *param_named(const char *name);
/*
 * Returns the next row after id (begin with PARAM_NONE) that one of the operations has; NULL after
 * the last.
 */
const struct param *param_next(int id, unsigned of);

/*
 * Tells whether the documents and types of a face name the row for an operation: not if it names
 * files of the caller's machine, or if its command only refuses it.
 */
int param_is_told(const struct param *p, unsigned of);

/*
 * Reads value (NULL for a flag) into the place of row p: ERR_INVALID, ERR_LIMIT, and errors from a
 * file that it names. value is borrowed as long as o lives.
 */
int params_read(struct runopts *o, const struct param *p, const char *value, struct err *e);

/* Reads the text of a row whose place is a number, in native units: ERR_INVALID.  "unlimited" is UINT64_MAX. */
int param_parse(const struct param *p, const char *value, uint64_t *ret, struct err *e);

/* Appends [name, value] to list, in the form that spec.json keeps. ERR_INVALID if value is not UTF-8. */
int params_keep(json_t *list, const char *name, const char *value, struct err *e);

/*
 * Returns the text that a command line would have for a JSON value of row p; the caller frees it.
 * Numbers keep each of their digits. ERR_INVALID names the option and the type that it takes.
 */
char *param_text(const struct param *p, const json_t *value, struct err *e);

/*
 * As param_text(), in native units, for a row whose place is a number. "unlimited" is UINT64_MAX,
 * if the row takes it.
 */
int param_number(const struct param *p, const json_t *value, uint64_t *ret, struct err *e);

/* Turns {"A":"b"} of a row of pairs into ["A=b"], a new reference: ERR_INVALID. */
json_t *param_pairs(const struct param *p, const json_t *value, struct err *e);

/*
 * Appends the options of a JSON object to list, in its order: {"memory":"256m","env":["A=1"],
 * "read-only":true}; null and false add none, and pairs may be an object. of: the operation that
 * they are for. An array of one value is that value. ERR_INVALID for an option that the operation
 * does not take, or a value of another type.
 */
int params_from_json(const json_t *options, unsigned of, json_t *list, struct err *e);

/* Tells whether the option `now`, given to an update, replaces `before`: [name, value] each. */
int params_update_replaces(const json_t *now, const json_t *before);

/* ---- what a tenant may give ---- */

/* The options of berth create and berth update that a tenant of berthd may give. */

/*
 * Checks that a tenant may give the option: ERR_DENIED if not. Allowed are options that do not
 * touch the host's files, processes and devices, and volumes by their names, which for a tenant are
 * its own.
 */
int tenantopts_check(const char *option, const json_t *value, struct err *e);
/* Checks that a tenant may change the option of its sandbox: ERR_DENIED if not. */
int tenantopts_check_change(const char *option, struct err *e);

#endif
