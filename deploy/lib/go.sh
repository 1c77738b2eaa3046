# shellcheck shell=bash
# The Go toolchain. go.mod says which; a go of 1.21 or newer fetches that by itself, as the go
# command does (GOTOOLCHAIN=auto).

# ensure_go: has `go` on PATH afterwards, for this script and its children. Debian 12's own is too
# old to change toolchains: it fetches the toolchain like any module, and that one is used.
ensure_go() {
  PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
  # No stamp of the checkout: git refuses to read one that belongs to another user. No paths of it: all checkouts share what is compiled.
  export GOTOOLCHAIN=auto GOFLAGS=${GOFLAGS:--buildvcs=false -trimpath}
  if go_can_switch; then return; fi
  local want dir=$CACHE/go
  want=$(sed -n 's/^go //p' "$REPO/go.mod")
  PATH=$dir/$want/bin:$PATH
  if go_can_switch; then return; fi
  need go=golang-go
  if go_can_switch; then return; fi
  fetch_toolchain "$want" "$dir"
}

go_can_switch() {
  local version
  version=$(cd / && go env GOVERSION 2>/dev/null) || return 1
  version=${version#go1.}
  ((${version%%.*} >= 21))
}

# fetch_toolchain VERSION DIR: the module's archive carries no modes, so its programs get theirs here.
fetch_toolchain() {
  local module dir=$2/$1 from
  module=golang.org/toolchain@v0.0.1-go$1.linux-$(go env GOARCH)
  (cd / && env -u GOTOOLCHAIN -u GOFLAGS go mod download "$module")
  from=$(cd / && go env GOMODCACHE)/$module
  rm -rf "$dir.new"
  mkdir -p "$2"
  cp -r "$from" "$dir.new"
  chmod -R u+w "$dir.new"
  chmod +x "$dir.new"/bin/* "$dir.new"/pkg/tool/*/*
  mv "$dir.new" "$dir"
  hash -r
}

# release: the linker's flags for a program of this release, which SLIPWAY_VERSION, SLIPWAY_COMMIT and SLIPWAY_DATE name.
release() {
  local at=slipway/internal/version
  echo "-s -w${SLIPWAY_VERSION:+ -X $at.Release=$SLIPWAY_VERSION}${SLIPWAY_COMMIT:+ -X $at.Revision=$SLIPWAY_COMMIT}${SLIPWAY_DATE:+ -X $at.Date=$SLIPWAY_DATE}"
}

# build_slipway OUT: the one static program. The agent is the same file, so it must need no libc.
build_slipway() {
  mkdir -p "$(dirname "$1")"
  (cd "$REPO" && CGO_ENABLED=0 go build -trimpath -ldflags "$(release)" -o "$1" .)
}

# build_job_program OUT: the part of slipway that each job of this host is started with.
build_job_program() {
  mkdir -p "$(dirname "$1")"
  (cd "$REPO" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$1" ./internal/runner)
}

# build_gpu_helper OUT: the host's program that calls NVIDIA's libraries. It is linked lazily, else it would not start on a host
# without them. The last word counts, and both compilers and CGO_LDFLAGS may say "now" before. NVIDIA's header marks some functions
# as old.
build_gpu_helper() {
  mkdir -p "$(dirname "$1")"
  (cd "$REPO" && CGO_ENABLED=1 CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} -Wno-deprecated-declarations" CGO_LDFLAGS="${CGO_LDFLAGS:-} -Wl,-z,lazy" \
    go build -trimpath -ldflags "$(release) -extldflags \"-z lazy\"" -o "$1" ./internal/gpu/helper)
}

# build_gpu_inside OUT: the same without cgo, for sessions and jobs. It asks for no version of glibc, and so starts in images that
# are older than this host.
build_gpu_inside() {
  mkdir -p "$(dirname "$1")"
  (cd "$REPO" && CGO_ENABLED=0 go build -trimpath -buildmode=exe -ldflags "$(release)" -o "$1" ./internal/gpu/helper)
}
