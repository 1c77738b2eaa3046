#!/usr/bin/env bash
# What a freeze costs: beside mksquashfs of the changes alone, `apptainer build` from the engine, and cp; on a file system that shares
# blocks (XFS) and on one that does not (ext4), each in a file of its own.
#
#   freeze.sh [--quick | --medium | --large] [--on xfs|ext4] [--rounds N] [--no-build]
#
#   --quick      the notebook image, which is there already, with a change of 195 MB
#   --medium     the image of 2.2 GB alone, with a change of 195 MB
#   --large      the image of 6.4 GB alone, with a change of 441 MB; without any of these, medium and large
#   --on         one of the two file systems alone
#   --no-build   without `apptainer build`, which takes 2 to 15 minutes for each image
#
# The two images are made of Debian's packages, once, and stay in the engine: slipway/bench-freeze. Needs root, the Docker Engine,
# mksquashfs, Apptainer, mkfs.xfs, mkfs.ext4 and fstrim, and 30 GB of free disk for the largest build. Tables go to standard output.
source "$(dirname "$0")/lib.sh"

sizes=(medium large) kinds=(xfs ext4) rounds=5 build=-baseline
while (($#)); do
  case $1 in
    --quick) sizes=(quick) && shift ;;
    --medium) sizes=(medium) && shift ;;
    --large) sizes=(large) && shift ;;
    --on) kinds=("$2") && shift 2 ;;
    --rounds) rounds=$2 && shift 2 ;;
    --no-build) build= && shift ;;
    -h | --help) sed -n '2,/^[^#]/{/^[^#]/d;s/^# \{0,1\}//p}' "$0" && exit ;;
    *) die "unknown argument $1: see --help" ;;
  esac
done

need_root
WORK=$(mktemp -d /var/tmp/slipway-bench.XXXXXX)
# shellcheck disable=SC2034 # where step writes
LOG=$WORK/bench.log
BOX=$(basename "$WORK")
trap end EXIT
trap 'exit 130' INT TERM

end() {
  local status=$?
  trap - EXIT
  docker rm --force "$BOX" >/dev/null 2>&1 || true
  # What an interrupted measurement left mounted lies below the file system that it measured.
  awk -v below="$WORK/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r mount; do umount "$mount"; done || status=1
  if ((status == 0)); then rm -rf --one-file-system "$WORK"; else echo "Logs are kept in $WORK" >&2; fi
  exit "$status"
}

# image SIZE: its name. One that is there is kept.
image() {
  local tag=slipway/bench-freeze:$1 more=
  [[ $1 != quick ]] || { echo "$NOTEBOOK_IMAGE" && return; }
  [[ $1 != large ]] || more="gcc g++ gfortran clang llvm openmpi-bin libopenmpi-dev default-jdk texlive texlive-latex-extra texlive-fonts-extra r-base octave rustc rust-src"
  docker image inspect "$tag" >/dev/null 2>&1 ||
    docker build --network host --build-arg "COMPILERS=$more" --tag "$tag" "$BENCH/freeze/fixture" >&2
  echo "$tag"
}

# change SIZE: starts the container and changes it.
change() {
  local from=/usr/lib/python3/dist-packages megabytes=165
  [[ $1 != quick ]] || from=/opt/env/lib/python3.13/site-packages
  [[ $1 != large ]] || megabytes=410
  docker run --detach --network none --user 0 --entrypoint sleep --name "$BOX" "$(image "$1")" infinity >/dev/null
  docker exec --interactive --user 0 "$BOX" sh -s "$from" "$megabytes" <"$BENCH/freeze/fixture/change"
}

# format KIND: an empty file system at WORK/KIND, which writes to the disk directly: as on a disk of its own, nothing is kept, nor flushed,
# twice.
format() {
  local device
  truncate -s 30G "$WORK/$1.image"
  "mkfs.$1" -q "$WORK/$1.image"
  mkdir "$WORK/$1"
  device=$(losetup --direct-io=on --find --show "$WORK/$1.image")
  mount "$device" "$WORK/$1"
  losetup --detach "$device" # goes with the mount
}

unformat() {
  umount "$WORK/$1"
  rm -r "${WORK:?}/$1" "$WORK/$1.image"
}

# machine: what the figures were measured on, with the load at this moment.
machine() {
  printf '%s, kernel %s, %s cores, %s, load %s' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(uname -r)" "$(nproc)" \
    "$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)" "$(cut -d ' ' -f 1-3 /proc/loadavg)"
}

# measure SIZE KIND: one table. The usual way is run on XFS alone: it writes to the host's own file systems anyway.
measure() {
  local before baseline=$build
  [[ $2 == xfs ]] || baseline=
  before=$(machine)
  # shellcheck disable=SC2086 # an empty argument is none
  "$WORK/freeze" -container "$BOX" -dir "$WORK/$2" -rounds "$rounds" $baseline >"$WORK/table"
  printf '\n**%s, %s**: %s before and %s after\n\n' "$1" "$2" "$before" "$(cut -d ' ' -f 1-3 /proc/loadavg)"
  cat "$WORK/table"
}

ensure_go
(cd "$REPO" && go build -o "$WORK/freeze" ./deploy/bench/freeze)
for size in "${sizes[@]}"; do
  step "image and changes, $size" change "$size" >&2
  for kind in "${kinds[@]}"; do
    step "file system, $kind" format "$kind" >&2
    measure "$size" "$kind"
    step "end of $kind" unformat "$kind" >&2
  done
  docker rm --force "$BOX" >/dev/null
done
