package imagefile

import (
	"io"
	"os"
	"path/filepath"

	"slipway/images/graft"
	"slipway/images/libdir"
)

// tailMap is a tail by where it lies.
type tailMap struct {
	Extents []graft.Extent `json:"extents"`
}

const (
	tailMapName = "map.json"
	ThinMark    = "thin"  // the file in a tail whose image is thin
	PackSuffix  = ".pack" // of the files with what freezes have stored
)

// IsThin says whether the image of a tail has to be filled before a run.
func IsThin(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ThinMark))
	return err == nil
}

// ReadTail returns where a tail lies.
func ReadTail(dir string) ([]graft.Extent, error) {
	var m tailMap
	err := libdir.ReadJSON(filepath.Join(dir, tailMapName), &m)
	return m.Extents, err
}

// WriteTail makes a directory of packs that of a tail: nothing stays in it but what the tail needs.
func WriteTail(dir string, extents []graft.Extent) error {
	needed := map[string]bool{}
	for _, e := range extents {
		needed[e.Pack] = true
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !needed[e.Name()] {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := libdir.WriteJSON(dir, tailMapName, tailMap{extents}); err != nil {
		return err
	}
	return libdir.WriteFile(dir, ThinMark, nil)
}

// Opener opens the packs in a directory, once each, until they are closed.
func Opener(dir string) (open func(name string) (io.ReaderAt, int64, error), close func()) {
	var files []*os.File
	open = func(name string) (io.ReaderAt, int64, error) {
		f, err := os.Open(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			return nil, 0, err
		}
		files = append(files, f)
		st, err := f.Stat()
		if err != nil {
			return nil, 0, err
		}
		return f, st.Size(), nil
	}
	return open, func() {
		for _, f := range files {
			_ = f.Close() // it was only read
		}
	}
}
