# shellcheck shell=bash
# What every script under deploy/ begins with: strict mode, the paths, and how to give up.
set -euo pipefail

DEPLOY=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPO=$(dirname "$DEPLOY")
# Everything in CACHE is made again when it is missing.
CACHE=${SLIPWAY_CACHE:-/var/cache/slipway}
# The host's certificate authorities. Where outgoing TLS is inspected, the authority that does it
# is known to the host alone: builds are handed this file.
CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt
export DEPLOY REPO CACHE CA_BUNDLE

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

need_root() {
  [[ $(id -u) == 0 ]] || die "needs root: run it with sudo"
}

# hash_of PATH...: one digest over the names and contents of these files and of all files below
# these directories, as they are given: relative ones give one digest to all checkouts. Files that tools
# leave behind while running do not count.
hash_of() {
  find "$@" -type f \
    -not -path '*/__pycache__/*' -not -path '*/.*_cache/*' -not -path '*/node_modules/*' \
    -not -path '*/*.egg-info/*' -not -path '*/build/*' -not -path '*/dist/*' -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-16
}
