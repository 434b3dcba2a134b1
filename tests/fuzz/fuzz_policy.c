/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command policy: rules up to the first empty line, then a text.  Whatever
 * both are: bounded, no byte beyond the buffers, and the text as words of its own
 * does no harm either.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manager/host/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *all = malloc(size + 1), *cut, *copy;
	const char *argv[] = { "sh", "-c", NULL };
	struct err e = { 0 };
	struct policy *p;
	size_t n;
	int hit;

	if (!all)
		return 0;
	if (size)
		memcpy(all, data, size);
	all[size] = '\0';
	cut = strstr(all, "\n\n");
	p = cut ? policy_new((*cut = '\0', all), &e) : policy_new("rm -rf /\n:(){:|:&};:\ncurl * | sh", &e);
	if (p) {
		const char *text = cut ? cut + 2 : all;

		n = size - (size_t)(text - all);
		/* of its exact size: a byte read behind it is seen */
		copy = malloc(n ? n : 1);
		if (copy) {
			memcpy(copy, text, n);
			hit = policy_check_text(p, copy, n, &e) < 0;
			argv[2] = text;
			if (hit && e.code != ERR_POLICY)
				abort();
			(void)policy_check_argv(p, argv, 3, &e);
			free(copy);
		}
	}
	policy_free(p);
	free(all);
	return 0;
}
