package kernels

import (
	"embed"
	"mime"
	"path"
	"strings"
)

// Logo is a picture that launchers show for a kernelspec.
type Logo struct {
	Key  string // what Jupyter calls it: logo-svg, logo-32x32 or logo-64x64
	File string // its last part of the path
	Type string // its media type
	Data []byte
}

// The pictures that this package has, each drawn for it.
const (
	LogoGPU         = "gpu"         // a chip, a part of which is one's own
	LogoCPU         = "cpu"         // a chip without parts
	LogoEnvironment = "environment" // a chip on something frozen
	LogoStack       = "stack"       // a chip on a pile of software
)

//go:embed logo
var drawings embed.FS

// Logos gives one of the pictures in all its sizes; none of that name: nothing.
func Logos(name string) (all []Logo) {
	for _, file := range []string{"logo-svg.svg", "logo-32x32.png", "logo-64x64.png"} {
		ext := path.Ext(file)
		if data, err := drawings.ReadFile(path.Join("logo", name+strings.TrimPrefix(file, "logo"))); err == nil {
			all = append(all, LogoOf(strings.TrimSuffix(file, ext), ext, data))
		}
	}
	return all
}

// LogoOf gives a picture of a file's ending: .svg or .png.
func LogoOf(key, ext string, data []byte) Logo {
	return Logo{Key: key, File: key + ext, Type: mime.TypeByExtension(ext), Data: data}
}
