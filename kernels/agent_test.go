package kernels_test

import (
	"net"
	"testing"

	"slipway/kernels/kernelstest"
)

func TestAgent(t *testing.T) {
	a := newAgent()
	kernelstest.Agents(t, func(t testing.TB) net.Conn {
		c, err := a.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}
