package docker

import (
	"strings"

	"slipway/internal/errs"
)

// saying is one thing that can go wrong: how engines and registries say it, and what it means to a user. Their words
// are no part of any interface, so what none of these matches is passed on as it is.
type saying struct {
	forms  []string // lower case; any of them; a star stands for anything
	kind   errs.Kind
	plain  string
	remedy string
}

// admin begins what a user cannot do herself.
const admin = "tell your administrator: "

// ofPulls is what goes wrong between the engine and a registry.
func ofPulls() []saying {
	const loadIt = "the image can be put into the engine by hand (`docker pull` after `docker login`, or `docker load`); Slipway itself pulls without a login"
	return []saying{
		{[]string{"toomanyrequests", "rate limit", "too many requests"}, errs.Unavailable,
			"the registry has had too many requests from here", "try again later; or " + admin + loadIt},
		{
			[]string{"no space left on device", "disk quota exceeded"}, errs.NoSpace, "the engine's disk is full",
			freeSpace,
		},
		{[]string{"no such host", "server misbehaving", "name resolution"}, errs.Unavailable,
			"the name of its registry is not known here", "check the image's name; if it is right, " + admin +
				"this machine's DNS does not know the registry"},
		{[]string{"x509:", "http response to https", "tls: "}, errs.Unavailable,
			"the registry's certificate is not trusted here", admin + "put its authority's certificate into /etc/docker/certs.d"},
		{[]string{"no matching manifest", "cannot be used on this platform"}, errs.Missing,
			"the registry does not have it for this machine's processor", "choose another image"},
		{[]string{
			"manifest unknown", "name unknown", "name_unknown", "manifest*not found", "repository*not found",
		}, errs.Missing,
			"the registry does not have it", "check the name and the tag"},
		{[]string{"unauthorized", "denied", "authentication required", "no basic auth", "forbidden"}, errs.Missing,
			"the registry does not have it, or not for everybody", "check the name; if it is right, " + admin + loadIt},
		{[]string{"verification failed", "does not match", "failed commit on ref*digest"}, errs.Unavailable,
			"what the registry sent is not the image that it announced", "try again; if it lasts, " + admin +
				"the registry's copy is damaged"},
		{[]string{"unsupported*media type", "media type*unsupported", "not supported*manifest"}, errs.Missing,
			"the engine is too old for this image's format", admin + "a newer Docker Engine is needed"},
		{[]string{"unexpected http status", "http 5", "unknown: ", "server error", "bad gateway"}, errs.Unavailable,
			"the registry is in trouble", "try again in a while"},
		{[]string{
			"connection refused", "no route to host", "network is unreachable", "timeout", "connection reset", "eof",
			"request canceled", "broken pipe",
		},
			errs.Unavailable, "the registry cannot be reached", "try again; if it lasts, " + admin +
				"this machine's network, firewall or proxy keeps the engine from it"},
	}
}

const freeSpace = "free some space under the engine's data directory"

// ofRuns is what goes wrong when the engine makes, starts or pauses a container.
func ofRuns() []saying {
	return []saying{
		{
			[]string{"oom-killed"}, errs.Invalid, "its memory limit is too small to start anything",
			"start it with more memory",
		},
		{[]string{"cgroup"}, errs.Missing, "this machine's control groups refuse its limits", admin + "`docker info` says which controllers the engine has"},
		{
			[]string{tooBusy}, errs.Unavailable, "its processes could not be held still",
			"try again when it, and this machine, do less; or stop it first",
		},
		{
			[]string{"no space left on device", "disk quota exceeded"}, errs.NoSpace, "the engine's disk is full",
			freeSpace,
		},
		{[]string{"network*not found"}, errs.Missing, "the engine's network for sessions is gone", admin + "see `docker.network` in the configuration, and `docker network ls`"},
		{
			[]string{"no available ip"}, errs.NoCapacity, "the engine's network has no address left",
			"try again when others have stopped theirs; " + admin + "the network's subnet is too small",
		},
		{[]string{
			"failed to create endpoint", "container networking", "failed to add interface", "exchange full",
		}, errs.Unavailable,
			"the engine cannot connect it to its network", "try again; if it lasts, " + admin +
				"restarting the engine puts its network in order"},
		{[]string{
			"bind source path does not exist", "creating mount source path", "error mounting", "stale file handle",
			"transport endpoint is not connected",
		}, errs.Missing,
			"a directory of this machine that it needs cannot be mounted", admin + "see `mounts` in the configuration, and the users' homes"},
		{[]string{
			"exec:*no such file", "exec:*permission denied", "exec:*not found", "exec format error",
		}, errs.Missing,
			"the engine cannot run Slipway's agent in it", admin + "`data_dir` must be on a file system that allows programs to be run (no `noexec`)"},
		{
			[]string{"range of cpus", "there are only*cpus"}, errs.Invalid,
			"it asks for more processors than this machine has", "ask for less",
		},
		{[]string{"unknown runtime", "executable file not found"}, errs.Missing, "the engine lacks its runtime", admin + "see `docker info`"},
		{[]string{"cannot allocate memory", "resource temporarily unavailable"}, errs.NoCapacity,
			"this machine has no memory or no processes left", "try again in a while"},
		{
			[]string{"marked for removal", "removal*in progress"}, errs.Conflict,
			"what is left of it is being removed outside Slipway", "start it again in a moment",
		},
		{[]string{"invalid reference format"}, errs.Missing, "no image can have that name", "name one that `docker images` shows"},
		{[]string{"no such image"}, errs.Missing, "its image has been removed from the engine", "start it again"},
		{[]string{
			"input/output error", "read-only file system", "structure needs cleaning", "layer does not exist",
			"failed to get layer",
		}, errs.Unavailable,
			"the engine's disk is damaged", admin + "see the kernel's and the engine's log"},
	}
}

// means finds what a text of the engine means.
func means(text string, sayings []saying) (saying, bool) {
	text = strings.ToLower(text)
	for _, s := range sayings {
		for _, form := range s.forms {
			if has(text, form) {
				return s, true
			}
		}
	}
	return saying{}, false
}

// has reports whether the parts of a form come one after the other in a text.
func has(text, form string) bool {
	for part := range strings.SplitSeq(form, "*") {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}
