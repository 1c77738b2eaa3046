package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"slipway/images/imagefile"
	"slipway/images/inventory"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/images/sif"
	"slipway/images/squashfs"
)

// About is what is known of an environment beside its owners' records.
type About struct {
	Document  manifest.Document
	SIF       manifest.Part // the whole file, with its signatures
	Signers   []string      // ids of the keys that have signed it
	Inventory inventory.Inventory
	Settled   time.Time
}

// About says what is in an environment. One that was not looked into yet is looked into now, which takes some seconds.
func (l *Library) About(ctx context.Context, digest string) (About, error) {
	d, err := l.document(digest)
	if err != nil {
		return About{}, err
	}
	known, err := l.facts(digest)
	if errors.Is(err, os.ErrNotExist) {
		if err = l.settle(ctx, digest); err == nil {
			known, err = l.facts(digest)
		}
	}
	if err != nil {
		return About{}, fmt.Errorf("look into environment %s: %w", digest, err)
	}
	return About{
		Document: d, SIF: known.SIF, Signers: known.Signers, Inventory: known.Inventory, Settled: known.Settled,
	}, nil
}

// Summary is what a list tells of an environment.
type Summary struct {
	Packages     int
	Python       string // version of its own
	CUDA, Driver string // the version that was found, and the least driver
}

// glances remembers the summaries of facts that have not changed since: these may be large, and lists are asked for all
// the time.
type glances struct {
	mu   sync.Mutex
	seen map[string]glance
}

type glance struct {
	stamp libdir.Stamp
	Summary
}

// Glance returns what is known already; ok is false when that is nothing yet.
func (l *Library) Glance(digest string) (s Summary, ok bool) {
	f, err := os.Open(l.dir.Path("facts", libdir.HexOrNone(digest)+".json"))
	if err != nil {
		return s, false
	}
	defer f.Close()
	at, err := libdir.StampOf(f)
	if err != nil {
		return s, false
	}
	l.glances.mu.Lock()
	defer l.glances.mu.Unlock()
	if g, known := l.glances.seen[digest]; known && g.stamp == at {
		return g.Summary, true
	}
	known, err := l.facts(digest)
	if err != nil {
		return s, false
	}
	s = summary(known.Inventory)
	if l.glances.seen == nil {
		l.glances.seen = map[string]glance{}
	}
	l.glances.seen[digest] = glance{at, s}
	return s, true
}

func summary(i inventory.Inventory) Summary {
	python, _ := i.Default()
	s := Summary{Packages: len(i.Packages), Python: python.Version}
	if i.CUDA != nil {
		s.CUDA, s.Driver = i.CUDA.Version, i.CUDA.LeastDriver
	}
	return s
}

// facts reads what was found out; what cannot be read is as if it was not there.
func (l *Library) facts(digest string) (facts, error) {
	var known facts
	err := libdir.ReadJSON(l.dir.Path("facts", libdir.HexOrNone(digest)+".json"), &known)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.log.Error(
			"what is known of an environment cannot be read, it is found out anew", "digest", digest, "error", err,
		)
		return facts{}, os.ErrNotExist
	}
	return known, err
}

// Difference says what one environment has other than another: packages and files.
func (l *Library) Difference(ctx context.Context, old, now string) (inventory.Difference, error) {
	a, err := l.About(ctx, old)
	if err != nil {
		return inventory.Difference{}, err
	}
	b, err := l.About(ctx, now)
	if err != nil {
		return inventory.Difference{}, err
	}
	out := inventory.Compare(a.Inventory, b.Inventory)
	before, err := l.view(old)
	if err != nil {
		return inventory.Difference{}, err
	}
	defer before.Close()
	after, err := l.view(now)
	if err != nil {
		return inventory.Difference{}, err
	}
	defer after.Close()
	var shared inventory.Shared
	p, q := a.Document.Base, b.Document.Base
	if p != nil && q != nil && p.Digest == q.Digest && l.baseIsSound(ctx, p.Part) {
		base, err := l.openBase(p.Digest)
		if err != nil {
			return inventory.Difference{}, err
		}
		defer base.Release()
		shared = &base.Image.Super
	}
	files, err := inventory.Files(ctx, inventory.TreeOf(before.image), inventory.TreeOf(after.image), shared)
	out.Files = &files
	return out, err
}

// SBOM returns an environment's software bill of materials as SPDX 2.3 in JSON.
func (l *Library) SBOM(ctx context.Context, e records.Environment) ([]byte, error) {
	about, err := l.About(ctx, e.Digest)
	if err != nil {
		return nil, err
	}
	name := e.Name
	if name == "" {
		name = "environment"
	}
	return inventory.SPDX(
		about.Inventory,
		inventory.Meta{Name: name, Digest: e.Digest, Created: e.Created, Tool: "slipway-" + l.cfg.Version},
	)
}

// openedView is the parsed tree of an environment.
type openedView struct {
	file  io.Closer
	image *squashfs.Image
}

// Close lets the file go.
func (v *openedView) Close() error { return v.file.Close() }

// view parses an environment's tree.
func (l *Library) view(digest string) (*openedView, error) {
	d, err := l.document(digest)
	if err != nil {
		return nil, err
	}
	f, err := l.openWhole(context.Background(), digest, d)
	if err != nil {
		return nil, err
	}
	image, err := squashfs.Parse(sectionOf(f, sif.PartitionOffset, d.PartitionSize()), d.PartitionSize())
	if err != nil {
		return nil, errors.Join(imagefile.Damaged("%v", err), f.Close())
	}
	return &openedView{f, image}, nil
}

// manifest reads the manifest in an environment's image.
func (l *Library) manifest(digest string) (manifest.Manifest, error) {
	f, err := l.openBlob(digest)
	if err != nil {
		return manifest.Manifest{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return manifest.Manifest{}, err
	}
	image, err := sif.Open(f, st.Size())
	if err != nil {
		return manifest.Manifest{}, imagefile.Damaged("%v", err)
	}
	data, err := image.ReadManifest()
	if err != nil {
		return manifest.Manifest{}, err
	}
	return manifest.Decode(data)
}
