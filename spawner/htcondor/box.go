package htcondor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/worker"
	"slipway/spawner"
	"slipway/spawner/batch"
)

// Files in a sandbox that HTCondor writes.
const (
	stdoutFile = "worker.out"
	stderrFile = "worker.err"
	eventsFile = "events.log"
)

// boxDir is the name of a workload's sandbox in its directory.
const boxDir = "box"

// How Config.Image may be written.
const (
	imageSend  = "send"
	digestMark = "{digest}"
)

// recordOf decides what of a launch HTCondor is to be told.
func (b *Backend) recordOf(l spawner.Launch, o owner) (batch.Record, error) {
	r := batch.Record{
		ID: l.ID, Run: l.Run(), Session: l.Kind != spawner.Job, Login: o.login, User: l.Account.Login,
		Program: filepath.Join(l.AgentDir, worker.Program), Inputs: len(l.Spec.Inputs) > 0, Limit: l.Spec.Resources.Memory,
	}
	if !safePath.MatchString(r.Program) {
		return batch.Record{}, errs.New(errs.Invalid, "the path of the agent's program, %q, cannot stand in what is submitted", r.Program).
			With("have the service's directory at a path of letters, digits and ._+-")
	}
	if l.SIF == "" {
		return r, nil
	}
	info, err := os.Stat(l.SIF)
	if err != nil {
		return batch.Record{}, errs.New(errs.NotFound, "the environment's image is gone: %w", err).With("submit it in another environment")
	}
	r.Bytes = info.Size()
	if r.Arch, err = archOf(l.SIF); err != nil {
		return batch.Record{}, err
	}
	if b.cfg.Image == imageSend {
		if !safePath.MatchString(l.SIF) {
			return batch.Record{}, errs.New(errs.Invalid, "the path of the image, %q, cannot stand in what is submitted", l.SIF).With("set htcondor.image to something else than send")
		}
		r.Send = l.SIF
	}
	return r, nil
}

// archOf reads from an image's header for which machines it is, as HTCondor calls them; empty when it has no header, or
// for others than HTCondor has names for.
func archOf(sif string) (string, error) {
	f, err := os.Open(sif)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 48)
	if _, err := io.ReadFull(f, head); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return parseArch(head), nil
}

// parseArch reads the first bytes of a SIF: the magic word is at 32, the architecture at 45.
func parseArch(head []byte) string {
	if len(head) < 48 || string(head[32:41]) != "SIF_MAGIC" {
		return ""
	}
	switch string(head[45:47]) {
	case "02":
		return "X86_64"
	case "04":
		return "aarch64"
	case "06":
		return "ppc64le"
	default:
		return ""
	}
}

// plan is what the worker is told. It holds no secret.
func (b *Backend) plan(l spawner.Launch, r batch.Record) worker.Plan {
	p := worker.Plan{
		ID: string(l.ID), Launch: r.Run, Session: r.Session, Fleeting: l.Kind == spawner.Kernel, Apptainer: b.cfg.Apptainer, Cache: b.cfg.Cache,
		Image: worker.Image{Path: b.imagePath(l, r), Digest: l.Spec.Environment, Size: r.Bytes},
		Login: l.Account.Login, Home: l.Account.Home, Binds: b.cfg.Binds, Env: l.Spec.Env, GPU: !l.Spec.GPU.None(),
		TimeLimit: l.Spec.TimeLimit, Grace: b.cfg.Grace * 2 / 3, // the rest is for what the worker does after it
	}
	if b.cfg.HomeDirs {
		p.HomeDir = l.Account.HomeDir
	}
	return p
}

func (b *Backend) imagePath(l spawner.Launch, r batch.Record) string {
	if r.Send != "" {
		return filepath.Base(r.Send)
	}
	_, hex, _ := strings.Cut(l.Spec.Environment, ":")
	return strings.ReplaceAll(b.cfg.Image, digestMark, hex)
}

// fill makes a workload's sandbox: out of the way and as root's, then it is given away whole. Nothing is written as
// root in what a user may change.
func (b *Backend) fill(l spawner.Launch, r batch.Record, o owner) (err error) {
	place := b.records.Dir(r.ID)
	part := filepath.Join(place, ".part")
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o700)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	files := map[string]any{worker.PlanFile: b.plan(l, r)}
	if l.Uplink != nil {
		files[filepath.Join(worker.LinkDir, "uplink.json")] = l.Uplink
	}
	if l.App != nil {
		files[filepath.Join(worker.LinkDir, "app.json")] = l.App
	}
	for _, dir := range []string{worker.LinkDir, worker.Inputs, worker.OutDir} {
		if err := os.Mkdir(filepath.Join(part, dir), 0o700); err != nil {
			return err
		}
	}
	for name, v := range files {
		if err := b.writeJSON(filepath.Join(part, name), v); err != nil {
			return err
		}
	}
	for _, name := range l.Spec.Inputs {
		if err := b.copyFile(filepath.Join(l.InputDir, name), filepath.Join(part, worker.Inputs, name)); err != nil {
			return fmt.Errorf("copy the input file %s: %w", name, err)
		}
	}
	if err := give(part, o); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(place, boxDir))
}

func (b *Backend) writeJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(name), err)
	}
	return b.writeFile(name, bytes.NewReader(data))
}

func (b *Backend) copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return b.writeFile(to, in)
}

// writeFile makes a file of a sandbox. It is on the disk then: a job may be in the queue when the host comes up after a
// power cut. Its name is there too when the record is, which is written after it.
func (b *Backend) writeFile(name string, from io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, b.sync(f), f.Close())
}

// give makes a tree an account's. The tree's own directory comes last: until then nobody else gets into it.
func give(dir string, o owner) error {
	var names []string
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		return err
	}
	for i := len(names) - 1; i >= 0; i-- {
		if err := os.Lchown(names[i], o.uid, o.gid); err != nil {
			return err
		}
	}
	return nil
}
