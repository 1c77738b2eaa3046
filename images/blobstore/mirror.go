package blobstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"sync"

	"slipway/images/blob"
	"slipway/internal/errs"
)

// Member is a store of a mirror.
type Member struct {
	Name string // for messages
	Store
}

// Trouble is something that went wrong with one copy while the mirror as a whole could do what was asked.
type Trouble struct {
	Store  string
	Digest string
	Err    error
	Healed bool // the copy has been written anew since
}

// MirrorConfig is what a mirror is made of.
type MirrorConfig struct {
	Members []Member      // read in this order
	Copies  int           // that a Put must have made; 2 when 0
	Trouble func(Trouble) // told of each trouble, from any goroutine; may be nil
}

// Mirror keeps each blob in several stores.
type Mirror struct{ cfg MirrorConfig }

// NewMirror makes a mirror.
func NewMirror(cfg MirrorConfig) (*Mirror, error) {
	if cfg.Copies == 0 {
		cfg.Copies = 2
	}
	if cfg.Copies < 1 || cfg.Copies > len(cfg.Members) {
		return nil, errs.Bad("copies", cfg.Copies, fmt.Sprintf("there are %d stores", len(cfg.Members)))
	}
	return &Mirror{cfg}, nil
}

func (m *Mirror) trouble(store, digest string, err error, healed bool) Trouble {
	t := Trouble{store, digest, err, healed}
	if m.cfg.Trouble != nil {
		m.cfg.Trouble(t)
	}
	return t
}

// each does something at all stores at once, and gives their errors in order.
func (m *Mirror) each(do func(Member) error) []error {
	all := make([]error, len(m.cfg.Members))
	var running sync.WaitGroup
	for i, member := range m.cfg.Members {
		running.Go(func() { all[i] = do(member) })
	}
	running.Wait()
	return all
}

// Put writes to all stores, and is content when there are as many copies as are asked for.
func (m *Mirror) Put(ctx context.Context, digest string, b blob.Blob) error {
	written, all := 0, m.each(func(s Member) error { return s.Put(ctx, digest, b) })
	for i, err := range all {
		if err == nil {
			written++
		} else {
			all[i] = fmt.Errorf("%s: %w", m.cfg.Members[i].Name, err)
		}
	}
	if written < m.cfg.Copies {
		return errs.New(errs.Unavailable, "%s has %d copies, and %d are wanted: %w", digest, written, m.cfg.Copies, errors.Join(all...))
	}
	for i, err := range all {
		if err != nil {
			m.trouble(m.cfg.Members[i].Name, digest, err, false)
		}
	}
	return nil
}

// Get reads from the first store that has the blob, and goes on with the next one when that breaks. What is read to the end from
// the beginning is verified: the last read fails when the bytes were wrong.
func (m *Mirror) Get(ctx context.Context, digest string, offset, length int64) (io.ReadCloser, error) {
	r := &relay{mirror: m, ctx: ctx, digest: digest, at: offset, end: -1}
	if length >= 0 {
		r.end = offset + length
	} else if offset == 0 {
		r.hash = sha256.New()
	}
	if err := r.next(nil); err != nil {
		return nil, err
	}
	return r, nil
}

// relay reads from one store after another.
type relay struct {
	mirror *Mirror
	ctx    context.Context
	digest string
	at     int64
	end    int64     // -1: that of the blob
	hash   hash.Hash // nil: not all of it is read
	member int       // to be tried next
	from   io.ReadCloser
	causes error
}

// next turns to the next store that has the blob.
func (r *relay) next(cause error) error {
	if r.from != nil {
		r.causes = errors.Join(r.causes, cause, r.from.Close())
		r.mirror.trouble(r.mirror.cfg.Members[r.member-1].Name, r.digest, cause, false)
		r.from = nil
	}
	for r.member < len(r.mirror.cfg.Members) && r.ctx.Err() == nil {
		s := r.mirror.cfg.Members[r.member]
		r.member++
		length := int64(-1)
		if r.end >= 0 {
			length = r.end - r.at
		}
		from, err := s.Get(r.ctx, r.digest, r.at, length)
		if err == nil {
			r.from = from
			return nil
		}
		r.causes = errors.Join(r.causes, fmt.Errorf("%s: %w", s.Name, err))
		if !errs.Is(err, errs.NotFound) {
			r.mirror.trouble(s.Name, r.digest, err, false)
		}
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return fmt.Errorf("no store can give %s: %w", r.digest, r.causes)
}

func (r *relay) Read(p []byte) (int, error) {
	if r.from == nil {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := r.from.Read(p)
	r.at += int64(n)
	if r.hash != nil {
		r.hash.Write(p[:n])
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		return n, r.verified()
	case n > 0:
		return n, r.next(err)
	}
	if err := r.next(err); err != nil {
		return 0, err
	}
	return r.Read(p)
}

func (r *relay) verified() error {
	if r.hash == nil || blob.Named(r.hash.Sum(nil)) == r.digest {
		return io.EOF
	}
	store := r.mirror.cfg.Members[r.member-1].Name
	err := errs.New(errs.Invalid, "the copy of %s in %s is damaged", r.digest, store).With("heal the mirror, and read it again")
	r.mirror.trouble(store, r.digest, err, false)
	return err
}

func (r *relay) Close() error {
	if r.from == nil {
		return nil
	}
	return r.from.Close()
}

// Stat asks one store after another.
func (m *Mirror) Stat(ctx context.Context, digest string) (Info, error) {
	var all error
	for _, s := range m.cfg.Members {
		info, err := s.Stat(ctx, digest)
		if err == nil {
			return info, nil
		}
		all = errors.Join(all, fmt.Errorf("%s: %w", s.Name, err))
	}
	return Info{}, fmt.Errorf("no store has %s: %w", digest, all)
}

// List returns what is in any store, once. A store that cannot be read is told as trouble; only when none can is there an error.
func (m *Mirror) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		seen, failed := map[string]bool{}, []error{}
		for _, s := range m.cfg.Members {
			for info, err := range s.List(ctx) {
				if err != nil {
					failed = append(failed, m.trouble(s.Name, "", err, false).Err)
					break
				}
				if !seen[info.Digest] && !yield(info, nil) {
					return
				}
				seen[info.Digest] = true
			}
		}
		if len(failed) == len(m.cfg.Members) {
			yield(Info{}, errs.New(errs.Unavailable, "no store can be listed: %w", errors.Join(failed...)))
		}
	}
}

// Delete removes all copies. One that cannot be removed is an error: it could come back.
func (m *Mirror) Delete(ctx context.Context, digest string) error {
	return errors.Join(m.each(func(s Member) error { return s.Delete(ctx, digest) })...)
}

// Heal reads every copy of a blob, and writes those anew that are missing or damaged. It gives what it found; the error says that no
// copy is good.
func (m *Mirror) Heal(ctx context.Context, digest string) ([]Trouble, error) {
	found := m.each(func(s Member) error { return Verify(ctx, s, digest) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	good := -1
	for i, err := range found {
		if err == nil {
			good = i
			break
		}
	}
	var list []Trouble
	for i, err := range found {
		if err != nil {
			healed := good >= 0 && m.rewrite(ctx, i, good, digest, err) == nil
			list = append(list, m.trouble(m.cfg.Members[i].Name, digest, err, healed))
		}
	}
	if good < 0 {
		return list, hopeless(digest, found)
	}
	return list, nil
}

// hopeless says that no copy is good, or that one may be in a store that cannot be read now.
func hopeless(digest string, found []error) error {
	for _, err := range found {
		if !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.NotFound) {
			return errs.New(errs.Unavailable, "no good copy of %s can be read: %w", digest, errors.Join(found...)).With("try again when all stores answer")
		}
	}
	return errs.New(errs.Invalid, "no copy of %s is good: %w", digest, errors.Join(found...)).
		With("pull it again from where it was pushed, or freeze it anew")
}

// rewrite puts a good copy in the place of a bad one. A copy that only could not be read is left as it is.
func (m *Mirror) rewrite(ctx context.Context, bad, good int, digest string, why error) error {
	to := m.cfg.Members[bad]
	switch {
	case errs.Is(why, errs.Invalid):
		if err := to.Delete(ctx, digest); err != nil {
			return err
		}
	case !errs.Is(why, errs.NotFound):
		return why
	}
	from, err := Open(ctx, m.cfg.Members[good].Store, digest)
	if err != nil {
		return err
	}
	defer from.Close()
	return to.Put(ctx, digest, from)
}

// HealAll heals what is in any store. The error says what is beyond help.
func (m *Mirror) HealAll(ctx context.Context) ([]Trouble, error) {
	var list []Trouble
	var all error
	for info, err := range m.List(ctx) {
		if err != nil {
			return list, errors.Join(all, err)
		}
		found, err := m.Heal(ctx, info.Digest)
		list, all = append(list, found...), errors.Join(all, err)
		if ctx.Err() != nil {
			return list, context.Cause(ctx)
		}
	}
	return list, all
}
