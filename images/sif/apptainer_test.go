package sif

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/images/signing"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// squashfs packs a tree that Apptainer can run in, as far as it has to.
func squashfs(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "root/etc"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "root/etc/noise"), noise(30000), 0o644))
	out := filepath.Join(dir, "root.squashfs")
	run(t, "mksquashfs", filepath.Join(dir, "root"), out, "-noappend", "-quiet", "-no-progress")
	b, err := os.ReadFile(out)
	must(t, err)
	return b
}

// apptainer runs it with a home of its own, so that no keyring is there.
func apptainer(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(testenv.ApptainerPath(), args...)
	home := t.TempDir()
	cmd.Dir, cmd.Env = home, append(os.Environ(), "HOME="+home, "APPTAINER_CACHEDIR="+home, "APPTAINER_CONFIGDIR="+home)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func publicKey(t *testing.T, k *signing.Keys) string {
	t.Helper()
	list, err := k.List()
	must(t, err)
	path := filepath.Join(t.TempDir(), "site.pem")
	must(t, os.WriteFile(path, list[0].PEM(), 0o644))
	return path
}

func TestApptainerVerifies(t *testing.T) {
	testenv.Need(t, testenv.Apptainer, testenv.Mksquashfs)
	k := keys(t)
	f := signedFile(t, squashfs(t), k)
	for _, all := range [][]string{nil, {"--all"}} {
		out, err := apptainer(t, append(append([]string{"verify", "--key", publicKey(t, k)}, all...), f.Name())...)
		if err != nil || !strings.Contains(out, "Verified signature(s)") || !strings.Contains(out, "JSON.Generic") {
			t.Errorf("verify %q: %v: %s", all, err, out)
		}
	}
	if out, err := apptainer(t, "verify", "--key", publicKey(t, keys(t)), f.Name()); err == nil {
		t.Errorf("it verifies with another key: %s", out)
	}
	out, err := apptainer(t, "sif", "dump", "2", f.Name())
	if err != nil || out != about {
		t.Errorf("the manifest is %s, %v", out, err)
	}
}

func TestApptainerAndWeCatchTheSameFlips(t *testing.T) {
	testenv.Need(t, testenv.Apptainer, testenv.Mksquashfs)
	k := keys(t)
	f := signedFile(t, squashfs(t), k)
	i, key, good := image(t, f), publicKey(t, k), content(t, f)
	for part, span := range map[string]Span{"partition": i.Partition, "manifest": i.Manifest, "signature": i.Signatures[0]} {
		for _, at := range []int64{span.Offset, span.Offset + span.Size/2, span.end() - 10} {
			t.Run(fmt.Sprintf("%s at %d", part, at), func(t *testing.T) {
				good[at] ^= 4
				defer func() { good[at] ^= 4 }()
				path := filepath.Join(t.TempDir(), "flipped.sif")
				must(t, os.WriteFile(path, good, 0o644))
				flipped, err := openBytes(good)
				must(t, err)
				if _, err := flipped.Verify(t.Context(), k.Unseal, nil); err == nil {
					t.Error("we do not notice it")
				}
				if out, err := apptainer(t, "verify", "--key", key, path); err == nil {
					t.Errorf("Apptainer does not notice it: %s", out)
				}
			})
		}
	}
}

func TestWhatApptainerSigns(t *testing.T) {
	testenv.Need(t, testenv.Apptainer, testenv.Mksquashfs)
	dir := filepath.Join(t.TempDir(), "keys")
	k, err := signing.New(signing.Config{Dir: dir, Site: "cern", Now: noon, Log: discard()})
	must(t, err)
	private, err := filepath.Glob(filepath.Join(dir, "*.key"))
	must(t, err)
	f := finished(t, squashfs(t))
	unsigned := content(t, f)
	if out, err := apptainer(t, "sign", "--key", private[0], f.Name()); err != nil {
		t.Fatalf("sign: %v: %s", err, out)
	}
	i := image(t, f)
	if by, err := i.Verify(t.Context(), k.Unseal, nil); err != nil || len(by) != 1 {
		t.Errorf("its signature: %q, %v", by, err)
	}
	must(t, Repair(f))
	if string(content(t, f)) != string(unsigned) {
		t.Error("the repaired file is another one")
	}
}

// What the package's comment says of PGP.
func TestApptainerWithPGP(t *testing.T) {
	testenv.Need(t, testenv.Apptainer, testenv.Mksquashfs)
	k, home := keys(t), t.TempDir()
	pgp := func(args ...string) error {
		cmd := exec.Command(testenv.ApptainerPath(), args...)
		cmd.Dir, cmd.Env = home, append(os.Environ(), "HOME="+home, "APPTAINER_CONFIGDIR="+home)
		return cmd.Run()
	}
	must(t, pgp("key", "newpair", "--name", "site", "--email", "site@example.org", "--password", "", "--push=false"))
	alone, both := finished(t, squashfs(t)), signedFile(t, squashfs(t), k)
	must(t, pgp("sign", alone.Name()))
	must(t, pgp("sign", both.Name()))
	if err := pgp("verify", "--local", alone.Name()); err != nil {
		t.Errorf("a PGP signature alone: %v", err)
	}
	if _, err := image(t, alone).Verify(t.Context(), k.Unseal, nil); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a PGP signature counts: %v", err)
	}
	if by, err := image(t, both).Verify(t.Context(), k.Unseal, nil); err != nil || len(by) != 1 {
		t.Errorf("beside a PGP signature: %q: %v", by, err)
	}
	if pgp("verify", "--local", both.Name()) == nil || pgp("verify", "--key", publicKey(t, k), both.Name()) == nil {
		t.Error("Apptainer verifies a file with both kinds: say so in the package's comment")
	}
}
