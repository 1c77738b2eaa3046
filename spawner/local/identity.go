package local

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"

	"slipway/internal/agent/control"
)

//go:embed *.go
var sources embed.FS

// Identity names the sources by which the service and the program that it starts for a job understand each other. It is
// the same in all programs that were built from the same ones, however they were built, and needs nobody to count it
// up: a stamp of the build would be the same in all that are built without their revision, as deploy/lib/go.sh does, and
// another where only something else has changed. What else they say to each other has its sources in others.
func Identity(others ...embed.FS) (string, error) {
	h := sha256.New()
	for _, dir := range append([]embed.FS{sources, control.Sources()}, others...) {
		names, err := fs.Glob(dir, "*.go") // in their order
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := dir.ReadFile(name)
			if err != nil {
				return "", err
			}
			_, _ = h.Write(text) // a hash takes all
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
