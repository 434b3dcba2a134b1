/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_state - the state that the parts of the keeper share; for manager/keeper*.c only. */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_STATE_H
#define BERTH_MANAGER_KEEPER_KEEPER_STATE_H

#include <poll.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/host/netevents.h"
#include "manager/host/policy.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/keeper_log.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/ring.h"
#include "manager/keeper/shellscript.h"
#include "manager/keeper/wire.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/silence.h"
#include "runtime/sandbox/verdict.h"

/* ---- the interpreter of a sandbox of a zygote (keeper_code.c) ---- */

struct keeper;
struct init_reply;

#define KEEPER_CODE 0x7fffffffu	/* init's number for the interpreter that waits for code */

/* A request to the interpreter that waits for its turn. */
struct code_wait;

/* The interpreter of a sandbox that was made of a zygote. */
struct keeper_code {
	int home_fd;		/* socket to the zygote's supervisor; -1: the sandbox has none */
	enum { CODE_NONE, CODE_STARTS, CODE_WAITS, CODE_RUNS } phase;
	struct cgroup leaf;	/* ops NULL: no cgroup */
	int control_fd, pid_fd;
	int fresh;		/* it was started for this request, because the one before had ended */
	/* the running request */
	int client;		/* the client that waits for its end, or -1 */
	int status_fd;		/* brings the request's exit status, one byte */
	int text_fd;		/* the file with the request's code */
	uint64_t started_ms, queued_ms, deadline_ms, kill_at_ms;
	struct cgroup_usage before;
	struct verdict_facts facts;
	struct code_wait *queue;
};
#define KEEPER_CODE_NONE { .home_fd = -1, .control_fd = -1, .pid_fd = -1, .client = -1, \
			   .status_fd = -1, .text_fd = -1 }

/* Makes the first fork of the zygote whose supervisor home_fd leads to; -1: there is to be none. */
int keeper_code_begin(struct keeper *k, int home_fd, struct err *e);
/* Handles a reply of init about KEEPER_CODE. */
void keeper_code_reply(struct keeper *k, const struct init_reply *r);
/* Call it when code.status_fd can be read. */
void keeper_code_status(struct keeper *k);
void keeper_code_check_oom(struct keeper *k);
void keeper_code_client_gone(struct keeper *k, int client);
/* Asks for the end, when the sandbox is asked to stop: waiting requests end, the running one gets SIGTERM. */
void keeper_code_ask_to_end(struct keeper *k);
/* Ends it with the sandbox. */
void keeper_code_end(struct keeper *k, int killed_by_us);

/* ---- checkpoints (keeper_checkpoint.c) ---- */

struct keeper;
struct keeper_request;
struct checkpoint_job;

/* At most one checkpoint is under way; the others wait for it. */
struct keeper_checkpoint {
	struct checkpoint_job *jobs; /* the first one is under way while pid is not 0 */
	pid_t pid;                   /* the process that makes the checkpoint; 0: none */
	int sock;                    /* to it */
	int stands;                  /* the sandbox is frozen for it */
	struct snapshot_note *made; /* a checkpoint that is made, and waits for the states of shells; or
				     * NULL */
	int touched;                 /* a command ran: the layer no longer is that of a checkpoint */
	char last[128];              /* the command that began last */
};

/* Notes that a command begins to run; text, n bytes, is its beginning. */
void keeper_checkpoint_ran(struct keeper *k, const char *text, size_t n);
/*
 * Handles a request that runs a command, which asks for a checkpoint before it: 1, and it is served
 * once that is made; 0: it asks for none; -1.
 */
int keeper_checkpoint_before(struct keeper *k, const struct keeper_request *rq, struct err *e);
/* Reads a report of the checkpoint's process. */
void keeper_checkpoint_note(struct keeper *k);
/* Forgets the jobs of a client that has gone. */
void keeper_checkpoint_client_gone(struct keeper *k, int client);
/* Ends a checkpoint with the keeper: nothing of it is left, and the layer is not frozen. */
void keeper_checkpoint_end(struct keeper *k);

/* ---- the main command of a service (keeper_main.c) ---- */

#define KEEPER_AWAITED_MS 10000	/* time for announced clients to come */

struct keeper;
struct keeper_command;

enum main_phase { MAIN_NONE, MAIN_PREPARES, MAIN_STARTS, MAIN_RUNS, MAIN_ENDED, MAIN_FAILED };

/* The main command of a service (keeper_main.c). */
struct keeper_main {
	const struct keeper_service *service;	/* NULL: it is not a service */
	enum main_phase phase;
	/* number of the init command while that prepares, then of the main command */
	uint32_t seq;
	int by_hand;		/* a client asked for its end */
	uint64_t until_ms;	/* it has ended, and its followers are waited for */
	uint64_t paced_ms;
	int64_t paced_us;	/* CPU time that its output took until then beyond what it may; below 0: what is left to it */
	unsigned awaited;	/* clients that have not come yet */
	uint64_t held_until_ms;	/* its output waits for these clients until then; 0: for none */
	struct err failed;	/* the reason why it could not begin */
	struct verdict verdict;	/* verdict of the main command, once it has ended */
};

/*
 * Begins the init command or the main command of a service; keeper_main_pends() until that is
 * known to run.
 */
int keeper_main_begin(struct keeper *k, struct err *e);
int keeper_main_pends(const struct keeper *k);
/* Returns -1 with the reason if the main command did not begin. */
int keeper_main_result(const struct keeper *k, struct err *e);
/*
 * Tells whether c is the main command, or its init command while that runs; and gives its name in
 * the log.
 */
int keeper_main_is(const struct keeper *k, const struct keeper_command *c);
const char *keeper_main_source(const struct keeper *k);
/* Returns the main command; NULL: there is none, or it has not begun. */
struct keeper_command *keeper_main_command(struct keeper *k);
/* Applies "restart" and "guardian_pid" of an update, in both records. */
int keeper_main_update(struct keeper *k, const json_t *rq, struct err *e);
/* Handles the end of a command for which keeper_main_is() is true. */
void keeper_main_started(struct keeper *k);
void keeper_main_failed(struct keeper *k, const struct err *why);
void keeper_main_concluded(struct keeper *k, const struct keeper_command *c);
/* Tells whether its output waits for clients that have not come yet, however much there is. */
int keeper_main_holds(const struct keeper *k, const struct keeper_command *c);
/* Notes that a client follows or waits for c; it may or may not be an announced one. */
void keeper_main_attended(struct keeper *k, int client, const struct keeper_command *c);
/* Notes the CPU time that a read of its output took; and tells whether the next one waits a moment. */
void keeper_main_read(struct keeper *k, uint64_t cpu_us);
int keeper_main_rests(const struct keeper *k, const struct keeper_command *c);
/* Sends the stop signal to the main command; 0: there is none. */
int keeper_main_ask_to_end(struct keeper *k);
/* Handles "wait" for the command id: 1 if that is a main command that has not begun. */
int keeper_main_awaits(struct keeper *k, int client, const char *id);
/* Returns the time from the request for its end to the force. */
uint64_t keeper_main_grace_ms(const struct keeper *k);

#define KEEPER_OWN (-2)	/* stands for the client of the request that starts it */

/* ---- the keeper and its parts ---- */

#define KEEPER_MEMORY (192U << 20)	/* bytes of the keeper's heap */
#define KEEPER_COMMANDS 256
#define KEEPER_PLACES (KEEPER_COMMANDS + 32)	/* one for each command, and who asks */
#define KEEPER_CLIENTS (KEEPER_PLACES + 4)	/* the last are kept for who asks for its end */
#define KEEPER_SESSIONS 16
#define KEEPER_DROPPED 8
#define KEEPER_CHECKS 0x80000000u
#define KEEPER_HELPER_GRACE_MS 1000	/* time between SIGTERM and SIGKILL, in which the helper for files
					 * takes back what it made */
#define KEEPER_DYING_MS 200		/* killed processes are mostly gone long before; the others are
					 * looked at again */
#define KEEPER_ENDED_KEPT 64	/* ended detached commands whose output is kept */

/* The position of a client in a command's output, which lasts between two requests. */
struct keeper_follow {
	uint32_t seq;		/* number of the command; 0: none */
	int armed;		/* a request waits for its answer */
	int hold;		/* the command waits for this client, so nothing is dropped */
	int streams;		/* 1: stdout, 2: stderr, 3: both */
	uint64_t from[2];
};

/* Bytes on their way to a command's stdin. */
struct keeper_send {
	uint32_t seq;		/* 0: none */
	char *data;
	size_t len, done;
	int eof;
	uint64_t end_ms, look_ms, gap_ms;	/* the end of a terminal's input waits until end_ms; the
						 * next look for a reader. 0: no end waits */
};

struct keeper_client {
	int fd;			/* -1: a free slot */
	int ends;		/* it has asked for the sandbox's end */
	uint32_t waits;		/* sequence number of the command it waits for; 0: none */
#define KEEPER_WAITS_MAIN UINT32_MAX	/* waits for the main command, which has no number yet */
	struct keeper_follow follow;
	struct keeper_send send;
	int waits_health;	/* waits until the status of the health check is no longer "starting" */
	int attends;		/* it has followed or waited for the main command */
	int guarded;		/* it declared that an operation is under way as long as it is connected */
};

/* How far the forced end of a command has come: TERM was sent; its cgroup was killed. */
enum keeper_ending { ENDING_NOT, ENDING_ASKED, ENDING_KILLED };

/* One command and its cgroup, from its request until no client needs it any more. */
struct keeper_command {
	uint32_t seq;
	int pid;		/* its first process, as the sandbox sees it; 0 before it has started */
	struct cgroup leaf;
	int client;		/* the client that gets the answer; -1: none */
	int detached;
	int silent;		/* its client does not ask when it has started */
	int unannounced;	/* it has started, and no event has reported it yet */
	int helper;		/* berth's own file work: no event */
	int check;		/* a health check: not in lists, events or the log; does not count as use of
				 * the sandbox */
	int merged;		/* detached: both outputs go to out[0] */
	int tty;		/* detached with a terminal: in_fd and out_fd[0] are its master side */
	int session;		/* the session whose shell it is; -1: an ordinary command */
	int started, ended;	/* execve succeeded; the leader was reaped */
	int concluded;		/* the verdict is final */
	int lost;		/* it ended with its sandbox */
	int in_fd, out_fd[2];	/* detached: our ends */
	int end_unread;		/* tty: an end of input was typed before any process read */
	uint64_t end_again_ms, end_gap_ms;	/* tty: the earliest time for the next end of input */
	struct ring out[2];
	uint64_t logged[2];	/* bytes of its output that are in the sandbox's log */
	uint64_t started_ms, deadline_ms, grace_ms;	/* 0: none */
	/* keeper_commands.c: the limit (0: none), and when it last wrote */
	uint64_t max_silent_ms, spoke_ms;
	struct silence silence;		/* watches its client's descriptors */
	int draining;			/* it has ended, and they get the rest of its output */
	uint64_t drained_ms;		/* they are waited for until then; 0: without a limit */
	enum keeper_ending ending;
	uint64_t kill_at_ms;	/* ENDING_ASKED: remaining processes are killed then */
	uint64_t lingers_checked_ms;
	uint64_t held_until_ms;	/* its output waits until then for the client that will follow it */
	int wait_children;	/* it lasts until its last process has ended, not only the first */
	uint64_t rest_look_ms, rest_gap_ms;	/* next look at the other processes; 0: none */
	struct verdict_facts facts;
	struct verdict verdict;
	char *text, *workdir;	/* the command line and its working directory, for lists */
	char name[65];		/* name of a shell to which users return; "": none */
};

enum session_on_timeout { ON_TIMEOUT_KILL, ON_TIMEOUT_INTERRUPT, ON_TIMEOUT_FREEZE, ON_TIMEOUT_DETACH };

/* A text that waits for its turn (keeper_sessions.c). */
struct session_wait;

/* The known part of a shell's state (keeper_shellstate.c). */
struct session_state;

/* A shell that outlives its commands. */
struct keeper_session {
	char name[65];		/* "": a free slot */
	uint32_t shell_seq;	/* its command, 0 once that has ended */
	int split;		/* stdout and stderr apart, no terminal */
	int tty_fd;		/* terminal, master side; or our end of stdin */
	int err_fd, out_fd;	/* split: our ends */
	int script_fd, status_fd;
	int text_fd;	/* the file of the last command's text, once the next may be written over it; -1 */
	struct ring out[2];
	struct shellname names[2];	/* names of the shell, in out[] */
	unsigned number;	/* number of commands run, for the file names */
	/* the running command */
	char text[128];			/* the beginning, for events */
	int busy, client;
	int inlined;			/* the client takes short output within the answer */
	int escalated;			/* how far the forced end has come */
	int tree_killed;		/* the command's processes were killed, while the shell may still
					 * have forked */
	/* how often the shell was signalled again to leave the text */
	int nudged;
	int withdrawn;			/* how often an interrupt came before the shell read the text, which
					 * was withdrawn from it */
	int again;			/* at nudge_ms it is interrupted once more */
	int interrupted;		/* Ctrl-C made its shell leave the text */
	int told;		/* a process that catches interrupts got a second one */
	unsigned long long interrupted_ticks;	/* when that was, in the units of /proc/PID/stat */
	pid_t leads, joins;		/* the processes that were becoming the foreground when the shell was
					 * interrupted: the group's leader, and one still without a group; 0: none */
	int awaiting;			/* probes in a row that saw a process read the terminal */
	uint64_t seen_bytes;		/* output at the last probe */
	int fallback;			/* the image has no bash: sh */
	uint32_t shell_ns_pid;
	char nonce[17];
	char status_line[128];		/* bytes read so far of the status pipe's line */
	int traces, traps;		/* a text may have turned on set -x or -v, or set traps */
	char tracing[3];		/* which of x and v the last text left on */
	int trap_seen, trap_lost;	/* the trap for INT, at the command's end */
	unsigned last_status;		/* the value of $? in the shell */
	size_t status_len;
	uint64_t started_ms, deadline_ms, escalate_ms, probe_ms, nudge_ms;
	uint64_t max_silent_ms, spoke_ms;	/* as in a command */
	enum session_on_timeout on_timeout;
	struct cgroup_usage before;
	/* after the last command only the shell was left: the last measurement still holds */
	int alone;
	pid_t alone_pid;
	struct cgroup_usage alone_usage;
	pid_t *baseline;	/* processes that were there before it */
	size_t baseline_count;
	struct verdict_facts facts;
	int fresh;		/* the shell was started for this command */
	uint64_t queued_ms;	/* how long it waited for its turn */
	struct session_wait *queue;	/* waiting texts, in order */
	unsigned queue_length;
	size_t queue_bytes;
	struct session_state *state;	/* NULL: none yet */
	int unclaimed;		/* it ended while no client waited: kept for the next sh-wait */
	struct verdict verdict;
};

struct keeper {
	struct registry *registry;
	struct claim claim;
	const struct spec *spec;
	struct sandbox sandbox;
	size_t head_max, tail_max;
	int listen_fd, signal_fd;
	int fileop_fd;		/* the helper for file work, or -1 */
	struct journal events, log;	/* name NULL: not opened yet */
	uint64_t disk_errors, disk_errors_told;	/* of the layer (writable_errors()); as an event */
	int log_dir_fd;
	int stopping;		/* leave the loop */
	const char *stop_reason;	/* the reason, if no client asked for the stop */
	uint64_t drain_until_ms, drain_grace_ms;	/* it waits for guarded clients before it stops */
	uint64_t stop_at_ms, stop_look_ms;	/* after a request to stop: the end of the grace, the next
						 * look */
	uint64_t stop_empty_ms;		/* the first look that found no process, while init has not reported
					 * all ends; 0: none yet */
	struct keeper_life life;
	uint64_t life_look_ms;	/* it is not paused at its end before this time */
	void (*let_go)(void *ctx);	/* as in struct keeper_start; or NULL */
	void *let_go_ctx;
	struct livebudget_state budget;
	int owner_fd;		/* a pidfd, or -1 */
	uint64_t owner_until_ms;	/* the owner has ended: until then; 0: it runs, or there is none */
	struct keeper_main main;
	struct keeper_code code;
	struct keeper_checkpoint checkpoint;
	int stays;		/* it is started again at once, so its stop removes nothing */
	int end_signal;		/* from a stop that names one; 0: the main command's own, or SIGTERM */
	int for_files;		/* it must not appear to run (keeper_files.c) */
	uint64_t files_until_ms;	/* it ends then if no client has come; 0: one has */
	json_t *record;		/* the record of this run */
	int paused;		/* by berth pause */
	int held_by;		/* 1 + the client for which everything is frozen; 0: none */
	int announced;		/* its start is reported in the events */
	uint64_t created_ms, oom_until_ms;
	struct buf log_lines;		/* of the output's journal, while it is written */
	uint64_t busy_ms;		/* when work was last seen */
	uint64_t idle_checked_ms, idle_cpu_us;
	int idle_cpu_busy;		/* the last look at the CPU time saw work */
	int limits_changed;
	json_t *net_policy;		/* the present policy; NULL: the spec's */
	json_t *joined;			/* networks besides the first (keeper_network.c); NULL: none */
	struct netevents net_events;
	struct keeper_health *health;	/* NULL: no health check */
	/* the last look at its counters, and the value recorded then */
	uint64_t net_looked_ms, net_saved_bytes;
	struct cgroup_limits limits;	/* the limits once changed, instead of the spec's */
	struct policy *policy;		/* the command policy; NULL: not read yet */
	struct stat policy_file;	/* stat of the file it was read from */
	char adopted[65];		/* the token of the claim for which it was made ahead, or "" */
	uint32_t next_seq, next_check;	/* the latter is added to KEEPER_CHECKS */
	struct cgroup spare;	/* cgroup of the next command; ops NULL: none */
	int spare_failed;	/* it could not be made: not tried again before the next command */
	struct cgroup dropped[KEEPER_DROPPED];	/* empty cgroups of commands that have ended */
	size_t dropped_count;
	int rest;		/* an answer was sent just now: no chores yet */
	int trim;		/* trim before the next wait */
	int trimmed;		/* nothing happened since our program's pages were given back */
	int still_looked;	/* nothing happened since keeper_idle_stand() */
	int still;		/* it is at rest, and the note of its range says so */
	uint16_t turn;		/* turn of the next such note (ranges.h) */
	int notes_fd;		/* the file of that note; -1: not opened yet */
	unsigned last_place;	/* which of the last places gives way next */
	struct keeper_client clients[KEEPER_CLIENTS];
	struct keeper_command *commands[KEEPER_COMMANDS];
	struct keeper_session sessions[KEEPER_SESSIONS];
};

/* A request that protocol_check() has passed: json has the members of op, each of its type. */
struct keeper_request {
	int client;		/* -1: the keeper itself, for a health check */
	enum protocol_op op;
	const json_t *json;
	const int *fds;		/* closed by the caller */
	size_t count;
	struct keeper_command *command;	/* the command that "command" names, if op has PROTOCOL_COMMAND or
					 * PROTOCOL_EITHER */
};

/*
 * A thing that a keeper looks after, besides its commands and sessions: each has a file, and
 * keeper.c the list.
 */
struct keeper_part {
	uint64_t (*next)(struct keeper *k);	/* returns when check() is due, on the monotonic clock; 0:
						 * never */
	void (*check)(struct keeper *k, uint64_t now);
	void (*describe)(struct keeper *k, json_t *answer);	/* adds its members to the state; or NULL */
};
#define KEEPER_PARTS(X) X(health) X(send) X(idle) X(life) X(owner) X(budget) X(stop) X(network) X(main) X(files) X(checkpoint) X(code) X(disk)
#define X(name) extern const struct keeper_part keeper_part_##name;
KEEPER_PARTS(X)
#undef X
/* All parts, in the order in which they are checked (keeper.c); ends with NULL. */
extern const struct keeper_part *const keeper_parts[];

/* A handler for each operation: 0 if it has answered or will, -1 with the error to answer. */
typedef int keeper_handler(struct keeper *k, const struct keeper_request *rq, struct err *e);
#define X(name, ...) keeper_handler keeper_op_##name;
PROTOCOL_OPERATIONS(X)
#undef X

/* keeper_clients.c */
/* Begins without a client. */
void keeper_clients_begin(struct keeper *k);
void keeper_accept(struct keeper *k);
void keeper_serve_client(struct keeper *k, int i);
/* Serves a request that has waited for a checkpoint. */
int keeper_serve_again(struct keeper *k, const struct keeper_request *rq, struct err *e);
/* Sends msg, which it consumes, to client i; a client that cannot take it is dropped. */
void keeper_answer(struct keeper *k, int client, json_t *msg, const int *fds, size_t count);
/* As keeper_answer(), with the member "verdict". */
void keeper_answer_verdict(struct keeper *k, int client, json_t *msg, const struct verdict *v, const int *fds, size_t count);
void keeper_answer_error(struct keeper *k, int client, const struct err *e);

/* keeper_commands.c */
/* Makes a command. check: a health check, which takes no number from the others. */
struct keeper_command *keeper_command_new(struct keeper *k, int check, const struct cgroup_limits *l,
					  struct err *e);
/* Sends a signal to its first process, or to all remaining ones when that has ended. */
int keeper_command_signal(struct keeper *k, const struct keeper_command *c, int signo, struct err *e);
/* Returns the limit of a command whose request names none; a text (sh, code) always has one. 0: none. */
uint64_t keeper_timeout(const struct keeper *k, int is_text);
struct keeper_command *keeper_command_find(struct keeper *k, uint32_t seq);
void keeper_command_reply(struct keeper *k, const struct init_reply *r);
/*
 * Reports commands that have started as events; called after the pending replies, because the end
 * of one may be among them.
 */
void keeper_command_announce(struct keeper *k);
/* Kills it, and counts it as ended: the frozen init cannot report it. */
void keeper_command_killed(struct keeper *k, struct keeper_command *c);
/* Concludes a command that has ended, with no output still on its way. */
void keeper_command_conclude(struct keeper *k, struct keeper_command *c);
/* Ends it because of a limit of time: TERM, and after its grace KILL. */
void keeper_command_over_time(struct keeper *k, struct keeper_command *c, uint64_t now);
/* Handles commands that were killed without a report yet, once all of the sandbox is frozen. */
void keeper_command_stands_still(struct keeper *k);
/* Ends the command with its sandbox: its verdict is killed-by, or lost if no client asked for that. */
void keeper_command_lost(struct keeper *k, struct keeper_command *c, int killed_by_us);
void keeper_command_read(struct keeper *k, struct keeper_command *c, int which);
void keeper_command_deadline(struct keeper *k, struct keeper_command *c, uint64_t now);
uint64_t keeper_command_next_deadline(const struct keeper_command *c);
void keeper_command_check_oom(struct keeper *k);
/* Handles a sandbox whose memory has run out. */
void keeper_command_oom(struct keeper *k);
void keeper_command_client_gone(struct keeper *k, int client);
void keeper_command_remove(struct keeper *k, struct keeper_command *c);
/* Finds the command of a request's "command": "c12" is 12. */
struct keeper_command *keeper_command_of(struct keeper *k, const json_t *rq, struct err *e);
json_t *keeper_command_verdict(const struct verdict *v);

/*
 * Runs the keeper from its fork on (keeper.c). It reports the result of the start to ready_fd, and
 * then to go_fd that there is a sandbox to guard; -1: there is no guardian.
 */
void keeper_main(const struct keeper_start *ks, int ready_fd, int go_fd) __attribute__((noreturn));

/* keeper_memory.c */
/*
 * Makes the kernel count the keeper's memory below the cgroup parent from now on (D13); the
 * sandbox's is there.
 */
int keeper_memory_count(const struct keeper *k, struct err *e);
/*
 * Undoes OOMScoreAdjust=, by which berthd's unit tells the kernel to spare berthd when memory runs
 * out. A sandbox that berthd starts must not inherit that: otherwise the host's services would end
 * before a hostile sandbox.
 */
int keeper_memory_even(struct err *e);
/*
 * As ring_add(), within one budget for all rings of the keeper: the largest ones give bytes up,
 * which count as dropped.
 */
void keeper_ring_add(struct keeper *k, struct ring *r, const void *p, size_t n);

/* keeper_commands.c: a limit of the time without output */
/* Returns the limit of a command whose request names none. */
uint64_t keeper_silence_limit(const struct keeper *k, const json_t *rq);
/* Sets c's limit max_ms; replaces the client's descriptors std by those of the watcher. */
int keeper_silence_begin(struct keeper *k, struct keeper_command *c, int tty, int std[3],
			 struct err *e);
/* Returns when c will have been silent for too long; 0: never. */
uint64_t keeper_silence_due(const struct keeper_command *c);
/* Tells whether it has been. */
int keeper_silence_over(struct keeper *k, struct keeper_command *c, uint64_t now);
/* Call it when c has ended: 1 if its client's descriptors are waited for, until keeper_silence_drained(). */
int keeper_silence_drains(struct keeper_command *c);
void keeper_silence_drained(struct keeper *k, struct keeper_command *c);

/* keeper_commands.c */
/* Returns how many processes run in its cgroup. */
uint32_t keeper_rest_count(const struct keeper_command *c);
void keeper_rest_signal(const struct keeper_command *c, int signo);
/* Ends processes that the first one left running: a time limit applies to all of a command. */
void keeper_rest_limit(struct keeper_command *c);
/* Call it when the first process has ended: 1 if the others are waited for, until rest_look_ms. */
int keeper_rest_waited(struct keeper_command *c, uint64_t now);

/* keeper_quiet.c */
/* Gives the cgroup of command seq, made now or ahead. */
int keeper_leaf(struct keeper *k, uint32_t seq, const struct cgroup_limits *l, struct cgroup *ret, struct err *e);
/* Makes the cgroup of the next command now, while something else takes time. */
void keeper_leaf_ahead(struct keeper *k);
/* Keeps an empty cgroup that is no longer needed, to remove it when there is time. */
void keeper_leaf_drop(struct keeper *k, struct cgroup *leaf);
/* Forgets the remaining ones at the end: they are removed with the sandbox's. */
void keeper_leaves_release(struct keeper *k);
/* Call it before a wait of timeout_ms (-1: for ever): gives the time to wait in *t; NULL: for ever. */
const struct timespec *keeper_quiet(struct keeper *k, int timeout_ms, struct timespec *t);
/* Gives our program's pages back until they are used again. */
void keeper_trim(struct keeper *k);
/* Call it after a wait; events is 0 if the time was up. */
void keeper_woke(struct keeper *k, int events);

/* keeper_journal.c */
/* Writes an event; members is consumed. */
void keeper_event(struct keeper *k, const char *event, json_t *members);
void keeper_event_exec(struct keeper *k, const struct keeper_command *c);
void keeper_event_end(struct keeper *k, const char *ordinary, const struct verdict *v, json_t *members);
void keeper_log_dropped(struct keeper *k, const char *source, const char *stream, uint64_t n);
void keeper_log_command(struct keeper *k, struct keeper_command *c, int which, const char *p, size_t n);
/* Logs n bytes of a session's output, of which the first head came before the dropped ones. */
void keeper_log_session(struct keeper *k, const struct keeper_session *s, const char *stream, const char *p, size_t head, size_t n,
			uint64_t dropped);
void keeper_journal_end(struct keeper *k);

/* What the disk did to a command that has ended; errors of the layer are an event as soon as the disk has room for it. */
void keeper_disk(struct keeper *k, struct verdict_facts *f);
/*
 * At the end: where the host's disk may lack what the layer still has to write, that is written first,
 * so that its errors are told.
 */
void keeper_disk_last(struct keeper *k);

/* keeper_stop.c */
/* Sends SIGTERM to everything now; the loop ends when nothing runs any more, at the latest after grace_ms. */
/* Waits first, at most drain_ms, for the clients that said "guard"; no new operation begins meanwhile. */
void keeper_stop_drain(struct keeper *k, uint64_t grace_ms, uint64_t drain_ms);
void keeper_stop_begin(struct keeper *k, uint64_t grace_ms);

/* keeper_life.c */
/* Notes real work: the sandbox is not idle now. */
void keeper_busy(struct keeper *k);
/*
 * What the end of the sandbox changes in its record, for ps, inspect and wait, once nothing of it
 * runs any more and before its cgroup is removed: 1, or 0 if nothing. Why it no longer runs; how its
 * main command ended; that it must be removed, in case we die; the used time, for the next start.
 */
int keeper_stop_note(const struct keeper *k, json_t *record);
int keeper_main_note(const struct keeper *k, json_t *record);
int keeper_life_note(const struct keeper *k, json_t *record);
int keeper_budget_note(struct keeper *k, json_t *record);
extern const char keeper_idle_reason[];	/* the stop_reason of an idle sandbox */
/* Tells whether the sandbox may be frozen: only the main command runs, and no session is busy. */
int keeper_idle_may_stand(const struct keeper *k);
/* Records that it is at rest (ranges.h), if only waiting processes are left. */
void keeper_idle_stand(struct keeper *k);
/* Removes the note, because something happens. */
void keeper_idle_move(struct keeper *k);
/* keeper_life.c */
int keeper_life_update(struct keeper *k, const json_t *rq, struct err *e);
/*
 * Call it before a request that needs the processes of the sandbox: resumes a paused one that has
 * resume_ttl_ms, with a new end. 0, also if there is nothing to do; ERR_LIMIT
 * (keeper_budget_allows) and other errors, and then it stays paused.
 */
int keeper_life_wake(struct keeper *k, struct err *e);
/* Freezes or thaws it (keeper_whole.c), unless a commit has (ERR_BUSY); only events report it. */
int keeper_pause(struct keeper *k, int paused, struct err *e);
int keeper_life_set(struct keeper *k, const struct keeper_life *l, struct err *e);
/* Watches the owner from now on (keeper_life.c); ERR_INVALID if it has ended. */
extern const char keeper_owner_reason[];
int keeper_owner_begin(struct keeper *k, struct err *e);
/* Opens a descriptor of the process of that name; ERR_INVALID if it has ended; -1 for "". */
int keeper_owner_watch(const char *owner, int *ret_fd, struct err *e);
void keeper_owner_ended(struct keeper *k);
void keeper_life_end(struct keeper *k, const char *id);

/* keeper_budget.c */
/* Checks the budgets: ERR_LIMIT if one is used up, so that the sandbox cannot be resumed. */
int keeper_budget_allows(const struct keeper *k, struct err *e);

/* keeper_health.c */
struct keeper_health;
int keeper_health_begin(struct keeper *k, const struct health_spec *spec, struct err *e);
/*
 * Applies "health" of an update: a spec that replaces the present one, without results; {} ends the
 * checks.
 */
int keeper_health_update(struct keeper *k, const json_t *rq, struct err *e);
/* Call it when the check's command has a verdict, and is removed; or was not executed, for e. */
void keeper_health_ended(struct keeper *k, struct keeper_command *c);
void keeper_health_failed(struct keeper *k, const struct err *e);
/*
 * Returns the CPU time of all checks so far and of berth-init, which starts them: neither counts as
 * use of the sandbox.
 */
uint64_t keeper_health_cpu_us(struct keeper *k);

/* keeper_exec.c */
int keeper_policy_argv(struct keeper *k, const char *const *argv, size_t argc, struct err *e);
int keeper_policy_text(struct keeper *k, const char *text, size_t n, struct err *e);

/* keeper_network.c */
/* Joins the networks that the record names, before anything runs in the sandbox. */
int keeper_join_begin(struct keeper *k, struct err *e);
void keeper_join_end(struct keeper *k);
void keeper_join_describe(const struct keeper *k, json_t *network);

/* Opens the network namespace of the sandbox (keeper_network.c). */
int keeper_netns(const struct keeper *k, struct err *e);
/* Returns its --network-rate, bytes a second; 0: none. */
uint64_t keeper_network_rate(struct keeper *k);
/* Applies the part of an update that concerns the network, all or nothing (keeper_network.c). */
int keeper_network_rules_begin(struct keeper *k, struct err *e);
int keeper_network_update(struct keeper *k, const json_t *rq, uint64_t *ret_cut, struct err *e);
/* Call them when a command begins and when one has ended: they tell whether it met a limit of the network. */
void keeper_network_begin(struct keeper *k, struct verdict_facts *f);
void keeper_network_end(struct keeper *k, struct verdict_facts *f);
/* Handles a refusal of the proxy. */
void keeper_network_notice(struct keeper *k);
/* Sends the events that are still pending, at a stop. */
void keeper_network_last(struct keeper *k);
/* Records the used part of the budgets with the sandbox; call it when its network has ended. */
void keeper_network_save(struct keeper *k);

/* keeper_follow.c */
/* Notifies the followers of c, which has more output, or has ended. */
void keeper_follow_news(struct keeper *k, struct keeper_command *c);
/* Tells whether c's terminal must wait, because a follower is far behind. */
int keeper_follow_lags(const struct keeper *k, const struct keeper_command *c);
void keeper_follow_removed(struct keeper *k, const struct keeper_command *c);
void keeper_follow_release(struct keeper_client *cl);
void keeper_share_lost(struct keeper *k);	/* called when the sandbox whose network it joined has
						 * ended */
int keeper_send(struct keeper *k, const struct keeper_request *rq, struct err *e);
/* Tells whether a client's data waits until c reads; then keeper_send_ready(). */
int keeper_send_waits(const struct keeper *k, const struct keeper_command *c);
void keeper_send_ready(struct keeper *k, struct keeper_command *c);
int keeper_resize(int master, const json_t *rq, struct err *e);

/* Makes pipes of ours the sandbox's root's, whose programs may open them as /dev/stdout (keeper_exec.c). */
int keeper_own_pipes(const struct keeper *k, const int std[3], struct err *e);

/* keeper_look.c */
/*
 * Types ^D at c's terminal: 1 when it is typed, 0 not yet. Before a shell sets its mode it would
 * become a NUL, and behind an unread line a byte of data, so this waits until the foreground
 * waits for input and nothing is left to read. late: do not wait, even for that.
 */
int input_end_terminal(struct keeper_command *c, int late);

/*
 * A keeper for files only (keeper_files.c), while its sandbox does not run.
 */

/* It is one. */
void keeper_files_begin(struct keeper *k);
/* Checks that it serves this operation: ERR_BUSY if not. */
int keeper_files_allows(const struct keeper *k, enum protocol_op op, struct err *e);
/* Notes that client i has gone: 1 if it was the last, with which such a keeper ends. */
int keeper_files_left(struct keeper *k, int i);

#endif
