/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S60 of SECURITY.md. */
#include "manager/api/uisession.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"

#define LINK_PREFIX "berth_link_"
#define SESSION_PREFIX "berth_ui_"
#define RANDOM 32

struct pass {
	struct pass *next;	/* the newest first */
	int is_link;
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct http_who who;	/* of a session: with its hash and its end */
	uint64_t ends_ms;
};

struct uisessions {
	pthread_mutex_t lock;
	struct pass *first;
};

struct uisessions *uisessions_new(void)
{
	struct uisessions *u = calloc(1, sizeof(*u));

	if (u)
		pthread_mutex_init(&u->lock, NULL);
	return u;
}

void uisessions_free(struct uisessions *u)
{
	struct pass *p, *next;

	for (p = u ? u->first : NULL; p; p = next) {
		next = p->next;
		free(p);
	}
	if (u)
		pthread_mutex_destroy(&u->lock);
	free(u);
}

static void drop_pass(struct pass **at)
{
	struct pass *p = *at;

	*at = p->next;
	free(p);
}

/* With the lock held. */
static void drop_ended_passes(struct uisessions *u)
{
	const uint64_t now = clock_ms();
	struct pass **at = &u->first;

	while (*at)
		if ((*at)->ends_ms <= now)
			drop_pass(at);
		else
			at = &(*at)->next;
}

/* Of one name and kind; *ret_last is where the oldest is. */
static unsigned count_passes(struct uisessions *u, const char *name, int is_link, struct pass ***ret_last)
{
	struct pass **at;
	unsigned n = 0;

	for (at = &u->first; *at; at = &(*at)->next) {
		if ((*at)->is_link != is_link || strcmp((*at)->who.name, name) != 0)
			continue;
		*ret_last = at;
		n++;
	}
	return n;
}

static struct pass *new_pass(const struct http_who *who, int is_link, uint64_t life_ms, char ret[UISESSION_SECRET],
			     struct err *e)
{
	struct pass *p = calloc(1, sizeof(*p));
	unsigned char bytes[RANDOM];
	size_t n;

	_Static_assert(sizeof(LINK_PREFIX) + 2 * RANDOM <= UISESSION_SECRET, "a link fits");
	_Static_assert(sizeof(p->hash) == sizeof(who->session), "it is the hash");
	if (!p || getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		if (p)
			err_sys(e, "getrandom");
		else
			err_nomem(e);
		free(p);
		return NULL;
	}
	strcpy(ret, is_link ? LINK_PREFIX : SESSION_PREFIX);
	n = strlen(ret);
	hex_format(ret + n, bytes, sizeof(bytes));
	OPENSSL_cleanse(bytes, sizeof(bytes));
	SHA256((const unsigned char *)ret, strlen(ret), p->hash);
	p->is_link = is_link;
	p->who = *who;
	p->who.link = is_link;
	p->who.ends_ms = p->ends_ms = clock_ms() + life_ms;
	if (is_link)
		memset(p->who.session, 0, sizeof(p->who.session));
	else
		memcpy(p->who.session, p->hash, sizeof(p->hash));
	return p;
}

static void keep_pass(struct uisessions *u, struct pass *p)
{
	p->next = u->first;
	u->first = p;
}

int uisessions_link(struct uisessions *u, const struct http_who *who, uint64_t life_ms, char ret[UISESSION_SECRET],
		    struct err *e)
{
	struct pass *p = new_pass(who, 1, life_ms, ret, e), **last = NULL;
	int r = 0;

	if (!p)
		return -1;
	pthread_mutex_lock(&u->lock);
	drop_ended_passes(u);
	if (count_passes(u, who->name, 1, &last) < UISESSION_LINKS_MAX)
		keep_pass(u, p);
	else
		r = err_set(e, ERR_LIMIT, "%d links of %s wait already; hint: they end by themselves", UISESSION_LINKS_MAX,
			    who->name);
	pthread_mutex_unlock(&u->lock);
	if (r < 0)
		free(p);
	return r;
}

int uisessions_open(struct uisessions *u, const struct http_who *who, uint64_t life_ms, char ret[UISESSION_SECRET],
		    struct err *e)
{
	struct pass *p = new_pass(who, 0, life_ms, ret, e), **last = NULL;

	if (!p)
		return -1;
	pthread_mutex_lock(&u->lock);
	drop_ended_passes(u);
	if (count_passes(u, who->name, 0, &last) >= UISESSION_EACH_MAX)
		drop_pass(last);
	keep_pass(u, p);
	pthread_mutex_unlock(&u->lock);
	return 0;
}

int uisessions_is_one(const char *token)
{
	return !strncmp(token, LINK_PREFIX, strlen(LINK_PREFIX)) || !strncmp(token, SESSION_PREFIX, strlen(SESSION_PREFIX));
}

int uisessions_check(struct uisessions *u, const char *token, struct http_who *ret)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct pass **at;
	int found = 0;

	SHA256((const unsigned char *)token, strlen(token), hash);
	pthread_mutex_lock(&u->lock);
	drop_ended_passes(u);
	for (at = &u->first; *at; at = &(*at)->next) {
		if (CRYPTO_memcmp((*at)->hash, hash, sizeof(hash)) != 0)
			continue;
		*ret = (*at)->who;
		found = 1;
		if ((*at)->is_link)
			drop_pass(at);
		break;
	}
	pthread_mutex_unlock(&u->lock);
	return found;
}

static int is_by_session(const struct http_who *who)
{
	static const unsigned char none[sizeof(who->session)];

	return memcmp(who->session, none, sizeof(none)) != 0;
}

static struct pass **find_ui_session(struct uisessions *u, const struct http_who *who)
{
	struct pass **at = &u->first;

	while (*at && ((*at)->is_link || CRYPTO_memcmp((*at)->hash, who->session, sizeof(who->session)) != 0))
		at = &(*at)->next;
	return at;
}

int uisessions_hold(struct uisessions *u, const struct http_who *who)
{
	int r;

	if (!is_by_session(who))
		return 1;
	pthread_mutex_lock(&u->lock);
	drop_ended_passes(u);
	r = *find_ui_session(u, who) != NULL;
	pthread_mutex_unlock(&u->lock);
	return r;
}

void uisessions_end(struct uisessions *u, const struct http_who *who)
{
	struct pass **at;

	if (!is_by_session(who))
		return;
	pthread_mutex_lock(&u->lock);
	at = find_ui_session(u, who);
	if (*at)
		drop_pass(at);
	pthread_mutex_unlock(&u->lock);
}

void uisessions_reload(struct uisessions *u, int (*holds)(void *context, const struct http_who *who), void *context)
{
	struct pass **at;

	pthread_mutex_lock(&u->lock);
	at = &u->first;
	while (*at)
		if (holds(context, &(*at)->who))
			at = &(*at)->next;
		else
			drop_pass(at);
	pthread_mutex_unlock(&u->lock);
}
