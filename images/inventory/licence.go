package inventory

import (
	"regexp"
	"slices"
	"strings"
)

// licenseIDs are the SPDX identifiers that packages commonly name. What is not here is not claimed: an SBOM may name no
// licence that SPDX does not know.
func licenseIDs() []string {
	return []string{
		"0BSD", "AFL-2.1", "AGPL-3.0-only", "AGPL-3.0-or-later", "Apache-2.0", "Artistic-2.0", "BSD-1-Clause",
		"BSD-2-Clause", "BSD-3-Clause",
		"BSD-3-Clause-Clear", "BSD-4-Clause", "BSL-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "CC0-1.0", "CDDL-1.0",
		"CECILL-2.1", "CNRI-Python", "ECL-2.0",
		"EPL-1.0", "EPL-2.0", "EUPL-1.2", "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later",
		"HPND", "ICU", "IJG", "ISC",
		"LGPL-2.0-only", "LGPL-2.0-or-later", "LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-only",
		"LGPL-3.0-or-later", "LPPL-1.3c", "Libpng",
		"MIT", "MIT-0", "MIT-CMU", "MPL-1.1", "MPL-2.0", "MS-PL", "NCSA", "OFL-1.1", "OLDAP-2.8", "OpenSSL", "PSF-2.0",
		"PostgreSQL",
		"Python-2.0", "Python-2.0.1", "Ruby", "SISSL", "TCL", "UPL-1.0", "Unicode-3.0", "Unicode-DFS-2016",
		"Unlicense", "Vim", "W3C",
		"WTFPL", "X11", "ZPL-2.1", "Zlib", "blessing", "bzip2-1.0.6", "curl", "libtiff", "zlib-acknowledgement",
	}
}

var licenseWord = regexp.MustCompile(`\(|\)|[^\s()]+`)

// licenseExpression returns an SPDX licence expression when s is one of known identifiers, "" otherwise.
func licenseExpression(s string) string {
	var out []string
	depth, wantID := 0, true
	for _, w := range licenseWord.FindAllString(s, -1) {
		switch {
		case w == "(" && wantID:
			depth++
		case w == ")" && !wantID && depth > 0:
			depth--
		case (w == "AND" || w == "OR") && !wantID:
			wantID = true
		case wantID && slices.Contains(licenseIDs(), w):
			wantID = false
		default:
			return ""
		}
		out = append(out, w)
	}
	if depth != 0 || wantID {
		return ""
	}
	return strings.NewReplacer("( ", "(", " )", ")").Replace(strings.Join(out, " "))
}
