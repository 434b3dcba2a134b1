/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on whole sandboxes, and on images: one request, one answer each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/remote/remote.h"
#include "manager/ops/params.h"

/* ---- code, commit, logs: results of work in a sandbox ---- */

#define PATH_BUF BUF_INIT(65536)
#define CODE_MAX (8u << 20)

/* As berth code writes it here. */
static int show_code(struct remote *r, const json_t *answer, struct err *e)
{
	char path[1024], change[16];
	const json_t *file;
	size_t i;

	if (remote_write_data(answer, "stdout", STDOUT_FILENO, e) < 0 || remote_write_data(answer, "stderr", STDERR_FILENO, e) < 0)
		return -1;
	json_array_foreach(json_object_get(answer, "files"), i, file) {
		const char *p = json_string_value(json_object_get(file, "path")), *c = json_string_value(json_object_get(file, "change"));

		log_clean(path, sizeof(path), p ? p : "a name that is not text", 0);
		log_clean(change, sizeof(change), c ? c : "", 0);
		if (!remote_flag(r, "quiet"))
			log_note("berth code", "%s %s (%lld bytes)", change, path, (long long)json_integer_value(json_object_get(file, "size")));
	}
	remote_tell_reason(r, json_object_get(answer, "verdict"));
	return 0;
}

int remote_code(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF, text = BUF_INIT(CODE_MAX);
	autojson json_t *body = NULL, *answer = NULL;

	if (remote_path(&path, r->words[0], "/code", e) < 0 || io_read_all(STDIN_FILENO, &text, "stdin", e) < 0)
		return -1;
	body = json_pack("{s:s%}", "code", text.data ? text.data : "", text.len);
	if (!body)
		return err_set(e, ERR_INVALID, "the code is not valid UTF-8, which a request wants; hint: berth cp it there and run it");
	remote_set_string(r, body, "lang", "lang");
	remote_set_list(r, body, "env", "env");
	remote_set_string(r, body, "user", "user");
	remote_set_string(r, body, "timeout", "timeout");
	if (remote_set_ms(r, body, "max_silent_ms", "max-silent-time", e) < 0)
		return -1;
	if (remote_flag(r, "keep"))
		json_object_set_new(body, "keep", json_true());
	answer = remote_call(r, "POST", path.data, body, e);
	if (!answer)
		return -1;
	r->status = (int)json_integer_value(json_object_get(answer, "exit_status"));
	return r->json ? remote_print(json_incref(answer), e) : show_code(r, answer, e);
}

int remote_commit(struct remote *r, struct err *e)
{
	autojson json_t *body = json_pack("{s:s,s:o}", "image", r->words[1], "options", json_object()), *answer = NULL;
	json_t *options = json_object_get(body, "options"), *values;
	autobuf struct buf path = PATH_BUF;
	char *at = strchr(r->words[0], '@');
	const char *name, *digest;

	if (at) {
		*at = '\0';
		json_object_set_new(body, "checkpoint", json_string(at + 1));
	}
	if (!body)
		return err_set(e, ERR_INVALID, "the image's name is not valid UTF-8");
	json_object_foreach(r->options, name, values)
		if (strcmp(name, "quiet") != 0 && strcmp(name, "json") != 0)
			json_object_set(options, name, json_is_true(json_array_get(values, 0)) ? json_array_get(values, 0) : values);
	if (remote_path(&path, r->words[0], "/commit", e) < 0)
		return -1;
	answer = remote_call(r, "POST", path.data, body, e);
	if (!answer)
		return -1;
	if (r->json)
		return remote_print(json_incref(answer), e);
	digest = json_string_value(json_object_get(answer, "digest"));
	puts(digest ? digest : "");
	return 0;
}

int remote_logs(struct remote *r, struct err *e)
{
	static const char *const values[] = { "since", "from", "source", "tail" }, *const flags[] = { "follow", "timestamps" };
	struct remote_io io = { .in_fd = -1, .take = remote_to_stdout };
	autobuf struct buf path = PATH_BUF;
	size_t i;

	if (remote_path(&path, r->words[0], "/logs", e) < 0 || (!r->json && remote_query(&path, "text", "true", e) < 0))
		return -1;
	for (i = 0; i < ARRAY_LEN(values); i++)
		if (remote_value(r, values[i]) && remote_query(&path, values[i], remote_value(r, values[i]), e) < 0)
			return -1;
	for (i = 0; i < ARRAY_LEN(flags); i++)
		if (remote_flag(r, flags[i]) && remote_query(&path, flags[i], "true", e) < 0)
			return -1;
	return remote_transfer(r, "GET", path.data, &io, e);
}

/* ---- listing ------------------------------------------------------------------------- */

static const char *remote_record_field(const json_t *j, const char *key, char *out, size_t n)
{
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(out, n, s ? s : "", 0);
	return out;
}

static int ps(struct remote *r, struct err *e)
{
	autobuf struct buf path = BUF_INIT(65536);
	autojson json_t *all = NULL;
	const json_t *filter;
	char id[80];
	json_t *one;
	size_t i;

	if (buf_adds(&path, "/v1/sandboxes", e) < 0 ||
	    (!remote_flag(r, "all") && remote_query(&path, "running", "true", e) < 0))
		return -1;
	json_array_foreach(json_object_get(r->options, "filter"), i, filter)
		if (remote_query(&path, "filter", json_string_value(filter), e) < 0)
			return -1;
	all = remote_call(r, "GET", path.data, NULL, e);
	if (!all)
		return -1;
	if (r->json || !remote_flag(r, "quiet"))
		return remote_tell(r, json_incref(json_object_get(all, "sandboxes")), e);
	json_array_foreach(json_object_get(all, "sandboxes"), i, one)
		puts(remote_record_field(one, "id", id, sizeof(id)));
	return 0;
}

/* ---- create ---------------------------------------------------------------------------- */

json_t *remote_params(const struct remote *r, const char *except)
{
	json_t *options = json_object(), *list;
	const char *name;
	char word[64];

	json_object_foreach (r->options, name, list) {
		const struct param *p = param_named(name);
		const int several = p && (p->type == PARAM_LIST || p->type == PARAM_PAIRS);

		snprintf(word, sizeof(word), " %s ", name);
		if (strstr(except, word))
			continue;
		json_object_set(options, name, several ? list : json_array_get(list, json_array_size(list) - 1));
	}
	return options;
}

json_t *remote_create_body(struct remote *r)
{
	const int of_image = !remote_flag(r, "zygote");
	json_t *body = of_image ? json_pack("{s:s}", "image", r->words[0]) : json_object();

	if (!of_image)
		remote_set_string(r, body, "zygote", "zygote");
	json_object_set_new(body, "options", remote_params(r, " name zygote "));
	remote_set_string(r, body, "name", "name");
	return body;
}

int remote_create_at(struct remote *r, const char *path, struct err *e)
{
	const int of_image = !remote_flag(r, "zygote");
	autojson json_t *body = NULL, *made = NULL;
	json_t *command;
	int i;

	if (of_image && !r->count)
		return err_set(e, ERR_USAGE, "no image given; hint: berth create host");
	body = remote_create_body(r);
	command = json_array();
	for (i = of_image; i < r->count; i++)
		if (json_array_append_new(command, json_string(r->words[i])) < 0)
			json_array_append_new(command, json_null());	/* which berthd refuses */
	if (!body) {
		json_decref(command);
		return -1;
	}
	if (json_array_size(command))
		json_object_set(body, "command", command);
	json_decref(command);
	made = remote_call(r, "POST", path, body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	puts(json_string_value(json_object_get(made, "id")));
	return 0;
}

int remote_create(struct remote *r, struct err *e)
{
	return remote_create_at(r, "/v1/sandboxes", e);
}

/* ---- one request for each operand --------------------------------------------------------- */

static int change_remote_states(struct remote *r, struct err *e)
{
	const char *verb = r->command->name;
	autojson json_t *query = json_object();
	int i;

	if (remote_set_ms(r, query, "grace_ms", "grace", e) < 0)
		return -1;
	for (i = 0; i < r->count; i++) {
		autobuf struct buf path = PATH_BUF, rest = BUF_INIT(128);
		autojson json_t *answer = NULL;
		const json_t *grace = json_object_get(query, "grace_ms");
		const char *signal = remote_value(r, "signal"), *id;
		char number[32];

		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(grace));
		if (buf_addf(&rest, e, "/%s", verb) < 0 || remote_path(&path, r->words[i], rest.data, e) < 0 ||
		    (grace && remote_query(&path, "grace_ms", number, e) < 0) ||
		    (signal && remote_query(&path, "signal", signal, e) < 0))
			return -1;
		answer = remote_call(r, "POST", path.data, NULL, e);
		if (!answer)
			return -1;
		id = json_string_value(json_object_get(answer, "id"));
		if (!id)	/* of an older berthd */
			id = r->words[i];
		if (r->json)
			printf("{\"id\":\"%s\",\"done\":\"%s\"}\n", id, verb);
		else
			puts(id);
	}
	return 0;
}

static int remove_remote_sandboxes(struct remote *r, struct err *e)
{
	int force = remote_flag(r, "force"), i;

	for (i = 0; i < r->count; i++) {
		autobuf struct buf path = PATH_BUF;
		autojson json_t *answer = NULL;

		if (remote_path(&path, r->words[i], force ? "?force=true" : "", e) < 0)
			return -1;
		answer = remote_call(r, "DELETE", path.data, NULL, e);
		if (!answer && !(force && e->code == ERR_NOT_FOUND))
			return -1;
	}
	if (r->json)
		puts("{\"removed\":true}");
	return 0;
}

/* The answer of one GET below a sandbox. */
static int show_remote_answer(struct remote *r, const char *rest, const char *member, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	autojson json_t *answer = NULL;

	if (remote_path(&path, r->words[0], rest, e) < 0)
		return -1;
	answer = remote_call(r, "GET", path.data, NULL, e);
	if (!answer)
		return -1;
	return remote_tell(r, json_incref(member ? json_object_get(answer, member) : answer), e);
}

static int remote_inspect(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	autojson json_t *answer = NULL;
	autofree char *text = NULL;

	if (remote_path(&path, r->words[0], remote_flag(r, "attest") ? "?attest=true" : "", e) < 0)
		return -1;
	answer = remote_call(r, "GET", path.data, NULL, e);
	if (!answer)
		return -1;
	text = json_dumps(answer, r->json ? JSON_COMPACT : JSON_INDENT(2));
	return !text || puts(text) < 0 ? err_sys(e, "write to stdout") : 0;
}

static int remote_top(struct remote *r, struct err *e)
{
	if (r->count == 0)
		return err_set(e, ERR_UNSUPPORTED, "berth top of all sandboxes works on their own host only; hint: berth top SANDBOX");
	return show_remote_answer(r, "/top", "processes", e);
}

static int list_remote_commands(struct remote *r, struct err *e)
{
	return show_remote_answer(r, "/commands", "commands", e);
}

/* Those of each word now: one answer, or an array of them with the words as their ids. */
static json_t *stats_now(struct remote *r, struct err *e)
{
	json_t *all = json_array();
	int i;

	for (i = 0; i < r->count; i++) {
		autobuf struct buf path = PATH_BUF;
		json_t *answer = remote_path(&path, r->words[i], "/stats", e) < 0 ? NULL : remote_call(r, "GET", path.data, NULL, e);

		if (!answer) {
			json_decref(all);
			return NULL;
		}
		json_object_set_new(answer, "id", json_string(r->words[i]));
		json_array_append_new(all, answer);
	}
	if (r->count == 1) {
		json_t *only = json_incref(json_array_get(all, 0));

		json_decref(all);
		return only;
	}
	return all;
}

static int remote_stats(struct remote *r, struct err *e)
{
	struct remote_io io = { .in_fd = -1, .take = remote_to_stdout };
	autobuf struct buf path = PATH_BUF;
	autojson json_t *now = NULL;
	json_t *one;
	size_t i;

	if (remote_flag(r, "no-stream")) {
		now = stats_now(r, e);
		if (!now || !r->json || !json_is_array(now))
			return now ? remote_tell(r, json_incref(now), e) : -1;
		json_array_foreach (now, i, one)
			if (remote_print(json_incref(one), e) < 0)
				return -1;
		return 0;
	}
	if (r->count > 1)
		return err_set(e, ERR_UNSUPPORTED, "a berthd streams the stats of one sandbox; hint: --no-stream with several, or one berth stats each");
	return remote_path(&path, r->words[0], "/stats/watch", e) < 0 ? -1 : remote_transfer(r, "GET", path.data, &io, e);
}

static int rename_remote_sandbox(struct remote *r, struct err *e)
{
	autojson json_t *body = json_pack("{s:s}", "name", r->words[1]), *answer = NULL;
	autobuf struct buf path = PATH_BUF;

	if (remote_path(&path, r->words[0], "/rename", e) < 0)
		return -1;
	answer = remote_call(r, "POST", path.data, body, e);
	return !answer ? -1 : r->json ? remote_print(json_incref(answer), e) : 0;
}

static int update_remote_sandbox(struct remote *r, struct err *e)
{
	autojson json_t *body = remote_params(r, " "), *answer = NULL;
	autobuf struct buf path = PATH_BUF;

	if (remote_path(&path, r->words[0], "", e) < 0)
		return -1;
	answer = remote_call(r, "PATCH", path.data, body, e);
	if (!answer)
		return -1;
	if (r->json)
		return remote_print(json_incref(answer), e);
	puts(json_string_value(json_object_get(answer, "id")));
	return 0;
}

static int wait_for_remote_end(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF, rest = BUF_INIT(256);
	autojson json_t *answer = NULL, *verdict = NULL;

	if (r->count > 1 && strchr(r->words[1], '/'))
		return err_set(e, ERR_NOT_FOUND, "no command '%.40s'", r->words[1]);
	if (r->count > 1 ? buf_addf(&rest, e, "/commands/%s/wait", r->words[1]) < 0 : buf_adds(&rest, "/wait", e) < 0)
		return -1;
	if (remote_path(&path, r->words[0], rest.data, e) < 0)
		return -1;
	answer = remote_call(r, "GET", path.data, NULL, e);
	if (!answer)
		return -1;
	verdict = json_incref(json_object_get(answer, "verdict"));
	r->status = (int)json_integer_value(json_object_get(verdict, "exit_status"));
	return r->json ? remote_print(json_incref(verdict ? verdict : answer), e) : 0;
}

static int signal_it(struct remote *r, struct err *e)
{
	const char *session = remote_value(r, "session"), *name = r->count > 1 ? r->words[r->count - 1] : NULL;
	autojson json_t *body = json_object(), *answer = NULL;
	autobuf struct buf path = PATH_BUF, rest = BUF_INIT(256);
	struct err ignored;
	uint64_t number;

	if (!session && r->count < 2)
		return err_set(e, ERR_USAGE, "a sandbox and a command are wanted; hint: berth signal ID COMMAND");
	if (!session && r->count < 3)
		name = NULL;
	if (name && num_u64(name, "signal", 1, 64, &number, &ignored) == 0)
		json_object_set_new(body, "signal", json_integer((json_int_t)number));
	else if (name)
		json_object_set_new(body, "signal", json_string(name));
	if (remote_flag(r, "all"))
		json_object_set_new(body, "all", json_true());
	if (buf_addf(&rest, e, session ? "/sessions/%s/signal" : "/commands/%s/signal", session ? session : r->words[1]) < 0 ||
	    remote_path(&path, r->words[0], rest.data, e) < 0)
		return -1;
	answer = remote_call(r, "POST", path.data, body, e);
	return answer ? 0 : -1;
}

/* ---- the host there -------------------------------------------------------------------------- */

static int print_get(struct remote *r, const char *path, struct err *e)
{
	json_t *answer = remote_call(r, "GET", path, NULL, e);

	return answer ? remote_tell(r, answer, e) : -1;
}

static int doctor(struct remote *r, struct err *e)
{
	return print_get(r, "/v1/system/doctor", e);
}

static int gc(struct remote *r, struct err *e)
{
	json_t *answer = remote_call(r, "POST", "/v1/system/gc", NULL, e);

	return answer ? remote_print(answer, e) : -1;
}

static int remote_df(struct remote *r, struct err *e)
{
	return print_get(r, "/v1/system/df", e);
}

static int remote_ui(struct remote *r, struct err *e)
{
	json_t *answer = remote_call(r, "POST", "/ui/links", NULL, e);

	if (!answer)
		return -1;
	if (r->json)
		return remote_print(answer, e);
	puts(json_string_value(json_object_get(answer, "url")));
	fprintf(stderr, "berth ui: it signs one browser in, once, within %" JSON_INTEGER_FORMAT " s\n",
		json_integer_value(json_object_get(answer, "expires_ms")) / 1000);
	json_decref(answer);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int config(struct remote *r, struct err *e)
{
	return print_get(r, "/v1/system/config", e);
}

static int remote_diff(struct remote *r, struct err *e)
{
	static const char *const values[] = { "from", "to" };
	autobuf struct buf path = PATH_BUF;
	json_t *answer;
	size_t i;

	if (remote_path(&path, r->words[0], "/diff", e) < 0 ||
	    (remote_flag(r, "patch") && remote_query(&path, "patch", "true", e) < 0))
		return -1;
	for (i = 0; i < ARRAY_LEN(values); i++)
		if (remote_value(r, values[i]) &&
		    remote_query(&path, values[i], remote_value(r, values[i]), e) < 0)
			return -1;
	answer = remote_call(r, "GET", path.data, NULL, e);
	return answer ? remote_tell(r, answer, e) : -1;
}

/* As they come, an object a line; from now on. */
static int remote_events_follow(struct remote *r, struct err *e)
{
	struct remote_io io = { .in_fd = -1, .take = remote_to_stdout };

	return remote_transfer(r, "GET", "/v1/events", &io, e);
}

static int network_ls(struct remote *r, struct err *e)
{
	autojson json_t *answer = NULL;
	json_t *one;
	size_t i;

	if (remote_flag(r, "named"))
		return remote_object_ls(r, e);
	answer = remote_call(r, "GET", "/v1/networks", NULL, e);
	if (answer && !r->json && remote_flag(r, "quiet")) {
		json_array_foreach(json_object_get(answer, "networks"), i, one)
			puts(json_string_value(json_object_get(one, "id")));
		return 0;
	}
	return answer ? remote_tell(r, json_incref(json_object_get(answer, "networks")), e) : -1;
}

static int network_log(struct remote *r, struct err *e)
{
	struct remote_io io = { .in_fd = -1, .take = remote_to_stdout };
	autobuf struct buf path = PATH_BUF;
	autojson json_t *answer = NULL;
	json_t *one;
	size_t i;

	if (remote_path(&path, r->words[0], "/network/log", e) < 0 || (remote_flag(r, "denied") && remote_query(&path, "denied", "true", e) < 0))
		return -1;
	if (remote_flag(r, "follow"))
		return remote_query(&path, "follow", "true", e) < 0 ? -1 : remote_transfer(r, "GET", path.data, &io, e);
	answer = remote_call(r, "GET", path.data, NULL, e);
	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "requests"), i, one)
		if (remote_print(json_incref(one), e) < 0)
			return -1;
	return 0;
}

#define ANY 300000	/* words: the arguments of a command are among them */
#define NETWORK_RULES \
	" allow-host deny-host allow-net deny-net network-bytes network-connections "

const struct remote_verb remote_verbs[] = {
	{ "ps", 0, 0, " all quiet filter ", ps },
	{ "create", 0, ANY, "*", remote_create },
	{ "start", 1, ANY, "", change_remote_states },
	{ "stop", 1, ANY, " grace signal ", change_remote_states },
	{ "restart", 1, ANY, " grace signal ", change_remote_states },
	{ "pause", 1, ANY, "", change_remote_states },
	{ "resume", 1, ANY, "", change_remote_states },
	{ "kill", 1, ANY, "", change_remote_states },
	{ "rm", 1, ANY, " force ", remove_remote_sandboxes },
	{ "inspect", 1, 1, " attest ", remote_inspect },
	{ "top", 0, 1, "", remote_top },
	{ "stats", 1, ANY, " no-stream ", remote_stats },
	{ "rename", 2, 2, "", rename_remote_sandbox },
	{ "update", 1, 1, "", update_remote_sandbox, PARAM_OF_UPDATE },
	{ "exec", 2, ANY, " interactive tty detach env user workdir timeout grace memory cpus pids "
	  "ulimit status-fd max-silent-time checkpoint ", remote_exec },
	{ "sh", 1, ANY, " session timeout on-timeout split queue-timeout no-wait wait list close "
	  "max-silent-time checkpoint ", remote_sh },
	{ "shell", 1, 1, " user workdir env shell session detach-keys ", remote_shell },
	{ "attach", 2, 2, " from stderr-from detach-keys ", remote_attach },
	{ "commands", 1, 1, "", list_remote_commands },
	{ "output", 2, 2, " from stderr follow ", remote_output },
	{ "send", 1, ANY, " session eof no-newline ", remote_send },
	{ "signal", 1, 3, " session all ", signal_it },
	{ "wait", 1, 2, "", wait_for_remote_end },
	{ "file read", 2, 2, " limit user ", remote_file },
	{ "file write", 2, 2, " append parents mode user ", remote_file },
	{ "file ls", 1, 2, " user ", remote_file },
	{ "file stat", 2, 2, " follow user ", remote_file },
	{ "file mkdir", 2, 4000, " parents mode user ", remote_file },
	{ "file rm", 2, 4000, " recursive force user ", remote_file },
	{ "file mv", 3, 3, " user ", remote_file },
	{ "cp", 2, 2, " user follow-link archive parents quiet ", remote_cp },
	{ "doctor", 0, 0, "", doctor },
	{ "gc", 0, 0, "", gc },
	{ "image", 1, ANY, "", remote_image },
	{ "pull", 1, 1, "", remote_pull },
	{ "push", 1, 2, "", remote_push },
	{ "login", 0, 6, "", remote_login },
	{ "logout", 0, 1, "", remote_logout },
	{ "save", 1, 4, "", remote_save },
	{ "load", 0, 3, "", remote_load },
	{ "run", 0, ANY, "*", remote_run },
	{ "zygote create", 1, ANY, "*", remote_zygote_create },
	{ "zygote ls", 0, 0, " quiet ", remote_zygote_ls },
	{ "zygote inspect", 1, 1, "", remote_zygote_inspect },
	{ "zygote rm", 1, 1, "", remote_zygote_rm },
	{ "diff", 1, 1, " from to patch ", remote_diff },
	{ "code", 1, 1, " lang env user timeout max-silent-time keep quiet ", remote_code },
	{ "commit", 2, 2, "*", remote_commit },
	{ "logs", 1, 1, " follow since from source tail timestamps ", remote_logs },
	{ "port", 1, 2, "", remote_port },
	{ "network ls", 0, 0, " named quiet ", network_ls },
	{ "network create", 1, 1, " internal subnet label dns network-rate" NETWORK_RULES,
	  remote_object_create },
	{ "network update", 1, 1, NETWORK_RULES, remote_network_update },
	{ "network inspect", 1, 1, "", remote_object_inspect },
	{ "network rm", 1, ANY, "", remote_object_rm },
	{ "network prune", 0, 0, " force dry-run ", remote_object_prune },
	{ "network connect", 2, 2, " alias ", remote_network_change },
	{ "network disconnect", 2, 2, "", remote_network_change },
	{ "volume ls", 0, 0, " quiet ", remote_object_ls },
	{ "volume create", 1, 1, " size label ", remote_object_create },
	{ "volume inspect", 1, 1, "", remote_object_inspect },
	{ "volume rm", 1, ANY, " force ", remote_object_rm },
	{ "volume prune", 0, 0, " force dry-run ", remote_object_prune },
	{ "network log", 1, 1, " follow denied ", network_log },
	{ "system df", 0, 0, "", remote_df },
	{ "config show", 0, 0, "", config },
	{ "ui", 0, 0, "", remote_ui },
	{ "events", 0, 0, "", remote_events_follow },
	{ "checkpoint", 1, 1, " name keep ", remote_checkpoint },
	{ "checkpoints", 1, 1, "", remote_checkpoints },
	{ "checkpoint rm", 2, ANY, "", remote_checkpoint_rm },
	{ "checkpoint export", 1, 1, " output ", remote_checkpoint_export },
	{ "checkpoint import", 1, 1, " name trust drop no-start ", remote_checkpoint_import },
	{ "checkpoint store", 1, 1, " name tenant ", remote_checkpoint_store },
	{ "checkpoint stored", 0, 0, " tenant ", remote_checkpoint_stored },
	{ "checkpoint restore", 1, 1, " name trust drop no-start tenant ",
	  remote_checkpoint_restore },
	{ "checkpoint discard", 1, ANY, " tenant ", remote_checkpoint_discard },
	{ "undo", 1, 1, " steps to ", remote_undo },
	{ "fork", 1, 1, " count name ", remote_fork, PARAM_OF_FORK },
	{ NULL },
};
