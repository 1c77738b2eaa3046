package environments

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"slices"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/blob"
	"slipway/images/blobstore"
	"slipway/images/publish"
	"slipway/images/records"
	"slipway/images/replication"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/metrics"
)

// places are where environments go beside the library: stores with copies, and directories that somebody else
// publishes.
type places struct {
	copies     *replication.Replicator
	publishers []*publish.Publisher
}

// OpenStore makes a store. Nothing is asked of it yet: one that is down keeps no service from starting.
func OpenStore(c config.EnvironmentStore) (blobstore.Member, error) {
	if c.Directory != "" {
		d, err := blobstore.OpenDir(blobstore.DirConfig{Path: c.Directory, Existing: true})
		return blobstore.Member{Name: c.Name, Store: d}, err
	}
	key, err := c.S3.Secret()
	if err != nil {
		return blobstore.Member{}, err
	}
	b, err := blobstore.OpenS3(blobstore.S3Config{
		Endpoint: c.S3.Endpoint, Plain: c.S3.AllowPlainHTTP, Region: c.S3.Region, Bucket: c.S3.Bucket,
		Prefix: c.S3.Prefix, AccessKey: c.S3.AccessKey, SecretKey: key,
	})
	return blobstore.Member{Name: c.Name, Store: b}, err
}

// fetcher returns what brings content back from the stores; nil where there are none.
func (f *Service) fetcher() func(ctx context.Context, digest string, limit int64, path string) error {
	if len(f.cfg.Site.Environments.Stores) == 0 {
		return nil
	}
	return func(ctx context.Context, digest string, limit int64, path string) error {
		return f.places.copies.Fetch(ctx, digest, limit, path)
	}
}

// openPlaces makes the places of the configuration.
func (f *Service) openPlaces() error {
	var members []blobstore.Member
	for _, c := range f.cfg.Site.Environments.Stores {
		m, err := OpenStore(c)
		if err != nil {
			return fmt.Errorf("open the store %s: %w", c.Name, err)
		}
		members = append(members, m)
	}
	var err error
	f.places.copies, err = replication.New(replication.Config{
		Dir: f.path("stores"), Stores: members, Ready: f.library.Settled, Known: f.library.Known, Logger: f.log,
		Find: func(digest string) (replication.Environment, error) { return copyOf(f.library, digest) },
	})
	if err != nil {
		return err
	}
	for _, c := range f.cfg.Site.Environments.Exports {
		o, err := newPublisher(c, f.library, f.path("exports", c.Name+".json"), f.log)
		if err != nil {
			return err
		}
		f.places.publishers = append(f.places.publishers, o)
	}
	return nil
}

// copyOf returns what a store keeps of an environment.
func copyOf(l *images.Library, digest string) (replication.Environment, error) {
	p, err := l.Parts(digest)
	if err != nil {
		return replication.Environment{}, err
	}
	d := p.Document
	parts := []replication.Part{replication.Part(d.Manifest), replication.Part(d.Tail)}
	if d.Base != nil {
		parts = append(parts, replication.Part(d.Base.Part))
	}
	parts = append(parts, replication.Part{Digest: digest, Size: int64(len(p.Encoded))})
	return replication.Environment{Parts: parts, Open: func(ctx context.Context, part string) (blob.Blob, error) {
		if part == digest {
			return blob.Bytes(p.Encoded), nil
		}
		return p.Blob(ctx, part)
	}}, nil
}

func newPublisher(
	c config.EnvironmentExport, l *images.Library, state string, log *slog.Logger,
) (*publish.Publisher, error) {
	return publish.New(publish.Config{
		Name: c.Name, Directory: c.Directory, State: state, Logger: log, Begin: c.Begin, Publish: c.Publish,
		Abort: c.Abort,
		SIF:   slices.Contains(c.Forms, config.FormSIF), Unpacked: slices.Contains(c.Forms, config.FormUnpacked),
		Wanted: func() ([]publish.Entry, error) { return published(l, c) },
		SIFOf: func(ctx context.Context, digest string) (string, blob.Blob, error) {
			p, err := l.Parts(digest)
			if err != nil {
				return "", nil, err
			}
			if _, err := l.Ready(ctx, digest); err != nil {
				return "", nil, err
			}
			named, err := p.SIF()
			if err != nil {
				return "", nil, err
			}
			b, err := p.OpenSIF()
			return named.Digest, b, err
		},
		Unpack: func(ctx context.Context, root, digest, link string) error { return l.Unpack(ctx, root, digest, link) },
	})
}

// published lists what an export has: each name and tag that leads to an environment that it may have, and under latest
// the newest of these, where no tag is called so. One that was given to another environment is not what it had before.
// Those for other machines than the site's have their architecture behind the tag.
func published(l *images.Library, c config.EnvironmentExport) ([]publish.Entry, error) {
	all, err := l.Records.Everyones()
	if err != nil {
		return nil, err
	}
	settled, err := l.Settled()
	if err != nil {
		return nil, err
	}
	slices.Sort(settled)
	given := map[publish.Entry]bool{}
	all = slices.DeleteFunc(all, func(e records.Environment) bool {
		_, signed := slices.BinarySearch(settled, e.Digest)
		name := publish.Entry{Owner: e.Owner, Name: e.Name, Tag: e.Tag + "@" + e.Architecture()}
		if !signed || e.Name == "" || given[name] {
			return true
		}
		given[name] = true
		return !selected(c, e)
	})
	var out []publish.Entry
	taken := map[publish.Entry]bool{}
	add := func(e records.Environment, tag string) {
		entry := publish.Entry{Owner: repositoryWord(e.Owner), Name: e.Name, Tag: tag}
		if a := e.Manifest.Architecture; a != runtime.GOARCH {
			entry.Tag += "." + a
		}
		if !taken[entry] {
			taken[entry] = true
			entry.Digest = e.Digest
			out = append(out, entry)
		}
	}
	for _, e := range all {
		if e.Tag != "" {
			add(e, e.Tag)
		}
	}
	for _, e := range all {
		add(e, newest)
	}
	return out, nil
}

func selected(c config.EnvironmentExport, e records.Environment) bool {
	fits := len(c.Tags) == 0 || slices.ContainsFunc(c.Tags, func(pattern string) bool {
		ok, _ := path.Match(pattern, e.Tag) // which the configuration's check has read
		return ok
	})
	return fits && (c.Shared == config.SharedAny || e.Share.With == records.Public)
}

// run runs the places.
func (p *places) run(ctx context.Context, start func(func() error)) {
	start(func() error { return p.copies.Run(ctx) })
	for _, o := range p.publishers {
		start(func() error { return o.Run(ctx) })
	}
}

// copiesOf says where copies of an environment are.
func (p *places) copiesOf(digest string) []hubapi.Copy {
	out := []hubapi.Copy{}
	for _, c := range p.copies.Of(digest) {
		w := hubapi.Copy{Store: c.Store}
		if c.Since.IsZero() {
			w.Waits = waitWords(c.Problem)
		} else {
			w.Stored = &c.Since
		}
		out = append(out, w)
	}
	return out
}

// waitWords tells a user why there is no copy. What exactly is wrong with a store is its administrator's to see, in the
// log.
func waitWords(problem error) string {
	switch {
	case problem == nil:
		return "its turn has not come"
	case errs.Is(problem, errs.NoSpace):
		return "the store is full"
	case errs.Is(problem, errs.Forbidden):
		return "the store does not let the service in"
	case errs.Is(problem, errs.Conflict), errs.Is(problem, errs.Invalid), errs.Is(problem, errs.NotFound):
		return "what is here of it is damaged"
	}
	return "the store does not answer"
}

// publishedAs returns the names of an environment in directories that are published.
func (p *places) publishedAs(digest string) []string {
	out := []string{}
	for _, o := range p.publishers {
		for _, name := range o.Of(digest) {
			out = append(out, o.Stats().Name+": "+name)
		}
	}
	return out
}

// stores and exports are numbers for Prometheus.
func (p *places) stores() []metrics.Store {
	var out []metrics.Store
	for _, s := range p.copies.Stats() {
		out = append(out, metrics.Store{
			Name: s.Store, Up: s.Up, Stored: s.Stored, Waiting: s.Waiting, Bytes: s.Bytes, Damaged: s.Damaged,
		})
	}
	return out
}

func (p *places) exports() []metrics.Export {
	var out []metrics.Export
	for _, o := range p.publishers {
		s := o.Stats()
		out = append(out, metrics.Export{Name: s.Name, Up: s.Problem == nil, Published: s.Published})
	}
	return out
}
