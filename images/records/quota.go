package records

import (
	"fmt"
	"slices"

	"slipway/images/libdir"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// Quota bounds what environments take beside their bases.
type Quota struct {
	Group  string   // whose members together; empty: one owner's alone
	Owners []string // whose environments count, each digest once
	Bytes  int64
}

// Bound is a quota and what is used of it.
type Bound struct {
	Group string
	Own   int64
	Quota int64
}

// Percent returns how much of it is used.
func (b Bound) Percent() int64 { return int64(100 * float64(b.Own) / float64(b.Quota)) }

// String tells it to whom it bounds.
func (b Bound) String() string {
	if b.Group != "" {
		return fmt.Sprintf(
			"the environments of the group %s take %s of the %s that it may use", b.Group, units.DiskWords(b.Own),
			units.DiskWords(b.Quota),
		)
	}
	return fmt.Sprintf(
		"your environments take %s of the %s that you may use", units.DiskWords(b.Own), units.DiskWords(b.Quota),
	)
}

const LookAtUsage = "`slipway envs du` shows what takes how much"

// Once leaves out further names of a digest.
func Once(list []Environment) []Environment {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(e Environment) bool {
		had := seen[e.Digest]
		seen[e.Digest] = true
		return had
	})
}

// Bounds returns the quotas of an owner, and what is used of each beside one digest.
func (s *Store) Bounds(owner, beside string) ([]Bound, error) {
	if s.quotas == nil {
		return nil, nil
	}
	var out []Bound
	for _, q := range s.quotas(owner) {
		var all []Environment
		for _, o := range q.Owners {
			list, err := s.List(o)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
		b := Bound{Group: q.Group, Quota: q.Bytes}
		for _, e := range Once(all) {
			if e.Digest != beside {
				b.Own += e.Own
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// unbounded is the room of an owner whom no quota bounds.
const unbounded = 1 << 62

// Room returns how many bytes more an owner's environments may take when one, instead, has gone, and refuses him who
// needs more. What he has already he may have again.
func (s *Store) Room(owner, instead, digest string, need int64) (int64, error) {
	if _, err := s.Load(owner, libdir.HexOrNone(digest)); err == nil {
		return unbounded, nil
	}
	all, err := s.Bounds(owner, instead)
	if err != nil {
		return 0, err
	}
	left := int64(unbounded)
	for _, b := range all {
		if b.Own+need > b.Quota {
			return 0, b.exceeded(need)
		}
		left = min(left, b.Quota-b.Own)
	}
	return left, nil
}

// exceeded is the error of what needs more than is left.
func (b Bound) exceeded(need int64) *errs.Error {
	words := b.String()
	if left := b.Quota - b.Own; need > 1 && left > 0 {
		words += fmt.Sprintf(", and this one needs more than the %s that are left", units.DiskWords(left))
	}
	return errs.New(errs.OverQuota, "%s", words).With(LookAtUsage)
}
