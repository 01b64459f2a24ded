#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/launch --elastic: the environment of members, the replacement of failed ones, the end of the job, and that
# neither members nor the etcd of the job remain. Arguments: a scratch folder, and the launcher, if it is not
# scripts/launch.
set -uo pipefail
folder="$1"
[[ ! -f $folder ]] || { echo "the first argument is a scratch folder, which is emptied, not a file" >&2; exit 2; }
launcher="${2:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/scripts/launch}"
for program in python3 etcd curl; do
  if ! command -v "$program" >/dev/null; then
    echo "skipped: $program was not found"
    exit 77
  fi
done
python=$(python3 -c 'import sys; print(sys.executable)')
PATH="$(dirname "$python"):$PATH"  # python3 may be a script that looks for it, every time
rm -rf "$folder" && mkdir -p "$folder/tmp" && cd "$folder" || exit 1
export TMPDIR="$folder/tmp"
unset PLAIT_RENDEZVOUS PLAIT_JOB_SECRET_FILE PLAIT_JOB PLAIT_ELASTIC PLAIT_ELASTIC_AT
failures=0

# check NAME CONDITION...
check() {
  local name="$1"
  shift
  if "$@"; then return; fi
  echo "FAILED: $name: $*" >&2
  tail -n 5 out err 2>/dev/null | cut -c 1-200 | tr -cd '[:print:]\n' >&2
  failures=$((failures + 1))
}
# launch ARGUMENT...: into the files out and err, and the variable code
launch() {
  code=0
  MARK="of $$" "$launcher" "$@" >out 2>err </dev/null || code=$?
  check "no traceback" is_quiet
}
# begin ARGUMENT...: the same in the background as the process $begun; end waits for it. Their processes are marked.
begin() {
  rm -f process.*
  : >out
  MARK="of $$" env --default-signal=INT "$launcher" "$@" >out 2>err </dev/null &
  begun=$!
  began=$(now)
}
end() {
  code=0
  wait "$begun" 2>/dev/null || code=$?
  took=$(($(now) - began))
  check "no traceback" is_quiet
}
now() { echo $(($(date +%s%N) / 1000000)); }  # ms
is_quiet() { ! grep -q 'Traceback\|a fault of the launcher' err; }
says() { grep -qE -- "$1" err; }
processes() { grep -lsz "^MARK=of $$\$" /proc/[0-9]*/environ | wc -l; }
# until_true CONDITION...: waits up to a minute for the condition, because the machine may be slow.
until_true() {
  local turn
  for ((turn = 0; turn < 3000; ++turn)); do
    "$@" && return 0
    sleep 0.02
  done
  return 1
}
fails() { ! "$@" >/dev/null 2>&1; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }
any_server() { [[ -n $(servers) ]]; }
has_lines() { (($(wc -l <out) == $1)); }
wait_for_lines() { until_true has_lines "$1"; }
none_is_left() { (($(processes) == 0)); }
nothing_is_left() { until_true none_is_left && [[ -z $(ls tmp; ls -d "/dev/shm/plait-$(cat job)" 2>/dev/null) ]]; }
# Only processes of this test, because others may run.
servers() { grep -lsz "^MARK=of $$\$" /proc/[0-9]*/environ | sed s/environ/comm/ | xargs grep -lsx etcd | cut -d / -f 3; }
call() { sh call.sh "$(cat at)" "v3/$1" "$2"; }
as64() { printf %s "$1" | base64 -w 0; }
range() { call kv/range "{\"key\": \"$(as64 "$1")\"}"; }
put() { call kv/put "{\"key\": \"$(as64 "$1")\", \"value\": \"$(as64 "${2:-there}")\"}" >/dev/null; }
has() { range "$1" | grep -q '"kvs"'; }
has_not() { range "$1" | grep -q '"header"' && ! has "$1"; }
member_key() { echo "/plait/$(cat job)/members/$(cat "member.$1")"; }

# call.sh AT CALL [BODY]: one question to etcd, where AT is as in PLAIT_ELASTIC_AT; the file `token` has a user's token.
cat >call.sh <<'END'
at="$1" call="$2" body="$3"
case "$at" in
  etcd+unix://*) set -- --unix-socket "${at#etcd+unix://}" "http://etcd/$call" ;;
  etcds://*) set -- --cacert tls/ca.pem "https://${at#etcds://}/$call" ;;
  *) set -- "http://${at#etcd://}/$call" ;;
esac
[ ! -e token ] || set -- -H "Authorization: $(cat token)" "$@"
exec curl -sf --max-time 2 ${body:+-d "$body"} "$@"
END
# A member takes a number, which may differ from the launcher's number for it.
cat >member.sh <<'END'
number=0
until (set -C; echo $$ >process.$number) 2>/dev/null; do number=$((number + 1)); done
printf %s "$PLAIT_JOB" >job
printf %s "$PLAIT_MEMBER" >member.$number
printf %s "$PLAIT_ELASTIC_AT" >at
call() { sh call.sh "$PLAIT_ELASTIC_AT" "v3/$1" "$2"; }
if [ "${LEASE:-}" ]; then
  id=$(call lease/grant '{"TTL": 60}' | sed 's/.*"ID":"\([0-9]*\)".*/\1/')
  key=$(printf %s "/plait/$PLAIT_JOB/members/$PLAIT_MEMBER" | base64 -w 0)
  call kv/put "{\"key\": \"$key\", \"value\": \"\", \"lease\": \"$id\"}" >/dev/null
fi
trap 'echo saved; exit ${AT_TERM:-143}' TERM
echo here
while [ ! -e go ]; do
  [ ! -e "leaves.$number" ] || exit 0
  sleep 0.05
done
exit "$(cat "go.$number" 2>/dev/null || cat go)"
END
killed() { kill -9 "$(cat "process.$1")"; }
releases() { printf %s "$1" >go; }

# ---- What members find, and the etcd of the job ----
export PLAIT_RANK=1 PLAIT_WORLD_SIZE=2 PLAIT_LOCAL_RANK=1 PLAIT_LOCAL_SIZE=2 PLAIT_RENDEZVOUS=/a PLAIT_MEMBER=1 RANK=1
PLAIT_JOB=outer launch --elastic 2:3 sh -c 'echo "$PLAIT_ELASTIC $PLAIT_ELASTIC_AT $PLAIT_JOB"; echo $PLAIT_MEMBER >&2
  sh call.sh "$PLAIT_ELASTIC_AT" health | grep -q true || exit 3
  [ "$(stat -c "%a %s" "$PLAIT_JOB_SECRET_FILE")" = "600 32" ] || exit 4; printf %s "$PLAIT_JOB" >job
  ls -d "/dev/shm/plait-$PLAIT_JOB" "$TMPDIR/plait-$PLAIT_JOB" >folders 2>/dev/null
  env | grep -E "^(PLAIT_(RANK|WORLD|LOCAL|REND)|RANK)"; true'
unset PLAIT_RANK PLAIT_WORLD_SIZE PLAIT_LOCAL_RANK PLAIT_LOCAL_SIZE PLAIT_RENDEZVOUS PLAIT_MEMBER RANK
check "environment" test "$code $(sort -u -k 2 out | wc -l) $(wc -l <out)" = "0 1 3"
check "environment" grep -qE '^\[2\] 2:3 etcd\+unix:///[^ ]*/plait-([0-9a-f]{16})/client:0 \1$' out
check "names of members" test "$(grep -oE '[0-9a-f]{16}$' err | sort -u | wc -l)" = 3
check "a folder of etcd's" test "$(wc -l <folders)" = 1
check "etcd ends with the job" nothing_is_left

# ---- Another user of the machine ----
# With etcd 3.4 on a port, even with a password, everyone can list the leases and keep leases of dead members alive.
if [[ $(id -u) == 0 ]] && command -v setpriv >/dev/null; then
  begin --elastic 1:1 sh member.sh
  check "a member" wait_for_lines 1
  socket="$(sed 's/^etcd+unix:..//' at)"
  etcd=$(servers)
  sockets() { ls -l "/proc/$etcd/fd" | grep -o 'socket:\[[0-9]*' | cut -d '[' -f 2; }
  check "no port of etcd's" test -z "$(sockets | grep -wf - /proc/net/tcp /proc/net/tcp6)"
  check "a socket of etcd's" test -S "$socket"
  stranger() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
  check "a stranger" fails stranger curl -sf --max-time 2 --unix-socket "$socket" http://etcd/health
  check "a stranger" fails stranger ls "${socket%/*}"
  check "its user" has_not /nothing
  releases 0
  end
  check "a job beside strangers" test "$code" = 0
  rm go
fi
long="$folder/tmp/$(printf '%0100d' 0)"
mkdir "$long"
cat >small.py <<'END'
import sys, os
place = sys.argv[1]
os.access = lambda *_, **__: True
os.statvfs = lambda *_: type("none", (), {"f_bavail": 0, "f_frsize": 1})  # /dev/shm has no room
sys.argv = sys.argv[1:]
exec(compile(open(place).read(), place, "exec"))
END
code=0
TMPDIR="$long" "$python" -I -S small.py "$launcher" --elastic 1:1 true 2>err || code=$?
check "a long name for a socket" test "$code" = 2
check "a long name for a socket" says '^launch: the folder .* has too long a name for a socket in it; set TMPDIR to another folder'
check "a long name for a socket" test -z "$(ls "$long")"
rmdir "$long"

# ---- Replacements ----
export LEASE=yes
begin --elastic 2:2 -n 3 --restarts 1 sh member.sh
check "three members" wait_for_lines 3
check "one etcd" test "$(servers | wc -l)" = 1
for member in 0 1 2; do check "a lease" has "$(member_key $member)"; done
began=$(now)
killed 1
check "the lease of a member that was killed" until_true has_not "$(member_key 1)"
check "the lease of a member that was killed" test $(($(now) - began)) -lt 20000
check "a replacement" wait_for_lines 4
check "a replacement" grep -q '^\[3\] here' out
check "a replacement" says '^launch: member [012] \(process [0-9]+\) was ended by signal 9 \(SIGKILL\); member 3 takes its place, no restarts are left$'
check "others keep their leases" has "$(member_key 0)"
killed 0
check "no restart is left" until_true says '; 2 members go on$'
releases 0
end
check "failures that were tolerated" test "$code" = 0
check "after replacements" nothing_is_left
rm go
begin --elastic 2:3 --restarts 2 --after-failure 0.3 sh member.sh
check "three members" wait_for_lines 3
put "/plait/$(cat job)/done"
killed 0
check "a job that is done" until_true says '; 2 members go on$'
echo 7 >go.1
releases 0
end
check "a failure among those that are left" test "$code" = 7
check "a failure among those that are left" says 'ended with exit code 7'
rm go go.1
unset LEASE
launch --elastic 1:1 --restarts 2 sh -c 'exit 4'
check "restarts run out" test "$code $(grep -c 'takes its place' err)" = "4 2"
check "restarts run out" says '^launch: member 2 \(process [0-9]+\) ended with exit code 4; no member is left$'
launch --elastic 1:1 --restarts 1 sh -c 'mkdir left 2>/dev/null && { sleep 600 & echo $! >orphan; exit 4; }
  for turn in $(seq 600); do kill -0 "$(cat orphan)" 2>/dev/null || exit 0; sleep 0.1; done; exit 1'
check "what a member has left is killed" test "$code" = 0
# A process that the test has waited for no longer exists.
cat >gone.sh <<'END'
begins() { mkdir "$1" 2>/dev/null && echo $$ >"$1.pid"; }
gone() {
  until test -s "$1.pid"; do sleep 0.02; done
  while kill -0 "$(cat "$1.pid")" 2>/dev/null; do sleep 0.02; done
}
END
launch --elastic 1:2 --restarts 5 sh -c '. ./gone.sh; begins first && exit 0; gone first; exit 6'
check "no replacement when one has ended well" test "$code $(grep -c 'takes its place' err)" = "6 0"
launch --elastic 1:3 sh -c '. ./gone.sh; begins one && exit 0; gone one; begins two && exit 7; gone two'
check "a failure after one has ended well" test "$code $(grep -c '; 1 member goes on' err)" = "7 1"
began=$(now)
launch --elastic 2:2 sh -c 'mkdir few 2>/dev/null && exit 5; (setsid sleep 60 >/dev/null 2>&1 &); sleep 0.4'
check "what is no member gets no time" test "$code" = 5 -a $(($(now) - began)) -lt 50000
begin --elastic 2:2 --after-failure 0.3 sh member.sh
check "two members" wait_for_lines 2
killed 0
began=$(now)
end
check "fewer than MIN" says '\(SIGKILL\), and fewer than 2 are left; 1 member has 0.3 s to end$'
check "fewer than MIN" says '^launch: the members that were left have been ended$'
check "fewer than MIN" test "$code" = 137 -a "$took" -ge 250 -a "$took" -lt 25000
check "fewer than MIN" nothing_is_left

# ---- Members that the job has left out ----
stops() { kill -STOP "$(cat "process.$1")"; }
ends_without() {  # MEMBER...: the job of three members is done without these
  local member words=
  for member in 0 1 2; do
    [[ " $* " == *" $member "* ]] && stops $member || words+="${words:+, }\"$(cat "member.$member")\""
  done
  put "/plait/$(cat job)/last" "{\"number\": 2, \"members\": [$words]}"
  put "/plait/$(cat job)/done"
}
begin --elastic 2:3 --grace 0.4 sh member.sh
check "three members" wait_for_lines 3
ends_without 1
: >leaves.0
check "one has ended" until_true is_gone "$(cat process.0)"
sleep 0.8
check "one that is not left out has time" fails is_gone "$(cat process.2)"
releases 0
end
check "a member that was stopped" test "$code $(grep -c . err)" = "0 1"
check "a member that was stopped" says "^launch: the job is done without member [012] \(process $(cat process.1)\), which did not end within 0.4 s and had to be killed$"
check "a member that was stopped" nothing_is_left
rm go leaves.0
begin --elastic 1:3 --grace 0.4 sh member.sh
check "three members" wait_for_lines 3
ends_without 0 1
releases 6
end
check "two that were stopped, of a job that has failed" test "$code" = 6
check "two that were stopped, of a job that has failed" says '^launch: the job is done without members [01] \(process [0-9]+\) and [12] \(process [0-9]+\), which did not end'
rm go

cat >lost.py <<'END'
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("launch", sys.argv[1])
launch = importlib.util.module_from_spec(importlib.util.spec_from_loader("launch", loader))
loader.exec_module(launch)
for answers in [None], [{"kvs": [{"create_revision": "7"}]}, None]:
    job = launch.ElasticLaunch.__new__(launch.ElasticLaunch)
    job.etcd, job.running, job.environment, job.timers = object(), {7: 1}, {"PLAIT_JOB": "j"}, []
    job.is_done = job.is_asking = job.ending = False
    job.has_looked, job.ended_before = True, None
    job.ask = lambda call, key, then: then(answers.pop(0))
    job.ask_whether_done()
    assert len(job.timers) == 1 and not job.is_asking, len(job.timers)
END
check "an answer of etcd that is lost is asked for again" "$python" lost.py "$launcher"

# ---- etcd dies ----
begin --elastic 1:1 --after-failure 0.2 sh member.sh
check "a member" wait_for_lines 1
put /kept
etcd=$(servers)
kill -9 "$etcd"
check "etcd is started again" until_true has /kept
check "etcd is started again" says "^launch: etcd \(process $etcd\) was ended by signal 9 \(SIGKILL\); it is started again with its data$"
for _ in 1 2 3; do
  until_true any_server
  etcd=$(servers)
  kill -9 "$etcd"
  until_true is_gone "$etcd"
done
end
check "etcd dies once too often" test "$code" = 143
check "etcd dies once too often" says 'SIGKILL\), after 3 restarts; 1 member has 0.2 s to end$'
mkdir bad
printf '#!/bin/sh\necho broken >&2; exit 3\n' >bad/etcd && chmod +x bad/etcd
PATH="$PWD/bad:$PATH" launch --elastic 1:1 true
check "an etcd that does not start" test "$code $(tail -n 1 err)" = "2 broken"
check "an etcd that does not start" says '^launch: etcd \(process [0-9]+\) ended with exit code 3; it says:$'

# ---- Signals, and how the launcher ends ----
begin --elastic 1:2 --restarts 5 sh member.sh
check "two members" wait_for_lines 2
kill -TERM "$begun"
end
check "SIGTERM" test "$code $(grep -c saved out) $(grep -c 'takes its place' err)" = "143 2 0"
check "SIGTERM" says 'SIGTERM has been passed on to the members'
check "SIGTERM" nothing_is_left
AT_TERM=0 begin --elastic 1:2 sh member.sh
check "two members" wait_for_lines 2
kill -TERM "$begun"
end
check "members that end well after SIGTERM" test "$code" = 0
worker() { cut -d ' ' -f 1,4 /proc/[0-9]*/stat 2>/dev/null | awk -v of="$begun" '$2 == of { print $1 }'; }
for victim in launcher worker; do
  begin --elastic 1:2 sh member.sh
  check "two members" wait_for_lines 2
  case $victim in launcher) kill -9 "$begun" ;; worker) kill -9 "$(worker)" ;; esac
  end
  check "kill -9 of the $victim" test "$code" = 137
  check "kill -9 of the $victim" nothing_is_left
done
printf '#!/bin/sh\nexec sleep 60\n' >bad/etcd
PATH="$PWD/bad:$PATH" begin --elastic 1:1 touch started
until_true eval '[[ $(grep -lsz "^MARK=of $$\$" /proc/[0-9]*/environ | sed s/environ/comm/ | xargs cat 2>/dev/null) == *sleep* ]]'
kill -TERM "$begun"
end
check "SIGTERM before etcd answers" test "$code" = 143 -a ! -e started

# ---- Where members meet ----
port=$((30000 + $$ % 2000))
mkdir shared
MARK="of $$" etcd --data-dir shared --log-level error --listen-client-urls "http://127.0.0.1:$port" --listen-peer-urls http://127.0.0.1:0 \
  --advertise-client-urls "http://127.0.0.1:$port" >shared.log 2>&1 &
shared=$!
printf %s "etcd://127.0.0.1:$port" >at
check "an etcd of one's own" until_true has_not /nothing
export PLAIT_JOB=of_several LEASE=yes
begin --elastic 1:1 --restarts 1 --at "etcd://127.0.0.1:1,127.0.0.1:$port" sh -c \
  'PLAIT_ELASTIC_AT=etcd://${PLAIT_ELASTIC_AT#*,}; exec sh member.sh'
check "a member at another etcd" wait_for_lines 1
check "a job of several launchers" test "$(cat job)" = of_several
check "no etcd is started" test "$(servers)" = "$shared"
check "a lease at another etcd" has "$(member_key 0)"
killed 0
check "a replacement at another etcd" wait_for_lines 2
check "a lease at another etcd" until_true has_not "$(member_key 0)"
releases 0
end
rm go
check "an etcd of one's own stays" test "$code $(servers)" = "0 $shared"
PLAIT_ELASTIC_AT="etcd://127.0.0.1:$port" launch --elastic 1:1 sh -c 'echo "$PLAIT_ELASTIC_AT $PLAIT_JOB"; exit 9'
check "PLAIT_ELASTIC_AT" test "$code $(cat out)" = "9 [0] etcd://127.0.0.1:$port of_several"
PLAIT_JOB=fails_elsewhere begin --elastic 1:1 --grace 0.2 --at "etcd://127.0.0.1:$port" sh member.sh
check "the only member of a launcher" wait_for_lines 1
kill -STOP "$(cat process.0)"
put /plait/fails_elsewhere/last '{"number": 2, "members": []}'
put /plait/fails_elsewhere/done "a loss that is nan"
end
check "a job that has failed elsewhere" test "$code" = 1
check "a job that has failed elsewhere" says '^launch: the job is done without member 0 '
put /plait/again/last '{"number": 2, "members": []}'
put /plait/again/done "an earlier job of this name"
PLAIT_JOB=again begin --elastic 1:1 --grace 0.2 --at "etcd://127.0.0.1:$port" sh member.sh
check "a member after an earlier job" wait_for_lines 1
sleep 0.8
check "a member after an earlier job" fails is_gone "$(cat process.0)"
releases 0
end
rm go
check "a member after an earlier job" test "$code" = 0
kill -9 "$shared"
wait "$shared" 2>/dev/null
PLAIT_ELASTIC_AT="etcd://127.0.0.1:$port" launch --elastic 1:1 --restarts 1 sh -c 'exit 9'
check "an etcd that has gone" test "$code $(grep -c 'takes its place' err)" = "9 1"
unset PLAIT_JOB LEASE

# ---- By TLS, with a user ----
certificate() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" -keyout "tls/$1.key" -out "tls/$1.csr" &&
    openssl x509 -req -in "tls/$1.csr" -CA tls/ca.pem -CAkey tls/ca.key -CAcreateserial -days 2 -extfile tls/names -out "tls/$1.pem"
}
make_certificates() {
  mkdir tls && printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "IP:127.0.0.1" >tls/names &&
    for ca in ca other; do
      openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$ca" \
        -keyout "tls/$ca.key" -out "tls/$ca.pem" || return
    done && certificate server /CN=server && certificate job /O=job
}
if command -v openssl >/dev/null; then
  make_certificates >/dev/null 2>&1 || check "certificates" false
  mkdir secured
  MARK="of $$" etcd --data-dir secured --log-level error --listen-client-urls "https://127.0.0.1:$port" \
    --advertise-client-urls "https://127.0.0.1:$port" --listen-peer-urls http://127.0.0.1:0 --bcrypt-cost 4 \
    --cert-file tls/server.pem --key-file tls/server.key >secured.log 2>&1 &
  secured=$!
  printf %s "etcds://127.0.0.1:$port" >at
  check "an etcd by TLS" until_true has_not /nothing
  for words in 'user/add {"name":"root","password":"secret"}' 'user/grant {"user":"root","role":"root"}' 'enable {}'; do
    check "users" call "auth/${words%% *}" "${words#* }" >/dev/null
  done
  token() { call auth/authenticate '{"name":"root","password":"secret"}' | sed 's/.*"token":"\([^"]*\)".*/\1/'; }
  token >token.new && mv token.new token
  (umask 077 && echo secret >password && echo wrong >wrong)
  export PLAIT_ELASTIC_AT="etcds://127.0.0.1:$port" PLAIT_JOB=secured LEASE=yes PLAIT_ELASTIC_CA="$PWD/tls/ca.pem" \
    PLAIT_ELASTIC_USER=root PLAIT_ELASTIC_PASSWORD_FILE="$PWD/password"
  begin --elastic 1:1 --restarts 1 sh member.sh
  check "a member by TLS" wait_for_lines 1
  check "a lease by TLS" has "$(member_key 0)"
  killed 0
  check "a replacement by TLS" wait_for_lines 2
  check "a lease by TLS" until_true has_not "$(member_key 0)"
  put /plait/secured/done
  killed 1
  end
  check "a job by TLS" test "$code" = 137
  check "no word of the password" test -z "$(grep -l secret out err)"
  # A launcher that does not recognise the server tells it nothing, and an unknown client learns nothing: the lease is
  # not revoked.
  for wrong in "PLAIT_ELASTIC_CA=$PWD/tls/other.pem" "PLAIT_ELASTIC_PASSWORD_FILE=$PWD/wrong"; do
    env "$wrong" "$launcher" --elastic 1:1 --restarts 1 sh -c 'exit 9' >out 2>err </dev/null || code=$?
    check "not let in: $wrong" test "$code $(grep -c 'takes its place' err)" = "9 1"
  done
  rm token
  chmod 644 password
  refuses_etcd() {
    launch --elastic 1:1 true
    check "refused: $1" test "$code $(wc -l <err)" = "2 1"
    check "refused: $1" says "^launch: $1"
  }
  refuses_etcd "PLAIT_ELASTIC_PASSWORD_FILE is '.*', which other users may read or write"
  chmod 600 password
  PLAIT_ELASTIC_USER='' refuses_etcd 'PLAIT_ELASTIC_USER and PLAIT_ELASTIC_PASSWORD_FILE belong together'
  PLAIT_ELASTIC_PASSWORD_FILE=$PWD/none refuses_etcd "PLAIT_ELASTIC_PASSWORD_FILE is '.*', which cannot be read: No such"
  PLAIT_ELASTIC_CA=$PWD/none refuses_etcd "PLAIT_ELASTIC_CA is '.*', which cannot be used: No such file"
  PLAIT_ELASTIC_CERT=$PWD/tls/job.pem refuses_etcd 'PLAIT_ELASTIC_CERT and PLAIT_ELASTIC_KEY belong together'
  chmod 600 tls/*.key
  PLAIT_ELASTIC_CERT=$PWD/tls/job.pem PLAIT_ELASTIC_KEY=$PWD/tls/server.key refuses_etcd "PLAIT_ELASTIC_CERT is .* cannot be used"
  kill -9 "$secured"
  wait "$secured" 2>/dev/null
  unset PLAIT_ELASTIC_AT PLAIT_JOB LEASE PLAIT_ELASTIC_CA PLAIT_ELASTIC_USER PLAIT_ELASTIC_PASSWORD_FILE
  PLAIT_ELASTIC_CA=/none launch --elastic 1:1 sh -c 'test -z "$PLAIT_ELASTIC_CA"'
  check "an etcd of the job's needs no certificates" test "$code" = 0
fi

# ---- Bad input ----
refuses() {
  launch "${@:2}"
  check "refused: ${*:2}" test "$code $(wc -l <err)" = "2 1"
  check "refused: ${*:2}" says "^launch: $1"
}
for range in 0:1 2:1 1 : 1: a:b 1:1000000; do refuses "--elastic takes MIN:MAX, .* not '$range'" --elastic $range true; done
refuses '-n 1 is fewer than the 2 members that --elastic 2:3 takes' --elastic 2:3 -n 1 true
refuses '--restarts is for elastic jobs' -n 2 --restarts 1 true
refuses '--at is for elastic jobs' -n 2 --at etcd://a:1 true
refuses '--restarts takes a whole number from 0 to 999999' --elastic 1:1 --restarts -1 true
for at in '' a:1 etcd:// etcds://a etcd+unix://a etcd://a etcd://a:0 etcd://a:65536 etcd://a:1, 'etcd://[1:2' "etcd://a b:1"; do
  refuses '--at takes etcd://host:port,host:port or etcds://host:port,host:port' --elastic 1:1 --at "$at" true
done
PLAIT_ELASTIC_AT=here refuses 'PLAIT_ELASTIC_AT takes etcd' --elastic 1:1 true
mkdir path
PATH="$PWD/path" "$python" -I -S "$launcher" --elastic 1:1 true 2>err
check "no etcd in PATH" says '^launch: there is no etcd in PATH; install etcd-server, or give --at'
begin --elastic 1:1 true
end
check "at the end" nothing_is_left

((failures == 0)) || echo "$failures checks failed" >&2
exit $((failures > 0))
