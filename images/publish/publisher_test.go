package publish

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/images/blob"
	"slipway/internal/errs"
)

// site is a Publisher, what it is to publish, and what its programs said.
type site struct {
	t      *testing.T
	dir    string
	wanted []Entry
	cfg    Config
	bad    string // environment that cannot be read
	unpack error
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	s.cfg = Config{
		Name: "cvmfs", Directory: filepath.Join(s.dir, "root"), SIF: true, Unpacked: true, State: filepath.Join(s.dir, "state", "cvmfs.json"),
		Wanted: func() ([]Entry, error) { return s.wanted, nil },
		SIFOf: func(_ context.Context, digest string) (string, blob.Blob, error) {
			if digest == s.bad {
				return "", nil, errs.New(errs.Conflict, "it is damaged")
			}
			return blob.Digest([]byte("sif " + digest)), blob.Bytes([]byte("sif " + digest)), nil
		},
		Unpack: s.unpacked, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if err := os.Mkdir(s.cfg.Directory, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// unpacked does what render.Directory does.
func (s *site) unpacked(_ context.Context, root, digest, link string) error {
	if s.unpack != nil {
		return s.unpack
	}
	hexPart := strings.TrimPrefix(digest, "sha256:")
	tree := filepath.Join(".flat", hexPart[:2], hexPart)
	at := filepath.Join(root, link)
	if err := errors.Join(os.MkdirAll(filepath.Join(root, tree), 0o755), os.MkdirAll(filepath.Dir(at), 0o755)); err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(root, tree, "tree"), []byte(digest), 0o644), os.Symlink(filepath.Join("..", tree), at))
}

func digestOf(text string) string { return blob.Digest([]byte(text)) }

func (s *site) open() *Publisher {
	s.t.Helper()
	o, err := New(s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s *site) round(o *Publisher) error { return o.round(s.t.Context()) }

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// tree lists what is in the directory: names with what they lead to.
func (s *site) tree() []string {
	s.t.Helper()
	var out []string
	s.must(filepath.WalkDir(s.cfg.Directory, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(s.cfg.Directory, path)
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if _, broken := os.Stat(path); broken != nil {
				target = "broken"
			}
			out = append(out, name+" "+target)
			return err
		}
		if d.Type().IsRegular() {
			out = append(out, name)
		}
		return nil
	}))
	return out
}

// complete is the tree that entries make.
func (s *site) complete(list ...Entry) []string {
	seen := map[string]bool{}
	var out []string
	add := func(line string) {
		if !seen[line] {
			seen[line] = true
			out = append(out, line)
		}
	}
	for _, e := range list {
		hexPart := strings.TrimPrefix(e.Digest, "sha256:")
		if s.cfg.Unpacked {
			add(".flat/" + hexPart[:2] + "/" + hexPart + "/tree")
			add(e.link() + " ../.flat/" + hexPart[:2] + "/" + hexPart)
		}
		if file := strings.TrimPrefix(digestOf("sif "+e.Digest), "sha256:") + ".sif"; s.cfg.SIF {
			add(file)
			add(e.Owner + "/" + e.Name + "/" + e.Tag + ".sif ../../" + file)
		}
	}
	slices.Sort(out)
	return out
}

func (s *site) shows(what string, list ...Entry) {
	s.t.Helper()
	got := s.tree()
	slices.Sort(got)
	if diff := cmp.Diff(s.complete(list...), got); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestTheDirectoryFollowsWhatIsWanted(t *testing.T) {
	s := newSite(t)
	one := Entry{"alice", "ana", "v1", digestOf("one")}
	latest := Entry{"alice", "ana", "latest", digestOf("one")}
	two := Entry{"bob", "tools", "V2", digestOf("two")}
	moved := Entry{"alice", "ana", "v1", digestOf("three")}
	o := s.open()
	for i, wanted := range [][]Entry{{one}, {one, latest, two}, {one, latest, two}, {latest, two}, {moved, latest, two}, {moved}, {}, {two}} {
		s.wanted = wanted
		s.must(s.round(o))
		s.shows("step "+string(rune('0'+i)), wanted...)
		if i%2 == 1 {
			o = s.open() // a restart
		}
	}
	if got := o.Of(two.Digest); len(got) != 1 || got[0] != "bob/tools:V2" || o.Stats().Published != 1 {
		t.Errorf("%q, %+v", got, o.Stats())
	}
	s.must(os.Remove(filepath.Join(s.cfg.Directory, "bob/tools/V2.sif"))) // somebody's mistake
	o = s.open()
	s.must(s.round(o))
	s.shows("repaired", two)
	s.cfg.Unpacked = false
	s.must(s.round(s.open()))
	s.shows("only SIFs", two)
	s.cfg.Unpacked, s.cfg.SIF = true, false
	s.must(s.round(s.open()))
	s.shows("only trees", two)
}

func TestWhatOthersHavePublishedStays(t *testing.T) {
	s := newSite(t)
	theirs := filepath.Join(s.cfg.Directory, "alice", "notes")
	s.must(errors.Join(os.MkdirAll(filepath.Dir(theirs), 0o755), os.WriteFile(theirs, nil, 0o644)))
	o := s.open()
	s.wanted = []Entry{{"alice", "ana", "v1", digestOf("one")}}
	s.must(s.round(o))
	s.wanted = nil
	s.must(s.round(o))
	if got := s.tree(); len(got) != 1 || got[0] != "alice/notes" {
		t.Errorf("%q", got)
	}
}

// TestAKilledPublicationIsFinished: whatever a change had come to when the service died, the next one leaves what is
// wanted.
func TestAKilledPublicationIsFinished(t *testing.T) {
	one, two, three := Entry{"alice", "ana", "v1", digestOf("one")}, Entry{"alice", "ana", "v2", digestOf("two")}, Entry{"alice", "ana", "v1", digestOf("three")}
	for _, then := range [][]Entry{{three, two}, {two}, {one}, {}} {
		for _, cut := range []string{"before", "within", "after"} {
			s := newSite(t)
			s.wanted = []Entry{one}
			s.must(s.round(s.open()))
			s.wanted = []Entry{three, two}
			broken := errors.New("killed")
			switch cut {
			case "before":
				s.cfg.Begin = []string{"false"}
			case "within":
				s.unpack = broken
			case "after":
				s.cfg.Publish = []string{"false"}
			}
			if err := s.round(s.open()); err == nil {
				t.Fatalf("%s: it was not stopped", cut)
			}
			s.cfg.Begin, s.cfg.Publish, s.unpack = nil, nil, nil
			s.wanted = then
			s.must(s.round(s.open()))
			s.shows(cut, then...)
		}
	}
}

// TestSitesPrograms: a transaction is opened when there is something to do, published once, and given up after a
// failure.
func TestSitesPrograms(t *testing.T) {
	s := newSite(t)
	said := filepath.Join(s.dir, "said")
	say := func(word string) []string { return []string{"sh", "-c", `echo "$1" >> "$0"`, said, word} }
	s.cfg.Begin, s.cfg.Publish, s.cfg.Abort = say("begin"), say("publish"), say("abort")
	expect := func(want ...string) {
		t.Helper()
		data, err := os.ReadFile(said)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if got := strings.Fields(string(data)); !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
		_ = os.Remove(said)
	}
	o := s.open()
	s.must(s.round(o))
	expect()
	s.wanted = []Entry{{"alice", "ana", "v1", digestOf("one")}}
	s.must(s.round(o))
	expect("begin", "publish")
	s.must(s.round(o))
	expect()
	s.must(s.round(s.open()))
	expect()
	s.wanted = []Entry{{"alice", "ana", "v1", digestOf("two")}}
	s.unpack = errors.New("no space")
	if err := s.round(o); err == nil {
		t.Error("no error")
	}
	expect("begin")
	s.unpack = nil
	s.must(s.round(s.open()))
	expect("abort", "begin", "publish")
	s.cfg.Begin = []string{"sh", "-c", "echo the repository is locked >&2; exit 3"}
	s.wanted = nil
	if err := s.round(s.open()); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("%v", err)
	}
}

func TestOneThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	s := newSite(t)
	good, bad := Entry{"alice", "ana", "v1", digestOf("good")}, Entry{"alice", "ana", "v2", digestOf("bad")}
	s.wanted, s.bad = []Entry{bad, good}, bad.Digest
	o := s.open()
	for range 2 {
		if err := s.round(o); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "alice/ana:v2") {
			t.Errorf("%v", err)
		}
		s.shows("the good one", good)
	}
}

func TestRunTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.must(os.Remove(s.cfg.Directory)) // not mounted
		s.wanted = []Entry{{"alice", "ana", "v1", digestOf("one")}}
		o := s.open()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- o.Run(ctx) }()
		synctest.Wait()
		if err := o.Stats().Problem; !errs.Is(err, errs.Unavailable) {
			t.Errorf("%v", err)
		}
		s.must(os.Mkdir(s.cfg.Directory, 0o755))
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := o.Stats(); st.Problem != nil || st.Published != 1 {
			t.Errorf("%+v", st)
		}
		s.shows("mounted", s.wanted...)
		cancel()
		s.must(<-done)
	})
}
