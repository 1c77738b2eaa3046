// Package registrytest has repositories in memory, and a small real SIF, for tests of what speaks to a registry.
package registrytest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/images/registry"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// Memory is a repository in memory. Fill it before it is served.
type Memory struct {
	Documents map[string]registry.Document // by digest
	Names     map[string]string            // tag to digest
	Blobs     map[string]blob.Blob
	SIFs      map[string]string // tag or digest of an environment to that of its SIF
}

// New makes an empty repository.
func New() *Memory {
	return &Memory{
		Documents: map[string]registry.Document{}, Names: map[string]string{}, Blobs: map[string]blob.Blob{},
		SIFs: map[string]string{},
	}
}

// Document adds a document, and its tag when there is one, and gives its descriptor.
func (m *Memory) Document(data []byte, tag string) oci.Descriptor {
	parsed, err := oci.Parse(data)
	if err != nil {
		panic(err)
	}
	d := oci.Describe(parsed.MediaType, data)
	m.Documents[d.Digest.String()] = registry.Document{MediaType: parsed.MediaType, Data: data}
	if tag != "" {
		m.Names[tag] = d.Digest.String()
	}
	return d
}

// Add adds content and gives its digest.
func (m *Memory) Add(data []byte) string {
	digest := blob.Digest(data)
	m.Blobs[digest] = blob.Bytes(data)
	return digest
}

// Tag adds a SIF of an environment under a tag, as the service would show it.
func (m *Memory) Tag(tag, architecture string, document, sif []byte) {
	m.Add([]byte(oci.Empty))
	env := m.Document(document, "")
	name := m.Add(sif)
	image := m.Document(oci.SIF(env.Digest.String(), name, int64(len(sif))), "")
	m.SIFs[tag], m.SIFs[env.Digest.String()] = name, name
	m.Document(oci.Index([]oci.Image{{Architecture: architecture, Environment: env, SIF: &image}}), tag)
}

// Manifest returns a document by tag or digest.
func (m *Memory) Manifest(_ context.Context, reference string) (registry.Document, error) {
	if digest, ok := m.Names[reference]; ok {
		reference = digest
	}
	d, ok := m.Documents[reference]
	if !ok {
		return d, errs.New(errs.NotFound, "there is no %q here", reference)
	}
	return d, nil
}

// Blob returns content by digest.
func (m *Memory) Blob(_ context.Context, digest string) (blob.Blob, error) {
	b, ok := m.Blobs[digest]
	if !ok {
		return nil, errs.New(errs.NotFound, "there is no %q here", digest)
	}
	return b, nil
}

// Tags returns the tags, unordered.
func (m *Memory) Tags(context.Context) ([]string, error) {
	var all []string
	for tag := range m.Names {
		all = append(all, tag)
	}
	return all, nil
}

// Referrers returns what is about a document, by digest.
func (m *Memory) Referrers(_ context.Context, digest string) ([]oci.Descriptor, error) {
	var found []oci.Descriptor
	for _, doc := range m.Documents {
		if parsed, err := oci.Parse(doc.Data); err == nil && parsed.Subject != nil &&
			parsed.Subject.Digest.String() == digest {
			d := oci.Describe(doc.MediaType, doc.Data)
			d.ArtifactType = parsed.ArtifactType
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b oci.Descriptor) int { return int(a.Size - b.Size) })
	return found, nil
}

// SIF returns an environment's SIF.
func (m *Memory) SIF(ctx context.Context, reference string) (blob.Blob, string, error) {
	digest, ok := m.SIFs[reference]
	if !ok {
		return nil, "", errs.New(errs.NotFound, "there is no SIF of %q here", reference)
	}
	b, err := m.Blob(ctx, digest)
	return b, digest, err
}

// Handler serves repositories to whoever has the token; an empty token lets everybody in.
func Handler(t testing.TB, token string, repositories map[string]*Memory) http.Handler {
	return registry.New(registry.Config{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Open: func(r *http.Request, name string) (registry.Repository, error) {
			_, given, ok := registry.Credential(r)
			switch m := repositories[name]; {
			case token != "" && !ok:
				return nil, errs.New(errs.Unauthorized, "nobody is known to be calling").
					With("give your token as the password")
			case token != "" && !given.Equal(token):
				return nil, errs.New(errs.Forbidden, "this token is not valid")
			case m == nil && name != "":
				return nil, errs.New(errs.NotFound, "there is no repository %q of yours", name)
			case m == nil:
				return New(), nil
			default:
				return m, nil
			}
		},
	})
}

// Serve serves them over plain HTTP on the loopback, and gives the host and port.
func Serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// SIF returns a small image that Apptainer can run. It has sh, echo and cat, and /greeting.
func SIF(t testing.TB, greeting string) []byte {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Apptainer, testenv.Mksquashfs)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is missing")
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for _, d := range []string{"bin", "etc", "dev", "proc", "sys", "tmp", "root"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	err = errors.Join(err, copyFile(busybox, filepath.Join(root, "bin/busybox")),
		os.WriteFile(filepath.Join(root, "greeting"), []byte(greeting), 0o644),
		os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\n"), 0o644),
		os.WriteFile(filepath.Join(root, "etc/group"), []byte("root:x:0:\n"), 0o644))
	for _, applet := range []string{"sh", "cat", "echo"} {
		err = errors.Join(err, os.Symlink("busybox", filepath.Join(root, "bin", applet)))
	}
	if err != nil {
		t.Fatal(err)
	}
	Apptainer(t, dir, nil, "build", "image.sif", "root")
	data, err := os.ReadFile(filepath.Join(dir, "image.sif"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Apptainer runs the real one in a directory, with a cache of its own, and gives what it writes.
func Apptainer(t testing.TB, dir string, env []string, verb string, args ...string) string {
	t.Helper()
	out, err := TryApptainer(t, dir, env, verb, args...)
	if err != nil {
		t.Fatalf("apptainer %s %q: %v: %s", verb, args, err, out)
	}
	return out
}

// TryApptainer is the same for a run that may fail; the text then holds what it said of that.
func TryApptainer(t testing.TB, dir string, env []string, verb string, args ...string) (string, error) {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Apptainer)
	argv := append([]string{"-q", verb}, args...)
	if verb == "exec" {
		argv = append([]string{"-q", verb, "--no-home", "--drop-caps", "CAP_SYS_RESOURCE"}, args...)
	}
	cmd := exec.Command(testenv.ApptainerPath(), argv...)
	cmd.Dir = dir
	home := t.TempDir()
	cmd.Env = append(
		os.Environ(), "HOME="+home, "APPTAINER_CONFIGDIR="+home, "APPTAINER_CACHEDIR="+filepath.Join(home, "cache"),
	)
	cmd.Env = append(cmd.Env, env...)
	stderr, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		said, _ := os.ReadFile(stderr.Name())
		return string(out) + string(said), err
	}
	return string(out), nil
}
