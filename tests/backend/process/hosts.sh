#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks on two "hosts": network and UTS name spaces of this machine that a cable joins. The losses are
# equal to those with threads, and the plan lists the groups that cross hosts.
#   [TRAIN_GPT=PROGRAM] hosts.sh SCRATCH_DIR FLIGHT GLOO_TRAINED|none [LIBRARY LAUNCHER TRAINED]...
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
scratch="$1" flight="$2" gloo="$3"
shift 3
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
export PLAIT_FLIGHT_RECORD="$PWD/records"
unset PLAIT_INTERFACE GLOO_SOCKET_IFNAME PLAIT_RENDEZVOUS
failures=0
complain() {
  printf 'hosts.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}

# The name spaces live as long as the processes that sleep in them.
holders=()
end_all() { ((${#holders[@]} == 0)) || kill "${holders[@]}" 2>/dev/null; }
trap end_all EXIT
for host in a b; do
  # A host needs its own /sys, in which UCX looks for interfaces.
  unshare --net --uts --mount sh -c "mount -t sysfs plait /sys && hostname plait-$host && : >'up.$host' &&
    exec sleep 600" 2>"unshare.$host" &
  holders+=($!)
done
for host in a b; do
  for ((tries = 0; tries < 3000; ++tries)); do
    [[ ! -e up.$host ]] && kill -0 "${holders[@]}" 2>/dev/null || break
    sleep 0.02
  done
  if [[ ! -e up.$host ]]; then
    echo "skipped: name spaces are not permitted here: $(cat unshare.a)"
    exit 0
  fi
done
in_host() { # in_host a|b COMMAND...
  local pid="${holders[0]}"
  [[ $1 == a ]] || pid="${holders[1]}"
  shift
  nsenter --target "$pid" --net --uts --mount -- "$@"
}
if ! ip link add "pa$$" type veth peer name "pb$$" 2>ip.err; then
  echo "skipped: a cable between the hosts cannot be made: $(cat ip.err)"
  exit 0
fi
ip link set "pa$$" netns "${holders[0]}" name cable
ip link set "pb$$" netns "${holders[1]}" name cable
number=1
for host in a b; do
  in_host $host ip addr add "10.77.$(($$ % 250)).$number/24" dev cable
  in_host $host ip link set cable up
  in_host $host ip link set lo up
  number=$((number + 1))
done
net="10.77.$(($$ % 250))"
for host in a b; do in_host $host ip route add default via "$net.1" dev cable 2>/dev/null; done
# reach: returns when each host reaches the other. A cable that was just connected carries nothing
# for a moment, and a host that looked for the other meanwhile reports a missing route.
reach() {
  local host other tries
  for host in a b; do
    other=$([[ $host == a ]] && echo 2 || echo 1)
    for ((tries = 0; tries < 200; ++tries)); do
      in_host $host ip neigh flush dev cable
      [[ $(in_host $host timeout 5 bash -c "exec 3<>/dev/tcp/$net.$other/9" 2>&1) != *refused* ]] || break
      sleep 0.1
    done
    ((tries < 200)) || complain "host $host does not reach $net.$other"
  done
}
reach

# The command by which an MPI launcher reaches another host: agent HOST COMMAND...
cat >agent <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host="\$1"
shift
case "\$host" in
  $net.1 | plait-a) pid=${holders[0]} ;;
  *) pid=${holders[1]} ;;
esac
exec nsenter --target "\$pid" --net --uts --mount -- sh -c "\$*"
END
chmod 755 agent
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# end_in_hosts: ends the processes that a launcher has left on the hosts.
end_in_hosts() {
  local holder process
  for holder in "${holders[@]}"; do
    for process in /proc/[0-9]*; do
      [[ $process == "/proc/$holder" || $(readlink "$process/ns/net" 2>/dev/null) != "$(readlink "/proc/$holder/ns/net")" ]] ||
        kill -KILL "${process#/proc/}" 2>/dev/null
    done
  done
}
# cut_cable COMMAND...: cuts the cable when the command has run for a while; the ranks must end. Launchers of MPI,
# which lose their own connections, may wait longer.
cut_cable() {
  local begin log=out
  [[ $what != gloo* ]] || log=out.0
  rm -rf records
  : >$log
  "$@" &
  local job=$!
  for ((tries = 0; tries < 3000; ++tries)); do [[ ! -s $log ]] || break; sleep 0.02; done
  sleep 0.3
  begin=$SECONDS
  in_host a ip link set cable down
  for ((tries = 0; tries < 400; ++tries)); do
    pgrep -f "^[^ ]*$(basename "$program") [a-z]* dp2.pp2 ranked steps=1000000" >/dev/null || break
    sleep 0.1
  done
  ((SECONDS - begin <= 20)) || complain "$what: the ranks took more than 20 s to end"
  [[ $what == gloo* ]] || end_in_hosts
  wait "$job" && complain "$what: it ends well"
  in_host a ip link set cable up
  reach
  "$flight" records >said 2>&1
  grep -qE "rank [0-3] (.* )?on host plait-[ab].* on group [{].*[}] [(](data x )?stage[)]" said || complain "$what: flight says: $(cat said)"
}
# says WORDS TIMES: checks err.
says() {
  [[ $(grep -cE -e "$1" err) == "$2" ]] || complain "$what: '$1' is not said $2 times: $(cat err)"
}
# mpi RANKS_PER_HOST PROGRAM...: in blocks of ranks, or by turns if by_turns is set.
mpi() {
  local each="$1"
  shift
  if [[ $library == openmpi ]]; then
    local order=slot
    [[ -z ${by_turns:-} ]] || order=node
    in_host a timeout 250 "$launcher" --oversubscribe --map-by $order --mca plm_rsh_agent "$PWD/agent" \
      --mca btl_tcp_if_include "$net.0/24" --mca oob_tcp_if_include "$net.0/24" \
      --host "$net.1:$each,$net.2:$each" "$@" >out 2>err </dev/null
  else
    local ppn="$each"
    [[ -z ${by_turns:-} ]] || ppn=1
    in_host a env UCX_TLS=tcp,self timeout 250 "$launcher" -launcher ssh -launcher-exec "$PWD/agent" \
      -hosts "$net.1,$net.2" -ppn "$ppn" -n $((2 * each)) "$@" >out 2>err </dev/null
  fi
}
# ended_behind_the_job: MPICH over TCP stood still in MPI_Finalize (2 of 30 jobs), after the job, and plait ended
# the rank with a sentence. Hydra loses the sentence if it then writes to the rank that has ended.
ended_behind_the_job() {
  [[ $library == mpich ]] || return 1
  grep -q "^plait: MPI_Finalize waits for processes" err && return 0
  grep -q "^allocated 0 times" err && grep -q "HYDU_sock_write .*Broken pipe" err && ! grep -qE "^plait: [^p]|BAD TERMINATION" err
}
# trains RANKS_PER_HOST PROGRAM ARGUMENTS...: the numbers are those in the file threads.
trains() {
  local code=0
  mpi "$@" || code=$?
  ((code == 0)) || ended_behind_the_job || complain "$what: exit code $code: $(cat err)"
  cmp -s threads <(head -n "$(wc -l <threads)" out) || complain "$what: not the numbers of threads: $(diff threads out)"
}
while (($# > 0)); do
  library="$1" launcher="$2" trained="$3"
  shift 3
  for plan in dp2 tp2 dp2.tp2.pp2; do
    what="$library, $plan"
    each=1
    [[ $plan != dp2.tp2.pp2 ]] || each=4
    "$trained" threads "$plan" ranked >threads
    trains $each "$trained" mpi "$plan" ranked
    crossing=0
    [[ $plan != tp2 ]] || crossing=1
    says "^plait: processes: tensor groups have ranks on several of the hosts plait-a, plait-b: .0,1.;" $crossing
  done
  what="$library, by turns"
  by_turns=1
  trains 4 "$trained" mpi dp2.tp2.pp2 ranked
  says "tensor groups" 0
  by_turns=
  if [[ $gloo != none ]]; then
    what="gloo by $library"
    trains 4 env PLAIT_INTERFACE=cable PLAIT_RENDEZVOUS="$PWD/rendezvous" "$gloo" gloo dp2.tp2.pp2 ranked
  fi
  if [[ -n ${TRAIN_GPT:-} && $library == openmpi ]]; then
    what="train_gpt --explain"
    mpi 1 "$TRAIN_GPT" --explain --backend mpi --plan tp2 || complain "$what: exit code $?: $(cat err)"
    grep -q "^  tensor groups that cross hosts: {0,1}" out || complain "$what: $(cat out)"
  fi
  what="$library, the cable is cut"
  program="$trained"
  cut_cable mpi 2 "$trained" mpi dp2.pp2 ranked steps=1000000 timeout=1000
  grep -qE "^plait: rank [0-3] on host plait-[ab]: .* [(](data x )?(stage|data)[)] has waited 1000 ms" err || complain "$what: $(cat err)"
done
# gloo_job RANKS_PER_HOST PROGRAM...: the ranks alternate between hosts if by_turns is set; out and
# err have the output of all ranks.
gloo_job() {
  local each="$1" rank host processes=()
  shift
  for ((rank = 0; rank < 2 * each; ++rank)); do
    if [[ -n ${by_turns:-} ]]; then host=$((rank % 2)); else host=$((rank / each)); fi
    in_host "$([[ $host == 0 ]] && echo a || echo b)" env PLAIT_INTERFACE=cable RANK=$rank WORLD_SIZE=$((2 * each)) LOCAL_RANK=0 \
      PLAIT_RENDEZVOUS="$PWD/rendezvous" timeout 250 "$@" >"out.$rank" 2>"err.$rank" </dev/null &
    processes+=($!)
  done
  local code=0
  wait "${processes[@]}" || code=1
  for rank in "${!processes[@]}"; do wait "${processes[rank]}" || code=1; done
  cat out.* >out
  cat err.* >err
  rm -f out.* err.*
  return $code
}
if [[ $gloo != none ]]; then
  for case in "1 dp2" "1 tp2" "4 dp2.tp2.pp2" "4 dp2.tp2.pp2 by_turns"; do
    read -r each plan by_turns <<<"$case"
    what="gloo, $case"
    "$gloo" threads "$plan" ranked >threads
    gloo_job "$each" "$gloo" gloo "$plan" ranked || complain "$what: exit code $?: $(cat err)"
    cmp -s threads out || complain "$what: not the numbers of threads: $(diff threads out)"
    crossing=0
    [[ $plan != tp2 ]] || crossing=1
    says "^plait: processes: tensor groups have ranks on several of the hosts plait-a, plait-b: .0,1.;" $crossing
  done
  what="gloo, the cable is cut" by_turns=
  program="$gloo"
  cut_cable gloo_job 2 "$gloo" gloo dp2.pp2 ranked steps=1000000 timeout=1000
  grep -qE "^trained: rank [01] on host plait-a: .* has waited 1000 ms for rank [23] on host plait-b" err || complain "$what: $(cat err)"
fi

((failures == 0)) && echo "trained on two hosts"
((failures == 0))
