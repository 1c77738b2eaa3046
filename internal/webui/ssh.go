package webui

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"slipway/hubapi"
)

// SSHView is what the page of ssh is made of.
type SSHView struct {
	Keys         []hubapi.SSHKey
	Certificates []hubapi.SSHCertificate // that hold now
	Places       []SSHPlace              // where the visitor gets by ssh: her default server first
	Life         time.Duration           // of certificates
	Fingerprints []string                // of the host keys
	KnownHosts   string                  // the line of the authority that signs them
	Config       string                  // the entries for ssh's configuration; empty: her name cannot be written there
	Command      string                  // logs a computer in; empty: the service's own address is not known

	Status  int    // of the answer; 0: 200
	Wrong   string // what was wrong with the key that was typed; empty: nothing
	Comment string // that was typed with it
}

// SSHPlace is a session or profile with what is typed to get there.
type SSHPlace struct {
	Title, Detail string
	Line          string // empty: its name cannot be typed
}

type sshBody struct {
	SSHView
	Visit Visit
	Back  string // as in row: these forms send none
}

// SSHPage answers with the visitor's keys and what she types.
func SSHPage(w http.ResponseWriter, v Visit, view SSHView) error {
	return write(
		w, cmp.Or(view.Status, http.StatusOK), "ssh.html",
		frame{Title: "SSH", Script: true, Visit: v, Body: sshBody{SSHView: view, Visit: v}},
	)
}

// The files that the blocks for pasting write, beside what `slipway ssh login` writes.
const (
	pasteInclude = "Include config.d/slipway-page.conf"
	pasteEnd     = "END-OF-SLIPWAY"
)

// Unix is what a user of macOS or Linux pastes into a terminal: her own configuration gets one line in front, once. A
// configuration that is a link is written through.
func (b sshBody) Unix() string {
	return strings.Join([]string{
		"(",
		"umask 077",
		"mkdir -p ~/.ssh/config.d",
		"cat > ~/.ssh/config.d/slipway-page.conf <<'" + pasteEnd + "'",
		b.Config + pasteEnd,
		"touch ~/.ssh/config ~/.ssh/known_hosts",
		"grep -qxF '" + pasteInclude + "' ~/.ssh/config || {",
		"  { echo '" + pasteInclude + "'; echo; cat ~/.ssh/config; } > ~/.ssh/config.d/slipway-page.tmp &&",
		"  cat ~/.ssh/config.d/slipway-page.tmp > ~/.ssh/config && rm ~/.ssh/config.d/slipway-page.tmp",
		"}",
		"grep -qxF '" + b.KnownHosts + "' ~/.ssh/known_hosts || echo '" + b.KnownHosts + "' >> ~/.ssh/known_hosts",
		")",
	}, "\n")
}

// Windows is the same for PowerShell. What it writes has no mark of its encoding in front, which ssh would not
// understand.
func (b sshBody) Windows() string {
	return strings.Join([]string{
		`& {`,
		`$ssh = "$HOME\.ssh"`,
		`New-Item -ItemType Directory -Force "$ssh\config.d" | Out-Null`,
		`function Read-It($file) { if (Test-Path $file) { [IO.File]::ReadAllText($file) } else { "" } }`,
		`[IO.File]::WriteAllText("$ssh\config.d\slipway-page.conf", @'`,
		b.Config + `'@ + "` + "`n" + `")`,
		`$config = Read-It "$ssh\config"`,
		`if (-not $config.Contains('` + pasteInclude + `')) {`,
		`  [IO.File]::WriteAllText("$ssh\config", '` + pasteInclude + "' + \"`n`n\" + $config)",
		`}`,
		`$known = Read-It "$ssh\known_hosts"`,
		`if (-not $known.Contains('` + b.KnownHosts + `')) {`,
		`  [IO.File]::AppendAllText("$ssh\known_hosts", '` + b.KnownHosts + "' + \"`n\")",
		`}`,
		`}`,
	}, "\n")
}

// Session says in words what a certificate opens.
func (b sshBody) Session(c hubapi.SSHCertificate) string {
	switch c.Session {
	case hubapi.AnySession:
		return "all sessions"
	case "":
		return "the default server alone"
	default:
		return "the server " + c.Session + " alone"
	}
}
