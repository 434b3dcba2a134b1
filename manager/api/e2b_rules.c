/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/e2b.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

#define NAMES_MAX 256
#define ALL_TRAFFIC "0.0.0.0/0"

int e2b_rules_given(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return v && !json_is_null(v) && !json_is_false(v) &&
	       !(json_is_array(v) && !json_array_size(v)) &&
	       !(json_is_object(v) && !json_object_size(v));
}

/* ---- ranges -------------------------------------------------------------------------------- */

static void mask_e2b_range(struct netcidr *c)
{
	const unsigned size = c->net.family == 4 ? 32 : 128;
	unsigned i;

	for (i = c->bits; i < size; i++)
		c->net.b[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
}

/* An address or a range, whose host bits do not matter: 1, or 0 for something else. */
static int parse_e2b_range(const char *text, struct netcidr *ret)
{
	const char *slash = strchr(text, '/');
	char address[NETADDR_TEXT];
	uint64_t bits;
	struct err ignored;
	unsigned size;

	snprintf(address, sizeof(address), "%.*s", slash ? (int)(slash - text) : NETADDR_TEXT,
		 text);
	if (netaddr_parse(address, &ret->net) < 0)
		return 0;
	size = ret->net.family == 4 ? 32 : 128;
	bits = size;
	if (slash && num_u64(slash + 1, "bits", 0, size, &bits, &ignored) < 0)
		return 0;
	ret->bits = (unsigned)bits;
	mask_e2b_range(ret);
	return 1;
}

static int add_range(struct e2b_ranges *r, const struct netcidr *c, struct err *e)
{
	if (r->n == E2B_RANGES_MAX)
		return err_set(e, ERR_LIMIT,
			       "network.allowOut and denyOut make more than %d ranges",
			       E2B_RANGES_MAX);
	r->v[r->n++] = *c;
	return 0;
}

/* Adds what of c is outside of hole. */
static int add_without(struct e2b_ranges *to, struct netcidr c, const struct netcidr *hole,
		       struct err *e)
{
	struct netcidr half;

	if (c.net.family != hole->net.family ||
	    (!netcidr_holds(&c, &hole->net) && !netcidr_holds(hole, &c.net)))
		return add_range(to, &c, e);
	/* the half that has no part of the hole stays; the other is cut again */
	while (c.bits < hole->bits) {
		half = c;
		half.bits = ++c.bits;
		half.net.b[(c.bits - 1) / 8] ^= (uint8_t)(0x80 >> (c.bits - 1) % 8);
		if (netcidr_holds(&half, &hole->net)) {
			struct netcidr other = c;

			c = half;
			half = other;
		}
		if (add_range(to, &half, e) < 0)
			return -1;
	}
	return 0;
}

static int subtract(struct e2b_ranges *from, const struct e2b_ranges *holes, struct err *e)
{
	autofree struct e2b_ranges *left = malloc(sizeof(*left));
	size_t i, k;

	if (!left)
		return err_nomem(e);
	for (i = 0; i < holes->n; i++) {
		left->n = 0;
		for (k = 0; k < from->n; k++)
			if (add_without(left, from->v[k], &holes->v[i], e) < 0)
				return -1;
		*from = *left;
	}
	return 0;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* "example.com", "*.example.com", "*" */
static int is_e2b_host_name(const char *s)
{
	size_t n = strlen(s);

	if (!strcmp(s, "*"))
		return 1;
	if (!strncmp(s, "*.", 2))
		s += 2;
	return n <= 253 && isalnum((unsigned char)s[0]) &&
	       !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")];
}

static const json_t *e2b_rule_list(const json_t *network, const char *key, struct err *e)
{
	const json_t *list = json_object_get(network, key);

	if (!list || json_is_null(list))
		return NULL;
	if (!json_is_array(list))
		err_set(e, ERR_INVALID, "network.%s is not an array", key);
	return list;
}

static int read_denied(const json_t *list, struct e2b_rules *r, int *ret_all, struct err *e)
{
	const json_t *one;
	struct netcidr c;
	size_t i;

	if (list && !json_is_array(list))
		return -1;
	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *text = json_string_value(one);

		if (!text || !parse_e2b_range(text, &c))
			return err_set(e, ERR_INVALID, "invalid denied CIDR %.80s",
				       text ? text : "");
		*ret_all |= !strcmp(text, ALL_TRAFFIC);
		if (add_range(&r->deny, &c, e) < 0)
			return -1;
	}
	return 0;
}

static int read_allowed(const json_t *list, struct e2b_rules *r, struct err *e)
{
	const json_t *one;
	struct netcidr c;
	size_t i;

	if (list && !json_is_array(list))
		return -1;
	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *text = json_string_value(one);

		if (text && parse_e2b_range(text, &c)) {
			if (add_range(&r->allow, &c, e) < 0)
				return -1;
			continue;
		}
		if (!text || !is_e2b_host_name(text))
			return err_set(e, ERR_INVALID, "invalid allowed address %.80s",
				       text ? text : "");
		if (json_array_size(r->names) == NAMES_MAX)
			return err_set(e, ERR_LIMIT, "network.allowOut has more than %d names",
				       NAMES_MAX);
		json_array_append_new(r->names, json_string(text));
	}
	return 0;
}

static int deny_everything(struct e2b_rules *r, struct err *e)
{
	struct netcidr v4 = {.net = {.family = 4}}, v6 = {.net = {.family = 6}};

	r->deny.n = 0;
	return add_range(&r->deny, &v4, e) < 0 ? -1 : add_range(&r->deny, &v6, e);
}

/* What allow_internet_access and the members of a network ask for. */
int e2b_rules_read(const json_t *access, const json_t *network, struct e2b_rules *r, struct err *e)
{
	int all = 0;

	if (access && !json_is_boolean(access) && !json_is_null(access))
		return err_set(e, ERR_INVALID, "allow_internet_access is not a boolean");
	r->names = json_array();
	if (read_denied(e2b_rule_list(network, "denyOut", e), r, &all, e) < 0 ||
	    read_allowed(e2b_rule_list(network, "allowOut", e), r, e) < 0)
		return -1;
	if (json_array_size(r->names) && !all)
		return err_set(e, ERR_INVALID,
			       "When specifying allowed domains in allow out, you must include "
			       "'ALL_TRAFFIC' in deny out to block all other traffic.");
	all |= json_is_false(access);
	if (all && deny_everything(r, e) < 0)
		return -1;
	r->closed = all && !r->allow.n && !json_array_size(r->names);
	return subtract(&r->deny, &r->allow, e);
}

/* ---- requests from outside ------------------------------------------------------------------- */

int e2b_masked_host(const char *mask, unsigned port, char ret[E2B_HOST_SIZE], struct err *e)
{
	static const char place[] = "${PORT}";
	size_t n = 0, name, digits;

	for (; *mask && n < E2B_HOST_SIZE - 6; mask++) {
		if (strncmp(mask, place, sizeof(place) - 1)) {
			ret[n++] = *mask;
			continue;
		}
		n += (size_t)snprintf(ret + n, 6, "%u", port);
		mask += sizeof(place) - 2;
	}
	ret[n] = '\0';
	name = strspn(ret, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");
	digits = ret[name] == ':' ? strspn(ret + name + 1, "0123456789") : 0;
	if (*mask || !name || (ret[name] && (!digits || digits > 5 || ret[name + 1 + digits])))
		return err_set(e, ERR_INVALID,
			       "network.maskRequestHost is not a host or HOST:PORT of at most %d bytes",
			       E2B_HOST_SIZE - 6);
	return 0;
}

static int check_from_outside(const json_t *network, struct err *e)
{
	const json_t *mask = json_object_get(network, "maskRequestHost");
	const json_t *is_public = json_object_get(network, "allowPublicTraffic");
	char host[E2B_HOST_SIZE];

	/* ports are public unless it is false: a word for false must not make them so */
	if (is_public && !json_is_boolean(is_public) && !json_is_null(is_public))
		return err_set(e, ERR_INVALID, "network.allowPublicTraffic is not true or false");
	if (!mask || json_is_null(mask))
		return 0;
	if (!json_is_string(mask))
		return err_set(e, ERR_INVALID, "network.maskRequestHost is not text");
	return e2b_masked_host(json_string_value(mask), UINT16_MAX, host, e);
}

int e2b_rules_check(const json_t *network, struct err *e)
{
	static const char *const missing[] = {"rules", "egressProxy", "httpsPorts"};
	size_t i;

	if (network && !json_is_object(network) && !json_is_null(network))
		return err_set(e, ERR_INVALID, "network is not an object");
	for (i = 0; i < ARRAY_LEN(missing); i++)
		if (e2b_rules_given(network, missing[i]))
			return err_set(e, ERR_UNSUPPORTED,
				       "network.%s is not served: requests leave a sandbox as it "
				       "makes them; hint: allowOut and denyOut",
				       missing[i]);
	return check_from_outside(network, e);
}

/* ---- berth's options ------------------------------------------------------------------------ */

static json_t *ranges_text(const struct e2b_ranges *r)
{
	json_t *list = json_array();
	char text[NETADDR_TEXT];
	size_t i;

	for (i = 0; i < r->n; i++)
		json_array_append_new(list, json_sprintf("%s/%u", netaddr_text(&r->v[i].net, text),
							 r->v[i].bits));
	return list;
}

/* Beside names, addresses are rules of the proxy, which would let one through that is not public.
 */
static int add_e2b_addresses(json_t *hosts, const struct e2b_ranges *allow, struct err *e)
{
	char text[NETADDR_TEXT];
	size_t i;

	for (i = 0; i < allow->n; i++) {
		const struct netcidr *c = &allow->v[i];
		const char *address = netaddr_text(&c->net, text);

		if (c->bits != (c->net.family == 4 ? 32u : 128u))
			return err_set(
				e, ERR_UNSUPPORTED,
				"network.allowOut has the range %s/%u beside names; hint: its "
				"addresses one by one, or ranges alone",
				address, c->bits);
		if (netaddr_special(&c->net))
			return err_set(e, ERR_DENIED,
				       "network.allowOut has %s, which is not public", address);
		json_array_append_new(
			hosts, json_sprintf(c->net.family == 4 ? "%s:*" : "[%s]:*", address));
	}
	return 0;
}

/* {"allow-host": [...], "deny-net": [...]} for a sandbox in egress mode, or one on the bridge. */
json_t *e2b_rules_options(const struct e2b_rules *r, int egress, struct err *e)
{
	json_t *hosts = json_copy(r->names), *options;
	const int by_name = json_array_size(hosts) > 0;

	if (by_name && add_e2b_addresses(hosts, &r->allow, e) < 0) {
		json_decref(hosts);
		return NULL;
	}
	if (!by_name && egress && !r->closed)
		json_array_append_new(hosts, json_string("*:*"));
	options = json_pack("{s:o}", "allow-host", hosts);
	if (!by_name)
		json_object_set_new(options, "deny-net", ranges_text(&r->deny));
	return options;
}

int e2b_rules_refuse_none(struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED,
		       "this sandbox has no network that rules could open; hint: [sandbox] "
		       "network_enabled of berth.toml");
}

json_t *e2b_rules_of_create(const json_t *body, int enabled, struct err *e)
{
	const json_t *network = json_object_get(body, "network");
	autofree struct e2b_rules *r = calloc(1, sizeof(*r));
	json_t *options = NULL;
	int egress;

	if (!r) {
		err_nomem(e);
		return NULL;
	}
	if (e2b_rules_check(network, e) < 0 ||
	    e2b_rules_read(json_object_get(body, "allow_internet_access"), network, r, e) < 0)
		goto out;
	if (!enabled && (r->allow.n || json_array_size(r->names))) {
		e2b_rules_refuse_none(e);
		goto out;
	}
	egress = r->closed || json_array_size(r->names);
	options = enabled ? e2b_rules_options(r, egress, e) : json_object();
	if (options)
		json_object_set_new(options, "network",
				    json_string(!enabled ? "none" :
						egress   ? "egress" :
							   "bridge"));
out:
	json_decref(r->names);
	return options;
}

/* ---- variables ---- */

json_t *e2b_env(const json_t *envs, struct err *e)
{
	json_t *list = json_array(), *v;
	const char *name;

	json_object_foreach((json_t *)(size_t)envs, name, v) {
		if (!json_is_string(v)) {
			json_decref(list);
			err_set(e, ERR_INVALID, "the environment has a value that is not a string");
			return NULL;
		}
		json_array_append_new(list, json_sprintf("%s=%s", name, json_string_value(v)));
	}
	return list;
}
