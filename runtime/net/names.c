/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/names.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

#define FILE_MAX 65536

/* The servers of one file, which need not be there. */
static void read_servers(const char *path, struct netpolicy *p)
{
	autobuf struct buf b = BUF_INIT(FILE_MAX);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *line, *save = NULL, word[64];
	struct err ignored;

	if (fd < 0 || io_read_all(fd, &b, path, &ignored) < 0 || !b.data)
		return;
	for (line = strtok_r(b.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct netserver s;
		const char *special;

		if (p->dns_count == NETPOLICY_DNS || sscanf(line, " nameserver %63s", word) != 1 ||
		    netserver_parse(word, &s, &ignored) < 0)
			continue;
		special = netaddr_special(&s.addr);
		if (!special || (strcmp(special, "loopback") && strcmp(special, "unspecified") && strcmp(special, "link-local")))
			p->dns[p->dns_count++] = s;
	}
}

int names_choose(struct netpolicy *p, struct err *e)
{
	(void)e;
	if (!p->dns_count)
		read_servers("/etc/resolv.conf", p);
	/* if systemd-resolved listens on the loopback, this file has the servers that it asks */
	if (!p->dns_count)
		read_servers("/run/systemd/resolve/resolv.conf", p);
	return 0;
}

static int write_names_file(const char *dir, const char *name, const struct buf *b, struct err *e)
{
	char path[400];
	autoclose int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || io_write_all(fd, b->data ? b->data : "", b->len) < 0)
		return err_sys(e, "write %s", path);
	return 0;
}

static int add_hosts_lines(struct buf *b, const json_t *hosts, const struct link_plan *l, struct err *e)
{
	char text[NETADDR_TEXT];
	json_t *pair;
	size_t i;

	json_array_foreach(hosts, i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *address = json_string_value(json_array_get(pair, 1));

		if (!name || !address)
			return err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
		if (!strcmp(address, NAMES_GATEWAY))
			address = netaddr_text(&l->gateway, text);
		if (buf_addf(b, e, "%s\t%s\n", address, name) < 0)
			return -1;
	}
	return 0;
}

/* A line "search A B" or "options A B". */
static int add_resolv_line(struct buf *b, const char *word, const json_t *list, struct err *e)
{
	const json_t *one;
	size_t i, n = 0;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *text = json_string_value(one);

		if (text && strcmp(text, ".") && (buf_adds(b, n++ ? " " : word, e) < 0 || buf_adds(b, text, e) < 0))
			return -1;
	}
	return n ? buf_adds(b, "\n", e) : 0;
}

int names_write(const char *dir, const char *hostname, const struct netpolicy *p,
		const struct link_plan *l, int own_resolver, const json_t *policy, struct err *e)
{
	autobuf struct buf resolv = BUF_INIT(FILE_MAX), lines = BUF_INIT(FILE_MAX);
	const size_t host = strcspn(hostname, ".");
	char text[NETADDR_TEXT];
	size_t i;

	/* in Docker's order, and without a word more */
	if (add_resolv_line(&resolv, "search ", json_object_get(policy, NAMES_SEARCH), e) < 0 ||
	    (own_resolver && buf_adds(&resolv, NAMES_OWN_RESOLVER, e) < 0))
		return -1;
	for (i = 0; !own_resolver && i < p->dns_count; i++) {
		/* resolv.conf(5) has no word for a port */
		if (p->dns[i].port == 53 && (p->dns[i].addr.family == 4 || l->with6) &&
		    buf_addf(&resolv, e, "nameserver %s\n", netaddr_text(&p->dns[i].addr, text)) < 0)
			return -1;
	}
	if (add_resolv_line(&resolv, "options ", json_object_get(policy, NAMES_OPTIONS), e) < 0 ||
	    (!resolv.len && buf_adds(&resolv, "# made by berth\n", e) < 0))
		return -1;
	if (buf_addf(&lines, e, "# made by berth\n127.0.0.1\tlocalhost\n"
		     "::1\tlocalhost ip6-localhost ip6-loopback\n%s\t%s",
		     netaddr_text(&l->address, text), hostname) < 0 ||
	    /* a name with a domain is known without it, too */
	    (hostname[host] && buf_addf(&lines, e, " %.*s", (int)host, hostname) < 0) || buf_adds(&lines, "\n", e) < 0 ||
	    add_hosts_lines(&lines, json_object_get(policy, "hosts"), l, e) < 0)
		return -1;
	return write_names_file(dir, "resolv.conf", &resolv, e) < 0 ? -1 :
	       write_names_file(dir, "hosts", &lines, e);
}
