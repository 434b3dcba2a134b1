/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stored - keeps checkpoints in the storage: the file of berth checkpoint export, in pieces.
 *
 * The store has a record of each, stored/o/NAME of the operator's and stored/t/TENANT/NAME, and
 * stored-bytes/... have the sums of each tenant and of all. A piece is counted, in one batch with
 * its record, before it is sent; so the sums are never too small, also if several berthds share the
 * store. A record has "storing" until all of the file is stored, and "removing" before its pieces
 * are removed; records in these states that a berthd of this state directory left are removed by
 * the next berthd. Upholds S41 of SECURITY.md.
 *
 * Pieces are checkpoints/o/NAME/UPLOAD/NUMBER and checkpoints/t/TENANT/NAME/UPLOAD/NUMBER.
 */
#ifndef BERTH_MANAGER_SERVICE_STORED_H
#define BERTH_MANAGER_SERVICE_STORED_H

#include <stdint.h>

#include "manager/ledger/ledger.h"
#include "manager/objects/storage.h"
#include "manager/service/service.h"

#define STORED_PIECE (2u << 20) /* bytes of a piece; each piece counts for that many */
#define STORED_OBJECT (STORED_PIECE + SEAL_BYTES)

/* A checkpoint that is being sent; used by one thread. */
struct stored;

/*
 * Begins to store a checkpoint. whose: "" for the operator's, or the tenant. ERR_EXISTS,
 * ERR_UNSUPPORTED without a storage.
 */
int stored_begin(struct service *s, const char *whose, const char *name, struct stored **ret,
		 struct err *e);
/* Sends the next piece, of at most STORED_PIECE bytes: ERR_LIMIT, ERR_NOT_FOUND if it was removed. */
int stored_add(struct stored *u, const void *data, size_t n, struct err *e);
/*
 * Ends it when it is whole: returns its record with these members, a new reference, or NULL with e.
 * Consumes u and members.
 */
json_t *stored_end(struct stored *u, json_t *members, struct err *e);
/* Abandons it. Consumes u, which may be NULL. */
void stored_abort(struct stored *u);

/* Lists the records of whose, or all with NULL: a new array, or NULL. */
json_t *stored_list(struct service *s, const char *whose, struct err *e);
/* Returns the record of a whole checkpoint: ERR_NOT_FOUND. */
json_t *stored_find(struct service *s, const char *whose, const char *name, struct err *e);
/*
 * Reads piece i of a record from stored_find() into a buffer with the ceiling STORED_OBJECT: 1; 0
 * at the end. ERR_CORRUPT if it is not what was stored (S55), or if that cannot be checked.
 */
int stored_piece(struct service *s, const json_t *record, uint64_t i, struct buf *ret,
		 struct err *e);
/* Removes a checkpoint, also one that is being sent: ERR_NOT_FOUND. */
int stored_remove(struct service *s, const char *whose, const char *name, struct err *e);
/* Removes the unfinished ones of berthds that have ended. */
void stored_look(struct service *s);

/*
 * storedsum - the bytes that a tenant, and all tenants together, have in the storage:
 * stored-bytes/t/TENANT and stored-bytes/all of the ledger.
 *
 * A sum is read with its version and written in one batch with the record of what it counts, before anything is sent; so it is
 * never too small, also when several berthds share the store.
 */

#define STOREDSUM_TRIES 1000	/* each try fails only if another process writes a sum at that moment */

struct storedsum {
	char key[200], value[24];
	uint64_t bytes, version;
};

/* Reads a sum; whose: a tenant, or "" for all. */
int storedsum_read(struct service *s, const char *whose, struct storedsum *ret, struct err *e);
/*
 * Returns the operation that adds and subtracts so many bytes, if the sum has not changed; t must
 * last as long as the operation.
 */
struct ledger_op storedsum_set(struct storedsum *t, uint64_t more, uint64_t less);
/* Gives [tenant] stored_bytes of a tenant. */
int storedsum_limit(struct service *s, const char *whose, uint64_t *ret, struct err *e);

/*
 * storedfolder - stores workspaces (storage_path), and counts the bytes of each tenant.
 *
 * A tenant's folder is tenants/TENANT/..., and stored-folder/t/TENANT/SHA256 of its path in the ledger has its bytes: its pieces,
 * not compressed, each once, and its manifest. They are counted with the tenant's checkpoints (struct storedsum), before they are sent.
 * While a folder is stored again it counts for the larger of both. Upholds S41 of SECURITY.md.
 */

/*
 * Calls storage_put_folder(); ERR_LIMIT, and the folder is unchanged, if it is more than its tenant
 * may have.
 */
int storedfolder_put(struct service *s, const char *path, int dir_fd, struct err *e);

#endif
