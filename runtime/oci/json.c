/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/json.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"

/* Digits at p that are above INT64_MAX and at most UINT64_MAX: how many; else 0. */
static size_t big_number(const char *p, const char *end)
{
	size_t n = 0;
	char copy[24];

	while (p + n < end && isdigit((unsigned char)p[n]))
		n++;
	if (n < 19 || n > 20 || (p + n < end && strchr(".eE", p[n])))
		return 0;
	memcpy(copy, p, n);
	copy[n] = '\0';
	if (strcmp(copy, "9223372036854775807") <= 0 && n == 19)
		return 0;
	return n == 19 || strcmp(copy, "18446744073709551615") <= 0 ? n : 0;
}

/* Finds the next such number in the text from begin on, outside of strings; NULL if there is none. */
static const char *find_big(const char *begin, const char *end)
{
	const char *p = begin;
	int quoted = 0;

	for (; p < end; p++) {
		if (quoted) {
			if (*p == '\\')
				p++;
			else if (*p == '"')
				quoted = 0;
		} else if (*p == '"') {
			quoted = 1;
		} else if (isdigit((unsigned char)*p)) {
			if (big_number(p, end) && (p == begin || p[-1] != '-'))
				return p;
			while (p + 1 < end && isdigit((unsigned char)p[1]))
				p++;
		}
	}
	return NULL;
}

json_t *oci_json_parse(const char *text, size_t n, const char *what, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OCI_DOCUMENT_MAX + 65536);
	const char *end = text + n, *p = text, *big;

	/* said here, as the parser behind it would speak of its own grammar */
	if (n && *text != '{' && !isspace((unsigned char)*text)) {
		err_set(e, ERR_INVALID, "%s is not a JSON object", what);
		return NULL;
	}
	while (p < end && (big = find_big(p, end))) {
		size_t digits = big_number(big, end);

		if (buf_add(&b, p, (size_t)(big - p), e) < 0 ||
		    buf_addf(&b, e, "\"\\u0001u64:%.*s\"", (int)digits, big) < 0)
			return NULL;
		p = big + digits;
	}
	if (p == text)
		return json_parse(text, n, OCI_DOCUMENT_MAX, what, e);
	if (buf_add(&b, p, (size_t)(end - p), e) < 0)
		return NULL;
	return json_parse(b.data, b.len, OCI_DOCUMENT_MAX + 65536, what, e);
}

json_t *oci_json_read(int dirfd, const char *path, struct buf *b, struct err *e)
{
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0) {
		err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %s", path);
		return NULL;
	}
	if (io_read_all(fd, b, path, e) < 0)
		return NULL;
	return oci_json_parse(b->data ? b->data : "", b->len, path, e);
}

json_t *oci_json_load(int dirfd, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OCI_DOCUMENT_MAX);

	return oci_json_read(dirfd, path, &b, e);
}

/* ---- the types of a document ---- */

enum kind { STRING, BOOL, U16, U32, U64, I32, I64, ID, MAJOR, MINOR, NUMBER_OR_ANY, SECONDS, OBJECT };

enum shape {
	ONE,
	LIST,	/* an array of them */
	MAP,	/* an object of them, with any names */
};

struct field {
	const char *key;
	enum kind kind;
	enum shape shape;
	int required;
	const struct field *of;	/* OBJECT: its members */
};

#define END { NULL }

static const struct field id_map[] = {
	{ "containerID", U32 }, { "hostID", U32 }, { "size", U32 }, END
};

static const struct field box[] = { { "height", U64 }, { "width", U64 }, END };

static const struct field user[] = {
	{ "uid", ID }, { "gid", ID }, { "umask", U32 }, { "additionalGids", ID, LIST }, { "username", STRING }, END
};

static const struct field capabilities[] = {
	{ "bounding", STRING, LIST }, { "effective", STRING, LIST }, { "inheritable", STRING, LIST },
	{ "permitted", STRING, LIST }, { "ambient", STRING, LIST }, END
};

static const struct field rlimit[] = {
	{ "type", STRING, ONE, 1 }, { "soft", U64 }, { "hard", U64 }, END
};

static const struct field scheduler[] = {
	{ "policy", STRING, ONE, 1 }, { "nice", I32 }, { "priority", I32 }, { "flags", STRING, LIST },
	{ "runtime", U64 }, { "deadline", U64 }, { "period", U64 }, END
};

static const struct field io_priority[] = { { "class", STRING, ONE, 1 }, { "priority", I32 }, END };
static const struct field affinity[] = { { "initial", STRING }, { "final", STRING }, END };

static const struct field process[] = {
	{ "terminal", BOOL }, { "consoleSize", OBJECT, ONE, 0, box }, { "user", OBJECT, ONE, 0, user },
	{ "args", STRING, LIST }, { "env", STRING, LIST }, { "cwd", STRING, ONE, 1 },
	{ "capabilities", OBJECT, ONE, 0, capabilities }, { "rlimits", OBJECT, LIST, 0, rlimit },
	{ "noNewPrivileges", BOOL }, { "apparmorProfile", STRING }, { "oomScoreAdj", I32 },
	{ "selinuxLabel", STRING }, { "scheduler", OBJECT, ONE, 0, scheduler },
	{ "ioPriority", OBJECT, ONE, 0, io_priority }, { "execCPUAffinity", OBJECT, ONE, 0, affinity }, END
};

static const struct field root[] = { { "path", STRING, ONE, 1 }, { "readonly", BOOL }, END };

static const struct field mount_entry[] = {
	{ "destination", STRING, ONE, 1 }, { "type", STRING }, { "source", STRING }, { "options", STRING, LIST },
	{ "uidMappings", OBJECT, LIST, 0, id_map }, { "gidMappings", OBJECT, LIST, 0, id_map }, END
};

static const struct field hook[] = {
	{ "path", STRING, ONE, 1 }, { "args", STRING, LIST }, { "env", STRING, LIST }, { "timeout", SECONDS }, END
};

static const struct field hooks[] = {
	{ "prestart", OBJECT, LIST, 0, hook }, { "createRuntime", OBJECT, LIST, 0, hook },
	{ "createContainer", OBJECT, LIST, 0, hook }, { "startContainer", OBJECT, LIST, 0, hook },
	{ "poststart", OBJECT, LIST, 0, hook }, { "poststop", OBJECT, LIST, 0, hook }, END
};

static const struct field namespace[] = { { "type", STRING, ONE, 1 }, { "path", STRING }, END };

static const struct field device[] = {
	{ "type", STRING, ONE, 1 }, { "path", STRING, ONE, 1 }, { "major", MAJOR }, { "minor", MINOR },
	{ "fileMode", U32 }, { "uid", ID }, { "gid", ID }, END
};

static const struct field device_rule[] = {
	{ "allow", BOOL }, { "type", STRING }, { "major", NUMBER_OR_ANY }, { "minor", NUMBER_OR_ANY },
	{ "access", STRING }, END
};

static const struct field memory[] = {
	{ "limit", I64 }, { "reservation", I64 }, { "swap", I64 }, { "kernel", I64 }, { "kernelTCP", I64 },
	{ "swappiness", U64 }, { "disableOOMKiller", BOOL }, { "useHierarchy", BOOL },
	{ "checkBeforeUpdate", BOOL }, END
};

static const struct field cpu[] = {
	{ "shares", U64 }, { "quota", I64 }, { "burst", U64 }, { "period", U64 }, { "realtimeRuntime", I64 },
	{ "realtimePeriod", U64 }, { "cpus", STRING }, { "mems", STRING }, { "idle", I64 }, END
};

static const struct field weight_device[] = {
	{ "major", I64 }, { "minor", I64 }, { "weight", U16 }, { "leafWeight", U16 }, END
};

static const struct field throttle_device[] = {
	{ "major", I64 }, { "minor", I64 }, { "rate", U64 }, END
};

static const struct field block_io[] = {
	{ "weight", U16 }, { "leafWeight", U16 }, { "weightDevice", OBJECT, LIST, 0, weight_device },
	{ "throttleReadBpsDevice", OBJECT, LIST, 0, throttle_device },
	{ "throttleWriteBpsDevice", OBJECT, LIST, 0, throttle_device },
	{ "throttleReadIOPSDevice", OBJECT, LIST, 0, throttle_device },
	{ "throttleWriteIOPSDevice", OBJECT, LIST, 0, throttle_device }, END
};

static const struct field pids[] = { { "limit", I64 }, END };
static const struct field huge_page[] = { { "pageSize", STRING, ONE, 1 }, { "limit", U64 }, END };
static const struct field interface_priority[] = { { "name", STRING, ONE, 1 }, { "priority", U32 }, END };

static const struct field network[] = {
	{ "classID", U32 }, { "priorities", OBJECT, LIST, 0, interface_priority }, END
};

static const struct field rdma[] = { { "hcaHandles", U32 }, { "hcaObjects", U32 }, END };

static const struct field resources[] = {
	{ "devices", OBJECT, LIST, 0, device_rule }, { "memory", OBJECT, ONE, 0, memory },
	{ "cpu", OBJECT, ONE, 0, cpu }, { "pids", OBJECT, ONE, 0, pids }, { "blockIO", OBJECT, ONE, 0, block_io },
	{ "hugepageLimits", OBJECT, LIST, 0, huge_page }, { "network", OBJECT, ONE, 0, network },
	{ "rdma", OBJECT, MAP, 0, rdma }, { "unified", STRING, MAP }, END
};

static const struct field seccomp_arg[] = {
	{ "index", U32 }, { "value", U64 }, { "valueTwo", U64 }, { "op", STRING, ONE, 1 }, END
};

static const struct field seccomp_call[] = {
	{ "names", STRING, LIST, 1 }, { "action", STRING, ONE, 1 }, { "errnoRet", U32 },
	{ "args", OBJECT, LIST, 0, seccomp_arg }, END
};

static const struct field seccomp[] = {
	{ "defaultAction", STRING, ONE, 1 }, { "defaultErrnoRet", U32 }, { "architectures", STRING, LIST },
	{ "flags", STRING, LIST }, { "listenerPath", STRING }, { "listenerMetadata", STRING },
	{ "syscalls", OBJECT, LIST, 0, seccomp_call }, END
};

static const struct field time_offset[] = { { "secs", I64 }, { "nanosecs", U32 }, END };
static const struct field personality[] = { { "domain", STRING, ONE, 1 }, { "flags", STRING, LIST }, END };

static const struct field rdt[] = {
	{ "closID", STRING }, { "l3CacheSchema", STRING }, { "memBwSchema", STRING }, { "schemata", STRING, LIST },
	{ "enableMonitoring", BOOL }, { "enableCMT", BOOL }, { "enableMBM", BOOL }, END
};

static const struct field memory_policy[] = {
	{ "mode", STRING }, { "nodes", STRING }, { "flags", STRING, LIST }, END
};

static const struct field net_device[] = { { "name", STRING }, END };

static const struct field linux_part[] = {
	{ "uidMappings", OBJECT, LIST, 0, id_map }, { "gidMappings", OBJECT, LIST, 0, id_map },
	{ "sysctl", STRING, MAP }, { "resources", OBJECT, ONE, 0, resources }, { "cgroupsPath", STRING },
	{ "namespaces", OBJECT, LIST, 0, namespace }, { "devices", OBJECT, LIST, 0, device },
	{ "netDevices", OBJECT, MAP, 0, net_device }, { "seccomp", OBJECT, ONE, 0, seccomp },
	{ "rootfsPropagation", STRING }, { "maskedPaths", STRING, LIST }, { "readonlyPaths", STRING, LIST },
	{ "mountLabel", STRING }, { "intelRdt", OBJECT, ONE, 0, rdt },
	{ "memoryPolicy", OBJECT, ONE, 0, memory_policy }, { "personality", OBJECT, ONE, 0, personality },
	{ "timeOffsets", OBJECT, MAP, 0, time_offset }, END
};

static const struct field config[] = {
	{ "ociVersion", STRING, ONE, 1 }, { "process", OBJECT, ONE, 0, process }, { "root", OBJECT, ONE, 0, root },
	{ "hostname", STRING }, { "domainname", STRING }, { "mounts", OBJECT, LIST, 0, mount_entry },
	{ "hooks", OBJECT, ONE, 0, hooks }, { "annotations", STRING, MAP },
	{ "linux", OBJECT, ONE, 0, linux_part }, END
};

static const struct field *const documents[] = {
	[OCI_CONFIG] = config, [OCI_PROCESS] = process, [OCI_RESOURCES] = resources,
};

#define PATH_SIZE 256

static int wrong_config_type(const char *path, const char *want, struct err *e)
{
	return err_set(e, ERR_INVALID, "%s is not %s", path, want);
}

static int check_config_number(const json_t *v, enum kind kind, const char *path, struct err *e)
{
	static const struct { int64_t min, max; const char *name; } ranges[] = {
		[U16] = { 0, UINT16_MAX, "a number from 0 to 65535" },
		[U32] = { 0, UINT32_MAX, "a number from 0 to 4294967295" },
		[U64] = { 0, INT64_MAX, "a number that is not negative" },
		[I32] = { INT32_MIN, INT32_MAX, "a number of 32 bits" },
		[I64] = { INT64_MIN, INT64_MAX, "a number of 64 bits" },
		/* 4294967295 is -1, with which setresuid(2) and chown(2) keep the current id: root's */
		[ID] = { 0, UINT32_MAX - 1, "an id from 0 to 4294967294" },
		/* the range of dev_t in the kernel: makedev() cuts off the rest */
		[MAJOR] = { 0, (1 << 12) - 1, "a number from 0 to 4095" },
		[MINOR] = { 0, (1 << 20) - 1, "a number from 0 to 1048575" },
		[NUMBER_OR_ANY] = { -1, UINT32_MAX, "a number from 0 to 4294967295, or -1 for any" },
		[SECONDS] = { 1, INT32_MAX, "a number of seconds greater than zero" },
	};

	if (kind == U64 && json_is_string(v) && !strncmp(json_string_value(v), OCI_BIG, sizeof(OCI_BIG) - 1))
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < ranges[kind].min || json_integer_value(v) > ranges[kind].max)
		return wrong_config_type(path, ranges[kind].name, e);
	return 0;
}

static int check_config_object(const json_t *obj, const struct field *fields, const char *path, struct err *e);

static int check_config_value(const json_t *v, const struct field *f, const char *path, struct err *e)
{
	switch (f->kind) {
	case STRING:
		if (!json_is_string(v) || !strncmp(json_string_value(v), OCI_BIG, sizeof(OCI_BIG) - 1))
			return wrong_config_type(path, "a string", e);
		return 0;
	case BOOL:
		return json_is_boolean(v) ? 0 : wrong_config_type(path, "true or false", e);
	case OBJECT:
		return json_is_object(v) ? check_config_object(v, f->of, path, e) : wrong_config_type(path, "an object", e);
	default:
		return check_config_number(v, f->kind, path, e);
	}
}

static int check_field(json_t *v, const struct field *f, const char *path, struct err *e)
{
	char inner[PATH_SIZE];
	const char *key;
	json_t *item;
	size_t i;

	if (f->shape == ONE)
		return check_config_value(v, f, path, e);
	if (f->shape == LIST) {
		if (!json_is_array(v))
			return wrong_config_type(path, "an array", e);
		json_array_foreach(v, i, item) {
			snprintf(inner, sizeof(inner), "%.200s[%zu]", path, i);
			if (check_config_value(item, f, inner, e) < 0)
				return -1;
		}
		return 0;
	}
	if (!json_is_object(v))
		return wrong_config_type(path, "an object", e);
	json_object_foreach(v, key, item) {
		snprintf(inner, sizeof(inner), "%.160s[\"%.64s\"]", path, key);
		if (check_config_value(item, f, inner, e) < 0)
			return -1;
	}
	return 0;
}

static int check_config_object(const json_t *obj, const struct field *fields, const char *path, struct err *e)
{
	char inner[PATH_SIZE];

	for (; fields->key; fields++) {
		json_t *v = oci_get(obj, fields->key);

		if (!v && !fields->required)
			continue;
		snprintf(inner, sizeof(inner), "%.160s%s%.64s", path, path[strlen(path) - 1] == ' ' ? "" : ".", fields->key);
		if (!v)
			return err_set(e, ERR_INVALID, "%s is missing", inner);
		if (check_field(v, fields, inner, e) < 0)
			return -1;
	}
	return 0;
}

int oci_schema_check(const json_t *doc, enum oci_document kind, const char *what, struct err *e)
{
	char path[PATH_SIZE];

	if (!json_is_object(doc))
		return err_set(e, ERR_INVALID, "%s is not a JSON object", what);
	snprintf(path, sizeof(path), "%.100s: ", what);
	return check_config_object(doc, documents[kind], path, e);
}
