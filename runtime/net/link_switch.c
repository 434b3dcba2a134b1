/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S20 of SECURITY.md. */
#include "runtime/net/link_switch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

int link_switch(const char *family, const char *interface, const char *key, const char *value,
		struct err *e)
{
	char path[160], got[16];
	autoclose int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/sys/net/%s/conf/%s/%s", family, interface, key);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", path);
	if (io_write_all(fd, value, strlen(value)) < 0)
		return err_sys(e, "write %s to %s", value, path);
	n = pread(fd, got, sizeof(got) - 1, 0);
	if (n <= 0 || strncmp(got, value, strlen(value)))
		return err_set(e, ERR_INTERNAL, "%s does not read back as %s", path, value);
	return 0;
}

/* No router's word is believed, no source is believed that another interface leads to. */
int link_switches(const char *interface, struct err *e)
{
	static const struct { const char *family, *key, *value; } switches[] = {
		{ "ipv6", "accept_ra", "0" }, { "ipv6", "autoconf", "0" },
			{ "ipv6", "accept_redirects", "0" },
		{ "ipv6", "addr_gen_mode", "1" }, { "ipv6", "accept_dad", "0" },
			{ "ipv4", "rp_filter", "1" },
		{ "ipv4", "accept_redirects", "0" }, { "ipv4", "send_redirects", "0" },
			{ "ipv4", "route_localnet", "0" },
		/* no reply for any local address: the neighbours are recorded */
		{ "ipv4", "arp_ignore", "8" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(switches); i++)
		if (link_switch(switches[i].family, interface, switches[i].key, switches[i].value,
				e) < 0)
			return -1;
	return 0;
}
