/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runopts - the options of a sandbox in native units, and the spec that is made from them.
 *
 * params_read() fills it, an option at a time; runopts_finish() adds the values of the image and
 * the configuration. It borrows the texts of the options; lists grow on the heap up to a ceiling
 * and are freed by runopts_release().
 */
#ifndef BERTH_MANAGER_OPS_RUNOPTS_H
#define BERTH_MANAGER_OPS_RUNOPTS_H

#include "base/json.h"
#include "manager/host/config.h"
#include "manager/host/procid.h"
#include "manager/keeper/health.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/livebudget.h"
#include "manager/ops/devices.h"
#include "manager/ops/netopts.h"
#include "manager/ops/paramid.h"
#include "rootfs/store/image.h"
#include "runtime/sandbox/spec.h"

/* ---- how a sandbox lives that outlasts its maker: how long, for whom, how checked, as what service ---- */

#define OWNER_GRACE_MS 10000

/* A service's main command, and how that begins and ends. */
struct serviceopts {
	int is_service;
	struct keeper_service service;	/* its strings are borrowed */
	char **words;			/* from the command line; the strings are borrowed */
	size_t word_count;
};

struct life {
	uint64_t idle_timeout_ms, ttl_ms;
	int auto_remove;
	char owner[PROCID_SIZE];	/* "": none */
	uint64_t owner_grace_ms;
	struct livebudget budget;
	struct health_spec health;	/* owns argv */
	int no_health;
	struct serviceopts service;
};

#define LIFE_INIT { .owner_grace_ms = OWNER_GRACE_MS, .health = HEALTH_SPEC_INIT, \
		    .service = { .service = { .stop_timeout_ms = 10000 } } }

/* ---- the options ---- */

#define DISK_BYTES_AN_INODE 4096	/* the default: at most one file for each block of the disk */

struct runopts_strings {
	const char **v;
	size_t count;
};

#define HOSTNAME_ID "@id" /* for --hostname: the id of a sandbox that stays */

struct runopts {
	const struct config *config;
	struct spec spec;
	uint32_t ulimits_asked;
	uint64_t caps_added, caps_dropped;
	const char *workdir, *user, *seccomp, *name, *entrypoint;
	struct runopts_strings env;		/* --env and --env-file, in order */
	struct runopts_strings owned;		/* strings to free */
	struct runopts_strings argv, full_env;	/* spec points to these, once built */
	struct seccomp_profile custom;		/* from a JSON file */
	const char *seccomp_text;		/* content of that file when the sandbox was made; NULL: the
						 * file is read */
	int has_custom;
	struct runopts_strings device_names;	/* --device and --gpus */
	struct runopts_strings io_rates;	/* from --io-rate, until runopts_devices() finds the disks */
	struct devices *devices;		/* the resolved devices, by runopts_devices() */
	struct netopts net;
	json_t *labels;		/* from --label and --label-file; NULL: none */
	json_t *marks;		/* labels of berth's own, from --mark; NULL: none */
	int interactive;	/* a service's main command has a stdin that stays open */
	struct life life;	/* for a sandbox that lasts */
	uint64_t given[PARAM_GIVEN_WORDS];	/* a bit for each option that was read */
};

void runopts_init(struct runopts *o, const struct config *c);
/* Appends s, which is borrowed, to l.  ERR_LIMIT, ERR_NOMEM. */
int runopts_push(struct runopts_strings *l, const char *s, struct err *e);
/* Takes over s, from the heap, until runopts_release(); frees it on failure. */
int runopts_own(struct runopts *o, char *s, struct err *e);
/* Notes that option id was given, for runopts_given(). */
void runopts_note_given(struct runopts *o, int id);
int runopts_given(const struct runopts *o, int id);
void runopts_release(struct runopts *o);
/* Returns the labels for its record: its own, its image's (NULL: none), and the marks; a new object. */
json_t *runopts_labels(const struct runopts *o, const json_t *image_labels);
/* Tells whether value of --seccomp is the path of a JSON file. */
int runopts_seccomp_is_file(const char *value);
/*
 * Looks up the requested devices, and adds what they need; and the disks whose rates are limited.
 * Call it before runopts_finish() of a sandbox that is to start.
 */
int runopts_devices(struct runopts *o, struct err *e);
/* A part of runopts_finish(): sets o->spec.seccomp from the requested name or file. */
int runopts_choose_seccomp(struct runopts *o, struct err *e);
/*
 * Completes o->spec from the configuration, the image (NULL: none, a plain root file system) and
 * the command words. The caller sets id_base, id and layers.
 */
int runopts_finish(struct runopts *o, const struct image *im, char **command, size_t words, struct err *e);
/* A part of runopts_finish(): returns the set of enum loosened. */
uint32_t runopts_loosened(const struct runopts *o);
/*
 * Prints a line on stderr if options make the sandbox less confined than the default, and one if its
 * bridge has no way out; for people, so it never fails.
 */
void runopts_tell(const struct runopts *o, const char *prog);

#endif
