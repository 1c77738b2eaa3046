package kernels

import "sync/atomic"

// Traffic counts what the websockets of all kernels carry, since the service's start. The zero value is ready.
type Traffic struct {
	Sockets               atomic.Int64 // open now
	Heard, Told           atomic.Int64 // messages of clients, and to them
	HeardBytes, ToldBytes atomic.Int64
}

func (t *Traffic) open() (closed func()) {
	t.Sockets.Add(1)
	return func() { t.Sockets.Add(-1) }
}

func (t *Traffic) hear(size int) { t.Heard.Add(1); t.HeardBytes.Add(int64(size)) }

func (t *Traffic) tell(size int) { t.Told.Add(1); t.ToldBytes.Add(int64(size)) }
