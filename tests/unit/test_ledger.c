/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a store promises, asked of both back ends: each test runs over SQLite and
 * over a redis-server of its own on a socket in a private directory.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/ledger/ledger.h"

#define REDIS "/usr/bin/redis-server"

static char place[] = "/tmp/berth-ledger-XXXXXX";
static char url[300];
static pid_t redis;

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static void redis_start(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char sock[100], log[100];
	int tries, fd = -1;

	snprintf(sock, sizeof(sock), "%s/redis.sock", place);
	snprintf(log, sizeof(log), "%s/redis.log", place);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", sock);
	unlink(sock);
	redis = fork();
	if (redis == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);	/* a test that fails leaves no server behind */
		execl(REDIS, REDIS, "--port", "0", "--unixsocket", sock, "--dir", place, "--appendonly", "yes", "--appendfsync",
		      "everysec", "--save", "", "--logfile", log, "--daemonize", "no", NULL);
		_exit(127);
	}
	for (tries = 0; tries < 2000; tries++) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
			break;
		close(fd);
		fd = -1;
		pause_ms(5);
	}
	cr_assert(fd >= 0, "redis-server did not start; see %s", log);
	close(fd);
}

static void redis_stop(int sig)
{
	if (redis > 0) {
		kill(redis, sig);
		waitpid(redis, NULL, 0);
	}
	redis = 0;
}

static struct ledger *open_ledger(uint64_t retry_ms)
{
	struct ledger_options o = { .url = url, .prefix = "{t}", .retry_ms = retry_ms };
	struct ledger *l = NULL;
	struct err e = { 0 };

	signal(SIGPIPE, SIG_IGN);	/* as in berthd: hiredis writes without MSG_NOSIGNAL */
	cr_assert_eq(ledger_open(&l, &o, &e), 0, "%s", e.msg);
	return l;
}

static void on_both(void (*test)(struct ledger *l))
{
	struct ledger *l;
	struct err e;

	cr_assert(mkdtemp(place));
	alarm(120);
	snprintf(url, sizeof(url), "sqlite:%s/db", place);
	l = open_ledger(20000);
	cr_assert_str_eq(ledger_name(l), "sqlite");
	test(l);
	ledger_close(l);
	cr_assert(!access(REDIS, X_OK), "redis-server is not installed");
	redis_start();
	snprintf(url, sizeof(url), "redis+unix:%s/redis.sock", place);
	l = open_ledger(20000);
	cr_assert_str_eq(ledger_name(l), "redis");
	test(l);
	ledger_close(l);
	redis_stop(SIGTERM);
	cr_expect_eq(path_remove_tree(AT_FDCWD, place, &e), 0, "%s", e.msg);
}

static int set(struct ledger *l, const char *key, const char *value, uint64_t version, uint64_t ttl, uint64_t *ret, struct err *e)
{
	struct ledger_op op = { LEDGER_SET, key, value, version, ttl };

	return ledger_commit(l, &op, 1, ret, e);
}

static char got[4096];

static const char *get(struct ledger *l, const char *key, uint64_t *version)
{
	autobuf struct buf b = BUF_INIT(sizeof(got) - 1);
	struct err e;
	int r = ledger_get(l, key, &b, version, &e);

	cr_assert(r >= 0, "%s", e.msg);
	snprintf(got, sizeof(got), "%s", b.data ? b.data : "");
	return r ? got : NULL;
}

static int collect(void *ctx, const char *key, const char *value, uint64_t version)
{
	char *out = ctx;

	(void)version;
	snprintf(out + strlen(out), 200000 - strlen(out), "%s=%s ", key, value);
	return 0;
}

static int collect_item(void *ctx, const char *value)
{
	return collect(ctx, "", value, 0);
}

static void values(struct ledger *l)
{
	uint64_t v1 = 0, v2 = 0, v;
	struct err e = { 0 };

	cr_assert_null(get(l, "a", &v));
	cr_assert_eq(set(l, "a", "one", LEDGER_ABSENT, 0, &v1, &e), 0, "%s", e.msg);
	cr_assert_str_eq(get(l, "a", &v), "one");
	cr_assert_eq(v, v1);
	/* it is there already */
	cr_assert_eq(set(l, "a", "x", LEDGER_ABSENT, 0, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY);
	cr_assert_eq(set(l, "a", "two \xc3\xa9 {\"j\":\"\\n\"}", v1, 0, &v2, &e), 0, "%s", e.msg);
	cr_assert_gt(v2, v1);
	/* another version than the last */
	cr_assert_eq(set(l, "a", "x", v1, 0, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY);
	cr_assert_str_eq(get(l, "a", &v), "two \xc3\xa9 {\"j\":\"\\n\"}");
	cr_assert_eq(set(l, "a", "", LEDGER_ANY, 0, NULL, &e), 0);
	cr_assert_str_eq(get(l, "a", &v), "");
	/* gone and made again: an old version does not fit by chance */
	cr_assert_eq(ledger_commit(l, &(struct ledger_op){ LEDGER_DELETE, "a", NULL, LEDGER_ANY, 0 }, 1, NULL, &e), 0);
	cr_assert_null(get(l, "a", &v));
	cr_assert_eq(set(l, "a", "new", LEDGER_ABSENT, 0, &v1, &e), 0);
	cr_assert_gt(v1, v);
	cr_assert_eq(ledger_commit(l, &(struct ledger_op){ LEDGER_DELETE, "a", NULL, v2, 0 }, 1, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY);
	cr_assert_eq(set(l, "bad\nkey", "x", LEDGER_ANY, 0, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_INVALID);
}

Test(ledger, a_value_is_replaced_only_at_the_version_that_was_read)
{
	on_both(values);
}

static void batches(struct ledger *l)
{
	struct err e = { 0 };
	uint64_t v;
	struct ledger_op ops[] = {
		{ LEDGER_SET, "b/1", "x", LEDGER_ABSENT, 0 },
		{ LEDGER_PUSH, "q", "item", 0, 0 },
		{ LEDGER_CHECK, "b/2", NULL, 12345, 0 },
	};
	char text[200] = "";

	cr_assert_eq(ledger_commit(l, ops, 3, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY);
	cr_assert_null(get(l, "b/1", &v));
	cr_assert_eq(ledger_list(l, "q", 10, collect_item, text, &e), 0);
	cr_assert_str_empty(text);
	ops[2].version = LEDGER_ABSENT;
	cr_assert_eq(ledger_commit(l, ops, 3, NULL, &e), 0, "%s", e.msg);
	cr_assert_str_eq(get(l, "b/1", &v), "x");
	/* one item cannot be taken twice, and what else was in the batch did not happen */
	struct ledger_op takes[] = {
		{ LEDGER_TAKE, "q", "item", 0, 0 }, { LEDGER_TAKE, "q", "item", 0, 0 }, { LEDGER_SET, "b/3", "y", LEDGER_ANY, 0 },
	};
	cr_assert_eq(ledger_commit(l, takes, 3, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY);
	cr_assert_null(get(l, "b/3", &v));
	cr_assert_eq(ledger_commit(l, takes, 1, NULL, &e), 0, "%s", e.msg);
	cr_assert_eq(ledger_commit(l, takes, 1, NULL, &e), -1);
	struct ledger_op twice[] = { { LEDGER_SET, "t", "1", LEDGER_ANY, 0 }, { LEDGER_SET, "t", "2", LEDGER_ANY, 0 } };
	cr_assert_eq(ledger_commit(l, twice, 2, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_INVALID);
}

Test(ledger, a_batch_happens_whole_or_not_at_all)
{
	on_both(batches);
}

static void scans(struct ledger *l)
{
	char *text = calloc(1, 200000), key[40];
	struct err e = { 0 };
	int i;

	for (i = 0; i < 450; i++) {
		snprintf(key, sizeof(key), "s/%03d", i);
		cr_assert_eq(set(l, key, "v", LEDGER_ANY, 0, NULL, &e), 0, "%s", e.msg);
	}
	cr_assert_eq(set(l, "s0", "no", LEDGER_ANY, 0, NULL, &e), 0);
	cr_assert_eq(set(l, "r/z", "no", LEDGER_ANY, 0, NULL, &e), 0);
	cr_assert_eq(set(l, "s/\xc3\xa9", "last", LEDGER_ANY, 0, NULL, &e), 0);
	cr_assert_eq(ledger_scan(l, "s/", collect, text, &e), 0, "%s", e.msg);
	cr_assert_eq(strncmp(text, "s/000=v s/001=v ", 16), 0);
	cr_assert_null(strstr(text, "no"));
	cr_assert_eq(strlen(text), 450 * strlen("s/000=v ") + strlen("s/\xc3\xa9=last "));
	for (i = 0; i < 5; i++) {
		snprintf(key, sizeof(key), "%d", i);
		cr_assert_eq(ledger_commit(l, &(struct ledger_op){ LEDGER_PUSH, "list", key, 0, 0 }, 1, NULL, &e), 0);
	}
	text[0] = '\0';
	cr_assert_eq(ledger_list(l, "list", 3, collect_item, text, &e), 0);
	cr_assert_str_eq(text, "=0 =1 =2 ");
	free(text);
}

Test(ledger, a_scan_finds_every_key_of_its_prefix_in_order_and_no_other)
{
	on_both(scans);
}

static void ends(struct ledger *l)
{
	char text[200] = "";
	struct err e = { 0 };
	uint64_t v, w;
	int i;

	cr_assert_eq(set(l, "e/short", "x", LEDGER_ANY, 6000, &v, &e), 0);
	cr_assert_eq(set(l, "e/long", "y", LEDGER_ANY, 60000, &w, &e), 0);
	cr_assert_str_eq(get(l, "e/short", &v), "x");
	cr_assert_eq(ledger_commit(l, &(struct ledger_op){ LEDGER_TOUCH, "e/long", NULL, w, 6000 }, 1, NULL, &e), 0, "%s", e.msg);
	get(l, "e/long", &v);
	cr_assert_eq(v, w, "touching changed the version");
	for (i = 0; i < 10000 && (get(l, "e/short", &v) || get(l, "e/long", &v)); i++)
		pause_ms(5);
	cr_assert_null(get(l, "e/short", &v));
	cr_assert_null(get(l, "e/long", &v));
	cr_assert_eq(ledger_scan(l, "e/", collect, text, &e), 0);
	cr_assert_str_empty(text);
	cr_assert_eq(set(l, "e/short", "again", LEDGER_ABSENT, 0, NULL, &e), 0, "%s", e.msg);
	cr_assert_eq(set(l, "e/short", "for ever", LEDGER_ANY, 0, NULL, &e), 0);
}

Test(ledger, a_value_with_a_time_to_live_ends)
{
	on_both(ends);
}

static void locks(struct ledger *l)
{
	uint64_t first, second, none;
	struct err e = { 0 };
	int i;

	cr_assert_eq(ledger_lock(l, "door", "me", 6000, &first, &e), 0, "%s", e.msg);
	cr_assert_eq(ledger_lock(l, "door", "you", 60000, &second, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY);
	for (i = 0; i < 10000 && ledger_lock(l, "door", "you", 60000, &second, &e) < 0; i++)
		pause_ms(5);
	cr_assert_gt(second, first, "a later token is larger");
	/* the first holder was asleep: what it writes now under its token is refused */
	struct ledger_op ops[] = {
		{ LEDGER_CHECK, "lock/door", NULL, first, 0 }, { LEDGER_SET, "house", "mine", LEDGER_ANY, 0 },
	};
	cr_assert_eq(ledger_commit(l, ops, 2, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY);
	cr_assert_null(get(l, "house", &none));
	cr_assert_eq(ledger_renew(l, "door", first, 1000, &e), -1);
	cr_assert_eq(ledger_unlock(l, "door", first, &e), -1);
	ops[0].version = second;
	cr_assert_eq(ledger_commit(l, ops, 2, NULL, &e), 0, "%s", e.msg);
	cr_assert_eq(ledger_renew(l, "door", second, 1000, &e), 0, "%s", e.msg);
	cr_assert_eq(ledger_unlock(l, "door", second, &e), 0, "%s", e.msg);
	cr_assert_eq(ledger_lock(l, "door", "me", 1000, &first, &e), 0);
	cr_assert_gt(first, second);
}

Test(ledger, a_lock_has_one_holder_and_a_late_one_is_fenced_off)
{
	on_both(locks);
}

/* ---- many claim one pool ------------------------------------------------------ */

#define CLAIMS 10000
#define CLAIMERS 4

#define LOOK_AT 16

struct items {
	char item[LOOK_AT][40];
	unsigned n;
};

static int take_item(void *ctx, const char *value)
{
	struct items *it = ctx;

	snprintf(it->item[it->n++], 40, "%s", value);
	return 0;
}

/* What a claim of the pool does to the store, until the pool is empty. */
static unsigned claim_all(struct ledger *l, const char *me)
{
	unsigned taken = 0;
	struct err e = { 0 };

	for (;;) {
		struct items it = { .n = 0 };
		char key[60];
		const char *item;

		if (ledger_list(l, "pool", LOOK_AT, take_item, &it, &e) < 0)
			return UINT32_MAX;
		if (!it.n)
			return taken;
		/* as pool.c does: who comes at the same time mostly chooses another */
		item = it.item[(unsigned)rand() % it.n];
		struct ledger_op ops[] = {
			{ LEDGER_TAKE, "pool", item, 0, 0 }, { LEDGER_SET, key, me, LEDGER_ABSENT, 0 },
		};

		snprintf(key, sizeof(key), "owner/%s", item);
		if (ledger_commit(l, ops, 2, NULL, &e) == 0)
			taken++;
		else if (e.code != ERR_BUSY)
			return UINT32_MAX;
	}
}

static int count_one(void *ctx, const char *key, const char *value, uint64_t version)
{
	(void)key;
	(void)value;
	(void)version;
	++*(unsigned *)ctx;
	return 0;
}

static void claims(struct ledger *l)
{
	unsigned sum = 0, owned = 0, part, i, j;
	struct err e = { 0 };
	pid_t pids[CLAIMERS];
	int fds[CLAIMERS][2];

	for (i = 0; i < CLAIMS; i += LEDGER_OPS_MAX / 2) {
		struct ledger_op ops[LEDGER_OPS_MAX];
		char items[LEDGER_OPS_MAX][20];

		for (j = 0; j < LEDGER_OPS_MAX / 2 && i + j < CLAIMS; j++) {
			snprintf(items[j], sizeof(items[j]), "sb-%u", i + j);
			ops[j] = (struct ledger_op){ LEDGER_PUSH, "pool", items[j], 0, 0 };
		}
		cr_assert_eq(ledger_commit(l, ops, j, NULL, &e), 0, "%s", e.msg);
	}
	for (i = 0; i < CLAIMERS; i++) {
		cr_assert_eq(pipe(fds[i]), 0);
		pids[i] = fork();
		if (pids[i] == 0) {
			char me[20];

			srand(i + 1);
			snprintf(me, sizeof(me), "host-%u", i);
			part = claim_all(open_ledger(60000), me);
			(void)!write(fds[i][1], &part, sizeof(part));
			_exit(0);
		}
		close(fds[i][1]);
	}
	/* Redis goes away and comes back while they are at it */
	if (redis) {
		pause_ms(200);
		redis_stop(SIGTERM);
		redis_start();
	}
	for (i = 0; i < CLAIMERS; i++) {
		cr_assert_eq(read(fds[i][0], &part, sizeof(part)), (ssize_t)sizeof(part));
		cr_assert_neq(part, UINT32_MAX, "claimer %u failed", i);
		sum += part;
		waitpid(pids[i], NULL, 0);
		close(fds[i][0]);
	}
	cr_assert_eq(sum, CLAIMS, "%u claims succeeded for %d sandboxes", sum, CLAIMS);
	cr_assert_eq(ledger_scan(l, "owner/", count_one, &owned, &e), 0, "%s", e.msg);
	cr_assert_eq(owned, CLAIMS);
}

Test(ledger, of_ten_thousand_claims_by_four_processes_none_is_double_even_if_redis_restarts, .timeout = 110)
{
	on_both(claims);
}

Test(ledger, what_was_committed_survives_kill_9)
{
	struct err e = { 0 };
	struct ledger *l;
	uint64_t acked = 0, v;
	int fds[2], i;
	pid_t pid;

	cr_assert(mkdtemp(place));
	snprintf(url, sizeof(url), "sqlite:%s/db", place);
	for (i = 0; i < 5; i++) {
		cr_assert_eq(pipe(fds), 0);
		pid = fork();
		if (pid == 0) {
			uint64_t n;

			l = open_ledger(0);
			for (n = acked + 1;; n++) {
				char text[24];

				snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
				if (set(l, "n", text, LEDGER_ANY, 0, NULL, &e) < 0 || write(fds[1], &n, sizeof(n)) < 0)
					_exit(1);
			}
		}
		close(fds[1]);
		/* one of them dies after its first word, however slow the machine is */
		if (i == 4 && read(fds[0], &v, sizeof(v)) == (ssize_t)sizeof(v))
			acked = v;
		pause_ms(30 + 17 * i);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		while (read(fds[0], &v, sizeof(v)) == (ssize_t)sizeof(v))
			acked = v;
		close(fds[0]);
		l = open_ledger(0);
		cr_assert_geq(strtoull(get(l, "n", &v) ? got : "0", NULL, 10), acked);
		acked = strtoull(got, NULL, 10);
		ledger_close(l);
	}
	cr_assert_gt(acked, 0);
	cr_expect_eq(path_remove_tree(AT_FDCWD, place, &e), 0);
}

Test(ledger, a_redis_that_stays_away_is_an_error_within_its_time)
{
	struct err e = { 0 };
	struct ledger *l;
	autobuf struct buf out = BUF_INIT(100);

	cr_assert(mkdtemp(place));
	redis_start();
	snprintf(url, sizeof(url), "redis+unix:%s/redis.sock", place);
	l = open_ledger(6000);
	redis_stop(SIGKILL);
	cr_assert_eq(ledger_get(l, "x", &out, NULL, &e), -1);
	cr_assert_eq(e.code, ERR_NET, "%s", e.msg);
	redis_start();
	cr_assert_eq(ledger_get(l, "x", &out, NULL, &e), 0, "%s", e.msg);
	ledger_close(l);
	redis_stop(SIGTERM);
	cr_expect_eq(path_remove_tree(AT_FDCWD, place, &e), 0);
}

Test(ledger, a_url_that_is_none_is_refused)
{
	static const char *const bad[] = { "", "mysql:x", "rediss://h", "redis://", "redis://u:p@h/0", "redis://h:0/1", "redis://h:1/x" };
	struct err e = { 0 };
	struct ledger *l;
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct ledger_options o = { .url = bad[i] };

		cr_expect_eq(ledger_open(&l, &o, &e), -1, "%s", bad[i]);
		cr_expect(e.code == ERR_CONFIG || e.code == ERR_INVALID, "%s: %s", bad[i], e.msg);
	}
}
