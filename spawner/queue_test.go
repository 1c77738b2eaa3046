package spawner

import (
	"testing"
	"time"
)

func TestQueueInWords(t *testing.T) {
	for want, q := range map[string]Queue{
		"": {},
		"Waiting for room, next in line: 2 CPUs asked, 1 of 4 free":               {Place: 1, Lacks: "2 CPUs asked, 1 of 4 free", Estimate: -1},
		"Waiting for room: number 3 in line; about a minute, as things go":        {Place: 3, Estimate: 20 * time.Second},
		"Waiting for room: number 3 in line; about 12 min, as things go":          {Place: 3, Estimate: 11*time.Minute + time.Second},
		"Waiting for room: number 3 in line; about 40 min, as things go":          {Place: 3, Estimate: 38 * time.Minute},
		"Waiting for room: number 30 in line; about 7 h, as things go":            {Place: 30, Estimate: 7*time.Hour + 10*time.Minute},
		"Waiting for room, next in line: all taken; about 90 min, as things go":   {Place: 1, Lacks: "all taken", Estimate: 88 * time.Minute},
		"Waiting for room, next in line: all taken; about a minute, as things go": {Place: 1, Lacks: "all taken"},
	} {
		if got := q.String(); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
}
