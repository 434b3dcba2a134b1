# SPDX-License-Identifier: Apache-2.0
"""
Every `hint:` of the source: a row of ROWS runs into it and then does what it says, or ELSEWHERE tells why none does.
A hint that neither names fails test_every_hint_of_the_source_is_named_here.
"""
import contextlib
import glob
import os
import re
import shlex
import subprocess

import berthtest as b
import netlab
from box import Box

COST = 40

# What runs into the hint | what the hint says to do (several by ";"; "-": nothing at all).  In the directory of a scratch place with the sandboxes
# work (runs), rest (stopped) and kept (of run --keep), the image fs:1, the file in.txt, and in work the command c1, which sleeps.
ROWS = """
berth help lists them | - | help
berth %.38s --help lists them | file | file --help
did you mean '%s'? | creat | create --help
berth help lists the commands | qqqqqqq | help
did you mean --%s? | run --memry 64m host true | run --memory 64m host true
berth %s --help lists the options | run --qqqqqq host true | run --help
/dev/fuse, or vendor.com/class=name | run --device fuse host true | run --device /dev/null:/dev/also host true
another place below /dev | run --device /dev/zero:/dev/null host true | run --device /dev/zero:/dev/also host true
all, a number, or device=0,1 | run --gpus none host true | run --help
berth config show names them | run --device a.b/c=d host true | config show
--help alone | run --help=1 | run --help
--%s alone | run --read-only=1 host true | run --read-only host true
--%s %s | run --memory | run --memory 64m host true
options follow the command: berth run %.64s | --memory 64m run host true | run --memory 64m host true
berth completion bash, zsh or fish | completion | completion bash; completion zsh; completion fish
berth run host true, or berth run --help | run | run host true; run --help
berth cp FILE SANDBOX:PATH | cp in.txt | cp in.txt work:/tmp/x
./a:b is a file of the host | cp a:b c:d | cp ./a:b work:/tmp/y
berth diff ID | diff | diff work
berth diff --from k1 %.64s | create --name c6 host; checkpoint c6; diff --patch c6 | diff --from k1 --patch c6; rm -f c6
berth login keeps both | pull --username me fs:1 | login --help
berth build . | build | build --help
644 | file write --mode 9z work /tmp/z < in.txt | file write --mode 644 work /tmp/z < in.txt
berth %s --help | file read work | file read --help
berth checkpoint ID, or berth checkpoint --name NAME ID | checkpoint | checkpoint work; checkpoint rm work k1; checkpoint --name z work; checkpoint rm work z
berth checkpoints ID | checkpoints | checkpoints work
berth checkpoint export writes one to a file | checkpoint store work@k1 | checkpoint --name st work; checkpoint export -o st.tar work@st; checkpoint rm work st
berth checkpoint rm ID k1 | checkpoint rm | checkpoint work; checkpoints work
berth fork ID, or berth fork ID@k1 | fork | create --name c7 host; fork --name c8 c7; checkpoint --name a c7; fork --name c9 c7@a; rm -f c7 c8 c9
berth volume create NAME | create --name c8 host; fork --volume ./x:/x c8 | volume create va; fork --name c7 --volume va:/x c8; rm -f c7 c8; volume rm va
berth undo ID, or berth undo --to CHECKPOINT ID | undo | create --name c7 host; checkpoint c7; undo c7; undo --to k1 c7; rm -f c7
berth checkpoints lists them | undo --to k99 work | checkpoints work
fork, commit and checkpoint export take SANDBOX@CHECKPOINT, undo takes --to %.20s | create --name c7 host; checkpoint c7; undo c7@k1 | fork --name c8 c7@k1; undo --to k1 c7; rm -f c7 c8
berth checkpoints lists those there are, and berth checkpoint makes one | undo rest | checkpoints rest; checkpoint rest; checkpoint rm rest k1
a-z 0-9 _ . -, and not k with a number | checkpoint --name k1 work | checkpoint --name a.b-1 work; checkpoint rm work a.b-1
another --name, or berth checkpoint rm | create --name c8 host; checkpoint --name a c8; checkpoint --name a c8 | checkpoint --name b c8; checkpoint rm c8 a; rm -f c8
%%v takes any | inspect --format '{{printf "%d" .id}}' work | inspect --format '{{printf "%v" .id}}' work
berth commit SANDBOX NAME | commit rest | commit rest made:1
berth %s ID, ids are listed by berth ps -a | stop | ps -a; stop rest
berth inspect ID, ids are listed by berth ps -a | inspect | ps -a; inspect work
berth rename ID NAME | rename rest | rename rest rest2; rename rest2 rest
berth run IMAGE python3 - < FILE | run --file in.txt host true | run host cat - < in.txt
let it make no shared memory | zygote create --forks 1 host python3 -c 'm = __import__("mmap").mmap(-1, 4096)' | zygote create --name zq host python3 -c 'x = 1'; zygote rm zq
let it start none, as by -e OPENBLAS_NUM_THREADS=1 | zygote create --forks 1 host python3 -c '__import__("threading").Thread(target=__import__("time").sleep, args=(99,), daemon=True).start()' | zygote create --name zq -e OPENBLAS_NUM_THREADS=1 host python3 -c 'x = 1'; zygote rm zq
let it wait for its end | zygote create --forks 1 host python3 -c '__import__("os").spawnlp(1, "sleep", "sleep", "99")' | zygote create --name zq host python3 -c '__import__("os").spawnlp(0, "true", "true")'; zygote rm zq
berth zygote ls | run --zygote none 1 | zygote ls
berth create --zygote %.80s | zygote create --name zq host python3; create --zygote zq host | create --zygote zq --name zb; rm -f zb; zygote rm zq
berth zygote create --help tells what a zygote takes | zygote create --name zq host python3; create --zygote zq --memory 64m | zygote create --help; zygote rm zq
berth code --zygote %.80s < FILE | zygote create --name zq host python3; code --zygote zq --keep < /dev/null | code --zygote zq < /dev/null; zygote rm zq
leave --image and --allow-image out | zygote create --name zq host python3; mcp --zygote zq --image host < /dev/null | mcp --zygote zq < /dev/null; zygote rm zq
--new runs the code in another | zygote create --name zq host python3; create --zygote zq --name zb; code zb --keep < /dev/null | code zb --new --keep < /dev/null; rm -f zb; zygote rm zq
berth create --zygote makes one that has | create --mark berth.zygote=x --name zb host; code zb < /dev/null | zygote create --name zq host python3; create --zygote zq --name zc; code zc < /dev/null; rm -f zb zc; zygote rm zq
berth zygote create --name %.80s makes it again | zygote create --name zq host python3; create --zygote zq --name zb; zygote rm zq; start zb | zygote create --name zq host python3; start zb; rm -f zb; zygote rm zq
berth run --zygote %.80s CODE, or --file FILE | zygote create --name zq host python3; run --zygote zq | run --zygote zq 'print(1)'; run --zygote zq --file /dev/null; zygote rm zq
berth zygote create IMAGE python3 -c 'import json' | zygote create host | zygote create --name zq host python3 -c 'import json'; zygote rm zq
berth zygote create IMAGE python3 -c CODE | zygote create host perl | zygote create --name zq host python3 -c 'import json'; zygote rm zq
berth zygote create IMAGE node -e 'x = 1' | zygote create host node -e | zygote create --name zq host node -e 'x = 1'; zygote rm zq
berth run --zygote %.80s CODE | zygote create --name zq host node -e 'x = 1'; create --zygote zq | run --zygote zq 'x'; zygote rm zq
leave --tty out | zygote create --tty host python3 | zygote create --name zq host python3; zygote rm zq
leave --seccomp unconfined out | zygote create --seccomp unconfined host python3 | zygote create --name zq host python3; zygote rm zq
leave --network out | zygote create --network bridge host python3 | zygote create --name zq host python3; zygote rm zq
berth zygote create host python3 -c 'import json' | zygote create | zygote create --name zq host python3 -c 'import json'; zygote rm zq
--preload-timeout gives it more time | zygote create --preload-timeout 300ms host python3 -c '__import__("time").sleep(99)' | zygote create --preload-timeout 90s --name zq host python3; zygote rm zq
berth stop %s first, or rm --force | create --name gone host; rm gone | stop gone; rm gone
--network-rate of berth create bounds one member | network create --internal --network-rate 1m nn | network create nn; network rm nn
berth volume ls lists them | volume rm "" | volume ls
berth run --zygote %s CODE, or berth zygote rm %s | zygote create --name zq host python3; stop zq | run --zygote zq 'print(1)'; zygote rm zq
berth rm --force %s ends it | zygote create --name zq host python3; rm zq | rm --force zq
shorten or remove it in the sandbox | create --name c6 host; exec c6 truncate -s 1t /h; checkpoint c6; checkpoint export -o h.tar c6@k1 | exec c6 truncate -s 1 /h; checkpoint c6; checkpoint export -o h.tar c6@k2; rm -f c6
copy it again, or make it with berth checkpoint export | checkpoint import in.txt | checkpoint --name cut work; checkpoint export -o cut.tar work@cut; checkpoint import --name c2 --no-start cut.tar; rm c2; checkpoint rm work cut
berth create host | create | create --name c2 host; rm -f c2
berth create --health-cmd TEXT | wait --healthy work | create --name c6 --health-cmd true host; rm -f c6
berth inspect %s | create --name sick --health-cmd false --health-interval 100ms --health-retries 1 host; wait --healthy sick | inspect sick; rm -f sick
berth logs %s | wait --port 9 --timeout 10ms work | logs work
--health-cmd TEXT | create --health-interval 1s host | create --name c3 --health-cmd true --health-interval 1s host; rm -f c3
--no-health | create --health-cmd '' host | create --name c4 --no-health host; rm -f c4
["curl","-fs","localhost"] | create --health-exec curl host | create --name c5 --health-exec '["curl","-fs","localhost"]' host; rm -f c5
name one after the image, or --service for the image's own | create --stop-timeout 1s host | create --name c3 --stop-timeout 1s host sleep 9; rm -f c3; create --name c3 --stop-timeout 1s --service host; rm -f c3
name one after the image | create --service --entrypoint "" fs:1 | create --name c3 --entrypoint "" fs:1 /bin/sh; rm -f c3
berth run --detach, or berth create | run --ttl 1h host true | run --detach --name c3 --ttl 1h host sleep 9; rm -f c3; create --name c3 --ttl 1h host true; rm -f c3
berth inspect and berth wait tell of a sandbox that lives | run --detach --keep host sleep 9 | run --detach --name c3 host true; wait c3; inspect c3; rm -f c3
no, on-failure, on-failure:5, always or unless-stopped | create --restart often host true | create --name c3 --restart on-failure:5 host sleep 9; rm -f c3
either --restart or --auto-remove | create --restart always --rm host sleep 9 | create --name c3 --restart always host sleep 9; rm -f c3
berth start --boot | start --boot work | start --boot
berth create --restart always | guard | create --name c3 --restart always host sleep 9; rm -f c3
name one that berth commands lists | attach work | commands work
berth exec ID COMMAND | exec work | exec work true
berth commands ID | commands | commands work
berth commands lists them | output work c99 | commands work
berth commands ID lists them | attach | commands work
berth sh ID 'COMMAND' | sh | sh work true
berth exec, or berth sh | shell work ls | exec work true; sh work true
berth sh --list ID | sh -s none --wait work | sh --list work
berth signal ID c3 TERM | signal work | signal work c1 CONT
TERM, KILL, INT, ... or a number | signal work c1 FOO | signal work c1 CONT; signal work c1 18
berth wait ID c3 | wait | wait rest
berth logs ID | logs | logs work
berth top ID | top | top work
berth stats ID | stats | stats --no-stream work
berth network inspect NAME | network inspect | network inspect work
berth network create NAME | network create | network create n1; network rm n1
berth network create %.64s | run --network n1 host true | network create n1; network rm n1
berth network rm NAME | network rm | network create n1; network rm n1
berth create --network NAME | network create n1; network connect n1 work | create --name c9 --network n1 host; rm -f c9; network rm n1
berth network inspect lists its networks | network create --internal n1; network create --internal n2; create --name s6 --network n1 host; network connect n2 s6; stop s6; network disconnect bridge s6 | network inspect s6; rm -f s6; network rm n1 n2
berth network connect | create --name s7 --network none host; stop s7; network disconnect bridge s7 | rm -f s7; network create --internal n1; network create --internal n2; create --name c7 --network n1 host; network connect n2 c7; rm -f c7; network rm n1 n2
a name that begins in another way | create --name snapshot.x host | create --name a-snapshot.x host; rm -f a-snapshot.x
another name | network create host | network create n1; network rm n1
without --subnet a free one is taken | network create --subnet 127.0.0.0/8 n1 | network create n1; network rm n1
one of IPv4 and one of IPv6 | network create --subnet 10.9.0.0/24 --subnet 10.8.0.0/24 n1 | network create --subnet 10.9.0.0/24 --subnet fd09::/64 n1; network rm n1
a prefix of 1 to %d | network create --subnet 10.9.0.0/30 n1 | network create --subnet 10.9.0.0/29 n1; network rm n1
within 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or fd00::/8 | network create --subnet 9.0.0.0/24 n1 | network create --subnet 192.168.77.0/24 n1; network rm n1
NAME:ADDRESS, such as db:10.1.2.3, or NAME:host-gateway | run --add-host x host true | run --network bridge --dry-run --add-host db:10.1.2.3 --add-host x:host-gateway host true
--network bridge | run --add-host x:host-gateway host true | run --network bridge --dry-run --add-host x:host-gateway host true
up to 63 of a-z 0-9 _ . - | run --network n1 --alias A host true | network create n1; run --dry-run --network n1 --alias a host true; network rm n1
--network NAME, made by berth network create | run --network bridge --alias a host true | network create n1; run --dry-run --network n1 --alias a host true; network rm n1
berth %s NETWORK SANDBOX | network connect | network create --internal n1; network create --internal n2; create --name c6 --network n1 host; network connect n2 c6; network disconnect n2 c6; rm -f c6; network rm n1 n2
give it where %s is made | run --network container:work --add-host a:10.1.1.1 host true | create --name c6 --add-host a:10.1.1.1 host; run --network container:c6 host true; rm -f c6
--network container:NAME, of one that berth ps lists | run --network container:A host true | ps; run --network container:work host true
--network host | create --name h1 --network host host; run --network container:h1 host true | run --network host host true; rm -f h1
berth network create --allow-host NAME makes one with rules | network create n1; network update --allow-host x.test n1 | network create --allow-host x.test n2; network update --allow-host y.test n2; network log n2; network rm n1 n2
berth network update --allow-host NAME NETWORK | network update | network create --allow-host x.test n1; network update --allow-host y.test n1; network rm n1
berth network log ID | network log | network log proxied
--network egress writes one | network log work | network log proxied
create it with --network egress or bridge | update --allow-host x.test work | create --name e2 --network egress host; update --allow-host x.test e2; rm -f e2
cpu=60s, or several of cpu=60s,time=1h,io=1g,net=1g | create --budget 60s host | create --name b1 --budget cpu=60s,time=1h host; rm -f b1
berth create --budget %s=%s | create --name b5 --budget cpu=1h host; grant b5 time=+1h | rm -f b5; create --name b5 --budget time=1h host; rm -f b5
--cap-drop NET_ADMIN | run --network bridge --cap-add NET_ADMIN --network-rate 1m host true | run --dry-run --network bridge --network-rate 1m --cap-drop NET_ADMIN host true
without --subnet and rules | network create --tenant ann --subnet 10.9.0.0/24 n1 | network create --tenant ann n1; network rm --tenant ann n1
10m is 10 MiB a second, 10mbit ten million bits | run --network egress --network-rate 1bit host true | run --dry-run --network egress --network-rate 10m host true; run --dry-run --network egress --network-rate 10mbit host true
berth update --network-rate unlimited %s | network create --internal n1; network create --internal n2; create --name c6 --network n1 --network-rate 1m host; network connect n2 c6 | rm -f c6; create --network n1 --name c6 host; network connect n2 c6; rm -f c6; network rm n1 n2
--network egress or bridge | create --budget net=1g host | create --name b7 --network egress --budget net=1g host; rm -f b7
%s=%s | create --budget time=0 host | create --name b4 --budget time=1h host; rm -f b4
berth create --budget cpu=60s | grant work cpu=+60s | create --name b2 --budget cpu=60s host; grant b2 cpu=+60s; rm -f b2
berth grant ID cpu=+60s | grant | create --name b3 --budget cpu=60s host; grant b3 cpu=+60s; rm -f b3
berth update --memory 1g ID | update --memory 1g | update --memory 1g work
--memory, --cpus, --pids, --allow-host and others (berth update --help) | update work | update --pids 100 work; update --help
berth update --cpus | exec --cpus 3 work true | update --cpus 4 work; exec --cpus 3 work true
berth start %s | exec rest true | start rest; exec rest true; stop rest
berth resume %s | pause work; exec work true | resume work; exec work true
berth create makes sandboxes that can | exec kept true | create --name c3 host; exec c3 true; rm -f c3
berth ps -a lists them | exec nothing true | ps -a
the keys are %s | ps --filter foo=1 | ps --filter name=work --filter label=app
a longer --create-timeout; --timing shows each phase | create --create-timeout 1ms --name t1 host | create --create-timeout 1m --timing --name t1 host; rm -f t1
one of them | stop --filter name=work rest | stop rest; stop --filter name=rest
--force, or --dry-run to see which | prune | prune --dry-run; prune --force --filter name=nothing
--filter name=%.80s, or berth rm %.80s | create --name p1 host; stop p1; prune p1 | prune --force --filter name=p1; create --name p1 host; stop p1; rm p1
label=KEY or label=KEY=VALUE | ps --filter label= | ps --filter label=app; ps --filter label=app=web
KEY=VALUE, with a key of 1 to %d bytes without blanks | create --label =v host | create --name l1 --label k=v host; rm -f l1
at most %d labels of %d bytes in all | create --label-file many host | create --name l2 --label k=v host; rm -f l2
at most %d | create --label-file long host | create --name l3 --label k=v host; rm -f l3
10m (ago), or 2026-11-21T08:00:00Z | logs --since yesterday work | logs --since 10m work; logs --since 2026-11-21T08:00:00Z work
one sandbox, or none for all | events work rest | events work; events
berth config check FILE checks a file | config show FILE | config check conf.toml
one file at a time | config check conf.toml conf.toml | config check conf.toml
berth send ID c3 'TEXT' | send work | send work c2 hello
quote it, and put options before the sandbox | send work c2 one two | send work c2 'one two'
a text, - for stdin, or --eof | send work c2 | send work c2 text; send work c2 - < in.txt; send --eof work c2
the code comes on stdin | code work in.txt | code work --lang sh < in.sh
berth code ID --lang python < FILE | code | code work --lang python < in.py
without --list, --close and --wait it is run | sh --list work true | sh work true
--cpus, or --ulimit cpu=SECONDS for each process | create --cpu-time 5s host | create --name c4 --cpus 1 host; create --name c5 --ulimit cpu=5 host; rm -f c4 c5
none, host, bridge, egress, container:SANDBOX, or what berth network create made | run --network Foo host true | run --network none host true; run --network egress host true; network create n1; network rm n1
--network %s | run --allow-host x.test host true | run --network egress --allow-host x.test host true
strict, standard, dev, unconfined or the path of a JSON file | run --seccomp foo host true | run --seccomp strict host true; run --seccomp dev host true; run --seccomp unconfined host true
such as 0-1,3 | run --cpuset x host true | run --cpuset 0 host true
such as /dev/vda:read=10m,write=5m,read-iops=100,write-iops=50, or /dev/vda:unlimited | run --io-rate / host true | run --io-rate /:unlimited --dry-run host true
a disk such as /dev/vda, or a path on it | run --io-rate /dev/shm:read=1m host true | run --io-rate /var/tmp:unlimited --dry-run host true
%.80s=VALUE | run --env =x host true | run --env A=VALUE host true
ro, rw, exec, noexec, nosymfollow%s | run --volume /usr:/x:foo host true | run --volume /usr:/srv/x:ro host true; run --volume /usr:/srv/x:noexec host true
SOURCE:TARGET, or SOURCE:TARGET:rw | run --volume /usr host true | run --volume /usr:/srv/x host true
type=bind,src=DIR,dst=DIR, type=volume,src=NAME,dst=DIR or type=tmpfs,dst=DIR | run --mount type=foo,dst=/x host true | run --mount type=bind,src=/usr,dst=/srv/x host true; run --mount type=volume,src=hinted,dst=/x host true; run --mount type=tmpfs,dst=/srv/x host true; volume rm hinted
berth run --volume %s:/v host mkdir -p /v/%s | run -v subd:/x:sub=deep host true | run -v subd:/v host mkdir -p /v/deep; run -v subd:/x:sub=deep host true; volume rm subd
without / before it and without .. | run -v subd:/x:sub=.. host true | run -v subd:/v host mkdir -p /v/deep; run -v subd:/x:sub=deep host true; volume rm subd
--user UID:GID | run -v ./layout:/x:rw,owner=auto --user daemon host true | run -v ./layout:/x:rw,owner=auto --user 1:1 host true
berth volume ls | volume inspect nothing | volume ls
berth volume create data | volume create | volume create data; volume rm data
berth rm --force %s | create --name vu -v hint2:/x host; volume rm hint2 | rm --force vu; volume rm hint2
berth volume inspect NAME, names are listed by berth volume ls | volume inspect | volume ls
berth volume rm NAME, names are listed by berth volume ls | volume rm | volume ls
up to 64 of a-z 0-9 _ . -, starting with a letter or digit; a directory has a / in it, as ./%.80s | run --volume Data:/x host true | run --volume ./layout:/x host true
NAME=SOFT[:HARD], such as nofile=1024:4096 | run --ulimit nofile host true | run --ulimit nofile=1024:4096 host true
one of cpu fsize data stack core rss nproc nofile memlock as locks sigpending msgqueue nice rtprio rttime | run --ulimit foo=1 host true | run --ulimit core=0 host true
a name of capabilities(7) such as NET_RAW, or ALL | run --cap-add FOO host true | run --cap-drop ALL host true; run --cap-add NET_RAW host true
bytes, or a number with k, m, g or t, such as 512m | run --memory lots host true | run --memory 512m host true
seconds, or a number with ms (the finest), s, m, h or d, such as 300, 1.5s, 5m or 1h30m | run --timeout soon host true | run --timeout 300 host true; run --timeout 1h30m host true
such as 0.5, 1 or 2.25 | run --cpus x host true | run --cpus 0.5 host true
UID, NAME, UID:GID or NAME:GROUP | run --user : host true | run --user 1000 host true; run --user 1000:1000 host true
such as 10.0.0.0/8 or fd00::/8 | run --network egress --allow-net x host true | run --network egress --allow-net 10.0.0.0/8 --allow-net fd00::/8 host true
its first address is wanted | run --network egress --allow-net 10.0.0.1/8 host true | run --network egress --allow-net 10.0.0.0/8 host true
such as 9.9.9.9 | run --network egress --dns x host true | run --network egress --dns 9.9.9.9 host true
NAME, *.SUFFIX or ADDRESS, then :PORT, :FROM-TO or :* (none: ports 80 and 443); international names in their xn-- form | run --network egress --allow-host 'a b' host true | run --network egress --allow-host '*.x.test:1-9' host true
up to 64 of a-z 0-9 _ . -, starting with a letter or digit | create --name A/B host | create --name a.b-c_1 host; rm -f a.b-c_1
berth image --help lists the commands | image qqqqqq | image --help
berth image --help lists them | image | image --help
berth commit SANDBOX NAME makes an image of what a sandbox changed | image commit rest x:1 | commit rest made:4
%s %s --help lists the options | image ls --qqqqq | image ls --help
layout, archive or rootfs | image export --format foo fs:1 out | image export --format rootfs fs:1 out
berth image import %s | run ./layout true | image import ./layout fs:2
berth pull %.100s, or berth image import SOURCE %.100s | run --pull never nothere:1 true | image import fs nothere:1; run nothere:1 true
sha256: and 12 to 64 hex digits | run sha256:xyz true | image ls
names look like debian, debian:12 or registry.example/team/app:1.0 | run UPPER:1 true | image import fs debian:12
remove that, or use -f to drop the name now and the files with the last that uses them | image import other used:1; create --name user used:1; image rm used:1 | image rm -f used:1; rm -f user
give one: berth image import SOURCE NAME | image import - < fs.tar | image import - named:1 < fs.tar
give OS/ARCH, such as linux/amd64 or linux/arm/v7 | image import --platform x ./layout fs:3 | image import --platform linux/amd64 ./layout fs:3
xz -dc FILE | berth image import - NAME | image import fs.tar.xz x:1 | image import - xz:1 < fs.tar
%s %s%s%s | load img.tar | load -i img.tar
SOURCE is an OCI layout, a docker-save archive, a root file system directory or its tar, or - for stdin | image import nosuch n:1 | image import fs n:1; image import img.tar n:2; image import layout n:3; image import - n:4 < fs.tar
bzip2 -dc FILE | berth image import - NAME | image import fs.tar.bz2 bz:1 | image import - bz:1 < fs.tar
[[IP:]HOSTPORT:]SANDBOXPORT[/udp], such as 8080:80 on the host's loopback, 80 on a free port of it, 0.0.0.0:8080:80 on every IPv4 address, [::]:8080:80 on every IPv6 one | run --network bridge -p 80:80/x host true | run --dry-run --network bridge -p 8080:80 -p 80 -p 0.0.0.0:8081:80 -p [::]:8082:80 -p 127.0.0.1:8083:80/udp host true
berth port ID 80 | port | port work
such as 80 or 53/udp | port work 80/x | port work
%s to %s | run --memory 1 host true | run --memory 512m host true
%% to % | run --pids 99999999999 host true | run --pids 100 host true
digits only, %% to % | run --pids x host true | run --pids 100 host true
%%.%03% to % | run --cpus 99999999 host true | run --cpus 1 host true
--recursive | file rm work /tmp/tree | file rm --recursive work /tmp/tree
0 to %u | run --user 99999999999 host true | run --user 1000 host true
0 to %u, or a name | run --user 0:99999999999 host true | run --user 0:1000 host true; run --user 0:daemon host true
a number needs no entry | run --user nosuch host true | run --user 1234 host true
another command, or [policy] deny in berth.toml | sh work 'rm -rf /' | sh work 'rm -rf /tmp/nothing'
a-z 0-9 _ . - | sh -s A/B work true | sh -s a_b.c-1 work true
use that berth again; berth rm --force %s removes the sandbox | start newer | rm --force newer
"""


# The hints that no row runs, by the reason for that.
ELSEWHERE = {
    "are of a host that cannot trace, of zygotes without a name or of an older berth, of one that ends meanwhile, and of ten seconds "
    "without a free fork": """
berth cp copies the sandbox's files
berth zygote rm and create
zygotes need ptrace(2): berth needs CAP_SYS_PTRACE, and /proc/sys/kernel/yama/ptrace_scope below 3
berth zygote create makes it again
again later, or berth zygote create --forks
""",
    "are berth-docker's: test_dockerdoor.py and test_dockerdoor_objects.py meet them":
r"""
[docker] socket in berth.toml, and start berthd
--blkio-weight is of every device
apt install docker-compose
install berth under that name
""",
    "needs another kernel, cgroup layout, file system or network of the host: the fault, attack and bridge tests make some of these":
r"""
berth network create without --internal
this kernel lacks it: modprobe sch_tbf; --network egress bounds the rate without it
this kernel lacks the call, or a filter around berth hides it; see `berth doctor`
stop all sandboxes once, and remove that cgroup
berth gc clears what could not be removed: %.200s
end the sandboxes that load filters of their own, or double that limit with sysctl
less than 128 KiB each, larger ones as a file in the sandbox
berth doctor shows why
berth create makes sandboxes that last
berth checkpoint rm removes one, and berth system df tells what takes it
berth checkpoint rm removes some, or [manager] checkpoints_size in berth.toml
[sandbox] checkpoint_size in berth.toml
berth checkpoint rm and berth rm make room, and berth system df tells what takes it
apt-get install xfsprogs
berth system df
berth system pool create --size 20g
berth system pool create --size 20g, berth system pool rm, or berth system pool
a smaller --size
berth rm %s
copy it with cp -r in the sandbox and remove it
a newer berth
-o FILE
another -o, or remove it
a-z 0-9 _ . -, at most 64 of them
[tenant] import in berth.toml
remove some, or [tenant] stored_bytes in berth.toml
remove some, or [storage] checkpoint_bytes in berth.toml
another name, or remove that one
berth checkpoint export ID@k1
berth checkpoint import FILE
berth checkpoints %.64s lists them, and berth checkpoint export %.64s@k1 takes one
berth checkpoints %.64s lists them, and berth checkpoint store %.64s@k1 takes one
berth pull, or berth image import
--trust takes that of this host
--drop leaves it out
remove some of them in the sandbox
--trust takes all that it asks for, --drop leaves such options out
berth stop %s, then berth checkpoint %s, which makes it a file, then berth start %s
set state_dir to a directory on ext4, xfs or btrfs
ask for a larger --disk or fewer --disk-inodes
of %s
mount one (mount -t cgroup2 cgroup2 /sys/fs/cgroup); `berth doctor` says more
mount it, or set %s to unlimited
boot with swapaccount=1, or turn swap off
turn swap off
the io controller of cgroup v2 (or blkio of v1) and CONFIG_BLK_DEV_THROTTLING
the io controller of cgroup v2, with BFQ or the cost model
a kernel with CONFIG_BFQ_GROUP_IOSCHED
a kernel with CONFIG_BLK_CGROUP
berth create without net in --budget
--network-bytes in place of net in --budget
a host with cgroup v2 alone
read and read-iops alone, or a host with cgroup v2 alone
ext4, xfs or btrfs
echo bfq > %s
enable it in cgroup.subtree_control of the parent cgroup, or set %s to unlimited
use a directory on ext4, xfs or btrfs
Linux 6.8 takes more, or flatten the image
tune2fs -O project,quota, and mount it with prjquota
mount its file system with prjquota, or set session.default_mount_dir to a directory on one that is
mount it with prjquota
raise it for berth's caller (ulimit -H), or ask for less
a program of this host listens there; take another port, or ADDRESS:%u:%u for one address of the host
sysctl net.ipv4.ip_forward=1, or [network] forwarding = true in berth.toml, or --network egress, which needs none
set [network] bridge to another name
a network made without --internal
end the program in the sandbox that listens on port 53
berth stop %s, and disconnect it then
fewer of --alias
berth network disconnect
berth create, or berth run --detach, makes one that can be joined
berth restart both of them, that one first
berth update %s changes them
berth network update --allow-net
berth create --tenant
berth network inspect %.64s lists who did; it stays on the one it was made with
berth port %.64s lists them
berth network inspect %s
berth network inspect %s names them
berth network prune, or [network] max_networks in berth.toml
[network] max_members in berth.toml
--subnet, or [network] subnets in berth.toml
Linux 5.18 can, and --network egress needs no bridge
this kernel lacks it: modprobe bridge veth; berth doctor tells, and --network egress needs none of it
end its sandboxes, then nft delete table inet %s
this kernel lacks nftables or a part of it: modprobe nf_tables nft_ct nft_nat nft_masq nft_fib_inet nft_reject_inet nft_quota nft_connlimit; berth doctor tells, and --network egress needs none of it
remove sandboxes, run berth gc, or set [network] pool to a larger one
a published port belongs to another sandbox already; berth network ls tells
raise the max_*_namespaces of /proc/sys/user
raise /proc/sys/user/max_user_namespaces
a file, a pipe, a socket or /dev/null
user namespaces are refused inside a chroot, and where an LSM or sysctl forbids them; `berth doctor` tells
berth runs where parts of /proc are masked, as inside another container
""",
    "tells the form or the range of a value: the unit tests of that parser try what it says":
r"""
a simpler regular expression
chown root, chmod 600
%s
such as 10.0.0.0/8
at most %s
chown root and chmod 0700 it, or remove it
install berth with make install, or build it with make
index . "NAME" takes one of other letters
\\\\ \\" \\n \\t and \\r
one of %s
{{json .}} shows them all, and index . "%.80s" takes one that may be missing
$%.40s := ...
letters, digits, _ and -, or "quoted"
\\\\ for a backslash, or 'literal' quotes
\\u%04X in "quotes"
put it in quotes
put text in quotes
a finite number
try again
""",
    "needs a device, a CDI specification or a configuration: test_devices.py":
r"""
"refuse" or "skip"
"never" or "command"
chown root, and chmod go-w
cdi_hooks = "skip", section devices of berth.toml, makes the device without them
name it in privileged, section devices of berth.toml
""",
    "needs a budget that is used up: test_budget.py":
r"""
berth grant %s %s=+%s
""",
    "needs a registry, a resolver or credentials: test_registry*.py and test_credhelper.py have those":
r"""
if that is right, add it to registry.realms in berth.toml
the image may not exist, or berth login docker.io
berth login %s
wait, or log in: berth login
registry.ca_file in berth.toml names a CA of your own
if it speaks plain http, list it in registry.insecure in berth.toml, or use --insecure
is the name right, and does this host reach a name server?
chown it to yourself, and chmod go-w
chmod 600, and change the passwords that are in it
chown root, chmod 755
install it, or berth login, which comes first
--platform OS/ARCH
docker.io/library/host cannot be pulled under that name
name a tag
berth image fsck --repair
raise it in berth.toml, or 0 for none
it is made where libcurl4-openssl-dev and libpsl-dev are installed
give HOST:PORT and list it in registry.insecure in berth.toml, or use --insecure
the store keeps one platform of an image
berth login --username USER --password-stdin REGISTRY < FILE
berth login --username USER --password-stdin %.100s
""",
    "needs a damaged store, or an archive that is not what it should be: test_image.py and tests/attack make those":
r"""
berth image fsck
sha256 and sha512 are
give more digits
import it again
use that berth again; or berth image rm --force %.100s, and pull or import it
only tar, tar+gzip and tar+zstd layers can
remove it
letters, digits, _ . : - and not more than %d
such as http://deb.debian.org/debian
essential, apt, minbase, buildd, required, important or standard
apt-get install mmdebstrap
names as apt takes them, separated by commas: python3,git
such as bookworm or trixie
are the suite and the packages known to the mirror, and can it be reached?
import or pull the image again
stop them, and fsck --repair again
berth image export --format rootfs and import make one of them
import %s again
berth image fsck --repair, then import it again
berth image import - NAME < FILE
for a pipe, berth image import - NAME < PIPE
choose one by SOURCE:NAME:TAG
give the image another name: berth image import SOURCE NAME
--platform %s imports it all the same
choose one by SOURCE:REF, such as %.100s:%.100s
""",
    "tells the form of a value, or needs a race or a foreign archive: the unit and file tests try what it says":
r"""
remove it first
--limit
copy again
"next" of an answer
remove files, or a larger --disk
--parents makes it
tar --sparse-version=1.0
tar --format=pax
choose another path
pass it on stdin
berth run IMAGE COMMAND
a smaller --disk
name a file
berth create makes sandboxes that last, and berth run --keep leaves one behind
--format rootfs, or NAME.tar for an image archive, whose layers are compressed already
-i FILE
--lang, or an image with %s
berth wait --json
berth shell ID
single characters and ctrl-a to ctrl-z, with commas between them
it was written by a newer berth
berth create --help
"%s"
"%s=VALUE"
'{{.id}}  {{.name}}', and column -t
--pull never takes what the store has
flatten it
a name or a number
--cap-drop SETFCAP, or the volume without :rw
"644"
copy
sh, whose sessions have a terminal
"stdin_open":true
""",
    "for who writes an OCI bundle or an engine's configuration, not a berth command: test_oci*.py run into these":
r"""
delete it again: what is gone is gone
leave it out
--console-socket
give the device another path, or take the file out of the root
mount it at /sys/fs/cgroup/devices
/etc/subuid and /etc/subgid
the caller has neither CAP_SYS_RESOURCE nor a hard limit as high
give that to the mount itself, in its own entry
nothing is mounted there
the kernel says: %s
AppArmor is not enabled on this host: leave apparmorProfile out
SELinux is not enabled on this host: leave selinuxLabel out
AppArmor is not enabled on this host, or has no such profile
mount it, or leave the limit out
leave it out (podman: --security-opt label=disable)
add {"type": "mount"} to linux.namespaces
pause and resume keep a container in memory
unset LISTEN_FDS, which was left over, or set LISTEN_PID to the process that it is for
--format json needs no ps(1)
man berth-oci\n
""",
    "an answer of berthd's HTTP interface: test_berthd.py and test_berthd's schema tests ask for it, and no berth command is in it":
r"""
make install
GET /v1/sandboxes lists them
GET /v1/zygotes lists them
[pool.NAME] zygote, or leave the session out
GET /v1/sandboxes/{id}/logs?follow=true
POST /v1/sandboxes/%s/start
64 fields, 16 KiB
daemon.allowed_hosts
daemon.allowed_origins
%s lists them
/openapi.json lists them
/openapi.json
1 MiB of JSON
allowOut and denyOut
its addresses one by one, or ranges alone
[sandbox] network_enabled of berth.toml
create it with allowInternetAccess: false, or with names
leave it out, or POST /v1/sandboxes without the members session, sandbox_type, storage_path and auto_*
end some, or [tenant] %s in berth.toml
ask for less, or again later; the operator's key is [admission] in berth.toml
again later; the operator's key is [manager] max_sandboxes in berth.toml
ask for less, or again later; the operator's keys are [admission] and [manager] max_sandboxes in berth.toml
again later, or daemon.max_connections in berth.toml
GET /v1/sandboxes/{id}/commands lists them
stream=stdout or stderr, or /follow
TERM, SIGKILL, or a number from 1 to 64
/commands/{command}/stdin and /follow
then follow, stdin and resize
a smaller depth, or one of them
PUT larger files one by one
again later, or PUT files one by one
several batches, or a tar to /v1/sandboxes/ID/files/archive
several batches
the name of an image
another one
stop it first, or ?force=true
memory, cpus, pids, allow-host, ...
%s%s%s
at least %lld
at most %lld
at most %lld bytes
at least %lld bytes
openssl rand -hex 32
one for each name
chown root and chmod 600
""",
    "an answer of berthd's E2B routes: test_e2b.py, test_e2b_watch.py and test_e2b_keys.py ask for it, and no berth command is in it":
r"""
gzip, or none
E2B_SANDBOX_URL is the address of berthd
remove it, which ends the keys that clients have
watch again, a smaller directory
watch one below it
sysctl fs.inotify.max_user_watches
sysctl fs.inotify.max_user_instances
python or javascript
a smaller depth
""",
    "an answer of berthd's Engine API: test_docker_api.py asks for it, and no berth command is in it":
r"""
[sandbox] seccomp in berth.toml names one
[docker] allow = ["%s"] in berth.toml
""",
    "names a section, key or form of berth.toml: tests/unit/test_config.c and test_cli.py run into these":
r"""
"%s" or "%s"
/HOST:/SANDBOX, which is read-only
a name has letters, digits and _ . -
file:/DIR or s3://BUCKET/PREFIX
[%.80s]
berth.toml(5) lists them
0 is [sandbox] memory_limit
0 is [sandbox] cpu_limit
[pool.NAME]
letters, digits, . and -
such as berth or berth-test
"stop" or "remove"
privileged, host-network, unconfined, system-binds, drop-docker-socket, devices
a-z 0-9 _ -, such as berth0
%g to %g
%% to %%%s
put it under [%s]
[%s]
1m or more
chown root %.100s
chmod go-w %.100s
did you mean [%s]?
berth config show lists sections and keys
did you mean %s?
it belongs under [%s]
""",
    "needs a state that a test cannot bring about by a command line: a stuck keeper, a full host, a race; the tests of sessions, lifecycle and faults make these":
r"""
again later, and berth gc if nobody starts it
a letter after f, or a dash, as in box-%s
words and ; | & ( )
remove some, or [tenant] sandboxes in berth.toml
remove some, or [tenant] memory_total in berth.toml
start or release some, or [tenant] archives in berth.toml
remove some, or [tenant] cpu_total in berth.toml
remove one, or [tenant] zygotes in berth.toml
fewer --forks, or [tenant] zygote_forks in berth.toml
remove sandboxes, or [admission] memory in berth.toml
remove sandboxes, or [admission] cpus in berth.toml
remove sandboxes, or raise [ids] count
set base and count as they were
stop or remove some (berth ps), or raise [manager] max_sandboxes
remove some (berth ps -a), or raise [manager] max_stopped
berth volume prune, or raise [volume] max
use that berth again
bound that project by setquota -P
an empty directory, or berth volume create --size
berth volume create --size makes larger ones
remove some, or raise volumes in [tenant]
remove some, or [tenant] own_images in berth.toml
remove some, or [tenant] own_image_bytes in berth.toml
remove others, or [tenant] own_image_bytes in berth.toml
[tenant] pull in berth.toml
[tenant] %s in berth.toml
again later; the operator's key is [volume] max in berth.toml
berth gc later
ask for less, or [tenant] %s in berth.toml
--timeout
try again when the commit is done
berth ps -a
berth kill %s ends it
berth kill %s, or berth rm -f, ends it
berth stats shows what it uses, a restart frees it
--allow-net and --deny-net work with a bridge
another --session, or later
later
wait for it, send it input, interrupt it, or use another --session
another --session, or a longer --queue-timeout
another --session
close one
restart the sandbox with this berth
""",
    "the form of [store] url: unit tests of the ledger run into these":
r"""
put it in the file that store.password_file names
redis://127.0.0.1:6379/0
redis+unix:/PATH of a local tunnel
""",
    "said by the manager of berthd about its configuration, types and storage: test_manager*.py run into these":
r"""
give it to berth zygote create
names of letters, digits and ._-+=@, joined by /
%.200s
shorten it
chown it
fewer files, or shorter paths
check [storage] credentials_file, region and the bucket's policy
is there such a bucket?  [storage] url names it
a file of mode 600 with two lines: access key, secret key
addressing = "path"
https://HOST[:PORT]
https
s3://BUCKET/PREFIX
it is tried again when it is back
[admission] memory
[admission] cpus
stop or release some, or raise [manager] max_sandboxes
send the request to the berthd of each
each berthd has a [paths] state_dir of its own
berth pull it, or berth image save on host %.64s and berth image load here
[session] allow_mount_dir, and an administrator's token
[storage] url in berth.toml
send the request to the berthd of host %.64s
seconds, or such as "15m"; 0 is never
bytes, or such as "512m"
0.01 to 4096
https://HOST[:PORT]/PATH
"headers"
"type": "http"
start it again
[pool.NAME] in berth.toml makes types
list_tools
give one to create
""",
    "needs berth without root, with a set-uid bit, or berthd with a wrong address: test_cli.py, test_berthd.py and test_remote.py":
r"""
sudo berth image ...
berth image --help
berth network --help\n
remove the set-uid bit and file capabilities from berth
sudo berth %s
daemon.socket
127.0.0.1:7423
tokens must not cross a network in the clear: put a proxy with TLS, or ssh -L, in front of 127.0.0.1
systemctl start berthd, or sudo berthd
systemctl start berthd there; without --host and BERTH_HOST, berth works on this host
""",
    "of E2B's protocol: test_e2b.py runs into it":
r"""
a-z 0-9 _ -, and not too long
""",
    "of berth mcp, said to a client of the protocol: test_mcp.py runs into these":
r"""
remove one with sandbox_remove
tools/list
sandbox_list names them, sandbox_create makes one
leave image out, or start berth mcp with --allow-image
choose another name, or leave name out
wait for one
the next call without "sandbox" makes a new one
berth://SANDBOX/PATH, such as berth://default/etc/os-release
berth mcp
end one with DELETE /mcp
initialize again
initialize gives one
POST
leave --name out, or --sandbox for one that is there
--image %.80s
leave them out
""",
    "of berth --host, which needs a berthd: test_remote.py runs into these":
r"""
without --host and BERTH_HOST, or over ssh
--host or BERTH_HOST
over ssh
berth send ID COMMAND TEXT
on stdin
unix:///run/berth/berthd.sock
unix:///run/berth/berthd.sock, http://127.0.0.1:7423 or https://HOST
https://, or ssh -L 7423:127.0.0.1:7423 HOST
put it in BERTH_TOKEN
berth save --help
berth signal ID COMMAND
berth cp it there and run it
""",
}


def join(text):
    """C's adjacent literals as one; macros between them, numbers as a rule, become %."""
    while True:
        once = re.sub(r'"\s*\\?\s*\n?\s*(?:PRI[a-z]\d+|BERTH_VERSION|KNOWN)\s*"', "%", text)
        once = re.sub(r'"\s*\\?\s*\n\s*"', "", once)
        if once == text:
            return text
        text = once


def hints():
    """{hint as the source has it: a file}"""
    found = {}
    literal = r'"((?:[^"\\\n]|\\.)*)"'
    for layer in ("base", "seccomp", "rootfs", "runtime", "manager", "cli"):
        for path in sorted(glob.glob(os.path.join(b.TOP, layer, "**", "*.c"), recursive=True)):
            with open(path) as f:
                text = join(f.read())
            told = [h for s in re.findall(literal, text) for h in s.split("hint: ")[1:]]
            told += [s for s in re.findall(r"err_hint\(\w+, " + literal, text) if "hint: " not in s]
            for h in told:
                found.setdefault(h.replace('\\"', '"').strip(), os.path.relpath(path, b.TOP))
    found.pop("", None)     # the word itself, where it is put before a hint
    return found


def rows():
    for line in ROWS.strip().splitlines():
        hint, fails, mends = line.rsplit(" | ", 2)
        yield hint, "" if fails == "-" else fails, mends


def test_every_hint_of_the_source_is_named_here():
    named = [h for h, _, _ in rows()] + [h for group in ELSEWHERE.values() for h in group.strip().splitlines()]
    found = hints()
    missing = [f"{path}: {h}" for h, path in found.items() if h not in named]
    assert not missing, "hints that no row of this file names:\n" + "\n".join(missing)
    gone = [h for h in named if h not in found]
    assert not gone, "rows for hints that the source has not:\n" + "\n".join(gone)
    assert len(set(named)) == len(named), [h for h in named if named.count(h) > 1]


def do(line, where):
    words = shlex.split(line)
    data = None
    if "<" in words:
        at = words.index("<")
        with open(os.path.join(where, words[at + 1]), "rb") as f:
            data = f.read()
        words = words[:at]
    return b.berth(*words, input=data, cwd=where)


def place():
    where = b.tmpdir("hints")
    b.write(where + "/in.txt", "text\n")
    b.write(where + "/a:b", "text\n")
    b.write(where + "/in.sh", "echo hello\n")
    b.write(where + "/in.py", "print('hello')\n")
    b.write(where + "/conf.toml", "[sandbox]\n")
    b.write(where + "/many", "".join(f"k{i}=v\n" for i in range(129)))
    b.write(where + "/long", "k=" + 4097 * "v" + "\n")
    os.rename(b.busybox_rootfs("fs-made"), where + "/fs")
    os.makedirs(where + "/other/etc")
    for line in ("image import fs fs:1", "image export fs:1 layout", "image export --format rootfs fs:1 fs.tar", "save -o img.tar fs:1"):
        b.expect_code(do(line, where), 0)
    for kind in ("J", "xz"), ("j", "bz2"):
        subprocess.run(["tar", f"-c{kind[0]}f", f"{where}/fs.tar.{kind[1]}", "-C", where + "/fs", "."], check=True)
    b.berth("run", "--keep", "--name", "kept", "host", "true", ok=True)
    return where


def pattern(hint):
    """What a hint looks like when it is printed."""
    parts = re.split(r"%[-+#0\d.]*(?:ll)?[sdugoxX%]?|\\\\", hint)
    return ".*".join(re.escape(p) for p in parts)


def check(hint, fails, mends, where):
    *before, last = fails.split("; ")
    for line in before:
        b.expect_code(do(line, where), 0)
    r = do(last, where)
    b.expect(r.code != 0 and re.search(pattern(hint), r.err), r, f"this runs into the hint: {hint}")
    for line in mends.split("; "):
        b.expect_code(do(line, where), 0)


@b.deadline(240)
def test_what_a_hint_says_works_in_the_situation_that_prints_it():
    netlab.need_net()
    where = place()
    bad = []
    with contextlib.ExitStack() as stack:
        for name, options, image in (("work", (), "host"), ("rest", (), "fs:1"), ("proxied", ("--network", "egress"), "host"),
                                     ("newer", (), "host")):
            stack.enter_context(Box("--name", name, *options, image=image))
        b.berth("exec", "--detach", "work", "sleep", "1000", ok=True)
        b.berth("exec", "--detach", "--interactive", "work", "cat", ok=True)
        b.berth("exec", "work", "mkdir", "-p", "/tmp/tree/sub", ok=True)
        b.berth("stop", "rest", "newer", ok=True)
        state = os.path.join(b.root(), "state", "sandboxes", os.readlink(os.path.join(b.root(), "state", "names", "newer")))
        with open(state + "/spec.json") as f:
            text = f.read()
        b.write(state + "/spec.json", text.replace('"version":1', '"version":9'), 0o600)
        for row in rows():
            try:
                check(*row, where)
            except AssertionError as why:
                bad.append(f"{row[0]}\n{why}")
        b.berth("rm", "-f", "kept", ok=True)
    assert not bad, "\n\n".join(bad)


def test_words_of_other_tools_get_the_command_that_does_it():
    for line, said in (("rmi x", "berth image rm"), ("unpause x", "berth resume"), ("tag a b", "berth image tag"),
                       ("search x", "berth pull"), ("images", "berth image ls"),
                       ("kill -9 x", "berth kill ends every process at once"),
                       ("stop -t 5 x", "--grace TIME"), ("stop --time 5 x", "--grace TIME"), ("restart -t 5 x", "--grace TIME"),
                       ("image search x", "berth pull"), ("image delete x", "berth image rm")):
        b.one_line_error(b.berth(*line.split()), 2, "unknown", "hint: ", said)


def test_every_command_that_foreign_c_names_exists():
    with open(os.path.join(b.TOP, "cli", "foreign.c")) as f:
        text = f.read()
    told = re.findall(r'\{ "[^"]+", (?:NULL|"[^"]+"), "((?:[^"\\]|\\.)*)" \}', text) + re.findall(r'#define [A-Z]+ "(.*)"', text)
    assert len(told) > 20
    for line in told:
        for words in re.findall(r"berth ((?:image |network |config )?[a-z]+)", line):
            b.berth(*words.split(), "--help", ok=True)
        for option in re.findall(r"(--[a-z-]+)", line):
            assert any(option in b.berth(c, "--help", ok=True).out for c in ("run", "exec", "stop")), option
