package sshgate

import (
	"errors"
	"strings"
	"unicode"

	"slipway/internal/errs"
)

// tell tells of the start, once of each step.
func (v *visitor) tell(message string) {
	message = plain(message)
	v.mu.Lock()
	defer v.mu.Unlock()
	if message == "" || message == v.latest {
		return
	}
	v.latest = message
	for l := range v.lines {
		l.hear(message)
	}
}

// plain takes out what a terminal would act on.
func plain(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
}

// words says an error to its user, in lines. What only the site's people can act on is in the log.
func words(err error) []string {
	if errs.Is(err, errs.Internal) {
		return []string{"the session cannot be reached now; your administrator finds the reason in the service's log"}
	}
	return told(err)
}

// told returns an error's lines: where it names things, these and what to do have their own.
func told(err error) []string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || len(e.Details) == 0 {
		return []string{plain(err.Error())}
	}
	lines := []string{plain(errs.Brief(err))}
	for _, d := range e.Details {
		lines = append(lines, plain(d.String()))
	}
	if e.Remedy != "" {
		lines = append(lines, plain(e.Remedy))
	}
	return lines
}

// mostNews is how many steps of a start may wait for a client to read them. What comes then is not told.
const mostNews = 16

// hear takes news of the start, once there is somebody to read them. It waits for nobody. The visitor's lock is held.
func (l *line) hear(message string) {
	select {
	case <-l.begun:
	default:
		return
	}
	select {
	case l.news <- message:
	default:
	}
}

// start says that there is somebody to tell things, and has told what was told last.
func (l *line) start() {
	l.v.mu.Lock()
	defer l.v.mu.Unlock()
	select {
	case <-l.begun:
		return
	default:
		close(l.begun)
	}
	if l.v.waits() && l.v.latest != "" {
		l.hear(l.v.latest)
	}
}

// report tells the client the news, until the start is over.
func (l *line) report() {
	for {
		select {
		case m := <-l.news:
			l.say(m)
		case <-l.v.ready:
			l.reportRest()
			return
		case <-l.gone:
			return
		case <-l.v.ctx.Done():
			return
		}
	}
}

func (l *line) reportRest() {
	for {
		select {
		case m := <-l.news:
			l.say(m)
		default:
			return
		}
	}
}

// say writes lines to the client's stderr.
func (l *line) say(lines ...string) {
	end := "\n"
	if l.pty.Load() {
		end = "\r\n"
	}
	_, _ = lockedWriter{&l.out, l.near.Stderr()}.Write([]byte("slipway: " + strings.Join(lines, end+"slipway: ") + end))
}

// sayGoodbye tells the user at her terminals why the connection ends.
func (v *visitor) sayGoodbye(why string) {
	v.mu.Lock()
	var terminals []*line
	for l := range v.lines {
		if l.near != nil && l.pty.Load() {
			terminals = append(terminals, l)
		}
	}
	v.mu.Unlock()
	for _, l := range terminals {
		if l.out.TryLock() { // else something is stuck there, and would be here
			_, _ = l.near.Stderr().Write([]byte("\r\nslipway: " + plain(why) + "\r\n"))
			l.out.Unlock()
		}
	}
}
