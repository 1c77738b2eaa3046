package inventory

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"path"
	"strings"
)

// metadata is what this package wants of a Python distribution's METADATA or PKG-INFO.
type metadata struct {
	name, version, license string
}

// parseMetadata reads the headers of a METADATA file. It is no metadata without a name and a version.
func parseMetadata(b []byte) (m metadata, ok bool) {
	for raw := range bytes.Lines(b) {
		l := strings.TrimRight(string(raw), "\r\n")
		if l == "" {
			break
		}
		key, value, found := strings.Cut(l, ":")
		if !found || l[0] == ' ' || l[0] == '\t' {
			continue
		}
		switch value = word(value); strings.ToLower(key) {
		case "name":
			m.name = first(m.name, value)
		case "version":
			m.version = first(m.version, value)
		case "license-expression":
			m.license = value // says what the older field only hints at
		case "license":
			m.license = first(m.license, shortLicense(value))
		}
	}
	return m, m.name != "" && m.version != ""
}

// shortLicense drops what is no licence's name: some put the whole text there.
func shortLicense(value string) string {
	if len(value) > 100 || value == "UNKNOWN" {
		return ""
	}
	return value
}

func first(have, value string) string {
	if have != "" {
		return have
	}
	return value
}

// origin is where a distribution came from, when not from an index.
type origin struct {
	editable, url, commit string
}

// parseDirectURL reads direct_url.json.
func parseDirectURL(b []byte) origin {
	var d struct {
		URL string `json:"url"`
		Dir struct {
			Editable bool `json:"editable"`
		} `json:"dir_info"`
		VCS struct {
			VCS    string `json:"vcs"`
			Commit string `json:"commit_id"`
		} `json:"vcs_info"`
	}
	if err := json.Unmarshal(b, &d); err != nil || d.URL == "" {
		return origin{}
	}
	o := origin{url: cleanURL(d.URL), commit: word(d.VCS.Commit)}
	if d.VCS.VCS != "" && o.url != "" {
		o.url = word(d.VCS.VCS) + "+" + o.url
	}
	if d.Dir.Editable {
		o.editable, o.url = filePath(d.URL), ""
	}
	return o
}

// eachRecord calls fn with the absolute path of each file that a RECORD lists; site is the directory that it is
// relative to.
func eachRecord(b []byte, site string, fn func(file []byte)) {
	var buf []byte
	for raw := range bytes.Lines(b) {
		name, ok := recordName(bytes.TrimRight(raw, "\r\n"))
		switch {
		case !ok || len(name) == 0:
		case name[0] == '/':
			fn(name)
		case bytes.Contains(name, []byte("..")):
			fn([]byte(path.Join(site, string(name))))
		default:
			buf = append(append(append(buf[:0], site...), '/'), name...)
			fn(buf)
		}
	}
}

// recordName returns the first field of a line of RECORD. Names are quoted only where they must be. A name with a line
// break is not found: it spans lines, and no installer writes one.
func recordName(l []byte) ([]byte, bool) {
	if len(l) > 0 && l[0] == '"' {
		fields, err := csv.NewReader(bytes.NewReader(l)).Read()
		if err != nil {
			return nil, false
		}
		return []byte(fields[0]), true
	}
	name, _, _ := bytes.Cut(l, []byte(","))
	return name, true
}

// parseEggLink returns the directory that a development installation of old points to.
func parseEggLink(b []byte) string {
	dir, _, _ := strings.Cut(string(b), "\n")
	dir = strings.TrimSpace(dir)
	if !strings.HasPrefix(dir, "/") || len(dir) > 4096 {
		return ""
	}
	return path.Clean(dir)
}
