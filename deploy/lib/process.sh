# shellcheck shell=bash
# Programs that outlive the script that started them. Each has NAME.pid under RUN and its output in
# NAME.log under LOGS. A pid file also holds the process's start time: a number that the kernel has
# given to another process since is not taken for it.

# start_process NAME COMMAND...: in a session of its own, away from the terminal. A running one stays.
start_process() {
  local name=$1
  shift
  if process_runs "$name"; then return; fi
  mkdir -p "$RUN" "$LOGS"
  setsid "$@" >>"$LOGS/$name.log" 2>&1 </dev/null &
  echo "$! $(start_time $!)" >"$RUN/$name.pid"
}

# start_time PID: in clock ticks since boot; empty when there is no such process. The name in the
# second field of stat may hold anything, so the fields are counted from its closing bracket.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  stat=${stat##*) }
  # shellcheck disable=SC2086 # to be split
  set -- $stat
  [[ $1 == Z ]] || echo "${20}"
}

process_runs() {
  local pid began
  [[ -f $RUN/$1.pid ]] || return 1
  read -r pid began <"$RUN/$1.pid"
  [[ -n $began && $(start_time "$pid") == "$began" ]]
}

# stop_process NAME SECONDS: asks it to end and insists after that time. A process that is gone
# already is success.
stop_process() {
  local name=$1 patience=$2 pid began deadline
  if process_runs "$name"; then
    read -r pid began <"$RUN/$name.pid"
    kill -TERM "$pid" || true
    deadline=$((SECONDS + patience))
    while process_runs "$name"; do
      if ((SECONDS >= deadline)); then
        echo "$name did not end within $patience s: killed"
        # The whole group: its children must not be left behind.
        kill -KILL -- "-$pid" 2>/dev/null || kill -KILL "$pid" || true
        deadline=$((SECONDS + patience))
      fi
      sleep 0.1
    done
  fi
  rm -f "$RUN/$name.pid"
}

# end_tree PID SECONDS: asks a process, and all below it that are of its session, to end, and insists after that time.
end_tree() {
  local pids deadline=$((SECONDS + $2))
  mapfile -t pids < <(tree "$1")
  kill -TERM "${pids[@]}" 2>/dev/null || return 0
  while kill -0 "${pids[@]}" 2>/dev/null; do
    if ((SECONDS >= deadline)); then
      kill -KILL "${pids[@]}" 2>/dev/null || true
      return
    fi
    sleep 0.1
  done
}

# tree PID: that process, and all below it that are of its session.
tree() {
  ps -e -o pid= -o ppid= -o sess= | awk -v root="$1" '
    { parent[$1] = $2; session[$1] = $3 }
    END {
      for (pid in parent) {
        for (p = pid; p != root && p in parent; p = parent[p]);
        if (p == root && session[pid] == session[root]) print pid
      }
    }'
}

# wait_for NAME SECONDS COMMAND...: until the command succeeds. Gives up early when the process ends.
wait_for() {
  local name=$1 deadline=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    if ! process_runs "$name"; then
      tail -n 20 "$LOGS/$name.log"
      echo "$name has ended; its log is $LOGS/$name.log"
      return 1
    fi
    if ((SECONDS >= deadline)); then
      tail -n 20 "$LOGS/$name.log"
      echo "$name is not ready; its log is $LOGS/$name.log"
      return 1
    fi
    sleep 0.1
  done
}

# answers URL: whether it gives a 2xx.
answers() {
  curl --silent --fail --noproxy '*' --max-time 3 --output /dev/null "$1"
}

# free_ports N: below those that the kernel gives to connections, which could take one before its server listens.
free_ports() {
  "$(python)" - "$1" <<'END'
import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    try:
        held.append(socket.create_server(("127.0.0.1", random.randrange(10000, 32768))))
    except OSError:
        pass
print("\n".join(str(s.getsockname()[1]) for s in held))
END
}
