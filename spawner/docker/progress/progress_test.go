package progress

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/jsonstream"
)

type told struct {
	message string
	percent int
}

// TestProgress follows an image of three layers, one of which is there already; the third becomes known late.
func TestProgress(t *testing.T) {
	var got []told
	p := NewPull("img", func(m string, n int) { got = append(got, told{m, n}) })
	say := func(id, status string, current, total int64) {
		m := jsonstream.Message{ID: id, Status: status}
		if total > 0 {
			m.Progress = &jsonstream.Progress{Current: current * 1e6, Total: total * 1e6}
		}
		p.Add(m)
	}
	say("1", "Pulling from x", 0, 0)
	say("z", "Already exists", 0, 0)
	say("a", "Pulling fs layer", 0, 0)
	say("b", "Pulling fs layer", 0, 0)
	say("a", "Downloading", 10, 100)
	say("a", "Downloading", 10, 100) // nothing new
	say("b", "Downloading", 0, 1900) // less than before, in percent
	say("b", "Downloading", 300, 1900)
	say("a", "Verifying Checksum", 0, 0)
	say("a", "Download complete", 0, 0)
	say("a", "Extracting", 50, 100)
	say("b", "Retrying in 5 seconds", 0, 0)
	say("b", "Download complete", 0, 0)
	say("a", "Pull complete", 0, 0)
	say("b", "Extracting", 950, 1900)
	say("b", "Pull complete", 0, 0)
	say("", "Digest: sha256:x", 0, 0)
	want := []told{
		{"Pulling image img: 10 MB of 100 MB or more, 10 %", 6},
		{"Pulling image img: 310 MB of 2 GB, 15 %", 10},
		{"Pulling image img: 400 MB of 2 GB, 20 %", 13},
		{"Pulling image img: 400 MB of 2 GB, 20 %", 14},
		{"Pulling image img: the registry broke off, trying again", 14},
		{"Unpacking image img: 50 MB of 2 GB, 2 %", 67},
		{"Unpacking image img: 100 MB of 2 GB, 5 %", 68},
		{"Unpacking image img: 1.1 GB of 2 GB, 52 %", 84},
		{"Unpacking image img: 2 GB of 2 GB, 100 %", 100},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(told{})); diff != "" {
		t.Error(diff)
	}
}

// FuzzProgress: whatever an engine says, the percentage stays one and never shrinks.
func FuzzProgress(f *testing.F) {
	f.Add("a Downloading 1 2\na Extracting 5 1\nb Pull complete 0 0")
	f.Add("a Downloading -1 -5\na Downloading 9223372036854775807 1")
	f.Fuzz(func(t *testing.T, script string) {
		last := 0
		p := NewPull("img", func(m string, n int) {
			if n < last || n > 100 {
				t.Errorf("%s: %d after %d", m, n, last)
			}
			last = n
		})
		for line := range strings.Lines(script) {
			var m jsonstream.Message
			m.ID, m.Status, m.Progress = spoken(line)
			p.Add(m)
		}
	})
}

// spoken reads a line of FuzzProgress: a layer, what is said of it, and how much of how much.
func spoken(line string) (id, status string, p *jsonstream.Progress) {
	words := strings.Fields(line)
	if len(words) < 4 {
		return "", line, nil
	}
	n := len(words)
	current, err := strconv.ParseInt(words[n-2], 10, 64)
	total, err2 := strconv.ParseInt(words[n-1], 10, 64)
	if err != nil || err2 != nil {
		return words[0], strings.Join(words[1:], " "), nil
	}
	return words[0], strings.Join(words[1:n-2], " "), &jsonstream.Progress{Current: current, Total: total}
}
