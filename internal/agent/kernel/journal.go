package kernel

import (
	"fmt"
	"slices"
	"sort"

	"slipway/internal/memsize"
	"slipway/kernels/wire"
)

// keptBytes is how much is kept for one client that has not said that it has it.
const keptBytes = 64 << 20

// journal has the messages that a client is to get, each with its number, until the client has them.
type journal struct {
	limit   int
	entries []entry // by number
	bytes   int
	last    uint64 // the number given last
	acked   uint64

	dropped      int // messages that were not kept, since a notice of it was given
	droppedBytes int
	droppedSeq   uint64 // the last of them
}

type entry struct {
	seq  uint64
	data []byte // V1
	keep bool   // an answer, which somebody waits for
	once bool   // it is not given out again
}

// add puts a message in line. What is printed goes before answers do, the oldest first, and the newest stays.
func (j *journal) add(e entry) {
	j.last++
	e.seq = j.last
	j.entries, j.bytes = append(j.entries, e), j.bytes+len(e.data)
	for j.bytes > j.limit && len(j.entries) > 1 {
		j.drop()
	}
}

func (j *journal) drop() {
	i := slices.IndexFunc(j.entries[:len(j.entries)-1], func(e entry) bool { return !e.keep })
	i = max(i, 0)
	e := j.entries[i]
	j.bytes -= len(e.data)
	j.dropped, j.droppedBytes, j.droppedSeq = j.dropped+1, j.droppedBytes+len(e.data), max(j.droppedSeq, e.seq)
	if i == 0 {
		j.entries[0] = entry{}
		j.entries = j.entries[1:]
		return
	}
	j.entries = slices.Delete(j.entries, i, i+1)
}

// next gives the first message behind a number; none: number 0.
func (j *journal) next(after uint64) (uint64, []byte) {
	j.tell(after)
	i := sort.Search(len(j.entries), func(i int) bool { return j.entries[i].seq > after })
	if i == len(j.entries) {
		return 0, nil
	}
	e := j.entries[i]
	if e.once {
		j.bytes -= len(e.data)
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	return e.seq, e.data
}

// tell puts a notice in the place of what was not kept, for a client that has not got beyond it.
func (j *journal) tell(after uint64) {
	if j.dropped == 0 || j.droppedSeq <= after {
		return
	}
	text := fmt.Sprintf("\n[Slipway: %d messages (%s) were not kept]\n", j.dropped, memsize.Words(int64(j.droppedBytes)))
	m, err := wire.New(wire.IOPub, "stream", nil, map[string]string{"name": "stderr", "text": text})
	if err != nil {
		return
	}
	data := wire.EncodeV1(m)
	i := sort.Search(len(j.entries), func(i int) bool { return j.entries[i].seq > j.droppedSeq })
	j.entries = slices.Insert(j.entries, i, entry{seq: j.droppedSeq, data: data, keep: true})
	j.bytes += len(data)
	j.dropped, j.droppedBytes = 0, 0
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
		n++
	}
	j.entries = slices.Clone(j.entries[n:])
	if j.droppedSeq <= seq {
		j.dropped, j.droppedBytes = 0, 0
	}
}
