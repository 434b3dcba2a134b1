/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/nametable.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define ROWS 20480	/* 1000 members with 20 names; only those in use take memory */
#define FORMAT 1

struct row {
	_Atomic uint64_t stamp;	/* 0: the row is free; else it differs from all earlier stamps */
	uint32_t number;
	uint32_t rank;		/* rank of the name among the member's names */
	char name[NAMETABLE_NAME + 7];
};

struct nametable_map {
	_Atomic uint32_t format, high;	/* high: rows from here on were never used */
	uint64_t last;			/* stamp that was given */
	struct row rows[ROWS];
};
_Static_assert(sizeof(struct row) == 88, "the same in every program of berth");

static int map_file(struct nametable *t, int fd, int prot, struct err *e)
{
	void *p = mmap(NULL, sizeof(*t->map), prot, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return err_sys(e, "map the names of a network");
	t->map = p;
	return 0;
}

int nametable_open(struct nametable *t, int dir_fd, struct err *e)
{
	autoclose int fd = openat(dir_fd, NAMETABLE_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
				  0600);
	struct stat st;

	t->map = NULL;
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    ((size_t)st.st_size != sizeof(*t->map) && ftruncate(fd, sizeof(*t->map)) < 0))
		return err_sys(e, "open the names of a network");
	if (map_file(t, fd, PROT_READ | PROT_WRITE, e) < 0)
		return -1;
	atomic_store(&t->map->format, FORMAT);
	return 0;
}

int nametable_map(struct nametable *t, int fd, struct err *e)
{
	struct stat st;

	t->map = NULL;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at the names of a network");
	if ((size_t)st.st_size != sizeof(*t->map))
		return err_set(e, ERR_CORRUPT, "the names of a network are malformed");
	return map_file(t, fd, PROT_READ, e);
}

void nametable_close(struct nametable *t)
{
	if (t->map)
		munmap(t->map, sizeof(*t->map));
	t->map = NULL;
}

static uint32_t used(const struct nametable *t)
{
	uint32_t n = atomic_load(&t->map->high);

	return n < ROWS ? n : ROWS;
}

void nametable_forget(struct nametable *t, uint32_t number)
{
	uint32_t i, n = used(t);

	for (i = 0; i < n; i++) {
		struct row *r = &t->map->rows[i];
		uint64_t stamp = atomic_load(&r->stamp);

		/* without the lock: the row may be another member's by now, with another stamp */
		if (stamp && r->number == number)
			atomic_compare_exchange_strong(&r->stamp, &stamp, 0);
	}
}

static int take_row(struct nametable *t, uint32_t number, uint32_t rank, const char *name)
{
	struct nametable_map *m = t->map;
	uint32_t i, n = used(t);

	for (i = 0; i < n && atomic_load(&m->rows[i].stamp); i++)
		;
	if (i == ROWS)
		return -1;
	m->rows[i].number = number;
	m->rows[i].rank = rank;
	snprintf(m->rows[i].name, sizeof(m->rows[i].name), "%s", name);
	atomic_store(&m->rows[i].stamp, ++m->last);
	if (i == n)
		atomic_store(&m->high, n + 1);
	return 0;
}

int nametable_set(struct nametable *t, uint32_t number, const char *const *names, size_t count,
		  struct err *e)
{
	size_t i, j;

	nametable_forget(t, number);
	for (i = 0; i < count; i++) {
		for (j = 0; j < i && strcmp(names[i], names[j]); j++)
			;
		if (j == i && take_row(t, number, (uint32_t)i, names[i]) < 0) {
			nametable_forget(t, number);
			return err_set(e, ERR_LIMIT, "the members of the network have too many "
						     "names; hint: fewer of --alias");
		}
	}
	return 0;
}

/* A row as it was at one moment: 1, or 0 when it is free or changes now. */
static int read_row(const struct nametable *t, uint32_t i, struct row *ret)
{
	const struct row *r = &t->map->rows[i];
	uint64_t stamp = atomic_load(&r->stamp);

	if (!stamp)
		return 0;
	memcpy(ret, r, sizeof(*ret));
	ret->name[sizeof(ret->name) - 1] = '\0';
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&r->stamp) == stamp;
}

size_t nametable_find(const struct nametable *t, const char *name, uint32_t from, uint32_t *ret,
		      size_t max)
{
	uint32_t i, n = used(t);
	struct row row;
	size_t found = 0;

	for (i = 0; i < n && found < max; i++) {
		uint32_t at = (from % n + i) % n;

		/* a match of the quick look is checked with care */
		if (!strncmp(t->map->rows[at].name, name, NAMETABLE_NAME) &&
		    read_row(t, at, &row) && !strcmp(row.name, name))
			ret[found++] = row.number;
	}
	return found;
}

int nametable_name(const struct nametable *t, uint32_t number, char ret[NAMETABLE_NAME])
{
	uint32_t i, n = used(t);
	struct row row;

	for (i = 0; i < n; i++)
		if (t->map->rows[i].number == number && read_row(t, i, &row) &&
		    row.number == number && !row.rank) {
			snprintf(ret, NAMETABLE_NAME, "%.*s", NAMETABLE_NAME - 1, row.name);
			return 1;
		}
	return 0;
}

/* ---- answers from the table ---- */

/* Upholds S45 of SECURITY.md. */

#define ANSWERS 12	/* addresses in an answer: it fits DNSMSG_SMALL */
#define TYPE_ANY 255

int namezone_open(struct namezone *z, const struct namezone_place *at, struct err *e)
{
	snprintf(z->network, sizeof(z->network), "%s", at->network);
	z->pool = *at->pool;
	z->pool6 = *at->pool6;
	z->with6 = at->with6;
	return nametable_map(&z->table, at->fd, e);
}

void namezone_close(struct namezone *z)
{
	nametable_close(&z->table);
}

/* Returns the length of the network's name that members use: without its tenant. */
static size_t domain(const struct namezone *z)
{
	return strcspn(z->network, "@");
}

static size_t find_zone_numbers(const struct namezone *z, const struct dnsmsg *q, uint32_t *ret)
{
	const size_t n = strlen(q->name), m = domain(z);
	char bare[DNSMSG_NAME];
	uint32_t from = 0;
	size_t found;

	if (getrandom(&from, sizeof(from), GRND_NONBLOCK) < 0)
		from = 0;	/* start again at the first of them */
	found = nametable_find(&z->table, q->name, from, ret, ANSWERS);
	if (found || n <= m + 1 || q->name[n - m - 1] != '.' ||
	    strncmp(q->name + n - m, z->network, m))
		return found;
	/* NAME.NETWORK */
	snprintf(bare, sizeof(bare), "%.*s", (int)(n - m - 1), q->name);
	return nametable_find(&z->table, bare, from, ret, ANSWERS);
}

static void add_zone_addresses(const struct namezone *z, const struct dnsmsg *q, const uint32_t *numbers,
			  size_t count, uint8_t *out, size_t *len)
{
	struct netaddr a;
	size_t i;

	for (i = 0; i < count; i++)
		if (q->type == DNSMSG_A && netcidr_nth(&z->pool, numbers[i], &a) == 0)
			dnsmsg_add(out, len, DNSMSG_A, a.b, 4);
		else if (q->type == DNSMSG_AAAA && z->with6 &&
			 netcidr_nth(&z->pool6, numbers[i], &a) == 0)
			dnsmsg_add(out, len, DNSMSG_AAAA, a.b, 16);
}

/* The number of an address of the network. */
static uint32_t address_number(const struct netcidr *c, const struct netaddr *a)
{
	const size_t len = a->family == 4 ? 4 : 16;
	uint32_t n = 0;
	size_t i;

	for (i = len - 4; i < len; i++)
		n = n << 8 | (a->b[i] & (uint8_t)~c->net.b[i]);
	return n;
}

/* The owner of an address of the network; servers answer for other addresses. */
static int reverse(const struct namezone *z, const struct dnsmsg *q, const uint8_t *p,
			  uint8_t *out, size_t *len)
{
	const struct netcidr *c;
	char name[NAMETABLE_NAME], full[2 * NAMETABLE_NAME + 1];
	uint8_t wire[256];
	struct netaddr a, same;
	uint32_t number;
	int known;

	if (!dnsmsg_reverse(q->name, &a))
		return 0;
	c = a.family == 4 ? &z->pool : &z->pool6;
	if (!netcidr_holds(c, &a))
		return 0;
	number = address_number(c, &a);
	known = netcidr_nth(c, number, &same) == 0 && netaddr_equal(&a, &same) &&
		nametable_name(&z->table, number, name);
	*len = dnsmsg_reply(q, p, known ? DNSMSG_OK : DNSMSG_NXDOMAIN, 1, out);
	if (known && (q->type == DNSMSG_PTR || q->type == TYPE_ANY)) {
		snprintf(full, sizeof(full), "%s.%.*s", name, (int)domain(z), z->network);
		dnsmsg_add(out, len, DNSMSG_PTR, wire, dnsmsg_name(full, wire));
	}
	return 1;
}

int namezone_answer(const struct namezone *z, const struct dnsmsg *q, const uint8_t *p,
		    uint8_t *out, size_t *len)
{
	uint32_t numbers[ANSWERS];
	size_t n;

	if (q->odd || !q->labels)
		return 0;
	n = find_zone_numbers(z, q, numbers);
	if (!n)
		return reverse(z, q, p, out, len);
	*len = dnsmsg_reply(q, p, DNSMSG_OK, 1, out);
	add_zone_addresses(z, q, numbers, n, out, len);
	return 1;
}
