# shellcheck shell=bash
# The container engine. On a host without systemd, nothing starts it after its installation: then
# the script does, and remembers that it did, so that `stop` ends what `start` has started.

# ensure_docker: an engine that answers, started if need be.
ensure_docker() {
  if docker_answers; then return; fi
  if [[ -d /run/systemd/system ]]; then
    systemctl start docker
  else
    # A pid file that a crash left behind keeps the engine from starting.
    [[ -f /var/run/docker.pid && ! -d /proc/$(</var/run/docker.pid) ]] && rm -f /var/run/docker.pid
    start_process dockerd dockerd
  fi
  local deadline=$((SECONDS + 60))
  until docker_answers; do
    if ((SECONDS >= deadline)); then
      tail -n 20 "$LOGS/dockerd.log" 2>/dev/null || true
      echo "the Docker Engine does not answer after 60 s"
      return 1
    fi
    sleep 0.2
  done
}

docker_answers() {
  docker version --format '{{.Server.Version}}' >/dev/null 2>&1
}
