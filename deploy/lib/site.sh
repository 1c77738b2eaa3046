# shellcheck shell=bash
# What the demo's service and Hub are told: secrets, and Slipway's configuration. Everything lies in
# STATE: hub/ (the Hub's database and the secrets, root's alone), data/ (the service's), homes/.

make_dirs() {
  # Jobs run as their users, who need the way to their homes and to nothing else.
  install -d -m 711 "$STATE" "$STATE/homes" "$STATE/scratch"
  install -d -m 700 "$STATE/hub" "$LOGS" "$RUN"
}

# make_secrets: each is made once and kept, or sessions would lose their Hub at a restart.
make_secrets() {
  local name
  for name in spawner-token service-token check-token proxy-token; do
    [[ -s $STATE/hub/$name ]] || random_hex | write_secret "$STATE/hub/$name"
  done
  # The demo's password is told to whoever starts it. It listens on this machine alone.
  [[ -s $STATE/hub/password ]] || echo "${SLIPWAY_DEMO_PASSWORD:-demo}" | write_secret "$STATE/hub/password"
}

random_hex() { od -An -tx1 -N32 /dev/urandom | tr -d ' \n'; }

# write_secret FILE: from standard input; no other user can read it at any moment.
write_secret() { (umask 077 && cat >"$1.new" && mv "$1.new" "$1"); }

# write_config: Slipway's configuration. Half of this machine's memory and all its processors are
# for sessions, and as much for jobs: a demo has few of either at a time. Its GPUs are simulated. A file
# that somebody has edited stays as it is; what it would be lies beside it.
write_config() {
  local cpus gib edited=
  ! config_edited || edited=yes
  cpus=$(nproc)
  gib=$(awk '/^MemTotal:/ { half = int($2 / 2 / 1024 / 1024); print half ? half : 1 }' /proc/meminfo)
  cat >"$STATE/slipway.yaml.demo.new" <<END
# Written by deploy/demo. \`slipway config example\` explains every key. Edit it as you like: what you
# have edited, the demo keeps; it takes it up with \`demo start\` or \`demo crash\`.
listen: 127.0.0.1:$SERVICE_PORT
data_dir: $STATE/data
instance: $INSTANCE
hubs:
  - name: demo
    api_url: http://127.0.0.1:$HUB_API_PORT/hub/api
    url: "${URL:-}"
    service: slipway
    spawner_token_file: $STATE/hub/spawner-token
    token_file: $STATE/hub/service-token
    unknown_sessions: {action: stop}
    admin_users: [admin] # whoever logs in by that name
users:
  uids: 20000-29999
  gid: 100
  homes: $STATE/homes
images:
  - {name: notebook, display_name: "Python 3.13, JupyterLab, numpy", ref: "$NOTEBOOK_IMAGE"}
  - {name: code, display_name: "Python 3.13, JupyterLab, numpy, VS Code", ref: "$CODE_IMAGE"}
profiles:
  - name: small
    display_name: Small
    description: One processor, for trying things out
    kind: lab
    images: [notebook, code]
    cpus: 1
    max_cpus: $cpus
    memory: 1G
    max_memory: ${gib}G
    idle_limit: 8h
    max_age: 168h
    default: true
  - name: large
    display_name: Large
    description: All of this machine's processors
    kind: lab
    images: [notebook]
    cpus: $cpus
    memory: $((gib < 2 ? gib : 2))G
    max_memory: ${gib}G
  - name: code
    display_name: VS Code
    description: An editor in the browser, with terminals, notebooks and a debugger
    kind: code
    images: [code]
    cpus: 1
    max_cpus: $cpus
    memory: 1G
    max_memory: ${gib}G
  - name: rescue
    display_name: Rescue
    description: Comes up with a full home, to make room in it
    kind: lab
    images: [notebook]
    cpus: 1
    memory: 1G
    rescue: true
  - name: gpu
    display_name: GPU slice (simulated)
    description: A seventh of a GPU that does not exist, to see how slices work
    kind: lab
    images: [notebook]
    cpus: 1
    max_cpus: $cpus
    memory: 1G
    max_memory: ${gib}G
    gpu: 1g.18gb
$(pool_profile)
kernels: # single ones, each with a container and a slice of its own, for Jupyter Servers anywhere
  specs:
    - {name: python, display_name: Python, profile: small, idle_limit: 30m}
    - {name: python-gpu, display_name: "Python (GPU slice, simulated)", profile: gpu, gpus: [3g.71gb, whole], idle_limit: 30m}
$(pool_kernel)
data:
  areas:
    - {name: scratch, path: "$STATE/scratch/{name}", inside: /scratch, write: true, create: true}
ssh: {listen: "127.0.0.1:$SSH_PORT", host: 127.0.0.1}
vscode: {gallery: "${SLIPWAY_DEMO_GALLERY:-}"}
jobs: {max_cpus: $cpus, max_memory: ${gib}G, default_cpus: 1, default_memory: 1G, default_time: 10m, max_time: 2h, gpus: ["*"]}
docker: {max_total_cpus: $((cpus * 2)), max_total_memory: ${gib}G}
local: {apptainer: apptainer, max_jobs: $cpus}
gpu:
  driver: simulated # no such hardware exists; everything that shows them says so
  simulated: [H200/mig, H200]
  devices: [{match: 0, mode: mig}, {match: 1, mode: whole}]
$(pool_config)
END
  mv "$STATE/slipway.yaml.demo.new" "$STATE/slipway.yaml.demo"
  if [[ -z $edited ]]; then
    cp "$STATE/slipway.yaml.demo" "$STATE/slipway.yaml.new"
    mv "$STATE/slipway.yaml.new" "$STATE/slipway.yaml"
  fi
}

# config_edited: the configuration is not what the demo has written last.
config_edited() {
  [[ -f $STATE/slipway.yaml && -f $STATE/slipway.yaml.demo ]] && ! cmp -s "$STATE/slipway.yaml" "$STATE/slipway.yaml.demo"
}
