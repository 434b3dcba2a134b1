/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a configuration beyond its grammar: whether the files that it names can be read, and
 * whether berth create would accept the options of the pools, for which the berth program is
 * run. The same checks serve --check-config, a start and a reload. Further checks, of errors
 * that a start or a first use would find, are for --check-config only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/objects/storage.h"
#include "manager/ops/call.h"
#include "manager/service/state.h"

int service_read_secret(const char *path, char *out, size_t n, struct err *e)
{
	autobuf struct buf b = BUF_INIT(n - 1);

	out[0] = '\0';
	if (!path[0])
		return 0;
	if (io_read_private(path, &b, e) < 0)
		return -1;
	snprintf(out, n, "%s", b.data ? b.data : "");
	out[strcspn(out, "\r\n")] = '\0';
	if (b.data)
		explicit_bzero(b.data, b.len);
	return 0;
}

/*
 * Checks of a storage URL beyond its grammar; a folder is made at the start, and cannot be
 * checked before.
 */
static int open_storage(const struct conf *conf, struct storage **ret, struct err *e)
{
	int there;

	*ret = NULL;
	if (!conf->storage_url[0])
		return 0;
	there = strncmp(conf->storage_url, "file:", 5) ? 1 : path_check_private_dir(conf->storage_url + 5, e);
	return there < 1 ? there : storage_open(ret, conf, e);
}

static int check_storage_conf(const struct conf *conf, struct err *e)
{
	struct storage *st;

	if (open_storage(conf, &st, e) < 0)
		return err_wrap(e, "storage.url");
	storage_close(st);
	return 0;
}

/* Checks that only the berth program itself can do. */
static int has_more(const struct conf *conf, const struct config *c)
{
	size_t i;

	if (config_is_set(c, "sandbox", "seccomp"))
		return 1;
	for (i = 0; i < conf->pool_count; i++)
		if (conf->pools[i].options[0])
			return 1;
	return 0;
}

static int check_pools(const struct conf *conf, const struct config *c, const char *berth_path, struct err *e)
{
	int may_be_absent;
	const char *path = config_source(&may_be_absent);
	autobuf struct buf out = BUF_INIT(4096);
	size_t n = strlen(path);

	json_t *call;

	if (!has_more(conf, c))
		return 0;
	call = call_of("config check", path, NULL);
	call_flag(call, "own"); /* berthd checks the other sections itself */
	if (driver_run(berth_path, call, &out, e) == 0)
		return 0;
	/* the program was given a copy of the file */
	if (!strncmp(e->msg, path, n) && !strncmp(e->msg + n, ": ", 2))
		memmove(e->msg, e->msg + n + 2, strlen(e->msg + n + 2) + 1);
	return err_wrap(e, "%.200s", c->file);
}

static int check_whole_conf(const struct conf *conf, const struct config *c, const char *berth_path, struct err *e)
{
	char password[256];
	int r = service_read_secret(conf->store_password_file, password, sizeof(password), e);

	explicit_bzero(password, sizeof(password));
	if (r < 0 || check_storage_conf(conf, e) < 0 || workspace_check_bound(conf, e) < 0)
		return err_wrap(e, "%.200s", c->file);
	return check_pools(conf, c, berth_path, e);
}

int service_load_conf(struct conf *ret, const struct config *c, const char *berth_path, struct err *e)
{
	return conf_load(ret, c, e) < 0 || check_whole_conf(ret, c, berth_path, e) < 0 ? -1 : 0;
}

/* ---- what only a look at the places themselves tells: for --check-config, as a start or a first use finds it out ---- */

static int use_storage(const struct conf *conf, struct err *e)
{
	struct conf *once = malloc(sizeof(*once));
	struct storage *st = NULL;
	char name[32];
	int r;

	if (!once)
		return err_nomem(e);
	*once = *conf;
	once->storage_retry_ms = 0;	/* a check must report a failure now */
	r = open_storage(once, &st, e);
	snprintf(name, sizeof(name), "check-%d", (int)getpid());
	if (r == 0 && st)
		r = storage_probe(st, name, e);
	storage_close(st);
	free(once);
	return r < 0 ? err_wrap(e, "storage.url %.200s", conf->storage_url) : 0;
}

/* A file of SQLite is made at the start. */
static int use_store(const struct conf *conf, struct err *e)
{
	const char *file = strncmp(conf->store_url, "sqlite:", 7) ? NULL : conf->store_url + 7;
	char password[256];
	struct ledger_options o = { .url = conf->store_url, .user = conf->store_user, .password = password, .prefix = conf->store_prefix };
	struct ledger *ledger = NULL;
	int r;

	if (file && access(file, F_OK) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "store.url %.200s", conf->store_url);
	if (service_read_secret(conf->store_password_file, password, sizeof(password), e) < 0)
		return -1;
	r = ledger_open(&ledger, &o, e);
	explicit_bzero(password, sizeof(password));
	if (r == 0)
		r = ledger_ping(ledger, e);
	ledger_close(ledger);
	return r < 0 ? err_wrap(e, "store.url %.200s", conf->store_url) : 0;
}

static int use_places(const struct conf *conf, const struct config *c, struct err *e)
{
	char manager[sizeof(c->state_dir) + 16];

	snprintf(manager, sizeof(manager), "%s/manager", c->state_dir);
	if (path_check_private_dir(c->run_dir, e) < 0 || path_check_private_dir(c->state_dir, e) < 0 || path_check_private_dir(c->ids_dir, e) < 0 ||
	    path_check_private_dir(manager, e) < 0)
		return -1;
	if (path_check_private_dir(conf->mount_dir, e) < 0)
		return err_wrap(e, "session.default_mount_dir");
	return use_store(conf, e) < 0 ? -1 : use_storage(conf, e);
}

int service_check_config(const struct config *c, const char *berth_path, struct err *e)
{
	struct conf *conf = malloc(sizeof(*conf));
	int r = conf ? service_load_conf(conf, c, berth_path, e) : err_nomem(e);

	free(conf);
	return r;
}

int service_check_places(const struct config *c, struct err *e)
{
	struct conf *conf = malloc(sizeof(*conf));
	int r = conf ? conf_load(conf, c, e) : err_nomem(e);

	if (r == 0 && use_places(conf, c, e) < 0)
		r = c->file[0] ? err_wrap(e, "%.200s", c->file) : -1;
	free(conf);
	return r;
}
