// Package tunnel is the one connection between the service and the agent of a workload. The agent always dials: on the
// same host a unix socket that the service listens on, in a directory that the workload can only read. Many streams
// share the connection; each is for one thing, its Door. On the same host those that the service opens do not go
// through it: each has a socket of its own, which the service passes to the agent, so that bytes wake only who sends
// and who takes them.
//
// Promises: a connection that dies takes its streams with it, and they end with an error, never with a clean end of
// file; a peer that floods, stalls or sends garbage costs its own link and nobody else's; silence of less than a minute
// (a paused container) does not drop a link; a service that was killed only has to listen again, the agent dials until
// it does. The package must not know what is said on the streams.
package tunnel

import (
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// Door is what a stream is for.
type Door byte

// The doors. The service opens DoorControl, DoorApp, DoorCode, DoorKernel and DoorSSH, the agent DoorAPI and DoorHub.
const (
	DoorControl Door = 'c' // the agent's control interface
	DoorApp     Door = 'a' // raw bytes to and from the app's port
	DoorCode    Door = 'v' // VS Code beside a notebook server
	DoorKernel  Door = 'k' // one client's messages to and from a kernel, as package kernels/wire has them
	DoorSSH     Door = 'x' // ssh connections and their channels, as package sshtunnel has them
	DoorAPI     Door = 's' // the service's API, as this workload
	DoorHub     Door = 'h' // the Hub's API, as this workload
	doorReset   Door = 'r' // each side opens one: the numbers of streams whose rest it will not read
)

const (
	// each side sends it first, the service with a socket along; the number is the version of all that follows
	hello = "slipway link 1\n"

	handshakeTime = 10 * time.Second // for the hello, and for the door of a new stream
	keepAlive     = 30 * time.Second
	// silence and blocked writes that are borne: a freeze pauses containers for seconds
	stallTime    = 90 * time.Second
	halfOpenTime = 15 * time.Minute // how long a stream of the multiplexer may live on after one side has closed it
	flushTime    = 2 * time.Second  // how long an agent that ends waits until the service has received its last words
	pace         = 50 * time.Millisecond

	// most bytes of one stream of the multiplexer that wait for its reader: the least that the multiplexer knows
	window = 256 << 10
	// the same where bytes are long on their way, and at the agent, which is bounded with its workload
	farWindow   = 1 << 20
	peerStreams = 128 // most streams that an agent may have open, and that wait to be taken
	// most streams that the service may have open: an ssh connection has one, and one for each of its up to 512
	// channels
	ownStreams = 2048
	allStreams = peerStreams + ownStreams + 256
	copySmall  = 4 << 10
	copyLarge  = 256 << 10
)

// receiveWindow returns the window of the streams of a connection. What an agent can have the service keep is bounded
// besides, see unread.
func receiveWindow(c net.Conn, agent bool) uint32 {
	if _, local := c.(*net.UnixConn); local && !agent {
		return window
	}
	return farWindow
}

func muxConfig(log yamux.Logger, window uint32) *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = peerStreams
	c.KeepAliveInterval = keepAlive
	c.ConnectionWriteTimeout = stallTime
	c.StreamOpenTimeout = stallTime
	c.StreamCloseTimeout = halfOpenTime
	c.MaxStreamWindowSize = window
	c.LogOutput, c.Logger = nil, log
	return c
}
