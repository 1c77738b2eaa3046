package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway/images/squashfs"
)

// TestPackagesAreBounded: a session can lay down any number of packages with names of any length.
func TestPackagesAreBounded(t *testing.T) {
	long := Package{Name: "a", Path: strings.Repeat("p", 9)}
	for most, want := range map[int]int{3 * (packageWords + 10): 3, 3*(packageWords+10) - 1: 2} {
		l := looker{most: most, out: &Inventory{}}
		l.add(slices.Repeat([]Package{long}, 3)...)
		l.add(long)
		if len(l.out.Packages) != want || len(l.out.Trouble) != 1 || !strings.Contains(l.out.Trouble[0], "packages are left out") {
			t.Errorf("of %d: %d packages, %q", most, len(l.out.Packages), l.out.Trouble)
		}
	}
}

// TestRepositoriesAreBounded: a small file can name thousands.
func TestRepositoriesAreBounded(t *testing.T) {
	l := looker{most: 1 << 20, out: &Inventory{}}
	var found finds
	for i := range maxRepositories + 5 {
		at := fmt.Sprintf("/l%d", i)
		found.links = append(found.links, place{at, &squashfs.Node{Kind: squashfs.Symlink, Target: fmt.Sprintf("/cvmfs/r%d.cern.ch/x", i)}})
	}
	found.links = append(found.links, place{"/again", &squashfs.Node{Kind: squashfs.Symlink, Target: "/cvmfs/r0.cern.ch/y"}})
	l.cvmfs(t.Context(), found)
	i := slices.IndexFunc(l.out.CVMFS, func(r Repository) bool { return r.Name == "r0.cern.ch" })
	if len(l.out.CVMFS) != maxRepositories || i < 0 || l.out.CVMFS[i].Files != 2 || len(l.out.CVMFS[i].First) != 2 {
		t.Errorf("%d repositories", len(l.out.CVMFS))
	}
	l = looker{most: len("/l0/again") - 1, out: &Inventory{}}
	l.cvmfs(t.Context(), finds{links: []place{found.links[0], found.links[len(found.links)-1]}})
	if r := l.out.CVMFS[0]; r.Files != 2 || len(r.First) != 1 {
		t.Errorf("%+v", r)
	}
}
