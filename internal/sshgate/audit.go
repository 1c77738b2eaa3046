package sshgate

import (
	"encoding/binary"
	"net"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

// audit logs a channel at its end.
func (l *line) audit() {
	came, went := l.far.Moved()
	attrs := append(
		l.about(), "to_client", came, "to_session", went, "took", time.Since(l.since).Round(time.Millisecond),
	)
	l.v.record().Info(l.called(), attrs...)
}

// missed logs a channel that was not opened.
func (l *line) missed(why error) {
	l.v.record().Info(l.called()+" failed", append(l.about(), "reason", brief(why.Error()))...)
}

// called is the log's name of a channel.
func (l *line) called() string {
	if l.kind == kindSession {
		return "ssh channel"
	}
	return "ssh forward"
}

func (l *line) about() []any {
	attrs := []any{"kind", l.kind}
	if l.to != "" {
		attrs = append(attrs, "to", l.to)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.what != "" {
		attrs = append(attrs, "what", l.what)
	}
	return attrs
}

// ran notes what the session has begun to run in the channel. A command is its user's own matter, and may have secrets
// in it.
func (l *line) ran(r *ssh.Request) {
	what := r.Type
	if r.Type == "subsystem" {
		var s struct{ Name string }
		if ssh.Unmarshal(r.Payload, &s) == nil {
			what += " " + shorten(s.Name, mostName)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.what = what
}

// listened logs that the client wants to be connected to from inside, and what came of it.
func (v *visitor) listened(r *ssh.Request, ok bool, answer []byte) {
	if !listens(r.Type) {
		return
	}
	what := "ssh listening"
	if !ok {
		what += " failed"
	}
	v.record().Info(what, "kind", r.Type, "at", listenAddress(r, answer))
}

// listens reports whether a request is to listen inside.
func listens(kind string) bool {
	return kind == "tcpip-forward" || kind == "streamlocal-forward@openssh.com"
}

// listenAddress returns the address in a request to listen (RFC 4254 section 7.1), with the port that the answer has
// where any was asked for.
func listenAddress(r *ssh.Request, answer []byte) string {
	if r.Type != "tcpip-forward" {
		var a struct{ Path string }
		_ = ssh.Unmarshal(r.Payload, &a)
		return brief(a.Path)
	}
	var a struct {
		Host string
		Port uint32
	}
	if ssh.Unmarshal(r.Payload, &a) != nil {
		return ""
	}
	if a.Port == 0 && len(answer) == 4 {
		a.Port = binary.BigEndian.Uint32(answer)
	}
	return brief(net.JoinHostPort(a.Host, strconv.FormatUint(uint64(a.Port), 10)))
}
