package inventory

import (
	"bytes"
	"strings"
)

// parseDpkgStatus returns the packages that dpkg says are installed, whatever else it remembers.
func parseDpkgStatus(b []byte) []Package {
	var out []Package
	var p Package
	var installed bool
	end := func() {
		if installed && p.Name != "" && p.Version != "" {
			out = append(out, p)
		}
		p, installed = Package{Manager: Apt}, false
	}
	end()
	for raw := range bytes.Lines(b) {
		l := bytes.TrimRight(raw, "\r\n")
		if len(l) == 0 {
			end()
			continue
		}
		key, value, found := bytes.Cut(l, []byte(":"))
		if !found || l[0] == ' ' || l[0] == '\t' {
			continue
		}
		switch string(key) {
		case "Package":
			p.Name = word(string(value))
		case "Version":
			p.Version = word(string(value))
		case "Architecture":
			p.Architecture = word(string(value))
		case "Status": // "install ok installed": what is wanted, whether it is sound, what it is
			words := bytes.Fields(value)
			installed = len(words) == 3 && string(words[2]) == "installed"
		}
	}
	end()
	return out
}

// parseOSRelease reads /etc/os-release.
func parseOSRelease(b []byte) System {
	var s System
	for raw := range bytes.Lines(b) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(raw)), "=")
		value = word(strings.Trim(value, `"'`))
		switch key {
		case "ID":
			s.ID = value
		case "VERSION_ID":
			s.Version = value
		case "PRETTY_NAME":
			s.Name = value
		}
	}
	return s
}

// eachLine calls fn with each line that is not empty.
func eachLine(b []byte, fn func(l []byte)) {
	for raw := range bytes.Lines(b) {
		if l := bytes.TrimRight(raw, "\n"); len(l) > 0 {
			fn(l)
		}
	}
}
