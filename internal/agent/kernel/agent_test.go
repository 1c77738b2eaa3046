package kernel

import (
	"context"
	"net"
	"testing"

	"slipway/kernels/kernelstest"
)

func TestAgent(t *testing.T) {
	r, _ := withFake(t)
	kernelstest.Agents(t, func(t testing.TB) net.Conn {
		here, there := sockets(t)
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan struct{})
		go func() { r.Serve(ctx, there); close(served) }()
		t.Cleanup(func() { cancel(); <-served })
		return here
	})
}
