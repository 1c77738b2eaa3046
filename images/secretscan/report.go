package secretscan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"slipway/internal/errs"
)

// Report is the outcome of a scan.
type Report struct {
	Findings []Finding // what stops the freeze, by path and line
	Allowed  []Finding // what the user allowed, for the audit log and the manifest
	Unused   []string  // what she allowed and where nothing was found: perhaps a mistyped path
	More     int       // files with findings beyond those that are kept
}

// Report judges what was found, once all files were looked at. tree is the tree that is to be frozen: a finding in a
// file that is not there any more is dropped, and so is one in a file that a package published as it is (pip's RECORD,
// conda's and dpkg's lists have its sum). The lists are read only when there is something to look up. A nil tree drops
// nothing.
func (s *Scanner) Report(ctx context.Context, tree Tree) (Report, error) {
	s.mu.Lock()
	files, more := maps.Clone(s.files), len(s.more)
	s.mu.Unlock()
	if tree != nil {
		dropAbsent(files, tree)
		s.judgeSources(files, tree)
		if err := dropPublished(ctx, files, tree); err != nil {
			return Report{}, fmt.Errorf("look up published files: %w", err)
		}
	}
	r := Report{More: more}
	used := map[string]bool{}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if rule, ok := s.allowed(p); ok {
			r.Allowed = append(r.Allowed, files[p].findings...)
			used[rule] = true
			continue
		}
		r.Findings = append(r.Findings, files[p].findings...)
	}
	r.Unused = slices.DeleteFunc(slices.Clone(s.allow), func(rule string) bool { return used[rule] })
	return r, nil
}

func (s *Scanner) allowed(p string) (rule string, ok bool) {
	for _, rule := range s.allow {
		if rule == p || strings.HasSuffix(rule, "/") && strings.HasPrefix(p, rule) {
			return rule, true
		}
	}
	return "", false
}

func dropAbsent(files map[string]suspect, tree Tree) {
	maps.DeleteFunc(files, func(p string, _ suspect) bool {
		f, err := tree.Open(p)
		if err == nil {
			_ = f.Close()
		}
		return errors.Is(err, fs.ErrNotExist)
	})
}

// shown bounds the findings that an error tells.
const shown = 20

// Err returns the error that stops the freeze; nil when nothing stands in its way.
func (r Report) Err() error {
	if len(r.Findings) == 0 && r.More == 0 {
		return nil
	}
	files := map[string]bool{}
	var list []errs.Detail
	for _, f := range r.Findings {
		files[f.Path] = true
		list = append(list, f.detail())
	}
	if n := len(list) - shown; n > 0 {
		list = append(list[:shown], errs.Detail{What: fmt.Sprintf("and %d more", n)})
	}
	if r.More > 0 {
		list = append(list, errs.Detail{What: fmt.Sprintf("and %d more files", r.More)})
	}
	what := fmt.Sprintf("%d files hold secrets", len(files)+r.More)
	if len(files)+r.More == 1 {
		what = "a file holds a secret"
	}
	return errs.New(errs.Conflict, "nothing was frozen: %s", what).Naming(list).
		With("delete it, move it to the home directory, which is in no environment, or let it be published with" +
			" slipway freeze --allow-secret " + r.remedy() + ", which is recorded")
}

// remedy is what to allow. Who has given a directory by its name alone has allowed nothing below it, and is told.
func (r Report) remedy() string {
	for _, rule := range r.Unused {
		if !strings.HasSuffix(rule, "/") && slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.HasPrefix(f.Path, rule+"/") }) {
			return strconv.Quote(rule+"/") + " (a directory with all below it has a slash at its end)"
		}
	}
	return "PATH"
}

// String returns the file, the line and the kind in words. A path with odd characters is quoted.
func (f Finding) String() string { return f.detail().String() }

// detail is the finding as an error names it. A path that JSON cannot hold is quoted.
func (f Finding) detail() errs.Detail {
	name := f.Path
	if !utf8.ValidString(name) {
		name = strconv.QuoteToASCII(name)
	}
	return errs.Detail{Path: name, Line: f.Line, What: f.Kind.Text()}
}
