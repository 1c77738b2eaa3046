package testenv

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// reaperScript waits for the end of its input, which comes with the end of the test program, whichever way that ends. Then it
// removes all containers and networks of a label, and a directory.
const reaperScript = `
read -r _
docker ps --all --quiet --filter "label=$1=$2" | xargs --no-run-if-empty docker rm --force --volumes
docker network ls --quiet --filter "label=$1=$2" | xargs --no-run-if-empty docker network rm
rm -rf --one-file-system "$3"
`

// Reaper is a process that removes what a test program has made of containers, also when that is killed.
type Reaper struct {
	cmd   *exec.Cmd
	input io.Closer
}

// NewReaper starts it before there is anything to remove. It is in a session of its own, and has none of the test
// program's files: who kills that with its group, or waits for its output to end, does not meet the reaper.
func NewReaper(label, mark, dir string) (*Reaper, error) {
	r := &Reaper{cmd: exec.Command("sh", "-c", reaperScript, "reaper", label, mark, dir)}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r.cmd.Dir = "/"
	input, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r.input = input
	return r, r.cmd.Start()
}

// Reap has it do its work, and waits.
func (r *Reaper) Reap() error {
	if err := r.input.Close(); err != nil {
		return err
	}
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("remove what was made for tests: %w", err)
	}
	return nil
}
