package inventory

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

func meta() Meta {
	return Meta{
		Name: "ana v1", Digest: "sha256:" + strings.Repeat("ab", 32), Tool: "slipway-1.0",
		Created: time.Date(2026, 11, 21, 12, 0, 0, 5, time.FixedZone("", 3600)),
	}
}

func TestSPDX(t *testing.T) {
	i := look(t, Config{Tree: newStore().tree(disk(t, "testdata/env")), Path: venvPath})
	b, err := SPDX(i, meta())
	must(t, err)
	golden(t, "sbom.spdx.json", b)
	again, err := SPDX(i, meta())
	must(t, err)
	if !bytes.Equal(b, again) {
		t.Error("equal input gave other bytes")
	}
	validSPDX(t, b)
}

// validSPDX checks what the specification of SPDX 2.3 asks of the parts that are written.
func validSPDX(t *testing.T, b []byte) {
	t.Helper()
	var d spdxDocument
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	must(t, strict.Decode(&d))
	id := regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	locator := regexp.MustCompile(`^pkg:[a-z]+(/[^\s/@?#]+)+@[^\s@?#]+(\?[^\s#]+)?$`)
	uri := regexp.MustCompile(`^https://[^\s#]+$`)
	if d.Version != "SPDX-2.3" || d.License != "CC0-1.0" || d.ID != "SPDXRef-DOCUMENT" || d.Name == "" || !uri.MatchString(d.Namespace) {
		t.Errorf("head: %+v", d)
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", d.Creation.Created); err != nil || len(d.Creation.Creators) == 0 {
		t.Errorf("creation: %+v", d.Creation)
	}
	ids := []string{d.ID}
	for _, p := range d.Packages {
		if !id.MatchString(p.ID) || slices.Contains(ids, p.ID) || p.Name == "" || p.Location == "" {
			t.Errorf("package: %+v", p)
		}
		if p.Declared != noAssertion && licenseExpression(p.Declared) == "" {
			t.Errorf("licence: %+v", p)
		}
		for _, r := range p.Refs {
			if !locator.MatchString(r.Locator) || strings.Contains(r.Locator, "secret") {
				t.Errorf("purl: %s", r.Locator)
			}
		}
		ids = append(ids, p.ID)
	}
	for _, r := range d.Relationships {
		if !slices.Contains(ids, r.From) || !slices.Contains(ids, r.To) {
			t.Errorf("relationship: %+v", r)
		}
	}
	if len(d.Relationships) != len(d.Packages) {
		t.Errorf("%d relationships of %d packages", len(d.Relationships), len(d.Packages))
	}
}

func TestSPDXOfOddNames(t *testing.T) {
	p := Package{Manager: Pip, Name: "a/b c\nd@e?f#g", Version: "1+cu128 é", Path: "/x", Source: "/y", License: "MIT OR Apache-2.0"}
	b, err := SPDX(Inventory{Packages: []Package{p, p, {Manager: Apt, Name: "x", Version: "1:2~3+b1"}, {Manager: R, Name: "y", Version: "1"}}}, meta())
	must(t, err)
	validSPDX(t, b)
	if !bytes.Contains(b, []byte("pkg:deb/debian/x@1:2~3%2Bb1")) {
		t.Errorf("%s", b)
	}
}

func TestSPDXRefusesWhatNamesNothing(t *testing.T) {
	for _, spoil := range []func(*Meta){
		func(m *Meta) { m.Digest = "sha256:1" }, func(m *Meta) { m.Name = "" }, func(m *Meta) { m.Tool = "" }, func(m *Meta) { m.Created = time.Time{} },
	} {
		m := meta()
		spoil(&m)
		if _, err := SPDX(Inventory{}, m); !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func TestLicenseExpression(t *testing.T) {
	got := map[string]string{}
	for _, in := range []string{
		"MIT", " MIT ", "(MIT OR Apache-2.0) AND BSD-3-Clause", "mit", "BSD", "MIT OR", "OR MIT", "MIT Apache-2.0", "(MIT", "MIT)", "()", "",
		"GPL-2.0-only WITH Classpath-exception-2.0", "LicenseRef-x", "GPL (>= 2)", "MIT AND (ISC)",
	} {
		if e := licenseExpression(in); e != "" {
			got[in] = e
		}
	}
	want := map[string]string{
		"MIT": "MIT", " MIT ": "MIT", "(MIT OR Apache-2.0) AND BSD-3-Clause": "(MIT OR Apache-2.0) AND BSD-3-Clause", "MIT AND (ISC)": "MIT AND (ISC)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
