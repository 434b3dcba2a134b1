/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/api.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/boxindex.h"
#include "manager/api/http_state.h"
#include "manager/api/schema.h"
#include "manager/api/tokens.h"
#include "manager/api/uisession.h"
#include "manager/host/tenant.h"
#include "manager/keeper/pings.h"
#include "manager/service/dlog.h"
#include "manager/service/service.h"

/* ---- what handlers share ---- */

/* berth lies beside us (in the build tree), or in ../bin when we are in sbin. */
static int find_berth(struct api *a, struct err *e)
{
	static const char *const places[] = { "berth", "../bin/berth" };
	char exe[3900], *slash;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	size_t i;

	if (n < 0)
		return err_sys(e, "find this program");
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	for (i = 0; i < ARRAY_LEN(places); i++) {
		snprintf(a->berth_path, sizeof(a->berth_path), "%s/%s", exe, places[i]);
		if (!access(a->berth_path, X_OK))
			return 0;
	}
	return err_set(e, ERR_NOT_FOUND, "no program berth beside berthd; hint: make install");
}

static int load_tokens(const struct config *c, struct tokens **ret, struct err *e)
{
	*ret = NULL;
	if (!c->daemon_token_file[0])
		return 0;
	*ret = tokens_load(c->daemon_token_file, e);
	return *ret ? 0 : -1;
}

int api_init(struct api *a, struct err *e)
{
	memset(a, 0, sizeof(*a));
	a->run_fd = -1;
	a->started_ms = clock_ms();
	json_object_seed(0);	/* before any thread makes an object */
	a->ui = uisessions_new();
	if (!a->ui)
		return err_nomem(e);
	if (config_load(&a->config, e) < 0 || schema_load(e) < 0 || find_berth(a, e) < 0 ||
	    load_tokens(&a->config, &a->tokens, e) < 0 || !(a->pings = pings_memory_new(e)) || !(a->boxes = boxindex_new(e)))
		return -1;
	pthread_rwlock_init(&a->lock, NULL);
	pthread_mutex_init(&a->e2b_lock, NULL);
	pthread_mutex_init(&a->livein_lock, NULL);
	return 0;
}

/* ---- the configuration that was accepted, as a file for the programs we start ---- */

#define STAGED CONFIG_ACCEPTED ".new"

/*
 * A copy of the file, which this thread reads from now on, so the checked content is the one
 * used.
 */
static int stage_config(struct api *a, struct err *e)
{
	if (config_copy(a->config_source, a->config_may_be_absent, a->run_fd, STAGED, e) < 0)
		return -1;
	snprintf(a->config_staged, sizeof(a->config_staged), "%s/" STAGED, a->config.run_dir);
	config_read_from(a->config_staged, a->config_source);
	return 0;
}

/* An accepted configuration replaces the present one; a refused one changes nothing. */
static int settle_config(struct api *a, int accepted, struct err *e)
{
	config_read_from(NULL, NULL);
	if (accepted && renameat(a->run_fd, STAGED, a->run_fd, CONFIG_ACCEPTED) == 0)
		return 0;
	if (accepted)
		err_sys(e, "keep the configuration in %s", a->config.run_dir);
	unlinkat(a->run_fd, STAGED, 0);
	return -1;
}

int api_accept_config(struct api *a, struct err *e)
{
	char path[sizeof(a->config_staged)];
	struct config c;

	snprintf(a->config_source, sizeof(a->config_source), "%s", config_source(&a->config_may_be_absent));
	a->run_fd = path_open_private_dir(a->config.run_dir, e);
	if (a->run_fd < 0 || stage_config(a, e) < 0 ||
	    settle_config(a, config_load(&c, e) == 0 && service_check_config(&c, a->berth_path, e) == 0, e) < 0)
		return -1;
	a->config = c;
	snprintf(path, sizeof(path), "%s/" CONFIG_ACCEPTED, c.run_dir);
	return setenv("BERTH_CONFIG", path, 1) < 0 ? err_nomem(e) : 0;
}

static int load_again(struct api *a, struct config *c, struct tokens **ret_tokens, struct err *e)
{
	*ret_tokens = NULL;
	return config_load(c, e) < 0 || load_tokens(c, ret_tokens, e) < 0 ||
	       (a->manager && service_reload(a->manager, c, e) < 0) ? -1 : 0;
}

int api_reload(struct api *a, struct err *e)
{
	struct tokens *tokens, *old;
	struct config c;

	if (stage_config(a, e) < 0)
		return -1;
	if (settle_config(a, load_again(a, &c, &tokens, e) == 0, e) < 0) {
		tokens_free(tokens);
		return -1;
	}
	pthread_rwlock_wrlock(&a->lock);
	old = a->tokens;
	a->tokens = tokens;
	a->config = c;
	pthread_rwlock_unlock(&a->lock);
	tokens_free(old);
	if (a->http)
		http_share_reload(a->http);
	return 0;
}

void api_release(struct api *a)
{
	tokens_free(a->tokens);
	uisessions_free(a->ui);
	pings_memory_free(a->pings);
	boxindex_free(a->boxes);
	fd_close(&a->run_fd);
	pthread_mutex_destroy(&a->e2b_lock);
	pthread_rwlock_destroy(&a->lock);
}

void api_config(struct api *a, struct config *ret)
{
	pthread_rwlock_rdlock(&a->lock);
	*ret = a->config;
	pthread_rwlock_unlock(&a->lock);
}

void api_share_of(void *context, const struct http_who *who, struct http_share_limits *ret)
{
	struct api *a = context;
	struct config c;
	struct tenant t;
	struct err e;

	api_config(a, &c);
	/*
	 * the file was checked when it was accepted; if it cannot be read now, a tenant gets
	 * little and not everything
	 */
	if (tenant_load(&t, &c, who->name, &e) < 0) {
		dlog_error("limits of a tenant", &e);
		t.connections = t.requests = t.streams = 1;
	}
	*ret = (struct http_share_limits){ t.connections, t.requests, t.streams };
}

int api_holds(void *context, const struct http_who *who)
{
	struct api *a = context;
	int r;

	if (!uisessions_hold(a->ui, who) || (who->ends_ms && !api_has_ui(a)))
		return 0;
	/* a peer of the unix socket, by its uid */
	if (!who->name[0] || strchr(who->name, ':'))
		return 1;
	pthread_rwlock_rdlock(&a->lock);
	/* the key of a sandbox holds as long as its owner has a token */
	r = who->only[0] ? tokens_has(a->tokens, who->name) : tokens_holds(a->tokens, who);
	pthread_rwlock_unlock(&a->lock);
	return r;
}

int api_has_ui(void *context)
{
	struct api *a = context;
	int r;

	pthread_rwlock_rdlock(&a->lock);
	r = a->config.ui_enabled;
	pthread_rwlock_unlock(&a->lock);
	return r;
}

/* Upholds S60 of SECURITY.md. */
static int check_ui_pass(struct api *a, const char *token, struct http_who *ret)
{
	struct http_who who;

	/* nobody is held to have rights by a pass whose token is gone */
	if (!api_has_ui(a) || !uisessions_check(a->ui, token, &who) || !api_holds(a, &who))
		return 0;
	*ret = who;
	return 1;
}

int api_check_token(void *context, const char *token, struct http_who *ret)
{
	struct api *a = context;
	int r;

	if (uisessions_is_one(token))
		return check_ui_pass(a, token, ret);

	pthread_rwlock_rdlock(&a->lock);
	r = tokens_check(a->tokens, token, ret);
	pthread_rwlock_unlock(&a->lock);
	return r;
}
