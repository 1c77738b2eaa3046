// Package progress makes of what an engine says while it pulls an image a line for the user, with a percentage that never
// shrinks. It must not ask the engine for anything.
package progress

import (
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/jsonstream"

	"slipway/internal/units"
)

// pull adds up what the layers of an image say of their download and of their unpacking.
type pull struct {
	ref    string
	layers map[string]layer
	told   stage
	most   int // the percentage that was told last
	report func(message string, percent int)
}

// NewPull begins with an image of which nothing is known. It tells of its progress through report.
func NewPull(ref string, report func(message string, percent int)) *pull {
	return &pull{ref: ref, layers: map[string]layer{}, report: report}
}

// layer is how far one layer has come, in bytes as they are downloaded. Its size is zero until it is known.
type layer struct {
	size, here, unpacked int64
	whole                bool // all of it is here
}

// stage is how far an image has come.
type stage struct {
	size, here, unpacked int64
	unsized              bool // there are layers of unknown size
	whole                bool
}

// Add takes one message of a pull, and tells the user when enough has changed.
func (p *pull) Add(m jsonstream.Message) {
	if strings.HasPrefix(m.Status, "Retrying in") {
		p.report("Pulling image "+p.ref+": the registry broke off, trying again", p.most)
	}
	if p.layer(m) {
		p.tell(p.stage())
	}
}

// layer notes what a message says of a layer. It reports whether it did.
func (p *pull) layer(m jsonstream.Message) bool {
	l, known := p.layers[m.ID]
	switch {
	case m.Status == "Pulling fs layer":
	case m.Status == "Downloading" && m.Progress != nil:
		l.here, l.size = bytesOf(m.Progress.Current), bytesOf(max(m.Progress.Total, m.Progress.Current))
	case m.Status == "Extracting" && m.Progress != nil:
		l.unpacked, l.size = bytesOf(m.Progress.Current), max(l.size, bytesOf(m.Progress.Total))
		l.here, l.whole = l.size, true
	case m.Status == "Download complete" && known:
		l.here, l.whole = l.size, true
	case m.Status == "Pull complete" && known:
		l.here, l.unpacked, l.whole = l.size, l.size, true
	default: // what is there already counts for nothing, and neither does what is said of the whole image
		return false
	}
	l.unpacked = min(l.unpacked, l.size)
	p.layers[m.ID] = l
	return true
}

// bytesOf is a size as an engine gives it, within what can be.
func bytesOf(n int64) int64 { return min(max(n, 0), 1<<44) }

func (p *pull) stage() stage {
	s := stage{whole: true}
	for _, l := range p.layers {
		s.size, s.here, s.unpacked = s.size+l.size, s.here+l.here, s.unpacked+l.unpacked
		s.unsized = s.unsized || l.size == 0 && !l.whole
		s.whole = s.whole && l.whole
	}
	return s
}

// tell tells the user of every percent, but at least a mebibyte at a time. The engine names the size of a layer only
// when it begins to download it, so the whole grows for a while: the percentage that goes along never shrinks.
func (p *pull) tell(s stage) {
	step := max(s.size/100, 1<<20)
	grown := s.here >= p.told.here+step || s.unpacked >= p.told.unpacked+step
	if s.size == 0 || !grown && s.whole == p.told.whole && s.unpacked < s.size || s == p.told {
		return
	}
	p.told = s
	p.most = max(p.most, int((2*100*s.here+100*s.unpacked)/(3*s.size)))
	p.report(s.words(p.ref), p.most)
}

// words say how far an image has come: first how much of it is here, then how much of that is unpacked.
func (s stage) words(ref string) string {
	if s.whole {
		return fmt.Sprintf(
			"Unpacking image %s: %s of %s, %d %%", ref, units.DiskWords(s.unpacked), units.DiskWords(s.size),
			100*s.unpacked/s.size,
		)
	}
	more := ""
	if s.unsized {
		more = " or more"
	}
	return fmt.Sprintf(
		"Pulling image %s: %s of %s%s, %d %%", ref, units.DiskWords(s.here), units.DiskWords(s.size), more,
		100*s.here/s.size,
	)
}
