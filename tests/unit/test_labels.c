/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/labels.h"

static const char *value_of(const json_t *labels, const char *key)
{
	return json_string_value(json_object_get(labels, key));
}

Test(labels, a_label_is_a_key_with_or_without_a_value)
{
	autojson json_t *l = NULL;
	struct err e = { 0 };

	cr_assert_eq(labels_add(&l, "app=web=1", &e), 0);
	cr_assert_eq(labels_add(&l, "flag", &e), 0);
	cr_assert_eq(labels_add(&l, "app=db", &e), 0);
	cr_assert_eq(json_object_size(l), 2);
	cr_assert_str_eq(value_of(l, "app"), "db", "the later value counts");
	cr_assert_str_eq(value_of(l, "flag"), "");
}

Test(labels, a_value_may_hold_whatever_text_there_is)
{
	autojson json_t *l = NULL;
	struct err e = { 0 };

	cr_assert_eq(labels_add(&l, "k=a b=c\n\xc3\xa9", &e), 0);
	cr_assert_str_eq(value_of(l, "k"), "a b=c\n\xc3\xa9");
}

Test(labels, a_key_is_one_word)
{
	static const char *const bad[] = { "",	   "=",	    "=x",     "a b=x",
					   "a\tb", "a\x7f", "\xff=x", "k=\xff" };
	autojson json_t *l = NULL;
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		cr_assert_eq(labels_add(&l, bad[i], &e), -1, "'%s'", bad[i]);
		cr_assert_eq(e.code, ERR_INVALID);
	}
	cr_assert_eq(json_object_size(l), 0);
}

Test(labels, keys_and_values_have_a_greatest_length)
{
	char text[LABEL_KEY_MAX + LABEL_VALUE_MAX + 8];
	autojson json_t *l = NULL;
	struct err e = { 0 };

	memset(text, 'k', sizeof(text));
	text[LABEL_KEY_MAX] = '=';
	text[LABEL_KEY_MAX + 1 + LABEL_VALUE_MAX] = '\0';
	cr_assert_eq(labels_add(&l, text, &e), 0, "%s", e.msg);
	text[LABEL_KEY_MAX + 1 + LABEL_VALUE_MAX] = 'v';
	text[LABEL_KEY_MAX + 2 + LABEL_VALUE_MAX] = '\0';
	cr_assert_eq(labels_add(&l, text, &e), -1);
	cr_assert_eq(e.code, ERR_LIMIT);
	text[LABEL_KEY_MAX] = 'k';
	text[LABEL_KEY_MAX + 1] = '\0';
	cr_assert_eq(labels_add(&l, text, &e), -1);
	cr_assert_eq(e.code, ERR_INVALID);
}

Test(labels, their_number_is_bounded_and_a_replaced_one_does_not_count_twice)
{
	autojson json_t *l = NULL;
	struct err e = { 0 };
	char text[32];
	int i;

	for (i = 0; i < LABELS_MAX; i++) {
		snprintf(text, sizeof(text), "k%d=v", i);
		cr_assert_eq(labels_add(&l, text, &e), 0);
	}
	cr_assert_eq(labels_add(&l, "k7=w", &e), 0);
	cr_assert_eq(labels_add(&l, "more", &e), -1);
	cr_assert_eq(e.code, ERR_LIMIT);
	cr_assert_eq(json_object_size(l), LABELS_MAX);
}

Test(labels, their_bytes_are_bounded_in_all)
{
	char text[LABEL_VALUE_MAX + 8];
	autojson json_t *l = NULL;
	struct err e = { 0 };
	int i, r = 0;

	for (i = 0; i < 100 && r == 0; i++) {
		snprintf(text, sizeof(text), "k%d=%0*d", i, LABEL_VALUE_MAX, 0);
		r = labels_add(&l, text, &e);
	}
	cr_assert_eq(r, -1);
	cr_assert_eq(e.code, ERR_LIMIT);
	cr_assert_eq(json_object_size(l), LABELS_BYTES_MAX / (LABEL_VALUE_MAX + 3));
}

Test(labels, an_image_gives_what_the_user_does_not_say)
{
	autojson json_t *own = json_pack("{s:s}", "a", "mine"), *all = NULL,
			*none = labels_with_image(NULL, NULL);
	autojson json_t *image = json_pack("{s:s,s:s,s:i,s:s}", "a", "image's", "b", "too",
					   "number", 7, "a b", "no key");

	all = labels_with_image(own, image);
	cr_assert_eq(json_object_size(all), 2);
	cr_assert_str_eq(value_of(all, "a"), "mine");
	cr_assert_str_eq(value_of(all, "b"), "too");
	cr_assert_eq(json_object_size(own), 1, "the user's own set is left as it is");
	cr_assert(json_is_object(none) && !json_object_size(none));
}

Test(labels, an_image_cannot_fill_a_record)
{
	autojson json_t *own = json_pack("{s:s}", "a", "mine"), *image = json_object(), *all = NULL;
	char key[32];
	int i;

	for (i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		json_object_set_new(image, key, json_string("v"));
	}
	all = labels_with_image(own, image);
	cr_assert_eq(json_object_size(all), LABELS_MAX);
	cr_assert_str_eq(value_of(all, "a"), "mine");
}

Test(labels, an_event_has_them_when_they_are_small)
{
	autojson json_t *few = json_pack("{s:s}", "a", "b"), *many = NULL,
			*told = labels_for_event(few);
	char text[LABELS_EVENT_BYTES_MAX + 8];
	struct err e = { 0 };

	cr_assert(json_equal(told, few));
	snprintf(text, sizeof(text), "k=%0*d", LABELS_EVENT_BYTES_MAX, 0);
	cr_assert_eq(labels_add(&many, text, &e), 0);
	cr_assert_null(labels_for_event(many));
	cr_assert_null(labels_for_event(NULL));
}
