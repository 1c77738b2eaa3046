package pool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// history keeps catalogues for a time, one a line in a file. What a crash has cut off of the last line is left out.
type history struct {
	path string // empty: in memory alone
	keep time.Duration

	mu   sync.Mutex
	past []Catalogue // the oldest first
	old  int         // lines of the file that are past their time
}

func openHistory(path string, keep time.Duration, now time.Time) (*history, error) {
	h := &history{path: path, keep: keep}
	if path == "" {
		return h, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		var c Catalogue
		if json.Unmarshal(line, &c) == nil && !c.Taken.IsZero() {
			h.past = append(h.past, c)
		}
	}
	h.forget(now)
	return h, h.rewrite()
}

// forget drops what is past its time.
func (h *history) forget(now time.Time) {
	n := 0
	for n < len(h.past) && now.Sub(h.past[n].Taken) > h.keep {
		n++
	}
	h.past = slices.Clone(h.past[n:])
	h.old += n
}

// add notes a catalogue, unless it is the one that was noted last.
func (h *history) add(c Catalogue) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.past); n > 0 && !c.Taken.After(h.past[n-1].Taken) {
		return nil
	}
	c.Kinds = slices.Clone(c.Kinds)
	for i := range c.Kinds {
		c.Kinds[i].Hosts, c.Kinds[i].Runtimes = nil, nil
	}
	c.Free = nil
	h.past = append(h.past, c)
	h.forget(c.Taken)
	if h.path == "" {
		return nil
	}
	if h.old > len(h.past) {
		return h.rewrite()
	}
	return h.appendLine(c)
}

func (h *history) appendLine(c Catalogue) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep what the pool has: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// rewrite writes the file anew, without what is past its time.
func (h *history) rewrite() error {
	err := writeAnew(h.path, func(e *json.Encoder) error {
		for _, c := range h.past {
			if err := e.Encode(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		h.old = 0
	}
	return err
}

// writeAnew writes a file of what the pool has had, whole or not at all.
func writeAnew(path string, fill func(*json.Encoder) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("keep what the pool has had: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if err := errors.Join(fill(json.NewEncoder(w)), w.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (h *history) since(t time.Time) []Catalogue {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.past)
	for n > 0 && !h.past[n-1].Taken.Before(t) {
		n--
	}
	return slices.Clone(h.past[n:])
}
