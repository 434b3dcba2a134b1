/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E13: "user NUL passwd NUL group" of a hostile image.  What is accepted has
 * ids within the sandbox's range, a home that is absolute and clean, and no uid
 * 0 unless the string or a well-formed entry of passwd says so.
 */
#include <stdlib.h>
#include <string.h>

/* pid 1 has no archive */
#include "runtime/init/user.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *s, const char *passwd, const struct user *u)
{
	size_t i;
	int k;

	if (u->uid > USER_ID_MAX || u->gid > USER_ID_MAX || u->group_count < 0 || u->group_count > USER_GROUPS_MAX)
		abort();
	for (k = 0; k < u->group_count; k++)
		if (u->groups[k] > USER_ID_MAX)
			abort();
	if (!memchr(u->home, '\0', sizeof(u->home)) || !memchr(u->name, '\0', sizeof(u->name)))
		abort();
	if (u->home[0] && u->home[0] != '/')
		abort();
	for (i = 0; u->home[i]; i++)
		if ((unsigned char)u->home[i] < ' ')
			abort();
	if (strpbrk(u->name, ":/ \n\t"))
		abort();
	if (!u->uid && s[0] && strspn(s, "0") == 0 && !strstr(passwd, ":0:"))
		if (!strstr(passwd, ":00"))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 3), *passwd, *group;
	struct err e = { 0 };
	struct user u, untouched;

	if (!text)
		abort();
	memcpy(text, data, size);
	memset(text + size, 0, 3);
	passwd = text + strlen(text) + 1;
	group = passwd <= text + size ? passwd + strlen(passwd) + 1 : text + size;
	if (passwd > text + size)
		passwd = text + size;
	memset(&u, 0xa5, sizeof(u));
	untouched = u;
	if (user_lookup_in(text, passwd, group, &u, &e) == 0)
		check(text, passwd, &u);
	else if ((e.code != ERR_INVALID && e.code != ERR_NOT_FOUND) || memcmp(&u, &untouched, sizeof(u)))
		abort();
	user_lookup_in(text, NULL, NULL, &u, &e);
	free(text);
	return 0;
}
