package agent

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

const (
	terminalDir  = "/dev/pts"
	maxTerminals = 1000
	maxNotice    = 64 << 10 // bytes of a notice on the wire
)

// notify shows a notice on every terminal of the user's, and in the notebooks of a kernel.
func (a *agent) notify(r *http.Request) error {
	var n control.Notice
	if err := json.NewDecoder(io.LimitReader(r.Body, maxNotice)).Decode(&n); err != nil {
		return errs.New(errs.Invalid, "read the notice: %w", err)
	}
	text := plain(n.Text)
	if text == "" {
		return errs.Bad("text", n.Text, "a text that can be shown")
	}
	if k := a.app.kernelNow(); k != nil {
		k.Tell(text, false)
	}
	a.lookout.speak(a.ctx, func() {
		for _, path := range terminals(terminalDir, os.Getuid()) {
			show(path, noticeLine(text))
		}
	})
	return nil
}

// noticeLine has a plain text stand apart from what is on a terminal, with a bell.
func noticeLine(text string) string { return "\r\n\a" + text + "\r\n" }

// plain makes text one line that is safe wherever it is shown. It is empty when nothing of text can be shown.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r): // also what turns the direction of text
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > control.NoticeLimit {
		const dots = "..."
		text = strings.ToValidUTF8(text[:control.NoticeLimit-len(dots)], "") + dots
	}
	return text
}

// terminals lists the terminals in dir that belong to the user. Where a container shares the node's (Apptainer without
// --contain), they may be terminals of hers outside the session.
func terminals(dir string, uid int) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 32); err != nil || e.Type()&os.ModeCharDevice == 0 ||
			len(list) == maxTerminals {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it has just been closed
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

// show writes to a terminal what it takes now. One that is stopped or that nobody reads shows nothing. It is written by
// the system call alone: Go's files would wait until the terminal takes more.
func show(path, line string) {
	fd, err := syscall.Open(
		path, syscall.O_WRONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0,
	)
	if err != nil {
		return
	}
	defer func() { _ = syscall.Close(fd) }()
	_, _ = syscall.Write(fd, []byte(line))
}
