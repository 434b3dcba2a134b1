/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/spec.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"

static int check_spec_strings(const char *const *v, size_t n, const char *what, struct err *e)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strlen(v[i]) >= 131072)	/* MAX_ARG_STRLEN of execve(2) */
			return err_set(e, ERR_INVALID, "%s %zu is longer than 131071 bytes; hint: pass it on stdin", what, i);
	return 0;
}

/* A hostname or a domainname; what: which. */
static int check_spec_host(const char *h, const char *what, struct err *e)
{
	size_t i, n = strlen(h);

	if (!n || n > SPEC_HOST_MAX)
		return err_set(e, ERR_INVALID, "%s '%.80s' must have 1 to %d characters", what, h, SPEC_HOST_MAX);
	for (i = 0; i < n; i++)
		if (!((h[i] >= 'a' && h[i] <= 'z') || (h[i] >= 'A' && h[i] <= 'Z') || (h[i] >= '0' && h[i] <= '9') ||
		      strchr("-._", h[i])))
			return err_set(e, ERR_INVALID, "%s '%s' may hold only letters, digits, '-', '_' and '.'", what, h);
	return 0;
}

const char *spec_host_names(const struct spec *s, char out[SPEC_HOST_NAMES])
{
	if (s->domainname)
		snprintf(out, SPEC_HOST_NAMES, "%s.%s %s", s->hostname, s->domainname, s->hostname);
	else
		snprintf(out, SPEC_HOST_NAMES, "%s", s->hostname);
	return out;
}

int spec_init_filtered(const struct spec *s)
{
	return !s->unconfined_seccomp && s->seccomp->name && seccomp_builtin(s->seccomp->name) == s->seccomp;
}

const char *spec_network_name(enum spec_network n)
{
	static const char *const names[] = { "none", "host", "bridge", "egress", "container" };

	_Static_assert(sizeof(names) / sizeof(names[0]) == NETWORK_COUNT, "one name per mode");
	return n < NETWORK_COUNT ? names[n] : "unknown";
}

enum spec_network spec_network_inside(const struct spec *s)
{
	return s->network == NETWORK_JOINED ? s->joined.mode : s->network;
}

int spec_wants_disk(const struct spec *s)
{
	return s->disk_bytes > s->limits.memory_bytes / 2;
}

int spec_is_proxied(const struct spec *s)
{
	return spec_network_inside(s) == NETWORK_EGRESS || s->net_egress || s->joined.proxied;
}

int spec_needs_nethelper(const struct spec *s)
{
	return s->network == NETWORK_BRIDGE || s->network == NETWORK_EGRESS;
}

int spec_hands_netns(const struct spec *s)
{
	return spec_needs_nethelper(s) || s->net_relay;
}

int spec_writes_host(const struct spec *s)
{
	size_t i;

	for (i = 0; i < s->mount_count; i++)
		if (s->mounts[i].kind == SPEC_BIND && s->mounts[i].writable)
			return 1;
	return 0;
}

void spec_close_sources(struct spec *s)
{
	size_t i;

	for (i = 0; i < s->mount_count; i++)
		if (s->mounts[i].kind == SPEC_BIND)
			fd_close(&s->mounts[i].source_fd);
}

int spec_check(const struct spec *s, struct err *e)
{
	if (!path_is_name(s->id))
		return err_set(e, ERR_INTERNAL, "sandbox id '%s' is malformed", s->id);
	if (!s->argc && !s->resident)
		return err_set(e, ERR_USAGE, "no command given and the image names none; hint: berth run IMAGE COMMAND");
	if (!s->layer_count)
		return err_set(e, ERR_INTERNAL, "a sandbox without layers");
	if (s->workdir[0] != '/')
		return err_set(e, ERR_INVALID, "working directory '%.200s' must be absolute", s->workdir);
	if (!s->unconfined_seccomp && !s->seccomp)
		return err_set(e, ERR_INTERNAL, "a sandbox without a seccomp profile");
	if (spec_needs_nethelper(s) && !s->net_policy)
		return err_set(e, ERR_INTERNAL, "a network without a policy");
	if ((s->inside || s->inner_count) && s->unconfined_seccomp)
		return err_set(e, ERR_UNSUPPORTED, "a zygote and its forks need a seccomp profile");
	if (s->inner_count > SPEC_INNER_MAX || (s->inside && s->network == NETWORK_JOINED))
		return err_set(e, ERR_INTERNAL, "a zygote that cannot be");
	if (s->id_base < SPEC_IDS || s->id_base % SPEC_IDS)
		return err_set(e, ERR_INTERNAL, "id range %u is not aligned or overlaps the host's", s->id_base);
	if (check_spec_host(s->hostname, "hostname", e) < 0 || (s->domainname && check_spec_host(s->domainname, "domainname", e) < 0) ||
	    check_spec_strings(s->argv, s->argc, "argument", e) < 0)
		return -1;
	return check_spec_strings(s->env, s->env_count, "environment variable", e);
}

/* ---- options that loosen it ---- */

static const struct { const char *name, *text; } rows[] = {
#define X(sym, name, text) { name, text },
	LOOSENED(X)
#undef X
};
_Static_assert(LOOSE_COUNT <= 32, "a set is 32 bits");

int loosen_names(uint32_t set, struct buf *out, struct err *e)
{
	const char *comma = "";
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		if (!(set & 1u << i))
			continue;
		if (buf_addf(out, e, "%s\"%s\"", comma, rows[i].name) < 0)
			return -1;
		comma = ",";
	}
	return 0;
}

int loosen_text(uint32_t set, struct buf *out, struct err *e)
{
	const char *comma = "";
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		if (!(set & 1u << i))
			continue;
		if (buf_addf(out, e, "%s%s", comma, rows[i].text) < 0)
			return -1;
		comma = ", ";
	}
	return 0;
}
