package fakegpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"slipway/internal/gpu"
)

// memory is what the file says of a GPU: what a real one keeps while the service is away.
type memory struct {
	MIG       bool           `json:"mig"`
	Want      bool           `json:"want"` // after the next reset
	Instances []gpu.Instance `json:"instances"`
}

// save writes the file. The lock is held.
func (d *Driver) save() error {
	if d.state == "" {
		return nil
	}
	all := map[string]memory{}
	for _, b := range d.boards {
		ids := slices.Sorted(maps.Keys(b.instances))
		m := memory{MIG: b.device.MIGEnabled, Want: b.wantMIG, Instances: make([]gpu.Instance, 0, len(ids))}
		for _, gi := range ids {
			m.Instances = append(m.Instances, b.instances[gi])
		}
		all[b.device.UUID] = m
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return replace(d.state, append(text, '\n'))
}

// replace writes a file so that it is there in full, as before or as after.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gpus-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// load reads the file, if there is one. GPUs that it does not know are as they are new.
func (d *Driver) load() error {
	if d.state == "" {
		return nil
	}
	text, err := os.ReadFile(d.state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	all := map[string]memory{}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s is damaged; remove it, and the GPUs are as new: %w", d.state, err)
	}
	for _, b := range d.boards {
		m, known := all[b.device.UUID]
		if !known {
			continue
		}
		if err := b.restore(m); err != nil {
			return fmt.Errorf("%s is damaged; remove it, and the GPUs are as new: %s: %w", d.state, b.device.UUID, err)
		}
	}
	return nil
}

// restore cuts the GPU again as it was.
func (b *board) restore(m memory) error {
	b.device.MIGEnabled, b.wantMIG = m.MIG && b.device.MIGCapable, m.Want && b.device.MIGCapable
	for _, in := range m.Instances {
		if err := b.fits(in.Profile, in.Placement); err != nil {
			return fmt.Errorf("%s at %d+%d: %w", in.Profile, in.Placement.Start, in.Placement.Size, err)
		}
		in := b.instance(in.Profile, in.Placement, in.CI >= 0)
		b.instances[in.GI] = in
	}
	return nil
}
