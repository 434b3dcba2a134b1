/* SPDX-License-Identifier: Apache-2.0 */
/* --tenant of the commands that make and remove images. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/image/imagecmd.h"

static int is_allowed(const struct tenant *t, const char *may)
{
	return !may || (!strcmp(may, "commit") && t->may_commit) ||
	       (!strcmp(may, "import") && t->may_import) || (!strcmp(may, "pull") && t->pull[0]);
}

int imagecmd_tenant(const struct imagecmd_args *a, const char *may, struct imagecmd_tenant **ret,
		    struct err *e)
{
	const char *name = imagecmd_value(a, IMG_TENANT);
	autofree struct imagecmd_tenant *t = NULL;

	*ret = NULL;
	if (!name)
		return 0;
	if (!path_is_name(name))
		return err_set(e, ERR_INVALID,
			       "'%.80s' is not a name of a tenant; hint: a-z 0-9 _ . -", name);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_nomem(e);
	if (config_load(&t->config, e) < 0 || tenant_load(&t->tenant, &t->config, name, e) < 0)
		return -1;
	if (!is_allowed(&t->tenant, may))
		return err_set(e, ERR_DENIED,
			       "tenant %s may not %s images; hint: [tenant] %s in "
			       "berth.toml",
			       name, may, may);
	t->maker = (struct image_maker) { tenant_view(&t->tenant, &t->config), t->tenant.own_images,
					  t->tenant.own_image_bytes };
	*ret = take_ptr(&t);
	return 0;
}
