# SPDX-License-Identifier: Apache-2.0
# make lint: what a reviewer should not have to look for; included by the Makefile.

LINT_PACKAGES = cppcheck shellcheck mandoc clang clang-tidy

lint:
	@tests/lib/need $(BUILD) $(BUILD_PACKAGES) $(LINT_PACKAGES)
	@tests/lint.sh '$(LAYERS)' '$(MAKE)'

# what each program weighs, within the ceilings that tests/size.py names
size: $(PROGRAMS)
	@$(python) tests/size.py $(PROGRAMS)

.PHONY: lint size
