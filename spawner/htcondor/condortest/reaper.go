package condortest

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// label marks containers and networks; its value is the pool's mark.
const label = "slipway.condortest"

// script waits for the end of its input, which comes with the end of the test program, whichever way that ends. Then it
// removes everything of one pool.
const script = `
read -r _
docker ps --all --quiet --filter "label=$1=$2" | xargs --no-run-if-empty docker rm --force --volumes
docker network ls --quiet --filter "label=$1=$2" | xargs --no-run-if-empty docker network rm
rm -rf --one-file-system "$3"
`

// reaper is the process that removes a pool.
type reaper struct {
	cmd   *exec.Cmd
	input io.Closer
}

// newReaper starts it before there is anything to remove. It is in a session of its own, and has none of the test
// program's files: who kills that with its group, or waits for its output to end, does not meet the reaper.
func newReaper(mark, dir string) (*reaper, error) {
	r := &reaper{cmd: exec.Command("sh", "-c", script, "reaper", label, mark, dir)}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r.cmd.Dir = "/"
	input, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r.input = input
	return r, r.cmd.Start()
}

// reap has it do its work, and waits.
func (r *reaper) reap() error {
	if err := r.input.Close(); err != nil {
		return err
	}
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("remove a pool: %w", err)
	}
	return nil
}
