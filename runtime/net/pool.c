/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"

#define RECORD_MAX (2u << 20)

int pool_open(struct pool *p, const char *dir, struct err *e)
{
	*p = (struct pool){ -1, -1 };
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make the directory %s", dir);
	p->dir_fd = path_open_private_dir(dir, e);
	if (p->dir_fd < 0)
		return -1;
	p->lock_fd = openat(p->dir_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return p->lock_fd < 0 ? err_sys(e, "open the lock of %s", dir) : 0;
}

void pool_close(struct pool *p)
{
	fd_close(&p->lock_fd);
	fd_close(&p->dir_fd);
}

int pool_lock(struct pool *p, struct err *e)
{
	while (flock(p->lock_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the addresses of networks");
	return 0;
}

void pool_unlock(struct pool *p)
{
	flock(p->lock_fd, LOCK_UN);
}

static uint64_t next_number(const struct pool *p)
{
	char text[24];
	ssize_t n = pread(p->lock_fd, text, sizeof(text) - 1, 0);
	uint64_t v = POOL_FIRST;
	struct err ignored;

	if (n > 0) {
		text[n] = '\0';
		if (num_u64(text, "number", POOL_FIRST, UINT64_MAX / 2, &v, &ignored) < 0)
			return POOL_FIRST;
	}
	return v;
}

static int is_usable(const struct pool_plan *plan, uint64_t n)
{
	struct netaddr a, b;

	/* the first one is the network's own, and the last one of IPv4 is for broadcasts */
	return n && netcidr_nth(&plan->net, n + 1, &a) == 0 && netcidr_nth(&plan->net6, n, &b) == 0;
}

static int is_kept_number(const struct pool_plan *plan, uint64_t n)
{
	size_t i;

	for (i = 0; i < plan->kept_count; i++)
		if (plan->kept[i] == n)
			return 1;
	return 0;
}

static int try_number(struct pool *p, const char *id, uint64_t n)
{
	autoclose int fd = -1;
	char name[24];

	snprintf(name, sizeof(name), "%llu", (unsigned long long)n);
	fd = openat(p->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -1 : io_write_all(fd, id, strlen(id));
}

static int take_wanted_number(struct pool *p, const char *id, const struct pool_plan *plan, struct err *e)
{
	char text[NETADDR_TEXT] = "?";
	struct netaddr a;

	if (netcidr_nth(&plan->net, plan->wanted, &a) == 0 || netcidr_nth(&plan->net6, plan->wanted, &a) == 0)
		netaddr_text(&a, text);
	if (!is_usable(plan, plan->wanted))
		return err_set(e, ERR_INVALID, "%s is not an address for a member of the network, which has the same number in both "
			       "subnets; hint: --ip takes one between the first and the last of IPv4", text);
	if (!is_kept_number(plan, plan->wanted) && try_number(p, id, plan->wanted) == 0)
		return 0;
	if (!is_kept_number(plan, plan->wanted) && errno != EEXIST)
		return err_sys(e, "take an address");
	return err_set(e, ERR_EXISTS, "the address %s is in use already; hint: another --ip, or none", text);
}

int pool_take(struct pool *p, const char *id, const struct pool_plan *plan, uint64_t *ret_number, struct err *e)
{
	uint64_t first = next_number(p), n;
	char text[24];
	int len;

	if (plan->has_wanted) {
		*ret_number = plan->wanted;
		return take_wanted_number(p, id, plan, e);
	}
	if (first < plan->from || first > plan->to || !is_usable(plan, first))
		first = plan->from;
	n = first;
	do {
		if (is_usable(plan, n) && !is_kept_number(plan, n)) {
			if (try_number(p, id, n) == 0) {
				len = snprintf(text, sizeof(text), "%llu", (unsigned long long)n + 1);
				if (ftruncate(p->lock_fd, 0) < 0 || pwrite(p->lock_fd, text, (size_t)len, 0) != len) {
					pool_free(p, n);
					return err_sys(e, "record the address");
				}
				*ret_number = n;
				return 0;
			}
			if (errno != EEXIST)
				return err_sys(e, "take an address");
		}
		n = n < plan->to && is_usable(plan, n + 1) ? n + 1 : plan->from;
	} while (n != first);
	return err_set(e, ERR_LIMIT, "every address of the pool is taken; hint: remove sandboxes, run berth gc, or set [network] pool to a "
		       "larger one");
}

void pool_free(struct pool *p, uint64_t number)
{
	char name[24];

	snprintf(name, sizeof(name), "%llu", (unsigned long long)number);
	unlinkat(p->dir_fd, name, 0);
}

int pool_record(struct pool *p, const char *id, const json_t *record, struct err *e)
{
	autofree char *text = json_dumps(record, JSON_COMPACT);
	char name[80];

	snprintf(name, sizeof(name), "%s.json", id);
	return text ? io_replace_file(p->dir_fd, name, text, strlen(text), 0600, 0, e) : err_nomem(e);
}

json_t *pool_recorded(struct pool *p, const char *id, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	char name[80];

	snprintf(name, sizeof(name), "%s.json", id);
	if (io_read_file(p->dir_fd, name, &b, e) < 0)
		return NULL;
	return json_parse(b.data ? b.data : "", b.len, RECORD_MAX, name, e);
}

/* The owner of the entry: an id in out, or 0. */
static int pool_entry_owner(const struct pool *p, const char *name, char out[65])
{
	size_t n = strlen(name), digits = strspn(name, "0123456789");
	ssize_t got;

	const char *dot = n && name[0] == '.' ? strstr(name, ".json.") : NULL;

	if (dot && dot - name < 66 && dot > name + 1) {	/* a record that was being written */
		snprintf(out, 65, "%.*s", (int)(dot - name - 1), name + 1);
	} else if (n > 5 && n < 70 && !strcmp(name + n - 5, ".json")) {
		snprintf(out, 65, "%.*s", (int)(n - 5), name);
	} else if (n && digits == n) {
		autoclose int fd = openat(p->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		got = fd < 0 ? -1 : read(fd, out, 64);
		if (got < 0)
			return 0;
		out[got] = '\0';
		if (!got)	/* cut off between its making and its filling */
			snprintf(out, 65, "nobody");
	} else {
		return 0;
	}
	return path_is_name(out);
}

static DIR *entries(const struct pool *p, struct err *e)
{
	int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		err_sys(e, "read the directory of networks");
		fd_close(&fd);
	}
	return d;
}

int pool_forget(struct pool *p, const char *id, struct err *e)
{
	DIR *d = entries(p, e);
	struct dirent *entry;
	char name[80], holder[65];

	if (!d)
		return -1;
	while ((entry = readdir(d)))
		if ((entry->d_name[0] == '.' || strspn(entry->d_name, "0123456789") == strlen(entry->d_name)) &&
		    pool_entry_owner(p, entry->d_name, holder) && !strcmp(holder, id))
			unlinkat(p->dir_fd, entry->d_name, 0);
	closedir(d);
	snprintf(name, sizeof(name), "%s.json", id);
	return unlinkat(p->dir_fd, name, 0) < 0 && errno != ENOENT ? err_sys(e, "forget the network of sandbox %s", id) : 0;
}

int pool_each(struct pool *p, int (*each)(void *ctx, const char *id), void *ctx, struct err *e)
{
	DIR *d = entries(p, e);
	struct dirent *entry;
	char id[65];
	int r = 0;

	if (!d)
		return -1;
	while (r == 0 && (entry = readdir(d)))
		if (pool_entry_owner(p, entry->d_name, id))
			r = each(ctx, id);
	closedir(d);
	return r;
}

/* ---- the members of a named network ---- */

#define CLOSED "closed"

static int count_numbers(void *ctx, const char *name)
{
	if (strspn(name, "0123456789") == strlen(name))
		++*(int *)ctx;
	return 0;
}

int members_count(struct pool *p, struct err *e)
{
	autoclose int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n = 0, failed = 0;

	if (fd >= 0)
		path_each_entry(fd, count_numbers, &n, &failed);
	return fd < 0 || failed ? err_sys(e, "count the members of a network") : n;
}

int members_room(struct pool *p, const char *network, uint64_t limit, struct err *e)
{
	int n = members_count(p, e);

	if (n < 0)
		return -1;
	if (path_has(p->dir_fd, CLOSED))
		return err_set(e, ERR_NOT_FOUND, "network %s is being removed", network);
	if (limit && (uint64_t)n >= limit)
		return err_set(e, ERR_LIMIT, "network %s has %d members, and no more are allowed; "
					     "hint: "
			       "[network] max_members in berth.toml", network, n);
	return 0;
}

int members_close(struct pool *p, struct err *e)
{
	return io_replace_file(p->dir_fd, CLOSED, "", 0, 0600, 0, e);
}
