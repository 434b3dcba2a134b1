/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/netcount.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "base/mem.h"

enum { IN, OUT, REFUSED, OVER, QUOTA, OBJECTS };

static const struct { const char *suffix; uint32_t type; } objects[OBJECTS] = {
	[IN] = { "-in", NFT_OBJECT_COUNTER }, [OUT] = { "-out", NFT_OBJECT_COUNTER }, [REFUSED] = { "-refused", NFT_OBJECT_COUNTER },
	[OVER] = { "-over", NFT_OBJECT_COUNTER }, [QUOTA] = { "", NFT_OBJECT_QUOTA },
};

/*
 * The values of one object; first and second are bytes and packets of a counter, or the limit
 * and the use of a quota.
 */
struct object {
	uint64_t first, second;
};

struct message {
	_Alignas(NLMSG_ALIGNTO) char data[2048];
	size_t len;
};

static void add_count_attr(struct message *m, uint16_t type, const void *p, size_t n)
{
	struct nlattr a = { .nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = type };

	memcpy(m->data + m->len, &a, sizeof(a));
	memcpy(m->data + m->len + NLA_HDRLEN, p, n);
	m->len += NLA_ALIGN(a.nla_len);
}

/* The room is for all: a name has at most 80 characters. */
static void add_question(struct message *m, uint32_t number, const char *table, const char *id)
{
	struct nlmsghdr h = { .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETOBJ, .nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = number };
	const struct nfgenmsg g = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };
	const uint32_t type = htonl(objects[number].type);
	size_t at = m->len;
	char name[80];

	snprintf(name, sizeof(name), "%s%s", id, objects[number].suffix);
	m->len += NLMSG_HDRLEN;
	memcpy(m->data + m->len, &g, sizeof(g));
	m->len += NLMSG_ALIGN(sizeof(g));
	add_count_attr(m, NFTA_OBJ_TABLE, table, strlen(table) + 1);
	add_count_attr(m, NFTA_OBJ_NAME, name, strlen(name) + 1);
	add_count_attr(m, NFTA_OBJ_TYPE, &type, sizeof(type));
	h.nlmsg_len = (uint32_t)(m->len - at);
	memcpy(m->data + at, &h, sizeof(h));
}

/* Finds an attribute in a list of them: its contents, or NULL. */
static const char *find_count_attr(const char *p, size_t n, uint16_t type, size_t *ret_len)
{
	struct nlattr a;

	while (n >= sizeof(a)) {
		memcpy(&a, p, sizeof(a));
		if (a.nla_len < NLA_HDRLEN || a.nla_len > n)
			return NULL;
		if ((a.nla_type & NLA_TYPE_MASK) == type) {
			*ret_len = a.nla_len - NLA_HDRLEN;
			return p + NLA_HDRLEN;
		}
		if ((size_t)NLA_ALIGN(a.nla_len) >= n)
			return NULL;
		p += NLA_ALIGN(a.nla_len);
		n -= NLA_ALIGN(a.nla_len);
	}
	return NULL;
}

static int take_count_number(const char *p, size_t n, uint16_t type, uint64_t *ret)
{
	size_t len = 0;
	const char *v = find_count_attr(p, n, type, &len);
	uint64_t raw;

	if (!v || len != sizeof(raw))
		return -1;
	memcpy(&raw, v, sizeof(raw));
	*ret = be64toh(raw);
	return 0;
}

/* Takes one answer of the kernel: 0, or its errno. */
static int take_count_answer(const char *p, size_t n, struct object found[OBJECTS])
{
	const size_t head = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct nfgenmsg)), error = NLMSG_HDRLEN + sizeof(int);
	struct nlmsghdr h;
	const char *data;
	size_t len = 0;
	int failed, quota;

	memcpy(&h, p, sizeof(h));
	if (h.nlmsg_len > n || h.nlmsg_seq >= OBJECTS)
		return EBADMSG;
	if (h.nlmsg_type == NLMSG_ERROR) {
		if (n < error)
			return EBADMSG;
		memcpy(&failed, p + NLMSG_HDRLEN, sizeof(failed));
		return -failed;
	}
	data = h.nlmsg_len > head ? find_count_attr(p + head, h.nlmsg_len - head, NFTA_OBJ_DATA, &len) : NULL;
	quota = objects[h.nlmsg_seq].type == NFT_OBJECT_QUOTA;
	if (!data || take_count_number(data, len, quota ? NFTA_QUOTA_BYTES : NFTA_COUNTER_BYTES, &found[h.nlmsg_seq].first) < 0 ||
	    take_count_number(data, len, quota ? NFTA_QUOTA_CONSUMED : NFTA_COUNTER_PACKETS, &found[h.nlmsg_seq].second) < 0)
		return EBADMSG;
	return 0;
}

int netcount_read(const char *table, const char *id, struct netcount *ret, struct err *e)
{
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct object found[OBJECTS] = { 0 };
	struct message m = { .len = 0 };
	char answer[4096];
	uint32_t i;
	int failed = 0;

	for (i = 0; i < OBJECTS; i++)
		add_question(&m, i, table, id);
	if (fd < 0 || send(fd, m.data, m.len, 0) < 0)
		return err_sys(e, "ask nftables for the counters of sandbox %s", id);
	/* the kernel answered while we sent: nothing is waited for */
	for (i = 0; i < OBJECTS && !failed; i++) {
		ssize_t n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (n < (ssize_t)NLMSG_HDRLEN)
			return n < 0 ? err_sys(e, "ask nftables for the counters of sandbox %s", id) :
				       err_set(e, ERR_INTERNAL, "nftables has no counters of sandbox %s", id);
		failed = take_count_answer(answer, (size_t)n, found);
	}
	if (failed) {
		err_errno(e, failed, "ask nftables for the counters of sandbox %s", id);
		if (failed == ENOENT)
			e->code = ERR_NOT_FOUND;
		return -1;
	}
	*ret = (struct netcount){ found[IN].first, found[OUT].first, found[REFUSED].second, found[OVER].second,
				  found[QUOTA].second >= found[QUOTA].first };
	return 0;
}
