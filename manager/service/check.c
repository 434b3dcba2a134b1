/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a configuration's grammar does not tell: whether the files it names can be
 * read, and whether berth create would take the options of the pools, which the
 * berth program is asked.  The same for --check-config, a start and a reload.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/objects/storage.h"
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
	explicit_bzero(b.data, b.len);
	return 0;
}

/* A folder is made when it is opened; an object store is only looked at, and says nothing before it is used. */
static int check_storage(const struct conf *conf, struct err *e)
{
	struct storage *st;

	if (!conf->storage_url[0] || !strncmp(conf->storage_url, "file:", 5))
		return 0;
	if (storage_open(&st, conf, e) < 0)
		return -1;
	storage_close(st);
	return 0;
}

/* What only berth itself can tell of. */
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
	const char *argv[] = { "berth", "config", "check", "--json", "--", path, NULL };
	autobuf struct buf out = BUF_INIT(4096);
	size_t n = strlen(path);

	if (!has_more(conf, c) || driver_run(berth_path, argv, &out, e) == 0)
		return 0;
	/* it was shown a copy of the file */
	if (!strncmp(e->msg, path, n) && !strncmp(e->msg + n, ": ", 2))
		memmove(e->msg, e->msg + n + 2, strlen(e->msg + n + 2) + 1);
	return err_wrap(e, "%.200s", c->file);
}

static int check(const struct conf *conf, const struct config *c, const char *berth_path, struct err *e)
{
	char password[256];
	int r = service_read_secret(conf->store_password_file, password, sizeof(password), e);

	explicit_bzero(password, sizeof(password));
	return r < 0 || check_storage(conf, e) < 0 ? err_wrap(e, "%.200s", c->file) : check_pools(conf, c, berth_path, e);
}

int service_load_conf(struct conf *ret, const struct config *c, const char *berth_path, struct err *e)
{
	return conf_load(ret, c, e) < 0 || check(ret, c, berth_path, e) < 0 ? -1 : 0;
}

int service_check_config(const struct config *c, const char *berth_path, struct err *e)
{
	struct conf *conf = malloc(sizeof(*conf));
	int r = conf ? service_load_conf(conf, c, berth_path, e) : err_nomem(e);

	free(conf);
	return r;
}
