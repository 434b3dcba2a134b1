/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/host/procid.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"

static const char *const names[] = { "no", "on-failure", "always", "unless-stopped" };

int restart_parse(const char *text, struct restart_policy *ret, struct err *e)
{
	static const char counted[] = "on-failure:";
	uint64_t max = 0;
	size_t i;

	if (!strncmp(text, counted, sizeof(counted) - 1)) {
		if (num_u64(text + sizeof(counted) - 1, "restarts", 1, 1000000, &max, e) < 0)
			return -1;
		*ret = (struct restart_policy){ RESTART_ON_FAILURE, (unsigned)max };
		return 0;
	}
	for (i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(text, names[i])) {
			*ret = (struct restart_policy){ (enum restart_when)i, 0 };
			return 0;
		}
	return err_set(e, ERR_INVALID,
		       "'%.40s' is not a restart policy; hint: no, on-failure, on-failure:5, "
		       "always or unless-stopped", text);
}

void restart_format(const struct restart_policy *p, char out[RESTART_TEXT])
{
	if (p->max)
		snprintf(out, RESTART_TEXT, "%s:%u", names[p->when], p->max);
	else
		snprintf(out, RESTART_TEXT, "%s", names[p->when]);
}

void restart_note(json_t *record, const struct restart_policy *p, uint64_t guardian)
{
	char text[RESTART_TEXT];

	restart_format(p, text);
	record_set_restart(record, text);
	if (guardian)
		restart_note_guardian(record, (int)guardian);
}

void restart_note_guardian(json_t *record, int pid)
{
	char name[PROCID_SIZE];
	struct err ignored;

	record_set_guardian_pid(record, (uint64_t)pid);
	if (procid_name(pid, name, &ignored) == 0)
		record_set_guardian(record, name);
}

static struct restart_policy policy_of(const json_t *record)
{
	const char *text = record_restart(record);
	struct restart_policy p = { RESTART_NO, 0 };
	struct err ignored;

	if (text[0])
		restart_parse(text, &p, &ignored);
	return p;
}

/* Tells whether the service ended without a verdict: its keeper was killed, or the host went down. */
static int has_failed_service(const json_t *record, const struct restart_policy *p)
{
	const json_t *verdict = record_verdict(record);

	if (verdict && json_integer_value(json_object_get(verdict, "exit_status")) == 0)
		return 0;
	return !p->max || record_restarts(record) < (int64_t)p->max;
}

/* Tells whether the sandbox was never started. */
static int is_new(const json_t *record)
{
	return record_status(record) == RECORD_CREATED;
}

int restart_is_due(const json_t *record)
{
	const struct restart_policy p = policy_of(record);

	if (p.when == RESTART_NO || is_new(record) ||
	    record_stopped_by_hand(record))
		return 0;
	return p.when != RESTART_ON_FAILURE || has_failed_service(record, &p);
}

int restart_is_due_at_boot(const json_t *record)
{
	return (policy_of(record).when == RESTART_ALWAYS && !is_new(record)) ||
	       restart_is_due(record);
}

uint64_t restart_backoff(uint64_t last_ms, uint64_t lived_ms)
{
	if (!last_ms || lived_ms >= RESTART_LIVED_MS)
		return RESTART_BACKOFF_MS;
	return last_ms * 2 < RESTART_BACKOFF_MAX_MS ? last_ms * 2 : RESTART_BACKOFF_MAX_MS;
}

/*
 * Tells whether pid is the guardian: its words are "berth", RESTART_VERB and the sandbox's id,
 * which no process in a sandbox has as root of the host.
 */
static int is_guardian_of(int pid, const char *id)
{
	char path[40], words[256], want[100];
	autoclose int fd = -1;
	size_t first, n;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, words, sizeof(words) - 1);
	if (len <= 0)
		return 0;
	words[len] = '\0';
	first = strlen(words) + 1;
	n = (size_t)snprintf(want, sizeof(want), "%s%c%s", RESTART_VERB, '\0', id) + 1;
	return first + n <= (size_t)len && !memcmp(words + first, want, n);
}

int restart_pending(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *j = registry_load(r, id, RESTART_FILE, &ignored);
	int pid = (int)json_integer_value(json_object_get(j, "pid"));

	return pid > 1 && is_guardian_of(pid, id) ? pid : 0;
}

/*
 * A guardian that a start has just left has the words of that start until it executes berth
 * anew.
 */
static int has_living_guardian(const json_t *record, const char *id)
{
	const int pid = (int)record_guardian_pid(record);
	const char *name = record_guardian(record);

	return pid > 1 && (is_guardian_of(pid, id) || (name[0] && !procid_has_ended(name)));
}

int restart_is_guarded(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(r, id, &ignored);

	return has_living_guardian(record, id);
}

int restart_is_coming(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(r, id, &ignored);

	return restart_is_due(record) && (restart_pending(r, id) || has_living_guardian(record, id));
}

/* Ends the guardian by a pidfd, which identifies this process; before Linux 5.3 by its pid. */
static void end_guardian(int pid, const char *id)
{
	autoclose int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if ((fd < 0 && errno != ENOSYS) || !is_guardian_of(pid, id))
		return;
	if (fd < 0 || (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0 && errno == ENOSYS))
		kill(pid, SIGKILL);
}

void restart_cancel(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(r, id, &ignored);
	char path[120];
	int pid;

	if (policy_of(record).when == RESTART_NO)
		return;
	/* written first, so that a guardian that looks at it now starts nothing */
	if (restart_is_due(record))
		record_set_status(record, RECORD_STOPPED);
	if (!record_stopped_by_hand(record)) {
		record_set_stopped_by_hand(record, 1);
		record_save_kept(r, id, record, &ignored);
	}
	pid = restart_pending(r, id);
	if (pid)
		end_guardian(pid, id);
	snprintf(path, sizeof(path), "%s/" RESTART_FILE, id);
	unlinkat(r->kept_fd, path, 0);
}
