package e2e

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// shownIn is what the cells of a notebook that was executed show, by their ids: text, and "(image/png)" for a picture.
type shownIn map[string]string

// TestExampleNotebooks executes the examples as their readers do: in kernels of a session, at once, their cells as jobs
// on this host. function_map is executed by the tests of the Python package, which need none.
func TestExampleNotebooks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.askWith("alice", "one", map[string]any{"cpus": 2, "memory": "1G"}).object(t)["id"].(string)
	s.running(id)
	looks := map[string]func(testing.TB, shownIn){
		"hello_grid": helloGrid, "hyperparameter_scan": hyperparameterScan, "histogram_mapreduce": histogramMapReduce,
		"repaired_scan": repairedScan,
	}
	s.put("alice", "testdata/notebooks.py", "notebooks.py")
	for name := range looks {
		s.put("alice", "../../notebooks/src/slipway/examples/"+name+".ipynb", name+".ipynb")
	}
	if failed := s.in("alice", "cd ~ && python3 notebooks.py *.ipynb 2>&1"); strings.Contains(failed, ".ipynb") {
		t.Errorf("not all came to their ends:\n%s", failed)
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) { look(t, s.shown("alice", name+".ipynb")) })
	}
}

// put writes a file of the host's into a user's session, below her home.
func (s *site) put(user, file, to string) {
	s.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.in(user, "base64 -d > ~/"+to+" <<'END'\n"+base64.StdEncoding.EncodeToString(text)+"\nEND")
}

// shown reads a notebook that was executed.
func (s *site) shown(user, name string) shownIn {
	s.t.Helper()
	var book struct {
		Cells []struct {
			ID      string
			Outputs []struct {
				Text   any
				Evalue string // of an error
				Data   map[string]any
			}
		}
	}
	if err := json.Unmarshal([]byte(s.in(user, "cat ~/"+name)), &book); err != nil {
		s.t.Fatal(err)
	}
	out := shownIn{}
	for _, cell := range book.Cells {
		for _, o := range cell.Outputs {
			out[cell.ID] += text(o.Text) + text(o.Data["text/plain"]) + text(o.Data["text/html"]) + o.Evalue
			if o.Data["image/png"] != nil {
				out[cell.ID] += "(image/png)"
			}
		}
	}
	return out
}

// text returns what notebooks keep as a text, or as a list of its lines.
func text(kept any) string {
	lines, ok := kept.([]any)
	if !ok {
		one, _ := kept.(string)
		return one
	}
	all := ""
	for _, line := range lines {
		all += line.(string)
	}
	return all
}

// has looks for words, which are regular expressions, in what a cell shows.
func (shown shownIn) has(t testing.TB, cell string, words ...string) {
	t.Helper()
	for _, want := range words {
		if !regexp.MustCompile(want).MatchString(shown[cell]) {
			t.Errorf("the cell %s does not show %q:\n%s", cell, want, shown[cell])
		}
	}
}

func helloGrid(t testing.TB, shown shownIn) {
	shown.has(t, "job", `environment [0-9a-f]{12} (frozen now|unchanged)`, `job first j-`, `6\.1 `, `first done, exit code 0`)
	shown.has(t, "result", `^42$`)
	shown.has(t, "areas", `\[3\.14159, 12\.56636, 28\.27431\]`)
	shown.has(t, "shapes", `shapes\.py \(\d+ B\): yours, and goes along`, `49\n`)
	shown.has(t, "later", `done done \[<steps\.txt 1 B>\]`, `step 0\nstep 1\nstep 2`)
	shown.has(t, "jobs", `first`, `later`)
}

func hyperparameterScan(t testing.TB, shown shownIn) {
	shown.has(t, "local", `area under the curve 0\.[89]`)
	shown.has(t, "scan", `scan btag scan-.*, 8 points`, `btag: 8 done`)
	shown.has(t, "table", `0\.0001`, `'area': 0\.9`)
	shown.has(t, "best", `'lr': '0\.0?1'`, `'area': 0\.9[0-9]+`, `curve\.npz`)
	shown.has(t, "plot", `image/png`)
}

func histogramMapReduce(t testing.TB, shown shownIn) {
	shown.has(t, "map", `[0-9]{4,5} pairs of muons, most of them at (90|91) GeV`)
	shown.has(t, "reduce", `run0\.root [0-9]{4,5}`, `run3\.root [0-9]{4,5}`)
	shown.has(t, "check", `^\(True, [0-9]{5}\)`)
	shown.has(t, "plot", `image/png`)
}

func repairedScan(t testing.TB, shown shownIn) {
	shown.has(t, "define", `^2 done, 3 failed\n$`)
	shown.has(t, "failed", `(?m)^400000 \| memory \| .*retry\(mem=`, `(?m)^500000 \| memory \| `, `(?m)^-500 \| exit \| .*TypeError`)
	shown.has(t, "card", `toys = len\(toys\)  # the bug`)
	shown.has(t, "retry", `^4 done, 1 failed\n\[1, 1, 2, 2, 2\]`)
	shown.has(t, "done", `^\{'1000': 0\.1[0-9]*, '10000': 0\.1[0-9]*, '400000': 0\.1, '500000': 0\.1\}`)
	shown.has(t, "mend", `'-500': 0\.[01]`)
	shown.has(t, "resubmit", `^True True\n$`)
}
