package images

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"slipway/images/bases"
	"slipway/images/blob"
	"slipway/images/imagefile"
	"slipway/images/inventory"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/progress"
	"slipway/images/sif"
	"slipway/images/signing"
	"slipway/images/squashfs"
)

// maxPending bounds the images that wait to be settled. One that finds no room is settled at the next start.
const maxPending = 1024

// facts is what was found out of an image after its freeze had answered.
type facts struct {
	SIF        manifest.Part       `json:"sif"`                  // the whole file, signed
	Signatures string              `json:"signatures,omitempty"` // digest of what lies behind the manifest
	Signers    []string            `json:"signers,omitempty"`    // ids of the keys
	Settled    time.Time           `json:"settled"`
	Inventory  inventory.Inventory `json:"inventory"`
}

// later has an image settled in the background.
func (l *Library) later(digest string) {
	select {
	case l.pending <- digest:
	default:
	}
}

// Run settles images and keeps house until ctx ends: whatever may take longer than a user should wait.
func (l *Library) Run(ctx context.Context) error {
	for _, digest := range l.unsettled() {
		l.later(digest)
	}
	l.waiting()
	var trials sync.WaitGroup
	trials.Go(func() { l.trials.Run(ctx) })
	defer trials.Wait()
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	idle := time.NewTicker(bases.LookEvery)
	defer idle.Stop()
	for {
		select {
		case <-idle.C:
			l.opened.ForgetIdle()
		case digest := <-l.pending:
			if err := l.settle(ctx, digest); err != nil && ctx.Err() == nil {
				l.log.Error("an environment cannot be settled", "digest", digest, "error", err)
			}
		case <-tick.C:
			if err := l.tidy(ctx); err != nil && ctx.Err() == nil {
				l.log.Error("environments cannot be tidied up", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// waiting queues what an earlier service had no time to try, but for what is not settled: that is tried behind it.
func (l *Library) waiting() {
	files, _ := filepath.Glob(l.dir.Path("facts", "*.json"))
	for _, path := range files {
		l.trials.Add(blob.Prefix + strings.TrimSuffix(filepath.Base(path), ".json"))
	}
}

// unsettled lists what an earlier service had no time for.
func (l *Library) unsettled() []string {
	documents, _ := filepath.Glob(l.dir.Path("documents", "*.json"))
	var out []string
	for _, path := range documents {
		name := filepath.Base(path)
		if _, err := os.Stat(l.dir.Path("facts", name)); errors.Is(err, os.ErrNotExist) {
			out = append(out, blob.Prefix+strings.TrimSuffix(name, ".json"))
		}
	}
	return out
}

// repair takes away what a killed service left of signatures, before anybody asks for the images: half of one looks
// like damage.
func (l *Library) repair() error {
	for _, digest := range l.unsettled() {
		f, err := os.OpenFile(l.dir.Image(digest), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(l.repairOne(digest, f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (l *Library) repairOne(digest string, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := sif.Open(f, st.Size()); err == nil {
		return nil
	}
	if err := sif.Repair(f); err != nil {
		l.log.Error("an environment's image is damaged", "digest", digest, "error", err)
	}
	return nil
}

// settle signs an image, compares all its bytes with its digest, and finds out what is in it; once for all who wait for
// it.
func (l *Library) settle(ctx context.Context, digest string) error {
	_, err := l.settles.Do(ctx, digest, nil, func(ctx context.Context, _ *progress.Meter) (struct{}, error) {
		err := l.settleImage(ctx, digest)
		for errors.Is(err, errReplaced) {
			err = l.settleImage(ctx, digest)
		}
		return struct{}{}, l.dir.Explain(err, 0)
	})
	return err
}

// errReplaced says that another file has taken the place of the one that is open.
var errReplaced = errors.New("the image was replaced meanwhile")

func (l *Library) settleImage(ctx context.Context, digest string) error {
	d, err := l.document(digest)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.dir.Image(digest), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	whole, err := l.whole(ctx, f, digest, d)
	if err != nil {
		return fmt.Errorf("environment %s: %w", digest, err)
	}
	defer whole.Close()
	if err := l.sign(ctx, whole, digest); err != nil {
		return err
	}
	compared, err := libdir.StampOf(f)
	if err != nil {
		return err
	}
	sum := sha256.New()
	image, err := l.compareBytes(ctx, whole, d, digest, sum)
	if err != nil {
		return fmt.Errorf("environment %s: %w", digest, err)
	}
	signatures, size, err := imagefile.Signatures(ctx, f, image)
	if err != nil {
		return err
	}
	out := facts{
		SIF: manifest.Part{Digest: blob.Named(sum.Sum(nil)), Size: size}, Signatures: signatures,
		Settled: l.cfg.Now().UTC(),
	}
	if out.Inventory, err = l.look(ctx, image, d); err != nil {
		return err
	}
	if l.cfg.Keys != nil && len(image.Signatures) > 0 {
		if out.Signers, err = image.Verify(ctx, l.unseal, nil); err != nil {
			return err
		}
	}
	if !whole.Thin() {
		l.trusted.Set(digest, compared)
	}
	if err := libdir.WriteJSON(l.dir.Path("facts"), libdir.HexOrNone(digest)+".json", out); err != nil {
		return err
	}
	l.trials.Add(digest)
	return nil
}

// sign appends the site's signature, once. What an interrupted signing left is taken away first.
//
// What nobody is believed to have vouched for stays without: Apptainer's users take a site's signature for its word.
func (l *Library) sign(ctx context.Context, whole *imagefile.Whole, digest string) error {
	f := whole.File
	if l.cfg.Keys == nil || !l.Statements.Attested(digest) {
		return nil
	}
	l.signing.Lock()
	defer l.signing.Unlock()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := l.still(digest, st); err != nil {
		return err // it was filled, or made thin, since it was opened
	}
	if image, err := sif.Open(f, st.Size()); err == nil && len(image.Signatures) > 0 {
		return nil
	}
	if err := sif.Repair(f); err != nil {
		return err
	}
	if err := sif.SignAs(ctx, f, whole, l.cfg.Keys.Sign, nil); err != nil {
		return errors.Join(err, sif.Repair(f)) // half a signature would look like damage
	}
	return f.Sync()
}

func (l *Library) unseal(payloadType string, envelope []byte) ([]byte, string, error) {
	payload, key, err := l.cfg.Keys.Open(payloadType, envelope)
	return payload, key.ID, err
}

// look says what is in an image. What it has of its base was looked at before, or is now for all environments over it;
// without the base all of it is looked at.
func (l *Library) look(ctx context.Context, image *sif.Image, d manifest.Document) (inventory.Inventory, error) {
	root := image.Root()
	tree, err := squashfs.Parse(root, root.Size())
	if err != nil {
		return inventory.Inventory{}, err
	}
	about, err := image.ReadManifest()
	if err != nil {
		return inventory.Inventory{}, err
	}
	m, err := manifest.Decode(about)
	if err != nil {
		return inventory.Inventory{}, err
	}
	cfg := inventory.Config{Tree: inventory.TreeOf(tree), Name: m.Base.Reference, Path: pathOf(m.Env)}
	if d.Base != nil && l.baseIsSound(ctx, d.Base.Part) {
		b, err := l.openBase(d.Base.Digest)
		if err != nil {
			return inventory.Inventory{}, err
		}
		defer b.Release()
		known := inventory.TreeOf(b.Image)
		facts, err := l.baseInventory(ctx, d.Base.Digest, inventory.Config{Tree: known, Name: cfg.Name, Path: cfg.Path})
		if err != nil {
			return inventory.Inventory{}, err
		}
		cfg.Base = &inventory.Known{Tree: known, Inventory: facts}
	}
	return inventory.Look(ctx, cfg)
}

// baseInventory looks at a base once.
func (l *Library) baseInventory(ctx context.Context, digest string, cfg inventory.Config) (inventory.Inventory, error) {
	file := libdir.HexOrNone(digest) + ".json"
	var known inventory.Inventory
	if err := libdir.ReadJSON(l.dir.Path("facts", "bases", file), &known); err == nil {
		return known, nil
	}
	known, err := inventory.Look(ctx, cfg)
	if err != nil {
		return inventory.Inventory{}, err
	}
	return known, libdir.WriteJSON(l.dir.Path("facts", "bases"), file, known)
}

// pathOf returns the PATH of an image's environment.
func pathOf(env []string) string {
	for _, entry := range env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			return path
		}
	}
	return ""
}

// attest signs a statement on where an environment comes from, before a record leads to it.
func (l *Library) attest(req Request, f frozen, started time.Time) error {
	if l.cfg.Keys == nil || req.Carried {
		return nil
	}
	names := []string{}
	if req.Name != "" {
		names = append(names, strings.TrimSuffix(req.Name+":"+req.Tag, ":"))
	}
	envelope, err := l.cfg.Keys.Attest(signing.Provenance{
		Environment: f.Digest, Names: names, Version: l.cfg.Version, Base: f.Base.Digest,
		Strip: blob.Digest([]byte(strings.Join(l.strip.Rules(), "\n"))),
		Kind:  req.Kind, Session: req.Key, User: req.User, Started: started, Finished: l.cfg.Now(),
	})
	if err != nil {
		return err
	}
	return l.Statements.Save(f.Digest, envelope)
}
