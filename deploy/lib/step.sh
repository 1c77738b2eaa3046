# shellcheck shell=bash
# Progress for people: one line per step with its time; the details go to a log file.

# step NAME COMMAND...: runs a function or program. LOG receives what it writes. When it fails, the
# end of that is shown and the script ends. The command runs in a subshell: it cannot set variables.
step() {
  local name=$1 began=$EPOCHREALTIME status from
  shift
  mkdir -p "$(dirname "$LOG")"
  touch "$LOG"
  from=$(($(stat -c %s "$LOG") + 1))
  printf '==> %-44s ' "$name"
  # Not `if`: bash would ignore `set -e` in the whole command.
  set +e
  (
    set -e
    "$@"
  ) >>"$LOG" 2>&1 </dev/null
  status=$?
  set -e
  if ((status == 0)); then
    printf '%7s s\n' "$(seconds_since "$began")"
    return
  fi
  printf 'FAILED after %s s\n' "$(seconds_since "$began")"
  {
    echo "The end of its output:"
    tail -c "+$from" "$LOG" | tail -n 25 | sed 's/^/    /'
    echo "All of it: $LOG"
  } >&2
  exit 1
}

# seconds_since EPOCHREALTIME: with one decimal.
seconds_since() {
  local now=$EPOCHREALTIME
  local tenths=$(((${now/[.,]/} - ${1/[.,]/} + 50000) / 100000))
  echo "$((tenths / 10)).$((tenths % 10))"
}
