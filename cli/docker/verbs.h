/* SPDX-License-Identifier: Apache-2.0 */
/* verbs - one declaration per row of the table in verbs.c, and what verbs share. */
#ifndef BERTH_CLI_DOCKER_VERBS_H
#define BERTH_CLI_DOCKER_VERBS_H

#include "cli/docker/door.h"

extern const struct command door_attach, door_build, door_buildx, door_builder, door_commit,
	door_completion_verb, door_compose, door_container_prune, door_context_ls,
	door_context_show, door_context_use, door_cp, door_create, door_diff, door_events,
	door_container_inspect, door_exec, door_export, door_history, door_image_inspect, door_image_prune, door_images,
	door_import, door_info, door_inspect, door_kill, door_load_verb, door_login, door_logout,
	door_logs, door_network_connect, door_network_create, door_network_disconnect,
	door_network_inspect, door_network_ls, door_network_prune, door_network_rm, door_pause,
	door_port, door_ps, door_pull, door_push, door_rename, door_restart, door_rm, door_rmi,
	door_run, door_save, door_search, door_start, door_stats, door_stop, door_system_df,
	door_builder_prune, door_system_prune, door_tag, door_top, door_unpause, door_update, door_version,
	door_volume_create, door_volume_inspect, door_volume_ls, door_volume_prune, door_volume_rm,
	door_wait;

/* ---- create and run (body.c, create.c, join.c) ---- */

/* The variables of --env-file and --env, as NAME=VALUE; a name alone is ours, or none. */
int door_env(const struct door_args *a, json_t *list, struct err *e);
/* The flags of docker run and create as the body of POST /containers/create; words: IMAGE CMD. */
json_t *door_body(const struct door_args *a, struct err *e);
/* Those of docker update as the body of POST /containers/{id}/update. */
json_t *door_update_body(const struct door_args *a, struct err *e);
int door_run_main(const struct command *self, int argc, char **argv);
int door_create_main(const struct command *self, int argc, char **argv);
/* Of --publish and --expose: members of PortBindings and ExposedPorts. */
int door_publish(json_t *bindings, json_t *exposed, const char *text, struct err *e);
int door_expose(json_t *exposed, const char *text, struct err *e);
/* --mount as an item of Mounts; -v as a bind with an absolute source; both new references. */
json_t *door_mount(const char *text, struct err *e);
json_t *door_bind(const char *text, struct err *e);
/* Of --gpus: an item of DeviceRequests. */
json_t *door_gpus(const char *text, struct err *e);
/* SOURCE[:TARGET[:PERMISSIONS]] as {"PathOnHost", "PathInContainer", "CgroupPermissions"}. */
json_t *door_device(const char *text, struct err *e);
/* "/dev/sda:1mb" and "/dev/sda:1000" as {"Path", "Rate"}. */
json_t *door_rate_bytes(const char *text, struct err *e);
json_t *door_rate_operations(const char *text, struct err *e);
int64_t door_bytes(const char *text, const char *flag, struct err *e); /* -1: e; "-1" is -2 */

struct door_join {
	int in, out, err; /* streams that are ours */
	const char *keys; /* to detach by; NULL: docker's */
	int no_signals;
	int ends; /* the end of our stdin is that of the command's */
	int all;  /* from the first byte on */
};

/* Waits until the sandbox is gone, for --rm. */
int door_join(struct sandbox_ref *s, const struct door_join *j, int *ret_status, struct err *e);
/* Until the sandbox is gone, as --rm says. */
void door_await_removal(struct sandbox_ref *s);
/* Until it does not run any more, for others, too: at most a few seconds. */
void door_await_end(struct sandbox_ref *s);
/* Starts it; -1 with an error in docker's words. */
int door_start_it(struct sandbox_ref *s, unsigned awaited, struct err *e);
/* 126 or 127, and why on stderr, after head. */
int door_exec_failed(const char *head, const struct err *why);
/* Fetches an image, its progress on stderr. */
int door_fetch(const char *image, const char *platform, int quiet, struct err *e);

/* ---- what verbs are made of ---- */

typedef int door_work(const struct door_args *a, struct err *e);
/* Parses, works, tells the error: the exit status. */
int door_do(const struct command *self, int argc, char **argv, int least, int most,
	    door_work *work);
/* A row of a table of verbs with one main function; the table has the verb. */
struct door_row {
	const char *verb;
	int least, most;
	door_work *work;
};
int door_dispatch(const struct door_row *rows, const struct command *self, int argc, char **argv);

/* ---- others ---- */

/* Of --filter: {"label":["a=b"]}, a new reference. */
json_t *door_filters(const struct door_args *a, struct err *e);
/* "512MiB" as docker's client says sizes: of 1024, or of 1000. */
const char *door_size(double bytes, int of_1000, char *room, size_t n);
int door_store(struct sandbox_ref *s, struct err *e);
/* The whole of an image, as inspect shows it; NULL with ERR_NOT_FOUND "No such image: X". */
json_t *door_image_document(struct sandbox_ref *s, const char *name, struct err *e);
json_t *door_network_document(struct sandbox_ref *s, const char *name, struct err *e);
json_t *door_volume_document(struct sandbox_ref *s, const char *name, struct err *e);
json_t *door_container_document(struct sandbox_ref *s, const char *name, struct err *e);
/* One document by a template, or for "json" as JSON in one line. */
int door_document(const char *format, json_t *doc, struct err *e);
/* Rows of the lists of containers and of images; whole: nothing is cut short. */
json_t *door_container_row(const json_t *summary, int whole);
json_t *door_image_row(const json_t *image, const char *name, int whole);
/* "a=b,c=d", a new reference. */
json_t *door_labels_text(const json_t *labels);
/* KEY=VALUE or KEY, a list of them, as an object of strings: a new reference. */
json_t *door_map(const json_t *list);
/*
 * What a prune removes of each noun: its list, with a blank line behind it, on stdout; its bytes
 * on disk are added to *freed.  filters: engine_accept() took them.
 */
/* Tells what a prune removed: head, a line for each name, a blank one; nothing for none.  0 or -1. */
int door_told_gone(const char *head, const json_t *names);
typedef int door_prune(json_t *filters, double *freed, struct err *e);
door_prune door_prune_containers, door_prune_networks, door_prune_volumes, door_prune_images, door_prune_builds;

/* berth build --json with these words: its progress as docker's, the exit status. */
int door_run_build(const char *const *words, int quiet);

/* 1: yes was said, or --force; 0: no. */
int door_sure(const struct door_args *a, const char *what);

#endif
