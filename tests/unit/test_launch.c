/* SPDX-License-Identifier: Apache-2.0 */
/* What init says is hostile input: a reply either is well formed or ends in ERR_CORRUPT. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/sandbox/launch.h"

static struct sandbox sb;
static int theirs = -1;

static void enter(void)
{
	int sv[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	sb.sock = sv[0];
	theirs = sv[1];
}

static void leave(void)
{
	close(sb.sock);
	fd_close(&theirs);
}

TestSuite(launch, .init = enter, .fini = leave);

static const struct init_reply good = { .magic = INIT_MAGIC, .type = INIT_EXITED, .seq = 1, .exited = 1, .value = 3 };

static int say(const void *p, size_t n, struct init_reply *ret, struct err *e)
{
	memset(e, 0, sizeof(*e));
	cr_assert_eq(send(theirs, p, n, 0), (ssize_t)n);
	return sandbox_reply(&sb, ret, 0, e);
}

Test(launch, a_well_formed_reply_is_read)
{
	struct init_reply got;
	struct err e;

	cr_expect_eq(say(&good, sizeof(good), &got, &e), 1, "%s", e.msg);
	cr_expect(got.seq == 1 && got.exited == 1 && got.value == 3);
}

Test(launch, silence_is_busy_and_the_end_is_the_end)
{
	struct init_reply got;
	struct err e = { 0 };

	cr_expect_eq(sandbox_reply(&sb, &got, 0, &e), -1);
	cr_expect_eq(e.code, ERR_BUSY);
	fd_close(&theirs);
	cr_expect_eq(sandbox_reply(&sb, &got, 1, &e), 0);
}

Test(launch, a_reply_of_the_wrong_size_is_corrupt)
{
	static char large[sizeof(good) + 1];
	struct init_reply got;
	struct err e;

	memcpy(large, &good, sizeof(good));
	cr_expect_eq(say(large, sizeof(large), &got, &e), -1);
	cr_expect_eq(e.code, ERR_CORRUPT);
	cr_expect_eq(say(large, sizeof(good) - 1, &got, &e), -1);
	cr_expect_eq(e.code, ERR_CORRUPT);
	cr_expect_eq(say(large, 1, &got, &e), -1);
	cr_expect_eq(e.code, ERR_CORRUPT);
}

Test(launch, a_status_that_no_process_can_have_is_corrupt)
{
	static const struct { uint32_t exited, value; } bad[] = {
		{ 1, 256 }, { 1, 512 }, { 1, UINT32_MAX }, { 2, 0 }, { UINT32_MAX, 0 },
		{ 0, 0 },	/* no signal: 128 + 0 */
		{ 0, 65 },
		{ 0, 128 },	/* 128 + 128 is exit status 0 */
		{ 0, 255 }, { 0, UINT32_MAX }, { 0, (uint32_t)-128 },
	};
	struct init_reply got;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct init_reply r = good;

		r.exited = bad[i].exited;
		r.value = bad[i].value;
		cr_expect_eq(say(&r, sizeof(r), &got, &e), -1, "exited %u value %u", r.exited, r.value);
		cr_expect_eq(e.code, ERR_CORRUPT);
	}
}

Test(launch, a_reply_without_magic_or_of_unknown_type_is_corrupt)
{
	struct init_reply r = good, got;
	struct err e;

	r.magic ^= 1;
	cr_expect_eq(say(&r, sizeof(r), &got, &e), -1);
	r = good;
	r.type = 0;
	cr_expect_eq(say(&r, sizeof(r), &got, &e), -1);
	r.type = 1000;
	cr_expect_eq(say(&r, sizeof(r), &got, &e), -1);
	cr_expect_eq(e.code, ERR_CORRUPT);
}

/* The code becomes berth's exit status: a failure must not say "ok". */
Test(launch, a_failure_always_has_the_code_of_one)
{
	static const int codes[] = { ERR_NONE, -1, ERR_CODE_COUNT, 1 << 30 };
	static const uint32_t types[] = { INIT_SETUP_FAILED, INIT_EXEC_FAILED };
	size_t i, t;

	for (t = 0; t < ARRAY_LEN(types); t++) {
		for (i = 0; i < ARRAY_LEN(codes); i++) {
			struct init_reply r = { .magic = INIT_MAGIC, .type = types[t], .seq = 1 }, got;
			struct err e;

			r.err.code = codes[i];
			memset(r.err.msg, 'x', sizeof(r.err.msg));	/* and no end */
			cr_expect_eq(say(&r, sizeof(r), &got, &e), 1, "%s", e.msg);
			cr_expect_neq(err_exit_status(got.err.code), 0, "code %d", codes[i]);
			cr_expect(memchr(got.err.msg, '\0', sizeof(got.err.msg)));
		}
	}
}

/* The child of a launch that fails: it handed over the listener, said why, and ended with our packets unread. */
Test(launch, the_last_words_after_a_listener_are_read_when_our_packets_were_not)
{
	const uint32_t tag = FILTERWATCH_TAG;
	struct init_reply got;
	struct err e = { 0 };
	int listener = dup(0);

	sb.filters = (struct filterwatch){ .fd = -1, .awaited = 1 };
	cr_assert_eq(send(sb.sock, "", 1, 0), 1);
	cr_assert_geq(fdpass_send(theirs, &tag, sizeof(tag), &listener, 1), 0);
	cr_assert_eq(send(theirs, &good, sizeof(good), 0), (ssize_t)sizeof(good));
	fd_close(&theirs);
	cr_expect_eq(sandbox_reply(&sb, &got, 1, &e), 1, "%s", e.msg);
	cr_expect(got.exited == 1 && got.value == 3);
	cr_expect_geq(sb.filters.fd, 0, "the listener was lost");
	fd_close(&sb.filters.fd);
	close(listener);
}

Test(launch, a_descriptor_that_comes_along_is_not_taken)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = { 0 };
	struct iovec iov = { (void *)&good, sizeof(good) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	struct init_reply got;
	struct err e;
	int next = dup(0), after;

	close(next);
	c.h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	*(int *)CMSG_DATA(&c.h) = 0;
	cr_assert_eq(sendmsg(theirs, &m, 0), (ssize_t)sizeof(good));
	cr_expect_eq(sandbox_reply(&sb, &got, 0, &e), 1);
	after = dup(0);
	cr_expect_eq(after, next, "a descriptor was installed");
	close(after);
}
