/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in an S3-compatible store: libcurl, one easy handle a request.  The bucket is
 * in the path, or in the name of the host ([storage] addressing).  Each request names the hash of its body and is signed; what fails for a
 * passing reason (no connection, 5xx, 429) is sent again, with growing pauses.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/objects/sigv4.h"
#include "manager/objects/storage.h"

#define CONNECT_MS 10000L
#define LOW_SPEED_BYTES 100L	/* below it for LOW_SPEED_S: the connection is given up */
#define LOW_SPEED_S 30L
#define LIST_MAX (16u << 20)
#define LOOK_MS 100

struct s3_storage {
	struct storage base;
	char endpoint[400], host[400];	/* with the bucket where it belongs there */
	char bucket_path[128];		/* "/BUCKET", or "" */
	char prefix[256], region[64];
	char access_key[128], secret_key[256];
	uint64_t retry_ms;
};

static struct s3_storage *s3_of(struct storage *st)
{
	return (struct s3_storage *)st;
}

struct s3_request {
	const char *method, *path;
	const struct sigv4_pair *query;
	size_t query_count;
	const char *data;
	size_t len, sent;
	const char *sha256;
	struct buf *out;	/* body of the reply, or NULL */
	struct err *out_err;
	uint64_t length;	/* of the reply, by its header */
	uint64_t began_ms;	/* this try; monotonic */
};

static size_t take_s3_body(char *p, size_t size, size_t n, void *ctx)
{
	struct s3_request *q = ctx;
	struct err e;

	if (q->out && buf_add(q->out, p, size * n, &e) < 0)
		return 0;
	return size * n;
}

static size_t give_body(char *p, size_t size, size_t n, void *ctx)
{
	struct s3_request *q = ctx;
	size_t take = size * n < q->len - q->sent ? size * n : q->len - q->sent;

	memcpy(p, q->data + q->sent, take);
	q->sent += take;
	return take;
}

/* Called each second at least, also while nothing comes. */
static int is_s3_overdue(void *ctx, curl_off_t down_all, curl_off_t down, curl_off_t up_all, curl_off_t up)
{
	const struct s3_request *q = ctx;

	(void)down_all, (void)down, (void)up_all, (void)up;
	return storage_use_stopped_ms() > STORAGE_ENDING_MS && clock_ms() - q->began_ms > STORAGE_ENDING_MS;
}

static int add_header(struct curl_slist **list, struct err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int add_header(struct curl_slist **list, struct err *e, const char *fmt, ...)
{
	struct curl_slist *more;
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return err_nomem(e);
	more = curl_slist_append(*list, text);
	free(text);
	if (!more)
		return err_nomem(e);
	*list = more;
	return 0;
}

static int sign(struct s3_storage *s, const struct s3_request *q, struct curl_slist **headers, struct buf *url, struct err *e)
{
	autobuf struct buf authorization = BUF_INIT(4096);
	char date[20];
	time_t now = time(NULL);
	struct tm tm;
	const struct sigv4_pair h[] = { { "host", s->host }, { "x-amz-content-sha256", q->sha256 }, { "x-amz-date", date } };
	struct sigv4_request r = {
		.method = q->method, .path = q->path, .query = q->query, .query_count = q->query_count, .headers = h,
		.header_count = ARRAY_LEN(h), .payload_sha256 = q->sha256, .date = date, .region = s->region, .service = "s3",
		.access_key = s->access_key, .secret_key = s->secret_key,
	};

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%Y%m%dT%H%M%SZ", &tm);
	if (sigv4_sign(&r, &authorization, e) < 0 || buf_adds(url, s->endpoint, e) < 0 || sigv4_encode(q->path, 1, url, e) < 0 ||
	    (q->query_count && (buf_adds(url, "?", e) < 0 || sigv4_query(&r, url, e) < 0)))
		return -1;
	return add_header(headers, e, "Authorization: %s", authorization.data) < 0 ||
	       add_header(headers, e, "x-amz-content-sha256: %s", q->sha256) < 0 || add_header(headers, e, "x-amz-date: %s", date) < 0 ||
	       add_header(headers, e, "Content-Type:") < 0 || add_header(headers, e, "Expect:") < 0 ? -1 : 0;
}

static void set_body(CURL *c, struct s3_request *q)
{
	if (!strcmp(q->method, "PUT")) {
		curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->len);
		curl_easy_setopt(c, CURLOPT_READFUNCTION, give_body);
		curl_easy_setopt(c, CURLOPT_READDATA, q);
	} else if (!strcmp(q->method, "HEAD")) {
		curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
	} else if (strcmp(q->method, "GET")) {
		curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, q->method);
	}
}

/* One try: the status, or -1 with ERR_NET. */
static int perform(struct s3_storage *s, struct s3_request *q, struct err *e)
{
	autobuf struct buf url = BUF_INIT(8192);
	struct curl_slist *headers = NULL;
	CURL *c = curl_easy_init();
	curl_off_t length = -1;
	char why[CURL_ERROR_SIZE] = "";
	long status = -1;
	CURLcode code;

	if (!c || sign(s, q, &headers, &url, e) < 0) {
		if (!c)
			err_nomem(e);
		goto out;
	}
	q->sent = 0;
	q->began_ms = clock_ms();
	if (q->out)
		q->out->len = 0;
	curl_easy_setopt(c, CURLOPT_URL, url.data);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, LOW_SPEED_BYTES);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, LOW_SPEED_S);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_s3_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, q);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, is_s3_overdue);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, q);
	set_body(c, q);
	code = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(c, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	q->length = length > 0 ? (uint64_t)length : 0;
	if (code != CURLE_OK) {
		err_set(e, ERR_NET, "reach the object store: %s", why[0] ? why : curl_easy_strerror(code));
		status = -1;
	}
out:
	curl_slist_free_all(headers);
	if (c)
		curl_easy_cleanup(c);
	return (int)status;
}

/* -1 at once when the process ends. */
static int wait_ms(uint64_t ms, struct err *e)
{
	uint64_t until = clock_ms() + ms;

	while (storage_use_may(e) == 0) {
		uint64_t now = clock_ms();

		if (now >= until)
			return 0;
		now = until - now < LOOK_MS ? until - now : LOOK_MS;
		nanosleep(&(struct timespec){ .tv_nsec = (long)now * 1000000 }, NULL);
	}
	return -1;
}

/* The last status, unless it is a passing fault. */
static int send_s3_request(struct s3_storage *s, struct s3_request *q, struct err *e)
{
	uint64_t until = clock_ms() + s->retry_ms, pause_ms = 50;
	int status;

	for (;;) {
		status = perform(s, q, e);
		if (status >= 0 && status < 500 && status != 429)
			return status;
		if (status >= 0)
			err_set(e, ERR_NET, "the object store answers %d to %s %.200s", status, q->method, q->path);
		if (clock_ms() + pause_ms > until || e->code != ERR_NET || wait_ms(pause_ms, e) < 0)
			return -1;
		pause_ms = pause_ms < 5000 ? pause_ms * 2 : 5000;
	}
}

static int refused(const struct s3_request *q, int status, struct err *e)
{
	return err_set(e, status == 403 || status == 401 ? ERR_DENIED : ERR_NET, "the object store answers %d to %s %.200s%s", status,
		       q->method, q->path, status == 403 ? "; hint: check [storage] credentials_file, region and the bucket's policy" :
		       status == 404 ? "; hint: is there such a bucket?  [storage] url names it" : "");
}

static void s3_object_path(const struct s3_storage *s, const char *key, char out[1500])
{
	snprintf(out, 1500, "%s/%s%s%s", s->bucket_path, s->prefix, s->prefix[0] ? "/" : "", key);
}

static int s3_put(struct storage *st, const char *key, const void *data, size_t n, const char sha256[65], struct err *e)
{
	char path[1500];
	struct s3_request q = { .method = "PUT", .path = path, .data = data, .len = n, .sha256 = sha256 };
	int status;

	s3_object_path(s3_of(st), key, path);
	status = send_s3_request(s3_of(st), &q, e);
	return status < 0 ? -1 : status / 100 == 2 ? 0 : refused(&q, status, e);
}

static int s3_get(struct storage *st, const char *key, struct buf *out, struct err *e)
{
	char path[1500];
	struct s3_request q = { .method = "GET", .path = path, .sha256 = SIGV4_EMPTY_HASH, .out = out };
	int status;

	s3_object_path(s3_of(st), key, path);
	status = send_s3_request(s3_of(st), &q, e);
	return status < 0 ? -1 : status == 404 ? 0 : status == 200 ? 1 : refused(&q, status, e);
}

static int s3_head(struct storage *st, const char *key, uint64_t *ret_size, struct err *e)
{
	char path[1500];
	struct s3_request q = { .method = "HEAD", .path = path, .sha256 = SIGV4_EMPTY_HASH };
	int status;

	s3_object_path(s3_of(st), key, path);
	status = send_s3_request(s3_of(st), &q, e);
	if (status == 200)
		*ret_size = q.length;
	return status < 0 ? -1 : status == 404 ? 0 : status == 200 ? 1 : refused(&q, status, e);
}

static int s3_del(struct storage *st, const char *key, struct err *e)
{
	char path[1500];
	struct s3_request q = { .method = "DELETE", .path = path, .sha256 = SIGV4_EMPTY_HASH };
	int status;

	s3_object_path(s3_of(st), key, path);
	status = send_s3_request(s3_of(st), &q, e);
	return status < 0 ? -1 : status / 100 == 2 || status == 404 ? 0 : refused(&q, status, e);
}

/* The text of the next <tag> from *at on; our keys have no character that XML escapes. */
static int next_tag(const char **at, const char *tag, char *out, size_t n)
{
	char open[40], close[40];
	const char *p, *end;

	snprintf(open, sizeof(open), "<%s>", tag);
	snprintf(close, sizeof(close), "</%s>", tag);
	p = strstr(*at, open);
	end = p ? strstr(p, close) : NULL;
	if (!end || (size_t)(end - p) - strlen(open) >= n)
		return 0;
	p += strlen(open);
	snprintf(out, n, "%.*s", (int)(end - p), p);
	*at = end + strlen(close);
	return 1;
}

static int each_page(struct s3_storage *s, const char *text, int (*each)(void *ctx, const char *key, struct err *e), void *ctx, struct err *e)
{
	size_t skip = s->prefix[0] ? strlen(s->prefix) + 1 : 0;
	char key[1100];
	int r = 0;

	while (r == 0 && next_tag(&text, "Key", key, sizeof(key))) {
		if (strlen(key) <= skip || strncmp(key, s->prefix, strlen(s->prefix)))
			return err_set(e, ERR_CORRUPT, "the object store lists a key that was not asked for");
		r = each(ctx, key + skip, e);
	}
	return r;
}

static int s3_each(struct storage *st, const char *prefix, int (*each)(void *ctx, const char *key, struct err *e), void *ctx,
		   struct err *e)
{
	struct s3_storage *s = s3_of(st);
	char path[200], full[1300], token[1100] = "";
	int r, status;

	snprintf(path, sizeof(path), "%s", s->bucket_path[0] ? s->bucket_path : "/");
	snprintf(full, sizeof(full), "%s%s%s/", s->prefix, s->prefix[0] ? "/" : "", prefix);
	do {
		const struct sigv4_pair query[] = { { "list-type", "2" }, { "prefix", full }, { "continuation-token", token } };
		autobuf struct buf out = BUF_INIT(LIST_MAX);
		struct s3_request q = { .method = "GET", .path = path, .query = query, .query_count = token[0] ? 3 : 2,
					.sha256 = SIGV4_EMPTY_HASH, .out = &out };
		const char *at;

		status = send_s3_request(s, &q, e);
		if (status != 200)
			return status < 0 ? -1 : status == 404 ? 0 : refused(&q, status, e);
		r = each_page(s, out.data ? out.data : "", each, ctx, e);
		at = out.data ? out.data : "";
		if (!next_tag(&at, "NextContinuationToken", token, sizeof(token)))
			token[0] = '\0';
	} while (r == 0 && token[0]);
	return r;
}

static void s3_close(struct storage *st)
{
	explicit_bzero(s3_of(st)->secret_key, sizeof(s3_of(st)->secret_key));
	free(st);
}

static const struct storage_ops s3_ops = {
	.name = "s3", .put = s3_put, .get = s3_get, .head = s3_head, .del = s3_del, .each = s3_each, .close = s3_close,
};

/* ---- open ---- */

static int read_credentials(struct s3_storage *s, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1024);
	char *line, *second;

	if (!path[0])
		return err_set(e, ERR_CONFIG, "storage.credentials_file is not set; hint: a file of mode 600 with two lines: access key, "
			       "secret key");
	if (io_read_private(path, &b, e) < 0)
		return -1;
	line = b.data ? b.data : (char *)(size_t)"";
	second = strchr(line, '\n');
	if (second) {
		*second++ = '\0';
		second[strcspn(second, "\r\n")] = '\0';
		line[strcspn(line, "\r")] = '\0';
	}
	if (!second || !line[0] || !second[0] || strlen(line) >= sizeof(s->access_key) || strlen(second) >= sizeof(s->secret_key))
		return err_set(e, ERR_CONFIG, "%.200s has no two lines: access key, secret key", path);
	snprintf(s->access_key, sizeof(s->access_key), "%s", line);
	snprintf(s->secret_key, sizeof(s->secret_key), "%s", second);
	explicit_bzero(b.data, b.len);
	return 0;
}

static int is_loopback_store(const char *host)
{
	size_t n = strcspn(host, ":");

	if (!strncmp(host, "[::1]", 5))
		return 1;
	return (n == 9 && !strncmp(host, "localhost", 9)) || (!strncmp(host, "127.", 4) && strspn(host, "0123456789.") == n);
}

/* The bucket becomes part of the host's name. */
static int put_in_host(struct s3_storage *s, const char *bucket, const char *host, struct err *e)
{
	int https = !strncmp(s->endpoint, "https://", 8);
	char own[256];

	if (host[0] == '[' || strspn(host, "0123456789.") == strcspn(host, ":"))
		return err_set(e, ERR_CONFIG, "storage.addressing is virtual, and storage.endpoint '%.100s' has no name that a bucket's could "
			       "stand before; hint: addressing = \"path\"", s->endpoint);
	if (https && strchr(bucket, '.'))
		return err_set(e, ERR_CONFIG, "storage.addressing is virtual, and no certificate is for bucket '%.63s', which has a dot in its "
			       "name; hint: addressing = \"path\"", bucket);
	snprintf(own, sizeof(own), "%s", host);	/* it stands in endpoint, which is written next */
	snprintf(s->host, sizeof(s->host), "%s.%s", bucket, own);
	snprintf(s->endpoint, sizeof(s->endpoint), "%s://%.330s", https ? "https" : "http", s->host);
	return 0;
}

static int parse_endpoint(struct s3_storage *s, const char *bucket, const struct conf *c, struct err *e)
{
	const char *host;
	size_t n;

	if (c->storage_endpoint[0])
		snprintf(s->endpoint, sizeof(s->endpoint), "%s", c->storage_endpoint);
	else
		snprintf(s->endpoint, sizeof(s->endpoint), "https://s3.%s.amazonaws.com", c->storage_region);
	n = strlen(s->endpoint);
	if (n && s->endpoint[n - 1] == '/')
		s->endpoint[n - 1] = '\0';
	host = !strncmp(s->endpoint, "https://", 8) ? s->endpoint + 8 : !strncmp(s->endpoint, "http://", 7) ? s->endpoint + 7 : NULL;
	if (!host || !host[0] || strpbrk(host, "/?#@"))
		return err_set(e, ERR_CONFIG, "storage.endpoint '%.100s' is not a URL of a server; hint: https://HOST[:PORT]", s->endpoint);
	/* secrets are signed, not sent, but workspaces would be read by anybody on the way */
	if (!strncmp(s->endpoint, "http://", 7) && !is_loopback_store(host))
		return err_set(e, ERR_CONFIG, "storage.endpoint is http and not on loopback; hint: https");
	if (!strcmp(c->storage_addressing, "virtual"))
		return put_in_host(s, bucket, host, e);
	snprintf(s->host, sizeof(s->host), "%s", host);
	snprintf(s->bucket_path, sizeof(s->bucket_path), "/%s", bucket);
	return 0;
}

static int parse_url(struct s3_storage *s, const struct conf *c, struct err *e)
{
	const char *name = c->storage_url + 5, *slash = strchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : strlen(name);
	char bucket[64];

	if (n < 3 || n > 63 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") < n)
		return err_set(e, ERR_CONFIG, "storage.url names no bucket; hint: s3://BUCKET/PREFIX");
	snprintf(bucket, sizeof(bucket), "%.*s", (int)n, name);
	if (slash && slash[1]) {
		if (storage_check_path(slash + 1, e) < 0)
			return err_wrap(e, "storage.url");
		snprintf(s->prefix, sizeof(s->prefix), "%s", slash + 1);
	}
	if (parse_endpoint(s, bucket, c, e) < 0)
		return -1;
	snprintf(s->region, sizeof(s->region), "%s", c->storage_region);
	s->retry_ms = c->storage_retry_ms;
	return 0;
}

static void init_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

int storage_s3_open(struct storage **ret, const struct conf *c, struct err *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct s3_storage *s = calloc(1, sizeof(*s));

	if (!s)
		return err_nomem(e);
	s->base.ops = &s3_ops;
	pthread_once(&once, init_curl);
	if (parse_url(s, c, e) < 0 || read_credentials(s, c->storage_credentials, e) < 0) {
		s3_close(&s->base);
		return -1;
	}
	*ret = &s->base;
	return 0;
}
