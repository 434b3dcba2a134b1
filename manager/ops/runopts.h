/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runopts - what the options of a sandbox say, in native units, and the spec that they make.
 *
 * params_read() fills it, an option at a time; runopts_finish() adds what the image and the
 * configuration say.  It borrows the texts of the options; lists grow on the heap up to a ceiling
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

/* Its main command, and how that begins and ends. */
struct serviceopts {
	int is_service;
	struct keeper_service service;	/* its strings are borrowed */
	char **words;			/* the command line's; the strings are borrowed */
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

#define DISK_BYTES_AN_INODE 4096	/* what is not asked for: a file for each block of the disk at most */

struct runopts_strings {
	const char **v;
	size_t count;
};

#define HOSTNAME_ID "@id" /* of --hostname: the id of a sandbox that stays */

struct runopts {
	const struct config *config;
	struct spec spec;
	uint32_t ulimits_asked;
	uint64_t caps_added, caps_dropped;
	const char *workdir, *user, *seccomp, *name, *entrypoint;
	struct runopts_strings env;		/* --env and --env-file, in order */
	struct runopts_strings owned;		/* strings to free */
	struct runopts_strings argv, full_env;	/* what spec points to, once built */
	struct seccomp_profile custom;		/* from a JSON file */
	const char *seccomp_text;		/* what that file held when the sandbox was made; NULL: it is read */
	int has_custom;
	struct runopts_strings device_names;	/* --device and --gpus */
	struct runopts_strings io_rates;	/* of --io-rate, until runopts_devices() finds the disks */
	struct devices *devices;		/* the resolved devices, by runopts_devices() */
	struct netopts net;
	json_t *labels;		/* of --label and --label-file; NULL: none */
	json_t *marks;		/* labels of berth's own, of --mark; NULL: none */
	int interactive;	/* a service's main command has a stdin that stays open */
	struct life life;	/* of a sandbox that lasts */
	uint64_t given[PARAM_GIVEN_WORDS];	/* a bit for each option that was read */
};

void runopts_init(struct runopts *o, const struct config *c);
/* Appends s, which is borrowed, to l.  ERR_LIMIT, ERR_NOMEM. */
int runopts_push(struct runopts_strings *l, const char *s, struct err *e);
/* Takes s of the heap over, until runopts_release(); frees it when it fails. */
int runopts_own(struct runopts *o, char *s, struct err *e);
/* Notes that option id was given, for runopts_given(). */
void runopts_note_given(struct runopts *o, int id);
int runopts_given(const struct runopts *o, int id);
void runopts_release(struct runopts *o);
/* The labels that its record has: its own, its image's (NULL: none), and the marks; a new object. */
json_t *runopts_labels(const struct runopts *o, const json_t *image_labels);
/* Whether value of --seccomp is the path of a JSON file. */
int runopts_seccomp_is_file(const char *value);
/*
 * Before runopts_finish() of a sandbox that is to start: looks the devices up that were asked for,
 * and adds what they want; and the disks whose rates are limited.
 */
int runopts_devices(struct runopts *o, struct err *e);
/* Part of runopts_finish(): o->spec.seccomp from the name or file that is asked for. */
int runopts_choose_seccomp(struct runopts *o, struct err *e);
/*
 * Completes o->spec from the configuration, the image (NULL: none, a plain
 * root file system) and the command words.  id_base, id and layers are the
 * caller's.
 */
int runopts_finish(struct runopts *o, const struct image *im, char **command, size_t words, struct err *e);
/* Part of runopts_finish(): the set of enum loosened. */
uint32_t runopts_loosened(const struct runopts *o);
/*
 * One line on stderr if options make the sandbox less confined than the default; for people, so
 * it never fails.
 */
void runopts_tell_loosened(const struct runopts *o, const char *prog);

#endif
