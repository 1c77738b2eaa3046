package images

import (
	"fmt"
	"slices"

	"slipway/images/apptainer"
	"slipway/images/graft"
	"slipway/images/manifest"
)

// manifestOf is the part that follows from the request alone.
func (l *Library) manifestOf(req Request) manifest.Manifest {
	src := req.Source
	return manifest.Manifest{
		Format: manifest.Format, Base: src.Base, Architecture: src.architecture(), Env: src.Config.Env,
		Entrypoint: src.Config.Entrypoint, Cmd: src.Config.Cmd, WorkingDir: src.Config.WorkingDir,
		Strip: l.stripOf(req).Rules(), Mounts: manifest.Texts(src.Mounts),
		Unexported: apptainer.Unexported(src.Config.Env),
	}
}

// plusLosses adds what a graft lost to what its base had lost.
func plusLosses(a manifest.Losses, b graft.Losses) manifest.Losses {
	for _, l := range []struct {
		sum *int64
		graft.Loss
	}{{&a.ACLs, b.ACLs}, {&a.Xattrs, b.Xattrs}, {&a.Times, b.Times}} {
		*l.sum += l.Count
		a.Paths = append(slices.Clone(a.Paths), manifest.Texts(l.Paths)...)
	}
	return a
}

// maxSkipped is how many of the sockets and of the devices a manifest names: a session can make a million.
const maxSkipped = 200

// skipped lists what is not in the image, the first of it by name.
func skipped(paths []string) []string {
	list := manifest.Texts(paths)
	if more := len(list) - maxSkipped; more > 0 {
		list = append(list[:maxSkipped:maxSkipped], fmt.Sprintf("and %d more", more))
	}
	return list
}

// imageConfig is what a manifest says of the image's configuration.
func imageConfig(m manifest.Manifest) apptainer.ImageConfig {
	return apptainer.ImageConfig{
		Env: m.Env, Entrypoint: m.Entrypoint, Cmd: m.Cmd, WorkingDir: m.WorkingDir, Architecture: m.Architecture,
	}
}
