/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote - registries for berth-image: names, credentials, and requests to berth-http, the process
 * that speaks with the network.
 *
 * berth-image trusts nothing that comes back: a document is compared with its digest before it is
 * parsed, and a layer goes straight into the confined unpacker, which hashes it.
 */
#ifndef BERTH_ROOTFS_REGISTRY_REMOTE_H
#define BERTH_ROOTFS_REGISTRY_REMOTE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/registry/origin.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/oci.h"
#include "rootfs/store/ref.h"

#define REMOTE_ENDPOINTS_MAX 8
#define REMOTE_REPO_MAX 256
#define REMOTE_LAYERS_AT_ONCE 16

struct remote_login {
	const char *user, *password;
};

struct remote_options {		/* all borrowed; the words of a list are separated by newlines */
	const char *state_dir;		/* where auth.json is */
	const char *docker_config;	/* docker's config.json, or NULL */
	const char *mirrors;		/* "REGISTRY=MIRROR[:PORT][/PREFIX]" */
	const char *insecure;		/* "HOST[:PORT]": plain http */
	const char *realms;		/* "HOST[:PORT]=REALMHOST[:PORT]" */
	const char *ca_file;		/* "" when none */
	int anonymous;			/* use no credentials */
	/* a login for the registry itself, not its mirrors; or NULL */
	const struct remote_login *login;
	int all_insecure;		/* the registries named by references speak plain http */
	unsigned int parallel, retries;
	uint64_t stall_ms, deadline_ms;	/* deadline_ms 0: none */
	uint64_t upload_chunk;		/* bytes of a blob sent at once; 0: the whole blob */
};

struct remote_endpoint {
	char base[ORIGIN_TEXT_MAX];		/* "https://HOST[:PORT]" */
	char repo[REMOTE_REPO_MAX];
	char account[ORIGIN_TEXT_MAX];		/* the key under which a login is kept */
};

/* A repository and the endpoints to ask for it: its mirrors, then itself. */
struct remote_target {
	char registry[ORIGIN_TEXT_MAX];		/* "docker.io", "HOST[:PORT]" */
	char repo[REMOTE_REPO_MAX];		/* "library/debian" */
	char ref[REF_TAG_MAX + DIGEST_SIZE];	/* digest, else tag, else "latest" */
	struct remote_endpoint at[REMOTE_ENDPOINTS_MAX];
	size_t count;
};

/* Resolves a reference. mirrors: 0 for a push. ERR_CONFIG if the configuration is wrong. */
int remote_target(const struct ref *r, const struct remote_options *o, int mirrors, struct remote_target *ret,
		  struct err *e);
/*
 * Finds the registry that the word of a login means: "docker.io", "HOST[:PORT]", with or without
 * scheme and path.
 */
int remote_registry_target(const char *word, const struct remote_options *o, struct remote_target *ret, struct err *e);

struct remote {
	int sock;
	pid_t pid;
	int signal_fd;			/* a descriptor whose signal ends every wait, or -1 */
	unsigned int next_id;
	uint64_t deadline_ms;		/* on the monotonic clock, 0: none */
	void (*retrying)(void *ctx, const char *why, uint64_t delay_ms);	/* may be NULL */
	void *ctx;
};

#define REMOTE_INIT ((struct remote){ .sock = -1, .signal_fd = -1 })

enum remote_event_kind { REMOTE_PROGRESS, REMOTE_DONE, REMOTE_FAILED };

struct remote_event {
	enum remote_event_kind kind;
	unsigned int id;
	unsigned int endpoint;
	uint64_t bytes;
	char type[128], digest[DIGEST_SIZE + 8];
	int existed, mounted;
	struct err err;			/* the error of REMOTE_FAILED */
};

/*
 * Starts berth-http with the credentials of these targets (and of no other
 * registry).  login, when not NULL: user and password instead of the stored ones.
 */
int remote_open(struct remote *r, const struct remote_options *o, const struct remote_target *const *targets,
		size_t count, const struct remote_login *login, struct err *e);
void remote_close(struct remote *r);

/*
 * Send a request; each returns its id, or -1. fd is sent along and stays the caller's. first: the
 * endpoint to begin with.
 */
int remote_get_blob(struct remote *r, const struct remote_target *t, const char *digest, uint64_t size, int out_fd,
		    struct err *e);
/* Asks whether the registry has the blob or can mount it from there: existed, mounted, or neither. */
int remote_have_blob(struct remote *r, const struct remote_target *t, const char *digest, const char *mount_from,
		     struct err *e);
int remote_push_blob(struct remote *r, const struct remote_target *t, const char *digest, uint64_t size,
		     const char *mount_from, int in_fd, struct err *e);

/*
 * Waits for an event until timeout_ms (-1: the deadline). Returns 1, or 0 if none came in time, or
 * -1: ERR_TIMEOUT at the deadline, ERR_BUSY after a signal, ERR_INTERNAL when berth-http is gone.
 * Retries are reported through retrying().
 */
int remote_next(struct remote *r, int timeout_ms, struct remote_event *ret, struct err *e);

struct remote_document {
	char *text;		/* the caller frees */
	size_t len;
	char type[128];
	char digest[DIGEST_SIZE];	/* of the text */
};

/*
 * Fetches a manifest or index by tag or digest, and compares its digest with ref and with the one
 * the registry declares.
 */
int remote_get_manifest(struct remote *r, const struct remote_target *t, const char *ref, struct remote_document *ret,
			struct err *e);
/* Fetches a small blob, whole and compared with its digest. */
int remote_get_document(struct remote *r, const struct remote_target *t, const struct oci_desc *d, size_t max,
			char **ret, size_t *ret_len, struct err *e);
int remote_put_manifest(struct remote *r, const struct remote_target *t, const char *ref, const char *type,
			const char *text, size_t n, struct err *e);
/* Requests /v2/, logging in, to learn whether the registry accepts us. */
int remote_ping(struct remote *r, const struct remote_target *t, struct err *e);

#endif
