package config

import (
	"slices"
	"strings"
)

// renaming is what has become of a key of an earlier version: it has another name, another place, or went.
type renaming struct {
	old, new string // paths, as in "hubs[].name"; new is empty where the key went
	because  string // what holds in place of a key that went
}

// The file has one word for one thing: max_ is the most of something, enabled switches a feature, poll_interval is the
// time between two looks, and JupyterHub's words stand for what JupyterHub has too. A new name is that of its parent's
// new place.
var renamings = []renaming{
	{old: "docker.instance", new: "instance"},
	{old: "environments.groups", new: "groups"},
	{old: "environments.hub_groups", new: "hub_groups"},
	{old: "environments.hub_groups.use", new: "hub_groups.enabled"},
	{old: "environments.hub_groups.every", new: "hub_groups.poll_interval"},
	{old: "environments.hub_groups.fresh", new: "hub_groups.max_age"},
	{old: "environments.keep", new: "environments.retention"},
	{old: "environments.keys", new: "environments.keys_dir"},
	{old: "environments.max_files", because: "a session that is frozen may have changed 5000000 files"},
	{old: "environments.registry", because: "other hosts reach this service at `uplink.url`, for images too"},
	{old: "environments.stores[].s3.plain", new: "environments.stores[].s3.allow_plain_http"},

	{old: "hubs[].admins", new: "hubs[].admin_users"},
	{old: "hubs[].roster", new: "hubs[].unknown_sessions"},
	{old: "hubs[].roster.mode", new: "hubs[].unknown_sessions.action"},
	{old: "hubs[].roster.every", new: "hubs[].unknown_sessions.poll_interval"},
	{old: "hubs[].roster.age", new: "hubs[].unknown_sessions.min_age"},
	{old: "users.home.every", new: "users.home.poll_interval"},
	{old: "hubs[].unknown_sessions.poll_interval", because: "each Hub is asked every 5m"},
	{old: "hubs[].unknown_sessions.min_age", because: "a session counts as unknown when it is 30m old"},
	{old: "users.home.warn", because: "a user is told at 80 and 95 %"},
	{old: "users.home.look", because: "a home has 5 s to answer"},

	{old: "images[].title", new: "images[].display_name"},
	{old: "profiles[].title", new: "profiles[].display_name"},
	{old: "profiles[].users", new: "profiles[].allowed_users"},
	{old: "profiles[].groups", new: "profiles[].allowed_groups"},
	{old: "profiles[].pids", new: "profiles[].max_pids"},
	{old: "profiles[].disk", new: "profiles[].max_disk"},
	{old: "profiles[].max_keep", because: "`slipway keep` holds off the idle limit for 24h at most"},
	{old: "profiles[].busy_cpu", because: "a session that uses more than a tenth of a processor is busy"},

	{old: "jobs.keep", new: "jobs.retention"},
	{old: "jobs.half_life", new: "jobs.fair_share_half_life"},
	{old: "jobs.fair_share_half_life", because: "what a user has had counts half as much 24h later"},
	{old: "jobs.yield", new: "jobs.sessions_first"},
	{old: "jobs.limits[].running", new: "jobs.limits[].max_running"},
	{old: "jobs.limits[].waiting", new: "jobs.limits[].max_submitted"},
	{old: "jobs.limits[].storage", new: "jobs.limits[].max_storage"},
	{old: "jobs.limits[].gpu_hours", new: "jobs.limits[].max_gpu_hours"},
	{old: "jobs.limits[].window", new: "jobs.limits[].gpu_hours_window"},

	{old: "host.cpus", new: "host.max_total_cpus"},
	{old: "host.memory", new: "host.max_total_memory"},
	{old: "docker.cpus", new: "docker.max_total_cpus"},
	{old: "docker.memory", new: "docker.max_total_memory"},
	{old: "local.at_once", new: "local.max_jobs"},
	{old: "local.disk", new: "local.max_disk"},
	{old: "local.cgroup", because: "the cgroup of jobs has the name of `instance`"},
	{old: "htcondor.disk", new: "htcondor.request_disk"},
	{old: "htcondor.lease", new: "htcondor.job_lease_duration"},
	{old: "htcondor.every", new: "htcondor.poll_interval"},
	{old: "htcondor.jobs_per_user", new: "htcondor.max_jobs_per_user"},

	{old: "gpu.devices[].at_once", new: "gpu.devices[].max_workloads"},
	{old: "gpu.groups", new: "gpu.sharing"},
	{old: "gpu.lend", new: "gpu.preemption"},
	{old: "gpu.lend.after", new: "gpu.preemption.idle_for"},
	{old: "gpu.lend.recall", new: "gpu.preemption.grace_period"},
	{old: "gpu.preemption.idle_for", because: "a slice is lent after 20m in which its session did nothing"},
	{old: "gpu.preemption.grace_period", because: "a job has 30s to end before it is killed"},
	{old: "gpu.helper", because: "slipway-gpu is looked for beside slipway, then on PATH"},
	{old: "gpu.quarantine", because: "a part of a GPU that has failed is left alone for 30m at first"},
	{old: "gpu.sample", because: "use is measured every 10s"},
	{old: "gpu.idle_after", because: "a slice is idle after 10m without use"},
	{old: "gpu.busy_sm", because: "a slice that is busy for less than 1 % is idle"},
	{
		old:     "gpu.mps",
		because: "nvidia-cuda-mps-control is looked for on PATH, and its daemons are below /run/slipway/mps",
	},

	{old: "ssh.certificate", new: "ssh.certificate_lifetime"},
	{old: "ssh.networks", new: "ssh.allowed_networks"},
	{old: "ssh.deny", new: "ssh.denied_networks"},
	{old: "ssh.proxies", new: "ssh.trusted_proxies"},
	{old: "ssh.at_once", new: "ssh.max_connections_per_user"},

	{old: "kernels.per_user", new: "kernels.max_per_user"},
	{old: "kernels.warm_load", new: "kernels.max_warm_load"},
	{old: "kernels.specs[].warm", new: "kernels.specs[].max_warm"},

	{old: "data.areas[].users", new: "data.areas[].allowed_users"},
	{old: "data.areas[].groups", new: "data.areas[].allowed_groups"},
	{old: "data.stacks[].title", new: "data.stacks[].display_name"},
	{old: "data.stacks[].groups", new: "data.stacks[].allowed_groups"},
	{old: "data.cvmfs.probe", because: "a repository has 5 s to answer"},
	{old: "credentials.x509.longest", new: "credentials.x509.max_lifetime"},
}

// formerly returns what has become of the key at a path.
func formerly(path string) (renaming, bool) {
	i := slices.IndexFunc(renamings, func(r renaming) bool { return r.old == path })
	if i < 0 {
		return renaming{}, false
	}
	return renamings[i], true
}

// split returns the place of a key, and its last word.
func split(path string) (parent, word string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}

// stays reports whether the key is in its place still, under another name.
func (r renaming) stays() bool {
	was, _ := split(r.old)
	is, _ := split(r.new)
	if of, ok := formerly(was); ok {
		was = of.new
	}
	return r.new != "" && was == is
}

// final returns what has become of the key in the end: its new name may have gone, too.
func (r renaming) final() renaming {
	if next, ok := formerly(r.new); ok {
		return renaming{old: r.old, new: next.new, because: next.because}.final()
	}
	return r
}

// String says what to do about it.
func (r renaming) String() string {
	r = r.final()
	if r.new == "" {
		return r.old + " is no key any more: " + r.because
	}
	return r.old + " is " + r.new + " now"
}
