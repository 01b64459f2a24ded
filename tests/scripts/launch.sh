#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/launch: what ranks find, what becomes of their output, and that nothing is left of them however they
# or the launcher end. Arguments: a scratch folder, and the launcher, if another than scripts/launch.
set -uo pipefail
folder="$1"
[[ ! -f $folder ]] || { echo "the first argument is a scratch folder, which is emptied, not a file" >&2; exit 2; }
launcher="${2:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/scripts/launch}"
if ! command -v python3 >/dev/null; then
  echo "skipped: python3 was not found"
  exit 77
fi
rm -rf "$folder" && mkdir -p "$folder/tmp" && cd "$folder" || exit 1
export TMPDIR="$folder/tmp"
unset PLAIT_RENDEZVOUS PLAIT_JOB_SECRET_FILE
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
  "$launcher" "$@" >out 2>err </dev/null || code=$?
  check "no traceback" is_quiet
}
# begin ARGUMENT...: the same in the background as the process $begun; end waits for it. Its processes are marked.
# Shells have background processes ignore SIGINT.
begin() {
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
prints() { [[ $(sort out) == "$1" ]]; }
processes() { grep -lsz "^MARK=of $$\$" /proc/[0-9]*/environ | wc -l; }
# until_true CONDITION...: waits up to a minute for the condition, because the machine may be slow.
until_true() {
  local turn
  for turn in {1..1200}; do
    "$@" && return 0
    sleep 0.05
  done
  return 1
}
has_processes() { (($(processes) == $1)); }
has_lines() { (($(wc -l <out) >= $1)); }
# Waits until there are this many marked processes.
wait_for() { until_true has_processes "$1"; }
# The process of the launcher that does the work: its only child.
worker() { cut -d ' ' -f 1,4 /proc/[0-9]*/stat 2>/dev/null | awk -v of="$begun" '$2 == of { print $1 }'; }
nothing_is_left() { wait_for 0 && [[ -z $(ls tmp) ]]; }
wait_for_lines() { until_true has_lines "$1"; }
states() { grep -lsz "^MARK=of $$\$" /proc/[0-9]*/environ | sed s/environ/stat/ | xargs cut -d ' ' -f 3; }
is_stopped() { [[ $(cut -d ' ' -f 3 "/proc/$begun/stat") == T ]]; }
ranks_are_stopped() { (($(states | grep -c T) >= 3)); }
# Takes no processor for half a second.
is_idle() {
  local before
  before=$(cat "/proc/$begun/stat" "/proc/$worker/stat" | cut -d ' ' -f 14,15)
  sleep 0.5
  [[ $before == "$(cat "/proc/$begun/stat" "/proc/$worker/stat" | cut -d ' ' -f 14,15)" ]]
}
with_children='(setsid sh -c "sleep 60 & exec sleep 60" >/dev/null 2>&1 &); sleep 60 & exec sleep 60'

# ---- What ranks find ----
export OMPI_COMM_WORLD_RANK=7 RANK=7 PMIX_RANK=7 SLURM_PROCID=7
launch -n 3 sh -c 'echo $PLAIT_RANK $PLAIT_WORLD_SIZE $PLAIT_LOCAL_RANK $PLAIT_LOCAL_SIZE \
  $RANK $OMPI_COMM_WORLD_RANK $PMIX_RANK $SLURM_PROCID; stat -c %a "$(dirname "$PLAIT_RENDEZVOUS")" >&2
  test ! -e "$PLAIT_RENDEZVOUS"; echo "$PLAIT_JOB" >>jobs; cat >&2'
unset OMPI_COMM_WORLD_RANK RANK PMIX_RANK SLURM_PROCID
check numbers prints "[0] 0 3 0 3
[1] 1 3 1 3
[2] 2 3 2 3"
check "exit code" test "$code" = 0
check "folder of the rendezvous" says '^\[0\] 700$'
launch -n 2 sh -c 'echo "$PLAIT_JOB" >>jobs'
check "a job is one" test "$(sort -u jobs | wc -l) $(wc -l <jobs)" = "2 5"
PLAIT_RENDEZVOUS=/somewhere/else PLAIT_JOB_SECRET_FILE=/mine launch -n 1 sh -c 'echo "$PLAIT_RENDEZVOUS $PLAIT_JOB_SECRET_FILE"'
check "rendezvous and secret of the user's" prints "[0] /somewhere/else /mine"
for i in 1 2; do
  PLAIT_RENDEZVOUS=/somewhere/else launch -n 2 sh -c 'stat -c "%a %s" "$PLAIT_JOB_SECRET_FILE"; cat "$PLAIT_JOB_SECRET_FILE" >secret.$PLAIT_RANK'
  check "a secret of the job" prints "[0] 600 32
[1] 600 32"
  check "one for all ranks" cmp secret.0 secret.1
  cat secret.0 >>secrets
done
check "another one for each job" test "$(split -b 32 --filter=sha256sum secrets | sort -u | wc -l)" = 2
check "nothing is left of it" test -z "$(ls -A "$TMPDIR")"
echo given | "$launcher" -n 2 cat >out 2>err
check "standard input" prints "[0] given"
launch -n 64 sh -c 'echo $PLAIT_RANK'
check "64 processes" test "$code $(sort -u out | wc -l)" = "0 64"

# ---- Output ----
cat >lines.sh <<'END'
piece() { head -c 400000 /dev/zero | tr '\0' "$PLAIT_RANK"; }
for line in 1 2; do
  { piece; sleep 0.02; piece; sleep 0.02; piece; echo; } >&2 &
  { piece; sleep 0.03; piece; sleep 0.01; piece; echo; }
  wait
done
END
"$launcher" -n 4 sh lines.sh >out 2>&1
awk '{ rank = substr($0, 2, 1); rest = substr($0, 5)
       good += substr($0, 1, 4) == "[" rank "] " && gsub(rank, "", rest) == 1200000 && rest == "" }
     END { exit !(NR == 16 && good == 16) }' out
check "long lines are whole" test $? = 0
launch -n 2 sh -c 'printf "a\rb\377\000\n\nlast"'
printf '[0] a\rb\377\000\n[0] \n[0] last\n[1] a\rb\377\000\n[1] \n[1] last\n' >expected
LC_ALL=C sort -s -k 1,1 out | cmp -s - expected
check "bytes as they are, and a last line without its end" test $? = 0
launch --no-prefix -n 1 sh -c 'echo out; echo err >&2'
check "no prefix" test "$(cat out err)" = "out
err"
launch -n 2 sh -c 'exec >&-; sleep 0.1; echo done >&2'
check "output that a rank closes" test "$code $(grep -c done err)" = "0 2"
line="$("$launcher" -n 2 sh -c 'while echo y; do :; done' 2>err | head -n 1; echo "${PIPESTATUS[0]}")"
check "a reader that goes" grep -qzE '^\[[01]\] y.(141|1|2).$' <<<"$line"
check "no traceback" is_quiet
"$launcher" -n 2 sh -c 'echo lost; exit 4' >&- 2>&- <&-
check "no standard descriptors" test $? = 4
if [[ -c /dev/full ]]; then
  "$launcher" -n 2 sh -c 'echo lost; sleep 60' >/dev/full 2>err
  check "a full disk" test "$? $(grep -c 'cannot be written: No space' err)" = "1 1"
fi

# ---- How ranks end ----
launch -n 3 sh -c 'test $PLAIT_RANK != 1 || exit 3; exec sleep 60'
check "exit code of a rank" test "$code" = 3
check "exit code of a rank" says '^launch: rank 1 \(process [0-9]+\) ended with exit code 3; the other ranks have been ended$'
# A process that the test has waited for no longer exists.
launch --after-failure 0.5 -n 3 sh -c 'test $PLAIT_RANK != 0 || { echo $$ >rank.0; exit 5; }
  until test -s rank.0; do sleep 0.02; done
  while kill -0 "$(cat rank.0)" 2>/dev/null; do sleep 0.02; done; exit $((PLAIT_RANK + 5))'
check "the first failure counts" test "$code" = 5
begin -n 4 sh -c 'echo $$ >process.$PLAIT_RANK; echo; trap "" TERM; sleep 60; sleep 60'
check "four ranks" wait_for_lines 4
began=$(now)
kill -9 "$(cat process.2)"
end
check "kill -9 of a rank" says '^launch: rank 2 \(process [0-9]+\) was ended by signal 9 \(SIGKILL\); the other ranks have been ended$'
check "kill -9 of a rank" test "$code" = 137 -a "$took" -lt 25000
check "kill -9 of a rank" nothing_is_left
launch -n 2 sh -c "$with_children >/dev/null 2>&1 & sleep 0.1"
check "grandchildren of ranks that end" test "$code" = 0
check "grandchildren of ranks that end" nothing_is_left

# ---- How the launcher ends ----
for victim in launcher worker; do
  begin -n 3 sh -c "$with_children"
  check "ranks and grandchildren" wait_for 14
  worker=$(worker)
  check "waiting takes no processor" until_true is_idle
  began=$(now)
  case $victim in launcher) kill -9 "$begun" ;; worker) kill -9 "$worker" ;; esac
  end
  check "kill -9 of the $victim" test "$code" = 137 -a "$took" -lt 40000
  [[ $victim != launcher ]] || check "kill -9 of the launcher" until_true says '^launch: the launcher was killed; ranks 0-2 were ended$'
  check "kill -9 of the $victim" nothing_is_left
done
begin -n 3 sleep 60
check "ranks" wait_for 5
kill -9 "$begun" "$(worker)"
end
check "kill -9 of both" wait_for 0
rm -rf tmp/*

# ---- Signals ----
obeys='trap "sleep 0.3; echo saved; exit 143" TERM; echo; while :; do sleep 0.05; done'
begin -n 3 sh -c "$obeys"
check "ranks" wait_for_lines 3
kill -TERM "$begun"
end
check "SIGTERM" test "$code $(grep -c saved out)" = "143 3"
check "SIGTERM" says 'SIGTERM has been passed on'
check "SIGTERM" nothing_is_left
# A shell ends at once, its program needs some time.
cat >saver.sh <<'END'
bash -c 'trap "sleep 0.4; echo saved; exit 0" TERM; echo; while :; do sleep 0.05; done'
true
END
begin -n 2 bash saver.sh
check "ranks" wait_for_lines 2
kill -TERM "$begun"
end
check "SIGTERM to a shell and its program" test "$code $(grep -c saved out)" = "143 2"
ignores='trap "" TERM INT; echo; while :; do sleep 0.1; done'
begin -n 2 --grace 0.4 sh -c "$ignores"
check "ranks" wait_for_lines 2
began=$(now)
kill -TERM "$begun"
end
check "a rank that ignores SIGTERM" test "$code" = 137 -a "$took" -lt 20000
check "a rank that ignores SIGTERM" says '^launch: ranks 0 and 1 did not end after SIGTERM and had to be killed$'
begin -n 2 --grace 3600 sh -c "$ignores"
check "ranks" wait_for_lines 2
kill -INT "$begun"
# Two that come before the first is taken are one.
check "the first SIGINT is passed on" until_true says 'SIGINT has been passed on'
check "the first SIGINT is passed on" test "$(processes)" -ge 4
began=$(now)
kill -INT "$begun"
end
check "the second SIGINT" test "$code" = 137 -a "$took" -lt 40000
check "the second SIGINT" nothing_is_left
begin -n 2 sh -c 'trap "echo one" USR1; trap "echo two" USR2; trap "echo cont" CONT; echo; while :; do sleep 0.05; done'
check "ranks" wait_for_lines 2
kill -USR1 "$begun"; kill -USR2 "$begun"
check "SIGUSR1, SIGUSR2" wait_for_lines 6
kill -TSTP "$begun"
check "SIGTSTP" until_true is_stopped
check "SIGTSTP" until_true ranks_are_stopped
kill -CONT "$begun"
check "SIGCONT" wait_for_lines 8
kill -TERM "$begun"
end
check "after SIGCONT" test "$code" = 143
# The launcher ends although no process reads its output.
mkfifo never
exec 7<>never
MARK="of $$" "$launcher" -n 2 yes >&7 2>err &
begun=$!
check "ranks" wait_for 4
sleep 0.5
began=$(now)
kill -TERM "$begun"
end
check "a reader that sleeps" test "$code" = 143 -a "$took" -lt 40000
exec 7>&-

# ---- Bad input ----
refuses() {
  launch "${@:2}"
  check "refused: ${*:2}" test "$code $(wc -l <err)" = "2 1"
  check "refused: ${*:2}" says "^launch: $1"
}
echo 'echo no program' >text && chmod -x text
printf '\0\1\2' >binary && chmod +x binary
refuses 'how many ranks'
refuses '-n needs a value' -n
for number in 0 -1 1.5 '' ٣ 99999999999999999999; do refuses '-n takes a whole number' -n "$number" true; done
(ulimit -n 64; refuses '-n 20 takes 72 open files, but this process may open only 64' -n 20 true; exit "$failures") || failures=$?
refuses 'which program' -n 2
refuses "there is no program 'no_such_program' in PATH" -n 2 no_such_program
refuses "there is no program './no" -n 2 ./no_such_program
refuses 'there is no program .text. in PATH; write ./text' -n 2 text
refuses "'./text' is not an executable program" -n 2 ./text
refuses "'/' is not an executable program" -n 2 /
refuses 'rank 0 cannot be started: Exec format error' -n 2 ./binary
refuses "unknown option '--grac'" --grac 3 -n 2 true
refuses '--grace takes a number of seconds' -n 2 --grace soon true
refuses '--no-prefix takes no value' --no-prefix=1 -n 2 true
TMPDIR=/no/such/place refuses "the folder '/no/such/place/plait-[0-9a-f]+' cannot be made" -n 1 true
launch --help
check "help" grep -q '^  --grace SECONDS' out
words=(-n --grace --help=1 -- - = '' $'\377\n' -n=1 -n=0 1 0.2 true false --no-prefix . ./binary -1 nan inf 1e3)
RANDOM=1
for _ in {1..10}; do
  arguments=()
  for ((k = RANDOM % 5; k >= 0; --k)); do arguments+=("${words[RANDOM % ${#words[@]}]}"); done
  launch "${arguments[@]}"
  check "words by chance: ${arguments[*]@Q}: $code" test "$code" -le 2
done
check "at the end" nothing_is_left

((failures == 0)) || echo "$failures checks failed" >&2
exit $((failures > 0))
