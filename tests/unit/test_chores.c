/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/service/state.h"

static struct service *s;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int begun, ended, open_now;

static void begin(void)
{
	s = calloc(1, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
}

static void end(void)
{
	chores_wait(s);
	free(s);
}

TestSuite(chores, .init = begin, .fini = end, .timeout = 120);

static void note(int *n, int by)
{
	pthread_mutex_lock(&lock);
	*n += by;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_for(const int *n, int value)
{
	pthread_mutex_lock(&lock);
	while (*n < value)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* As long as one tenant's folder takes. */
static void long_work(struct service *service, const char *name)
{
	cr_expect_eq(service, s);
	cr_expect_eq(strncmp(name, "box", 3), 0);
	note(&begun, 1);
	wait_for(&open_now, 1);
	note(&ended, 1);
}

static void short_work(struct service *service, const char *name)
{
	(void)service;
	(void)name;
	note(&ended, 1);
}

Test(chores, one_that_takes_long_keeps_no_other_from_its_end)
{
	chore_begin(s, long_work, "box1", "t");
	wait_for(&begun, 1);
	chore_begin(s, short_work, "box2", "t");
	wait_for(&ended, 1);
	note(&open_now, 1);
	chores_wait(s);
	cr_expect_eq(ended, 2);
	cr_expect_null(s->chores);
}

Test(chores, what_is_under_way_is_not_begun_again)
{
	chore_begin(s, long_work, "box1", "t");
	wait_for(&begun, 1);
	chore_begin(s, long_work, "box1", "t");
	chore_begin(s, long_work, "box2", "t");
	wait_for(&begun, 2);
	note(&open_now, 1);
	chores_wait(s);
	cr_expect_eq(begun, 2);
	chore_begin(s, long_work, "box1", "t");	/* it is over */
	chores_wait(s);
	cr_expect_eq(begun, 3);
}

/* 20 that take long, of one tenant each, or all of this one. */
static void begin_many(const char *of)
{
	char name[16], tenant[16];
	int i;

	for (i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "box%d", i);
		snprintf(tenant, sizeof(tenant), "t%d", i);
		chore_begin(s, long_work, name, of ? of : tenant);
	}
}

Test(chores, there_are_eight_at_most_and_none_when_the_service_ends)
{
	begin_many(NULL);
	wait_for(&begun, 8);
	s->stopping = 1;
	note(&open_now, 1);
	chores_wait(s);
	cr_expect_eq(begun, 8);
	chore_begin(s, short_work, "box", "t");
	chores_wait(s);
	cr_expect_eq(ended, 8);
}

Test(chores, one_tenant_leaves_room_for_the_others)
{
	begin_many("greedy");
	wait_for(&begun, 3);
	chore_begin(s, short_work, "box", "other");
	wait_for(&ended, 1);
	note(&open_now, 1);
	chores_wait(s);
	cr_expect_eq(begun, 3);
	cr_expect_eq(ended, 4);
}
