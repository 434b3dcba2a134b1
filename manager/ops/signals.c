/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/signals.h"

#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

#define RT_FIRST 34
#define RT_LAST 64

/*
 * RTMIN+3, RTMAX-1: as glibc and every shell count them, whichever this libc reserves. 1: none
 * of them.
 */
static int realtime_number(const char *name, uint64_t *ret, struct err *e)
{
	const int is_min = !strncasecmp(name, "RTMIN", 5), is_max = !strncasecmp(name, "RTMAX", 5);
	uint64_t n = 0;

	if ((!is_min && !is_max) || (name[5] && name[5] != (is_min ? '+' : '-')))
		return 1;
	if (name[5] && num_u64(name + 6, "signal", 0, RT_LAST - RT_FIRST, &n, e) < 0)
		return -1;
	*ret = is_min ? RT_FIRST + n : RT_LAST - n;
	return 0;
}

int signal_number(const char *word, uint64_t *ret, struct err *e)
{
	const char *name = strncasecmp(word, "SIG", 3) ? word : word + 3;
	int i = realtime_number(name, ret, e);

	if (i <= 0)
		return i;
	if (isdigit((unsigned char)word[0]))
		return num_u64(word, "signal", 1, 64, ret, e);
	for (i = 1; i < NSIG; i++) {
		const char *s = sigabbrev_np(i);

		if (s && !strcasecmp(s, name)) {
			*ret = (uint64_t)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%.20s' is not a signal; hint: TERM, KILL, INT, ... or a number", word);
}
