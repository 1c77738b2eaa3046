package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"slipway/internal/units"
	"slipway/kernels/wire"
)

// keptBytes is how much is kept for one client that has not said that it has it. Of what is more than that a good part
// goes at once: there is one notice for many messages, and little to look through for each.
const (
	keptBytes  = 64 << 20
	largeBytes = 64 << 10
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
	seq   uint64
	data  []byte        // V1
	large *wire.Message // in its place: a large message stays in the memory in which it came
	keep  bool          // somebody waits for it, as for an answer
	once  bool          // it is not given out again
}

// entryOf makes an entry of a message, for any number of journals.
func entryOf(m wire.Message, keep bool) entry {
	if m.Size() < largeBytes {
		return entry{data: wire.EncodeV1(m), keep: keep}
	}
	return entry{large: &m, keep: keep}
}

func (e entry) size() int {
	if e.large != nil {
		return e.large.Size()
	}
	return len(e.data)
}

// pieces returns the message as V1.
func (e entry) pieces() [][]byte {
	if e.large != nil {
		return wire.PiecesV1(*e.large)
	}
	return [][]byte{e.data}
}

// parent returns the header of the request that the message is about.
func (e entry) parent() json.RawMessage {
	if e.large != nil {
		return e.large.Parent
	}
	m, err := wire.DecodeV1(e.data)
	if err != nil {
		return nil
	}
	return m.Parent
}

// gap is what was not kept, of what the client has not said that it has. A notice has its place.
type gap struct {
	messages, bytes int
	seq             uint64          // the last of them
	cell            json.RawMessage // under which it would have been shown
	notice          []byte          // V1; nil: not made yet
}

// add puts a message in line, and says how many had to go for it. What is printed goes before answers do, the oldest
// first, and the newest stays.
func (j *journal) add(e entry) (dropped int) {
	j.last++
	e.seq = j.last
	j.entries, j.bytes = append(j.entries, e), j.bytes+e.size()
	if j.bytes > j.limit {
		dropped = j.drop(false) + j.drop(true)
	}
	return dropped
}

// drop drops what need not be kept, or what had better be, until there is room again.
func (j *journal) drop(kept bool) (n int) {
	enough := j.limit - j.limit/droppedPer
	newest := j.last
	j.entries = slices.DeleteFunc(j.entries, func(e entry) bool {
		if j.bytes <= enough || e.keep != kept || e.seq == newest {
			return false
		}
		j.bytes -= e.size()
		j.gap.add(e)
		n++
		return true
	})
	return n
}

func (g *gap) add(e entry) {
	g.messages, g.bytes, g.seq, g.notice = g.messages+1, g.bytes+e.size(), max(g.seq, e.seq), nil
	if p := e.parent(); len(p) > len("{}") && len(p) <= cellLimit && !bytes.Equal(p, g.cell) {
		g.cell = bytes.Clone(p) // it would keep all of the message
	}
}

// tell returns the notice, if there is something to tell.
func (g *gap) tell() []byte {
	if g.messages == 0 || g.notice != nil {
		return g.notice
	}
	text := fmt.Sprintf("\n[Slipway: %d messages (%s) were not kept]\n", g.messages, units.MemoryWords(int64(g.bytes)))
	if m, err := wire.New(wire.IOPub, "stream", g.cell, map[string]string{"name": "stderr", "text": text}); err == nil {
		g.notice = wire.EncodeV1(m)
	}
	return g.notice
}

// next returns the first message behind a number; none: its number is 0.
func (j *journal) next(after uint64) entry {
	i := sort.Search(len(j.entries), func(i int) bool { return j.entries[i].seq > after })
	there := i < len(j.entries)
	if j.gap.seq > after && (!there || j.gap.seq < j.entries[i].seq) {
		if notice := j.gap.tell(); notice != nil {
			return entry{seq: j.gap.seq, data: notice}
		}
	}
	if !there {
		return entry{}
	}
	e := j.entries[i]
	if e.once {
		j.bytes -= e.size()
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	return e
}

// ack forgets the messages up to a number, which the client has, and says how many bytes of large ones these were.
func (j *journal) ack(seq uint64) (large int) {
	seq = min(seq, j.last)
	if seq <= j.acked {
		return 0
	}
	j.acked = seq
	n := 0
	for n < len(j.entries) && j.entries[n].seq <= seq {
		if j.bytes -= j.entries[n].size(); j.entries[n].large != nil {
			large += j.entries[n].size()
		}
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
	return large
}
