package images

import (
	"context"
	"maps"
	"runtime"

	"slipway/images/apptainer"
	"slipway/images/manifest"
	"slipway/images/sif"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// Source is the file tree that a freeze turns into an environment.
type Source struct {
	Layers []string // lower directories, topmost first, without what the engine adds at start (Docker's -init layer)
	Upper  string   // the directory that holds the changes over Layers
	Config apptainer.ImageConfig
	Base   manifest.Base
	Mounts []string // paths that were mounts in the session: not in Upper, hence not in the environment
	Lost   []string // what Upper does not have because the engine did not give it out, in words

	over *baseRecord // the base, where it is the library that knows it: Layers may be missing then. See Library.Beneath

	Pause func(context.Context) error // stops every writer of Upper; nil when nothing runs
	// Undoes Pause; called after it in every case, also when it failed; nil when nothing runs.
	Resume func(context.Context) error
	Idle   bool // nothing runs, and Pause only makes sure of that
}

func (s Source) architecture() string {
	if s.Config.Architecture != "" {
		return s.Config.Architecture
	}
	return runtime.GOARCH
}

// labelled returns the image's configuration with labels that say what it is, for whoever has only the file. They
// follow from what names a base: neither whose an environment is nor what it is called is part of its content.
func (s Source) labelled() apptainer.ImageConfig {
	c := s.Config
	c.Labels = maps.Clone(c.Labels)
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels["org.label-schema.schema-version"] = "1.0"
	c.Labels["org.label-schema.build-arch"] = s.architecture()
	c.Labels["slipway.base"] = s.Base.Digest
	c.Labels["slipway.manifest"] = sif.ManifestName + ", an object of this file: see `apptainer sif list`"
	return c
}

func (s Source) validate() error {
	if s.Upper == "" {
		return errs.New(errs.Invalid, "source: no upper directory is given")
	}
	return s.validateBase()
}

// validateBase looks at what a base is made from.
func (s Source) validateBase() error {
	switch {
	case s.over != nil:
	case len(s.Layers) == 0:
		return errs.New(errs.Invalid, "source: no layers are given")
	case len(s.Layers) > tree.MaxLayers:
		return errs.New(errs.Invalid, "source: %d layers, at most %d can be merged", len(s.Layers), tree.MaxLayers)
	case s.Base.Digest == "":
		return errs.New(errs.Invalid, "source: the base image's digest is missing")
	}
	return nil
}
