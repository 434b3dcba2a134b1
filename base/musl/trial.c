/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial - calls libjansson.a and libseccomp.a, and prints their results and the types and constants
 * on which they and their callers must agree.
 *
 * base/musl/choose compiles it once for glibc, as Debian compiled the libraries, and once for musl,
 * where base/musl/foreign.c supplies what musl lacks. Both must print the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <locale.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#define SHOW(x) printf("%s %lld\n", #x, (long long)(x))

/* numbers that the libraries were compiled with */
static void show_types(void)
{
	SHOW(sizeof(int));
	SHOW(sizeof(long));
	SHOW(sizeof(size_t));
	SHOW(sizeof(off_t));
	SHOW(sizeof(mode_t));
	SHOW(sizeof(pid_t));
	SHOW(sizeof(time_t));
	SHOW(sizeof(struct timeval));
	SHOW(offsetof(struct timeval, tv_sec));
	SHOW(offsetof(struct timeval, tv_usec));
	SHOW(sizeof(((struct timeval *)0)->tv_usec));
	SHOW(offsetof(struct lconv, decimal_point));
	SHOW(offsetof(struct lconv, thousands_sep));
	SHOW(EOF);
	SHOW(O_RDONLY);
	SHOW(O_WRONLY);
	SHOW(O_RDWR);
	SHOW(O_CREAT);
	SHOW(O_TRUNC);
	SHOW(O_APPEND);
	SHOW(O_CLOEXEC);
	SHOW(F_SETFD);
	SHOW(FD_CLOEXEC);
	SHOW(SEEK_SET);
	SHOW(SEEK_END);
	SHOW(EPERM);
	SHOW(ENOENT);
	SHOW(EINTR);
	SHOW(EAGAIN);
	SHOW(ENOMEM);
	SHOW(EACCES);
	SHOW(EFAULT);
	SHOW(EEXIST);
	SHOW(EINVAL);
	SHOW(ENOSYS);
	SHOW(ERANGE);
	SHOW(EDOM);
	SHOW(EOPNOTSUPP);
	SHOW(ECANCELED);
}

static void show_parsed(json_t *j, const json_error_t *e)
{
	char *text = j ? json_dumps(j, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_ENSURE_ASCII) : NULL;

	if (j)
		printf("json %s\n", text ? text : "(none)");
	else
		printf("json error %d:%d:%d %s: %s\n", e->line, e->column, e->position, e->source,
		       e->text);
	free(text);
}

static void try_parse(const char *text)
{
	json_error_t e;
	json_t *j =
		json_loadb(text, strlen(text),
			   JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &e);

	show_parsed(j, &e);
	json_decref(j);
}

static int dump_to_stdout(const char *data, size_t n, void *ctx)
{
	(void)ctx;
	return fwrite(data, 1, n, stdout) == n ? 0 : -1;
}

static void show_parser(void)
{
	static const char *const texts[] = {
		"{\"b\": [1, -2, 9223372036854775807, -9223372036854775808, 1e3, 0.1, -0.0, "
		"1e-308, 123456789.125], \"a\": null}",
		"9223372036854775808",
		"-9223372036854775809",
		"1e999",
		"0b11",
		"010",
		"-",
		"0x10",
		"1.",
		"[1,2",
		"{\"a\": true, \"a\": false}",
		"\"\\u00e4\\ud834\\udd1e\\n\\/\"",
		"\"\\ud834\"",
		"\"\xff\"",
		"\"\x01\"",
		"",
		"tru",
		"[[[[[[[[]]]]]]]]",
	};
	json_error_t e;
	size_t t;

	for (t = 0; t < sizeof(texts) / sizeof(texts[0]); t++)
		try_parse(texts[t]);
	show_parsed(json_load_file("/nonexistent/file", 0, &e), &e);
}

static void show_jansson(void)
{
	json_error_t e;
	json_t *j, *k;
	const char *s = NULL;
	int i = 0, flag = 0, p[2];
	double real = 0;
	size_t n;

	j = json_pack("{s:s, s:i, s:I, s:f, s:b, s:n, s:[s,s+%], s:o*}", "text", "t", "int", -7,
		      "long", (json_int_t)LLONG_MIN, "real", 1.0 / 3, "flag", 1, "none", "list",
		      "one", "t", "wo", (size_t)2, "left", NULL);
	printf("pack %d\n", !!j);
	show_parsed(j, &e);
	printf("unpack %d", json_unpack_ex(j, &e, 0, "{s:s, s:i, s:f, s:b, s:{}}", "text", &s,
					   "int", &i, "real", &real, "flag", &flag, "none"));
	printf(" %s %d %.17g %d: %s\n", s, i, real, flag, e.text);
	k = json_deep_copy(j);
	printf("equal %d\n", json_equal(j, k));
	json_object_del(k, "long");
	json_object_set_new(k, "real", json_real(2.5e-7));
	json_array_append_new(json_object_get(k, "list"),
			      json_sprintf("%05d %s %.3f", 42, "x", 2.0 / 3));
	printf("update %d\n", json_object_update_missing(k, j));
	for (n = 0; n < 1000; n++) /* grows and hashes anew */
		json_object_set_new(k,
				    (char[]){(char)('a' + n % 26), (char)('a' + n / 26 % 26),
					     (char)('a' + n / 676), '\0'},
				    json_integer((json_int_t)n));
	printf("keys %zu\n", json_object_size(k));
	fflush(stdout);
	json_dumpf(k, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(4) | JSON_SORT_KEYS);
	json_dump_callback(j, dump_to_stdout, NULL, JSON_COMPACT | JSON_SORT_KEYS);
	fflush(stdout);
	json_dumpfd(j, STDOUT_FILENO, JSON_SORT_KEYS);
	json_decref(k);
	if (!pipe(p)) {
		(void)!json_dumpfd(j, p[1], JSON_SORT_KEYS);
		close(p[1]);
		k = json_loadfd(p[0], 0, &e);
		printf("\nthrough a pipe %d\n", json_equal(j, k));
		close(p[0]);
		json_decref(k);
	}
	json_decref(j);
}

static void show_bpf(scmp_filter_ctx c)
{
	unsigned char code[65536];
	int p[2];
	ssize_t n, i;

	if (pipe(p))
		return;
	printf("export %d\n", seccomp_export_bpf(c, p[1]));
	close(p[1]);
	n = read(p[0], code, sizeof(code));
	for (i = 0; i < n; i++)
		printf("%02x%s", code[i], i % 32 == 31 ? "\n" : "");
	printf("\n");
	fflush(stdout);
	close(p[0]);
}

static void show_seccomp(void)
{
	static const char *const calls[] = {"read",	   "openat", "clone3",	    "ioctl",
					    "personality", "socket", "no_such_call"};
	struct scmp_arg_cmp args[] = {SCMP_A0(SCMP_CMP_EQ, 1),
				      SCMP_A1(SCMP_CMP_MASKED_EQ, 0x7f, 0x11)};
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	size_t t;
	int number;

	printf("filter %d, native %x\n", !!c, seccomp_arch_native());
	printf("attributes %d %d\n", seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE, 2),
	       seccomp_attr_set(c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
	printf("arch %d %d\n", seccomp_arch_add(c, seccomp_arch_resolve_name("x86")),
	       seccomp_arch_add(c, seccomp_arch_resolve_name("x86")));
	for (t = 0; t < sizeof(calls) / sizeof(calls[0]); t++) {
		number = seccomp_syscall_resolve_name(calls[t]);
		printf("%s %d %d\n", calls[t], number,
		       seccomp_rule_add(c, SCMP_ACT_ALLOW, number, 0));
	}
	printf("rules %d %d\n",
	       seccomp_rule_add_array(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 2, args),
	       seccomp_rule_add_exact_array(c, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1, args));
	show_bpf(c);
	printf("pfc %d\n", seccomp_export_pfc(c, STDOUT_FILENO));
	seccomp_release(c);
}

int main(void)
{
	show_types();
	show_parser();
	show_jansson();
	show_seccomp();
	return ferror(stdout) || fclose(stdout) ? 1 : 0;
}
