/* SPDX-License-Identifier: Apache-2.0 */
/* A service in a directory of its own, without a pool: what its scans do to places. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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
	snprintf(config.cgroup_parent, sizeof(config.cgroup_parent), "berth-unit-no-such-parent");
	cr_assert_eq(service_new(&service, &config, "/bin/false", &e), 0, "%s", e.msg);
	alarm(120);
}

static void leave(void)
{
	struct err e;

	service_end(service);
	cr_expect_eq(path_remove_tree(AT_FDCWD, dir, &e), 0, "%s", e.msg);
}

TestSuite(places, .init = enter, .fini = leave);

/* Its record would come without a place, and the next scan would undo it under the hands of who makes it. */
Test(places, one_that_has_no_record_yet_is_kept_while_it_is_made)
{
	place_add(service, "sandbox-soon", 1, 1, 1);
	places_check(service);
	cr_expect(place_has(service, "sandbox-soon"));
}

Test(places, one_whose_record_is_gone_is_dropped)
{
	place_add(service, "sandbox-gone", 1, 1, 0);
	places_check(service);
	cr_expect_not(place_has(service, "sandbox-gone"));

	place_add(service, "sandbox-made", 1, 1, 1);
	place_made(service, "sandbox-made");
	places_check(service);
	cr_expect_not(place_has(service, "sandbox-made"));
}
