/* SPDX-License-Identifier: Apache-2.0 */
/* A service in a directory of its own, without a pool: what its scans do to places. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/path.h"
#include "manager/service/state.h"

static char dir[] = "/tmp/berth-places-XXXXXX";
static struct service *service;

static void enter(void)
{
	struct config config;
	struct err e = { 0 };

	cr_assert(mkdtemp(dir));
	config_defaults(&config);
	snprintf(config.run_dir, sizeof(config.run_dir), "%s/run", dir);
	snprintf(config.state_dir, sizeof(config.state_dir), "%s/state", dir);
	snprintf(config.ids_dir, sizeof(config.ids_dir), "%s/hostids", dir);
	snprintf(config.cgroup_parent, sizeof(config.cgroup_parent), "berth-unit-no-such-parent");
	cr_assert_eq(service_new(&service, &config, "/bin/false", &e), 0, "%s", e.msg);
	alarm(120);
}

static void leave(void)
{
	struct err e;

	cr_expect_eq(service_end(service, &e), 0);
	cr_expect_eq(path_remove_tree(AT_FDCWD, dir, &e), 0, "%s", e.msg);
}

TestSuite(places, .init = enter, .fini = leave);

/* Its record would come without a place, and the next scan would undo it under the hands of who makes it. */
Test(places, one_that_has_no_record_yet_is_kept_while_it_is_made)
{
	struct err e;

	cr_assert_eq(place_enter(service, "sandbox-soon", 1, 1, NULL, &e), 0);
	places_check(service);
	cr_expect(place_has(service, "sandbox-soon"));
}

Test(places, one_whose_record_is_gone_is_dropped)
{
	struct err e;

	cr_assert_eq(place_take_over(service, "sandbox-gone", "", 1, 1, &e), 0);
	places_check(service);
	cr_expect_not(place_has(service, "sandbox-gone"));

	cr_assert_eq(place_enter(service, "sandbox-made", 1, 1, NULL, &e), 0);
	place_made(service, "sandbox-made", "");
	places_check(service);
	cr_expect_not(place_has(service, "sandbox-made"));
}

/* A sanitizer's allocator does not keep to RLIMIT_AS. */
#ifndef __SANITIZE_ADDRESS__
struct hole {
	struct hole *next;
	char rest[96];
};

/* All that malloc still has for objects of a place's size, from the largest to that: a list to be freed. */
static struct hole *take_all_memory(void)
{
	struct hole *first = NULL, *h;
	size_t n;

	/* each small size: glibc keeps freed pieces by size, and since 2.41 calloc() takes from them too */
	for (n = 1 << 20; n >= 16; n = n > 2048 ? n / 2 : n - 16) {
		while ((h = malloc(n < sizeof(*h) ? sizeof(*h) : n))) {
			h->next = first;
			first = h;
		}
	}
	return first;
}

Test(places, without_memory_for_one_nothing_is_taken_and_berthd_lives)
{
	const struct rlimit none = { 4096, RLIM_INFINITY };
	struct rlimit old;
	struct hole *all, *h;
	struct err e, again;
	int r, over;

	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	all = take_all_memory();
	r = place_enter(service, "sandbox-none", 1, 1, NULL, &e);
	over = place_take_over(service, "sandbox-none", "", 1, 1, &again);
	while ((h = all)) {
		all = h->next;
		free(h);
	}
	cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
	cr_expect_eq(r, -1);
	cr_expect_eq(e.code, ERR_NOMEM);
	cr_expect_eq(over, -1);
	cr_expect_eq(again.code, ERR_NOMEM);
	cr_expect_not(place_has(service, "sandbox-none"));
	cr_expect_eq(service->admission.count, 0);
	cr_expect_eq(place_enter(service, "sandbox-none", 1, 1, NULL, &e), 0);
	cr_expect_eq(service->admission.count, 1);
	place_drop(service, "sandbox-none");
}
#endif
