package batch

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/worker"
	"slipway/spawner"
)

// recordOf decides what of a launch the batch system is to be told.
func (b *Backend) recordOf(l spawner.Launch, o owner) (Record, error) {
	r := Record{
		ID: l.ID, Run: l.Run(), Session: l.Kind.Session(), Login: o.login, User: l.Account.Login,
		Program: filepath.Join(l.AgentDir, worker.Program), Inputs: len(l.Spec.Inputs) > 0,
		Limit: l.Spec.Resources.Memory,
	}
	if !SafePath.MatchString(r.Program) {
		return Record{}, errs.New(
			errs.Invalid, "the path of the agent's program, %q, cannot stand in what is submitted", r.Program,
		).With("have the service's directory at a path of letters, digits and ._+-")
	}
	if l.SIF == "" {
		return r, nil
	}
	info, err := os.Stat(l.SIF)
	if err != nil {
		return Record{}, errs.New(errs.NotFound, "the environment's image is gone: %w", err).
			With("submit it in another environment")
	}
	r.Bytes = info.Size()
	arch, err := archOf(l.SIF)
	if err != nil {
		return Record{}, err
	}
	r.Arch = b.system.Arch(arch)
	if b.cfg.Image == ImageSend {
		if !SafePath.MatchString(l.SIF) {
			return Record{}, errs.New(
				errs.Invalid, "the path of the image, %q, cannot stand in what is submitted", l.SIF,
			).With("set " + b.cfg.Name + ".image to something else than send")
		}
		r.Send = l.SIF
	}
	return r, nil
}

// archOf reads from an image's header for which machines it is, as Go calls them; empty when it has no header, or for
// others than are known here.
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
		return "amd64"
	case "04":
		return "arm64"
	case "06":
		return "ppc64le"
	default:
		return ""
	}
}

// OwnMemory is what Slipway's own programs need on a node beside what the user asked for, where a batch system counts all
// of a job together: the worker (33 MB resident, measured in a pool), what it keeps beside the job (33), the agent (37),
// Apptainer (24), and the FUSE programs that show the image (22) and the changes over it (11). Where there are no cgroups
// HTCondor adds these up.
const OwnMemory = 160 << 20

// plan is what the worker is told. It holds no secret.
func (b *Backend) plan(l spawner.Launch, r Record) worker.Plan {
	p := worker.Plan{
		Node: b.cfg.Node, ID: string(l.ID), Launch: r.Run, Session: r.Session, Fleeting: l.Kind.Ephemeral(),
		Image: worker.Image{Path: b.imagePath(l, r), Digest: l.Spec.Environment, Size: r.Bytes},
		Login: l.Account.Login, Home: l.Account.Home, Env: l.Spec.Env, GPU: !l.Spec.GPU.None(),
		TimeLimit: l.Spec.TimeLimit, Grace: b.cfg.Grace * 2 / 3, // the rest is for what the worker does after it
	}
	if b.cfg.HomeDirs {
		p.HomeDir = l.Account.HomeDir
	}
	return p
}

func (b *Backend) imagePath(l spawner.Launch, r Record) string {
	if r.Send != "" {
		return filepath.Base(r.Send)
	}
	_, hex, _ := strings.Cut(l.Spec.Environment, ":")
	return strings.ReplaceAll(b.cfg.Image, digestMark, hex)
}
