# shellcheck shell=bash
# Python environments from pinned lists.

# pip brings a list of authorities of its own: it is told of the host's.
export PIP_CERT=${PIP_CERT:-$CA_BUNDLE}

# python: the interpreter that environments are made with. The system's own first: one that a
# version manager put on PATH may go away below them.
python() {
  local name
  for name in /usr/bin/python3 python3; do
    if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  die "needs Python 3.11 or newer with venv: apt-get install python3-venv"
}

# venv DIR NAME-OF-A-REQUIREMENTS-FILE: makes the environment, or makes it again when the list
# changed. It is ready when it says from which list it was made.
venv() {
  local dir=$1 list=$2 hash
  hash=$(sha256sum <"$list")
  if [[ -f $dir/made-from && $(<"$dir/made-from") == "$hash" ]]; then return; fi
  rm -rf "$dir"
  "$(python)" -m venv "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check -r "$list"
  echo "$hash" >"$dir/made-from"
}

# build_wheel OUTDIR: builds the slipway wheel into OUTDIR, unless the one there is of these sources,
# and prints its path. The wheel's bytes depend on the sources alone.
build_wheel() {
  local out=$1 hash
  hash=$(cd "$REPO/notebooks" && hash_of src lab jupyter-config pyproject.toml)
  if [[ ! -f $out/made-from || $(<"$out/made-from") != "$hash" ]]; then
    rm -rf "$out"
    mkdir -p "$out"
    SOURCE_DATE_EPOCH=1767225600 "$CACHE/hub/bin/pip" wheel --quiet --no-deps --wheel-dir "$out" \
      "$REPO/notebooks" >&2
    echo "$hash" >"$out/made-from"
  fi
  ls "$out"/*.whl
}

# install_wheel VENV WHEEL: installs it, unless this very file is what is installed.
install_wheel() {
  local venv=$1 wheel=$2 hash
  hash=$(sha256sum <"$wheel")
  if [[ -f $venv/wheel && $(<"$venv/wheel") == "$hash" ]]; then return; fi
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
  echo "$hash" >"$venv/wheel"
}
