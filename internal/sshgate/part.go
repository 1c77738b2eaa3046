package sshgate

import (
	"context"
	"errors"
	"time"
)

// farewell is why a connection ends, for its user to read.
type farewell string

// Error returns the words.
func (f farewell) Error() string { return string(f) }

// errLeft is the cause where nobody is there to read any.
var errLeft = errors.New("the client has left")

// end ends the connection, and tells its user why where there is a place for it.
func (v *visitor) end(why string) { v.cancel(farewell(why)) }

// withdrawn is what is said when a key or certificate is taken away, or its user has ended all her connections.
const withdrawn = "the key or certificate that you came with was withdrawn, or you have ended all your ssh connections"

// tooManyRequests is what is said when more than mostRequests wait.
const tooManyRequests = "too many requests wait for their answers"

// restart is what is said when the service ends.
const restart = "the service is being restarted; your session goes on: connect again"

// part closes the connection when it is over.
func (v *visitor) part(service context.Context) {
	defer close(v.parted)
	<-v.ctx.Done()
	why := context.Cause(v.ctx)
	if service.Err() != nil {
		why = farewell(restart)
	}
	if f, ok := errors.AsType[farewell](why); ok {
		said := make(chan struct{})
		v.work.Go(func() {
			defer close(said)
			v.sayGoodbye(string(f))
		})
		select {
		case <-said:
		case <-time.After(time.Second): // the client takes nothing any more
		}
	}
	_ = v.ssh.Close()
}
