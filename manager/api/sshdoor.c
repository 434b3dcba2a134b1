/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S64 of SECURITY.md. */
#include "manager/api/sshdoor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/joint.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/listenaddr.h"
#include "manager/api/uisession.h"
#include "manager/host/conf.h"
#include "manager/keeper/sshdesk.h"
#include "manager/service/dlog.h"
#include "runtime/ssh/server.h"

#define SSH_UNKNOWN 16		/* connections of clients that have not logged in */
#define SSH_UNKNOWN_EACH 8	/* of these from one address, which locks no other out so */
#define SSH_PER_NAME 8		/* a name gets one of as many parts of the places */
#define SSH_LOOK_MS 1000	/* between two looks at whether the client has its rights still (S53) */
#define SSH_DENIED_MS 1000	/* before a client hears that it is not let in */
#define SSH_LOGIN_LATE_MS (SSH_LOGIN_MS + 5000)	/* berth-ssh ends a client earlier, unless the client has taken it over */
#define SSH_NAME 65

struct sshdoor {
	struct api *api;
	struct conf conf;
	int listen_fd;
	unsigned port;
	pthread_t thread;
	_Atomic int stopping;
	pthread_mutex_t lock;		/* guards the rest */
	pthread_cond_t ended;
	unsigned count, unknown;
	struct ssh_client *clients;
};

/* One connection, and its thread's. */
struct ssh_client {
	struct sshdoor *door;
	struct ssh_client *next;
	int fd;
	char peer[INET6_ADDRSTRLEN];
	struct http_who who;		/* name "": not logged in */
	unsigned tries;
	uint64_t login_until_ms, look_ms;
	char user[200];
	struct registry registry;
	struct config config;
};

/* ---- who may come in ---- */

struct ssh_seen {
	struct registry *registry;
	const struct http_who *who;
};

/* Upholds S19 of SECURITY.md. */
static int is_seen_by_ssh(void *ctx, const char *id)
{
	const struct ssh_seen *s = ctx;
	struct err ignored;
	autojson json_t *owner = NULL;
	const char *name;

	if (s->who->admin)
		return 1;
	owner = registry_load(s->registry, id, REGISTRY_OWNER, &ignored);
	name = json_string_value(json_object_get(owner, "name"));
	return name && !strcmp(name, s->who->name);
}

/* Counts the client as one of its name's: 0 if those have all their places. */
static int take_place(struct ssh_client *c, const struct http_who *who)
{
	struct sshdoor *d = c->door;
	const struct ssh_client *o;
	unsigned n = 0;

	pthread_mutex_lock(&d->lock);
	for (o = d->clients; o; o = o->next)
		n += !strcmp(o->who.name, who->name);
	if (n < (d->conf.ssh_max_connections + SSH_PER_NAME - 1) / SSH_PER_NAME) {
		c->who = *who;
		d->unknown--;
		n = 0;
	} else {
		n = 1;
	}
	pthread_mutex_unlock(&d->lock);
	return !n;
}

static void audit_login(const struct ssh_client *c, const char *what, const char *who, const char *id)
{
	dlog_json(DLOG_NOTICE, json_pack("{s:s,s:o,s:s,s:s}", "event", what, "who", dlog_text(who), "peer", c->peer, "id", id));
}

/* A wrong token, a foreign sandbox and none are answered alike.  A pass of the page opens the page alone (S60). */
static int log_in(void *ctx, const char *user, const char *password, char ret_id[65], struct err *e)
{
	struct ssh_client *c = ctx;
	const char *at = strrchr(user, '@'), *ref = at ? at + 1 : user;
	struct http_who who = { 0 };
	int kept, r = -1;

	/* berth-ssh counts them too, but reads what the client sends */
	if (c->tries >= SSH_LOGIN_TRIES)
		return err_set(e, ERR_DENIED, "denied");
	c->tries++;
	if ((size_t)(ref - user) < sizeof(c->user) && path_is_name(ref) && !uisessions_is_one(password) &&
	    api_check_token(c->door->api, password, &who) && !who.only[0]) {
		struct ssh_seen asks = { &c->registry, &who };

		r = registry_find_seen(&c->registry, ref, is_seen_by_ssh, &asks, ret_id, &kept, e);
	}
	if (r == 0 && !take_place(c, &who)) {
		audit_login(c, "ssh-crowded", who.name, "");
		r = -1;
	}
	if (r < 0) {
		ret_id[0] = '\0';
		audit_login(c, "ssh-denied", user, "");
		poll(NULL, 0, SSH_DENIED_MS);
		return err_set(e, ERR_DENIED, "denied");
	}
	snprintf(c->user, sizeof(c->user), "%.*s", at ? (int)(at - user) : 0, user);
	audit_login(c, "ssh-login", who.name, ret_id);
	return 0;
}

/* ---- one connection ---- */

static int is_ssh_over(void *ctx)
{
	struct ssh_client *c = ctx;
	const uint64_t now = clock_ms();

	if (atomic_load(&c->door->stopping))
		return 1;
	if (!c->who.name[0])
		return now >= c->login_until_ms;
	if (now < c->look_ms)
		return 0;
	c->look_ms = now + SSH_LOOK_MS;
	return !api_holds(c->door->api, &c->who);
}

static void serve_ssh(struct ssh_client *c)
{
	const struct sshdesk_login login = { log_in, is_ssh_over, c };
	struct pollfd p[SSHDESK_POLLS];
	struct sshdesk desk;
	struct err e = { 0 };

	c->login_until_ms = clock_ms() + SSH_LOGIN_LATE_MS;
	api_config(c->door->api, &c->config);
	if (registry_open(&c->registry, &c->config, &e) < 0 || sshdesk_open(&desk, &c->registry, "", c->fd, &login, &e) < 0) {
		dlog_error("a connection of SSH", &e);
		return;
	}
	fd_close(&c->fd);
	desk.user = c->user;
	do {
		sshdesk_polls(&desk, p);
		if (poll(p, SSHDESK_POLLS, SSH_LOOK_MS) < 0 && errno != EINTR)
			break;
	} while (sshdesk_serve(&desk, p, &e) == 0 && !is_ssh_over(c));
	sshdesk_close(&desk);
}

static void *run_ssh_client(void *ctx)
{
	struct ssh_client *c = ctx, **at;
	struct sshdoor *d = c->door;

	serve_ssh(c);
	fd_close(&c->fd);
	registry_close(&c->registry);
	pthread_mutex_lock(&d->lock);
	for (at = &d->clients; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	d->count--;
	d->unknown -= !c->who.name[0];
	pthread_cond_signal(&d->ended);
	pthread_mutex_unlock(&d->lock);
	free(c);
	return NULL;
}

/* With the lock held. */
static int has_unknown_place(const struct sshdoor *d, const struct ssh_client *c)
{
	const struct ssh_client *o;
	unsigned n = 0;

	for (o = d->clients; o; o = o->next)
		n += !o->who.name[0] && !strcmp(o->peer, c->peer);
	return d->count < d->conf.ssh_max_connections && d->unknown < SSH_UNKNOWN && n < SSH_UNKNOWN_EACH;
}

static void begin_ssh_client(struct sshdoor *d, int fd, const struct sockaddr_storage *a)
{
	struct ssh_client *c = calloc(1, sizeof(*c));
	pthread_attr_t attr;
	pthread_t thread;
	int r = -1;

	if (!c) {
		close(fd);
		return;
	}
	*c = (struct ssh_client){ .door = d, .fd = fd, .registry = REGISTRY_INIT };
	inet_ntop(a->ss_family, a->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr :
							    (const void *)&((const struct sockaddr_in *)a)->sin_addr, c->peer, sizeof(c->peer));
	joint_keep_alive(fd);
	pthread_mutex_lock(&d->lock);
	if (has_unknown_place(d, c) && pthread_attr_init(&attr) == 0) {
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		c->next = d->clients;
		d->clients = c;
		d->count++;
		d->unknown++;
		r = pthread_create(&thread, &attr, run_ssh_client, c);
		pthread_attr_destroy(&attr);
		if (r) {
			d->clients = c->next;
			d->count--;
			d->unknown--;
		}
	}
	pthread_mutex_unlock(&d->lock);
	if (r) {
		close(fd);
		free(c);
	}
}

static void *accept_ssh(void *ctx)
{
	struct sshdoor *d = ctx;

	while (!atomic_load(&d->stopping)) {
		struct pollfd p = { .fd = d->listen_fd, .events = POLLIN };
		struct sockaddr_storage a;
		socklen_t n = sizeof(a);
		int fd;

		if (poll(&p, 1, SSH_LOOK_MS) < 1)
			continue;
		fd = accept4(d->listen_fd, (struct sockaddr *)&a, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			begin_ssh_client(d, fd, &a);
		else if (errno != EAGAIN && errno != ECONNABORTED)
			poll(NULL, 0, SSH_LOOK_MS);	/* it waits still: too many descriptors, no memory */
	}
	return NULL;
}

/* ---- configuration, start and end ---- */

static int parse_ssh_listen(const struct config *config, const struct conf *c, struct sockaddr_storage *a, socklen_t *n, struct err *e)
{
	if (!config->daemon_token_file[0])
		return err_set(e, ERR_CONFIG, "ssh.listen needs daemon.token_file: a token is the password");
	return listenaddr_parse("ssh.listen", c->ssh_listen, "127.0.0.1:2222", a, n, e) < 0 ? -1 : 0;
}

int sshdoor_check_config(const struct config *c, struct err *e)
{
	autofree struct conf *conf = calloc(1, sizeof(*conf));
	struct sockaddr_storage a;
	socklen_t n;

	if (!conf)
		return err_nomem(e);
	return conf_load(conf, c, e) < 0 ? -1 : conf->ssh_listen[0] ? parse_ssh_listen(c, conf, &a, &n, e) : 0;
}

static void free_sshdoor(struct sshdoor *d)
{
	fd_close(&d->listen_fd);
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->ended);
	free(d);
}

/* The key is made before the first client, and berth-ssh is there. */
static int prepare_key(const struct config *c, struct err *e)
{
	struct registry r = REGISTRY_INIT;
	char known[300];
	int result = registry_open(&r, c, e) < 0 || sshdesk_key(&r, known, sizeof(known), e) < 0 ? -1 : 0;

	registry_close(&r);
	return result;
}

int sshdoor_start(struct api *a, struct sshdoor **ret, struct err *e)
{
	struct sshdoor *d = calloc(1, sizeof(*d));
	struct sockaddr_storage address;
	struct config c;
	socklen_t n;

	*ret = NULL;
	if (!d)
		return err_nomem(e);
	d->api = a;
	d->listen_fd = -1;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->ended, NULL);
	api_config(a, &c);
	if (conf_load(&d->conf, &c, e) < 0) {
		free_sshdoor(d);
		return -1;
	}
	if (!d->conf.ssh_listen[0]) {
		free_sshdoor(d);
		return 0;
	}
	if (parse_ssh_listen(&c, &d->conf, &address, &n, e) < 0 || prepare_key(&c, e) < 0 ||
	    (d->listen_fd = listenaddr_listen(d->conf.ssh_listen, &address, n, &d->port, e)) < 0) {
		free_sshdoor(d);
		return -1;
	}
	if (pthread_create(&d->thread, NULL, accept_ssh, d)) {
		free_sshdoor(d);
		return err_sys(e, "start the door for SSH");
	}
	dlog_note(DLOG_NOTICE, "SSH on %s, port %u", d->conf.ssh_listen, d->port);
	*ret = d;
	return 0;
}

void sshdoor_stop(struct sshdoor *d)
{
	if (!d)
		return;
	atomic_store(&d->stopping, 1);
	pthread_join(d->thread, NULL);
	pthread_mutex_lock(&d->lock);
	while (d->count)
		pthread_cond_wait(&d->ended, &d->lock);
	pthread_mutex_unlock(&d->lock);
	free_sshdoor(d);
}
