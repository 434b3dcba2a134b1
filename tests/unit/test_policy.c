/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/config.h"
#include "manager/host/policy.h"
#include "manager/host/shlex.h"

static struct config config;

static int text_hits(const char *rules, const char *text, struct err *e)
{
	struct policy *p = policy_new(rules, e);
	int r;

	cr_assert_not_null(p, "%s", e->msg);
	e->msg[0] = '\0';
	r = policy_check_text(p, text, strlen(text), e);
	policy_free(p);
	return r < 0;
}

static const char *defaults(void)
{
	config_defaults(&config);
	return config.deny;
}

static void denied(const char *rules, const char *text, const char *rule)
{
	struct err e = { 0 };
	char want[300];

	snprintf(want, sizeof(want), "the rule '%s'", rule);
	cr_expect(text_hits(rules, text, &e), "passed: %s", text);
	cr_expect_eq(e.code, ERR_POLICY, "%s", text);
	cr_expect(strstr(e.msg, want), "%s: %s", text, e.msg);
}

static void passes(const char *rules, const char *text)
{
	struct err e = { 0 };

	cr_expect(!text_hits(rules, text, &e), "refused: %s\n%s", text, e.msg);
}

Test(policy, the_root_cannot_be_removed_in_any_spelling)
{
	static const char *const t[] = {
		"rm -rf /", "rm -r -f /", "rm -fr /", "rm --recursive --force /", "rm --rec --fo /", "sudo rm --recursive -f \"/\"",
		"/bin/rm -fr //", "rm -Rf /", "rm -rf -- /", "rm -rfv / x", "rm -rf x /", "rm / -rf", "rm -rf /*", "rm -rf '/'*",
		"rm -rf /./", "rm -rf /tmp/..", "rm -rf /tmp/../*", "rm -rf /{*,.*}/../", "\\rm -rf /", "'rm' -rf /", "r\"m\" -rf /",
		"cd /tmp; rm -rf /", "true && rm -rf /", "false || rm -rf / &", "x=1 rm -rf /", "FOO=a BAR=b rm -rf /",
		"echo hi\nrm -rf /", "if true; then rm -rf /; fi", "for i in 1 2; do rm -rf /; done", "{ rm -rf /; }", "(rm -rf /)",
		"f() { rm -rf /; }; f", "function f { rm -rf /; }", "echo $(rm -rf /)", "echo \"a $(rm -rf /) b\"", "echo `rm -rf /`",
		"echo ${x:-$(rm -rf /)}", "cat <(rm -rf /)", "rm -rf / >/dev/null 2>&1", ">/dev/null rm -rf /", "2>&1 rm -rf /",
		"sh -c 'rm -rf /'", "bash -lc 'rm -rf /'", "bash -o pipefail -c 'rm -rf /'", "sh -c \"sh -c 'rm -rf /'\"",
		"sudo -u root -n rm -rf /", "sudo --user root rm -rf /", "env -i A=b rm -rf /", "nice -n 5 rm -rf /", "nohup rm -rf / &",
		"timeout -s KILL 5 rm -rf /", "timeout 5s rm -rf /", "busybox rm -rf /", "busybox sh -c 'rm -rf /'", "xargs -0 rm -rf / <x",
		"eval 'rm -rf /'", "eval rm -rf /", "exec rm -rf /", "command rm -rf /", "su -c 'rm -rf /'", "su root -c 'rm -rf /'",
		"find / -exec rm -rf / ;", "trap 'rm -rf /' EXIT", "time rm -rf /", "! rm -rf /", "rm \\\n -rf \\\n /", "rm\t-rf\t/",
		"case x in x) rm -rf /;; esac", "while rm -rf /; do :; done", "sudo env sudo rm -rf /", "echo a | sudo rm -rf /",
		"bash <<EOF\nrm -rf /\nEOF", "cat <<EOF | sh\nrm -rf /\nEOF", "bash <<-EOF\n\trm -rf /\n\tEOF\n", "rm -rf /;", "rm -rf /&",
		"cat <<A <<B\nx\nA\ny\nB\nrm -rf /", "echo 'unfinished; rm -rf /' ; rm -rf /", "chroot /x rm -rf /", "flock /l rm -rf /",
		"flock /l -c 'rm -rf /'", "rm -rf /etc/../", "echo a#b; rm -rf /", "rm -r '-f' /",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		denied(defaults(), t[i], "rm -rf /");
}

Test(policy, what_only_looks_like_a_rule_passes)
{
	static const char *const t[] = {
		"rm -rf /tmp/x", "rm -rf /tmp/*", "rm -rf /tmp/", "rm -rf ./", "rm -rf .", "rm -rf *", "rm -f /", "rm -r x", "rm /",
		"rm -rf -- -/", "echo rm -rf /", "echo 'rm -rf /'", "# rm -rf /", "ls # rm -rf /", "grep 'rm -rf /' file", "rm -rf a/",
		"cat <<EOF\nrm -rf /\nEOF", "cat >script <<'EOF'\nmkfs\nEOF\necho done", "printf '%s' \"rm -rf /\"", "arm -rf /",
		"rm.sh -rf /", "find / -name rm -a -name -rf", "timeout 5 echo rm -rf /", "sh script rm -rf /", "bash -x script -c 'rm -rf /'",
		"ls mkfs", "man mkfs.ext4", "mkfsx", "dd if=/dev/zeroes of=x", "dd if=/dev/random of=x", "dd of=/dev/zero if=x",
		"chmod 777 /", "chmod -R 755 /", "chmod -R 777 /tmp/x", "chown root /x", "echo chown -R /",
		"chown -R app /srv", "chown -R app:app .", "chown -R app /var/lib/app /usr/src/app", "chown app /etc", "", " ", ";;;", "(((", "\"", "'", "\\",
		"$(", "`", "<<", "<<EOF", "a <<EOF\n", "rm -rf", "for", "${", "&>", ":() { echo; }; :", "rm --no-preserve-root /",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		passes(defaults(), t[i]);
}

Test(policy, the_other_defaults)
{
	denied(defaults(), "mkfs /dev/sda", "mkfs");
	denied(defaults(), "/sbin/mkfs.ext4 -F x", "mkfs.*");
	denied(defaults(), "dd if=/dev/zero of=/dev/sda bs=1M", "dd if=/dev/zero");
	denied(defaults(), "dd of=x count=1 if=//dev/./zero", "dd if=/dev/zero");
	denied(defaults(), "chmod -R 777 /", "chmod -R 777 /");
	denied(defaults(), "chmod --recursive 0777 /", "chmod -R 777 /");
	denied(defaults(), "chmod 777 -R /*", "chmod -R 777 /");
	denied(defaults(), "chown -R nobody /", "chown -R /");
	denied(defaults(), "chown -hR nobody:nogroup x /etc/", "chown -R /etc");
	denied(defaults(), "chown --recursive nobody /usr/../var", "chown -R /var");
}

Test(policy, a_fork_bomb_is_a_sequence_of_operators)
{
	static const char *const t[] = {
		":(){:|:&};:", ":(){ :|:& };:", ":() { : | : & }; :", ":(){\n:|:&\n};:", "echo a; :(){ :|:& };:", "sh -c ':(){ :|:& };:'",
		":()\n{\n\t:|:&\n}\n:", "x $(:(){ :|:& };:)",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		denied(defaults(), t[i], ":(){:|:&};:");
	denied("curl * | sh\nwget * | bash", "curl -fsSL https://x | sh", "curl * | sh");
	denied("curl * | sh\nwget * | bash", "wget https://x -O - |\n bash", "wget * | bash");
	denied("curl * | sh", "curl|sh", "curl * | sh");
	passes("curl * | sh", "curl https://x; echo | sh");
	passes("curl * | sh", "curl 'x | sh'");
	passes("curl * | sh", "curl x | grep sh");
	passes("a ; b", "a && b");
	denied("a ; b", "x; a\nb", "a ; b");
}

Test(policy, rules_may_have_globs_paths_and_long_options)
{
	denied("/usr/bin/nc", "/usr/bin/nc -l 1", "/usr/bin/nc");
	passes("/usr/bin/nc", "nc -l 1");
	denied("git push --force", "git push origin --force", "git push --force");
	denied("git push --force", "git -C x push --force", "git push --force");
	passes("git push --force", "git push --follow-tags");
	denied("rm /home/*", "rm -v /home/bob", "rm /home/*");
	passes("rm /home/*", "rm /home");
	denied("shutdown\nreboot", "sudo reboot", "reboot");
	denied("kill -9 1", "kill -9 1", "kill -9 1");
	passes("", "rm -rf /");
}

Test(policy, the_words_of_an_exec_are_not_parsed_but_followed)
{
	static const char *const bad[][6] = {
		{ "rm", "-rf", "/" }, { "/bin/rm", "-fr", "//" }, { "sh", "-c", "rm -rf /" }, { "env", "A=1", "rm", "-r", "-f", "/" },
		{ "bash", "-ec", "cd /; rm -rf /" }, { "timeout", "5", "rm", "-rf", "/" },
	};
	static const char *const good[][6] = {
		{ "echo", "; rm -rf /" }, { "rm", "-rf", "'/'" }, { "rm", "-rf / " }, { "echo", "$(rm -rf /)" }, { "sh", "rm -rf /" },
	};
	struct err e = { 0 };
	struct policy *p = policy_new(defaults(), &e);
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		for (n = 0; n < 6 && bad[i][n]; n++)
			;
		cr_expect_eq(policy_check_argv(p, bad[i], n, &e), -1, "passed: %zu", i);
	}
	for (i = 0; i < ARRAY_LEN(good); i++) {
		for (n = 0; n < 6 && good[i][n]; n++)
			;
		cr_expect_eq(policy_check_argv(p, good[i], n, &e), 0, "refused: %zu", i);
	}
	cr_expect_eq(policy_check_argv(p, NULL, 0, &e), 0);
	cr_expect_eq(policy_check_argv(NULL, bad[0], 3, &e), 0);
	policy_free(p);
	policy_free(NULL);
}

Test(policy, rules_that_make_no_sense_are_refused)
{
	static const char *const t[] = { "", " ", "# x", "*", "; a", "| sh", "rm > x", "a | * | * | *" };
	char lengthy[400];
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++) {
		cr_expect_eq(policy_rule_check(t[i], "policy.deny", &e), -1, "accepted: %s", t[i]);
		cr_expect_eq(e.code, ERR_CONFIG);
		cr_expect(!strncmp(e.msg, "policy.deny: ", 13), "%s", e.msg);
	}
	memset(lengthy, 'x', sizeof(lengthy));
	lengthy[256] = '\0';
	cr_expect_eq(policy_rule_check(lengthy, "policy.deny", &e), -1);
	lengthy[255] = '\0';
	cr_expect_eq(policy_rule_check(lengthy, "policy.deny", &e), 0, "%s", e.msg);
}

static void repeat(char *to, const char *word, size_t n)
{
	size_t len = strlen(word), i;

	for (i = 0; i < n; i++)
		memcpy(to + i * len, word, len);
	to[n * len] = '\0';
}

/* A text that is made to cost much ends in time; what lies too deep passes. */
Test(policy, hostile_texts_are_bounded, .timeout = 240)
{
	static const char *const t[] = { "$(", "`", "(", "((", "sudo ", "eval ", "<<a ", "<<a\n", "a|", "curl ", "\"$(", ": ( ", "find -exec ", "{ " };
	static char text[4 << 20];
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++) {
		repeat(text, t[i], (sizeof(text) - 1) / strlen(t[i]));
		passes("rm -rf /\n:(){:|:&};:\ncurl * * | sh", text);
	}
	repeat(text, "x ", 1000000);
	strcat(text, "; rm -rf /");
	cr_expect(text_hits("rm -rf /", text, &e));
}

Test(shlex, tokens_are_those_of_a_shell)
{
	static const struct { const char *text, *want; } t[] = {
		{ "a 'b c' \"d $e\" f\\ g", "a|b c|d $e|f g" }, { "a;b&&c||d|e&", "a|<;>|b|<&&>|c|<||>|d|<|>|e|<&>" },
		{ "a >b 2>&1 <c >>d &>e", "a|<>>|b|<>&>|1|<<>|c|<>>>|d|<&>>|e" }, { "a#b #c\nd", "a#b|\\n|d" },
		{ "x <<E y\n1\n2\nE\nz", "x|<<<>|E|y|\\n|[1\n2\n]|z" }, { "f() {", "f|<(>|<)>|{" }, { "''", "" }, { "a''b", "ab" },
		{ "$'x'", "x" }, { "a\\\nb", "ab" }, { "$(a b) c", "$(a b)|c" }, { "x=\"$(echo \")\")\" y", "x=$(echo \")\")|y" },
		{ "a <<<b c", "a|<<<<>|b|c" }, { "cat <<-'E'\n\tx\n\tE\n", "cat|<<<->|E|\\n|[\tx\n]" },
	};
	char words[400], got[400];
	struct shlex l;
	struct shlex_token k;
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++) {
		char *p = got;

		shlex_init(&l, t[i].text, strlen(t[i].text), words);
		got[0] = '\0';
		while ((k = shlex_next(&l)).kind != SHLEX_END)
			p += sprintf(p, k.kind == SHLEX_WORD ? "%s%.*s" : k.kind == SHLEX_NEWLINE ? "%s\\n" : k.kind == SHLEX_BODY ? "%s[%.*s]" :
				     "%s<%.*s>", p == got ? "" : "|", (int)k.len, k.text);
		cr_expect_str_eq(got, t[i].want, "%s: %s", t[i].text, got);
	}
}
