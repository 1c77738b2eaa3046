# shellcheck shell=bash
# Node programs from pinned lock files, with the node of the Hub's Python environment.

# npm_ci SOURCE DIR: installs SOURCE/package-lock.json into DIR, or again when the list changed.
npm_ci() {
  local source=$1 dir=$2 hash
  hash=$(cat "$source/package.json" "$source/package-lock.json" | sha256sum)
  if [[ -f $dir/made-from && $(<"$dir/made-from") == "$hash" ]]; then return; fi
  rm -rf "$dir"
  mkdir -p "$dir"
  cp "$source/package.json" "$source/package-lock.json" "$dir/"
  # npm brings its own list of authorities: it is told of the host's.
  (cd "$dir" && PATH=$CACHE/hub/bin:$PATH NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$CA_BUNDLE} \
    npm ci --ignore-scripts --no-audit --no-fund)
  echo "$hash" >"$dir/made-from"
}
