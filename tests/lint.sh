#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lint.sh LAYERS MAKE: every check runs, whatever the others find; exit status 1 when one failed.
# LINT_FAST=1 leaves out the two builds, cppcheck and clang-tidy; LINT_ANALYZE=1 adds clang's static analyzer (make check-all).
set -u
cd "$(dirname "$0")/.." || exit 2
layers=$1
make=${2:-make}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0

# only what git knows or would add: build trees and strays are not ours to judge
git ls-files --cached --others --exclude-standard | while read -r f; do
	[ -f "$f" ] && echo "$f"
done | sort -u > "$work/all"
grep -E "^($(echo "$layers" | tr ' ' '|'))/.*\.[ch]$" "$work/all" > "$work/sources"
grep -E '^(tests|'"$(echo "$layers" | tr ' ' '|')"')/.*\.[chS]$|^[^/]*\.(sh|mk)$|^(tests|clients)/.*\.(py|sh|mk|c|js|ts)$|^Makefile$|^man/|^\.ci/run$' \
	"$work/all" > "$work/licensed"

# check NAME COMMAND...: what the command prints are findings, one a line
check() {
	name=$1
	shift
	"$@" > "$work/found"
	if [ -s "$work/found" ]; then
		echo "FAIL $name"
		sed 's/^/  /' "$work/found"
		failed=1
	else
		echo "ok   $name"
	fi
}

# warn NAME COMMAND...: the same, without failing
warn() {
	before=$failed
	check "$@" | sed 's/^FAIL/warn/'
	failed=$before
}

check_layers() {
	PYTHONDONTWRITEBYTECODE=1 xargs python3 tests/layers.py < "$work/sources"
}

check_figures() {
	PYTHONDONTWRITEBYTECODE=1 python3 tests/figures.py --check 2>&1
}

# Since lint looks at subjects; a clone without history has nothing to check.
check_subjects() {
	first=$(git log --diff-filter=A --format=%H -- tests/exceptions 2>/dev/null | tail -n 1)
	[ -n "$first" ] || return 0
	git log --no-merges --format='%h %s' "$first"..HEAD | awk '
	{ hash = $1; sub(/^[^ ]+ /, "")
	  if (length($0) > 60) print hash ": a subject of " length($0) " characters: " $0
	  else if ($0 !~ /^[a-z0-9][a-z0-9_\/., -]*: [^ ]/) print hash ": not \"area: imperative\": " $0 }'
}

check_headers() {
	grep '\.h$' "$work/sources" | while read -r h; do
		out=$(gcc -fsyntax-only -std=gnu17 -D_GNU_SOURCE -I. -Wall -Wextra -Wno-missing-field-initializers -x c "$h" 2>&1) ||
			echo "$h: $(echo "$out" | head -1)"
		guard=BERTH_$(echo "$h" | tr 'a-z/.-' 'A-Z___')
		grep -q "^#ifndef $guard$" "$h" || echo "$h: no include guard $guard"
	done
}

check_spdx() {
	while read -r f; do
		head -3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$f"
	done < "$work/licensed"
}

check_names() {
	grep -iE '(^|/)[^/]*utils?[^/]*\.[chS]$' "$work/all"
}

check_shell() {
	grep -vE '^tests/fuzz/corpus/' "$work/all" | while read -r f; do
		case $(head -c 64 "$f" | head -1 | tr -d '\0') in
		'#!/bin/sh'* | '#!/bin/bash'* | '#!/usr/bin/env bash'* | '#!/usr/bin/env sh'*) echo "$f" ;;
		esac
	done > "$work/scripts"
	if [ -s "$work/scripts" ]; then
		xargs shellcheck -x -f gcc -S warning < "$work/scripts"
	fi
}

check_man() {
	grep -E '^man/.*\.[1-8]$' "$work/all" | while read -r m; do
		mandoc -Tlint -Wwarning "$m"
		command -v man > /dev/null && MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$m" 2>&1 > /dev/null | sed "s|^|$m: |"
	done
}

# Of the tree's own style: tabs, no blanks at a line's end, lines that fit beside each other.
check_format() {
	grep -E '\.[chS]$|\.py$|\.sh$|^Makefile$|\.mk$' "$work/all" | grep -vE '^tests/fuzz/corpus/' | xargs grep -nE '[[:blank:]]+$' /dev/null | sed 's/:[^:]*$/: blanks at the end of the line/'
	grep -E '\.[ch]$' "$work/sources" | xargs awk '
	/^"/ { next }	# a text in pieces
	/^ +[^ *]/ { print FILENAME ":" FNR ": indented by blanks, not tabs" }
	{ line = $0; n = 0
	  while ((i = index(line, "\t")) > 0) { n += i - 1; n += 8 - n % 8; line = substr(line, i + 1) }
	  if (n + length(line) > 160) print FILENAME ":" FNR ": more than 160 columns" }'
}

check_claims() {
	# shellcheck disable=SC2086  # a list of words
	PYTHONDONTWRITEBYTECODE=1 python3 tests/claims.py $layers 2>&1
}

# Calls with a better one of ours: what answers wrongly on an older kernel or libc.
check_calls() {
	xargs grep -nE 'faccessat\(.*AT_SYMLINK_NOFOLLOW' /dev/null < "$work/sources" | sed 's/$/  (path_has() of base\/path.h)/'
}

# Those checks that find bugs, without those that judge style; two at a time.
TIDY='-*,bugprone-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-bugprone-narrowing-conversions,-bugprone-implicit-widening-of-multiplication-result,-bugprone-branch-clone,-bugprone-suspicious-string-compare,-bugprone-assignment-in-if-condition,-bugprone-macro-parentheses,-bugprone-misplaced-widening-cast,-bugprone-suspicious-include,-bugprone-sizeof-expression,-bugprone-not-null-terminated-result,-bugprone-suspicious-missing-comma,cert-fio38-c,cert-flp30-c,cert-msc30-c,cert-env33-c'
check_tidy() {
	command -v clang-tidy > /dev/null || { echo "clang-tidy is not installed"; return 0; }
	grep -E '\.c$' "$work/sources" | xargs -P 2 -n 24 sh -c 'clang-tidy --quiet -checks="$0" "$@" -- -std=gnu17 -D_GNU_SOURCE -I. -Ibuild/gen -DBERTH_VERSION=\"0\" 2> /dev/null' "$TIDY" |
		grep -E ': (warning|error): '
}

# The cleanup attributes (autofree, autoclose) are unknown to it: what it takes for a leak, or for a value that nobody
# reads, is not asked for; SAN=1 looks for leaks.  tests/analyzer has what else it says and why that is not so.
check_analyzer() {
	grep '\.c$' "$work/sources" | xargs -P "$(nproc)" -n 8 sh -c 'for f; do clang --analyze -Xclang -analyzer-disable-checker=deadcode.DeadStores \
		--analyzer-output text -std=gnu17 -D_GNU_SOURCE -I. -Ibuild/gen -DBERTH_VERSION=\"0\" -o /dev/null "$f"; done' sh 2>&1 |
		grep -E ': (warning|error): ' | grep -vE 'Potential (memory )?leak' | sort -u > "$work/said"
	awk 'NR == FNR { if ($1 != "#" && NF) why[$1 " [" $2 "]"] = 1; next }
	{ where = $0; sub(/:.*/, "", where); key = where " " $NF
	  if (key in why) seen[key] = 1; else print }
	END { for (key in why) if (!(key in seen)) print "tests/analyzer: it does not say any more: " key }' tests/analyzer "$work/said"
}

# As it is installed, with a program that is there.
check_units() {
	command -v systemd-analyze > /dev/null || return 0
	for u in systemd/*.service systemd/*.socket; do
		sed 's#@SBINDIR@/berthd#/bin/true#; s#@BINDIR@/berth#/bin/true#' "$u" > "$work/$(basename "$u")"
	done
	(cd "$work" && systemd-analyze verify --man=no ./*.service ./*.socket 2>&1) || echo "systemd-analyze verify failed"
}

# jansson's loops in short (a definition here cannot hold a ';').  Suppressed, each for a reason:
#   missingIncludeSystem  the compilers know the system's headers
#   memleak, resourceLeak cleanup attributes (autofree, autoclose) are unknown to cppcheck; SAN=1 looks for leaks
#   autoVariables         import.c: layout.manifest is set anew before each use
#   comparePointers       program.c, schema.c, tools.c: two symbols around one blob of initblob.S, schemas.S, toolsblob.S
#   unknownEvaluationOrder  resident.c: it takes the members of a nested initialiser for assignments
#   CastIntegerToAddressAtReturn  rows.c: it takes a struct called template for C++'s
#   returnDanglingLifetime  load.c: it takes a call by a pointer for an initialiser that keeps the address
#   ctuuninitvar          fdpass.c: a descriptor array that recvmsg(2) fills; claim.c: an error that is written before it is read
check_cppcheck() {
	grep '\.c$' "$work/sources" | xargs cppcheck --quiet --std=c11 --language=c --platform=unix64 -D_GNU_SOURCE -D__x86_64__ -I. \
		-D'json_array_foreach(a,i,v)=while((i=json_array_size(a))&&(v=json_array_get(a,i)))' \
		-D'json_object_foreach(o,k,v)=while((k=json_object_iter_key(o))&&(v=json_object_get(o,k)))' \
		--enable=warning,portability --inline-suppr --suppress=missingIncludeSystem \
		--suppress=memleak --suppress=resourceLeak --suppress=autoVariables:rootfs/transfer/import.c \
		--suppress=comparePointers:runtime/sandbox/program.c --suppress=comparePointers:manager/api/schema.c --suppress=comparePointers:cli/mcp/tools.c \
		--suppress=unknownEvaluationOrder:cli/live/resident.c --suppress=CastIntegerToAddressAtReturn:cli/docker/rows.c \
		--suppress=returnDanglingLifetime:manager/engine/load.c --suppress=ctuuninitvar:runtime/kernel/fdpass.c --suppress=ctuuninitvar:manager/host/claim.c \
		--template='{file}:{line}: {severity}: {message} [{id}]' 2>&1
}

# In directories of their own, so that a reader's build stays as it is.
check_build() {
	if ! "$make" --no-print-directory CC="$1" WERROR=1 BUILD="build-lint-$1" all > "$work/build.log" 2>&1; then
		grep -E 'error' "$work/build.log" || tail -5 "$work/build.log"
	fi
}

long_functions() {
	xargs awk '
	FNR == 1 { name = "" }
	/^[a-zA-Z_].*\(/ && !/;[ \t]*$/ && !/^(struct|enum|union|typedef)[^(]*$/ { candidate = $0 }
	/^\{/ { start = FNR; name = candidate }
	/^\}/ { if (name != "" && FNR - start > 80) {
			sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
			print FILENAME ":" start ": " name "() has " FNR - start " lines" }
		name = "" }' < "$work/sources"
}

check "layers: a folder includes from those that tests/layers names" check_layers
check "no modules include each other in a circle" check_figures
check "subjects of commits" check_subjects
check "each header compiles alone and has its guard" check_headers
check "each source says its licence" check_spdx
check "no file called util" check_names
check "shellcheck" check_shell
check "mandoc -Tlint" check_man
check "systemd units" check_units
check "format" check_format
check "claims and attacks have their tests" check_claims
check "calls that answer wrongly on older kernels" check_calls
if [ "${LINT_FAST:-0}" != 1 ]; then
	check "cppcheck" check_cppcheck
	check "clang-tidy" check_tidy
	check "gcc -Werror" check_build gcc
	check "clang -Werror" check_build clang
fi
if [ "${LINT_ANALYZE:-0}" = 1 ]; then
	check "clang's static analyzer" check_analyzer
fi
warn "functions over 80 lines" long_functions
exit $failed
