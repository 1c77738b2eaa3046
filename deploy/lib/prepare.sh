# shellcheck shell=bash
# Everything that is installed and built before Slipway can run on this host. Each step does nothing
# when its result is there, so that a second run takes seconds.

PROGRAM=$CACHE/bin/slipway
JOB_PROGRAM=$PROGRAM-job # its name is known to the service
GPU_HELPER=$CACHE/bin/slipway-gpu
GPU_INSIDE=$GPU_HELPER-inside # its name is known to the service
NOTEBOOK_IMAGE=slipway/notebook:1 # internal/testenv knows it by this name
CODE_IMAGE=slipway/code:1

prepare() { alone prepare_all; }

# alone COMMAND...: one at a time, since demos and tests share the caches. What it starts must not
# inherit the lock: the container engine outlives this script.
alone() {
  mkdir -p "$CACHE"
  (
    flock 9
    "$@" 9>&-
  ) 9>"$CACHE/lock"
}

prepare_all() {
  step "packages of this host" install_packages
  step "container engine" ensure_docker
  step "Apptainer" "$DEPLOY/apptainer/install"
  step "Slipway programs" build_program
  step "JupyterHub and its proxy" build_hub
  [[ -n ${BASE_IMAGE:-} ]] || step "base image" "$DEPLOY/images/base/build"
  step "notebook image" build_image
  step "VS Code image" "$DEPLOY/images/code/build" "$CODE_IMAGE" "$NOTEBOOK_IMAGE"
}

install_packages() {
  need curl=curl debootstrap=debootstrap dockerd=docker.io git=git iptables=iptables pasta=passt nft=nftables \
    "$CA_BUNDLE=ca-certificates" gcc=gcc /usr/include/stdio.h=libc6-dev
  need docker=docker-cli # since Debian 13: before, docker.io has brought it
  (python) >/dev/null 2>&1 || apt_install python3 python3-venv
}

build_program() {
  ensure_go
  build_slipway "$PROGRAM"
  build_job_program "$JOB_PROGRAM"
  build_gpu_helper "$GPU_HELPER"
  build_gpu_inside "$GPU_INSIDE"
}

build_hub() {
  local wheel
  venv "$CACHE/hub" "$DEPLOY/hub/requirements.txt"
  npm_ci "$DEPLOY/hub" "$CACHE/proxy"
  wheel=$(build_wheel "$CACHE/wheel")
  install_wheel "$CACHE/hub" "$wheel"
}

# build_test_hubs: a Hub of each major version that the Spawner speaks to, with the published OutpostSpawner beside ours.
build_test_hubs() {
  local major wheel
  wheel=$(build_wheel "$CACHE/wheel")
  for major in 5 6; do
    mkdir -p "$CACHE/hubs"
    venv "$CACHE/hubs/$major" "$DEPLOY/hub/$major/requirements.txt"
    install_wheel "$CACHE/hubs/$major" "$wheel"
  done
}

# build_ssh_client: Paramiko, beside the ssh clients that are Debian packages.
build_ssh_client() { venv "$CACHE/paramiko" "$DEPLOY/dev/ssh/requirements.txt"; }

build_image() { "$DEPLOY/images/notebook/build" "$(build_wheel "$CACHE/wheel")" "$NOTEBOOK_IMAGE"; }
