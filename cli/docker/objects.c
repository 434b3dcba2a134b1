/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/docker/verbs.h"
json_t *door_network_document(struct sandbox_ref *s, const char *name, struct err *e)
{
	(void)s;
	err_set(e, ERR_NOT_FOUND, "network %s not found", name);
	return NULL;
}
json_t *door_volume_document(struct sandbox_ref *s, const char *name, struct err *e)
{
	(void)s;
	err_set(e, ERR_NOT_FOUND, "get %s: no such volume", name);
	return NULL;
}
