package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"slipway/internal/memsize"
	"slipway/kernels/wire"
)

// keptBytes is how much is kept for one client that has not said that it has it. Of what is more than that a good part goes at once: there is
// one notice for many messages, and little to look through for each.
const (
	keptBytes  = 64 << 20
	droppedPer = 8 // one part of so many
)

// journal has the messages that a client is to get, each with its number, until the client has them.
type journal struct {
	limit   int
	entries []entry // by number
	behind  int     // room in the array of entries that is before them, about
	bytes   int
	last    uint64 // the number given last
	acked   uint64
	gap     gap
}

type entry struct {
	seq  uint64
	data []byte // V1
	keep bool   // somebody waits for it, as for an answer
	once bool   // it is not given out again
}

// gap is what was not kept, of what the client has not said that it has. A notice has its place.
type gap struct {
	messages, bytes int
	seq             uint64          // the last of them
	cell            json.RawMessage // under which it would have been shown
	notice          []byte          // V1; nil: not made yet
}

// add puts a message in line. What is printed goes before answers do, the oldest first, and the newest stays.
func (j *journal) add(e entry) {
	j.last++
	e.seq = j.last
	j.entries, j.bytes = append(j.entries, e), j.bytes+len(e.data)
	if j.bytes > j.limit {
		j.drop(false)
		j.drop(true)
	}
}

// drop drops what need not be kept, or what had better be, until there is room again.
func (j *journal) drop(kept bool) {
	enough := j.limit - j.limit/droppedPer
	newest := j.last
	j.entries = slices.DeleteFunc(j.entries, func(e entry) bool {
		if j.bytes <= enough || e.keep != kept || e.seq == newest {
			return false
		}
		j.bytes -= len(e.data)
		j.gap.add(e)
		return true
	})
}

func (g *gap) add(e entry) {
	g.messages, g.bytes, g.seq, g.notice = g.messages+1, g.bytes+len(e.data), max(g.seq, e.seq), nil
	m, err := wire.DecodeV1(e.data)
	if err == nil && len(m.Parent) > len("{}") && len(m.Parent) <= cellLimit && !bytes.Equal(m.Parent, g.cell) {
		g.cell = bytes.Clone(m.Parent) // it would keep all of the message
	}
}

// tell gives the notice, if there is something to tell.
func (g *gap) tell() []byte {
	if g.messages == 0 || g.notice != nil {
		return g.notice
	}
	text := fmt.Sprintf("\n[Slipway: %d messages (%s) were not kept]\n", g.messages, memsize.Words(int64(g.bytes)))
	if m, err := wire.New(wire.IOPub, "stream", g.cell, map[string]string{"name": "stderr", "text": text}); err == nil {
		g.notice = wire.EncodeV1(m)
	}
	return g.notice
}

// next gives the first message behind a number; none: number 0.
func (j *journal) next(after uint64) (uint64, []byte) {
	i := sort.Search(len(j.entries), func(i int) bool { return j.entries[i].seq > after })
	there := i < len(j.entries)
	if j.gap.seq > after && (!there || j.gap.seq < j.entries[i].seq) {
		if notice := j.gap.tell(); notice != nil {
			return j.gap.seq, notice
		}
	}
	if !there {
		return 0, nil
	}
	e := j.entries[i]
	if e.once {
		j.bytes -= len(e.data)
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	return e.seq, e.data
}

// ack forgets the messages up to a number, which the client has.
func (j *journal) ack(seq uint64) {
	seq = min(seq, j.last)
	if seq <= j.acked {
		return
	}
	j.acked = seq
	n := 0
	for n < len(j.entries) && j.entries[n].seq <= seq {
		j.bytes -= len(j.entries[n].data)
		j.entries[n] = entry{}
		n++
	}
	j.entries, j.behind = j.entries[n:], j.behind+n
	if j.behind > len(j.entries) {
		j.entries, j.behind = slices.Clone(j.entries), 0
	}
	if j.gap.seq <= seq {
		j.gap = gap{}
	}
}
