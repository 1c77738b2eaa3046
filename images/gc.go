package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slipway/images/blob"
	"slipway/images/pin"
	"slipway/internal/errs"
)

const (
	// tidyEvery is how often the library is tidied up: what a kill left without a record stands for grace, and at most
	// as long again.
	tidyEvery = pin.Grace
	// keepBase is how long a base that nothing stands on is kept after it was made or used here: the next freeze may
	// want it. One that was pulled is nobody's any more when the last environment over it is gone: in no quota, and
	// perhaps no base of anything.
	keepBase = 30 * 24 * time.Hour
)

// Swept says what a sweep removed, or would.
type Swept struct {
	Environments []string // digests
	Bases        []string // digests
	Bytes        int64
	Files        []SweptFile // both, in that order
	Waiting      Waiting
}

// Waiting is what nothing leads to and still stays, because it was made or used a moment ago.
type Waiting struct {
	Environments int
	Bytes        int64
	Until        time.Time // when the last of it may go
}

// SweptFile is an image or a base that a sweep removed, or would.
type SweptFile struct {
	Digest string
	Base   bool
	Bytes  int64
	Made   time.Time
}

// tidy lets go of what was kept long enough, and sweeps.
func (l *Library) tidy(ctx context.Context) error {
	used, err := l.inUse(ctx)
	if err != nil {
		return err
	}
	if l.cfg.Keep > 0 {
		if err := l.Records.Expire(used, l.cfg.Keep); err != nil {
			return err
		}
	}
	s, err := l.Sweep(ctx, false)
	if len(s.Files)+s.Waiting.Environments > 0 {
		l.log.Info("swept the environments", "removed", len(s.Environments), "bases", len(s.Bases), "bytes", s.Bytes,
			"unreferenced", s.Waiting.Environments, "unreferenced_bytes", s.Waiting.Bytes)
	}
	if err != nil {
		return err
	}
	return l.fold(ctx, used)
}

// inUse returns the digests of environments that jobs and sessions need.
func (l *Library) inUse(ctx context.Context) (map[string]bool, error) {
	needed := map[string]bool{}
	if l.cfg.InUse == nil {
		return needed, nil
	}
	used, err := l.cfg.InUse(ctx)
	if err != nil {
		return nil, fmt.Errorf("sweep: what is in use is not known: %w", err)
	}
	for _, digest := range used {
		needed[digest] = true
	}
	return needed, nil
}

// Sweep removes the files of environments that no record, job or session leads to, and bases that no environment stands
// on and that were not used lately. dry only tells. How old something is counts up to when it was asked what is in use:
// a job that came later is not in the answer.
func (l *Library) Sweep(ctx context.Context, dry bool) (Swept, error) {
	s := sweep{Library: l, dry: dry, asked: l.cfg.Now()}
	needed, err := l.inUse(ctx)
	if err != nil {
		return Swept{}, err
	}
	l.Records.Lock()
	defer l.Records.Unlock()
	records, err := filepath.Glob(l.dir.Path("records", "*", "*.json"))
	if err != nil {
		return Swept{}, err
	}
	for _, path := range records { // by their names: what one that cannot be read leads to stays
		needed[blob.Prefix+strings.TrimSuffix(filepath.Base(path), ".json")] = true
	}
	bases, err := s.environments(needed)
	if err == nil {
		err = s.bases(bases)
	}
	if !dry {
		l.sweeps.add(s.out)
	}
	return s.out, err
}

// sweep is one sweep.
type sweep struct {
	*Library
	dry   bool
	asked time.Time
	out   Swept
}

// environments returns the bases that are needed by what stays; nil: that is not known.
func (s *sweep) environments(needed map[string]bool) (bases map[string]bool, err error) {
	bases = map[string]bool{}
	files, err := filepath.Glob(s.dir.Path("blobs", "*.sif"))
	if err != nil {
		return nil, err
	}
	known := true
	for _, path := range files {
		hexPart := strings.TrimSuffix(filepath.Base(path), ".sif")
		digest, gone := blob.Prefix+hexPart, false
		if !needed[digest] {
			gone, err = s.file(digest, path, pin.Grace, func() error { return s.removeEnvironment(hexPart) })
		}
		if err != nil {
			return nil, err
		}
		if !needed[digest] && !gone {
			s.stays(digest, path)
		}
		if gone {
			s.out.Environments = append(s.out.Environments, digest)
			continue
		}
		d, err := s.document(digest)
		known = known && (err == nil || errs.Is(err, errs.NotFound))
		if err == nil && d.Base != nil {
			bases[d.Base.Digest] = true
		}
	}
	if !known {
		return nil, nil
	}
	return bases, nil
}

// stays notes an image that nothing leads to and that is too young to go.
func (s *sweep) stays(digest, path string) {
	st, err := os.Stat(path)
	if err != nil {
		return
	}
	w := &s.out.Waiting
	w.Environments, w.Bytes = w.Environments+1, w.Bytes+st.Size()
	for _, until := range []time.Time{st.ModTime().Add(pin.Grace), s.pins.End(digest, s.asked)} {
		if until.After(w.Until) {
			w.Until = until.UTC()
		}
	}
}

// file removes what a file stands for, unless it is younger than age or somebody has pinned it. gone says whether it
// went, or would.
func (s *sweep) file(digest, path string, age time.Duration, remove func() error) (gone bool, err error) {
	st, err := os.Stat(path)
	if err != nil || s.asked.Sub(st.ModTime()) < age {
		return false, nil
	}
	if s.dry {
		remove = func() error { return nil }
	}
	gone, err = s.pins.Unless(digest, s.asked, remove)
	if !gone || err != nil {
		return gone, err
	}
	s.out.Bytes += st.Size()
	s.out.Files = append(
		s.out.Files,
		SweptFile{Digest: digest, Base: strings.HasSuffix(path, ".sqfs"), Bytes: st.Size(), Made: st.ModTime()},
	)
	if !s.dry {
		s.log.Info("removed what nothing leads to", "file", path, "bytes", st.Size())
	}
	return true, nil
}

// removeEnvironment removes the document first: without it nobody finds the rest, and a sweep that was interrupted goes
// on.
func (l *Library) removeEnvironment(hexPart string) error {
	for _, path := range []string{
		l.dir.Path("documents", hexPart+".json"), l.dir.Path("facts", hexPart+".json"),
		l.dir.Path("statements", hexPart), l.dir.Path("blobs", hexPart+".sif"),
		l.dir.Path("tails", hexPart),
	} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweep) bases(needed map[string]bool) error {
	if needed == nil {
		s.log.Warn("no base is removed: the document of an environment that stays cannot be read")
		return nil
	}
	files, err := filepath.Glob(s.dir.Path("bases", "*.sqfs"))
	if err != nil {
		return err
	}
	for _, path := range files {
		digest := blob.Prefix + strings.TrimSuffix(filepath.Base(path), ".sqfs")
		if needed[digest] {
			continue
		}
		age := keepBase
		if here, err := s.converted(func(b baseRecord) bool { return b.Part.Digest == digest }); err == nil && !here {
			age = pin.Grace
		}
		gone, err := s.file(digest, path, age, func() error { return os.Remove(path) })
		if err != nil {
			return err
		}
		if gone {
			s.out.Bases = append(s.out.Bases, digest)
		}
		if gone && !s.dry {
			s.opened.DropDigest(digest)
		}
	}
	return nil
}

// Hold keeps an environment from being removed while it is read for another place, whatever becomes of its records.
func (l *Library) Hold(digest string) (release func()) { return l.pins.Hold(digest, l.cfg.Now) }

// keepFor keeps an environment or a base for some time from now.
func (l *Library) keepFor(digest string, d time.Duration) { l.pins.Keep(digest, l.cfg.Now().Add(d)) }
