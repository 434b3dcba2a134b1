/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/template.h"

static const char doc_text[] =
	"{\"id\":\"abc\",\"name\":\"Web\",\"n\":3,\"real\":1.5,\"yes\":true,\"nothing\":null,\"empty\":[],\"list\":[\"a\",\"b\",7],"
	"\"labels\":{\"Label\":{\"k\":\"v\"}},\"net\":{\"mode\":\"none\",\"ports\":{\"80\":\"x\",\"443\":\"y\"}},\"bare\":{\"80/tcp\":{}},\"mounts\":[{\"src\":\"/a\",\"rw\":true},{\"src\":\"/b\",\"rw\":false}]}";

/* What text makes of the document, or "CODE: " and the error. */
static char *render(const char *text)
{
	static char said[2000];
	autojson json_t *dot = json_loads(doc_text, 0, NULL);
	autobuf struct buf b = BUF_INIT(1000);
	struct err e = { 0 };
	struct template *t = template_parse(text, &e);

	cr_assert(dot);
	if (!t || template_run(t, dot, &b, &e) < 0)
		snprintf(said, sizeof(said), "%s: %s", err_name(e.code), e.msg);
	else
		snprintf(said, sizeof(said), "%s", b.data ? b.data : "");
	template_free(t);
	return said;
}

Test(template, what_is_missing_in_a_map_is_no_value)
{
	static const char *const maps[] = { "net", "nothing", NULL };
	static const char *const rows[][2] = {
		{ "{{.net.no}} {{.nothing.no}} {{if .net.no}}y{{else}}n{{end}}", "<no value> <no value> n" },
		{ "{{.net.ports.no}}", NULL }, { "{{.no}}", NULL }, { "{{.id.no}}", NULL },
		{ "{{.net.no.more}}", NULL },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		autojson json_t *dot = json_loads(doc_text, 0, NULL);
		autobuf struct buf b = BUF_INIT(1000);
		struct err e = { 0 };
		struct template *t = template_parse(rows[i][0], &e);

		cr_assert(t && dot);
		template_maps(t, maps);
		cr_assert_eq(template_run(t, dot, &b, &e), rows[i][1] ? 0 : -1, "%s", rows[i][0]);
		if (rows[i][1])
			cr_assert_str_eq(b.data, rows[i][1]);
		template_free(t);
	}
}

Test(template, renders_what_go_renders)
{
	/* as the documentation of text/template has it */
	static const char *const rows[][2] = {
		{ "", "" }, { "plain }} text", "plain }} text" }, { "{{.id}}", "abc" }, { "{{ .net.mode }}!", "none!" },
		{ "{{.n}} {{.real}} {{.yes}} {{.nothing}}", "3 1.5 true <no value>" },
		{ "{{.list}} {{.empty}} {{.net}}", "[a b 7] [] map[mode:none ports:map[443:y 80:x]]" },
		{ "{{.bare}} {{index .bare \"80/tcp\"}}", "map[80/tcp:{}] map[]" },
		{ "{{json .list}} {{.net | json}} {{json .name}}", "[\"a\",\"b\",7] {\"mode\":\"none\",\"ports\":{\"80\":\"x\",\"443\":\"y\"}} \"Web\"" },
		{ "{{index .list 1}} {{index .net \"mode\"}} {{index .net.ports \"80\"}} {{index . \"net\" \"ports\" \"443\"}}", "b none x y" },
		{ "{{index .net \"no\"}}", "<no value>" }, { "{{len .list}} {{len .name}} {{len .net}}", "3 3 2" },
		{ "{{range .list}}<{{.}}>{{end}}", "<a><b><7>" }, { "{{range $i, $v := .list}}{{$i}}={{$v}} {{end}}", "0=a 1=b 2=7 " },
		{ "{{range $v := .list}}{{$v}},{{end}}", "a,b,7," }, { "{{range $k, $v := .net.ports}}{{$k}}:{{$v}};{{end}}", "443:y;80:x;" },
		{ "{{range .empty}}x{{else}}none{{end}}", "none" }, { "{{range .nothing}}x{{else}}none{{end}}", "none" },
		{ "{{range .mounts}}{{.src}} {{$.id}};{{end}}", "/a abc;/b abc;" },
		{ "{{range .mounts}}{{.src}}:{{if .rw}}rw{{else}}ro{{end}} {{end}}", "/a:rw /b:ro " },
		{ "{{if .empty}}a{{else if eq .n 3}}b{{else}}c{{end}}", "b" }, { "{{if and .yes (gt .n 2)}}y{{end}}", "y" },
		{ "{{if eq .name \"a\" \"Web\"}}y{{end}}{{if ne .n 3}}n{{end}}", "y" }, { "{{or .empty .id}} {{and .id .n}} {{not .yes}}", "abc 3 false" },
		{ "{{with .net}}{{.mode}}{{end}}{{with .empty}}x{{else}}{{.id}}{{end}}", "noneabc" },
		{ "{{with $x := .id}}{{$x}}{{end}}", "abc" }, { "{{$x := .id}}{{$x}}{{$x = .n}}{{$x}}", "abc3" },
		{ "{{$x := 1}}{{if .yes}}{{$x = 2}}{{end}}{{$x}}", "2" }, { "{{$x := 1}}{{if .yes}}{{$x := 2}}{{end}}{{$x}}", "1" },
		{ "{{println .id .n}}{{print .n .n .id .id}}", "abc 3\n3 3abcabc" }, { "{{join .list \", \"}} {{.list | len}}", "a, b, 7 3" },
		{ "{{upper .name}} {{lower .name}}", "WEB web" }, { "{{.name | upper | lower}}", "web" }, { "{{(index .mounts 0).src}}", "/a" },
		{ "{{\"a\\n\\\"b\\\"\"}} {{`raw\\n`}} {{1}} {{-5}} {{2.5}} {{true}}", "a\n\"b\" raw\\n 1 -5 2.5 true" },
		{ "a  {{- .n -}}  b {{/* nothing */}}c{{- /* nothing */ -}} d", "a3b cd" }, { "{{\n.n\n}}", "3" },
		{ "{{printf \"%s|%5d|%-4s|%v|%q|%t|%%\" .id .n .id .list .name .yes}}", "abc|    3|abc |[a b 7]|\"Web\"|true|%" },
		{ "{{printf \"%.2f %04d %.2s\" .real .n .name}}", "1.50 0003 We" },
		{ "{{slice .id 1}} {{slice .id 1 2}} {{slice .list 1 3}} {{len (slice .id 3)}}", "bc b [b 7] 0" },
		{ "{{split \"a,b\" \",\"}} {{title \"a b\"}} {{truncate .name 2}}", "[a b] A B We" },
		{ "{{index .net.ports \"no\"}}<", "<" }, { "{{with .net}}{{index .ports \"80\"}}{{end}}", "x" },
		{ "{{.labels.Label \"k\"}}{{.labels.Label \"no\"}}", "v" },
		{ "{{lt 1 2}} {{le 2 2}} {{gt \"b\" \"a\"}} {{ge 1.5 2}}", "true true true false" }, { "{{ $.net.mode }}{{ $ | len }}", "none12" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect_str_eq(render(rows[i][0]), rows[i][1], "%s: %s", rows[i][0], render(rows[i][0]));
}

Test(template, says_what_is_wrong)
{
	static const char *const rows[][2] = {
		{ "{{.id", "not closed" }, { "{{", "not closed" }, { "{{}}", "a value is wanted" }, { "{{.id}", "" }, { "{{foo .id}}", "unknown function 'foo'" },
		{ "{{html .id}}", "unknown function 'html'" }, { "{{if .yes}}{{foo}}{{end}}", "unknown function" }, { "{{if .yes}}x", "without end" },
		{ "{{end}}", "end without" }, { "{{else}}", "else without" }, { "{{if}}x{{end}}", "a value is wanted" },
		{ "{{if .yes}}a{{else}}b{{else}}c{{end}}", "a second else" }, { "{{.no}}", "no field .no" }, { "{{.id.x}}", ".x of a string" },
		{ "{{index .list 9}}", "index 9" }, { "{{index .list -1}}", "index -1" }, { "{{index .id 0}}", "index takes" }, { "{{len 3}}", "len of a number" },
		{ "{{range .n}}{{end}}", "range over a number" }, { "{{$x}}", "$x is not set" }, { "{{$x = 1}}", "$x is not set" }, { "{{json}}", "json with 0" },
		{ "{{json 1 2}}", "json with 2" }, { "{{.id .n}}", "given an argument" }, { "{{\"a}}", "does not end" }, { "{{\"\\x\"}}", "unknown escape" },
		{ "{{..}}", "" }, { "{{.a..b}}", "" }, { "{{.}}.{{1x}}", "number" }, { "{{0x10}}", "number" }, { "{{99999999999999999999}}", "number" },
		{ "{{(.id}}", "not closed" }, { "{{.id)}}", "" }, { "{{.id |}}", "wanted" }, { "{{/* x}}", "comment" }, { "{{define \"x\"}}{{end}}", "unknown function" },
		{ "{{range $a, $b, $c := .list}}{{end}}", "too many" }, { "{{break}}", "unknown function" }, { "{{lt 1 \"a\"}}", "compare" }, { "{{eq .list 1}}", "cannot compare" },
		{ "{{$ := 1}}", "" }, { "{{.id\"x\"}}", "" }, { "{{index .list}}{{.net-mode}}", "" }, { "{{upper .n}}", "upper of a number" },
		{ "{{printf \"%d\" .id}}", "another kind" }, { "{{printf \"%z\" 1}}", "printf knows" }, { "{{printf \"%s\"}}", "fewer" },
		{ "{{printf \"x\" 1}}", "more values" }, { "{{printf \"%9999d\" 1}}", "printf knows" }, { "{{split .id \"\"}}", "split" },
		{ "{{truncate .id -1}}", "truncate" }, { "{{slice .id 4}}", "out of range" }, { "{{slice .id 2 1}}", "out of range" }, { "{{slice .n 0}}", "slice takes" }, { "{{.net \"k\"}}", "given an argument" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect(strstr(render(rows[i][0]), "template:") && strstr(render(rows[i][0]), rows[i][1]), "%s: %s", rows[i][0], render(rows[i][0]));
}

Test(template, is_bounded)
{
	static char big[TEMPLATE_TEXT + 2];
	char deep[8192] = "";
	int i;

	memset(big, 'x', sizeof(big) - 1);
	cr_expect(strstr(render(big), "more than"));
	for (i = 0; i < 1000; i++)
		strcat(deep, "{{1}}");
	cr_expect(strstr(render(deep), "1111") || strstr(render(deep), "limit:"));
	deep[0] = '\0';
	for (i = 0; i < 60; i++)
		strcat(deep, "{{if 1}}");
	cr_expect(strstr(render(deep), "nested deeper"), "%s", render(deep));
	deep[0] = '\0';
	strcat(deep, "{{");
	for (i = 0; i < 60; i++)
		strcat(deep, "(");
	cr_expect(strstr(render(deep), "nested deeper"), "%s", render(deep));
	/* a product of ranges: neither what is made on the way nor the output grows without end */
	cr_expect(strstr(render("{{range .list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}"
				"{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{len (json $)}}"
				"{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}"), "limit:"));
	cr_expect(strstr(render("{{range .list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}"
				"{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{range $.list}}{{$x := json $}}"
				"{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}"), "steps"));
}
