# SPDX-License-Identifier: Apache-2.0
# berth: one Makefile, not recursive.  `make help` lists what it does.
# Switches: V=1  SAN=1 (ASan+UBSan)  COVER=1 (clang's counters; see make cover)  WERROR=1  CC=clang  PREFIX=/usr/local  DESTDIR=

VERSION := 0.1.0
PREFIX ?= /usr/local
PKG_CONFIG ?= pkg-config
MUSL_CC ?= musl-gcc
NM ?= nm
ifeq ($(COVER),1)
CC = clang
endif
BUILD ?= build$(if $(filter 1,$(COVER)),-cover)$(if $(filter 1,$(SAN)),-san)$(if $(filter clang%,$(CC)),-clang)

Q = $(if $(filter 1,$(V)),,@)
say = @$(if $(filter 1,$(V)),:,printf '  %-6s %s\n' $(1) $(2))

CFLAGS ?= -O2 -g
WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wpointer-arith \
       -Wno-missing-field-initializers $(if $(filter 1,$(WERROR)),-Werror)
HARDEN = -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fcf-protection
LINK_STATIC = -static-pie
ifeq ($(SAN),1)
HARDEN = -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
LINK_STATIC = -pie
endif
ifeq ($(COVER),1)
# counters in a shared mapping of their file: what a child counts before it executes or is killed is kept.  The file's name is
# in the program, for those that are started with an environment of their own
HARDEN = -fprofile-instr-generate=$(abspath $(BUILD))/prof/%c%m.profraw -fcoverage-mapping -mllvm -runtime-counter-relocation -Wno-unused-command-line-argument
LINK_STATIC = -pie
endif
ALL_CFLAGS = -std=gnu17 -D_GNU_SOURCE -I. -I$(BUILD)/gen -DBERTH_VERSION='"$(VERSION)"' \
	$(if $(filter 1,$(COVER)),,-ffile-prefix-map=$(CURDIR)=.) -fPIE -fno-strict-aliasing -ffunction-sections -fdata-sections $(WARN) $(HARDEN) $(CFLAGS) -MMD -MP
MUSL_CFLAGS = $(filter-out -D_FORTIFY_SOURCE=%,$(ALL_CFLAGS)) -idirafter /usr/include \
	-idirafter /usr/include/$(shell uname -m)-linux-gnu -include base/musl/musl.h
ALL_LDFLAGS = -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--gc-sections $(LDFLAGS)
INIT_CFLAGS = -std=gnu17 -D_GNU_SOURCE -I. -idirafter /usr/include -idirafter /usr/include/$(shell uname -m)-linux-gnu \
	-Os -fno-stack-protector -ffunction-sections -fdata-sections $(WARN) -MMD -MP

# ---- the folders, and what is linked together ------------------------------
# One archive per line; a program takes from it what it refers to.  tests/layers says which folder may include from which.
LAYERS = base seccomp rootfs runtime manager cli
base_d = base
seccomp_d = seccomp
rootfs_d = rootfs/store rootfs/layer rootfs/transfer rootfs/registry
runtime_d = runtime/kernel runtime/sandbox runtime/probe runtime/oci
manager_d = manager/host manager/keeper manager/zygote manager/ops
cli_d = cli cli/run cli/live cli/time cli/zygote cli/files cli/look cli/image cli/system cli/stdio cli/oci
http_d = rootfs/http
remote_d = cli/remote
mcp_d = cli/mcp
service_d = manager/ledger manager/objects manager/service
api_d = manager/api
docker_d = manager/docker
engine_d = manager/engine
door_d = cli/docker
net_d = runtime/net
preview_d = runtime/preview
ssh_d = runtime/ssh
init_d = runtime/init
fileop_d = runtime/fileop
# of a folder that is not linked as a whole: what berth takes of berth-net's and of berthd's
SHARED = runtime/net/netcount.c runtime/net/netgroup.c runtime/net/netpolicy.c manager/ledger/storeurl.c
MAINS = $(wildcard cli/programs/*.c) seccomp/gen.c manager/ops/gen.c

objects_of = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(MAINS) $(SHARED),$(foreach d,$($(1)_d),$(wildcard $(d)/*.c))))
$(foreach l,$(LAYERS) http remote mcp service api docker engine door net preview ssh init fileop,$(eval $(l)_a := $(BUILD)/libberth-$(l).a)$(eval $(l)_o := $(call objects_of,$(l))))
seccomp_o += $(BUILD)/gen/seccomp_builtin.o
runtime_o += $(patsubst %.c,$(BUILD)/%.o,$(filter runtime/%,$(SHARED))) $(BUILD)/runtime/sandbox/initblob.o
# what both ends of a copy share: here for the host's end
runtime_o += $(BUILD)/runtime/sandbox/fileblob.o $(patsubst %,$(BUILD)/runtime/fileop-host/%.o,stream tar pack extract place)
manager_o += $(patsubst %.c,$(BUILD)/%.o,$(filter manager/%,$(SHARED)))
service_o += $(BUILD)/manager/service/kernelblob.o
api_o += $(BUILD)/manager/api/schemas.o $(BUILD)/manager/api/e2bkernelblob.o $(BUILD)/manager/api/uiblob.o
mcp_o += $(BUILD)/cli/mcp/toolsblob.o
cli_o += $(BUILD)/cli/zygote/agentblob.o $(BUILD)/cli/zygote/nodeblob.o

# `berth` itself is linked with musl, whose start costs a third of a millisecond less (base/musl/musl.h); the sanitizers and
# musl-gcc's own compiler leave these to glibc, and so does base/musl/choose where Debian's libraries do not fit musl
MUSL_LIB ?= /usr/lib/$(shell uname -m)-linux-musl
choose = $(shell CC='$(CC)' MUSL_CC='$(MUSL_CC)' MUSL_LIB='$(MUSL_LIB)' NM='$(NM)' base/musl/choose '$(BUILD)' $(1))
ifneq ($(filter 1,$(SAN))$(filter clang%,$(CC)),)
LIBC_FOUND := $(call choose,glibc 'made with $(if $(filter 1,$(SAN)),SAN=1,CC=$(CC))')
else
LIBC_FOUND := $(call choose,$(if $(filter-out musl,$(LIBC)),'$(LIBC)' 'LIBC=$(LIBC) was given to make',$(LIBC)))
endif
ifeq ($(filter musl glibc,$(LIBC_FOUND)),)
$(error LIBC is musl or glibc)
endif
musl_a = $(BUILD)/musl/libberth.a
musl_o = $(patsubst $(BUILD)/%.o,$(BUILD)/musl/%.o,$(filter-out %blob.o,$(foreach l,$(LAYERS) engine door,$($(l)_o)))) \
	$(filter %blob.o,$(runtime_o) $(cli_o)) $(patsubst %,$(BUILD)/musl/base/musl/%.o,musl foreign memcpy) $(BUILD)/musl/gen/libc_names.o
# what `berth run` executes, linked side by side: a page fault maps 16 pages around it, in the command and again in its child
hot_o = $(patsubst %,$(BUILD)/musl/%.o,$(addprefix cli/,run/cmd_run command commands run/imageuse) \
	$(addprefix manager/ops/,params runopts mountspec) $(addprefix manager/host/,config registry claim ranges sweep) rootfs/store/image \
	$(addprefix runtime/sandbox/,launch program request handover child mounts mounts_enter mountplan writable layerguard hostimage spec supervise verdict nethelper) \
	$(addprefix runtime/kernel/,newmount cgroup cgroup_hybrid fdpass caps rlimits landlock) \
	$(addprefix base/,err buf io path num json))

has = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo yes)
LIBS_BERTH = -lseccomp -ljansson
LIBS_IMAGE = $(shell $(PKG_CONFIG) --libs libarchive libcrypto libzstd zlib jansson)
PROGRAMS = $(BUILD)/berth $(BUILD)/berth-image $(BUILD)/berth-mcp $(BUILD)/berth-oci $(BUILD)/berth-docker
# The daemon is made where its libraries are (apt-get install $(DAEMON_PACKAGES)); berth needs none of them.
DAEMON_PACKAGES = zlib1g-dev libmicrohttpd-dev libsqlite3-dev libhiredis-dev libcurl4-openssl-dev
LIBS_STORE = -lsqlite3 -lhiredis -lcurl -lcrypto -lzstd
LIBS_DAEMON = $(shell $(PKG_CONFIG) --libs libmicrohttpd libcrypto zlib) $(LIBS_STORE) -lpthread
# with berth-preview, its web server in front of sandboxes
LIBS_PREVIEW = $(shell $(PKG_CONFIG) --libs libssl libcrypto libseccomp jansson)
ifneq ($(call has,libmicrohttpd sqlite3 hiredis libcurl zlib),)
PROGRAMS += $(BUILD)/berthd $(BUILD)/berth-preview
endif
# So is berth-remote, which berth --host becomes.
LIBS_REMOTE = $(shell $(PKG_CONFIG) --libs libcurl) -lpthread
ifneq ($(call has,libcurl),)
PROGRAMS += $(BUILD)/berth-remote
endif
# So is berth-net, which --network bridge and egress take.
NET_PACKAGES = libmnl-dev libnftnl-dev libc-ares-dev
LIBS_NET = $(shell $(PKG_CONFIG) --libs libmnl libnftnl libcares libseccomp jansson)
ifneq ($(call has,libmnl libnftnl libcares),)
PROGRAMS += $(BUILD)/berth-net
endif
# So is berth-ssh, which speaks SSH for berth ssh-proxy (apt-get install $(SSH_PACKAGES)).
SSH_PACKAGES = libssh-dev
LIBS_SSH = $(shell $(PKG_CONFIG) --libs libssh libseccomp jansson)
ifneq ($(call has,libssh),)
PROGRAMS += $(BUILD)/berth-ssh
endif
# So is berth-systemd, which berth-oci --systemd-cgroup takes.
ifneq ($(call has,libsystemd),)
PROGRAMS += $(BUILD)/berth-systemd
endif
# So is the part of the registry client that speaks with the network (apt-get install $(REGISTRY_PACKAGES)).
REGISTRY_PACKAGES = libcurl4-openssl-dev libpsl-dev
LIBS_HTTP = $(shell $(PKG_CONFIG) --libs libcurl libpsl libcrypto jansson)
ifneq ($(call has,libcurl libpsl),)
PROGRAMS += $(BUILD)/berth-http
endif

all: $(PROGRAMS)

help:
	@printf '%s\n' 'make demo     install what is missing, build, run a command in a sandbox' \
		'make check    install what the tests need, run them all' 'make          build' \
		'make install  PREFIX=/usr/local DESTDIR=   (make uninstall takes it back)' \
		'make install-docker   berth-docker under the name docker' 'make deb      Debian packages berth, berthd, berth-oci, berth-docker' 'make clients  the Python wheel and the npm tarball' 'make dist     the source as a tar' 'make bench    speed beside runc, crun, bubblewrap' \
		'make lint     layers, headers, cppcheck, shellcheck, man pages' 'make size     what each program weighs' 'make cover    lines run by the tests' 'make soak     30 minutes of mixed load and crashes' 'make fuzz     the parsers of hostile bytes under libFuzzer' 'make clean'

# ---- the first command of the README ---------------------------------------
DEMO_PACKAGES = gcc libc6-dev pkg-config musl-tools libseccomp-dev libjansson-dev libarchive-dev libssl-dev \
	libzstd-dev zlib1g-dev libmnl-dev libnftnl-dev libc-ares-dev e2fsprogs

demo:
	@tests/lib/need $(BUILD) $(DEMO_PACKAGES)
	@$(MAKE) --no-print-directory all
	@echo '$$ build/berth run host sh -c "..."'
	@$(BUILD)/berth run host sh -c 'echo "hello from a sandbox: $$(id -un) on $$(hostname), pid $$$$, $$(ls /proc | grep -c "^[0-9]") processes"; \
		echo "capabilities $$(grep CapBnd /proc/self/status | cut -f2), seccomp filters $$(grep Seccomp_filters /proc/self/status | cut -f2)"; \
		touch /usr/x 2>/dev/null || echo "/usr is read-only"; ls -A /home /root /var/log'

# ---- what is installed, by package: PLACE below PREFIX : MODE : FILE ----------
# make install INSTALL="berth berth-oci" takes some of them; make uninstall removes what the same words name
INSTALL ?= berth berthd berth-oci
ZSH_COMPLETIONS ?= share/zsh/site-functions
built = $(filter $(addprefix $(BUILD)/,$(1)),$(PROGRAMS))
helpers = $(foreach p,$(call built,$(1)),libexec/berth/$(notdir $(p)):755:$(p))
manuals = $(foreach p,$(wildcard $(1)),share/man/man$(subst .,,$(suffix $(p)))/$(notdir $(p)):644:$(p))
documents = $(foreach p,README.md SECURITY.md GLOSSARY.md $(wildcard doc/* deploy/*),share/doc/berth/$(p):644:$(p))
files_berth = bin/berth:755:$(BUILD)/berth $(call helpers,berth-image berth-mcp berth-net berth-remote berth-http berth-ssh) \
	$(call manuals,$(filter-out man/berth-docker.1,$(wildcard man/*.1)) man/*.5) \
	lib/systemd/system/berth-boot.service:644:$(BUILD)/share/berth-boot.service \
	share/bash-completion/completions/berth:644:$(BUILD)/share/berth.bash \
	$(ZSH_COMPLETIONS)/_berth:644:$(BUILD)/share/berth.zsh \
	share/fish/vendor_completions.d/berth.fish:644:$(BUILD)/share/berth.fish $(documents)
# sandboxes are root's: the daemon is in sbin, and systemd's units say so
files_berthd = $(if $(call built,berthd),sbin/berthd:755:$(BUILD)/berthd $(call helpers,berth-preview) $(call manuals,man/berthd.8 man/berth-docker.8) \
	lib/systemd/system/berthd.socket:644:systemd/berthd.socket lib/systemd/system/berthd.service:644:$(BUILD)/share/berthd.service)
# under docker's own name: asked for by INSTALL=berth-docker, or make install-docker
files_berth-docker = bin/docker:755:$(BUILD)/berth-docker $(call manuals,man/berth-docker.1) \
	share/man/man1/docker.1:644:man/berth-docker.1 share/bash-completion/completions/docker:644:$(BUILD)/share/docker.bash \
	$(ZSH_COMPLETIONS)/_docker:644:$(BUILD)/share/docker.zsh
files_berth-oci = bin/berth-oci:755:$(BUILD)/berth-oci $(call helpers,berth-systemd) $(call manuals,man/berth-oci.8)
WHEEL = $(BUILD)/clients/berth-$(VERSION)-py3-none-any.whl
NPM_TARBALL = $(BUILD)/clients/berth-$(VERSION).tgz
files_clients = $(foreach f,$(WHEEL) $(NPM_TARBALL),share/berth/clients/$(notdir $(f)):644:$(f))
files_gitlab = $(foreach f,config prepare run cleanup,share/berth/gitlab/$(f):755:clients/gitlab/$(f)) \
	share/berth/gitlab/common:644:clients/gitlab/common
installed = $(foreach p,$(INSTALL),$(files_$(p)))
# of this install alone: nothing that others may have made
own_dirs = libexec/berth share/berth/clients share/berth/gitlab share/berth share/doc/berth/doc share/doc/berth/deploy share/doc/berth

$(BUILD)/share/berth.%: $(BUILD)/berth
	$(Q)mkdir -p $(@D) && $< completion $* > $@.tmp && mv $@.tmp $@

$(BUILD)/share/docker.%: $(BUILD)/berth-docker
	$(Q)mkdir -p $(@D) && $< completion $* > $@.tmp && mv $@.tmp $@

# made anew each time: PREFIX may be another
$(BUILD)/share/%.service: systemd/%.service FORCE
	$(Q)mkdir -p $(@D) && sed 's#@SBINDIR@#$(PREFIX)/sbin#; s#@BINDIR@#$(PREFIX)/bin#' $< > $@
FORCE:

install: all $(foreach f,$(installed),$(filter $(BUILD)/share/% $(BUILD)/clients/%,$(lastword $(subst :, ,$(f)))))
	$(Q)set -e; for f in $(installed); do to=$${f%%:*}; f=$${f#*:}; \
		install -D -m "$${f%%:*}" "$${f#*:}" "$(DESTDIR)$(PREFIX)/$$to"; done
	@echo 'installed $(words $(installed)) files below $(DESTDIR)$(PREFIX): $(INSTALL)'

install-docker:
	$(Q)$(MAKE) --no-print-directory install INSTALL=berth-docker

uninstall:
	$(Q)set -e; for f in $(installed); do rm -f "$(DESTDIR)$(PREFIX)/$${f%%:*}"; done; \
		for d in $(own_dirs); do rmdir --ignore-fail-on-non-empty "$(DESTDIR)$(PREFIX)/$$d" 2>/dev/null || :; done
	@echo 'removed what make install puts below $(DESTDIR)$(PREFIX); sandboxes and images are left in /var/lib/berth'

# The clients for other languages, which need no build: make install INSTALL=clients puts them below share, for pip and npm.
clients: options $(WHEEL) $(NPM_TARBALL)
	@printf '%s\n' 'pip install $(WHEEL)' 'npm install $(NPM_TARBALL)'
$(WHEEL): clients/wheel.py clients/python/README.md $(wildcard clients/python/berth/*.py clients/python/berth/*/*.py)
	$(Q)PYTHONDONTWRITEBYTECODE=1 python3 $< $(@D) $(VERSION) > /dev/null
$(NPM_TARBALL): clients/tarball.py $(wildcard clients/javascript/*.* clients/javascript/src/*)
	$(Q)PYTHONDONTWRITEBYTECODE=1 python3 $< $(@D) > /dev/null

# The tree of HEAD: the same bytes wherever it is made.
dist:
	$(Q)mkdir -p $(BUILD) && git archive --format=tar --prefix=berth-$(VERSION)/ HEAD | gzip -9n > $(BUILD)/berth-$(VERSION).tar.gz
	@echo '$(BUILD)/berth-$(VERSION).tar.gz'

# Debian packages of HEAD, by Debian's own tools; what is not committed is not in them.
DEB_PACKAGES = build-essential debhelper dpkg-dev fakeroot lintian
deb: dist
	@tests/lib/need $(BUILD) $(DEB_PACKAGES) $(BUILD_PACKAGES)
	$(Q)rm -rf build-deb && mkdir -p build-deb && tar -C build-deb -xzf $(BUILD)/berth-$(VERSION).tar.gz
	$(Q)cd build-deb/berth-$(VERSION) && SOURCE_DATE_EPOCH=$$(git -C $(CURDIR) log -1 --format=%ct) \
		dpkg-buildpackage -b -us -uc > ../build.log 2>&1 || { tail -n 20 ../build.log >&2; exit 1; }
	# not for upload to Debian: no bug to close, and no address of a maintainer
	$(Q)lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog \
		build-deb/*.changes
	@ls build-deb/*.deb

# the types of the options in the clients, from the table of manager/ops/params.def
$(BUILD)/ops-gen: $(BUILD)/manager/ops/gen.o $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_BERTH)

options: $(BUILD)/ops-gen
	$(Q)PYTHONDONTWRITEBYTECODE=1 python3 clients/options.py $<

define archive_rule
$$($(1)_a): $$($(1)_o)
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && $$(AR) qcs $$@ $$^
endef
$(foreach l,$(LAYERS) http remote mcp service api docker engine door,$(eval $(call archive_rule,$(l))))

$(BUILD)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# pid 1 of a sandbox: static, small, without the host's libc
$(BUILD)/runtime/init/%.o: runtime/init/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(INIT_CFLAGS) -c -o $@ $<

# in one piece with its constants: each segment is a mapping, and a page of a copy, in every start of a sandbox
$(BUILD)/berth-init: $(init_o)
	$(call say,LD,$@)
	$(Q)$(MUSL_CC) -static -Wl,--gc-sections -Wl,-z,noexecstack -Wl,-z,noseparate-code -s -o $@ $^

$(BUILD)/runtime/sandbox/initblob.o: runtime/sandbox/initblob.S $(BUILD)/berth-init
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -DINIT_PATH='"$(BUILD)/berth-init"' -c -o $@ $<

# the helper for file work in a sandbox, made as init is
$(BUILD)/runtime/fileop/%.o: runtime/fileop/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(INIT_CFLAGS) -O2 -c -o $@ $<

$(BUILD)/runtime/fileop-host/%.o: runtime/fileop/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/berth-fileop: $(fileop_o)
	$(call say,LD,$@)
	$(Q)$(MUSL_CC) -static -Wl,--gc-sections -Wl,-z,noexecstack -s -o $@ $^

$(BUILD)/runtime/sandbox/fileblob.o: runtime/sandbox/fileblob.S $(BUILD)/berth-fileop
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -DFILEOP_PATH='"$(BUILD)/berth-fileop"' -c -o $@ $<

# the built-in seccomp profiles are compiled to BPF here, once, not at each run
$(BUILD)/seccomp-gen: $(BUILD)/seccomp/gen.o $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(MAINS),$(wildcard seccomp/*.c))) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ -lseccomp -ljansson

$(BUILD)/gen/seccomp_builtin.c: $(BUILD)/seccomp-gen
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)$(BUILD)/seccomp-gen > $@.tmp && mv $@.tmp $@

# the same sources as for the archives above, for the other libc
$(BUILD)/musl/%.o: %.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(MUSL_CFLAGS) -c -o $@ $<

$(BUILD)/musl/gen/%.o: $(BUILD)/gen/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(MUSL_CFLAGS) -c -o $@ $<

$(BUILD)/musl/runtime/fileop-host/%.o: runtime/fileop/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(MUSL_CFLAGS) -c -o $@ $<

# not of it: this is what would call the checks
$(patsubst %,$(BUILD)/musl/base/musl/%.o,musl foreign memcpy): MUSL_CFLAGS := $(filter-out -include %/musl.h,$(MUSL_CFLAGS)) -fno-builtin
# a loop that copies must not be made a call of memcpy
$(BUILD)/musl/base/musl/memcpy.o: MUSL_CFLAGS += -fno-tree-loop-distribute-patterns

$(BUILD)/libc-names: base/musl/gen.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -pie -o $@ $<

$(BUILD)/gen/libc_names.c: $(BUILD)/libc-names
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)$< > $@.tmp && mv $@.tmp $@

$(musl_a): $(musl_o)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) qcs $@ $^

# libc.h: linked anew when the C library is another (base/musl/choose makes it)
# -nostdlib -static-pie: musl-gcc knows no static-pie
ifeq ($(LIBC_FOUND),musl)
$(BUILD)/berth: $(BUILD)/musl/cli/programs/berth.o $(hot_o) $(musl_a) $(BUILD)/gen/libc.h
	$(call say,LD,$@)
	$(Q)$(CC) -nostdlib -static-pie $(ALL_LDFLAGS) -o $@ $(MUSL_LIB)/rcrt1.o $(MUSL_LIB)/crti.o $(filter %.o %.a,$^) -L$(MUSL_LIB) \
		$(patsubst -l%,-l:lib%.a,$(LIBS_BERTH)) -lc -lgcc $(MUSL_LIB)/crtn.o

# docker's command line over berth, which may be installed as docker
$(BUILD)/berth-docker: $(BUILD)/musl/cli/programs/berth-docker.o $(musl_a) $(BUILD)/gen/libc.h
	$(call say,LD,$@)
	$(Q)$(CC) -nostdlib -static-pie $(ALL_LDFLAGS) -o $@ $(MUSL_LIB)/rcrt1.o $(MUSL_LIB)/crti.o $(filter %.o %.a,$^) -L$(MUSL_LIB) \
		$(patsubst -l%,-l:lib%.a,$(LIBS_BERTH)) -lc -lgcc $(MUSL_LIB)/crtn.o

# what podman, containerd and docker start where they would start runc
# (-s: it copies itself at each start of a container)
$(BUILD)/berth-oci: $(BUILD)/musl/cli/programs/berth-oci.o $(musl_a) $(BUILD)/gen/libc.h
	$(call say,LD,$@)
	$(Q)$(CC) -nostdlib -static-pie -s $(ALL_LDFLAGS) -o $@ $(MUSL_LIB)/rcrt1.o $(MUSL_LIB)/crti.o $(filter %.o %.a,$^) -L$(MUSL_LIB) \
		$(patsubst -l%,-l:lib%.a,$(LIBS_BERTH)) -lc -lgcc $(MUSL_LIB)/crtn.o
else
$(BUILD)/berth-docker: $(BUILD)/cli/programs/berth-docker.o $(door_a) $(cli_a) $(engine_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a) $(BUILD)/gen/libc.h
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_STATIC) $(HARDEN) $(ALL_LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS_BERTH)

$(BUILD)/berth-oci: $(BUILD)/cli/programs/berth-oci.o $(cli_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a) $(BUILD)/gen/libc.h
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_STATIC) $(HARDEN) $(ALL_LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS_BERTH)

$(BUILD)/berth: $(BUILD)/cli/programs/berth.o $(cli_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a) $(BUILD)/gen/libc.h
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_STATIC) $(HARDEN) $(ALL_LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS_BERTH)
endif

$(BUILD)/berth-image: $(BUILD)/cli/programs/berth-image.o $(cli_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_IMAGE)

$(BUILD)/berth-http: $(BUILD)/cli/programs/berth-http.o $(http_a) $(rootfs_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_HTTP)

$(BUILD)/berth-remote: $(BUILD)/cli/programs/berth-remote.o $(remote_a) $(cli_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_REMOTE) $(LIBS_BERTH)

$(BUILD)/berth-mcp: $(BUILD)/cli/programs/berth-mcp.o $(mcp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(shell $(PKG_CONFIG) --libs jansson)

$(BUILD)/cli/zygote/agentblob.o: cli/zygote/agentblob.S cli/zygote/agent.py
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -DAGENT_PATH='"cli/zygote/agent.py"' -c -o $@ $<

# a library that node loads: it takes what it needs from node and from node's C library
$(BUILD)/cli/zygote/node/addon.so: cli/zygote/node/addon.c runtime/sandbox/initproto.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(INIT_CFLAGS) -fPIC -shared -nostdlib -Wl,--hash-style=both,-z,noexecstack,-z,relro,-z,now,-s -o $@ $<

$(BUILD)/cli/zygote/nodeblob.o: cli/zygote/nodeblob.S cli/zygote/node/agent.js $(BUILD)/cli/zygote/node/addon.so
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -DAGENT_PATH='"cli/zygote/node/agent.js"' -DADDON_PATH='"$(BUILD)/cli/zygote/node/addon.so"' -c -o $@ $<

$(BUILD)/cli/mcp/toolsblob.o: cli/mcp/toolsblob.S cli/mcp/tools.json
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -DTOOLS_PATH='"cli/mcp/tools.json"' -c -o $@ $<

$(BUILD)/manager/api/schemas.o: manager/api/schemas.S manager/api/schemas.json
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -DSCHEMAS_PATH='"manager/api/schemas.json"' -c -o $@ $<

$(BUILD)/manager/api/e2bkernelblob.o: manager/api/e2bkernelblob.S manager/api/e2bkernel.py manager/api/e2bkernel.js
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -DKERNEL_PY='"manager/api/e2bkernel.py"' -DKERNEL_JS='"manager/api/e2bkernel.js"' -c -o $@ $<

# The page: each file as gzip makes it, which is how browsers take it.
ui_files = $(shell sed -n 's/^UI_FILE[^"]*"\([^"]*\)".*/\1/p' manager/ui/files.def)
ui_packed = $(patsubst %,$(BUILD)/ui/%,$(ui_files))

$(BUILD)/ui/%: manager/ui/%
	@mkdir -p $(@D)
	$(Q)gzip -9nc $< >$@.tmp && mv $@.tmp $@

$(BUILD)/ui/%: manager/ui/vendor/%
	@mkdir -p $(@D)
	$(Q)gzip -9nc $< >$@.tmp && mv $@.tmp $@

$(BUILD)/manager/api/uiblob.o: manager/api/uiblob.S manager/ui/files.def $(ui_packed)
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -I$(BUILD)/ui -c -o $@ $<

$(BUILD)/manager/service/kernelblob.o: manager/service/kernelblob.S manager/service/kernel.py manager/service/mcphttp.py
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -DKERNEL_PATH='"manager/service/kernel.py"' -DMCPHTTP_PATH='"manager/service/mcphttp.py"' -c -o $@ $<

$(BUILD)/berthd: $(BUILD)/cli/programs/berthd.o $(docker_a) $(engine_a) $(api_a) $(service_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_DAEMON) $(LIBS_BERTH)

$(BUILD)/berth-net: $(BUILD)/cli/programs/berth-net.o $(net_o) $(runtime_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_NET)

$(BUILD)/berth-preview: $(BUILD)/cli/programs/berth-preview.o $(preview_o) $(patsubst %,$(BUILD)/runtime/net/%.o,httpreq confine) $(runtime_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_PREVIEW)

$(BUILD)/berth-ssh: $(BUILD)/cli/programs/berth-ssh.o $(ssh_o) $(BUILD)/runtime/net/confine.o $(runtime_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_SSH)

$(BUILD)/berth-systemd: $(BUILD)/cli/programs/berth-systemd.o $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ $(shell $(PKG_CONFIG) --libs libsystemd jansson)

# ---- tests ---------------------------------------------------------------
unit_o = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/*.c))
$(BUILD)/unit-tests: $(unit_o) $(net_o) $(BUILD)/runtime/preview/head.o $(door_a) $(cli_a) $(mcp_a) $(api_a) $(engine_a) $(service_a) $(manager_a) $(runtime_a) $(rootfs_a) $(seccomp_a) $(base_a)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(HARDEN) $(ALL_LDFLAGS) -o $@ $^ -lcriterion $(LIBS_BERTH) $(LIBS_IMAGE) $(LIBS_STORE) $(LIBS_NET)

-include tests/tests.mk tests/lint.mk tests/bench/bench.mk tests/vm/vm.mk tests/soak/soak.mk tests/fuzz/fuzz.mk tests/cover.mk

# ---- housekeeping ---------------------------------------------------------
clean:
	rm -rf build build-*

.PHONY: all help demo clients install install-docker uninstall dist deb clean FORCE
.SECONDARY:
# not those of packages that tests install
-include $(shell find $(BUILD) -path $(BUILD)/npm -prune -o -name '*.d' -type f -print 2>/dev/null)
