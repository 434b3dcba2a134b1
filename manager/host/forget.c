/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/forget.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/record.h"
#include "manager/host/volume_own.h"

#define TRIES 1000
#define LOOK_NS 10000000

int forget_claim(struct registry *r, const char *id, struct claim *ret, struct err *e)
{
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		if (!path_has(r->kept_fd, id))
			return err_set(e, ERR_NOT_FOUND, "sandbox %s is gone", id);
		if (registry_reclaim(r, id, NULL, ret, e) == 0)
			return 0;
		if ((e->code != ERR_EXISTS && e->code != ERR_BUSY) ||
		    record_is_there(r->sandboxes_fd, id))
			break;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
	return e->code == ERR_EXISTS || e->code == ERR_BUSY ?
	       err_set(e, ERR_BUSY, "sandbox %s was started meanwhile, or its files are in use; hint: try again", id) : -1;
}

/* The volumes that go with it, as it removes itself; NULL without any. */
static json_t *own_of(struct registry *r, const char *id)
{
	autojson json_t *own = volume_own_load(r, id), *record = NULL;
	struct err ignored;

	if (!own)
		return NULL;
	record = record_load_kept(r, id, &ignored);
	return record && record_auto_remove(record) ? take_ptr(&own) : NULL;
}

int forget_alone(struct registry *r, const char *id, struct err *e)
{
	autojson json_t *own = NULL;
	struct claim c;
	struct err ignored;
	int claimed = forget_claim(r, id, &c, e) == 0, result;

	if (!claimed && e->code == ERR_BUSY)
		return -1;
	own = own_of(r, id);
	result = registry_forget(r, id, e);
	if (claimed)
		registry_release(r, &c, &ignored);
	if (result == 0)
		volume_own_remove(r, own);
	return result;
}
