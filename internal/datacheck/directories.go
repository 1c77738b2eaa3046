package datacheck

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"slipway/hubapi"
	"slipway/internal/mounts"
)

// cvmfs reads in each repository, each in a process of its own. Those known to be silent are left alone: a process that
// hangs there cannot be held still, and so the session could not be frozen meanwhile.
func (d *doctor) cvmfs(ctx context.Context) []hubapi.DataCheck {
	if len(d.Plan.CVMFS) == 0 {
		return nil
	}
	silent := func(name string) bool { return slices.Contains(d.Plan.Silent, name) }
	p := d.prober(d.CVMFS, "cvmfs", slices.DeleteFunc(slices.Clone(d.Plan.CVMFS), silent)...)
	p.Round(ctx)
	var out []hubapi.DataCheck
	for _, name := range d.Plan.CVMFS {
		check := "CVMFS " + name
		r, known := p.Of(name)
		switch {
		case silent(name):
			out = append(out, fail(check, "it does not answer on this host; it was not tried in here", noRepository))
		case !known:
			out = append(out, fail(check, "it does not answer", noRepository))
		case r.Trouble == "":
			out = append(out, good(check, "read in %s", words(r.Took)))
		case d.Plan.Remote:
			out = append(
				out,
				warn(check, "on this host, which is not the service's, it "+r.Trouble, repositoryRemedy(r.Trouble)),
			)
		default:
			out = append(out, fail(check, "it "+r.Trouble, repositoryRemedy(r.Trouble)))
		}
	}
	return out
}

const noRepository = "programs that read there hang or fail: look again in a minute, and tell your administrator if it stays so"

// repositoryRemedy is for one that has answered, if only that it is not there.
func repositoryRemedy(trouble string) string {
	if strings.Contains(trouble, syscall.ENOENT.Error()) { // the words of another process
		return "it is not there: tell your administrator, who sees whether its name is right and whether this host can mount it"
	}
	return noRepository
}

func (d *doctor) prober(dir, locks string, names ...string) *mounts.Prober {
	locks = filepath.Join(d.Scratch, strings.ReplaceAll(locks, "/", "_"))
	_ = os.MkdirAll(locks, 0o700) // the child says what is wrong with it
	return mounts.NewProber(
		mounts.ProberConfig{Dir: dir, Names: names, Deadline: oneDeadline, Program: d.Probe, Locks: locks},
	)
}

// mounts looks at the directories that show a storage element.
func (d *doctor) mounts(ctx context.Context, e hubapi.DataElement) []hubapi.DataCheck {
	var out []hubapi.DataCheck
	for _, m := range e.Mounts {
		name := path.Base(m.Path) + "/." // which may be empty
		p := d.prober(path.Dir(m.Path), "mount-"+path.Base(m.Path), name)
		p.Round(ctx)
		r, known := p.Of(name)
		switch {
		case m.Trouble != "":
			out = append(out, fail("directory "+m.Path, "it is not there now: "+m.Trouble, mountRemedy))
		case !known:
			out = append(out, fail("directory "+m.Path, "it does not answer", mountRemedy))
		case r.Trouble != "":
			out = append(out, fail("directory "+m.Path, "it "+r.Trouble, mountRemedy))
		default:
			out = append(out, good("directory "+m.Path, "answers in %s", words(r.Took)))
		}
	}
	return out
}

const mountRemedy = "it is mounted again by itself once the storage answers; leave the directory and enter it again; `slipway data url` gives the way past it"
