package mps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// record is what is known of a GPU's daemon, kept beside its pipes. It is saved before anything is done: a record says
// that there may be a daemon, and that the GPU may be exclusive to it.
type record struct {
	V3      bool            `json:"v3"`
	Multi   bool            `json:"multi_user"`
	Holders map[string]part `json:"holders"`
}

// part is what one holder has.
type part struct {
	UID     int   `json:"uid"`
	Percent int   `json:"percent"`
	Memory  int64 `json:"memory"`
}

// load reads the record of a GPU's daemon. ok is false when there is none.
func (g daemon) load() (r record, ok bool, err error) {
	text, err := os.ReadFile(g.record())
	if errors.Is(err, fs.ErrNotExist) {
		return record{Holders: map[string]part{}}, false, nil
	}
	if err != nil {
		return r, false, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, false, fmt.Errorf("read %s: %w", g.record(), err)
	}
	if r.Holders == nil {
		r.Holders = map[string]part{}
	}
	return r, true, nil
}

// save writes the record so that it is there whole, or not at all.
func (g daemon) save(r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(g.dir, 0o711); err != nil {
		return err
	}
	f, err := os.CreateTemp(g.dir, ".record-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), g.record())
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// others returns the holders beside one, in order.
func (r record) others(holder string) []string {
	names := slices.Sorted(maps.Keys(r.Holders))
	return slices.DeleteFunc(names, func(n string) bool { return n == holder })
}
