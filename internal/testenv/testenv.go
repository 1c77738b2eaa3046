// Package testenv says which real parts a test needs. A test of a real part skips with its reason where the part is
// missing, and fails when SLIPWAY_TEST_REQUIRE (a comma-separated list of part names) names it: so CI cannot pass by skipping.
package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Part names a real component that a test needs.
type Part string

// The parts.
const (
	Root       Part = "root"
	Docker     Part = "docker"     // a Docker Engine that answers
	Notebook   Part = "notebook"   // the image slipway/notebook:1 in the engine
	Mksquashfs Part = "mksquashfs" // squashfs-tools
	Apptainer  Part = "apptainer"  // Apptainer on PATH, or named by SLIPWAY_APPTAINER
	Loop       Part = "loop"       // loop devices that can be mounted
)

// NotebookImage is the image that deploy/images/notebook builds.
const NotebookImage = "slipway/notebook:1"

// Need skips the test when a part is missing here, and fails it when SLIPWAY_TEST_REQUIRE names that part.
func Need(t testing.TB, parts ...Part) {
	t.Helper()
	for _, p := range parts {
		err := probe(p)
		if err == nil {
			continue
		}
		if slices.Contains(strings.Split(os.Getenv("SLIPWAY_TEST_REQUIRE"), ","), string(p)) {
			t.Fatalf("%s is required here and missing: %v", p, err)
		}
		t.Skipf("%s is missing: %v", p, err)
	}
}

// ApptainerPath gives the program that tests run as Apptainer.
func ApptainerPath() string {
	if p := os.Getenv("SLIPWAY_APPTAINER"); p != "" {
		return p
	}
	return "apptainer"
}

func probe(p Part) error {
	switch p {
	case Root:
		if os.Geteuid() != 0 {
			return fmt.Errorf("running as uid %d", os.Geteuid())
		}
		return nil
	case Docker:
		c, err := net.DialTimeout("unix", "/var/run/docker.sock", time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	case Notebook:
		return exec.Command("docker", "image", "inspect", NotebookImage).Run()
	case Mksquashfs:
		return onPath("mksquashfs")
	case Apptainer:
		return onPath(ApptainerPath())
	case Loop:
		_, err := os.Stat("/dev/loop-control")
		return err
	default:
		return fmt.Errorf("unknown part %q", p)
	}
}

func onPath(program string) error {
	_, err := exec.LookPath(program)
	return err
}
