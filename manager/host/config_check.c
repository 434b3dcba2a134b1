/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/config_check.h"

#include <stdio.h>
#include <string.h>

#include "base/netaddr.h"

int config_check_hooks(const char *v, const char *what, struct err *e)
{
	return strcmp(v, "refuse") && strcmp(v, "skip") ?
	       err_set(e, ERR_CONFIG, "%s is '%.20s'; hint: \"refuse\" or \"skip\"", what, v) : 0;
}

int config_check_idle(const char *v, const char *what, struct err *e)
{
	return strcmp(v, "stop") && strcmp(v, "remove") ?
	       err_set(e, ERR_CONFIG, "%s is '%.20s'; hint: \"stop\" or \"remove\"", what, v) : 0;
}

int config_check_checkpoint(const char *v, const char *what, struct err *e)
{
	return strcmp(v, "never") && strcmp(v, "command") ?
	       err_set(e, ERR_CONFIG, "%s is '%.20s'; hint: \"never\" or \"command\"", what, v) : 0;
}

int config_check_interface(const char *v, const char *what, struct err *e)
{
	size_t n = strspn(v, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	if (v[n] || v[0] < 'a' || v[0] > 'z')
		return err_set(e, ERR_CONFIG, "%s '%.20s' is not a name for an interface; "
			       "hint: a-z 0-9 _ -, such as berth0", what, v);
	return 0;
}

int config_check_range(const char *v, const char *what, struct err *e)
{
	struct netcidr c;

	if (netcidr_parse(v, &c, e) < 0)
		return err_wrap(e, "%s", what);
	return 0;
}

int config_check_ranges(const char *v, const char *what, struct err *e)
{
	char text[1024], *word, *save = NULL;

	snprintf(text, sizeof(text), "%s", v);
	for (word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save))
		if (config_check_range(word, what, e) < 0)
			return -1;
	return 0;
}
