# shellcheck shell=bash
# The Hub that runs DockerSpawner, beside the demo's. After lib.sh.

# shellcheck disable=SC2154 # begin_bench sets ports
# docker_hub: a Hub as the demo's, with DockerSpawner. Its containers reach it by the bridge.
docker_hub() {
  mkdir -p "$CACHE/bench" "$WORK/docker-hub"
  cat "$DEPLOY/hub/requirements.txt" "$BENCH/requirements.txt" >"$CACHE/bench/requirements.txt"
  venv "$CACHE/bench/hub" "$CACHE/bench/requirements.txt"
  cp "$WORK/demo/hub/"{password,*-token} "$WORK/docker-hub/"
  cd "$WORK/docker-hub"
  start_process docker-hub env PATH="$(node_bin):$PATH" PYTHONUNBUFFERED=1 \
    SLIPWAY_HUB_DIR="$WORK/docker-hub" SLIPWAY_HUB_PORT="${ports[4]}" SLIPWAY_HUB_API_PORT="${ports[5]}" \
    SLIPWAY_HUB_PROXY_PORT="${ports[6]}" SLIPWAY_SERVICE_URL=http://127.0.0.1:9 \
    SLIPWAY_HUB_PROXY="$CACHE/proxy/node_modules/.bin/configurable-http-proxy" \
    SLIPWAY_BENCH_CONTAINER="$WORK/container.json" \
    "$CACHE/bench/hub/bin/jupyterhub" --config "$BENCH/dockerspawner_config.py"
  wait_for docker-hub 60 answers "http://127.0.0.1:${ports[4]}/hub/health"
}
