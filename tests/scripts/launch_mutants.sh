#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether launch.sh finds faults: each copy of scripts/launch has one, and the test must fail with it. Takes some
# minutes, so ctest does not run it. Arguments: a scratch folder, and the names of mutants, if not all.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$1"
shift
mkdir -p "$folder"
survived=0
chosen=" $* "

# mutant NAME EXPECTED SED_EXPRESSION: a check whose name has EXPECTED must fail.
mutant() {
  [[ $chosen == "  " || $chosen == *" $1 "* ]] || return
  sed -E "$3" "$here/../../scripts/launch" >"$folder/$1" && chmod +x "$folder/$1"
  if cmp -s "$here/../../scripts/launch" "$folder/$1"; then
    echo "$1: the expression changes nothing" && survived=1 && return
  fi
  local code=0 process
  timeout "${LAUNCH_MUTANT_SECONDS:-120}" "$here/launch.sh" "$folder/$1.scratch" "$folder/$1" >"$folder/$1.log" 2>&1 || code=$?
  for process in $(grep -lszxF "$folder/$1" /proc/[0-9]*/cmdline | cut -d / -f 3); do kill -9 "$process"; done
  if ((code == 0)); then
    echo "$1: SURVIVED" && survived=1
  elif ((code == 124)); then
    echo "$1: found, as the test does not end"
  elif grep -qE "^FAILED: .*($2)" "$folder/$1.log"; then
    echo "$1: found by $(grep -c '^FAILED: ' "$folder/$1.log") checks: $(grep -m 1 -E "^FAILED: .*($2)" "$folder/$1.log")"
  else
    echo "$1: found, but not by '$2': $(grep -m 1 '^FAILED: ' "$folder/$1.log")" && survived=1
  fi
}

mutant broken_lines "long lines are whole" 's/^        if end or not data or .*/        if True:/; s/data\[:end\]/data/; s/bytearray\(data\[end:\]\)/bytearray()/'
mutant two_queues "long lines are whole" 's/self.out, self.err = .*/self.out, self.err = out, err/'
mutant no_end_of_line "without its end" 's/(\+ text.replace.*) \+ b"\\n"\)/\1 + lines[len(text):])/'
mutant no_death_signal "kill -9 of both" '/prctl\(PR_SET_PDEATHSIG/d'
mutant no_subreaper "grandchildren of ranks|kill -9 of the" '/prctl\(PR_SET_CHILD_SUBREAPER/d'
mutant no_inner_subreaper "grandchildren of ranks|SIGTERM to a shell" '/^            prctl\(PR_SET_CHILD_SUBREAPER/d'
mutant no_lifeline "kill -9 of the launcher" '/poll.register\(self.lifeline/s/poll.*/pass/'
mutant no_guard "kill -9 of the worker" 's/^            for process in descendants\(\):/            for process in ():/'
mutant no_groups "the first SIGINT|SIGTERM" '/os.setpgid\(0, 0\)  #/d'
mutant no_second_sigint "second SIGINT" 's/if number == signal.SIGINT and \(.*/if False:/'
mutant no_kill "ignores SIGTERM" 's/self.end\(\(grace, signal.SIGKILL\)\)/pass/'
mutant not_passed_on "SIGTERM|SIGUSR1" 's/send\(os.killpg, process, number\)/pass/'
mutant last_failure "first failure counts" 's/status == 0 or self.failed is not None/status == 0/; s/self.code or exit_code/exit_code/'
mutant no_end_after_failure "exit code of a rank|kill -9 of a rank" 's/self.end\(\(wait, signal.SIGTERM\).*/pass/'
mutant outer_ranks "numbers" 's/^OUTER_PREFIXES = .*/OUTER_PREFIXES = ("none",)/'
mutant folder_stays "nothing_is_left" 's/shutil.rmtree\(folder.*/pass/'
mutant waits_for_reader "a reader that sleeps" 's/1 if self.stopped_by else None/None/'
mutant spins "takes no processor" 's/events = poll.poll\(.*/events = poll.poll(0)/'
mutant sigpipe "a full disk|a reader that goes" 's/except OSError as problem:  # then/except KeyError as problem:  #/'

exit "$survived"
