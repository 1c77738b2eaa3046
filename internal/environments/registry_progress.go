package environments

import (
	"context"
	"time"

	"slipway/images/blob"
	"slipway/images/registry"
)

// watched is a repository that tells how far its SIF has gone out to the one who asks for it.
type watched struct {
	registry.Repository
	tell func(sent, size int64)
}

// SIF opens the file.
func (t watched) SIF(ctx context.Context, reference string) (blob.Blob, string, error) {
	b, digest, err := t.Repository.SIF(ctx, reference)
	if err != nil {
		return nil, "", err
	}
	return &outgoing{Blob: b, tell: t.tell}, digest, nil
}

// tellPause is between two words on one file.
const tellPause = time.Second

// outgoing is a file on its way out. It is sent from the place in it on that is asked for, so how far it is read is how
// much of it has gone, in however many requests.
type outgoing struct {
	blob.Blob
	tell func(sent, size int64)
	told time.Time
}

// ReadAt reads what goes out next.
func (o *outgoing) ReadAt(p []byte, at int64) (int, error) {
	n, err := o.Blob.ReadAt(p, at)
	if sent := at + int64(n); sent == o.Size() || time.Since(o.told) >= tellPause {
		o.told = time.Now()
		o.tell(sent, o.Size())
	}
	return n, err
}
