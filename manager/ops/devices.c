/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S47 of SECURITY.md. */
#include "manager/ops/devices.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"

/* ---- what the options ask for ---- */

#define OWNED_MAX 4096

void devices_free(struct devices *d)
{
	size_t i;

	for (i = 0; d && i < d->owned_count; i++)
		free(d->owned[i]);
	if (d) {
		free(d->owned);
		free(d->env);
	}
	free(d);
}

char *devices_keep(struct devices *d, const char *s, struct err *e)
{
	char **more = d->owned_count < OWNED_MAX ?
			      realloc(d->owned, (d->owned_count + 1) * sizeof(*more)) : NULL;
	char *copy = more ? strdup(s) : NULL;

	if (more)
		d->owned = more;
	if (!copy) {
		err_nomem(e);
		return NULL;
	}
	return d->owned[d->owned_count++] = copy;
}

/* ---- what is asked for ---- */

int devices_access(const char *text, unsigned *ret, struct err *e)
{
	static const struct { char c; unsigned bit; } letters[] = {
		{ 'r', DEVICE_READ }, { 'w', DEVICE_WRITE }, { 'm', DEVICE_MKNOD },
	};
	unsigned set = 0;
	size_t i;

	for (; *text; text++) {
		for (i = 0; i < ARRAY_LEN(letters) && letters[i].c != *text; i++)
			;
		if (i == ARRAY_LEN(letters) || set & letters[i].bit)
			break;
		set |= letters[i].bit;
	}
	if (*text || !(set & (DEVICE_READ | DEVICE_WRITE)))
		return err_set(e, ERR_INVALID, "the access of a device is some of r, w and m, with "
			       "r or w in it");
	*ret = set;
	return 0;
}

/* Tells whether target is a node of berth's own, or a place below that is a mount. */
static int is_taken(const char *target)
{
	static const char *const taken[] = {
		"null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout",
		"stderr", "ptmx", "pts", "shm", "mqueue",
	};
	const char *name = target + strlen("/dev/");
	size_t i, n = strcspn(name, "/");

	for (i = 0; i < ARRAY_LEN(taken); i++)
		if (strlen(taken[i]) == n && !strncmp(name, taken[i], n))
			return 1;
	return name[0] == '.';
}

int devices_check_target(const char *target, struct err *e)
{
	const char *p;

	if (strncmp(target, "/dev/", 5) || !target[5] || strlen(target) > 200)
		return err_set(e, ERR_INVALID, "'%.80s' is not a place below /dev: devices "
			       "work nowhere else in a sandbox", target);
	for (p = target; p; p = strchr(p + 1, '/'))
		if (!p[1] || p[1] == '/' || !strncmp(p, "/./", 3) || !strcmp(p, "/.") ||
		    !strncmp(p, "/../", 4) || !strcmp(p, "/.."))
			return err_set(e, ERR_INVALID, "'%.80s' must not contain '.', '..' or '//' "
				       "or end in '/'", target);
	if (is_taken(target))
		return err_set(e, ERR_INVALID, "%s is berth's own in every sandbox; hint: "
			       "another place below /dev", target);
	return 0;
}

/* ---- what gives no power over the host ---- */

int devices_is_harmless(const char *driver, int is_misc)
{
	/* GPUs and accelerators, sound, cameras, serial lines, RDMA; nvidia has several */
	static const char *const plain[] = {
		"drm", "accel", "kfd", "alsa", "video4linux", "media", "dvb", "cec", "ttyS",
		"ttyUSB", "ttyACM", "ttyAMA", "infiniband_verbs", "dma_heap", "habanalabs",
		"nvidia", "nvidia-frontend", "nvidiactl", "nvidia-uvm", "nvidia-modeset",
		"nvidia-caps", "nvidia-nvlink", "nvidia-nvswitch",
	};
	static const char *const misc[] = { "fuse", "kvm", "tun", "hw_random" };
	const char *const *all = is_misc ? misc : plain;
	size_t i, n = is_misc ? ARRAY_LEN(misc) : ARRAY_LEN(plain);

	for (i = 0; i < n; i++)
		if (!strcmp(all[i], driver))
			return 1;
	return 0;
}

/*
 * Tells whether all drivers of that number are harmless, because several may share one, by a list
 * of "NUMBER NAME" lines, from /proc/devices up to the block devices; ret names the last of them.
 */
static int number_is_harmless(const char *file, unsigned number, char *ret, size_t n)
{
	autobuf struct buf b = BUF_INIT(1 << 18);
	char *line, *save = NULL, *name;
	int found = 0, harmless = 1;
	struct err ignored;

	snprintf(ret, n, "unknown");
	if (io_read_file(AT_FDCWD, file, &b, &ignored) < 0 || buf_add(&b, "", 1, &ignored) < 0)
		return 0;
	for (line = strtok_r(b.data, "\n", &save); line && strncmp(line, "Block", 5);
	     line = strtok_r(NULL, "\n", &save)) {
		if (strtoul(line, &name, 10) != number || name == line || *name != ' ')
			continue;
		snprintf(ret, n, "%s", name + 1);
		found = 1;
		harmless &= devices_is_harmless(name + 1, !strcmp(file, "/proc/misc"));
	}
	return found && harmless;
}

/* Tells whether every sandbox has the device: its rule is then the parent's. */
static int is_everybodys(unsigned major, unsigned minor)
{
	const unsigned memory = 1u << 3 | 1u << 5 | 1u << 7 | 1u << 8 | 1u << 9;

	return (major == 1 && minor < 32 && memory & 1u << minor) || major == 136 ||
	       (major == 5 && (minor == 0 || minor == 2));
}

static int is_listed_device(const char *list, const char *path)
{
	const size_t n = strlen(path);
	const char *p;

	for (p = list; *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (strcspn(p, "\n") == n && !strncmp(p, path, n))
			return 1;
	return 0;
}

static int check_power(const struct config *c, const char *path, const struct stat *st,
		       struct err *e)
{
	const unsigned ma = major(st->st_rdev), mi = minor(st->st_rdev);
	autofree char *real = realpath(path, NULL);
	char driver[64] = "a block device";

	if (is_listed_device(c->devices_privileged, path) ||
	    (real && is_listed_device(c->devices_privileged, real)))
		return 0;
	if (S_ISCHR(st->st_mode) && is_everybodys(ma, mi))
		return 0;
	/* the lines behind the consoles, which have the same number */
	if (S_ISCHR(st->st_mode) && ma == 4 && mi >= 64)
		return 0;
	if (S_ISCHR(st->st_mode) &&
	    (ma == 10 ? number_is_harmless("/proc/misc", mi, driver, sizeof(driver)) :
			number_is_harmless("/proc/devices", ma, driver, sizeof(driver))))
		return 0;
	return err_set(e, ERR_DENIED, "device %.100s (%u:%u, %s) may be as good as root on the "
		       "host; hint: name it in privileged, section devices of berth.toml",
		       path, ma, mi, driver);
}

/* ---- resolving ---- */

int devices_add_node(struct devices *d, const struct config *c, const struct device_node *n,
		     struct err *e)
{
	const mode_t usual = (n->access & DEVICE_READ ? 0444 : 0) |
			     (n->access & DEVICE_WRITE ? 0222 : 0);
	struct spec_device *to = &d->at[d->count];
	struct stat st;
	size_t i;

	if (devices_check_target(n->target, e) < 0)
		return -1;
	if (stat(n->path, &st) < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "device %.200s",
				    n->path);
	if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
		return err_set(e, ERR_INVALID, "%.200s is not a device", n->path);
	for (i = 0; i < d->count; i++)
		if (!strcmp(d->at[i].target, n->target) && d->at[i].rdev == st.st_rdev)
			return 0;	/* two devices of one specification name it */
	for (i = 0; i < d->count; i++)
		if (!strcmp(d->at[i].target, n->target))
			return err_set(e, ERR_INVALID, "two devices at %s", n->target);
	if (d->count == CGROUP_DEVICES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d devices", CGROUP_DEVICES_MAX);
	if (check_power(c, n->path, &st, e) < 0)
		return -1;
	*to = (struct spec_device){
		.target = devices_keep(d, n->target, e), .source = devices_keep(d, n->path, e),
		.rdev = st.st_rdev, .mode = (n->mode < 0 ? usual : (mode_t)n->mode & 0666) |
						 (st.st_mode & S_IFMT),
		.uid = n->uid < 0 ? 0 : (uint32_t)n->uid, .gid = n->gid < 0 ? 0 : (uint32_t)n->gid,
		.access = n->access,
	};
	if (!to->target || !to->source)
		return -1;
	d->count++;
	if (!S_ISCHR(st.st_mode) || !is_everybodys(major(st.st_rdev), minor(st.st_rdev)))
		d->may[d->may_count++] = (struct cgroup_device){
			S_ISBLK(st.st_mode) ? 'b' : 'c', major(st.st_rdev), minor(st.st_rdev),
			n->access };
	return 0;
}

/* ---- --device and --gpus ---- */

#define ALL_ACCESS (DEVICE_READ | DEVICE_WRITE | DEVICE_MKNOD)
#define GPUS_MAX 64
#define GPU_KIND "nvidia.com/gpu="

/* Parses PATH[:TARGET][:rwm]; the parts are in text afterwards. */
static int parse_path(char *text, struct device_node *n, struct err *e)
{
	char *part = strchr(text, ':'), *last;

	*n = (struct device_node){ text, text, ALL_ACCESS, -1, -1, -1 };
	if (part)
		*part++ = '\0';
	last = part ? strchr(part, ':') : NULL;
	if (last)
		*last++ = '\0';
	if (part && part[0] == '/')
		n->target = part;
	else if (part && !last)
		last = part;
	else if (part)
		return err_set(e, ERR_INVALID, "'%.80s' is not an absolute path", part);
	if (last && devices_access(last, &n->access, e) < 0)
		return -1;
	return devices_check_target(n->target, e);
}

int deviceopts_check(const char *value, struct err *e)
{
	autofree char *copy = strdup(value);
	struct device_node n;

	if (!copy)
		return err_nomem(e);
	if (value[0] == '/')
		return parse_path(copy, &n, e);
	if (!cdi_is_name(value))
		return err_set(e, ERR_INVALID, "'%.80s' is neither the path of a device nor the "
			       "name of one; hint: /dev/fuse, or vendor.com/class=name", value);
	return 0;
}

int deviceopts_gpus(const char *value, int (*each)(void *ctx, const char *device, struct err *e),
		 void *ctx, struct err *e)
{
	static const char by_name[] = "device=";
	autofree char *copy = strdup(value);
	char name[200], *word, *save = NULL;
	uint64_t n = 0, i;

	if (!copy)
		return err_nomem(e);
	if (!strcmp(value, "all"))
		return each(ctx, GPU_KIND "all", e);
	if (isdigit((unsigned char)value[0])) {
		if (num_u64(value, "gpus", 1, GPUS_MAX, &n, e) < 0)
			return -1;
		for (i = 0; i < n; i++) {
			snprintf(name, sizeof(name), GPU_KIND "%llu", (unsigned long long)i);
			if (each(ctx, name, e) < 0)
				return -1;
		}
		return 0;
	}
	if (strncmp(value, by_name, sizeof(by_name) - 1) || !value[sizeof(by_name) - 1])
		return err_set(e, ERR_INVALID, "'%.80s' does not say which GPUs; hint: all, a "
			       "number, or device=0,1", value);
	for (word = strtok_r(copy + sizeof(by_name) - 1, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		snprintf(name, sizeof(name), GPU_KIND "%.150s", word);
		if (deviceopts_check(name, e) < 0 || each(ctx, name, e) < 0)
			return -1;
	}
	return 0;
}

static int add_path(struct devices *d, const struct config *c, const char *value, struct err *e)
{
	autofree char *text = strdup(value);
	struct device_node n;

	if (!text)
		return err_nomem(e);
	return parse_path(text, &n, e) < 0 ? -1 : devices_add_node(d, c, &n, e);
}

int deviceopts_resolve(struct devices *d, const struct config *c, const char *const *values,
		       size_t n, struct err *e)
{
	struct cdi *cdi = NULL;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		if (values[i][0] == '/') {
			r = add_path(d, c, values[i], e);
			continue;
		}
		if (!cdi && !(cdi = cdi_open(c, e)))
			return -1;
		r = cdi_add(cdi, values[i], d, e);
	}
	cdi_close(cdi);
	return r;
}
