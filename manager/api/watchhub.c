/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/watchhub.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/encoding.h"
#include "base/mem.h"

/* ---- places ---- */

struct watchhub_place {
	struct watchhub_place *next;
	char box[65], owner[65], id[WATCHHUB_ID_SIZE]; /* id "": nothing is kept */
	int taken;
	void *what;
	void (*release)(void *what);
};

struct watchhub {
	pthread_mutex_t lock;
	struct watchhub_place *places;
};

struct watchhub *watchhub_new(void)
{
	struct watchhub *h = calloc(1, sizeof(*h));

	if (h)
		pthread_mutex_init(&h->lock, NULL);
	return h;
}

static void place_free(struct watchhub_place *p)
{
	if (p->what)
		p->release(p->what);
	free(p);
}

void watchhub_free(struct watchhub *h)
{
	struct watchhub_place *p;

	if (!h)
		return;
	while ((p = h->places)) {
		h->places = p->next;
		place_free(p);
	}
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* With the lock held: takes those that are over off the list, and returns them. */
static struct watchhub_place *take_over_watch_place(struct watchhub *h, int (*is_over)(void *what))
{
	struct watchhub_place **at = &h->places, *p, *over = NULL;

	while ((p = *at)) {
		if (!p->what || p->taken || !is_over(p->what)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->next = over;
		over = p;
	}
	return over;
}

/* With the lock held. */
static int has_room_for_watch(const struct watchhub *h, const struct watchhub_place *more, struct err *e)
{
	const struct watchhub_place *p;
	unsigned box = 0, own = 0, others = 0;

	for (p = h->places; p; p = p->next) {
		const int his = !strcmp(p->owner, more->owner);

		own += his;
		others += !his;
		box += !strcmp(p->box, more->box);
	}
	if (box >= WATCHHUB_SANDBOX_MAX)
		return err_set(e, ERR_LIMIT, "sandbox %s has %u watches, which is the most",
			       more->box, box);
	if (own >= (WATCHHUB_MAX - others) / 2)
		return err_set(e, ERR_LIMIT, "%u directories are watched for %s, which is the most",
			       own, more->owner);
	return 0;
}

struct watchhub_place *watchhub_enter(struct watchhub *h, const char *box, const char *owner,
				      int (*is_over)(void *what), struct err *e)
{
	struct watchhub_place *p = calloc(1, sizeof(*p)), *over, *next;
	int r;

	if (!p) {
		err_nomem(e);
		return NULL;
	}
	snprintf(p->box, sizeof(p->box), "%s", box);
	snprintf(p->owner, sizeof(p->owner), "%s", owner);
	pthread_mutex_lock(&h->lock);
	over = take_over_watch_place(h, is_over);
	r = has_room_for_watch(h, p, e);
	if (r == 0) {
		p->next = h->places;
		h->places = p;
	}
	pthread_mutex_unlock(&h->lock);
	for (; over; over = next) {
		next = over->next;
		place_free(over);
	}
	if (r == 0)
		return p;
	free(p);
	return NULL;
}

void watchhub_leave(struct watchhub *h, struct watchhub_place *p)
{
	struct watchhub_place **at;

	if (!p)
		return;
	pthread_mutex_lock(&h->lock);
	for (at = &h->places; *at != p; at = &(*at)->next)
		;
	*at = p->next;
	pthread_mutex_unlock(&h->lock);
	place_free(p);
}

int watchhub_keep(struct watchhub *h, struct watchhub_place *p, void *what,
		  void (*release)(void *what), char ret_id[WATCHHUB_ID_SIZE], struct err *e)
{
	unsigned char random[(WATCHHUB_ID_SIZE - 1) / 2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, "get random bytes");
	hex_format(ret_id, random, sizeof(random));
	pthread_mutex_lock(&h->lock);
	memcpy(p->id, ret_id, WATCHHUB_ID_SIZE);
	p->release = release;
	p->what = what;
	pthread_mutex_unlock(&h->lock);
	return 0;
}

void *watchhub_take(struct watchhub *h, const char *box, const char *id,
		    struct watchhub_place **ret, struct err *e)
{
	struct watchhub_place *p;
	void *what = NULL;

	pthread_mutex_lock(&h->lock);
	for (p = h->places; p; p = p->next)
		if (p->id[0] && !strcmp(p->id, id) && !strcmp(p->box, box))
			break;
	if (!p) {
		err_set(e, ERR_NOT_FOUND, "no watcher of that id in this sandbox");
	} else if (p->taken) {
		err_set(e, ERR_BUSY, "another request reads this watcher");
	} else {
		p->taken = 1;
		what = p->what;
		*ret = p;
	}
	pthread_mutex_unlock(&h->lock);
	return what;
}

void watchhub_put(struct watchhub *h, struct watchhub_place *p)
{
	pthread_mutex_lock(&h->lock);
	p->taken = 0;
	pthread_mutex_unlock(&h->lock);
}

/* ---- records ---- */

static const char *const types[] = {
	['c'] = "EVENT_TYPE_CREATE", ['w'] = "EVENT_TYPE_WRITE", ['r'] = "EVENT_TYPE_REMOVE",
	['m'] = "EVENT_TYPE_RENAME", ['a'] = "EVENT_TYPE_CHMOD", ['s'] = "EVENT_TYPE_UNSPECIFIED",
};

const char *watchrecord_type(const struct watchrecord *r)
{
	return types[(unsigned char)r->what];
}

/* Behind the NUL that ends the n-th string from at, or NULL. */
static const char *behind(const char *at, const char *end, unsigned n)
{
	while (at && n--) {
		at = memchr(at, '\0', (size_t)(end - at));
		at = at ? at + 1 : NULL;
	}
	return at;
}

int watchrecord_next(const char **at, const char *end, int with_files, struct watchrecord *ret,
		     struct err *e)
{
	const char *p = *at, *file = behind(p, end, 1), *next = file;
	unsigned char what;

	if (p == end)
		return 0;
	what = (unsigned char)*p;
	if (file && with_files && what != 's')
		next = behind(file, end, 2);
	if (!next && end - p <= WATCHRECORD_MAX)
		return 0;
	if (!next || what >= ARRAY_LEN(types) || !types[what] || p[1] != ' ')
		return err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	*ret = (struct watchrecord){ .what = (char)what, .name = p + 2 };
	if (next != file && file[0]) {
		ret->has_file = 1;
		if (filerecord_next(&file, next, &ret->file, e) < 1)
			return -1;
	}
	*at = next;
	return 1;
}
