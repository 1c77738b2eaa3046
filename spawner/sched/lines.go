package sched

import (
	"cmp"
	"math"
	"slices"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// ticket is a place in line. It has no time: a clock that is set would mix up the line.
type ticket struct {
	priority int // among its owner's
	turn     int64
	id       spawner.ID
}

func ticketOf(w spawner.Workload) ticket { return ticket{w.Spec.Priority, w.Turn, w.ID} }

// byAge has who asked first go first, byPriority who matters more to the one owner of both.
func byAge(t, o ticket) int { return cmp.Or(cmp.Compare(t.turn, o.turn), cmp.Compare(t.id, o.id)) }

func byPriority(t, o ticket) int {
	return cmp.Or(cmp.Compare(o.priority, t.priority), byAge(t, o))
}

// order is how tickets stand in a row.
type order = func(t, o ticket) int

// row are places in line, in an order.
type row []ticket

func (r row) with(t ticket, by order) row {
	at, _ := slices.BinarySearchFunc(r, t, by)
	return slices.Insert(r, at, t)
}

func (r row) without(t ticket, by order) row {
	if at, ok := slices.BinarySearchFunc(r, t, by); ok {
		return slices.Delete(r, at, at+1)
	}
	return r
}

// requestQueues are where those of one association in a line wait, by what they ask for of a GPU, in the order of
// byPriority.
type requestQueues map[gpu.Request]row

// size counts who waits there.
func (b requestQueues) size() int {
	n := 0
	for _, r := range b {
		n += len(r)
	}
	return n
}

// before counts who goes before t.
func (b requestQueues) before(t ticket) int {
	n := 0
	for _, r := range b {
		at, _ := slices.BinarySearchFunc(r, t, byPriority)
		n += at
	}
	return n
}

// line is where workloads stand that wait for the same: room of a backend and, with a mode, a slice of a GPU. Who waits
// for a GPU does not hold up who needs none. Who is first within a line head says; between lines see yields.
type line struct {
	backend string
	mode    gpu.Mode // empty: no GPU is wanted
	jobs    bool     // its jobs, of a backend that has sessions beside them in another line
}

// lineOf returns the line in which w stands when it waits.
func lineOf(w spawner.Workload) line {
	return line{w.Backend, w.LocalGPU().Mode, w.Kind.Batch()}
}

// lines are all lines. They agree with the records at all times, for Put keeps them so.
type lines struct {
	byAge map[line]row
	// the same lines split by association, so that an association at its limit is skipped in one step
	byAssociation map[line]map[association]requestQueues
	changes       int64 // so far
}

func newLines() lines {
	return lines{byAge: map[line]row{}, byAssociation: map[line]map[association]requestQueues{}}
}

// enter has w stand in line.
func (x *lines) enter(w spawner.Workload) {
	x.changes++
	l, c, t, asks := lineOf(w), associationOf(w), ticketOf(w), w.LocalGPU()
	if x.byAssociation[l] == nil {
		x.byAssociation[l] = map[association]requestQueues{}
	}
	if x.byAssociation[l][c] == nil {
		x.byAssociation[l][c] = requestQueues{}
	}
	x.byAge[l], x.byAssociation[l][c][asks] = x.byAge[l].with(t, byAge), x.byAssociation[l][c][asks].with(t, byPriority)
}

// leave has w stand in line no more.
func (x *lines) leave(w spawner.Workload) {
	x.changes++
	l, c, t, asks := lineOf(w), associationOf(w), ticketOf(w), w.LocalGPU()
	mine := x.byAssociation[l][c]
	x.byAge[l] = x.byAge[l].without(t, byAge)
	if mine[asks] = mine[asks].without(t, byPriority); len(mine[asks]) == 0 {
		delete(mine, asks)
	}
	if len(mine) == 0 {
		delete(x.byAssociation[l], c)
	}
}

// age counts who in the line of w asked before it.
func (x *lines) age(w spawner.Workload) int {
	at, _ := slices.BinarySearchFunc(x.byAge[lineOf(w)], ticketOf(w), byAge)
	return at
}

// oldest returns the turn of the first that waits in a backend's lines of jobs.
func (x *lines) oldest(backend string) int64 {
	first := int64(math.MaxInt64)
	for l, r := range x.byAge {
		if l.jobs && l.backend == backend && len(r) > 0 {
			first = min(first, r[0].turn)
		}
	}
	return first
}

// head returns who is next in a line; empty when nobody is.
func (x *lines) head(l line) spawner.ID {
	if line := x.byAge[l]; len(line) > 0 {
		return line[0].id
	}
	return ""
}
