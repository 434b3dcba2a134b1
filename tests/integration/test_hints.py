# SPDX-License-Identifier: Apache-2.0
"""
What a `hint:` says works in the situation that prints it: a row of ROWS runs into the hint and then does what it says.
A hint that takes more than a command line to run into is tested with its feature.
"""
import contextlib
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
berth top ID | top work rest | top work
berth top %.80s | top --sort cpu work | top work
cpu, memory, pids or network | top --sort x | top --sort cpu; top --sort memory; top --sort pids; top --sort network
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
berth fork --network egress --allow-host NAME %s makes one with its files | update --allow-host x.test work | fork --network egress --allow-host x.test --name e2 work; rm -f e2
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
[[IP:]HOSTPORT[-LAST]:]SANDBOXPORT[/udp], such as 8080:80 on the host's loopback, 80 on a free port of it, 8080-8090:80 on a free one of these, 0.0.0.0:8080:80 on every IPv4 address, [::]:8080:80 on every IPv6 one | run --network bridge -p 80:80/x host true | run --dry-run --network bridge -p 8080:80 -p 80 -p 8084-8090:80 -p 0.0.0.0:8081:80 -p [::]:8082:80 -p 127.0.0.1:8083:80/udp host true
berth port ID 80 | port | port work
such as 80 or 53/udp | port work 80/x | port work
%s to %s | run --memory 1 host true | run --memory 512m host true
%% to % | run --pids 99999999999 host true | run --pids 100 host true
digits only, %% to % | run --pids x host true | run --pids 100 host true
%%.%03% to % | run --cpus 99999999 host true | run --cpus 1 host true
--recursive | file rm work /tmp/tree | file rm --recursive work /tmp/tree
0 to %u, or a name | run --user 0:99999999999 host true | run --user 0:1000 host true; run --user 0:daemon host true
a number needs no entry | run --user nosuch host true | run --user 1234 host true
another command, or [policy] deny in berth.toml | sh work 'rm -rf /' | sh work 'rm -rf /tmp/nothing'
a-z 0-9 _ . - | sh -s A/B work true | sh -s a_b.c-1 work true
use that berth again; berth rm --force %s removes the sandbox | start newer | rm --force newer
"""




def rows():
    for line in ROWS.strip().splitlines():
        hint, fails, mends = line.rsplit(" | ", 2)
        yield hint, "" if fails == "-" else fails, mends


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
    netlab.need_bridge()
    netlab.sysctl("ipv4/ip_forward", "1")   # of the test's own namespace: a row runs a sandbox in a bridge
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
                b.berth("network", "prune")     # the next rows need the names
        b.berth("rm", "-f", "kept", ok=True)
    assert not bad, "\n\n".join(bad)


def test_words_of_other_tools_get_the_command_that_does_it():
    for line, said in (("rmi x", "berth image rm"), ("unpause x", "berth resume"), ("tag a b", "berth image tag"),
                       ("snapshot x", "berth checkpoint"), ("restore x", "berth undo"), ("clone x", "berth fork"), ("copy a b", "berth cp"),
                       ("status", "berth ps"), ("df", "berth system df"), ("port-forward x 80", "berth port"),
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
