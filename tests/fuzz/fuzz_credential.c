/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json of docker's, and what its helpers print.  What is found can be put into a header. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rootfs/registry/credential.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *s)
{
	for (; s && *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct credential c = { 0 };
	char *s = malloc(size + 1);
	struct err e;
	char name[128];
	int r;

	if (!s)
		return 0;
	memcpy(s, data, size);
	r = credential_parse(s, size, "a.b", "fuzz", &c, &e);
	if (r > 0 && !c.identity_token && !(c.user && c.password))
		abort();
	check(c.user);
	check(c.password);
	check(c.identity_token);
	credential_release(&c);
	if (credential_helper(s, size, "a.b", "fuzz", name, sizeof(name), &e) > 0 && !*name)
		abort();
	c = (struct credential){ 0 };
	if (credhelper_parse(s, size, "fuzz", &c, &e) > 0 && !c.identity_token && !(c.user && c.password))
		abort();
	check(c.user);
	check(c.password);
	check(c.identity_token);
	credential_release(&c);
	free(s);
	return 0;
}
