# SPDX-License-Identifier: Apache-2.0
# The fuzzers; included by the Makefile.  Needs clang with its runtime (apt-get install clang).
#
#   make fuzz                           each target for 60 s under libFuzzer with ASan and UBSan, two at a time
#   make fuzz FUZZ="json toml" FUZZ_SECONDS=600
#   make fuzz-merge                     inputs that reach code which tests/fuzz/corpus does not go there: hundreds after an hour,
#                                       of which a few by choice are committed
#
# What was found stays in build-fuzz/found/TARGET and is where the next `make fuzz` goes on; an input that crashes is
# build-fuzz/crash/TARGET-*: it becomes a test as a file of tests/fuzz/corpus/TARGET.

FUZZ ?= $(fuzz_targets)
FUZZ_SECONDS ?= 60
fuzz_build = build-fuzz
fuzz_make = $(MAKE) --no-print-directory BUILD=$(fuzz_build) CC=clang CFLAGS='-O1 -g' LINK_STATIC=-pie \
	HARDEN='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'

$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/fuzz_%.o $(net_o) $(BUILD)/runtime/preview/head.o $(engine_a) $(cli_a) $(mcp_a) $(api_a) $(service_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -pie $(subst fuzzer-no-link,fuzzer,$(HARDEN)) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_BERTH) $(LIBS_IMAGE) $(LIBS_NET) $(LIBS_DAEMON)

fuzz fuzz-merge:
	@tests/lib/need $(BUILD) $(BUILD_PACKAGES) clang
	@$(fuzz_make) $(addprefix $(fuzz_build)/fuzz/,$(FUZZ))
	@$(python) tests/fuzz/fuzz.py --build $(fuzz_build) --seconds $(FUZZ_SECONDS) $(if $(filter fuzz-merge,$@),--merge) $(FUZZ)

.PHONY: fuzz fuzz-merge
