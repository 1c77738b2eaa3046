package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// specVersion is the oldest of the interface that has all that is used here: engines read what is older than they are.
const specVersion = "0.5.0"

// The interface's own form, as far as it is used here.
type (
	spec struct {
		Version string   `json:"cdiVersion"`
		Kind    string   `json:"kind"`
		Devices []device `json:"devices"`
	}
	device struct {
		Name  string `json:"name"`
		Edits edits  `json:"containerEdits"`
	}
	edits struct {
		Env    []string `json:"env,omitempty"`
		Nodes  []node   `json:"deviceNodes,omitempty"`
		Mounts []mount  `json:"mounts,omitempty"`
	}
	node struct {
		Path        string `json:"path"`
		HostPath    string `json:"hostPath,omitempty"`
		Type        string `json:"type"`
		Major       int64  `json:"major"`
		Minor       int64  `json:"minor"`
		Permissions string `json:"permissions"`
	}
	mount struct {
		HostPath      string   `json:"hostPath"`
		ContainerPath string   `json:"containerPath"`
		Options       []string `json:"options"`
	}
)

// Spec writes a binding as a description for engines that have the Container Device Interface. It has one device, of
// b's name.
func Spec(b gpu.Binding) ([]byte, error) {
	name, err := nameOf(b.Name)
	if err != nil {
		return nil, err
	}
	var e edits
	for _, k := range slices.Sorted(maps.Keys(b.Env)) {
		e.Env = append(e.Env, k+"="+b.Env[k])
	}
	for _, d := range b.Devices {
		e.Nodes = append(
			e.Nodes, node{Path: d.Path, HostPath: d.Host, Type: "c", Major: d.Major, Minor: d.Minor, Permissions: "rw"},
		)
	}
	for _, m := range b.Mounts {
		options := []string{"ro", "nosuid", "nodev", "bind"}
		if m.Write {
			options[0] = "rw"
		}
		e.Mounts = append(e.Mounts, mount{HostPath: m.Source, ContainerPath: m.Target, Options: options})
	}
	text, err := json.MarshalIndent(
		spec{Version: specVersion, Kind: gpu.Vendor, Devices: []device{{Name: name, Edits: e}}}, "", "  ",
	)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", b.Name, err)
	}
	return append(text, '\n'), nil
}

// nameOf takes the vendor off a device's name.
func nameOf(full string) (string, error) {
	name, ours := strings.CutPrefix(full, gpu.Vendor+"=")
	if !ours || !nameForm.MatchString(name) {
		return "", errs.Bad("device", full, gpu.Vendor+"= and letters, digits and dashes")
	}
	return name, nil
}

// Dir is a directory in which engines look for descriptions; theirs are in it too. Usually it is /var/run/cdi.
type Dir string

// file is where the description of a device lies.
func (d Dir) file(name string) string {
	return filepath.Join(string(d), strings.ReplaceAll(gpu.Vendor, "/", "-")+"-"+name+".json")
}

// Write puts the description of a binding in place of an earlier one of its name. Engines never see half of it.
func (d Dir) Write(b gpu.Binding) error {
	text, err := Spec(b)
	if err != nil {
		return err
	}
	name, _ := nameOf(b.Name) // Spec has looked at it
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return fmt.Errorf("describe %s: %w", b.Name, err)
	}
	part := d.file(name) + ".part" // engines read names that end with .json alone
	err = os.WriteFile(part, text, 0o644)
	if err == nil {
		err = os.Chmod(part, 0o644) // whatever the umask
	}
	if err == nil {
		err = os.Rename(part, d.file(name))
	}
	if err != nil {
		return fmt.Errorf("describe %s: %w", b.Name, err)
	}
	return nil
}

// Remove takes the description of a device away, by its full name. One that is gone is success.
func (d Dir) Remove(full string) error {
	name, err := nameOf(full)
	if err != nil {
		return err
	}
	if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take away the description of %s: %w", full, err)
	}
	return nil
}
