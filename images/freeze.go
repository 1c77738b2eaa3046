package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/blob"
	"slipway/images/graft"
	"slipway/images/imagefile"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/pin"
	"slipway/images/progress"
	"slipway/images/records"
	"slipway/images/secretscan"
	"slipway/images/sif"
	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// Request asks for an environment.
type Request struct {
	Owner  string
	Name   string // optional
	Tag    string // optional, with a name only
	Note   string // optional, for people
	Key    string // names the source; two freezes of one key are one while they overlap
	Kind   string // of the session, for the provenance statement
	User   string // who asked, as people know her
	Source Source
	Use    records.Use // what the session uses of it; only Imported and CVMFS
	// Paths that may hold what looks like a secret; one that ends in a slash means all below it.
	Allow    []string
	Progress func(progress.Progress) // called on the caller's goroutine, several times a second; may be nil
	// Carried says that the environment only carries a session's changes from one start to the next, for nobody else:
	// what looks like a secret stays in it, as does a home that was not mounted, and nothing is stated of where it
	// comes from.
	Carried bool
	// Digest of an environment of the owner's whose place it takes, which does not count against his quotas; empty: of none.
	Instead string

	room int64 // bytes that the owner's quotas leave for it
}

func (r Request) validate() error {
	switch {
	case !records.Usable(r.Owner):
		return errs.Bad("owner", r.Owner, fmt.Sprintf("give 1 to %d characters of valid UTF-8", records.MaxOwner))
	case !records.Usable(r.Key):
		return errs.Bad("key", r.Key, fmt.Sprintf("give 1 to %d characters of valid UTF-8", records.MaxOwner))
	}
	if err := (records.Label{Name: r.Name, Tag: r.Tag, Note: r.Note}).Validate(); err != nil {
		return err
	}
	if err := r.Use.Validate(); err != nil {
		return err
	}
	if err := secretscan.CheckAllow(r.Allow); err != nil {
		return err
	}
	return r.Source.validate()
}

// frozen is what a freeze made, before anybody's record names it.
type frozen struct {
	records.Content
	Allowed   []secretscan.Finding `json:"allowed,omitempty"`
	Paused    time.Duration        `json:"paused"` // how long the source stood still
	unchanged bool
	fresh     bool // its image was not here before
}

// Freeze makes an environment out of the source's present state. It comes back only when the source runs again and
// nothing unfinished is left, also when ctx ends, unless another caller still waits for the same key. The caller who
// joins a freeze in progress gets its result, under the name in the caller's own request.
func (l *Library) Freeze(ctx context.Context, req Request) (records.Environment, error) {
	if err := req.validate(); err != nil {
		return records.Environment{}, fmt.Errorf("freeze: %w", err)
	}
	started := time.Now()
	work := func(ctx context.Context, m *progress.Meter) (frozen, error) { return l.freeze(ctx, req, m) }
	f, err := l.freezes.Do(ctx, req.Owner+"\x00"+req.Key, req.Progress, work)
	if err != nil {
		return records.Environment{}, fmt.Errorf("freeze %s: %w", req.Key, vanished(req.Source, err))
	}
	// An unchanged one has its statement, but where the service died, or its disk was full, in between.
	if !f.unchanged || l.cfg.Keys != nil && !req.Carried && !l.Statements.Attested(f.Digest) {
		if err := l.attest(req, f, started); err != nil {
			l.abandon(f)
			return records.Environment{}, fmt.Errorf("freeze %s: %w", req.Key, l.dir.Explain(err, 0))
		}
		defer l.later(f.Digest) // it is signed for what was stated
	}
	e, err := l.enter(req, f)
	if err != nil {
		l.abandon(f)
		return records.Environment{}, fmt.Errorf("freeze %s: %w", req.Key, l.dir.Explain(err, 0))
	}
	if req.Progress != nil {
		req.Progress(progress.Progress{
			Stage: progress.Done, Files: f.Manifest.Files, Bytes: f.Size, Total: f.Size, Percent: 100,
		})
	}
	return e, nil
}

// stripOf returns what does not travel.
func (l *Library) stripOf(req Request) *tree.Strip {
	if req.Carried {
		return l.carried
	}
	return l.strip
}

func (l *Library) freeze(ctx context.Context, req Request, m *progress.Meter) (frozen, error) {
	m.At(progress.Scanning, 0, 0, 0)
	start := time.Now()
	state, files, bytes, err := graft.Scan(ctx, req.Source.Upper, l.stripOf(req))
	if err != nil {
		return frozen{}, err
	}
	took := time.Since(start)
	m.At(progress.Scanning, files, bytes, bytes)
	id, err := l.identity(state, req.Source)
	if err != nil {
		return frozen{}, err
	}
	asked := req.Allow
	req.Allow = union(asked, l.allowedBefore(req, id))
	if f, ok := l.last(req, id); ok {
		return f, nil
	}
	req.Allow = asked
	if err := l.bearable(ctx, req, files); err != nil {
		return frozen{}, err
	}
	if req.room, err = l.roomFor(ctx, req.Owner, req.Instead, "", 1); err != nil {
		return frozen{}, err
	}
	if !req.Source.Idle {
		m.Expect(files, graft.ExpectedPause(files, took))
	}
	base, err := l.prepareBase(ctx, req.Source, m.Show)
	if err != nil {
		return frozen{}, err
	}
	if err := l.enoughDisk(req, bytes); err != nil {
		return frozen{}, err
	}
	work, err := os.MkdirTemp(l.dir.Path("work"), "freeze-")
	if err != nil {
		return frozen{}, l.dir.Explain(err, bytes)
	}
	defer l.discard(work)
	f, err := l.build(ctx, req, base, work, m)
	if err != nil {
		return frozen{}, l.dir.Explain(err, bytes) // before the work is removed: it tells how much is free now
	}
	return f, nil
}

// draft is an image in the making: its squashfs is complete, and nothing else of it is.
type draft struct {
	file     *os.File
	document manifest.Document // but for the manifest
	manifest manifest.Manifest
	state    string // fingerprint of the source when it stood still
	found    secretscan.Report
	thin     *thinTail // nil: the file is whole
	paused   time.Duration
	carried  bool // nobody else is to have it
}

func (l *Library) build(
	ctx context.Context, req Request, base baseRecord, work string, m *progress.Meter,
) (frozen, error) {
	path := filepath.Join(work, "image.sif")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return frozen{}, err
	}
	defer file.Close()
	d, err := l.graftOver(ctx, req, base, work, file, m)
	if errors.Is(err, graft.ErrNotSelfContained) && len(req.Source.Layers) > 0 {
		l.log.Info("the changes cannot be grafted, the whole tree is packed", "session", req.Key, "why", err)
		if d, err = nil, os.RemoveAll(filepath.Join(work, "tail")); err == nil {
			d, err = l.repack(ctx, req, work, file, m)
		}
	}
	if err != nil {
		return frozen{}, err
	}
	if req.Source.Idle {
		d.paused = 0 // nothing stood still that did not before
	}
	m.At(progress.Writing, 0, 0, 0)
	return l.finish(ctx, req, d, path)
}

// graftOver grafts with what the source's last freeze has left, or without it where that is damaged.
func (l *Library) graftOver(
	ctx context.Context, req Request, base baseRecord, work string, file *os.File, m *progress.Meter,
) (*draft, error) {
	dir := filepath.Join(work, "tail")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	known := l.recall(req, dir)
	d, err := l.graftOnto(ctx, req, base, dir, known, file, m)
	if known == nil || !errors.Is(err, graft.ErrMemory) {
		return d, err
	}
	l.log.Warn("what an earlier freeze has stored is damaged, all is read again", "session", req.Key, "error", err)
	if err := errors.Join(os.Remove(l.memoryPath(req)), os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, err
	}
	return l.graftOnto(ctx, req, base, dir, nil, file, m)
}

// graftOnto writes a thin image of the base and the changes over it into file, and what it stores into dir.
func (l *Library) graftOnto(
	ctx context.Context, req Request, base baseRecord, dir string, known *graft.Memory, file *os.File,
	m *progress.Meter,
) (*draft, error) {
	b, err := l.openBase(base.Part.Digest)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	scanner, err := secretscan.New(secretscan.Config{Allow: req.Allow})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pack, err := l.newPack(ctx, req, dir)
	if err != nil {
		return nil, err
	}
	defer pack.Close()
	open, close := imagefile.Opener(dir)
	defer close()
	tail := blob.NewHasher(l.within(ctx, req, io.Discard))
	made, err := graft.Graft(ctx, graft.Config{
		Base: b.Image, Upper: req.Source.Upper, Strip: l.stripOf(req), Pause: req.Source.Pause,
		Resume: req.Source.Resume, Look: scanner.Look, Out: tail,
		Pack: pack, PackName: pack.name, Known: known, OpenPack: open,
		About: l.cfg.Version + " " + blob.Digest([]byte(strings.Join(l.stripOf(req).Rules(), "\n"))),
		Progress: func(s graft.Stage, files, bytes int64) {
			m.At(stageOf(s), files, bytes, 0)
			if l.tooMany(files) {
				cancel(l.crowded(ctx, req, files)) // they have become so many since
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if err := scanner.LookAtLarge(ctx, req.Source.Upper, b.Image.Root, made.Root, made.Unread); err != nil {
		return nil, err
	}
	if err := errors.Join(pack.Sync(), file.Truncate(sif.PartitionOffset+base.Part.Cut+tail.Size())); err != nil {
		return nil, err
	}
	d := &draft{file: file, state: made.State, paused: made.Paused, carried: req.Carried, manifest: l.manifestOf(req)}
	d.thin = &thinTail{dir: dir, extents: made.Tail, remember: made.Remember}
	d.document.Base = &base.Part
	d.manifest.Sockets, d.manifest.Devices, d.manifest.Losses = skipped(made.Sockets), skipped(made.Devices), plusLosses(base.Losses, made.Losses)
	own := manifest.Texts(made.Changed)
	d.manifest.Added = slices.DeleteFunc(union(base.Added, manifest.Texts(made.Added)), func(path string) bool {
		_, changed := slices.BinarySearch(own, path)
		return changed && !slices.Contains(made.Added, path)
	})
	whole, err := imagefile.Parts(file, b.File, base.Part.Cut, dir, made.Tail)
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	return d, d.seal(ctx, made.Super, tail, scanner, whole)
}

func stageOf(s graft.Stage) progress.Stage {
	switch s {
	case graft.Paused:
		return progress.Settling
	case graft.Tables:
		return progress.Indexing
	default:
		return progress.Reading
	}
}

// seal writes the superblock, which makes the file's partition a squashfs, and looks at what it holds.
func (d *draft) seal(
	ctx context.Context, super squashfs.Superblock, tail *blob.Hasher, scanner *secretscan.Scanner, whole io.ReaderAt,
) error {
	block := super.Bytes()
	if _, err := d.file.WriteAt(block[:], sif.PartitionOffset); err != nil {
		return fmt.Errorf("write the superblock: %w", err)
	}
	tail.Count(block[:])
	d.document.Tail = manifest.Part{Digest: tail.Digest(), Size: tail.Size()}
	d.manifest.Files = int64(super.Inodes)
	return d.inspect(ctx, scanner, whole)
}

// inspect stops a freeze that would publish a secret.
func (d *draft) inspect(ctx context.Context, scanner *secretscan.Scanner, whole io.ReaderAt) error {
	if d.carried {
		return nil
	}
	report, err := scanner.Report(ctx, imagefile.NewTree(whole, d.document.PartitionSize()))
	if err != nil {
		return err
	}
	for _, f := range report.Allowed {
		d.manifest.Allowed = union(d.manifest.Allowed, []string{manifest.Text(f.Path)})
	}
	d.found = report
	return report.Err()
}

// finish makes the draft an environment that can be found by its digest.
func (l *Library) finish(ctx context.Context, req Request, d *draft, path string) (frozen, error) {
	if len(req.Source.Lost) > 0 {
		d.manifest.Losses.Others = manifest.Texts(req.Source.Lost)
	}
	about, err := manifest.Encode(d.manifest)
	if err != nil {
		return frozen{}, err
	}
	d.document.Manifest = manifest.Part{Digest: blob.Digest(about), Size: int64(len(about))}
	if err := sif.Finish(d.file, d.manifest.Architecture, d.document.PartitionSize(), about); err != nil {
		return frozen{}, err
	}
	document, name, err := d.document.Encode()
	if err != nil {
		return frozen{}, err
	}
	if _, err := l.Records.Room(req.Owner, req.Instead, name, d.document.Tail.Size); err != nil {
		return frozen{}, err
	}
	size, fresh, err := l.admit(ctx, draftFile{d.file, path, d.thin, false}, d.document, document, name)
	if err != nil {
		return frozen{}, err
	}
	f := frozen{
		Content: records.Content{
			Digest: name, Size: size, Own: d.document.Tail.Size, Base: req.Source.Base, Manifest: d.manifest,
		},
		Allowed: d.found.Allowed, Paused: d.paused, fresh: fresh,
	}
	id, err := l.identity(d.state, req.Source)
	if err == nil {
		err = l.saveLast(req, id, f)
	}
	if err != nil {
		l.abandon(f)
		return frozen{}, err
	}
	l.remember(req, name, d)
	return f, nil
}

// draftFile is a finished, unsigned image that has no place yet.
type draftFile struct {
	*os.File
	path     string
	thin     *thinTail // nil: the file is whole
	compared bool      // this process has read its bytes back, and compared them with the document
}

// admit gives an image its place: the file first, then the document that makes it known. One that is there already
// stays when it has the right bytes, with its signatures. Any other is replaced in one step, and what was found out of
// it is forgotten. It says whether the image is the first here; if its document cannot be written, it goes again.
func (l *Library) admit(
	ctx context.Context, file draftFile, d manifest.Document, document []byte, name string,
) (size int64, fresh bool, err error) {
	st, err := file.Stat()
	if err != nil {
		return 0, false, err
	}
	if err := errors.Join(file.Chmod(0o644), file.Sync()); err != nil {
		return 0, false, fmt.Errorf("flush: %w", err)
	}
	l.keepFor(name, pin.Grace) // until a record leads to it
	l.comes(name)
	fresh, err = l.putInPlace(ctx, file, d, name)
	if err != nil {
		return 0, false, err
	}
	if err := libdir.WriteFile(l.dir.Path("documents"), libdir.HexOrNone(name)+".json", document); err != nil {
		l.abandon(frozen{Content: records.Content{Digest: name}, fresh: fresh})
		return 0, false, err
	}
	return st.Size(), fresh, nil
}

// putInPlace gives an image its place, unless one with the right bytes stands there. fresh says that nothing stood
// there.
func (l *Library) putInPlace(
	ctx context.Context, file draftFile, d manifest.Document, name string,
) (fresh bool, err error) {
	for {
		before, err := os.Stat(l.dir.Image(name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		stays, err := l.stands(ctx, name, d)
		if err == nil && !stays {
			err = l.place(file, name, before)
		}
		if !errors.Is(err, errReplaced) {
			return before == nil, err
		}
	}
}

// comes notes that an environment's image is about to be here.
func (l *Library) comes(digest string) {
	l.Records.Lock()
	defer l.Records.Unlock()
	delete(l.abandoned, digest)
}

// abandon takes away what a freeze made that fails after all, such as on a full disk, which it would keep full until
// the next sweep. What was here before, what a record leads to and what somebody reads stays. Who comes by another
// freeze to the same one is refused it.
func (l *Library) abandon(f frozen) {
	l.Records.Lock()
	defer l.Records.Unlock()
	hexPart := libdir.HexOrNone(f.Digest)
	if records, err := filepath.Glob(l.dir.Path("records", "*", hexPart+".json")); !f.fresh || err != nil || len(records) > 0 || l.pins.IsHeld(f.Digest) {
		return
	}
	l.abandoned[f.Digest] = true
	if err := l.removeEnvironment(hexPart); err != nil {
		l.log.Error("the image of a freeze that failed cannot be removed", "digest", f.Digest, "error", err)
	}
}

// stands says whether the image of a digest is there with the right bytes.
func (l *Library) stands(ctx context.Context, name string, d manifest.Document) (bool, error) {
	err := l.compareImage(ctx, name, d, false)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case ctx.Err() == nil && (errs.Is(err, errs.Conflict) || errors.Is(err, unix.EIO) ||
		errors.Is(err, io.ErrUnexpectedEOF)):
		l.log.Warn("a damaged image is replaced", "digest", name, "error", err)
		return false, nil
	default:
		return false, err
	}
}

// place puts an image, behind its tail, where its digest leads to, unless what was there before is no longer. Nothing
// that was found out of another file holds for it.
func (l *Library) place(file draftFile, name string, before os.FileInfo) error {
	l.placing.Lock()
	defer l.placing.Unlock()
	if err := l.still(name, before); err != nil {
		return err
	}
	if err := os.Remove(l.dir.Path("facts", libdir.HexOrNone(name)+".json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := l.placeTail(file.thin, name); err != nil {
		return err
	}
	if err := libdir.Publish(file.path, l.dir.Image(name)); err != nil {
		if before == nil { // no image is left of it
			err = errors.Join(err, os.RemoveAll(l.dir.Tail(name)))
		}
		return err
	}
	if !file.compared {
		return nil
	}
	st, err := libdir.StampOf(file.File) // renaming has changed it
	if err == nil {
		l.trusted.Set(name, st)
	}
	return err
}

// still says by errReplaced that another file is at an image's place than before, which may be none.
func (l *Library) still(name string, before os.FileInfo) error {
	now, err := os.Stat(l.dir.Image(name))
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case err != nil && before == nil:
		return nil
	case err != nil || before == nil || !os.SameFile(now, before):
		return errReplaced
	default:
		return nil
	}
}

// discard removes a directory of unfinished work.
func (l *Library) discard(work string) {
	if err := os.RemoveAll(work); err != nil {
		l.log.Error("unfinished work cannot be removed", "path", work, "error", err)
	}
}

// identity joins the fingerprint of a source's changes with all else that an environment's content follows from.
func (l *Library) identity(state string, src Source) (string, error) {
	key, err := l.baseKey(src)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(struct {
		Format       int
		State, Base  string
		Reference    string
		Architecture string
		Mounts       []string
		Lost         []string `json:",omitempty"`
	}{manifest.Format, state, key, src.Base.Reference, src.architecture(), src.Mounts, src.Lost})
	if err != nil {
		return "", fmt.Errorf("encode identity: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// allowedBefore returns what the source's last freeze let pass by the owner's word, while nothing has changed since and
// she keeps what came of it: that is asked once.
func (l *Library) allowedBefore(req Request, id string) []string {
	var last lastFreeze
	if err := libdir.ReadJSON(l.dir.Path("sources", libdir.Escape(req.Owner), libdir.Escape(req.Key)+".json"), &last); err != nil || last.Identity != id {
		return nil
	}
	if _, err := l.Records.Load(req.Owner, libdir.HexOrNone(last.Frozen.Digest)); err != nil {
		return nil
	}
	var out []string
	for _, f := range last.Frozen.Allowed {
		out = append(out, f.Path)
	}
	return out
}

// allows says whether what an earlier freeze let pass may pass now.
func allows(list []string, found []secretscan.Finding) bool {
	for _, f := range found {
		if !slices.ContainsFunc(list, func(rule string) bool {
			return rule == f.Path || strings.HasSuffix(rule, "/") && strings.HasPrefix(f.Path, rule)
		}) {
			return false
		}
	}
	return true
}

// union joins two lists of paths, sorted, each once.
func union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// vanished turns an error of a source that has been removed meanwhile into one that says so.
func vanished(src Source, err error) error {
	if _, gone := os.Lstat(src.Upper); !errors.Is(gone, os.ErrNotExist) || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errs.New(errs.Conflict, "its files were removed while it was frozen: %w", err).
		With("start the session again, and freeze it then")
}

// enoughDisk refuses a freeze that cannot end well, before anybody stands still for it: what the changes compress to at
// best, unless they may be stored already, by the source's last freeze.
func (l *Library) enoughDisk(req Request, changes int64) error {
	if _, err := os.Lstat(l.memoryPath(req)); err == nil {
		return nil
	}
	free, err := l.dir.Free()
	need := changes / 4
	if err != nil || need <= free {
		return err
	}
	return errs.New(errs.NoSpace, "no space for the environment: it takes at least %d MB (what %d MB of changes compress to), and %d MB are free on the file system of %s",
		need>>20+1, changes>>20, free>>20, l.dir).
		With(fmt.Sprintf("free %d MB there, or freeze less, and freeze again", (need-free)>>20+1))
}
