// Package kernelspecs keeps kernelspecs of the kernels that a session's user may start on slices, beside those of the
// session itself: as the service lists them, in a directory in which Jupyter looks.
//
// Promises: whoever reads the directory sees one list, whole; a service that is away leaves the last one.
// The package must not know who may start what, nor start anything.
package kernelspecs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/backoff"
	"slipway/internal/clock"
)

// Command is the program's word for being such a kernel. It gets the name of the service's kernelspec, its language and
// the connection file.
const Command = "kernel-bridge"

const (
	prefix = "slipway-" // so that none takes the place of a kernel of the session's own
	shown  = "kernels"  // in the directory: where Jupyter looks, a link to a list

	// elsewhere is added to a kernel's name: in a session it stands beside the session's own kernel, which has the
	// session's packages.
	elsewhere = ", own container"

	soonest = 2 * time.Second
)

// settings are JupyterLab's defaults in a session: File > New > Notebook starts the session's own kernel, which is the
// server's default. It would else ask, with the first kernel by name selected, which may be one that waits for a slice.
// Users can choose to be asked.
const settings = `{"@jupyterlab/notebook-extension:tracker": {"autoStartDefaultKernel": true}}
`

// ConfigDir returns the directory below dir that is to be named in JUPYTER_CONFIG_PATH.
func ConfigDir(dir string) string { return filepath.Join(dir, "config") }

// WriteSettings writes JupyterLab's defaults into ConfigDir(dir).
func WriteSettings(dir string) error {
	lab := filepath.Join(ConfigDir(dir), "labconfig", "default_setting_overrides.d")
	if err := os.MkdirAll(lab, 0o755); err != nil {
		return fmt.Errorf("write JupyterLab's defaults: %w", err)
	}
	if err := os.WriteFile(filepath.Join(lab, "slipway.json"), []byte(settings), 0o644); err != nil {
		return fmt.Errorf("write JupyterLab's defaults: %w", err)
	}
	return nil
}

// Config is what keeping the kernelspecs needs.
type Config struct {
	Dir     string // named in JUPYTER_PATH; nobody else's
	Program string // that has Command
	// Dial opens a connection to the service, as this session.
	Dial   func(context.Context) (net.Conn, error)
	Every  time.Duration // between two looks at the service's list
	Logger *slog.Logger
}

// Keep keeps the kernelspecs until ctx ends.
func Keep(ctx context.Context, cfg Config) {
	api, err := hubapi.NewClient(hubapi.ClientConfig{Dial: cfg.Dial})
	if err != nil {
		cfg.Logger.Error("the kernels on slices are not shown to Jupyter", "error", err)
		return
	}
	s := &service{api: api, logos: map[string][]byte{}}
	latest := ""
	failed := backoff.Backoff{First: 2 * soonest, Most: cfg.Every}
	for {
		wait := cfg.Every
		if list, err := s.list(ctx); err != nil {
			cfg.Logger.Debug("the service does not say which kernels there are", "error", err)
			wait = failed.Next()
		} else {
			failed.Reset()
			if latest, err = cfg.show(list, latest); err != nil {
				cfg.Logger.Warn("the kernels on slices are not shown to Jupyter", "error", err)
			}
		}
		if !clock.Sleep(ctx, wait) {
			return
		}
	}
}

// file is a kernel.json.
type file struct {
	Argv          []string        `json:"argv"`
	DisplayName   string          `json:"display_name"`
	Language      string          `json:"language"`
	InterruptMode string          `json:"interrupt_mode"`
	Metadata      json.RawMessage `json:"metadata"`
}

// files returns what is to lie below the directory, by path.
func (cfg Config) files(list []spec) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, s := range list {
		text, err := json.MarshalIndent(file{
			Argv: []string{
				cfg.Program, Command, "--spec", s.Name, "--language", s.Language, "-f", "{connection_file}",
			},
			DisplayName: s.DisplayName + elsewhere, Language: s.Language, InterruptMode: "message",
			Metadata: s.Metadata,
		}, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("the kernel %q: %w", s.Name, err)
		}
		dir := prefix + strings.ToLower(s.Name)
		files[filepath.Join(dir, "kernel.json")] = append(text, '\n')
		for name, logo := range s.Logos {
			files[filepath.Join(dir, name)] = logo
		}
	}
	return files, nil
}

// show puts a list in the place of the one that is shown, unless that is the same.
func (cfg Config) show(list []spec, latest string) (string, error) {
	files, err := cfg.files(list)
	if err != nil {
		return latest, err
	}
	name := digest(files)
	if name == latest {
		return latest, nil
	}
	if err := cfg.write(name, files); err != nil {
		return latest, fmt.Errorf("write the kernelspecs: %w", err)
	}
	return name, cfg.clear(name)
}

func digest(files map[string][]byte) string {
	h := sha256.New()
	for _, path := range sorted(files) {
		fmt.Fprintf(h, "%s\x00%d\x00%s", path, len(files[path]), files[path])
	}
	return "list-" + hex.EncodeToString(h.Sum(nil)[:8])
}

func sorted(files map[string][]byte) (paths []string) {
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func (cfg Config) write(name string, files map[string][]byte) error {
	dir := filepath.Join(cfg.Dir, name)
	err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
	for _, path := range sorted(files) {
		full := filepath.Join(dir, path)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, files[path], 0o644))
	}
	if err != nil {
		return err
	}
	link := filepath.Join(cfg.Dir, "next")
	_ = os.Remove(link)
	if err := os.Symlink(name, link); err != nil {
		return err
	}
	return os.Rename(link, filepath.Join(cfg.Dir, shown))
}

// clear removes lists that are shown no more.
func (cfg Config) clear(name string) error {
	old, err := filepath.Glob(filepath.Join(cfg.Dir, "list-*"))
	for _, dir := range old {
		if filepath.Base(dir) != name {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}
