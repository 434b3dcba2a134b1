# SPDX-License-Identifier: Apache-2.0
# The soak; included by the Makefile.
#
#   make soak                       30 minutes of random verbs and crashes; nothing may be left, grow or hang
#   make soak SOAK_ARGS="--minutes 5 --seed 7"      see tests/soak/soak.py

soak: $(PROGRAMS)
	@$(python) tests/soak/soak.py --build $(BUILD) --json $(BUILD)/soak.json $(SOAK_ARGS)

.PHONY: soak
