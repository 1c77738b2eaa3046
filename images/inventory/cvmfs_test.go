package inventory

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func program(content string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(content), Mode: 0o755}
}

// TestRepositories: what leads to CVMFS is found where it decides what runs, and nowhere else.
func TestRepositories(t *testing.T) {
	s := newStore()
	files := fstest.MapFS{
		"opt/view":          {Data: []byte("/cvmfs/sft.cern.ch/lcg/views/LCG_107"), Mode: fs.ModeSymlink},
		"opt/near":          {Data: []byte("/mycvmfs/none.cern.ch/x"), Mode: fs.ModeSymlink},
		site + "lcg.pth":    file("/cvmfs/sft.cern.ch/lcg/python\n/opt/mine\n"),
		"usr/local/bin/run": program("#!/cvmfs/atlas.cern.ch/bin/python3\nprint('/cvmfs/other.cern.ch/')\n"),
		"usr/local/bin/sh":  program("echo /cvmfs/other.cern.ch/\n"),
		"opt/v/pyvenv.cfg":  file("home = /cvmfs/sw.hsf.org/key4hep/bin\n"),
		"etc/profile.d/x":   file("source /cvmfs/cms.cern.ch/cmsset_default.sh; PATH=/cvmfs/cms.cern.ch/bin:$PATH\n"),
		"opt/notes.txt":     file("/cvmfs/other.cern.ch/ is nice"),
	}
	base := s.tree(files)
	alone := look(t, Config{Tree: base})
	one := func(name string, files ...string) Repository { return Repository{name, Listing{len(files), files}} }
	want := []Repository{
		one("atlas.cern.ch", "/usr/local/bin/run"), one("cms.cern.ch", "/etc/profile.d/x"), one("sft.cern.ch", "/"+site+"lcg.pth", "/opt/view"),
		one("sw.hsf.org", "/opt/v/pyvenv.cfg"),
	}
	if d := cmp.Diff(want, alone.CVMFS); d != "" {
		t.Error(d)
	}
	again := look(t, Config{Tree: s.tree(files), Base: &Known{Tree: base, Inventory: alone}})
	if d := cmp.Diff(want, again.CVMFS); d != "" {
		t.Errorf("over its base: %s", d)
	}
}
