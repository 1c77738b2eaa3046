package kernels

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"

	"slipway/kernels/wire"
)

// stream is a way to the kernel's agent. Numbers of messages belong to one: a kernel that begins anew counts anew.
type stream struct {
	net.Conn
	in      *bufio.Reader
	takes   bool          // the agent says what is taken
	written atomic.Uint64 // the number of the last message that was written to the client
	has     atomic.Uint64 // and of the last that the client surely has
	told    uint64        // and of that of which the agent was told so; sending has it
	passed  uint64        // messages that were sent by it, of which there is no word; likewise
	sending errand
}

// last returns the number of the last message that was written to the client; of no stream, none.
func (s *stream) last() uint64 {
	if s == nil {
		return 0
	}
	return s.written.Load()
}

// acknowledge says that the client has all messages up to a number.
func (s *stream) acknowledge(number uint64) {
	if s != nil && number > s.has.Swap(number) {
		s.sending.start()
	}
}

// send gives the agent what the client has said, and says what the client has.
func (c *client) send(s *stream) {
	for {
		has := s.has.Load()
		message, more := c.outbox.next(s)
		if !more && has == s.told {
			return
		}
		err := atOnce(s, func(w io.Writer) error {
			if has > s.told {
				if err := wire.WriteAck(w, has); err != nil {
					return err
				}
			}
			if !more {
				return nil
			}
			return wire.WriteMessage(w, message)
		})
		if err != nil {
			_ = s.Close() // who reads it sees why
			return
		}
		s.told = has
		if more && !s.takes { // there will be no word of it
			s.passed++
			_ = c.took(s, s.passed)
		}
	}
}

// atOnce has what is put written together. There is a buffer only for so long: most clients say nothing for hours.
func atOnce(to io.Writer, put func(io.Writer) error) error {
	w := bufio.NewWriter(to)
	if err := put(w); err != nil {
		return err
	}
	return w.Flush()
}
