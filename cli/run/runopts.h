/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runopts - the options that say what a sandbox is, as `run` takes them.
 *
 * RUNOPTS_TABLE rows feed a command's struct opt table; runopts_set() handles
 * their ids.  The result borrows argv; lists grow on the heap up to a ceiling
 * and are freed by runopts_release().
 */
#ifndef BERTH_CLI_RUN_RUNOPTS_H
#define BERTH_CLI_RUN_RUNOPTS_H

#include "base/json.h"
#include "cli/command.h"
#include "cli/run/devices.h"
#include "cli/run/netopts.h"
#include "manager/host/config.h"
#include "rootfs/store/image.h"
#include "runtime/sandbox/spec.h"

enum runopts_id {
	RUNOPT_MEMORY = 1, RUNOPT_SWAP, RUNOPT_CPUS, RUNOPT_CPU_TIME, RUNOPT_CPU_WEIGHT, RUNOPT_CPUSET, RUNOPT_PIDS,
	RUNOPT_DISK, RUNOPT_DISK_INODES, RUNOPT_TMP_SIZE, RUNOPT_SHM_SIZE, RUNOPT_TIMEOUT, RUNOPT_GRACE,
	RUNOPT_MAX_SILENT,
	RUNOPT_ULIMIT, RUNOPT_ENV, RUNOPT_ENV_FILE, RUNOPT_WORKDIR, RUNOPT_USER, RUNOPT_HOSTNAME, RUNOPT_MOUNT,
	RUNOPT_VOLUME, RUNOPT_TMPFS, RUNOPT_NO_TMPFS, RUNOPT_READ_ONLY, RUNOPT_NETWORK, RUNOPT_CAP_ADD, RUNOPT_CAP_DROP,
	RUNOPT_PUBLISH, RUNOPT_ALIAS, RUNOPT_ADD_HOST,
	RUNOPT_ALLOW_HOST, RUNOPT_DENY_HOST, RUNOPT_ALLOW_NET,
	RUNOPT_DENY_NET, RUNOPT_DNS, RUNOPT_NETWORK_BYTES, RUNOPT_NETWORK_CONNECTIONS,
	RUNOPT_NETWORK_RATE,
	RUNOPT_SECCOMP, RUNOPT_NAME, RUNOPT_TTY, RUNOPT_INTERACTIVE, RUNOPT_ENTRYPOINT,
	RUNOPT_LABEL, RUNOPT_LABEL_FILE, RUNOPT_DEVICE, RUNOPT_GPUS,
	RUNOPT_IO_WEIGHT, RUNOPT_IO_RATE,
	RUNOPT_FIRST_OWN	/* a command's own ids start here */
};

#define RUNOPTS_TABLE \
	{ "memory", 'm', OPT_VALUE, "SIZE", "memory limit, or unlimited (default: 512m)", RUNOPT_MEMORY }, \
	{ "swap", 0, OPT_VALUE, "SIZE", "swap on top of the memory, or unlimited (default: 0)", RUNOPT_SWAP }, \
	{ "cpus", 'c', OPT_VALUE, "N", "CPUs, such as 0.5, or unlimited (default: 1)", RUNOPT_CPUS }, \
	{ "cpu-time", 0, OPT_VALUE, "TIME", "CPU time in all before it is killed; of run only (default: none)", RUNOPT_CPU_TIME }, \
	{ "cpu-weight", 0, OPT_VALUE, "N", "share of a busy CPU, 1 to 10000 (default: 100)", RUNOPT_CPU_WEIGHT }, \
	{ "cpuset", 0, OPT_VALUE, "LIST", "CPUs it may run on, such as 0-1,3 (default: all)", RUNOPT_CPUSET }, \
	{ "io-weight", 0, OPT_VALUE, "N", \
	  "share of a busy disk, 1 to 10000 (default: 100)", RUNOPT_IO_WEIGHT }, \
	{ "io-rate", 0, OPT_LIST, "PATH:RATES", \
	  "rates of the disk at PATH: read=SIZE,write=SIZE,read-iops=N,write-iops=N a second", \
	  RUNOPT_IO_RATE, COMPLETE_FILE }, \
	{ "pids", 0, OPT_VALUE, "N", "processes and threads, or unlimited (default: 512)", RUNOPT_PIDS }, \
	{ "disk", 0, OPT_VALUE, "SIZE", "bytes of the writable layer (default: 256m)", RUNOPT_DISK }, \
	{ "disk-inodes", 0, OPT_VALUE, "N", "files of the writable layer (default: 65536, or one per 4k of the disk when that is less)", RUNOPT_DISK_INODES }, \
	{ "tmp-size", 0, OPT_VALUE, "SIZE", "bytes of /tmp (default: 64m)", RUNOPT_TMP_SIZE }, \
	{ "shm-size", 0, OPT_VALUE, "SIZE", "bytes of /dev/shm (default: 64m)", RUNOPT_SHM_SIZE }, \
	{ "timeout", 0, OPT_VALUE, "TIME", "wall time before it is killed (default: none)", RUNOPT_TIMEOUT }, \
	{ "grace", 0, OPT_VALUE, "TIME", "between SIGTERM and SIGKILL at a timeout (default: 2s)", RUNOPT_GRACE }, \
	{ "max-silent-time", 0, OPT_VALUE, "TIME", \
	  "time without output before it is killed (default: none)", RUNOPT_MAX_SILENT }, \
	{ "ulimit", 0, OPT_LIST, "NAME=SOFT[:HARD]", "resource limit of each process, such as nofile=256", RUNOPT_ULIMIT }, \
	{ "env", 'e', OPT_LIST, "NAME[=VALUE]", "environment variable; without a value: the caller's", RUNOPT_ENV }, \
	{ "env-file", 0, OPT_LIST, "FILE", "environment variables, one NAME=VALUE a line", RUNOPT_ENV_FILE, COMPLETE_FILE }, \
	{ "workdir", 'w', OPT_VALUE, "DIR", "working directory, made if missing (default: the image's, or /workspace)", \
	  RUNOPT_WORKDIR }, \
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "who runs it, by name or number (default: the image's, or root)", RUNOPT_USER }, \
	{ "hostname", 0, OPT_VALUE, "NAME", "hostname (default: sandbox)", RUNOPT_HOSTNAME }, \
	{ "mount", 0, OPT_LIST, "SPEC", "type=bind,src=DIR,dst=DIR[,rw] or type=tmpfs,dst=DIR[,size=SIZE]", RUNOPT_MOUNT }, \
	{ "volume", 'v', OPT_LIST, "SRC:DST[:rw]", \
	  "volume NAME, or host file or directory, which is read-only unless rw", \
	  RUNOPT_VOLUME, COMPLETE_FILE }, \
	{ "tmpfs", 0, OPT_LIST, "DST[:size=SIZE]", "empty directory in memory (default size: 64m)", RUNOPT_TMPFS }, \
	{ "no-tmpfs", 0, OPT_FLAG, NULL, \
	  "/tmp and /run as the image has them, on the disk (default: empty, in memory)", \
	  RUNOPT_NO_TMPFS }, \
	{ "device", 0, OPT_LIST, "PATH[:TARGET][:rwm]", \
	  "device node of the host, or a device by its CDI name, VENDOR/CLASS=NAME", \
	  RUNOPT_DEVICE, COMPLETE_FILE }, \
	{ "gpus", 0, OPT_VALUE, "GPUS", \
	  "all, a number, or device=0,1: CDI devices of nvidia.com/gpu", RUNOPT_GPUS }, \
	{ "read-only", 0, OPT_FLAG, NULL, "no writable root; /tmp, /run and mounts stay writable", RUNOPT_READ_ONLY }, \
	{ "network", 0, OPT_VALUE, "MODE|NAME", \
	  "none, host, bridge, egress by name through a proxy, container:SANDBOX, or a network " \
	  "(default: none)", \
	  RUNOPT_NETWORK, COMPLETE_WORDS, "none host bridge egress" }, \
	{ "add-host", 0, OPT_LIST, "NAME:ADDRESS", \
	  "a line of /etc/hosts; host-gateway is the host", \
	  RUNOPT_ADD_HOST }, \
	{ "alias", 0, OPT_LIST, "NAME", "another name of the sandbox on its network", RUNOPT_ALIAS }, \
	{ "allow-host", 0, OPT_LIST, "NAME[:PORT]", "egress: whom it may reach, such as pypi.org or *.github.com:443", \
	  RUNOPT_ALLOW_HOST }, \
	{ "deny-host", 0, OPT_LIST, "NAME[:PORT]", "egress: whom it may not, whatever else allows it", RUNOPT_DENY_HOST }, \
	{ "allow-net", 0, OPT_LIST, "CIDR", "addresses that are not public and may be reached all the same", RUNOPT_ALLOW_NET }, \
	{ "deny-net", 0, OPT_LIST, "CIDR", "addresses that may not be reached", RUNOPT_DENY_NET }, \
	{ "dns", 0, OPT_LIST, "ADDRESS", "DNS server (default: those of the host)", RUNOPT_DNS }, \
	{ "publish", 'p', OPT_LIST, "[[IP:]HOST:]SANDBOX[/udp]", \
	  "bridge: a port of the host (of its loopback; a free one) that leads to one of the sandbox", \
	  RUNOPT_PUBLISH }, \
	{ "network-bytes", 0, OPT_VALUE, "SIZE", "bytes in and out before the network stops (default: unlimited)", \
	  RUNOPT_NETWORK_BYTES }, \
	{ "network-connections", 0, OPT_VALUE, "N", "egress: connections before it stops; bridge: open at once (default: 4096 or less)", \
	  RUNOPT_NETWORK_CONNECTIONS }, \
	{ "network-rate", 0, OPT_VALUE, "RATE", \
	  "bytes a second in each direction, or bits, such as 10mbit (default: unlimited)", \
	  RUNOPT_NETWORK_RATE }, \
	{ "cap-add", 0, OPT_LIST, "CAP", "add a capability, within the sandbox's user namespace", RUNOPT_CAP_ADD }, \
	{ "cap-drop", 0, OPT_LIST, "CAP", "drop a capability, or ALL", RUNOPT_CAP_DROP }, \
	{ "seccomp", 0, OPT_VALUE, "PROFILE", "strict, standard, dev, a JSON file or unconfined (default: standard)", \
	  RUNOPT_SECCOMP, COMPLETE_WORDS, "strict standard dev unconfined" }, \
	{ "name", 0, OPT_VALUE, "NAME", "name of the sandbox", RUNOPT_NAME }, \
	{ "tty", 't', OPT_FLAG, NULL, "give it a terminal", RUNOPT_TTY }, \
	{ "interactive", 'i', OPT_FLAG, NULL, "accepted for docker's sake: stdin is always connected", RUNOPT_INTERACTIVE }, \
	{ "entrypoint", 0, OPT_VALUE, "PROGRAM", "instead of the image's entry point", RUNOPT_ENTRYPOINT }, \
	{ "label", 'l', OPT_LIST, "KEY[=VALUE]", \
	  "label, by which ps, events and bulk verbs find the sandbox", RUNOPT_LABEL }, \
	{ "label-file", 0, OPT_LIST, "FILE", "labels, one KEY=VALUE a line", \
	  RUNOPT_LABEL_FILE, COMPLETE_FILE }

#define DISK_BYTES_AN_INODE 4096	/* what is not asked for: a file for each block of the disk at most */

struct runopts_strings {
	const char **v;
	size_t count;
};

#define HOSTNAME_ID "@id" /* of --hostname: the id of a sandbox that stays */

struct runopts {
	const struct config *config;
	struct spec spec;
	uint32_t ulimits_asked;
	uint64_t caps_added, caps_dropped;
	const char *workdir, *user, *seccomp, *name, *entrypoint;
	struct runopts_strings env;		/* --env and --env-file, in order */
	struct runopts_strings owned;		/* strings to free */
	struct runopts_strings argv, full_env;	/* what spec points to, once built */
	struct seccomp_profile custom;		/* from a JSON file */
	const char *seccomp_text;		/* what that file held when the sandbox was made; NULL: it is read */
	int has_custom;
	struct runopts_strings device_names;	/* --device and --gpus */
	struct runopts_strings io_rates;	/* of --io-rate, until runopts_devices() finds the disks */
	struct devices *devices;		/* the resolved devices, by runopts_devices() */
	struct netopts net;
	json_t *labels;		/* of --label and --label-file; NULL: none */
	int network_set, inodes_set;
	int interactive;	/* a service's main command has a stdin that stays open */
};

void runopts_init(struct runopts *o, const struct config *c);
int runopts_set(struct runopts *o, int id, const char *value, struct err *e);
void runopts_release(struct runopts *o);
/* Whether value of --seccomp is the path of a JSON file. */
int runopts_seccomp_is_file(const char *value);
/*
 * Before runopts_finish() of a sandbox that is to start: looks the devices up that were asked for,
 * and adds what they want; and the disks whose rates are limited.
 */
int runopts_devices(struct runopts *o, struct err *e);
/* Part of runopts_finish(): o->spec.seccomp from the name or file that is asked for. */
int runopts_choose_seccomp(struct runopts *o, struct err *e);
/*
 * Completes o->spec from the configuration, the image (NULL: none, a plain
 * root file system) and the command words.  id_base, id and layers are the
 * caller's.
 */
int runopts_finish(struct runopts *o, const struct image *im, char **command, size_t words, struct err *e);
/* Part of runopts_finish(): the set of enum loosened. */
uint32_t runopts_loosened(const struct runopts *o);
/*
 * One line on stderr if options make the sandbox less confined than the default; for people, so
 * it never fails.
 */
void runopts_tell_loosened(const struct runopts *o, const char *prog);

#endif
