package inventory

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const head = "b05065e4bf2aa46742ee43d768ef9d53bdfbf64e"

func TestCheckouts(t *testing.T) {
	want := Checkout{Path: "/opt/repo", Commit: head, Branch: "main", Remote: "https://git.example/ana/fit.git", State: Clean}
	change := func(f func(*Checkout)) Checkout {
		c := want
		f(&c)
		return c
	}
	later := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	touched := func(content string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(content), Mode: 0o644, ModTime: later}
	}
	modified := change(func(c *Checkout) { c.State, c.Modified = Modified, 1 })
	unknown := func(why string) Checkout { return change(func(c *Checkout) { c.State, c.Why = Unknown, why }) }
	both := map[string]struct {
		files fstest.MapFS
		want  Checkout
	}{
		"as committed":                 {nil, want},
		"a new time alone":             {fstest.MapFS{"opt/repo/fit.py": touched("print(1)\n")}, want},
		"the same length":              {fstest.MapFS{"opt/repo/fit.py": touched("print(2)\n")}, modified},
		"another length":               {fstest.MapFS{"opt/repo/fit.py": touched("print(12)\n")}, modified},
		"deleted":                      {fstest.MapFS{"opt/repo/sub/cuts.csv": nil}, modified},
		"a link that points elsewhere": {fstest.MapFS{"opt/repo/run": link("other.py")}, modified},
		"a file for a link":            {fstest.MapFS{"opt/repo/run": touched("fit.py")}, modified},
		"executable now":               {fstest.MapFS{"opt/repo/fit.py": {Data: []byte("print(1)\n"), Mode: 0o755, ModTime: later}}, modified},
		"executable, and nobody minds": {fstest.MapFS{
			"opt/repo/fit.py":      {Data: []byte("print(1)\n"), Mode: 0o755, ModTime: later},
			"opt/repo/.git/config": file("[core]\n\tfilemode = false\n[remote \"origin\"]\nurl=https://git.example/ana/fit.git\n"),
		}, want},
		"untracked files":       {fstest.MapFS{"opt/repo/sub/a": touched("a"), "opt/repo/b": link("a")}, change(func(c *Checkout) { c.Others = 2 })},
		"no index":              {fstest.MapFS{"opt/repo/.git/index": nil}, unknown("it has no index")},
		"an index of nonsense":  {fstest.MapFS{"opt/repo/.git/index": file(strings.Repeat("x", 40))}, unknown("its index: it is none")},
		"line endings by magic": {fstest.MapFS{"opt/repo/.git/config": file("[core]\nautocrlf = input\n[remote \"origin\"]\nurl=https://git.example/ana/fit.git\n")}, unknown("core.autocrlf is set")},
		"attributes": {
			fstest.MapFS{"opt/repo/.gitattributes": touched("*.py filter=lfs"), "opt/repo/fit.py": touched("print(2)\n")},
			change(func(c *Checkout) {
				c.State, c.Others, c.Why = Unknown, 1, "its .gitattributes may make files differ from objects"
			}),
		},
	}
	for _, archive := range []string{"checkout-loose", "checkout-packed"} {
		files := unpack(t, "testdata/"+archive+".tar.gz", "opt")
		for name, c := range both {
			t.Run(archive+"/"+name, func(t *testing.T) {
				i := look(t, Config{Tree: newStore().tree(with(files, c.files))})
				if d := cmp.Diff([]Checkout{c.want}, i.Git); d != "" {
					t.Error(d)
				}
				if i.Outside.Files != 0 {
					t.Errorf("outside: %v", i.Outside.First)
				}
			})
		}
	}
}

// Where git itself would look into a file, equal times say nothing.
func TestCheckoutsThatGitItselfIsNotSureOf(t *testing.T) {
	whole := unpack(t, "testdata/checkout-loose.tar.gz", "opt")
	fit, index := *whole["opt/repo/fit.py"], *whole["opt/repo/.git/index"]
	fit.Data = []byte("print(2)\n")
	unsure := index
	x, err := parseGitIndex(index.Data)
	must(t, err)
	at := 12 // the first entry's size lies behind nine words
	if x.entries[0].path != "fit.py" {
		t.Fatal(x.entries)
	}
	unsure.Data = slices.Concat(index.Data[:at+36], make([]byte, 4), index.Data[at+40:])
	young := index
	young.ModTime = fit.ModTime
	for name, c := range map[string]struct {
		index fstest.MapFile
		want  State
	}{"an older file": {index, Clean}, "a file as young as the index": {young, Modified}, "an index without the size": {unsure, Modified}} {
		list := look(t, Config{Tree: newStore().tree(with(whole, fstest.MapFS{"opt/repo/fit.py": &fit, "opt/repo/.git/index": &c.index}))}).Git
		if len(list) != 1 || list[0].State != c.want {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

func TestCheckoutsOfOtherKinds(t *testing.T) {
	whole := unpack(t, "testdata/checkout-packed.tar.gz", "opt")
	detached := with(whole, fstest.MapFS{"opt/repo/.git/HEAD": file(head + "\n")})
	staged := with(whole, fstest.MapFS{"opt/repo/.git/refs/heads/main": file(strings.Repeat("ab", 20))})
	sub := fstest.MapFS{}
	for name, f := range whole {
		sub[strings.Replace(name, "opt/repo/.git/", "opt/super/.git/modules/repo/", 1)] = f
	}
	sub["opt/repo/.git"] = file("gitdir: ../super/.git/modules/repo\n")
	maps.DeleteFunc(sub, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, "opt/repo/.git/") })
	further := fstest.MapFS{"opt/repo/.git": file("gitdir: /opt/main/.git/worktrees/w\n")}
	for name, f := range whole {
		inRepo, ok := strings.CutPrefix(name, "opt/repo/.git/")
		switch {
		case !ok:
			further[name] = f
		case inRepo == "HEAD" || inRepo == "index":
			further["opt/main/.git/worktrees/w/"+inRepo] = f
		default:
			further["opt/main/.git/"+inRepo] = f
		}
	}
	further["opt/main/.git/worktrees/w/commondir"] = file("../..\n")
	for name, c := range map[string]struct {
		files  fstest.MapFS
		branch string
		state  State
		why    string
		none   bool
	}{
		"detached":                {files: detached, state: Clean},
		"a submodule":             {files: sub, branch: "main", state: Clean},
		"a further working tree":  {files: further, branch: "main", state: Clean},
		"a commit that is absent": {files: staged, branch: "main", state: Unknown, why: "its commit could not be read"},
		"an empty .git":           {files: fstest.MapFS{"opt/repo/.git/config": file("")}, none: true},
		"a link":                  {files: fstest.MapFS{"opt/repo/.git": link("/elsewhere")}, none: true},
	} {
		list := look(t, Config{Tree: newStore().tree(c.files)}).Git
		if c.none {
			if len(list) != 0 {
				t.Errorf("%s: %+v", name, list)
			}
			continue
		}
		if len(list) != 1 || list[0].Branch != c.branch || list[0].State != c.state || list[0].Why != c.why {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

func TestCleanURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://git.example/a/b.git":                    "https://git.example/a/b.git",
		"https://alice:s3cret@git.example/a/b.git":       "https://git.example/a/b.git",
		"https://glpat-xyz@git.example/a.git":            "https://git.example/a.git",
		"ssh://git:pw@git.example:22/a.git":              "ssh://git@git.example:22/a.git",
		"git+ssh://git@git.example/a.git":                "git+ssh://git@git.example/a.git",
		"git@git.example:a/b.git":                        "git@git.example:a/b.git",
		"oauth2:token@git.example:a/b.git":               "git.example:a/b.git",
		"https://x.example/f.whl?private_token=t#sha=1":  "https://x.example/f.whl",
		"https://conda.example/t/tk-1/forge/linux-64":    "https://conda.example/forge/linux-64",
		"https://conda.example/a%2Fb/t/tk%2F1/forge":     "https://conda.example/a/b/1/forge",
		"/srv/git/a.git":                                 "/srv/git/a.git",
		"file:///srv/git/a.git":                          "file:///srv/git/a.git",
		"conda-forge":                                    "conda-forge",
		"https://us er:p@x\x01/":                         "",
		"://":                                            "",
		"https://" + strings.Repeat("x", 5000):           "",
		"a/b:secret@host:x":                              "host:x",
		"https://h.example/a.git\nurl = https://x:y@z/a": "",
	} {
		if got := cleanURL(in); got != want {
			t.Errorf("cleanURL(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzCleanURL(f *testing.F) {
	f.Add("https", "alice", "geheimnis", "git.example/a")
	f.Fuzz(func(t *testing.T, scheme, user, password, rest string) {
		if in := scheme + user + password + rest; word(in) != in {
			t.Skip() // what is quoted holds digits of its own
		}
		if len(password) < 4 || strings.ContainsAny(password, "@/?#") || strings.Contains(scheme+user+rest, password) || strings.ContainsAny(scheme+user, "@/?#") {
			t.Skip()
		}
		for _, in := range []string{scheme + "://" + user + ":" + password + "@" + rest, user + ":" + password + "@" + rest} {
			if got := cleanURL(in); strings.Contains(got, password) {
				t.Errorf("cleanURL(%q) = %q", in, got)
			}
		}
	})
}

func FuzzGitIndex(f *testing.F) {
	for _, name := range []string{"loose", "packed"} {
		f.Add([]byte(unpack(f, "testdata/checkout-"+name+".tar.gz", "")["repo/.git/index"].Data))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := parseGitIndex(b)
		if err == nil && len(x.entries)*fixedLength > len(b) {
			t.Errorf("%d entries of %d bytes", len(x.entries), len(b))
		}
	})
}

func FuzzGitObjects(f *testing.F) {
	for _, name := range []string{"loose", "packed"} {
		for at, file := range unpack(f, "testdata/checkout-"+name+".tar.gz", "") {
			if strings.HasPrefix(at, "repo/.git/objects/") {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (string, error){parseLooseCommit, parsePackedCommit} {
			if id, err := parse(b); err == nil && !objectName.MatchString(id) {
				t.Errorf("%q", id)
			}
		}
		if off, ok := packOffset(b, head); ok && off < 0 {
			t.Error(off)
		}
		packedRef(b, "refs/heads/main")
		parseGitConfig(b)
	})
}
