package gpu

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/units"
)

// Request is what a workload wants of a GPU. The zero Request wants none.
type Request struct {
	Mode    Mode   `json:"mode,omitempty"`
	Profile string `json:"profile,omitempty"` // mig: such as "1g.18gb"; "1g" is the smallest one of that many compute slices
	Percent int    `json:"percent,omitempty"` // mps: of the processors
	Memory  int64  `json:"memory,omitempty"`  // mps, shared: bytes
	Least   Tier   `json:"least,omitempty"`   // the weakest isolation that is accepted; empty: what the mode itself promises
	Model   string `json:"model,omitempty"`   // a part of the device's name, in any case; empty: any
	Group   string `json:"group,omitempty"`   // shared: only with workloads of the same group
	Needs   Needs  `json:"needs,omitzero"`    // of a GPU that a batch system gives; a host's own GPUs are not chosen by them
}

// None reports whether r wants no GPU.
func (r Request) None() bool { return r.Mode == "" }

var (
	mpsForm    = regexp.MustCompile(`^mps:([0-9]{1,3})%/(\S+)$`)
	sharedForm = regexp.MustCompile(`^shared(?:/(\S+))?$`)
	migForm    = regexp.MustCompile(`^[1-9][0-9]?g(\.[0-9]{1,4}gb)?([+-][a-z.]{1,8})?$`)
)

// requestHint says how a request is written.
const requestHint = `none, whole, a MIG profile such as 1g.18gb or 1g, mps:25%/20G, shared or shared/10G; ` +
	`of a batch system also any, or any,capability>=8.0,memory>=40G`

// ParseRequest reads a request as users and configuration write it: "whole", "1g.18gb", "1g", "mps:25%/20G", "shared",
// "shared/10G", "any"; "" and "none" are no GPU. Needs may follow, as in "any,capability>=8.0,optional".
func ParseRequest(s string) (Request, error) {
	mode, rest, more := strings.Cut(s, ",")
	r, err := parseMode(mode, s)
	if err != nil || !more {
		return r, err
	}
	if r.None() {
		return Request{}, errs.Bad("gpu", s, "a GPU to begin with, such as any, or nothing after none")
	}
	if r.Needs, err = parseNeeds(strings.Split(rest, ",")); err != nil {
		return Request{}, err
	}
	return r, nil
}

// parseMode reads what stands before the needs of the request s.
func parseMode(mode, s string) (Request, error) {
	bad := errs.Bad("gpu", s, requestHint)
	switch word := strings.ToLower(strings.TrimSpace(mode)); {
	case word == "" || word == "none":
		return Request{}, nil
	case word == string(Whole):
		return Request{Mode: Whole}, nil
	case word == string(Any):
		return Request{Mode: Any}, nil
	case migForm.MatchString(word):
		return Request{Mode: MIG, Profile: word}, nil
	case sharedForm.MatchString(word):
		r := Request{Mode: Shared}
		if size := sharedForm.FindStringSubmatch(word)[1]; size != "" {
			memory, err := units.ParseMemory(size)
			if err != nil || memory <= 0 {
				return Request{}, bad
			}
			r.Memory = memory
		}
		return r, nil
	case mpsForm.MatchString(word):
		part := mpsForm.FindStringSubmatch(word)
		percent, _ := strconv.Atoi(part[1])
		memory, err := units.ParseMemory(part[2])
		if err != nil || memory <= 0 || percent < 1 || percent > 100 {
			return Request{}, bad
		}
		return Request{Mode: MPS, Percent: percent, Memory: memory}, nil
	default:
		return Request{}, bad
	}
}

// String writes r as ParseRequest reads it.
func (r Request) String() string { return r.mode() + r.Needs.String() }

// mode writes what stands before the needs.
func (r Request) mode() string {
	switch {
	case r.Mode == "":
		return "none"
	case r.Mode == MIG:
		return r.Profile
	case r.Mode == MPS:
		return fmt.Sprintf("mps:%d%%/%s", r.Percent, units.FormatMemory(r.Memory))
	case r.Mode == Shared && r.Memory > 0:
		return "shared/" + units.FormatMemory(r.Memory)
	default:
		return string(r.Mode)
	}
}

// Promise is the isolation that a mode gives by itself.
func (m Mode) Promise() Tier {
	switch m {
	case Whole, MIG:
		return Hardware
	case MPS:
		return Process
	default:
		return None
	}
}

// LeastTier is the weakest isolation that r accepts.
func (r Request) LeastTier() Tier {
	if r.Least != "" {
		return r.Least
	}
	return r.Mode.Promise()
}
