/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a type of sandboxes, and the version that tells two of them apart. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/service/state.h"
#include "rootfs/store/image.h"

static uint64_t hash(uint64_t h, const void *p, size_t n)
{
	const unsigned char *b = p;

	while (n--)
		h = (h ^ *b++) * UINT64_C(1099511628211);
	return h;
}

int service_pool_image(struct service *s, const struct conf_pool *p, const char *made, struct image *ret, struct err *e)
{
	char path[sizeof(s->config.state_dir) + 8];
	autoclose int dir = -1;

	if (made) {
		dir = registry_keep_dir(&s->registry, made, e);
		return dir < 0 ? -1 : image_load_pin(dir, ret, e);
	}
	snprintf(path, sizeof(path), "%s/store", s->config.state_dir);
	dir = store_open(path, e);
	return dir < 0 ? -1 : image_load(dir, p->image, ret, e);
}

int service_pool_has_image(const struct conf_pool *p)
{
	return !p->zygote[0] && strcmp(p->image, "host") && p->image[0] != '/' && p->image[0] != '.';
}

int service_pool_version(struct service *s, const struct conf_pool *p, const char *made, char ret[160], struct err *e)
{
	uint64_t h = UINT64_C(14695981039346656037);
	struct image im;

	h = hash(h, p->image, strlen(p->image) + 1);
	h = hash(h, &p->memory_bytes, sizeof(p->memory_bytes));
	h = hash(h, &p->cpu_milli, sizeof(p->cpu_milli));
	h = hash(h, p->options, strlen(p->options) + 1);
	h = hash(h, p->env, strlen(p->env) + 1);
	h = hash(h, p->readonly_mounts, strlen(p->readonly_mounts) + 1);
	if (p->zygote[0])
		return zygotetype_version(s, p, made, h, ret, e);
	if (!service_pool_has_image(p)) {
		snprintf(ret, 160, "%.60s#%016" PRIx64, p->image, h);
		return 0;
	}
	if (service_pool_image(s, p, made, &im, e) < 0)
		return err_wrap(e, "pool %s", p->name);
	snprintf(ret, 160, "%.72s#%016" PRIx64, im.digest, h);
	image_release(&im);
	return 0;
}

/*
 * agentscope has each type twice, base and base_async, for its two kinds of clients; both are
 * made the same way.
 */
static const struct conf_pool *find_type(const struct conf *c, const char *name)
{
	static const char suffix[] = "_async";
	const struct conf_pool *p = conf_pool_find(c, name);
	size_t n = strlen(name), k = strlen(suffix);
	char stem[65];

	if (p || n <= k || n >= sizeof(stem) || strcmp(name + n - k, suffix))
		return p;
	snprintf(stem, sizeof(stem), "%.*s", (int)(n - k), name);
	return conf_pool_find(c, stem);
}

int conf_pool_copy(struct service *s, const char *name, struct conf_pool *ret, size_t *ret_index, struct err *e)
{
	const struct conf_pool *p;
	int r = 0;

	pthread_rwlock_rdlock(&s->conf_lock);
	p = name && name[0] ? find_type(&s->conf, name) : &s->conf.pools[0];
	if (p) {
		*ret = *p;
		if (ret_index)
			*ret_index = (size_t)(p - s->conf.pools);
	} else {
		r = err_set(e, ERR_INVALID, "no sandbox type '%.64s'; hint: [pool.NAME] in berth.toml makes types", name);
	}
	pthread_rwlock_unlock(&s->conf_lock);
	if (r == 0)
		zygotetype_settle(s, ret);
	return r;
}
