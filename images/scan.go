package images

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// scan is what one walk of an upper directory found.
type scan struct {
	sum   string // equal sums: nothing has changed
	files int64
	bytes int64
}

type scanner struct {
	ctx   context.Context
	dev   uint64
	hash  hash.Hash
	buf   []byte
	meter *meter
	out   scan
}

// runtimeDir is made anew by every freeze, so what a source has there is neither compared nor copied.
const runtimeDir = ".singularity.d"

// scanUpper walks the upper directory without reading a file. What vanishes meanwhile counts as never seen.
func scanUpper(ctx context.Context, upper string, strip *tree.Strip, m *meter) (scan, error) {
	root, err := tree.OpenDir(upper)
	if err != nil {
		return scan{}, err
	}
	defer root.Close()
	st, err := tree.StatFile(root)
	if err != nil {
		return scan{}, err
	}
	s := &scanner{ctx: ctx, dev: st.Dev, hash: sha256.New(), meter: m}
	s.note("", &st)
	if err := s.dir(root, "", strip.Top()); err != nil {
		return scan{}, err
	}
	s.out.sum = hex.EncodeToString(s.hash.Sum(nil))
	return s.out, nil
}

func (s *scanner) dir(dir *os.File, rel string, rules tree.Live) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	list, err := tree.Names(dir)
	if err != nil {
		return fmt.Errorf("list /%s: %w", rel, err)
	}
	for _, name := range list {
		stripped, below := rules.Enter(name)
		if stripped || rel == "" && name == runtimeDir {
			continue
		}
		if err := s.entry(dir, name, rel, below); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *scanner) entry(dir *os.File, name, rel string, below tree.Live) error {
	path := tree.Join(rel, name)
	if len(path) > tree.MaxPath {
		return errs.New(errs.Conflict, "the path %.60q... has %d bytes, at most %d can be packed", path, len(path), tree.MaxPath).
			With("shorten or remove it and freeze again")
	}
	st, err := tree.StatAt(dir, name)
	if err != nil {
		return err
	}
	s.note(path, &st)
	if !tree.IsDir(&st) {
		return nil
	}
	sub, err := tree.Child(dir, name, s.dev)
	if err != nil {
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil // replaced by something else since lstat: a changed fingerprint is all that follows
		}
		return fmt.Errorf("scan /%s: %w", path, err)
	}
	defer sub.Close()
	return s.dir(sub, path, below)
}

func (s *scanner) note(path string, st *unix.Stat_t) {
	s.buf = binary.LittleEndian.AppendUint64(s.buf[:0], uint64(len(path)))
	s.buf = append(s.buf, path...)
	s.hash.Write(appendStat(s.buf, st))
	s.out.files++
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		s.out.bytes += min(st.Size, st.Blocks*512)
	}
	s.meter.add(1, 0)
}

// appendStat adds to b what tells a changed entry from an unchanged one.
func appendStat(b []byte, st *unix.Stat_t) []byte {
	for _, v := range []uint64{
		st.Ino, uint64(st.Mode), uint64(st.Uid)<<32 | uint64(st.Gid), uint64(st.Nlink), st.Rdev, uint64(st.Size),
		uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec), uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec),
	} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// identity joins a scan with all else that an environment's content follows from.
func identity(sum string, src Source, rules []string) (string, error) {
	data, err := json.Marshal(struct {
		Format int
		Sum    string
		Base   Base
		Layers []string
		Config ImageConfig
		Arch   string
		Mounts []string
		Rules  []string
	}{manifestFormat, sum, src.Base, src.Layers, src.Config, src.architecture(), src.Mounts, rules})
	if err != nil {
		return "", fmt.Errorf("encode identity: %w", err)
	}
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:]), nil
}
