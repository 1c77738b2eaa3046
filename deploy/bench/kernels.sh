#!/usr/bin/env bash
# Kernels of Slipway beside Enterprise Gateway and a plain Jupyter Server, in turns: starts, round trips, output, idle connections.
#
#   kernels.sh [--rounds N] [--starts N] [--trips N] [--json FILE]
#
# All kernels are the same Python and ipykernel, those of slipway/notebook:1, and all servers run in that image too. A service of its
# own, beside any other on the machine, which it removes at the end. Needs root, Docker with that image, and Python 3.11.
source "$(dirname "$0")/lib.sh"

IMAGE=slipway/notebook:1
SERVER=(--no-browser --port-retries=0 --IdentityProvider.token= --ServerApp.disable_check_xsrf=True --ServerApp.root_dir=/tmp
  --ServerApp.terminals_enabled=False --ZMQChannelsWebsocketConnection.limit_rate=False)

build_kernels() {
  ensure_go
  build_slipway "$WORK/bin/slipway"
  (cd "$REPO" && go build -trimpath -o "$WORK/bin/idle" ./deploy/bench/kernels/idle)
  venv "$CACHE/bench-kernels" "$BENCH/kernels/requirements.txt"
  venv "$CACHE/bench-enterprise" "$BENCH/kernels/enterprise.txt"
}

# serve NAME COMMAND...: a container on the host's network, whose first process is the server.
serve() {
  local name=$1
  shift
  start_process "kernels-$name" docker run --rm --name "$(basename "$WORK")-$name" --network host --user 20000:100 --workdir /tmp --env HOME=/tmp --env USER=bench \
    --volume "$WORK/specs:/specs:ro" --volume "$ENTERPRISE:$ENTERPRISE:ro" --volume "$INTERPRETER:$INTERPRETER:ro" --volume "$LIBRARY:$LIBRARY:ro" \
    "$IMAGE" "$@"
}

# find_enterprise: Enterprise Gateway's interpreter is this host's, at its own place. Its packages are named to it alone: kernels, which are
# the image's, would find them by a variable.
find_enterprise() {
  INTERPRETER=$(readlink -f "$CACHE/bench-enterprise/bin/python")
  LIBRARY=$("$INTERPRETER" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
  ENTERPRISE=$("$CACHE/bench-enterprise/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
}

pid_of() { docker inspect --format '{{.State.Pid}}' "$(basename "$WORK")-$1"; }

configure() {
  mkdir -p "$WORK/specs/kernels/python3"
  cat >"$WORK/specs/kernels/python3/kernel.json" <<END
{"argv": ["/opt/env/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Python", "language": "python",
 "env": {"HOME": "/tmp"}}
END
  echo spawner-token-of-the-benchmark-of-kernels >"$WORK/spawner.token"
  chmod 600 "$WORK/spawner.token"
  # shellcheck disable=SC2154 # begin_bench sets ports
  cat >"$WORK/slipway.yaml" <<END
listen: 127.0.0.1:${ports[1]}
data_dir: $WORK/data
instance: $(basename "$WORK")
hubs:
  - {name: main, api_url: "http://127.0.0.1:${ports[0]}/hub/api", service: slipway, spawner_token_file: $WORK/spawner.token}
users: {uids: 20000-20999, gid: 100, homes: $WORK/homes}
images:
  - {name: notebook, display_name: Notebook, ref: "$IMAGE"}
profiles:
  - {name: small, display_name: Small, kind: lab, images: [notebook], cpus: 2, memory: 2G, default: true}
docker: {max_total_cpus: 64, max_total_memory: 64G, network: bridge}
kernels:
  max_per_user: 0
  specs:
    - {name: python, display_name: Python, profile: small}
    - {name: pooled, display_name: Pooled, profile: small, max_warm: 1}
END
}

start_all() {
  configure
  find_enterprise
  start_process kernels-slipway "$WORK/bin/slipway" serve --config "$WORK/slipway.yaml"
  wait_for kernels-slipway 60 answers "http://127.0.0.1:${ports[1]}/readyz"
  serve plain /opt/env/bin/python -m jupyter_server "${SERVER[@]}" --port="${ports[2]}"
  serve enterprise env JUPYTER_PATH=/specs "$INTERPRETER" -c "import site; site.addsitedir('$ENTERPRISE')
from enterprise_gateway.enterprisegatewayapp import launch_instance; launch_instance()" --ip=127.0.0.1 --port="${ports[3]}" --port_retries=0
  serve over-slipway env JUPYTER_GATEWAY_AUTH_TOKEN=token-of-bench /opt/env/bin/python -m jupyter_server "${SERVER[@]}" --port="${ports[4]}" \
    --gateway-url="http://127.0.0.1:${ports[1]}/kernels"
  serve over-enterprise /opt/env/bin/python -m jupyter_server "${SERVER[@]}" --port="${ports[5]}" --gateway-url="http://127.0.0.1:${ports[3]}"
  wait_for kernels-plain 90 answers "http://127.0.0.1:${ports[2]}/api"
  wait_for kernels-enterprise 90 answers "http://127.0.0.1:${ports[3]}/api"
  wait_for kernels-over-slipway 90 answers "http://127.0.0.1:${ports[4]}/api"
  wait_for kernels-over-enterprise 90 answers "http://127.0.0.1:${ports[5]}/api"
}

# idle: with the service's own setting for the collector of garbage.
idle() { GOGC=50 "$WORK/bin/idle" -dir "$WORK/idle" >"$WORK/idle.json"; }

begin_bench
step "programs" build_kernels >&2
step "idle connections" idle >&2
step "servers" start_all >&2
read -r service _ <"$RUN/kernels-slipway.pid"
PYTHONPATH=$BENCH:$BENCH/kernels PYTHONDONTWRITEBYTECODE=1 "$CACHE/bench-kernels/bin/python" "$BENCH/kernels/measure.py" \
  --hub-port "${ports[0]}" --slipway-port "${ports[1]}" --plain-port "${ports[2]}" --enterprise-port "${ports[3]}" \
  --over-slipway-port "${ports[4]}" --over-enterprise-port "${ports[5]}" --slipway-pid "$service" --plain-pid "$(pid_of plain)" \
  --enterprise-pid "$(pid_of enterprise)" --over-slipway-pid "$(pid_of over-slipway)" --over-enterprise-pid "$(pid_of over-enterprise)" \
  --pooled --idle "$WORK/idle.json" --json "$BENCH/figures/kernels.jsonl" "$@"
