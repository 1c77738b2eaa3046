package testenv

import (
	"fmt"
	"net"
	"testing"
)

func TestFreePorts(t *testing.T) {
	var port int
	t.Run("held", func(t *testing.T) {
		port = FreePorts(t, 1)[0]
		if err := reserve(t, port); err == nil {
			t.Errorf("port %d is given out twice", port)
		}
	})
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatal(err)
	}
	if err := reserve(t, port); err == nil {
		t.Errorf("port %d is given out, and somebody listens there", port)
	}
	_ = l.Close()
	if err := reserve(t, port); err != nil {
		t.Errorf("a port that is free again: %v", err)
	}
}
