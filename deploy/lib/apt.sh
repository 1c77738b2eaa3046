# shellcheck shell=bash
# Debian packages: installs what is missing and nothing else.

# need PROGRAM=PACKAGE...: installs the packages of the programs that this host lacks. A program is a
# name on PATH, or a path.
need() {
  local pair program missing=()
  for pair; do
    program=${pair%%=*}
    command -v "$program" >/dev/null || [[ -e $program ]] || missing+=("${pair#*=}")
  done
  ((${#missing[@]})) || return 0
  apt_install "${missing[@]}"
}

apt_install() {
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 install -y -q --no-install-recommends "$@"
}
