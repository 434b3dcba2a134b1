/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets in, who waits, who has a sandbox alone: with threads, without sandboxes. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "manager/service/admission.h"
#include "manager/service/oplock.h"

static void nap(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static struct admission adm;
static const struct admission_asker patient = { NULL, NULL };

static void open_with(uint64_t count, uint64_t memory, uint64_t queue, uint64_t timeout)
{
	struct admission_limits l = { count, memory, 0, queue, timeout };

	admission_init(&adm, &l);
}

Test(admission, counts_and_memory_are_exact)
{
	struct err e = { 0 };

	open_with(3, 100, 0, 0);
	cr_assert_eq(admission_enter(&adm, 60, 1, &patient, &e), 0);
	cr_assert_eq(admission_enter(&adm, 41, 1, &patient, &e), -1);
	cr_assert_eq(e.code, ERR_LIMIT);
	cr_assert_eq(admission_enter(&adm, 40, 1, &patient, &e), 0);
	cr_assert_eq(admission_enter(&adm, 0, 1, &patient, &e), 0);
	cr_assert_eq(admission_enter(&adm, 0, 1, &patient, &e), -1);
	admission_leave(&adm, 60, 1);
	cr_assert_eq(admission_enter(&adm, 60, 1, &patient, &e), 0);
	cr_assert_eq(adm.refused, 2);
	admission_close(&adm);
	admission_leave(&adm, 60, 1);
	cr_assert_eq(admission_enter(&adm, 1, 1, &patient, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY);
}

Test(admission, what_takes_more_must_fit_and_what_takes_less_makes_room)
{
	struct err e = { 0 };

	open_with(3, 100, 0, 0);
	cr_assert_eq(admission_enter(&adm, 60, 1, &patient, &e), 0);
	cr_assert_eq(admission_enter(&adm, 30, 1, &patient, &e), 0);
	cr_assert_eq(admission_change(&adm, (uint64_t[]){ 30, 41 }, (uint64_t[]){ 1, 1 }, &e), -1);
	cr_assert_eq(e.code, ERR_LIMIT);
	cr_assert_eq(admission_change(&adm, (uint64_t[]){ 30, 40 }, (uint64_t[]){ 1, 9 }, &e), 0);
	cr_assert_eq(adm.memory_bytes, 100);
	cr_assert_eq(adm.cpu_milli, 10);
	cr_assert_eq(admission_change(&adm, (uint64_t[]){ 60, 10 }, (uint64_t[]){ 1, 1 }, &e), 0);
	cr_assert_eq(adm.memory_bytes, 50);
	cr_assert_eq(admission_change(&adm, (uint64_t[]){ 10, 90 }, (uint64_t[]){ 1, 1 }, NULL), 0);
	cr_assert_eq(admission_change(&adm, (uint64_t[]){ 40, 30 }, (uint64_t[]){ 9, 1 }, &e), 0, "less, though it is too much");
}

struct waiter {
	pthread_t thread;
	uint64_t memory;
	int result;
	struct err e;
	int order;
};

static _Atomic int turn;

static void *wait_in_queue(void *arg)
{
	struct waiter *w = arg;

	w->result = admission_enter(&adm, w->memory, 0, &patient, &w->e);
	w->order = ++turn;
	return NULL;
}

static void await_waiting(uint64_t n)
{
	int i;

	for (i = 0; i < 2000; i++) {
		uint64_t now;

		pthread_mutex_lock(&adm.lock);
		now = adm.waiting;
		pthread_mutex_unlock(&adm.lock);
		if (now == n)
			return;
		nap(2);
	}
	cr_assert_fail("nobody waits");
}

Test(admission, the_queue_is_served_in_its_order_and_bounded, .timeout = 120)
{
	struct waiter w[2] = { { .memory = 80 }, { .memory = 10 } };
	struct err e = { 0 };

	open_with(10, 100, 2, 20000);
	cr_assert_eq(admission_enter(&adm, 90, 0, &patient, &e), 0);
	pthread_create(&w[0].thread, NULL, wait_in_queue, &w[0]);
	await_waiting(1);
	/* it would fit, but the other was first */
	pthread_create(&w[1].thread, NULL, wait_in_queue, &w[1]);
	await_waiting(2);
	cr_assert_eq(admission_enter(&adm, 1, 0, &patient, &e), -1, "a third does not wait");
	cr_assert_eq(admission_enter(&adm, 101, 0, &patient, &e), -1, "what can never fit does not wait");
	admission_leave(&adm, 90, 0);
	pthread_join(w[0].thread, NULL);
	pthread_join(w[1].thread, NULL);
	cr_assert_eq(w[0].result, 0);
	cr_assert_eq(w[1].result, 0);
	cr_assert_lt(w[0].order, 3);
	cr_assert_eq(adm.memory_bytes, 90);
}

Test(admission, who_waits_too_long_gives_up_and_those_behind_move_on, .timeout = 120)
{
	struct waiter w[2] = { { .memory = 80 }, { .memory = 10 } };
	struct err e = { 0 };

	open_with(10, 100, 2, 6000);
	cr_assert_eq(admission_enter(&adm, 90, 0, &patient, &e), 0);
	pthread_create(&w[0].thread, NULL, wait_in_queue, &w[0]);
	await_waiting(1);
	nap(5500);	/* so much longer may the second wait */
	pthread_create(&w[1].thread, NULL, wait_in_queue, &w[1]);
	pthread_join(w[0].thread, NULL);
	pthread_join(w[1].thread, NULL);
	cr_assert_eq(w[0].result, -1);
	cr_assert_eq(w[0].e.code, ERR_LIMIT);
	cr_assert_eq(w[1].result, 0, "%s", w[1].e.msg);
}

static int has_gone(void *ctx)
{
	return *(_Atomic int *)ctx;
}

static _Atomic int left;

static void *leave_the_queue(void *arg)
{
	struct waiter *w = arg;
	struct admission_asker asker = { has_gone, &left };

	w->result = admission_enter(&adm, w->memory, 0, &asker, &w->e);
	return NULL;
}

Test(admission, who_leaves_frees_his_place_in_the_queue_at_once_wherever_it_is, .timeout = 120)
{
	struct waiter w[3] = { { .memory = 80 }, { .memory = 10 }, { .memory = 20 } };
	struct err e = { 0 };

	open_with(10, 100, 3, 50000);
	cr_assert_eq(admission_enter(&adm, 90, 0, &patient, &e), 0);
	pthread_create(&w[0].thread, NULL, wait_in_queue, &w[0]);
	await_waiting(1);
	pthread_create(&w[1].thread, NULL, leave_the_queue, &w[1]);
	await_waiting(2);
	pthread_create(&w[2].thread, NULL, wait_in_queue, &w[2]);
	await_waiting(3);
	left = 1;
	pthread_join(w[1].thread, NULL);
	await_waiting(2);
	cr_assert_eq(w[1].result, -1);
	cr_assert_eq(w[1].e.code, ERR_NET);
	admission_leave(&adm, 90, 0);
	pthread_join(w[0].thread, NULL);
	pthread_join(w[2].thread, NULL);
	cr_assert_eq(w[0].result + w[2].result, 0);
	cr_assert_eq(adm.memory_bytes, 100);
	cr_assert_eq(adm.waiting, 0);
}

/* ---- oplock ---- */

static void *work_until_cut(void *arg)
{
	struct oplocks *l = arg;
	struct oplock op;
	struct err e;
	char c;
	int p[2];

	if (oplock_enter(l, "a", &op, &e) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, p) < 0)
		return NULL;
	oplock_set_sock(&op, p[0]);
	(void)!read(p[0], &c, 1);	/* until it is shut down */
	oplock_set_sock(&op, -1);
	close(p[0]);
	close(p[1]);
	return (void *)(intptr_t)oplock_leave(&op);
}

Test(oplock, a_delete_waits_for_operations_then_cuts_them_and_lets_no_new_one_in, .timeout = 120)
{
	struct err e = { 0 };
	struct oplocks *l = oplocks_new(&e);
	struct oplock op;
	void *forced = NULL;
	pthread_t t;

	cr_assert_eq(oplock_alone(l, "a", 0, &e), 0);
	cr_assert_eq(oplock_alone(l, "a", 0, &e), -1, "one alone");
	cr_assert_eq(e.code, ERR_BUSY);
	cr_assert_eq(oplock_enter(l, "b", &op, &e), 0, "another sandbox is another matter");
	cr_assert_eq(oplock_leave(&op), 0);
	oplock_alone_end(l, "a");
	pthread_create(&t, NULL, work_until_cut, l);
	while (!oplock_count(l, "a"))
		nap(2);
	cr_assert_eq(oplock_alone(l, "a", 100, &e), 0, "%s", e.msg);
	pthread_join(t, &forced);
	cr_assert_eq((intptr_t)forced, 1, "the operation knows that it was cut");
	cr_assert_eq(oplock_count(l, NULL), 0);
	oplock_alone_end(l, "a");
	oplocks_free(l);
}
