package webui

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"slipway/spawner"
)

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	n, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// all gives the elements of a name below n.
func all(n *html.Node, name string) (found []*html.Node) {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == name {
			found = append(found, d)
		}
	}
	return found
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func catalogue() spawner.Catalogue {
	return spawner.Catalogue{
		Images: []spawner.ImageChoice{{Name: "notebook", Title: "Python <3>", Ref: "x"}, {Name: "root", Ref: "y"}},
		Profiles: []spawner.Profile{
			{Name: "small", Title: "Small", Description: `<script>alert("x")</script>`, Images: []string{"notebook"}, CPUs: 1, MaxCPUs: 2, Memory: 2 << 30, MaxMemory: 6 << 30, Default: true},
			{Name: `big" onclick="x`, Images: []string{"root", "notebook"}, CPUs: 4, Memory: 4 << 30},
		},
	}
}

func spawnForm(t *testing.T) *html.Node {
	t.Helper()
	var b bytes.Buffer
	if err := SpawnForm(&b, Form{Catalogue: catalogue()}); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.String())
}

func TestFormHasItsFields(t *testing.T) {
	doc := spawnForm(t)
	if len(all(doc, "form")) > 0 {
		t.Error("the Hub's page has the form")
	}
	radios := []string{}
	for _, in := range all(doc, "input") {
		if attr(in, "type") == "radio" && attr(in, "name") == "profile" {
			radios = append(radios, attr(in, "value"))
			if has(in, "checked") != (attr(in, "value") == "small") {
				t.Errorf("%q: checked is %t", attr(in, "value"), has(in, "checked"))
			}
		}
	}
	if !slices.Equal(radios, []string{"small", `big" onclick="x`}) {
		t.Errorf("profiles %q", radios)
	}
	options := map[string][]string{}
	for _, s := range all(doc, "select") {
		for _, o := range all(s, "option") {
			options[attr(s, "name")] = append(options[attr(s, "name")], attr(o, "value"))
		}
	}
	if !slices.Equal(options["image"], []string{"", "notebook", "root"}) || !slices.Equal(options["memory"], []string{"", "512M", "1G", "2G", "4G", "6G"}) {
		t.Errorf("choices %q", options)
	}
	for _, in := range all(doc, "input") {
		if attr(in, "name") == "cpus" && (attr(in, "type") != "number" || attr(in, "min") == "" || attr(in, "max") != "4" || attr(in, "step") == "") {
			t.Errorf("cpus: %v", in.Attr)
		}
	}
}

func TestFormIsAccessible(t *testing.T) {
	doc := spawnForm(t)
	labels := map[string]bool{}
	for _, l := range all(doc, "label") {
		labels[attr(l, "for")] = text(l) != ""
	}
	for _, name := range []string{"input", "select"} {
		for _, field := range all(doc, name) {
			inLabel := field.Parent != nil && field.Parent.Data == "label"
			if !inLabel && !labels[attr(field, "id")] {
				t.Errorf("%s %q has no label", name, attr(field, "name"))
			}
		}
	}
	for _, f := range all(doc, "fieldset") {
		if len(all(f, "legend")) != 1 {
			t.Error("a fieldset lacks its legend")
		}
	}
	ids := map[string]bool{}
	for d := range doc.Descendants() {
		if id := attr(d, "id"); id != "" {
			ids[id] = true
		}
	}
	for d := range doc.Descendants() {
		if by := attr(d, "aria-describedby"); by != "" && !ids[by] {
			t.Errorf("%q is described by nothing", by)
		}
	}
}

func TestFormEscapesText(t *testing.T) {
	card := all(spawnForm(t), "label")[0]
	if got := text(card); !strings.Contains(got, `<script>alert("x")</script>`) || !strings.Contains(got, "Python <3>") || !strings.Contains(got, "1 CPU (at most 2), 2 GiB of memory (at most 6 GiB)") {
		t.Errorf("the card says %q", got)
	}
	for d := range spawnForm(t).Descendants() {
		if has(d, "onclick") {
			t.Error("a name broke out of its attribute")
		}
	}
}

func TestFormOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := SpawnForm(&b, Form{}); err != nil {
		t.Error(err)
	}
}

func TestNotices(t *testing.T) {
	for _, tc := range []struct {
		show    func(http.ResponseWriter, *http.Request)
		status  int
		refresh bool
	}{
		{NoSession, 404, false},
		{func(w http.ResponseWriter, r *http.Request) { NotUp(w, r, "<b>booting") }, 503, true},
		{Gone, 502, false},
	} {
		r := httptest.NewRequest("GET", "/user/a/", nil)
		plain := httptest.NewRecorder()
		tc.show(plain, r)
		if plain.Code != tc.status || !strings.HasPrefix(plain.Header().Get("Content-Type"), "text/plain") || plain.Body.Len() == 0 {
			t.Errorf("a program gets %d %v %q", plain.Code, plain.Header(), plain.Body)
		}
		r.Header.Set("Accept", "text/html,application/xhtml+xml")
		page := httptest.NewRecorder()
		tc.show(page, r)
		doc := parse(t, page.Body.String())
		if page.Code != tc.status || len(all(doc, "h1")) != 1 || len(all(doc, "b")) > 0 || text(all(doc, "main")[0]) == "" {
			t.Errorf("a browser gets %d %q", page.Code, page.Body)
		}
		refresh := slices.ContainsFunc(all(doc, "meta"), func(n *html.Node) bool { return attr(n, "http-equiv") == "refresh" })
		if refresh != tc.refresh || (page.Header().Get("Retry-After") != "") != tc.refresh {
			t.Errorf("%d asks again: %t", tc.status, refresh)
		}
	}
}

// formOf fills the spawn form.
func formOf(t *testing.T, f Form) *html.Node {
	t.Helper()
	var b bytes.Buffer
	if err := SpawnForm(&b, f); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.String())
}

func TestFormSaysWhatIsFree(t *testing.T) {
	c := catalogue()
	c.Profiles[1].Name = "big"
	doc := formOf(t, Form{Catalogue: c, Active: map[string]int{"root": 2}, Refresh: "/services/slipway/room?key=x&y=1", Rooms: map[string]spawner.Room{
		"small": {Most: 8, Free: 3, Estimate: -1},
		"big":   {Most: 2, Lacks: "4 CPUs asked, 1 of 8 free", Waiting: 1, Estimate: 12 * time.Minute},
	}})
	said := map[string]string{}
	for _, n := range all(doc, "span") {
		if has(n, "data-room") {
			said[attr(n, "data-room")] = text(n) + "/" + attr(n, "class")
		}
	}
	want := map[string]string{
		"small": "3 free now/slipway-room",
		"big":   "none free now: 4 CPUs asked, 1 of 8 free; you would be number 2 in line, about 12 min/slipway-room slipway-full",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	for _, in := range all(doc, "input") {
		if has(in, "disabled") {
			t.Error("a profile cannot be chosen: it offers the line")
		}
	}
	for _, o := range all(doc, "option") {
		if attr(o, "value") == "root" && text(o) != "root (2 in use)" {
			t.Errorf("the image says %q", text(o))
		}
	}
	if got := attr(all(doc, "div")[0], "data-refresh"); got != "/services/slipway/room?key=x&y=1" {
		t.Errorf("asks at %q", got)
	}
	if has(all(formOf(t, Form{Catalogue: c}), "div")[0], "data-refresh") {
		t.Error("asks without an address")
	}
}

func TestFormRemembers(t *testing.T) {
	big := `big" onclick="x`
	for name, tc := range map[string]struct {
		options                      map[string]any
		profile, image, cpus, memory string
		notes                        int
	}{
		"nothing":               {nil, "small", "", "", "", 0},
		"all":                   {map[string]any{"profile": big, "image": "root", "cpus": 2.0, "memory": "3G", "fresh": "yes"}, big, "root", "2", "3G", 0},
		"words":                 {map[string]any{"profile": "small", "cpus": " 1.5 ", "memory": "2048M"}, "small", "", "1.5", "2G", 0},
		"an odd number":         {map[string]any{"cpus": "0.3"}, "small", "", "0.3", "", 0},
		"a profile that left":   {map[string]any{"profile": "<gone>", "image": "root", "cpus": 2.0}, "small", "", "", "", 1},
		"an image that left":    {map[string]any{"profile": "small", "image": "root", "cpus": 2.0}, "small", "", "2", "", 1},
		"more than is offered":  {map[string]any{"profile": "small", "cpus": 64.0, "memory": "1T"}, "small", "", "", "", 2},
		"what makes no sense":   {map[string]any{"profile": []any{}, "image": 7.0, "cpus": true, "memory": nil, "x": "y"}, "small", "", "", "", 1},
		"what is no number":     {map[string]any{"cpus": "NaN", "memory": "-2G"}, "small", "", "", "", 2},
		"the empty word":        {map[string]any{"profile": "", "image": "", "cpus": "", "memory": ""}, "small", "", "", "", 0},
		"memory as a number":    {map[string]any{"memory": 2147483648.0}, "small", "", "", "2G", 0},
		"memory of no one size": {map[string]any{"memory": "1500M"}, "small", "", "", "1500M", 0},
	} {
		doc := formOf(t, Form{Catalogue: catalogue(), Chosen: tc.options})
		got := map[string]string{"image": "", "memory": ""}
		for _, in := range all(doc, "input") {
			switch {
			case attr(in, "name") == "fresh" && has(in, "checked"):
				t.Errorf("%s: a fresh start is remembered", name)
			case attr(in, "type") == "radio" && has(in, "checked"):
				got["profile"] += attr(in, "value")
			case attr(in, "name") == "cpus":
				got["cpus"] = attr(in, "value")
				if odd := attr(in, "step") == "any"; odd != (tc.cpus == "0.3") {
					t.Errorf("%s: the step is %s", name, attr(in, "step"))
				}
			}
		}
		for _, s := range all(doc, "select") {
			for _, o := range all(s, "option") {
				if has(o, "selected") {
					got[attr(s, "name")] += attr(o, "value")
				}
			}
		}
		want := map[string]string{"profile": tc.profile, "image": tc.image, "cpus": tc.cpus, "memory": tc.memory}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		notes := 0
		for _, d := range all(doc, "div") {
			if attr(d, "role") == "note" {
				notes = len(all(d, "div")) - 1 // less the line that says what is chosen instead
			}
		}
		if notes != tc.notes {
			t.Errorf("%s: %d notes", name, notes)
		}
	}
}

func TestWords(t *testing.T) {
	for _, tc := range []struct {
		room spawner.Room
		want string
	}{
		{spawner.Room{Most: -1, Free: -1}, "free"},
		{spawner.Room{Most: 4, Free: 1}, "1 free now"},
		{spawner.Room{Most: 4, Lacks: "others wait in line", Waiting: 3, Estimate: -1}, "none free now: others wait in line; you would be number 4 in line"},
		{spawner.Room{Lacks: "64 CPUs asked, 8 of 8 free"}, "does not fit here: 64 CPUs asked, 8 of 8 free"},
	} {
		if got := RoomWords(tc.room); got != tc.want {
			t.Errorf("%+v: %q", tc.room, got)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "1 min", 30 * time.Second: "1 min", 90 * time.Second: "2 min", time.Hour: "1 h", 125 * time.Minute: "2 h 5 min", 100 * time.Hour: "4 days",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %q", d, got)
		}
	}
}

// someVisit is somebody who looks at a page.
func someVisit() Visit {
	return Visit{User: "alice", Prefix: "/b/services/slipway/", Home: "/b/hub/", Form: "form-word", Stream: "stream-word"}
}

func session(phase spawner.Phase) spawner.Workload {
	return spawner.Workload{ID: "s-1", Kind: spawner.Lab, Owner: "a b", Name: "x/y", Phase: phase, Want: spawner.WantRunning,
		Spec: spawner.Spec{Profile: "small", Image: "x", Prefix: "/b/user/a b/x%y/"}}
}

// TestButtons holds what is offered for a workload to its state.
func TestButtons(t *testing.T) {
	keep := spawner.Prospect{At: time.Now().Add(time.Hour), Why: "idle", CanKeep: true, MaxKeep: 2 * time.Hour}
	job := session(spawner.Running)
	job.ID, job.Kind = "j-1", spawner.Job
	ended := session(spawner.Stopped)
	ended.Outcome = &spawner.Outcome{Failed: true, Reason: "broken"}
	gone := session(spawner.Stopped)
	gone.Want = spawner.WantGone
	ending := session(spawner.Running)
	ending.Want = spawner.WantStopped
	for name, tc := range map[string]struct {
		item  Item
		state string
		want  []string
	}{
		"running":      {Item{Workload: session(spawner.Running), Prospect: keep}, "running", []string{"Open x/y", "Keep x/y for 2 h", "Stop x/y", "Discard x/y ..."}},
		"no keeping":   {Item{Workload: session(spawner.Running)}, "running", []string{"Open x/y", "Stop x/y", "Discard x/y ..."}},
		"waiting":      {Item{Workload: session(spawner.Pending), Queue: spawner.Queue{Place: 2, Estimate: -1}}, "waiting", []string{"Cancel start x/y"}},
		"booting":      {Item{Workload: session(spawner.Booting)}, "starting", []string{"Cancel start x/y"}},
		"stopping":     {Item{Workload: session(spawner.Stopping)}, "stopping", nil},
		"to be ended":  {Item{Workload: ending}, "stopping", nil},
		"failed":       {Item{Workload: ended}, "failed", []string{"Start x/y again", "Discard x/y ..."}},
		"to be gone":   {Item{Workload: gone}, "being discarded", nil},
		"a job":        {Item{Workload: job}, "running", []string{"Cancel x/y"}},
		"being undone": {Item{Workload: session(spawner.Removing)}, "removing", nil},
	} {
		w := httptest.NewRecorder()
		if err := Overview(w, someVisit(), catalogue(), []Item{tc.item}, false); err != nil {
			t.Fatal(err)
		}
		doc := parse(t, w.Body.String())
		var got []string
		for d := range all(doc, "tbody")[0].Descendants() {
			if d.Data == "button" || d.Data == "a" && strings.HasPrefix(attr(d, "class"), "button") {
				got = append(got, text(d))
			}
			if d.Data == "form" && (attr(d, "method") != "post" || !strings.HasPrefix(attr(d, "action"), "/b/services/slipway/") || attr(all(d, "input")[0], "value") != "form-word") {
				t.Errorf("%s: a form %v", name, d.Attr)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if states := text(all(all(doc, "tbody")[0], "td")[0]); !strings.HasPrefix(states, tc.state) {
			t.Errorf("%s: the state is %q", name, states)
		}
	}
}

func TestLinksAreEscaped(t *testing.T) {
	links := func(i Item) (hrefs []string) {
		w := httptest.NewRecorder()
		if err := Overview(w, someVisit(), catalogue(), []Item{i}, false); err != nil {
			t.Fatal(err)
		}
		for _, a := range all(all(parse(t, w.Body.String()), "tbody")[0], "a") {
			hrefs = append(hrefs, attr(a, "href"))
		}
		return hrefs
	}
	if got := links(Item{Workload: session(spawner.Running)}); !slices.Contains(got, "/b/user/a%20b/x%25y/") {
		t.Errorf("%q", got)
	}
	if got := links(Item{Workload: session(spawner.Stopped)}); !slices.Contains(got, "/b/hub/spawn/a%20b/x%2Fy") {
		t.Errorf("%q", got)
	}
}

// TestPagesWithoutScripts holds the pages to asking again by themselves, and to their policy.
func TestPagesWithoutScripts(t *testing.T) {
	for phase, refresh := range map[spawner.Phase]string{spawner.Booting: "3", spawner.Running: "30"} {
		w := httptest.NewRecorder()
		d := Details{Item: Item{Workload: session(phase)}, Tail: "</pre><b>x", Steps: []spawner.Event{{Seq: 7, Percent: 40, Message: "<i>half"}, {Seq: 8, Percent: -1, Message: "on"}}}
		if err := Single(w, someVisit(), catalogue(), d); err != nil {
			t.Fatal(err)
		}
		doc := parse(t, strings.ReplaceAll(w.Body.String(), "noscript", "div"))
		metas := slices.DeleteFunc(all(doc, "meta"), func(n *html.Node) bool { return attr(n, "http-equiv") != "refresh" })
		if len(metas) != 1 || attr(metas[0], "content") != refresh {
			t.Errorf("%s: asks again %d times", phase, len(metas))
		}
		if len(all(doc, "i")) > 0 || len(all(doc, "b")) > 0 || len(all(doc, "li")) != 2 {
			t.Errorf("%s: %s", phase, w.Body)
		}
		bars := all(doc, "progress")
		if moving := phase == spawner.Booting; len(bars) > 0 != moving || moving && (attr(bars[0], "value") != "40" || attr(bars[0], "aria-label") == "") {
			t.Errorf("%s: progress %v", phase, bars)
		}
		for d := range doc.Descendants() {
			for _, a := range d.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || (a.Key == "src" || a.Key == "href" || a.Key == "action") && !strings.HasPrefix(a.Val, "/b/") {
					t.Errorf("%s: <%s %s=%q>", phase, d.Data, a.Key, a.Val)
				}
			}
		}
		for _, element := range []string{"style", "script"} {
			for _, n := range all(doc, element) {
				if nonce := attr(n, "nonce"); nonce == "" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "'nonce-"+nonce+"'") {
					t.Errorf("%s: a %s outside the policy", phase, element)
				}
			}
		}
	}
}

func TestManyJobs(t *testing.T) {
	var items []Item
	for range jobsShown + 7 {
		items = append(items, Item{Workload: spawner.Workload{ID: "j-1", Kind: spawner.Job, Phase: spawner.Stopped}})
	}
	w := httptest.NewRecorder()
	if err := Overview(w, someVisit(), catalogue(), items, false); err != nil {
		t.Fatal(err)
	}
	doc := parse(t, w.Body.String())
	if rows := len(all(doc, "tr")); rows != jobsShown+1 || !strings.Contains(text(doc), "7 older jobs are not shown") {
		t.Errorf("%d rows", rows)
	}
	if !slices.ContainsFunc(all(doc, "a"), func(n *html.Node) bool { return attr(n, "href") == "/b/hub/spawn" }) {
		t.Error("who has no session is not led to one")
	}
}
