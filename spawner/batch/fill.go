package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"slipway/internal/worker"
	"slipway/spawner"
)

// Contents is what travels to the worker in a sandbox.
type Contents struct {
	Launch   spawner.Launch // its uplink, its app and its input files travel along
	Plan     worker.Plan
	UID, GID int                  // the account that the sandbox is given to
	Sync     func(*os.File) error // has a file on the disk
}

// Fill makes a sandbox: out of the way and as root's, then it is given away whole. Nothing is written as root in what a
// user may change.
func (b Sandbox) Fill(c Contents) (err error) {
	part := filepath.Join(filepath.Dir(string(b)), ".part")
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o700)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	for _, dir := range []string{worker.LinkDir, worker.Inputs, worker.OutDir} {
		if err := os.Mkdir(filepath.Join(part, dir), 0o700); err != nil {
			return err
		}
	}
	files := map[string]any{worker.PlanFile: c.Plan}
	if c.Launch.Uplink != nil {
		files[filepath.Join(worker.LinkDir, "uplink.json")] = c.Launch.Uplink
	}
	if c.Launch.App != nil {
		files[filepath.Join(worker.LinkDir, "app.json")] = c.Launch.App
	}
	for name, v := range files {
		if err := c.writeJSON(filepath.Join(part, name), v); err != nil {
			return err
		}
	}
	for _, name := range c.Launch.Spec.Inputs {
		if err := c.copyFile(filepath.Join(c.Launch.InputDir, name), filepath.Join(part, worker.Inputs, name)); err != nil {
			return fmt.Errorf("copy the input file %s: %w", name, err)
		}
	}
	if err := give(part, c.UID, c.GID); err != nil {
		return err
	}
	return os.Rename(part, string(b))
}

func (c Contents) writeJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(name), err)
	}
	return c.writeFile(name, bytes.NewReader(data))
}

func (c Contents) copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return c.writeFile(to, in)
}

// writeFile makes a file of a sandbox. It is on the disk then: a job may be in the queue when the host comes up after a
// power cut. Its name is there too when the record is, which is written after it.
func (c Contents) writeFile(name string, from io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, c.Sync(f), f.Close())
}

// give makes a tree an account's. The tree's own directory comes last: until then nobody else gets into it.
func give(dir string, uid, gid int) error {
	var names []string
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		return err
	}
	for i := len(names) - 1; i >= 0; i-- {
		if err := os.Lchown(names[i], uid, gid); err != nil {
			return err
		}
	}
	return nil
}
