/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/deviceopts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/ops/cdi.h"

#define ALL_ACCESS (DEVICE_READ | DEVICE_WRITE | DEVICE_MKNOD)
#define GPUS_MAX 64
#define GPU_KIND "nvidia.com/gpu="

/* PATH[:TARGET][:rwm]; the parts are in text afterwards. */
static int parse_path(char *text, struct device_node *n, struct err *e)
{
	char *part = strchr(text, ':'), *last;

	*n = (struct device_node){ text, text, ALL_ACCESS, -1, -1, -1 };
	if (part)
		*part++ = '\0';
	last = part ? strchr(part, ':') : NULL;
	if (last)
		*last++ = '\0';
	if (part && part[0] == '/')
		n->target = part;
	else if (part && !last)
		last = part;
	else if (part)
		return err_set(e, ERR_INVALID, "'%.80s' is not an absolute path", part);
	if (last && devices_access(last, &n->access, e) < 0)
		return -1;
	return devices_check_target(n->target, e);
}

int deviceopts_check(const char *value, struct err *e)
{
	autofree char *copy = strdup(value);
	struct device_node n;

	if (!copy)
		return err_nomem(e);
	if (value[0] == '/')
		return parse_path(copy, &n, e);
	if (!cdi_is_name(value))
		return err_set(e, ERR_INVALID, "'%.80s' is neither the path of a device nor the "
			       "name of one; hint: /dev/fuse, or vendor.com/class=name", value);
	return 0;
}

int deviceopts_gpus(const char *value, int (*each)(void *ctx, const char *device, struct err *e),
		 void *ctx, struct err *e)
{
	static const char by_name[] = "device=";
	autofree char *copy = strdup(value);
	char name[200], *word, *save = NULL;
	uint64_t n = 0, i;

	if (!copy)
		return err_nomem(e);
	if (!strcmp(value, "all"))
		return each(ctx, GPU_KIND "all", e);
	if (isdigit((unsigned char)value[0])) {
		if (num_u64(value, "gpus", 1, GPUS_MAX, &n, e) < 0)
			return -1;
		for (i = 0; i < n; i++) {
			snprintf(name, sizeof(name), GPU_KIND "%llu", (unsigned long long)i);
			if (each(ctx, name, e) < 0)
				return -1;
		}
		return 0;
	}
	if (strncmp(value, by_name, sizeof(by_name) - 1) || !value[sizeof(by_name) - 1])
		return err_set(e, ERR_INVALID, "'%.80s' does not say which GPUs; hint: all, a "
			       "number, or device=0,1", value);
	for (word = strtok_r(copy + sizeof(by_name) - 1, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		snprintf(name, sizeof(name), GPU_KIND "%.150s", word);
		if (deviceopts_check(name, e) < 0 || each(ctx, name, e) < 0)
			return -1;
	}
	return 0;
}

static int add_path(struct devices *d, const struct config *c, const char *value, struct err *e)
{
	autofree char *text = strdup(value);
	struct device_node n;

	if (!text)
		return err_nomem(e);
	return parse_path(text, &n, e) < 0 ? -1 : devices_add_node(d, c, &n, e);
}

int deviceopts_resolve(struct devices *d, const struct config *c, const char *const *values,
		       size_t n, struct err *e)
{
	struct cdi *cdi = NULL;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		if (values[i][0] == '/') {
			r = add_path(d, c, values[i], e);
			continue;
		}
		if (!cdi && !(cdi = cdi_open(c, e)))
			return -1;
		r = cdi_add(cdi, values[i], d, e);
	}
	cdi_close(cdi);
	return r;
}
