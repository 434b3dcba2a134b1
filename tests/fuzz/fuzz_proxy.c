/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client says to the proxy, first byte the kind: a head and its body, SOCKS5, or a rule with a target.
 * A head that is forwarded holds no second one; a body is never longer than what came.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/httpreq.h"
#include "runtime/net/netpolicy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void http(const char *p, size_t n)
{
	autobuf struct buf out = BUF_INIT(65536);
	struct httpreq r;
	struct err e;
	long body;

	if (httpreq_parse(p, n, &r, &out, &e) != 1)
		return;
	if (r.head_len > n || !r.port || r.port > 65535 || !r.host[0])
		abort();
	if (!r.connect) {
		const char *end = out.len >= 4 ? memmem(out.data, out.len, "\r\n\r\n", 4) : NULL;

		if (!end || end + 4 != out.data + out.len || memchr(out.data, '\0', out.len))
			abort();
	}
	body = httpbody_take(&r.body, p + r.head_len, n - r.head_len);
	if (body > (long)(n - r.head_len) || (r.body.done && r.body.left))
		abort();
}

static void rule(char *p)
{
	char *target = strchr(p, '\n');
	struct nethost h;
	struct netpublish b;
	struct netcidr c;
	struct nettarget t;
	struct err e;

	if (target)
		*target++ = '\0';
	if (nethost_parse(p, &h, &e) == 0 && (h.from > h.to || (h.kind != NETHOST_ANY && h.kind != NETHOST_ADDRESS && !h.name[0])))
		abort();
	netpublish_parse(p, &b, &e);
	netcidr_parse(p, &c, &e);
	/* what comes out is its own canonical form, or an address */
	if (target && nettarget_parse(target, 80, &t, &e) == 0) {
		struct nettarget again;

		if (nettarget_parse(t.name, 80, &again, &e) < 0 || strcmp(t.name, again.name))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct socksreq r;
	char *text;

	if (!size)
		return 0;
	text = malloc(size);
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (data[0] % 3 == 0)
		http(text, size - 1);
	else if (data[0] % 3 == 1) {
		if (socksreq_greeting((unsigned char *)text, size - 1) > (long)size - 1 ||
		    (socksreq_parse((unsigned char *)text, size - 1, &r) == 1 && r.len > size - 1))
			abort();
	} else {
		rule(text);
	}
	free(text);
	return 0;
}
