# shellcheck shell=bash
# The demo's HTCondor pool: the one that the tests have, in containers on this machine, run by one
# program (deploy/dev/pool), which outlives the script. When that ends, nothing of the pool is left.

POOL_PROGRAM=$CACHE/bin/slipway-demo-pool
POOL=$STATE/pool      # what it tells
POOL_OWNER=slipway-demo # the account whose all jobs are, here and on the pool's machines

# prepare_pool: what it needs beside what prepare has made.
prepare_pool() {
  ensure_go
  "$DEPLOY/images/htcondor/build"
  mkdir -p "$(dirname "$POOL_PROGRAM")"
  (cd "$REPO" && CGO_ENABLED=0 go build -trimpath -o "$POOL_PROGRAM.new" ./deploy/dev/pool)
  mv "$POOL_PROGRAM.new" "$POOL_PROGRAM"
  # A number that neither the pool's machines nor the service gives to anybody.
  getent passwd "$POOL_OWNER" >/dev/null ||
    useradd --key UID_MIN=30000 --gid 100 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$POOL_OWNER"
}

# start_pool: one that runs stays as it is, for it has sessions.
start_pool() {
  if process_runs pool; then return; fi
  rm -f "$POOL/url"
  install -d -m 755 "$POOL"
  install -d -m 711 "$STATE/data" # the access point sees it
  cd "$REPO" # where it finds the image's name
  start_process pool "$POOL_PROGRAM" --dir "$POOL" --service "$SERVICE" --share "$STATE/data" --user "$POOL_OWNER:$(id -u "$POOL_OWNER")"
  wait_for pool 240 test -s "$POOL/url"
}

# pool_profile, pool_kernel, pool_config: the parts of Slipway's configuration; nothing without a pool.
pool_profile() {
  process_runs pool || return 0
  cat <<END
  - name: pool
    display_name: On the pool
    description: A worker of the HTCondor pool
    kind: lab
    images: [notebook]
    cpus: 1
    max_cpus: 4
    memory: 1G
    max_memory: 4G
    backend: htcondor
END
}

pool_kernel() {
  process_runs pool || return 0
  echo '    - {name: python-pool, display_name: "Python (HTCondor)", profile: pool, idle_limit: 30m}'
}

pool_config() {
  process_runs pool || return 0
  cat <<END
uplink: {url: "$(<"$POOL/url")", ca_file: $POOL/ca.pem} # what stands there with TLS hands all on to \`listen\`
htcondor:
  enabled: true
  bin: $POOL/bin # a site's own are on PATH
  owner: $POOL_OWNER # who logs in here has no account
  poll_interval: 1s
  max_cpus: 4
  max_memory: 4G
END
}

# pool_outside: HTCondor's own commands, as the administrator of the pool has them.
pool_outside() {
  process_runs pool || return 0
  echo "HTCondor's commands are in $POOL/bin, such as: $POOL/bin/condor_q -allusers -af ClusterId SlipwayId SlipwayUser"
}

# had_pool: whether this demo has ever had one.
had_pool() { [[ -d $POOL ]]; }

# pool_left: the account is one for the demos of all directories, and files elsewhere may be its own. So it stays, and that is said.
pool_left() {
  getent passwd "$POOL_OWNER" >/dev/null || return 0
  echo "Left here is the account $POOL_OWNER, which all demos with a pool share. Remove it with: userdel $POOL_OWNER"
}

pool_status() {
  process_runs pool || { echo "HTCondor pool does not run: $SELF start --htcondor" && return; }
  echo "HTCondor pool runs; workers: $("$POOL/bin/condor_status" -af Machine | sort -u | wc -l)," \
    "sessions and jobs in its queue: $("$POOL/bin/condor_q" -allusers -af ClusterId | wc -l)"
  pool_outside
}
