/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/labels.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"

static size_t labels_size(const json_t *labels)
{
	size_t n = 0;
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(size_t)labels, key, v) n +=
		strlen(key) + json_string_length(v);
	return n;
}

/* A key is one word without '=', so that KEY=VALUE is read in one way only. */
static int is_label_key(const char *key, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((unsigned char)key[i] <= ' ' || key[i] == 0x7f || key[i] == '=')
			return 0;
	return n > 0 && n <= LABEL_KEY_MAX;
}

/* Tells whether one more fits; had is the present value of its key. */
static int label_fits(const json_t *labels, size_t bytes, const char *key, size_t value_len)
{
	const json_t *had = json_object_get(labels, key);

	if (!had && json_object_size(labels) >= LABELS_MAX)
		return 0;
	return bytes - (had ? strlen(key) + json_string_length(had) : 0) + strlen(key) +
		       value_len <=
	       LABELS_BYTES_MAX;
}

int labels_are_own(const char *text)
{
	return !strncmp(text, LABELS_OWN, strlen(LABELS_OWN));
}

int label_is_request(const char *text)
{
	return text && !strncmp(text, LABEL_REQUEST "=", sizeof(LABEL_REQUEST));
}

int labels_refuse_own(const char *text, struct err *e)
{
	if (!labels_are_own(text))
		return 0;
	err_set(e, ERR_DENIED, "label %.*s is one of berth's own", (int)strcspn(text, "="), text);
	return err_hint(e, "a key that does not begin with " LABELS_OWN);
}

int labels_refuse_own_list(const json_t *texts, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)texts, i, one)
		if (json_is_string(one) && labels_refuse_own(json_string_value(one), e) < 0)
			return -1;
	return 0;
}

int labels_add(json_t **labels, const char *text, struct err *e)
{
	size_t n = strcspn(text, "=");
	const char *value = text[n] ? text + n + 1 : "";
	char key[LABEL_KEY_MAX + 1];
	json_t *v;

	if (!is_label_key(text, n))
		return err_set(
			e, ERR_INVALID,
			"'%.80s' is not a label; hint: KEY=VALUE, with a key of 1 to %d bytes "
			"without blanks",
			text, LABEL_KEY_MAX);
	if (strlen(value) > LABEL_VALUE_MAX)
		return err_set(e, ERR_LIMIT,
			       "the value of label %.80s has %zu bytes; hint: at most %d", text,
			       strlen(value), LABEL_VALUE_MAX);
	memcpy(key, text, n);
	key[n] = '\0';
	if (!*labels && !(*labels = json_object()))
		return err_nomem(e);
	if (!label_fits(*labels, labels_size(*labels), key, strlen(value)))
		return err_set(
			e, ERR_LIMIT,
			"label %.80s is one too many; hint: at most %d labels of %d bytes in all",
			key, LABELS_MAX, LABELS_BYTES_MAX);
	v = json_string(value);
	return v && json_object_set_new(*labels, key, v) == 0
		       ? 0
		       : err_set(e, ERR_INVALID, "label %.80s is not valid UTF-8", key);
}

json_t *labels_with_image(const json_t *own, const json_t *image)
{
	json_t *all = own ? json_copy((json_t *)(size_t)own) : json_object(), *v;
	size_t bytes = labels_size(all);
	const char *key;

	json_object_foreach((json_t *)(size_t)image, key, v)
	{
		size_t n = json_string_length(v);

		if (!json_is_string(v) || !is_label_key(key, strlen(key)) || n > LABEL_VALUE_MAX || labels_are_own(key) ||
		    json_object_get(all, key) || !label_fits(all, bytes, key, n))
			continue;
		if (json_object_set(all, key, v) < 0)
			break;
		bytes += strlen(key) + n;
	}
	return all;
}

json_t *labels_for_event(const json_t *labels)
{
	if (!json_object_size(labels) || labels_size(labels) > LABELS_EVENT_BYTES_MAX)
		return NULL;
	return json_copy((json_t *)(size_t)labels);
}
