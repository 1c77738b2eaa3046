package ctxio

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := Until(ctx, strings.NewReader("ab"))
	if _, ok := r.(io.WriterTo); ok {
		t.Error("io.Copy would pass by the context")
	}
	p := make([]byte, 1)
	if n, err := r.Read(p); n != 1 || err != nil || p[0] != 'a' {
		t.Errorf("read %d bytes, %q, %v", n, p, err)
	}
	cause := errors.New("no more")
	cancel(cause)
	if n, err := r.Read(p); n != 0 || !errors.Is(err, cause) {
		t.Errorf("after its end: %d bytes, %v", n, err)
	}
}

func TestReader(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "here")
	r := Reader(ctx, func(ctx context.Context, p []byte) (int, error) {
		return copy(p, ctx.Value(key{}).(string)), io.EOF
	})
	if text, err := io.ReadAll(r); string(text) != "here" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
