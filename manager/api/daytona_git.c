/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Daytona's git: the image's own git, run in the sandbox as its user, in Daytona's words.
 *
 * A password goes to git in its environment for this one command, and into no file and no list of
 * processes' words. A name that git would take for an option is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/daytona.h"

#define GIT_MS 600000

struct git {
	struct http_request *rq;
	json_t *argv, *env;
	char path[4096];
	int configs;	/* GIT_CONFIG_KEY_n in env */
};

static void git_release(struct git *g)
{
	json_decref(g->argv);
	json_decref(g->env);
	g->argv = g->env = NULL;
}

/* One setting for this command alone. */
static void git_setting(struct git *g, const char *key, const char *value)
{
	json_array_append_new(g->env, json_sprintf("GIT_CONFIG_KEY_%d=%s", g->configs, key));
	json_array_append_new(g->env, json_sprintf("GIT_CONFIG_VALUE_%d=%s", g->configs, value));
	g->configs++;
}

/* git, and the path in the sandbox; inside: of the repository there. */
static int git_begin(struct git *g, struct http_request *rq, const char *path, int inside, struct err *e)
{
	struct daytona_place p;
	int r;

	*g = (struct git){.rq = rq, .argv = json_pack("[s]", "git"), .env = json_pack("[s,s]", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")};
	r = daytona_enter(&p, rq, e);
	if (r == 0)
		r = daytona_path(&p, path, g->path, e);
	daytona_leave(&p);
	if (r == 0 && inside) {
		json_array_append_new(g->argv, json_string("-C"));
		json_array_append_new(g->argv, json_string(g->path));
	}
	return r;
}

static void git_word(struct git *g, const char *word)
{
	json_array_append_new(g->argv, json_string(word));
}

static void git_words(struct git *g, const char *const *words)
{
	for (; *words; words++)
		git_word(g, *words);
}

/* A name of a branch, a remote, a commit; what is empty or NULL is left out. */
static int git_name(struct git *g, const char *name, struct err *e)
{
	if (!name || !name[0])
		return 0;
	if (name[0] == '-')
		return err_set(e, ERR_INVALID, "'%.60s' is not a name: it begins with a dash", name);
	git_word(g, name);
	return 1;
}

static const char *body_text(struct http_request *rq, const char *key)
{
	return json_string_value(json_object_get(http_json(rq), key));
}

static int git_login(struct git *g, struct err *e)
{
	const char *user = body_text(g->rq, "username"), *password = body_text(g->rq, "password");
	autofree char *pair = NULL, *word = NULL, *field = NULL;

	if (!password || !password[0])
		return 0;
	if (asprintf(&pair, "%s:%s", user && user[0] ? user : "x-access-token", password) < 0)
		return err_nomem(e);
	word = malloc(BASE64_LEN(strlen(pair)) + 1);
	if (!word)
		return err_nomem(e);
	base64_encode(word, pair, strlen(pair));
	if (asprintf(&field, "Authorization: Basic %s", word) < 0)
		return err_nomem(e);
	git_setting(g, "http.extraHeader", field);
	return 0;
}

/* What git says, as a status of Daytona's. */
static int judge_git(struct http_request *rq, const struct daytona_ran *ran, struct err *e)
{
	static const struct {
		const char *words;
		enum err_code code;
		int status;
	} kinds[] = {
		{"not a git repository", ERR_NOT_FOUND, 404},	  {"epository not found", ERR_NOT_FOUND, 404},
		{"does not exist", ERR_NOT_FOUND, 404},		  {"did not match any", ERR_NOT_FOUND, 404},
		{"not found in upstream", ERR_NOT_FOUND, 404},	  {"cannot change to", ERR_NOT_FOUND, 404},
		{"already exists", ERR_EXISTS, 409},		  {"Authentication failed", ERR_DENIED, 401},
		{"could not read Username", ERR_DENIED, 401},	  {"rejected", ERR_BUSY, 409},
		{"would be overwritten", ERR_BUSY, 409},	  {"CONFLICT", ERR_BUSY, 409},
	};
	const struct buf *text = ran->text[1].len ? &ran->text[1] : &ran->text[0];
	size_t i, n = text->len;

	while (n && text->data[n - 1] == '\n')
		n--;
	err_set(e, ERR_INVALID, "git: %.*s", (int)(n > 400 ? 400 : n), n ? text->data : "failed");
	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (text->len && memmem(text->data, text->len, kinds[i].words, strlen(kinds[i].words))) {
			e->code = kinds[i].code;
			http_error_status(rq, kinds[i].status);
			break;
		}
	return -1;
}

/* Runs what was put together: 0 with its output. daytona_ran_release() in every case. */
static int git_run(struct git *g, struct daytona_ran *ran, struct err *e)
{
	struct daytona_run run = {.timeout_ms = GIT_MS};

	json_array_append_new(g->env, json_sprintf("GIT_CONFIG_COUNT=%d", g->configs));
	run.argv = g->argv;
	run.env = g->env;
	g->argv = g->env = NULL;
	if (daytona_execute(g->rq, &run, ran, e) < 0)
		return daytona_lacks(e, "git") ? err_set(e, ERR_UNSUPPORTED, "the image has no git; hint: an image with git in it") : -1;
	if (ran->timed_out)
		return err_set(e, ERR_TIMEOUT, "git took more than %d s", GIT_MS / 1000);
	return ran->status ? judge_git(g->rq, ran, e) : 0;
}

/* The same for one whose output says nothing, with the reply; r is that of what came before. */
static int git_reply(struct git *g, int r, struct err *e)
{
	struct daytona_ran ran = {.status = 0};
	struct http_request *rq = g->rq;

	if (r >= 0)
		r = git_run(g, &ran, e);
	daytona_ran_release(&ran);
	git_release(g);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

/* git in the repository of the body's "path". */
static int git_of_body(struct git *g, struct http_request *rq, struct err *e)
{
	return git_begin(g, rq, body_text(rq, "path"), 1, e);
}

/* ---- changes ---- */

static int post_git_clone(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq), *depth = json_object_get(body, "depth");
	const char *branch = body_text(rq, "branch"), *commit = body_text(rq, "commit_id"), *url = body_text(rq, "url");
	struct daytona_ran ran = {.status = 0};
	struct git g;
	int r = git_begin(&g, rq, body_text(rq, "path"), 0, e);

	git_word(&g, "clone");
	if (r == 0 && branch && branch[0]) {
		git_word(&g, "--branch");
		r = git_name(&g, branch, e);
	}
	if (r >= 0 && json_is_integer(depth))
		json_array_append_new(g.argv, json_sprintf("--depth=%lld", json_integer_value(depth)));
	if (json_is_true(json_object_get(body, "insecure_skip_tls")))
		git_setting(&g, "http.sslVerify", "false");
	git_words(&g, (const char *const[]){"--", url, g.path, NULL});
	if (r >= 0)
		r = git_login(&g, e);
	if (r < 0 || !commit || !commit[0])
		return git_reply(&g, r, e);
	r = git_run(&g, &ran, e);
	daytona_ran_release(&ran);
	git_release(&g);
	if (r < 0)
		return -1;
	r = git_of_body(&g, rq, e);
	git_words(&g, (const char *const[]){"checkout", "--detach", NULL});
	if (r == 0)
		r = git_name(&g, commit, e);
	return git_reply(&g, r, e);
}

static int post_git_init(struct http_request *rq, struct err *e)
{
	struct git g;
	int r = git_begin(&g, rq, body_text(rq, "path"), 0, e);
	const char *branch = body_text(rq, "initial_branch");

	git_word(&g, "init");
	if (json_is_true(json_object_get(http_json(rq), "bare")))
		git_word(&g, "--bare");
	if (branch && branch[0])
		json_array_append_new(g.argv, json_sprintf("--initial-branch=%s", branch));
	git_words(&g, (const char *const[]){"--", g.path, NULL});
	return git_reply(&g, r, e);
}

static void git_files(struct git *g)
{
	git_word(g, "--");
	json_array_extend(g->argv, json_object_get(http_json(g->rq), "files"));
}

static int post_git_add(struct http_request *rq, struct err *e)
{
	struct git g;
	int r = git_of_body(&g, rq, e);

	git_word(&g, "add");
	git_files(&g);
	return git_reply(&g, r, e);
}

/* The answer is the new commit. */
static int post_git_commit(struct http_request *rq, struct err *e)
{
	struct daytona_ran ran = {.status = 0}, head = {.status = 0};
	struct git g;
	int r = git_of_body(&g, rq, e);
	size_t n;

	git_setting(&g, "user.name", body_text(rq, "author"));
	git_setting(&g, "user.email", body_text(rq, "email"));
	git_words(&g, (const char *const[]){"commit", "-q", "-m", body_text(rq, "message"), NULL});
	if (json_is_true(json_object_get(http_json(rq), "allow_empty")))
		git_word(&g, "--allow-empty");
	if (r == 0)
		r = git_run(&g, &ran, e);
	daytona_ran_release(&ran);
	git_release(&g);
	if (r == 0) {
		r = git_of_body(&g, rq, e);
		git_words(&g, (const char *const[]){"rev-parse", "HEAD", NULL});
		if (r == 0)
			r = git_run(&g, &head, e);
		git_release(&g);
	}
	n = head.text[0].len ? strcspn(head.text[0].data, "\n") : 0;
	if (r == 0)
		r = http_reply_json(rq, 0, json_pack("{s:o}", "hash", daytona_text(head.text[0].data, n)), e);
	daytona_ran_release(&head);
	return r;
}

/* git WORDS NAME, where the body has the name under key. */
static int git_with_name(struct http_request *rq, const char *const *words, const char *key, struct err *e)
{
	struct git g;
	int r = git_of_body(&g, rq, e);

	git_words(&g, words);
	if (r == 0)
		r = git_name(&g, body_text(rq, key), e);
	if (r == 0)
		r = err_set(e, ERR_INVALID, "%s is empty", key);
	return git_reply(&g, r, e);
}

static int post_git_branch(struct http_request *rq, struct err *e)
{
	return git_with_name(rq, (const char *const[]){"branch", NULL}, "name", e);
}

static int delete_git_branch(struct http_request *rq, struct err *e)
{
	return git_with_name(rq, (const char *const[]){"branch", "-D", NULL}, "name", e);
}

static int post_git_checkout(struct http_request *rq, struct err *e)
{
	return git_with_name(rq, (const char *const[]){"checkout", "-q", NULL}, "branch", e);
}

static int exchange(struct http_request *rq, const char *const *words, struct err *e)
{
	const char *remote = body_text(rq, "remote"), *branch = body_text(rq, "branch");
	struct git g;
	int r = git_of_body(&g, rq, e);

	git_words(&g, words);
	if (json_is_true(json_object_get(http_json(rq), "set_upstream")))
		git_word(&g, "--set-upstream");
	/* a branch needs the remote's name before it */
	if (r == 0)
		r = git_name(&g, remote && remote[0] ? remote : branch && branch[0] ? "origin" : NULL, e);
	if (r >= 0)
		r = git_name(&g, branch, e);
	if (r >= 0)
		r = git_login(&g, e);
	return git_reply(&g, r, e);
}

static int post_git_push(struct http_request *rq, struct err *e)
{
	return exchange(rq, (const char *const[]){"push", NULL}, e);
}

static int post_git_pull(struct http_request *rq, struct err *e)
{
	return exchange(rq, (const char *const[]){"pull", NULL}, e);
}

static int post_git_reset(struct http_request *rq, struct err *e)
{
	static const char *const modes[] = {"soft", "mixed", "hard", "merge", "keep"};
	const char *mode = body_text(rq, "mode"), *target = body_text(rq, "target");
	const int has_files = json_array_size(json_object_get(http_json(rq), "files")) > 0;
	struct git g;
	size_t i;
	int r = git_of_body(&g, rq, e);

	git_words(&g, (const char *const[]){"reset", "-q", NULL});
	for (i = 0; mode && mode[0] && i < ARRAY_LEN(modes); i++)
		if (!strcmp(modes[i], mode)) {
			json_array_append_new(g.argv, json_sprintf("--%s", mode));
			break;
		}
	if (r == 0 && i == ARRAY_LEN(modes))
		r = err_set(e, ERR_INVALID, "mode '%.20s' is none of soft, mixed, hard, merge, keep", mode);
	if (r == 0)
		r = git_name(&g, target, e);
	if (has_files)
		git_files(&g);
	return git_reply(&g, r, e);
}

static int post_git_restore(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const char *source = body_text(rq, "source");
	struct git g;
	int r = git_of_body(&g, rq, e);

	git_word(&g, "restore");
	if (json_is_true(json_object_get(body, "staged")))
		git_word(&g, "--staged");
	if (json_is_true(json_object_get(body, "worktree")))
		git_word(&g, "--worktree");
	if (source && source[0])
		json_array_append_new(g.argv, json_sprintf("--source=%s", source));
	git_files(&g);
	return git_reply(&g, r, e);
}

static int post_git_remote(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	struct daytona_ran ran = {.status = 0};
	struct err ignored;
	struct git g;
	int r;

	if (json_is_true(json_object_get(body, "overwrite"))) {
		r = git_of_body(&g, rq, e);
		git_words(&g, (const char *const[]){"remote", "remove", NULL});
		if (r == 0)
			r = git_name(&g, body_text(rq, "name"), e);
		if (r > 0)
			git_run(&g, &ran, &ignored);
		daytona_ran_release(&ran);
		git_release(&g);
		http_error_status(rq, 0);
		if (r < 0)
			return -1;
	}
	r = git_of_body(&g, rq, e);
	git_words(&g, (const char *const[]){"remote", "add", NULL});
	if (json_is_true(json_object_get(body, "fetch")))
		git_word(&g, "-f");
	git_word(&g, "--");
	git_words(&g, (const char *const[]){body_text(rq, "name"), body_text(rq, "url"), NULL});
	return git_reply(&g, r, e);
}

static int git_scope(struct git *g, const char *scope, struct err *e)
{
	if (!scope || !scope[0])
		scope = g->path[0] && json_array_size(g->argv) > 1 ? "local" : "global";
	if (strcmp(scope, "global") && strcmp(scope, "local") && strcmp(scope, "system"))
		return err_set(e, ERR_INVALID, "scope '%.20s' is none of global, local, system", scope);
	git_word(g, "config");
	json_array_append_new(g->argv, json_sprintf("--%s", scope));
	return 0;
}

/* git of a path, or of no repository. */
static int git_maybe(struct git *g, struct http_request *rq, const char *path, struct err *e)
{
	return git_begin(g, rq, path && path[0] ? path : "/", path && path[0], e);
}

static int set_config(struct http_request *rq, const char *key, const char *value, struct err *e)
{
	struct git g;
	int r = git_maybe(&g, rq, body_text(rq, "path"), e);

	if (r == 0)
		r = git_scope(&g, body_text(rq, "scope"), e);
	if (r == 0 && key[0] == '-')
		r = err_set(e, ERR_INVALID, "'%.60s' is not a key of git's configuration", key);
	git_words(&g, (const char *const[]){"--", key, value, NULL});
	return git_reply(&g, r, e);
}

static int post_git_config(struct http_request *rq, struct err *e)
{
	return set_config(rq, body_text(rq, "key"), body_text(rq, "value"), e);
}

static int post_git_user(struct http_request *rq, struct err *e)
{
	return set_config(rq, "user.name", body_text(rq, "name"), e) < 0 ? -1 : set_config(rq, "user.email", body_text(rq, "email"), e);
}

static int refuse_credentials(struct http_request *rq, struct err *e)
{
	struct daytona_place p;
	int r = daytona_enter(&p, rq, e);

	daytona_leave(&p);
	return r < 0 ? -1 : err_set(e, ERR_UNSUPPORTED, "no credentials are stored in a sandbox; hint: username and password of clone, pull and push");
}

/* ---- looking ---- */

static const char *status_word(char letter)
{
	switch (letter) {
	case '?':
		return "Untracked";
	case 'M':
	case 'T':
		return "Modified";
	case 'A':
		return "Added";
	case 'D':
		return "Deleted";
	case 'R':
		return "Renamed";
	case 'C':
		return "Copied";
	case 'U':
		return "Updated but unmerged";
	default:
		return "Unmodified";
	}
}

static const char *skip_fields(const char *p, int n)
{
	while (n-- && p) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p;
}

static void add_status(json_t *files, const char *name, char staging, char worktree, const char *extra)
{
	json_array_append_new(files, json_pack("{s:o,s:s,s:s,s:o}", "name", daytona_text(name, strlen(name)), "staging", status_word(staging),
					       "worktree", status_word(worktree), "extra", daytona_text(extra, strlen(extra))));
}

static void take_branch_line(json_t *j, const char *p)
{
	int ahead, behind;

	if (!strncmp(p, "# branch.head ", 14)) {
		const int detached = !strcmp(p + 14, "(detached)");

		json_object_set_new(j, "currentBranch", json_string(detached ? "HEAD" : p + 14));
		json_object_set_new(j, "detached", json_boolean(detached));
	} else if (!strncmp(p, "# branch.upstream ", 18)) {
		json_object_set_new(j, "upstream", json_string(p + 18));
		json_object_set_new(j, "branchPublished", json_true());
	} else if (sscanf(p, "# branch.ab +%d -%d", &ahead, &behind) == 2) {
		json_object_set_new(j, "ahead", json_integer(ahead));
		json_object_set_new(j, "behind", json_integer(behind));
	}
}

/* git status --porcelain=v2 --branch -z: records that end with NUL; of a rename the old name follows. */
static json_t *parse_status(const struct buf *text)
{
	json_t *files = json_array(), *j = json_pack("{s:s,s:b,s:i,s:i,s:b,s:o}", "currentBranch", "", "branchPublished", 0, "ahead", 0, "behind", 0,
						      "detached", 0, "fileStatus", files);
	const char *p = text->len ? text->data : "", *end = p + text->len;

	while (p < end && memchr(p, '\0', (size_t)(end - p))) {
		const char *next = p + strlen(p) + 1, *name;

		if (p[0] == '#')
			take_branch_line(j, p);
		else if (p[0] == '?' && p[1] == ' ')
			add_status(files, p + 2, '?', '?', "");
		else if (p[0] == '1' && (name = skip_fields(p, 8)))
			add_status(files, name, p[2], p[3], "");
		else if (p[0] == 'u' && (name = skip_fields(p, 10)))
			add_status(files, name, 'U', 'U', "");
		else if (p[0] == '2' && (name = skip_fields(p, 9)) && next < end && memchr(next, '\0', (size_t)(end - next))) {
			add_status(files, name, p[2], p[3], next);
			next += strlen(next) + 1;
		}
		p = next;
	}
	return j;
}

/* Runs git of the query's path with words: 0 with its output, which is whole. */
static int git_look(struct http_request *rq, const char *const *words, struct daytona_ran *ran, struct err *e)
{
	struct git g;
	int r;

	memset(ran, 0, sizeof(*ran));
	r = git_begin(&g, rq, http_query(rq, "path"), 1, e);
	git_words(&g, words);
	if (r == 0)
		r = git_run(&g, ran, e);
	git_release(&g);
	if (r == 0 && ran->text[0].len > DAYTONA_OUTPUT_HEAD + DAYTONA_OUTPUT_TAIL)
		r = err_set(e, ERR_LIMIT, "git %s tells more than one reply holds", words[0]);
	return r;
}

static int get_git_status(struct http_request *rq, struct err *e)
{
	struct daytona_ran ran;
	int r = git_look(rq, (const char *const[]){"status", "--porcelain=v2", "--branch", "-z", NULL}, &ran, e);

	if (r == 0)
		r = http_reply_json(rq, 0, parse_status(&ran.text[0]), e);
	daytona_ran_release(&ran);
	return r;
}

/* Calls each with each line, cut at its end. */
static void each_line(struct buf *text, void (*each)(void *ctx, char *line), void *ctx)
{
	char *p = text->len ? text->data : NULL, *end = p + text->len, *nl;

	for (; p && p < end && (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
		*nl = '\0';
		each(ctx, p);
	}
}

static void add_branch(void *ctx, char *line)
{
	json_t *j = ctx;

	if (line[0] == '*')
		json_object_set_new(j, "current", json_string(line + 1));
	json_array_append_new(json_object_get(j, "branches"), daytona_text(line + 1, strlen(line + 1)));
}

static int get_git_branches(struct http_request *rq, struct err *e)
{
	struct daytona_ran ran;
	autojson json_t *j = json_pack("{s:[]}", "branches");
	int r = git_look(rq, (const char *const[]){"for-each-ref", "--format=%(if)%(HEAD)%(then)%(HEAD)%(else) %(end)%(refname:short)", "refs/heads", NULL},
			 &ran, e);

	if (r == 0)
		each_line(&ran.text[0], add_branch, j);
	daytona_ran_release(&ran);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_incref(j), e);
}

static void add_remote(void *ctx, char *line)
{
	char *tab = strchr(line, '\t'), *kind = tab ? strstr(tab, " (fetch)") : NULL;

	if (!kind)
		return;
	*tab = *kind = '\0';
	json_array_append_new(ctx, json_pack("{s:o,s:o}", "name", daytona_text(line, strlen(line)), "url", daytona_text(tab + 1, strlen(tab + 1))));
}

static int get_git_remotes(struct http_request *rq, struct err *e)
{
	struct daytona_ran ran;
	json_t *list = json_array();
	int r = git_look(rq, (const char *const[]){"remote", "-v", NULL}, &ran, e);

	if (r == 0)
		each_line(&ran.text[0], add_remote, list);
	daytona_ran_release(&ran);
	if (r == 0)
		return http_reply_json(rq, 0, json_pack("{s:o}", "remotes", list), e);
	json_decref(list);
	return -1;
}

/* Fields that end with NUL, five for each commit. */
static json_t *parse_history(const struct buf *text)
{
	static const char *const names[] = {"hash", "author", "email", "timestamp", "message"};
	const char *p = text->len ? text->data : "", *end = p + text->len;
	json_t *list = json_array(), *one = NULL;
	size_t i = 0;

	while (p < end && memchr(p, '\0', (size_t)(end - p))) {
		size_t n = strlen(p);

		if (i == 0)
			json_array_append_new(list, one = json_object());
		json_object_set_new(one, names[i], daytona_text(p, n - (i == 4 && n && p[n - 1] == '\n')));
		i = (i + 1) % ARRAY_LEN(names);
		p += n + 1;
	}
	return list;
}

static int get_git_history(struct http_request *rq, struct err *e)
{
	struct daytona_ran ran;
	int r = git_look(rq, (const char *const[]){"log", "-z", "--max-count=10000", "--format=%H%x00%an%x00%ae%x00%aI%x00%B", NULL}, &ran, e);

	if (r == 0)
		r = http_reply_json(rq, 0, parse_history(&ran.text[0]), e);
	daytona_ran_release(&ran);
	return r;
}

static int get_git_config(struct http_request *rq, struct err *e)
{
	const char *key = http_query(rq, "key");
	struct daytona_ran ran = {.status = 0};
	struct git g;
	int r = git_maybe(&g, rq, http_query(rq, "path"), e);

	if (r == 0)
		r = git_scope(&g, http_query(rq, "scope"), e);
	if (r == 0 && key[0] == '-')
		r = err_set(e, ERR_INVALID, "'%.60s' is not a key of git's configuration", key);
	git_words(&g, (const char *const[]){"--get", key, NULL});
	if (r == 0)
		r = git_run(&g, &ran, e);
	/* 1: there is none */
	if (r < 0 && ran.status == 1) {
		http_error_status(rq, 0);
		r = http_reply_json(rq, 0, json_object(), e);
	} else if (r == 0) {
		r = http_reply_json(rq, 0, json_pack("{s:o}", "value", daytona_text(ran.text[0].data, ran.text[0].len ? ran.text[0].len - 1 : 0)), e);
	}
	daytona_ran_release(&ran);
	git_release(&g);
	return r;
}

#define POST(path, run, words, schema) DAYTONA_TOOLBOX("POST", "/git/" path, run, "Daytona: " words, HTTP_JSON, .request = schema)
#define GET(path, run, words) DAYTONA_TOOLBOX("GET", "/git/" path, run, "Daytona: " words, .query = "path!:string", .response = "Any")

const struct http_route daytona_git_routes[] = {
	POST("clone", post_git_clone, "git clone", "DaytonaGitClone"),
	POST("init", post_git_init, "git init", "DaytonaGitInit"),
	POST("add", post_git_add, "git add", "DaytonaGitFiles"),
	DAYTONA_TOOLBOX("POST", "/git/commit", post_git_commit, "Daytona: git commit", HTTP_JSON, .request = "DaytonaGitCommit", .response = "Document"),
	POST("branches", post_git_branch, "a new branch", "DaytonaGitBranch"),
	DAYTONA_TOOLBOX("DELETE", "/git/branches", delete_git_branch, "Daytona: remove a branch", HTTP_JSON, .request = "DaytonaGitBranch"),
	POST("checkout", post_git_checkout, "git checkout", "DaytonaGitCheckout"),
	POST("push", post_git_push, "git push", "DaytonaGitExchange"),
	POST("pull", post_git_pull, "git pull", "DaytonaGitExchange"),
	POST("reset", post_git_reset, "git reset", "DaytonaGitReset"),
	POST("restore", post_git_restore, "git restore", "DaytonaGitRestore"),
	POST("remotes", post_git_remote, "git remote add", "DaytonaGitRemote"),
	POST("config", post_git_config, "git config", "DaytonaGitConfig"),
	POST("config/user", post_git_user, "name and address of commits", "DaytonaGitUser"),
	POST("credentials", refuse_credentials, "refused", NULL),
	GET("status", get_git_status, "git status"),
	GET("branches", get_git_branches, "local branches"),
	GET("remotes", get_git_remotes, "remotes"),
	GET("history", get_git_history, "git log"),
	DAYTONA_TOOLBOX("GET", "/git/config", get_git_config, "Daytona: a setting of git's", .query = "key!:string path:string scope:string",
			.response = "Document"),
	{NULL},
};
