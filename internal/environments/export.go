package environments

import (
	"cmp"
	"context"
	"io"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/images/blob"
	"slipway/spawner"
)

// content is a blob as a file.
type content struct {
	*io.SectionReader
	io.Closer
}

// Export returns an environment that the caller may use as a file.
func (f *Service) Export(ctx context.Context, c spawner.Caller, ref, form string) (api.Export, error) {
	e, v, err := f.look(c, ref)
	if err != nil {
		return api.Export{}, err
	}
	if form != hubapi.ExportSIF {
		var names []string
		if e.Name != "" {
			names = []string{"slipway/" + repositoryWord(e.Name) + ":" + cmp.Or(e.Tag, newest)}
		}
		write := func(ctx context.Context, w io.Writer) error {
			done, err := f.turns.wait(ctx, v.Owner)
			if err != nil {
				return err
			}
			defer done()
			return f.library.Export(ctx, e.Digest, names, w)
		}
		return api.Export{Environment: e.Digest, Write: write}, nil
	}
	about, err := f.library.About(ctx, e.Digest) // signs it, where that was not done yet
	if err != nil {
		return api.Export{}, err
	}
	if _, err := f.library.Ready(ctx, e.Digest); err != nil {
		return api.Export{}, err
	}
	p, err := f.library.Parts(e.Digest)
	if err != nil {
		return api.Export{}, err
	}
	b, err := p.OpenSIF()
	if err != nil {
		return api.Export{}, err
	}
	return api.Export{Environment: e.Digest, Digest: about.SIF.Digest, Content: content{blob.Reader(b), b}}, nil
}
