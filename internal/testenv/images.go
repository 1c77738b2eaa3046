package testenv

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// HTCondorImage returns the image of a machine of an HTCondor pool.
func HTCondorImage() (string, error) { return imageOf("htcondor") }

// SlurmImage returns the image of a machine with Slurm.
func SlurmImage() (string, error) { return imageOf("slurm") }

// imageOf returns the image that the recipe's build makes, below deploy/images, as it lies in this checkout.
func imageOf(recipe string) (string, error) {
	root, err := checkout()
	if err != nil {
		return "", err
	}
	digest, err := treeDigest(os.DirFS(filepath.Join(root, "deploy/images", recipe)))
	return "slipway/" + recipe + ":" + digest, err
}

// hasImage says why the image of a recipe cannot be used here, by root with some programs.
func hasImage(recipe string, programs ...string) error {
	image, err := imageOf(recipe)
	if err != nil {
		return err
	}
	err = probe(Root)
	for _, p := range programs {
		err = errors.Join(err, onPath(p))
	}
	if err != nil {
		return err
	}
	if err := exec.Command("docker", "image", "inspect", image).Run(); err != nil {
		return fmt.Errorf("no image %s: deploy/images/%s/build makes it", image, recipe)
	}
	return nil
}

// Checkout returns the directory of go.mod.
func Checkout(t testing.TB) string {
	t.Helper()
	dir, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkout returns the directory of go.mod: tests run in their package's directory.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no go.mod above the working directory")
}

// treeDigest is the shell's hash_of (deploy/lib/common.sh) of a directory in which tools leave nothing behind.
func treeDigest(tree fs.FS) (string, error) {
	var names []string
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	slices.Sort(names) // a walk has a directory's files before what only begins like its name
	all := sha256.New()
	for _, name := range names {
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%x  ./%s\n", sha256.Sum256(data), name)
	}
	return hex.EncodeToString(all.Sum(nil))[:16], nil
}
