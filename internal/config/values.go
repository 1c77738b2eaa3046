package config

import (
	"fmt"
	"time"

	"slipway/internal/units"
)

// Size is a number of bytes of memory, written as in "2G" (2 GiB).
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := units.ParseMemory(string(text))
	if err != nil {
		return wrong(text, units.MemoryHint)
	}
	*s = Size(n)
	return nil
}

// Bound is a number of bytes on disks that may not be exceeded, as in "50G" (50,000,000,000), or "none", which is 0.
type Bound int64

// UnmarshalText reads a bound.
func (b *Bound) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*b = 0
		return nil
	}
	n, err := units.ParseDisk(string(text))
	if err != nil {
		return wrong(text, "none, or "+units.DiskHint)
	}
	*b = Bound(n)
	return nil
}

// Duration is a time such as "90m".
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return wrong(text, "a time such as 90m or 24h")
	}
	*d = Duration(v)
	return nil
}

// Range is an inclusive range of ids, written as in "20000-59999".
type Range struct{ First, Last int }

// UnmarshalText reads a range.
func (r *Range) UnmarshalText(text []byte) error {
	var got Range
	_, err := fmt.Sscanf(string(text), "%d-%d", &got.First, &got.Last)
	if err != nil || got.String() != string(text) {
		return wrong(text, "a range such as 20000-59999")
	}
	*r = got
	return nil
}

// String writes the range as the configuration has it.
func (r Range) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// wrong returns what is said of a value.
func wrong(text []byte, want string) error { return fmt.Errorf("%.40q is not %s", text, want) }
