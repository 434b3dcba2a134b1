# SPDX-License-Identifier: Apache-2.0
# The tests; included by the Makefile.
#
#   make check        installs what is missing (says so first), builds, runs every test but the long proofs
#   make check-long   the long proofs: tests that repeat, or that wait for a deadline to pass
#   make check-all    both, with each proof by repetition whole, make lint, and clang's static analyzer
#   make unit integration attack fault fuzz-check    one kind; TEST_ARGS="-k WORD" picks
#   make fuzz         see tests/fuzz/fuzz.mk
#   BERTH_FAULT_SECONDS=3600 make fault    every call of run and create failed, each error at each place (make check takes the first ones)
#   OLDKERNEL=1 make ...    berth meets a kernel without the system calls it says it can do without
#   BUSYNET=1 make ...      forwarding is on, and other switches of the network are as on a machine with many users
#   make check-busynet      the tests that use a network, so

BUILD_PACKAGES = gcc g++ make pkg-config musl-tools linux-libc-dev libc6-dev libseccomp-dev libjansson-dev \
	libarchive-dev libssl-dev libzstd-dev zlib1g-dev liblzma-dev libbz2-dev liblz4-dev libacl1-dev libxml2-dev nettle-dev \
	libmicrohttpd-dev libsqlite3-dev libhiredis-dev libcurl4-openssl-dev libmnl-dev libnftnl-dev libc-ares-dev libpsl-dev libssh-dev libsystemd-dev
TEST_PACKAGES = python3-numpy zstd xz-utils libcriterion-dev python3 busybox-static file strace bubblewrap runc crun mmdebstrap umoci skopeo xfsprogs \
	fish zsh git curl nftables openssl procps util-linux iproute2 attr e2fsprogs redis-server prometheus python3-requests python3-docker python3-ipython docker-registry buildah docker-compose nodejs chromium chromium-driver openssh-client rsync python3-asyncssh

python = /usr/bin/env PYTHONDONTWRITEBYTECODE=1 python3
run_tests = $(python) tests/run.py --build $(BUILD) $(TEST_ARGS)
long = no

# ---- what the tests are made of
fuzz_targets = $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_replays = $(addprefix $(BUILD)/fuzz-replay/,$(fuzz_targets))

$(BUILD)/fuzz-replay/%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay_main.o \
		$(net_o) $(BUILD)/runtime/preview/head.o $(engine_a) $(cli_a) $(mcp_a) $(api_a) $(service_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_BERTH) $(LIBS_IMAGE) $(LIBS_NET) $(LIBS_DAEMON)

# Runs inside any image and on the host: static, and without the hardening that it looks for.
$(BUILD)/probe: tests/attack/probe.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE -O1 $(WARN) -static -o $@ $<

test_tools = $(BUILD)/probe $(BUILD)/oldkernel $(BUILD)/ops-gen

# Hides system calls from what it starts.
$(BUILD)/oldkernel: tests/fault/oldkernel.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE -O1 $(WARN) -static -o $@ $<

# berth by that; a program, since a shell would take its share of the calls that tests let fail
$(BUILD)/old/berth: tests/fault/oldkernel.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE -O1 $(WARN) -DALWAYS='"$(abspath $(BUILD)/berth)"' -static -o $@ $<

ifeq ($(OLDKERNEL),1)
run_tests := BERTH_TEST_BERTH=$(abspath $(BUILD)/old/berth) $(run_tests)
test_tools += $(BUILD)/old/berth
endif

ifeq ($(BUSYNET),1)
run_tests := BERTH_TEST_BUSYNET=1 $(run_tests)
endif

# Criterion finds its tests in a section that nothing refers to.
$(BUILD)/unit-tests: ALL_LDFLAGS += -Wl,--no-gc-sections

unit_tests = $(if $(wildcard tests/unit/*.c),$(BUILD)/unit-tests)

# An S3 server that is not ours, 14 MB from the npm registry, where npm is (of Debian's it is 400 packages): else its test is skipped.
s3rver = $(BUILD)/npm-s3rver/node_modules/.bin/s3rver
need_s3rver = command -v npm >/dev/null || exit 0; echo 'berth: installing s3rver from npm, below $(BUILD)'; mkdir -p $(BUILD); \
	timeout 60 npm i --no-fund --no-audit --prefix $(BUILD)/npm-s3rver s3rver@3.7.1 >$(BUILD)/npm.log 2>&1 || \
	{ rm -rf $(BUILD)/npm-s3rver; echo 'berth: npm cannot install it (see $(BUILD)/npm.log): its test is skipped'; }

# ---- running them
# where make was told of no number of jobs
all_processors = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

check-long: long = only
check check-long:
	@tests/lib/need $(BUILD) $(BUILD_PACKAGES) $(TEST_PACKAGES)
	@$(if $(wildcard $(s3rver)),:,$(need_s3rver))
	@$(MAKE) --no-print-directory $(all_processors) check-built long=$(long)

# Everything, and each proof by repetition as often as it says something new; then make lint with clang's static analyzer.
check-all:
	@BERTH_TEST_WHOLE=1 $(MAKE) --no-print-directory check long=yes
	@LINT_ANALYZE=1 $(MAKE) --no-print-directory lint

# a second make, since it reads pkg-config only after the packages are there
check-built: $(PROGRAMS) $(test_tools) $(unit_tests) $(fuzz_replays)
	@$(run_tests) --long=$(long)

unit: $(unit_tests)
	@$(run_tests) unit
fuzz-replay: $(fuzz_replays)
fuzz-check: $(fuzz_replays)
	@$(run_tests) fuzz
integration attack fault: $(PROGRAMS) $(test_tools)
	@$(run_tests) $@

# `make demo` and the unit tests in a fresh Debian 13 or sid (tests/chroot/run); skipped, with words, where none can be made
check-debian13 check-sid:
	@tests/lib/need $(BUILD) mmdebstrap
	@tests/chroot/run $(if $(filter %sid,$@),sid,trixie) || [ $$? = 77 ]
# there: the packages of the unit tests and of those below, which take a minute, and these tests.  CHROOT_TESTS='make check'
# runs all instead
chroot_tests = $(patsubst %,tests/integration/test_%.py,run run_io cli lifecycle files sessions libc_choice) $(patsubst %,tests/attack/test_%.py,probe limits)
chroot-tests:
	@tests/lib/need $(BUILD) $(BUILD_PACKAGES) libcriterion-dev python3 redis-server busybox-static file strace procps util-linux \
		iproute2 attr e2fsprogs xz-utils zstd git bubblewrap fish zsh
	@$(MAKE) --no-print-directory -j2 WERROR=1 $(PROGRAMS) $(test_tools) unit
	@$(run_tests) --long=no $(chroot_tests)

# the tests that use a network, on a network as a busy machine has it
network_tests = $(shell grep -lE 'netlab|--network|network create|NetworkMode' $(foreach k,integration attack fault,tests/$(k)/test_*.py))
check-busynet: $(PROGRAMS) $(test_tools)
	@BERTH_TEST_BUSYNET=1 $(run_tests) --long=no $(network_tests)

# clients that others wrote, from the npm registry: 600 MB below $(BUILD)/npm
check-real: $(PROGRAMS) $(test_tools)
	@$(python) tests/lib/npmkit.py $(BUILD)
	@$(python) tests/lib/debkit.py $(BUILD)
	@$(run_tests) real

.PHONY: check-debian13 check-sid chroot-tests check-busynet
.PHONY: check check-long check-all check-built check-real unit fuzz-replay fuzz-check integration attack fault

# 64 clients of random verbs against berthd while it is killed every 3 s, under ThreadSanitizer or under AddressSanitizer;
# STRESS_ARGS="--seconds 10 --clients 16" and others: tests/soak/stress.py
tsan-berthd asan-berthd: SANITIZE = $(if $(filter tsan%,$@),thread,address$(comma)undefined)
tsan-berthd asan-berthd: sanitized = build-$(firstword $(subst -, ,$@))
tsan-berthd asan-berthd: all
	@$(MAKE) --no-print-directory BUILD=$(sanitized) CFLAGS='-O1 -g' LINK_STATIC=-pie \
		HARDEN='-fsanitize=$(SANITIZE) -fno-omit-frame-pointer' $(sanitized)/berthd
	@cp $(BUILD)/berth $(BUILD)/berth-image $(sanitized)/
	@$(python) tests/soak/stress.py --build $(BUILD) --berthd $(sanitized)/berthd $(STRESS_ARGS)

comma = ,
.PHONY: tsan-berthd asan-berthd
