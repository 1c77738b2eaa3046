package kernels

import (
	"embed"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"slipway/internal/errs"
	"slipway/spawner"
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

// Logos returns one of the pictures in all its sizes; none of that name: nothing.
func Logos(name string) (all []Logo) {
	for _, file := range []string{"logo-svg.svg", "logo-32x32.png", "logo-64x64.png"} {
		ext := path.Ext(file)
		if data, err := drawings.ReadFile(path.Join("logo", name+strings.TrimPrefix(file, "logo"))); err == nil {
			all = append(all, LogoOf(strings.TrimSuffix(file, ext), ext, data))
		}
	}
	return all
}

// LogoOf returns a picture of a file's ending: .svg or .png.
func LogoOf(key, ext string, data []byte) Logo {
	return Logo{Key: key, File: key + ext, Type: mime.TypeByExtension(ext), Data: data}
}

// logo gives one of the files that a kernelspec names. There are no others: the path is looked for among them, not on a
// disk.
func (g *gateway) logo(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	missing := errs.New(errs.NotFound, "the kernelspec has no such file")
	name, file := chi.URLParam(r, "name"), chi.URLParam(r, "file")
	all := g.Specs(c)
	i := slices.IndexFunc(all, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return missing
	}
	at := slices.IndexFunc(all[i].Logos, func(l Logo) bool { return l.File == file })
	if at < 0 {
		return missing
	}
	l := all[i].Logos[at]
	h := w.Header()
	h.Set("Content-Type", l.Type)
	h.Set("Cache-Control", "private, max-age=3600")
	h.Set("X-Content-Type-Options", "nosniff")
	// a drawing can hold scripts
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	// the reader has gone: nobody is left to tell
	_, _ = w.Write(l.Data)
	return nil
}
