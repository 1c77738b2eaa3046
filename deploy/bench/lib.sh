# shellcheck shell=bash
# What the benchmarks share: a demo of their own, which is purged when they end, however they end.
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
for lib in step apt process docker python node go prepare; do source "$DEPLOY/lib/$lib.sh"; done

BENCH=$DEPLOY/bench

# begin_bench: a directory and ports of this run's own; everything that it starts ends with it.
begin_bench() {
  need_root
  WORK=$(mktemp -d /var/tmp/slipway-bench.XXXXXX)
  chmod 711 "$WORK" # users of sessions pass through here to their homes
  # shellcheck disable=SC2034 # the libraries' places
  RUN=$WORK/run LOGS=$WORK/log LOG=$WORK/log/bench.log
  mkdir -p "$LOGS"
  trap end_bench EXIT
  trap 'exit 130' INT TERM
  mapfile -t ports < <(free_ports 8)
}

end_bench() {
  local status=$?
  trap - EXIT
  stop_process docker-hub 60 || status=1
  stop_process load-hub 120 || status=1
  stop_process simulated 30 || status=1
  stop_process kernels-slipway 60 || status=1
  # A start that was cut off: the names of DockerSpawner's containers begin with this run's.
  docker ps --all --quiet --filter "name=^/$(basename "$WORK")" | xargs --no-run-if-empty docker rm --force >/dev/null 2>&1 || true
  # And of a service of this run's own: the label is that of its configuration.
  docker ps --all --quiet --filter "label=slipway.instance=$(basename "$WORK")" | xargs --no-run-if-empty docker rm --force >/dev/null 2>&1 || true
  if [[ -d $WORK/demo ]]; then demo stop --purge >>"$LOG" 2>&1 || status=1; fi
  if ((status == 0)); then rm -rf "$WORK"; else echo "Logs are kept in $WORK" >&2; fi
  exit "$status"
}

# demo COMMAND: this run's own, beside any other on the machine.
demo() {
  SLIPWAY_DEMO_DIR=$WORK/demo SLIPWAY_DEMO_PORT=${ports[0]} SLIPWAY_DEMO_HUB_API_PORT=${ports[1]} \
    SLIPWAY_DEMO_PROXY_PORT=${ports[2]} SLIPWAY_DEMO_SERVICE_PORT=${ports[3]} SLIPWAY_DEMO_SSH_PORT=${ports[7]} "$DEPLOY/demo" "$@"
}

# report PROGRAM ARGUMENTS...: runs the measuring program with the Hub's Python.
report() { PYTHONPATH=$DEPLOY:$BENCH PYTHONDONTWRITEBYTECODE=1 "$CACHE/hub/bin/python" "$BENCH/$1" "${@:2}"; }
