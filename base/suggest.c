/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <stdint.h>
#include <string.h>

#define WORD_MAX 63

static size_t lesser_distance(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t suggest_distance(const char *a, const char *b)
{
	/* the last three rows of the table: i-2, i-1, i */
	uint8_t row[3][WORD_MAX + 1];
	size_t la = strnlen(a, WORD_MAX + 1), lb = strnlen(b, WORD_MAX + 1), i, j;

	if (la > WORD_MAX || lb > WORD_MAX)
		return (size_t)-1;
	for (j = 0; j <= lb; j++)
		row[0][j] = (uint8_t)j;
	for (i = 1; i <= la; i++) {
		uint8_t *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];

		now[0] = (uint8_t)i;
		for (j = 1; j <= lb; j++) {
			size_t d = before[j - 1] + (a[i - 1] != b[j - 1]);

			d = lesser_distance(d, lesser_distance(before[j], now[j - 1]) + 1U);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d = lesser_distance(d, earlier[j - 2] + 1U);
			now[j] = (uint8_t)d;
		}
	}
	return row[la % 3][lb];
}

void suggest_offer(struct suggest *s, const char *candidate)
{
	size_t len = strlen(s->word), d = suggest_distance(s->word, candidate);
	size_t limit = len < 3 ? 1 : 1 + len / 3;

	/* the beginning of a longer word counts as near: --mem is --memory */
	if (len >= 2 && !strncmp(s->word, candidate, len))
		d = lesser_distance(d, 1);
	else if (d >= len)	/* no byte of the typed word would be kept */
		return;
	if (d > limit || (s->best && d >= s->distance))
		return;
	s->best = candidate;
	s->distance = d;
}
