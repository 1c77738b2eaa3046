package images

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"slipway/images/apptainer"
	"slipway/images/graft"
	"slipway/internal/errs"
)

// manifestFormat changes when equal sources no longer give equal environments. Those from oldestFormat on are read
// alike.
const (
	manifestFormat = 5
	oldestFormat   = 3
)

// Manifest says how an environment came to be what it is. It lies inside the image, so it holds nothing that two
// freezes of equal trees do not share: who, when and from which session stand in the provenance statement and in the
// library's records.
type Manifest struct {
	Format       int      `json:"format"`
	Base         Base     `json:"base"`
	Architecture string   `json:"architecture"`
	Entrypoint   []string `json:"entrypoint,omitempty"`
	Cmd          []string `json:"cmd,omitempty"`
	WorkingDir   string   `json:"workingDir,omitempty"`
	Env          []string `json:"env,omitempty"` // of the base image, NAME=value
	Files        int64    `json:"files"`         // inodes of the tree

	Strip      []string `json:"strip"`                // rules; what they match is not in the image
	Mounts     []string `json:"mounts,omitempty"`     // mounted in the session, hence not in the image
	Sockets    []string `json:"sockets,omitempty"`    // of the session, which are not in the image, nor is what the base has of their names
	Devices    []string `json:"devices,omitempty"`    // the same of character and block devices
	Added      []string `json:"added,omitempty"`      // made by the freeze, for Apptainer
	Unexported []string `json:"unexported,omitempty"` // variables of the base's Env that no shell can set or that a run sets itself
	Allowed    []string `json:"allowed,omitempty"`    // files that hold what looks like a secret, and are here by the user's word
	Losses     Losses   `json:"losses"`
}

// Losses counts what squashfs cannot hold. The fractions of seconds in times are not among it: nearly every entry has
// one, and two trees that differ in nothing else are one environment.
type Losses struct {
	ACLs   int64    `json:"acls,omitempty"`   // POSIX ACLs
	Xattrs int64    `json:"xattrs,omitempty"` // of namespaces other than user, trusted and security, ACLs aside
	Times  int64    `json:"times,omitempty"`  // entries whose mtime is before 1970 or after 2106
	Paths  []string `json:"paths,omitempty"`  // of ACLs, xattrs and times, the first hundreds
	Others []string `json:"others,omitempty"` // what the engine did not give out, in words
}

// decodeManifest reads a manifest, which may come from a stranger.
func decodeManifest(data []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, errs.New(errs.Invalid, "this is no environment's manifest: %w", err)
	}
	if m.Format < oldestFormat || m.Format > manifestFormat {
		return Manifest{}, errs.New(errs.Invalid, "the environment's manifest has format %d, this version knows %d to %d", m.Format, oldestFormat, manifestFormat).
			With("use the version of Slipway that froze it, or freeze it again")
	}
	return m, nil
}

// manifestOf is the part that follows from the request alone.
func (l *Library) manifestOf(req Request) Manifest {
	src := req.Source
	return Manifest{
		Format: manifestFormat, Base: src.Base, Architecture: src.architecture(), Env: src.Config.Env,
		Entrypoint: src.Config.Entrypoint, Cmd: src.Config.Cmd, WorkingDir: src.Config.WorkingDir,
		Strip: l.stripOf(req).Rules(), Mounts: texts(src.Mounts), Unexported: apptainer.Unexported(src.Config.Env),
	}
}

// plus adds what a graft lost to what its base had lost.
func (a Losses) plus(b graft.Losses) Losses {
	for _, l := range []struct {
		sum *int64
		graft.Loss
	}{{&a.ACLs, b.ACLs}, {&a.Xattrs, b.Xattrs}, {&a.Times, b.Times}} {
		*l.sum += l.Count
		a.Paths = append(slices.Clone(a.Paths), texts(l.Paths)...)
	}
	return a
}

// maxSkipped is how many of the sockets and of the devices a manifest names: a session can make a million.
const maxSkipped = 200

// skipped lists what is not in the image, the first of it by name.
func skipped(paths []string) []string {
	list := texts(paths)
	if more := len(list) - maxSkipped; more > 0 {
		list = append(list[:maxSkipped:maxSkipped], fmt.Sprintf("and %d more", more))
	}
	return list
}

// encodeManifest returns the manifest's bytes, as many as a stranger would read.
func encodeManifest(m Manifest) ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	if len(data) > maxManifest {
		return nil, errs.New(errs.Invalid, "what is to be said of the environment takes %d bytes, at most %d are kept", len(data), maxManifest).
			With("shorten the names of sockets and of files with ACLs or unusual attributes, or remove them, and freeze again")
	}
	return data, nil
}

// text makes a name that is not UTF-8 fit for JSON without making two names one.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return fmt.Sprintf("%+q", s)
}

func texts(list []string) []string {
	var out []string // an empty list is left out of a manifest, and is nil when it is read
	for _, s := range list {
		out = append(out, text(s))
	}
	slices.Sort(out)
	return out
}
