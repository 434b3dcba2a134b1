/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/config.h"

int config_is_env_name(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		char c = s[i];
		int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!letter && (i == 0 || c < '0' || c > '9') && c != '.' && c != '-')
			return 0;
	}
	return n > 0;
}
