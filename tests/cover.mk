# SPDX-License-Identifier: Apache-2.0
# make cover: the lines that the tests run, per folder; included by the Makefile.
#
#   make cover                     all tests
#   make cover COVER_KINDS=unit    some of them: unit fuzz integration attack fault
#
# Counts what berth's children do up to their last instruction too (Makefile, COVER=1).  What is built with musl,
# init and the helper for files, is counted only where the host has it too.

COVER_PACKAGES = clang llvm libclang-rt-dev
COVER_KINDS ?= unit fuzz integration attack
COVER_BUILD = build-cover-clang

cover:
	@tests/lib/need $(BUILD) $(BUILD_PACKAGES) $(TEST_PACKAGES) $(COVER_PACKAGES)
	@rm -rf $(COVER_BUILD)/prof && mkdir -p $(COVER_BUILD)/prof
	@$(MAKE) --no-print-directory COVER=1 cover-built

cover-built: $(PROGRAMS) $(test_tools) $(unit_tests) $(fuzz_replays)
	@LLVM_PROFILE_FILE=$(abspath $(BUILD))/prof/%c%m.profraw $(run_tests) $(COVER_KINDS) || echo 'some tests failed; their lines count all the same'
	@$(python) tests/cover.py --build $(BUILD) $(PROGRAMS) $(unit_tests) $(fuzz_replays)

.PHONY: cover cover-built
