package kernels

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"slipway/kernels/wire"
	"slipway/spawner"
)

const (
	writePart   = 1 << 20
	writeTime   = time.Minute // for one part of a message to a client
	writeRate   = 128 << 10   // bytes a second that a client takes at least, of a whole message: it holds room
	legacyLimit = 10<<20 - 64<<10
)

// What a client is told that waits for a kernel.
const (
	worry = "the kernel is not reached just now. What you run is kept, and goes on as soon as it is."
	well  = "the kernel is reached again."
	ended = "the kernel has ended before it had run this: restart it, and run the cells again that you need"
	lost  = "the service is restarting, and it is not known whether the kernel has got this: run it again."

	leftOut = "something that the kernel has said is left out, as it cannot be read: %v."
)

// tell sends a client a message of this service's own, as of its kernel: about the request with a header, nil for none.
func (c *client) tell(kind string, parent json.RawMessage, content any) {
	c.say(wire.IOPub, kind, parent, content)
}

func (c *client) say(on wire.Channel, kind string, parent json.RawMessage, content any) {
	m, err := wire.New(on, kind, parent, content)
	if err == nil {
		err = c.show(m)
	}
	if err != nil {
		c.Logger.Debug("a kernel's client cannot be told", "error", err)
	}
}

// remark tells a client something in words, under a cell.
func (c *client) remark(cell json.RawMessage, words string) {
	c.tell("stream", cell, stderr(words))
}

func stderr(words string) map[string]string {
	return map[string]string{"name": "stderr", "text": "Slipway: " + words + "\n"}
}

// bury tells a client that its kernel has ended, and why: that once, however often it comes again. Its cells that wait
// for answers get them.
func (c *client) bury(k spawner.Workload) {
	if c.places.bury(c.place) {
		c.remark(c.cell.last(), whyOver(k))
	}
	for _, a := range c.cell.takeAll() {
		if !c.repeats { // our own bridge answers its clients itself
			c.refuse(a.channel, a.header, wire.DeadKernel, ended)
		}
	}
	c.tell("status", nil, map[string]string{"execution_state": "dead"})
}

// worry tells a client once that its kernel is not reached, if it waits for something there: under its cell.
func (c *client) worry() {
	cell := c.cell.running()
	if m, ok := c.outbox.cell(); ok {
		cell = m.Header
	}
	if cell != nil && c.worried.CompareAndSwap(nil, &cell) {
		c.remark(cell, worry)
	}
}

// reassure tells a client how far its kernel's start is, under the cell that waits for it: once, and again when
// something else is to be waited for. It gives what it was told until now.
func (c *client) reassure(told string) string {
	m, ok := c.outbox.cell()
	if !ok {
		return told
	}
	words := c.Engine.HowFar(c.whose, c.id)
	first, _, _ := strings.Cut(words, ":")
	if now := m.ID() + " " + first; words != "" && now != told {
		c.remark(m.Header, words)
		return now
	}
	return told
}

// relieve tells a client that was worried that all is well again.
func (c *client) relieve() {
	if cell := c.worried.Swap(nil); cell != nil {
		c.remark(*cell, well)
	}
}

// refuseLeft answers the cells that the kernel may not have taken, at the service's end: they would be waited for for
// ever. Where they are sent once more, by the client itself or by the service's next process, they are not answered.
func (c *client) refuseLeft() {
	if c.repeats || c.outbox.journaled() {
		return
	}
	late := time.AfterFunc(partTime, c.cut)
	defer late.Stop()
	left, _ := c.outbox.leave()
	for _, s := range left {
		c.guest.up.Release(s.size)
		if m, ok := s.cell(); ok {
			c.refuse(m.Channel, m.Header, "NotTaken", lost)
		}
	}
}

// refuse answers a cell that no kernel will answer.
func (c *client) refuse(on wire.Channel, cell json.RawMessage, name, why string) {
	words := map[string]any{"ename": name, "evalue": why, "traceback": []string{"Slipway: " + why}}
	c.tell("error", cell, words)
	words["status"], words["execution_count"] = "error", 0
	c.say(on, "execute_reply", cell, words)
	c.tell("status", cell, map[string]string{"execution_state": "idle"})
}

// show writes a message to the client. One that the old framing's clients cannot take at once is written in pieces.
func (c *client) show(m wire.Message) error {
	for piece := range c.pieces(c.fit(m)) {
		binary, data, err := c.encode(piece)
		if err != nil {
			return err
		}
		if err := c.write(binary, data); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) pieces(m wire.Message) iter.Seq[wire.Message] {
	if _, old := c.codec.(wire.Legacy); old {
		return wire.Split(m, legacyLimit)
	}
	return slices.Values([]wire.Message{m})
}

// encode puts a message into the client's framing. One that does not go into it is left out, and the client told so.
func (c *client) encode(m wire.Message) (binary bool, data []byte, err error) {
	free, err := c.convert(c.open, int64(m.Size()))
	if err != nil {
		return false, nil, err
	}
	defer free()
	if binary, data, err = c.codec.Encode(m); err == nil {
		return binary, data, nil
	}
	if m, err = wire.New(wire.IOPub, "stream", c.cell.last(), stderr(fmt.Sprintf(leftOut, err))); err != nil {
		return false, nil, err
	}
	return c.codec.Encode(m)
}

// write writes a message in parts, so that one who reads slowly has time for each. The whole has its time as well:
// others wait for its room.
func (c *client) write(binary bool, data []byte) error {
	c.Traffic.tell(len(data))
	form := websocket.MessageText
	if binary {
		form = websocket.MessageBinary
	}
	ctx, cancel := context.WithTimeout(c.open, writeTime+time.Duration(len(data)/writeRate)*time.Second)
	defer cancel()
	if len(data) <= writePart {
		return c.ws.Write(ctx, form, data)
	}
	late := time.AfterFunc(writeTime, cancel)
	defer late.Stop()
	w, err := c.ws.Writer(ctx, form)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(data, writePart) {
		late.Reset(writeTime)
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return w.Close()
}
